"""Training of RECAP's latent reconstruction: a caption's guess comes near to its image, wrong ones do not.

Shape letters: B captions, T tokens (padded), P positions of the target, d width of the language model, f
width of the image features.
"""

# Annotations are not postponed here: jsonargparse resolves those of the settings.
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from suisei.encoders.image import ImageEncoder
from suisei.encoders.seeded import seeded
from suisei.errors import ConfigError
from suisei.models.latent import (
    HIDDEN,
    MAX_TOKENS,
    CaptionReconstruction,
    LatentModel,
    LatentShape,
    squared_distances,
)
from suisei.models.prefix_mapper import PUBLISHED_HEADS
from suisei.ranges import Of, Range, Rule, at_least, check_settings
from suisei.recap.caption_batches import LatentBatch
from suisei.recap.image_towers import TowerConfig
from suisei.recap.language_models import frozen_embeddings, load_language_model
from suisei.recap.latent_loss import LatentLoss, latent_loss
from suisei.recap.mapper_folder import MapperSource
from suisei.recap.negatives import KINDS
from suisei.training.losses import require_finite
from suisei.training.step_training import STEPS, StepTraining

WEIGHT = Range(0, 1_000_000)
RULES: dict[str, Rule] = {
    "mapper": Of(str, null=True),
    "mapper_heads": at_least(1, 1024),
    "language_model": Of(str, null=True),
    "heads": at_least(1, 1024),
    "hidden": at_least(1, 65_536),
    "max_tokens": at_least(1, 4096),
    "mse_weight": WEIGHT,
    "triplet_weight": WEIGHT,
    "margin": Range(0, 1_000_000, above=True),
    **STEPS,
}


class LatentTraining(StepTraining):
    """Trains a self-attention and a feed-forward network between a caption's embeddings and its image.

    Weights of the loss and heads are the paper's; learning rate, margin and steps it does not state.

    Args:
        mapper: a checkpoint of ClipCap's published layout, or a folder of a mapper trained here; null trains
            one first, as ``mapper_config`` says.
        mapper_heads: attention heads of a checkpoint's mapper.
        image: the image tower; null for that of the mapper's folder, which takes no other, or with a
            checkpoint ViT-L/14.
        language_model: whose embeddings captions have: a name on the hub or a folder; null for that of the
            mapper's folder, which one trained first always has, or with a checkpoint GPT-2.
        heads: attention heads of the self-attention.
        hidden: units inside the feed-forward network.
        max_tokens: captions are cut to so many tokens.
        mse_weight: weight of the mean squared difference.
        triplet_weight: weight of the triplet loss.
        margin: of the triplet loss.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        warmup_steps: steps over which the rate grows from zero.
        cosine_steps: steps after which the rate has fallen to zero on a cosine; null keeps it.
    """

    def __init__(
        self,
        mapper: str | None = None,
        mapper_heads: int = PUBLISHED_HEADS,
        image: TowerConfig | None = None,
        language_model: str | None = None,
        heads: int = 8,
        hidden: int = HIDDEN,
        max_tokens: int = MAX_TOKENS,
        mse_weight: float = 1.0,
        triplet_weight: float = 10.0,
        margin: float = 1.0,
        learning_rate: float = 1e-4,
        weight_decay: float = 0.01,
        warmup_steps: int = 0,
        cosine_steps: int | None = None,
    ) -> None:
        check_settings("model", locals(), RULES)
        super().__init__()
        self.sizes = {"heads": heads, "hidden": hidden, "max_tokens": max_tokens}
        self.weights = {"mse_weight": mse_weight, "triplet_weight": triplet_weight, "margin": margin}
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.warmup_steps, self.cosine_steps = warmup_steps, cosine_steps

    def build(self, source: MapperSource, image: ImageEncoder, seed: int) -> None:
        """Make what is trained, with the frozen embeddings of the language model.

        Args:
            source: the mapper and the language model.
            image: the image tower.
            seed: of new weights.

        Raises:
            ConfigError: parts that do not go together.
        """
        model, tokenizer = load_language_model(source.language_model)
        words, places = frozen_embeddings(model, self.sizes["max_tokens"])
        width, theirs = words.shape[1], source.mapper.shape
        if width != theirs.width:
            raise ConfigError(
                f"model.language_model is {width} wide and the mapper's was {theirs.width}: give the one "
                "that the mapper was trained with"
            )
        if width % self.sizes["heads"]:
            raise ConfigError(f"model.heads is {self.sizes['heads']}; it must divide the width {width}")
        shape = LatentShape(
            vocabulary=len(words),
            width=width,
            prefix=theirs.prefix,
            heads=self.sizes["heads"],
            hidden=self.sizes["hidden"],
            max_tokens=len(places),
            normalise=source.image.normalise,
        )
        with seeded(seed):  # whether or not a mapper was trained before, in the same run
            captions = CaptionReconstruction(shape)
            torch.nn.init.normal_(captions.prefix, std=float(words.std()))
        captions.words.data, captions.places.data = words, places
        self.parts = LatentModel(image, source.mapper, captions, tokenizer)
        self.note_frozen()

    @property
    def tokenize(self) -> Callable[[Sequence[str]], list[list[int]]]:
        """What turns captions into token ids."""
        return self.parts.tokenize

    def losses(self, batch: LatentBatch) -> tuple[LatentLoss, Tensor]:
        """Return the loss of a batch, and how much further negatives are than captions, float [B].

        That is the difference of mean squared distances; captions without a negative have 0.
        """
        assert batch.negative_ids is not None
        assert batch.negative_mask is not None
        assert batch.there is not None
        with torch.no_grad():
            targets = self.parts.targets(batch.features)
        guesses = self.parts.captions(batch.ids, batch.mask)
        negatives = self.parts.captions(batch.negative_ids, batch.negative_mask)
        loss = latent_loss(targets, guesses, negatives, batch.there, **self.weights)
        with torch.no_grad():
            further = squared_distances(negatives, targets) - squared_distances(guesses, targets)
        return loss, torch.where(batch.there, further, torch.zeros_like(further))

    def on_fit_start(self) -> None:
        """Keep the frozen parts as they are in scoring."""
        self.parts.image.eval()
        self.parts.mapper.eval()

    def training_step(self, batch: LatentBatch, batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        loss, _ = self.losses(batch)
        assert batch.there is not None
        require_finite(loss.total, self, f"step {self.global_step + 1}", "model.learning_rate")
        size = len(batch.ids)
        self.log("train_loss", loss.total, prog_bar=True, batch_size=size)
        self.log("train_mse", loss.mse, batch_size=size)
        counts = bool(batch.there.any())
        for kind in KINDS:  # the trainer would log an older batch's figure again where there is none
            value = loss.triplet if counts and kind == batch.kind else float("nan")
            self.log(f"train_triplet_{kind}", value, batch_size=size)
        return loss.total

    def validation_step(self, batch: LatentBatch, batch_idx: int) -> None:
        """Log the loss, its parts, and how often a caption is nearer to its image than one made wrong.

        ``val_mse`` is the mean over captions, what is of a kind of negatives that over captions with one.
        ``val_loss`` is the mean of the batches' losses by their captions, so that the triplet part of a batch
        counts as much as its captions, however many of them have a negative.
        """
        loss, further = self.losses(batch)
        assert batch.there is not None
        size = len(batch.ids)
        self.log("val_loss", loss.total, prog_bar=True, batch_size=size)
        self.log("val_mse", loss.mse, batch_size=size)
        with_one = int(batch.there.sum())
        if with_one:
            self.log(f"val_triplet_{batch.kind}", loss.triplet, batch_size=with_one)
            found = (further[batch.there] > 0).float().mean()
            self.log(f"val_nearer_than_{batch.kind}", found, batch_size=with_one)
