"""Training of a captioner with cross-entropy.

Shape letters: B images of a batch, K captions of each, L tokens, V pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.captioning.caption_data import CaptionBatch
from suisei.captioning.caption_figures import Figures
from suisei.captioning.caption_model import Decoding
from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig
from suisei.captioning.word_pretraining import WordPretraining
from suisei.errors import ConfigError
from suisei.ranges import DROPOUT, LEARNING_RATE, WEIGHT_DECAY, Range, Rule, at_least, check_settings
from suisei.training.augment import Augmentation
from suisei.training.losses import require_finite
from suisei.training.processes import token_weight, total, world_size
from suisei.training.step_training import ResumableTraining

IGNORED = -100
RULES: dict[str, Rule] = {
    "vocabulary": at_least(8),
    "label_smoothing": DROPOUT,
    "learning_rate": LEARNING_RATE,
    "tower_learning_rate": LEARNING_RATE,
    "weight_decay": WEIGHT_DECAY,
    "warmup_fraction": Range(0, 1),
}


class CaptionTraining(ResumableTraining):
    """Trains a captioner to say what people said.

    Args:
        tower: the visual tower.
        layers: the size of encoder and decoder.
        pretraining: how a tower that starts from random weights learns first.
        vocabulary: number of sentencepiece pieces at most, learned from the training captions.
        label_smoothing: share of a target that is spread over all pieces.
        learning_rate: highest rate of encoder and decoder.
        tower_learning_rate: highest rate of a tower that learns.
        weight_decay: of AdamW; matrices alone decay.
        warmup_fraction: share of the steps in which the rate rises, before it falls to zero on a cosine.
        augmentation: how training images are changed where the tower learns.
    """

    def __init__(
        self,
        tower: TowerConfig = TowerConfig(),  # noqa: B008 - jsonargparse reads the default
        layers: TransformerConfig = TransformerConfig(),  # noqa: B008
        pretraining: WordPretraining = WordPretraining(),  # noqa: B008
        vocabulary: int = 4000,
        label_smoothing: float = 0.0,
        learning_rate: float = 3e-4,
        tower_learning_rate: float = 1e-4,
        weight_decay: float = 0.01,
        warmup_fraction: float = 0.1,
        augmentation: Augmentation = Augmentation(),  # noqa: B008
    ) -> None:
        super().__init__()
        check_settings("model", {name: value for name, value in locals().items() if name in RULES}, RULES)
        if tower.starts_from_random_weights and not (tower.train or pretraining.epochs):
            raise ConfigError(
                "the tower starts from random weights: set model.tower.train to true, or pre-train it "
                "(model.pretraining.epochs)"
            )
        self.tower, self.layers, self.pretraining = tower, layers, pretraining
        self.vocabulary, self.label_smoothing = vocabulary, label_smoothing
        self.learning_rate, self.tower_learning_rate = learning_rate, tower_learning_rate
        self.weight_decay, self.warmup_fraction = weight_decay, warmup_fraction
        self.augmentation = augmentation
        self.eyes = GridTower(create_image_encoder(tower), tower.last_norm)
        self.eyes.requires_grad_(tower.train)
        self.captioner: Captioner | None = None
        self.figures: Figures | None = None
        self.max_length = layers.positions
        self._losses: list[tuple[float, int]] = []
        self._said: list[str] = []

    @property
    def model(self) -> Captioner:
        """The captioner, once it is built."""
        assert self.captioner is not None
        return self.captioner

    def build(self, captions: Sequence[str], languages: Sequence[str], max_length: int) -> None:
        """Learn the vocabulary and make the captioner.

        Args:
            captions: of the training images.
            languages: that they are in, the first of which it writes unasked.
            max_length: most tokens of a caption.

        Raises:
            ConfigError: fewer positions than a caption may have tokens.
        """
        if max_length > self.layers.positions:
            raise ConfigError(
                f"data.max_length is {max_length}; model.layers.positions must be at least that, and is "
                f"{self.layers.positions}"
            )
        self.max_length = max_length
        pieces = Pieces.learned(captions, self.vocabulary)
        self.captioner = Captioner(self.eyes, self.layers, pieces, languages, trained_tower=self.tower.train)
        del self.eyes  # it is the captioner's; under two names its weights would be saved twice
        kept = ("captioner.tower",) if self.pretraining.epochs or self.tower.train else ()
        self.note_frozen(but=kept)

    def grids(self, batch: CaptionBatch) -> Tensor:
        """Return the grids of a batch, changed at random where a tower learns."""
        if batch.grids is not None:
            return batch.grids
        assert batch.pixels is not None
        pixels = batch.pixels
        if self.training:
            pixels = self.augmentation(pixels)
        return self.model.grid(pixels.contiguous(memory_format=torch.channels_last))

    def loss(self, memory: Tensor, batch: CaptionBatch, smoothing: float = 0.0) -> tuple[Tensor, int]:
        """Return the mean cross-entropy of the tokens of all captions, 0 of none, and how many there are."""
        model = self.model
        logits = model.raw_logits(memory, batch.starts, batch.tokens)
        ignored = (batch.tokens == model.pad_id) | (batch.tokens == model.pieces.unknown_id)
        targets = batch.tokens.masked_fill(ignored, IGNORED)
        summed = F.cross_entropy(
            logits.flatten(0, -2).float(),
            targets.flatten(),
            ignore_index=IGNORED,
            label_smoothing=smoothing,
            reduction="sum",
        )
        count = int((~ignored).sum())
        return summed / max(1, count), count

    def training_step(self, batch: CaptionBatch, batch_idx: int) -> Tensor:
        """Return the loss of a batch, whose mean over all processes is that of all tokens."""
        loss, count = self.loss(self.model.memory(self.grids(batch)), batch, self.label_smoothing)
        loss = loss * token_weight(count, self.device)
        whole = total(loss.detach()) / world_size()
        require_finite(whole, self, f"step {self.global_step + 1}", "model.learning_rate")
        self.log("train_loss", whole, prog_bar=True, batch_size=len(batch.images))
        return loss

    def validation_step(self, batch: CaptionBatch, batch_idx: int) -> None:
        """Collect the loss of a batch, and what is said of its images."""
        model = self.model
        memory = model.memory(self.grids(batch))
        loss, count = self.loss(memory, batch)
        self._losses.append((float(loss), count))
        assert self.figures is not None
        for language in self.figures.languages(batch.images.tolist()):
            # Not as long as the references of the batch: what is said must not depend on the batch size.
            found = model.generate(memory, Decoding("greedy", max_length=self.max_length), language=language)
            self.figures.add(batch.images.tolist(), language, [own[0] for own in model.texts(found.tokens)])

    def on_validation_epoch_end(self) -> None:
        """Log the loss of the validation captions, without smoothing, and CIDEr of what is said greedily."""
        assert self.figures is not None
        tokens = sum(count for _, count in self._losses)
        self.log("val_loss", sum(loss * count for loss, count in self._losses) / tokens, prog_bar=True)
        self.log("val_cider", self.figures.cider(), prog_bar=True)
        self._losses.clear()

    def configure_optimizers(self) -> Any:
        """Return AdamW over what is trained; matrices alone decay."""
        tower = {id(weights) for weights in self.model.tower.parameters()}
        rates = {True: self.tower_learning_rate, False: self.learning_rate}
        groups = [
            {"params": chosen, "lr": rates[own], "weight_decay": self.weight_decay if matrices else 0.0}
            for own in (True, False)
            for matrices in (True, False)
            if (chosen := self._trained(tower, own, matrices))
        ]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _trained(self, tower: set[int], own: bool, matrices: bool) -> list[nn.Parameter]:
        whole = own and self.tower.train  # with what its grid does not use: runs begun before go on
        return [
            p
            for p in self.parameters()
            if (p.requires_grad or whole) and (id(p) in tower) is own and (p.ndim > 1) is matrices
        ]

    def _rate(self, step: int) -> float:
        total = int(self.trainer.estimated_stepping_batches)
        rising = max(1, round(self.warmup_fraction * total))
        if step < rising:
            return (step + 1) / rising
        return (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, total - rising)))) / 2
