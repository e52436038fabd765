"""SuiSei as a Lightning module: how the regressor is trained on human ratings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.data.sample import CaptionSample
from suisei.encoders.half_weights import converted_at_once
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.precision import quick_gradients
from suisei.encoders.text_config import TextEncoderConfig
from suisei.errors import ConfigError, ModelError
from suisei.models.batch import Batch
from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
from suisei.models.inputs import blank
from suisei.models.regressor import Outputs, Regressor
from suisei.models.table import Collator, SampleTable
from suisei.ranges import DROPOUT, check
from suisei.training.building import build_regressor, taught_parts
from suisei.training.checkpoints import DATA
from suisei.training.cross_fitting import PartEncoder
from suisei.training.loop_states import LOSSES
from suisei.training.losses import require_finite
from suisei.training.objective import LossConfig, Objective
from suisei.training.optimizers import OptimizerConfig, build_optimizer, schedule_factor
from suisei.training.pass_states import StatesOf, no_states
from suisei.training.preparing import Ahead, Preparation
from suisei.training.pretraining import PretrainingConfig
from suisei.training.pretraining_loop import Progress
from suisei.training.processes import average_norms, gather_rows, total, world_size
from suisei.training.random_states import random_states
from suisei.training.step_training import ResumableTraining
from suisei.training.support import Support
from suisei.training.validated import correlations, scored


def no_progress(_: str, __: int) -> Callable[[int], Any]:
    """Report nothing."""
    return lambda _: None


class SuiSei(ResumableTraining):
    """Trains the regressor with mean squared error on ratings in [0, 1], and what ``loss`` adds to it.

    Args:
        text: which text encoder.
        image: which image encoder; null for a model without image.
        fusion: how captions and image become one feature vector.
        head: the feed-forward network.
        optimizer: learning rates and schedule.
        loss: what is lowered beside the squared error.
        reference_dropout: probability that a training sample loses all its references.
        image_dropout: probability that a training sample loses its image.
        pretraining: how the text encoder is trained on captions before any rating is seen; null for
            not at all.

    Attributes:
        needs: which of "references" and "image" each metric among the extra inputs needs, by name.
        mixed: whether encoders compute in bf16 ahead of the training, as the trainer then lets them.
        ahead: what frozen encoders, or frozen lower layers, have said of the samples by then.
    """

    regressor: Regressor

    def __init__(
        self,
        text: TextEncoderConfig = TextEncoderConfig(),  # noqa: B008 - jsonargparse reads the default
        image: ImageEncoderConfig | None = ImageEncoderConfig(),  # noqa: B008
        fusion: FusionConfig = FusionConfig(),  # noqa: B008
        head: HeadConfig = HeadConfig(),  # noqa: B008
        optimizer: OptimizerConfig = OptimizerConfig(),  # noqa: B008
        loss: LossConfig = LossConfig(),  # noqa: B008
        reference_dropout: float = 0.1,
        image_dropout: float = 0.1,
        pretraining: PretrainingConfig | None = None,
    ) -> None:
        super().__init__()
        check("model.reference_dropout", reference_dropout, DROPOUT)
        check("model.image_dropout", image_dropout, DROPOUT)
        fused = fusion.blocks is None or len(fusion.blocks) > 0
        if pretraining is not None and pretraining.cross_fit and (fused or not text.frozen):
            raise ConfigError(
                "model.pretraining.cross_fit makes several text encoders, whose vectors do not compare: it "
                "needs model.fusion.blocks: [] and model.text.frozen: true"
            )
        if head.bridge is not None:
            raise ConfigError(
                "model.head.bridge is what suisei add-bridge fits to a trained model; set it to null"
            )
        if head.start == "cosines":
            raise ConfigError(
                "model.head.start: cosines is what suisei add-images makes of a model; train with cosine"
            )
        if pretraining and pretraining.image_epochs and image and head.start and not text.frozen:
            raise ConfigError(
                "the text encoder learns from ratings, and an image encoder taught before would no longer "
                "agree with it: set model.image to null, and give the trained model one (suisei add-images)"
            )
        self.config = RegressorConfig(text, image, fusion, head)
        self.objective = Objective(loss)
        self.mixed = False
        self.optimizer_config = optimizer
        self.pretraining = pretraining
        self.reference_dropout = reference_dropout
        self.image_dropout = image_dropout
        self.needs: Mapping[str, Collection[str]] = {}
        self._parts: list[PartEncoder] = []
        self.ahead = Ahead()
        self.data_digests: dict[str, str] = {}
        self._validation: list[Tensor] = []
        self._losses: list[Tensor] = []
        self._text_is_frozen: bool | None = None

    # -- building ---------------------------------------------------------------------------------

    def build(
        self,
        training: Sequence[CaptionSample],
        support: Support | None = None,
        *,
        rated: Sequence[CaptionSample] | None = None,
        seed: int = 0,
        progress: Progress = no_progress,
        states: StatesOf = no_states,
    ) -> None:
        """Make the regressor: encoders, vocabulary and idf, all from the training data alone.

        Args:
            training: the training samples.
            support: captions and rated pairs that help beside them.
            rated: those of the training samples that people rated, which idf and the ranks of ratings are
                counted in; None for all.
            seed: decides what pre-training draws.
            progress: reports long work.
            states: keeps the state of every pre-training, and gives it to go on from.
        """
        self.regressor, self._parts = build_regressor(
            self.config,
            self.pretraining,
            training,
            support or Support(),
            rated=training if rated is None else rated,
            seed=seed,
            progress=progress,
            states=states,
        )
        self.note_frozen(but=taught_parts(self.pretraining))

    def prepare(
        self,
        table: SampleTable,
        training: Sequence[int],
        progress: Progress,
        device: torch.device | str | None = None,
    ) -> Collator:
        """Tokenise and decode a table once, compute what frozen encoders say of it, fit the extras.

        Args:
            table: all samples of the run.
            training: positions of the training samples.
            progress: reports long work.
            device: where frozen encoders compute; None for where the model is, to which it returns.
        """
        taught = self.pretraining is not None and self.pretraining.epochs > 0  # words of other captions too
        parts, self._parts = self._parts, []
        preparation = Preparation(self.regressor, self.objective, progress, parts, taught, self.mixed)
        collate, self.ahead = preparation.of(table, training, device)
        return collate

    # -- training ---------------------------------------------------------------------------------

    def keep_random_states(self, device: torch.device) -> None:
        """Begin the first batch with the random numbers of now: the trainer seeds several processes anew."""
        self._random_states = random_states(device)

    def configure_optimizers(self) -> Any:
        """Return Adam with one group per learning rate, and the schedule."""
        optimizer = build_optimizer(self.regressor, self.optimizer_config, self.objective)
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, schedule_factor(self.optimizer_config, total)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def forward(self, batch: Batch) -> Tensor:
        """Return scores in (0, 1), float32 [B]."""
        return self.member_scores(batch).mean(dim=0)

    def member_scores(self, batch: Batch) -> Tensor:
        """Return the scores in (0, 1) of every member, float32 [members, B]."""
        return torch.sigmoid(self.outputs(batch).logits)

    def outputs(self, batch: Batch) -> Outputs:
        """Return what the model says of a batch; what was computed ahead of the training is looked up."""
        return self.ahead.outputs(self.regressor, batch)

    def on_fit_start(self) -> None:
        """Let encoders drop what they drop: transformers hands them over as they are for scoring."""
        self.train()

    def on_train_start(self) -> None:
        """Let what is followed batch by batch be that of the batches of all processes."""
        self.regressor.whole_batch = gather_rows
        self._text_is_frozen = None

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Freeze the text encoder for the first part of the first epoch; restore random numbers."""
        super().on_train_batch_start(batch, batch_idx)
        if self.config.text.frozen:
            return
        frozen_batches = self.optimizer_config.frozen_fraction * float(self.trainer.num_training_batches)
        frozen = self.current_epoch == 0 and batch_idx < frozen_batches
        if frozen != self._text_is_frozen:  # every step anew it would cost a GPU's time
            self._text_is_frozen = frozen
            self.regressor.text.set_trainable(not frozen, layers=self.config.text.trained_layers)

    def _converted(self) -> AbstractContextManager[None]:
        """Return what has a GPU convert the weights of the text encoder at once."""
        text = self.config.text
        if self.device.type != "cuda" or text.frozen or text.checkpointing:
            return nullcontext()
        return converted_at_once(self.regressor.text.backbone, "cuda")

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch whose references and images are dropped at random.

        What is logged is the mean over the batches whose gradients are accumulated for a step. Several
        processes each return as many times their part of the loss as they are: the trainer takes the mean of
        their gradients, which is then the gradient of the whole batch.
        """
        self._drop(batch)
        with quick_gradients(recomputed=self.config.text.checkpointing), self._converted():
            part: Tensor = self.objective(self.outputs(batch), batch)
        loss = total(part.detach()) if world_size() > 1 else part
        place = f"epoch {self.current_epoch + 1}, step {self.global_step + 1}"
        require_finite(loss, self.regressor, place, "model.optimizer.head_lr and its like")
        self._losses.append(loss.detach())
        self.log("train_loss", torch.stack(self._losses).mean(), prog_bar=True, batch_size=len(batch))
        return part * world_size() if world_size() > 1 else part

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin the mean of losses anew: the last batch of this step has been seen."""
        self._losses.clear()

    def _drop(self, batch: Batch) -> None:
        columns = self.regressor.columns
        if self.reference_dropout:
            keep = _drawn(batch) >= self.reference_dropout
            batch.reference_mask = batch.reference_mask & keep[:, None]
            blank(batch.extras, ~keep, columns.needing("references", self.needs))
        looking = columns.needing("image", self.needs)
        if self.image_dropout and (self.regressor.image is not None or looking):
            keep = _drawn(batch) >= self.image_dropout
            batch.image_mask = batch.image_mask & keep
            blank(batch.extras, ~keep, looking)

    # -- validation -------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        """Let all processes validate the same model."""
        average_norms(self.regressor)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Collect number, score and rating of a validation batch's samples, each in one process."""
        columns = (torch.full_like(batch.target, batch_idx), self(batch).float(), batch.target)
        rows = torch.stack([c.cpu().double() for c in columns], dim=1)[: batch.counted]
        self._validation.append(rows[scored(self.regressor, batch, self.needs).cpu()[: batch.counted]])

    def on_validation_epoch_end(self) -> None:
        """Log loss, Pearson and Kendall tau-b of the whole validation split.

        A correlation that is not defined (all scores equal) is NaN, which no checkpoint is kept for.
        """
        rows = torch.cat(self._validation)
        self._validation.clear()
        if world_size() > 1:  # of each batch the first process has the first samples, and so on
            rows = gather_rows(rows.to(self.device)).cpu()
            rows = rows[rows[:, 0].argsort(stable=True)]
        scores, target = rows[:, 1], rows[:, 2]
        pearson, kendall = correlations(scores, target)
        self.log("val_loss", F.mse_loss(scores, target).float())
        self.log("val_pearson", pearson, prog_bar=True)
        self.log("val_kendall", kendall, prog_bar=True)

    # -- checkpoints, for resuming only -----------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the state of the random numbers and what the weights belong to; frozen weights stay out."""
        super().on_save_checkpoint(checkpoint)
        checkpoint[LOSSES] = list(self._losses)
        checkpoint["suisei_fingerprint"] = self._fingerprint()
        checkpoint[DATA] = self.data_digests

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another vocabulary, idf table or encoder."""
        if not any(name.endswith(".used_rows") for name in checkpoint["state_dict"]):
            self.regressor.text.keep_all()  # it was written by a version that trained all embeddings
        if checkpoint.get("suisei_fingerprint") != self._fingerprint():
            raise ModelError(
                "the checkpoint was trained with another vocabulary, other training data or another encoder; "
                "resume with the config, data and model.text.name of the run that wrote it"
            )
        super().on_load_checkpoint(checkpoint)
        self._losses = [loss.to(self.device) for loss in checkpoint.get(LOSSES, [])]

    def _fingerprint(self) -> str:
        vocabulary = sorted(self.regressor.text.tokenizer.get_vocab().items())
        idf = self.regressor.idf
        content = repr((vocabulary, idf.documents, dict(idf.frequencies)))
        if self.regressor.text.used_rows is not None:
            content += self.regressor.text.used_rows.digest
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def _drawn(batch: Batch) -> Tensor:
    """Return a random number in [0, 1) for every sample; processes that share a batch draw for all of it."""
    device = batch.candidate.device
    if batch.place is None:
        return torch.rand(len(batch), device=device)
    return torch.rand(batch.whole, device=device)[batch.place]
