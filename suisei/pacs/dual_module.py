"""Positive-augmented contrastive training of a dual encoder (Sarto et al., 2023 and 2024).

Shape letters: B pairs of a batch, N rows, L tokens, s side in pixels, d width of the shared space.
"""

# Annotations are not postponed here: jsonargparse cannot resolve those of a dataclass that is a torch module.
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.encoders.dual import DualEncoder
from suisei.encoders.dual_folder import new_dual_encoder
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.precision import choose_precision, quick_gradients
from suisei.errors import ConfigError
from suisei.metrics.clipscore import PROMPT
from suisei.pacs.lora import ALPHA, RANK, add_lora
from suisei.pacs.pair_datamodule import PairBatch
from suisei.pacs.towers import image_slot, image_states, project, projections, text_slot, text_states
from suisei.ranges import (
    NAME,
    SWITCH,
    Of,
    Range,
    Rule,
    Word,
    at_least,
    check,
    check_settings,
)
from suisei.training.augment import AUGMENTATION, Augmentation
from suisei.training.contrastive import MAX_SCALE, gather_features, positive_augmented_loss
from suisei.training.losses import require_finite
from suisei.training.run_settings import parse_value
from suisei.training.step_training import STEPS, StepTraining

TRAINABLE = ("projections", "lora", "image", "all")
WEIGHT = Range(0, 1000)
RULES: dict[str, Rule] = {
    "model": NAME,
    "pretrained": Of(str, null=True),
    "checkpoint": Of(str, null=True),
    "text_encoder": Of(str, null=True),
    "image_weights": Of(str, null=True),
    "trainable": Word(TRAINABLE),
    "rank": at_least(1, 1024),
    "alpha": Range(0, 1000, above=True),
    "lambda_v": WEIGHT,
    "lambda_t": WEIGHT,
    **STEPS,
    "augment": SWITCH,
    **AUGMENTATION,
}


@dataclass
class Architecture:
    """open_clip's description of a dual encoder.

    Attributes:
        embed_dim: width d of the shared space.
        vision_cfg: the image tower.
        text_cfg: the text tower; with a text encoder, what differs from its usual settings.
    """

    embed_dim: int
    vision_cfg: dict[str, Any]
    text_cfg: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check("model.architecture.embed_dim", self.embed_dim, at_least(1, 16_384))

    def described(self) -> dict[str, Any]:
        """Return it as open_clip takes it; what an override on the command line left as text is read.

        Raises:
            ConfigError: such a text is not YAML of plain values.
        """
        values: dict[str, Any] = {"embed_dim": self.embed_dim}
        for name in ("vision_cfg", "text_cfg"):
            place = f"model.architecture.{name}"
            values[name] = {
                key: parse_value(value, f"{place}.{key}") if isinstance(value, str) else value
                for key, value in getattr(self, name).items()
            }
        return values


@dataclass(eq=False, repr=False)
class PacTraining(StepTraining):
    """Trains a dual encoder with the positive-augmented contrastive loss.

    The papers state neither the temperature nor a prompt in training. Here the temperature is the
    loaded model's and stays, unless the image tower is trained; captions carry the prompt that scoring
    gives them. New weights and low-rank adapters start from torch's seed, which ``seed_everything`` sets.

    Args:
        model: an open_clip model or a folder, see :func:`suisei.encoders.dual_loading.load_dual_encoder`.
        pretrained: its pretraining tag.
        checkpoint: its weights, where they are a local file.
        architecture: instead of a model, open_clip's description of a new one with random weights.
        text_encoder: for a new model, a Hugging Face encoder or folder as its text tower.
        image_weights: for a new model with an image tower of timm's, timm's file of weights for it.
        trainable: "projections" (PAC-S), "lora" (PAC-S++), "image" (image tower and projections, the
            text tower frozen) or "all".
        rank: rank r of the low-rank updates; for "lora" alone. PAC-S++ compares 2, 4, 8 and 16.
        alpha: their scale is alpha / r; for "lora" alone.
        lambda_v: weight of the generated images; 0 leaves them out.
        lambda_t: weight of the generated captions; 0 leaves them out.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        warmup_steps: steps over which the rate grows from zero.
        cosine_steps: steps after which the rate has fallen to zero on a cosine; null keeps it.
        augment: whether training images are cropped and mirrored at random.
        smallest_crop: least share of an image's area that a crop keeps.
        jitter: largest change of a training image's contrast, as a share of it, and of its brightness, in
            standard deviations of all pixels; 0 for none.
    """

    model: str = "ViT-B-32"
    pretrained: str | None = "openai"
    checkpoint: str | None = None
    architecture: Architecture | None = None
    text_encoder: str | None = None
    image_weights: str | None = None
    trainable: str = "projections"
    rank: int = RANK
    alpha: float = ALPHA
    lambda_v: float = 0.05
    lambda_t: float = 0.1
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    warmup_steps: int = 0
    cosine_steps: int | None = None
    augment: bool = False
    smallest_crop: float = 0.5
    jitter: float = 0.0

    def __post_init__(self) -> None:
        check_settings("model", self, RULES)
        if self.trainable != "lora" and (self.rank, self.alpha) != (RANK, ALPHA):
            raise ConfigError(
                "model.rank and model.alpha are for low-rank updates; with trainable: "
                f"{self.trainable} there are none: set model.trainable to lora, or leave them out"
            )
        super().__init__()
        seed = torch.initial_seed()
        self.encoder = self._make_encoder(seed)
        self.towers: Any = self.encoder.model
        self.towers.visual.to(memory_format=torch.channels_last)  # CPUs convolve faster that way
        self._freeze(seed)
        self.note_frozen()
        self._tokens: Tensor | None = None
        self._text_states: Tensor | None = None
        self._image_states: Tensor | None = None
        self._validation: list[tuple[Tensor, ...]] = []
        self._kinds: list[bool] = []

    def _make_encoder(self, seed: int) -> DualEncoder:
        if self.architecture is None:
            if self.text_encoder or self.image_weights:
                raise ConfigError(
                    "model.text_encoder and model.image_weights are parts of a new model: describe it by "
                    "model.architecture, or leave them out"
                )
            return load_dual_encoder(
                self.model, self.pretrained, checkpoint=self.checkpoint, precision="fp32", device="cpu"
            )
        return new_dual_encoder(
            self.architecture.described(),
            text_encoder=self.text_encoder,
            image_weights=self.image_weights,
            seed=seed,
        )

    def _freeze(self, seed: int) -> None:
        towers = self.towers
        if self.trainable == "lora":
            add_lora(towers, rank=self.rank, alpha=self.alpha, seed=seed)
            return
        if self.trainable == "all":
            return
        towers.requires_grad_(False)
        wanted = projections(towers)
        if self.trainable == "image":
            wanted = [*wanted, *towers.visual.parameters(), towers.logit_scale]
        if not wanted:
            raise ConfigError(
                "this model has no projections of its own to train; use trainable: image or all"
            )
        for parameter in wanted:
            parameter.requires_grad_(True)

    @property
    def texts_are_frozen(self) -> bool:
        """Whether text states before the projection can be computed once."""
        return self.trainable in ("projections", "image")

    @property
    def images_are_frozen(self) -> bool:
        """Whether image states before the projection can be computed once."""
        return self.trainable == "projections" and not self.augment

    def prepare(
        self, captions: list[str], pixels: Any, images: int, advance: Callable[[int], Any] = lambda _: None
    ) -> None:
        """Tokenise all captions, and compute what frozen towers say of them and of the images.

        Args:
            captions: the captions that rows of batches point into.
            pixels: gives float32 [n, 3, s, s] for rows int64 [n].
            images: number of images.
            advance: called with the number of items that are done.
        """
        self._tokens = self.encoder.tokenizer([PROMPT + caption for caption in captions]).int()
        if self.texts_are_frozen:
            padded = self._tokens == self._tokens[:, -1:]  # all but the longest end in padding
            by_length = padded.sum(dim=-1).argsort(stable=True)
            self._text_states = self._states(
                lambda rows: text_states(self.towers, self._token_rows(rows)), by_length, advance
            )
        if self.images_are_frozen:
            self._image_states = self._states(
                lambda rows: image_states(self.towers, pixels[rows].to(self.device)),
                torch.arange(images),
                advance,
            )

    def _token_rows(self, rows: Tensor) -> Tensor:
        assert self._tokens is not None
        return self._tokens[rows.cpu()].long().to(self.device)

    def _states(
        self, encode: Callable[[Tensor], Tensor], order: Tensor, advance: Callable[[int], Any]
    ) -> Tensor:
        self.towers.eval()
        states = torch.empty(0)
        kind = self.device.type
        fast = choose_precision("auto", kind) == "bf16"  # as it is scored later
        for rows in order.split(256):
            with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=fast):
                part = encode(rows).float().cpu()
            if not len(states):
                states = torch.empty(len(order), part.shape[1])
            states[rows] = part
            advance(len(rows))
        return states

    def encode_texts(self, rows: Tensor) -> Tensor:
        """Return features float [N, d] of captions by row."""
        if self._text_states is not None:
            states = self._text_states[rows.cpu()].to(self.device)
        else:
            states = text_states(self.towers, self._token_rows(rows))
        return project(text_slot(self.towers), states).float()

    def encode_images(self, rows: Tensor, pixels: Tensor | None) -> Tensor:
        """Return features float [N, d] of images by row, or of their pixels [N, 3, s, s]."""
        if self._image_states is not None:
            states = self._image_states[rows.cpu()].to(self.device)
        else:
            assert pixels is not None
            if self.training and self.augment:
                pixels = Augmentation(self.smallest_crop, self.jitter)(pixels)
            states = image_states(self.towers, pixels.contiguous(memory_format=torch.channels_last))
        return project(image_slot(self.towers), states).float()

    def features(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Return features of images [B, d], texts [B K, d], generated images and generated texts [B, d]."""
        more_images = more_texts = None
        if batch.generated_images is not None and self.lambda_v:
            more_images = self.encode_images(batch.generated_images, batch.generated_pixels)
        if batch.generated_texts is not None and self.lambda_t:
            more_texts = self.encode_texts(batch.generated_texts)
        return (
            self.encode_images(batch.images, batch.pixels),
            self.encode_texts(batch.texts),
            more_images,
            more_texts,
        )

    def loss(self, features: tuple[Tensor | None, ...]) -> Tensor:
        """Return the loss of a whole batch's features, in the order of :meth:`features`."""
        images, texts, more_images, more_texts = features
        assert images is not None
        assert texts is not None
        return positive_augmented_loss(
            images,
            texts,
            self.towers.logit_scale.exp(),
            generated_images=more_images,
            generated_texts=more_texts,
            lambda_v=self.lambda_v,
            lambda_t=self.lambda_t,
        )

    def on_fit_start(self) -> None:
        """Let what is trained as a whole, and nothing frozen, update its batch statistics."""
        self.towers.train(self.trainable == "all")
        if self.trainable == "image":
            self.towers.visual.train()

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        """Return the loss over the batches of all processes."""
        with quick_gradients():
            features = self.features(batch)
        loss = self.loss(tuple(None if own is None else gather_features(own) for own in features))
        require_finite(loss, self, f"step {self.global_step + 1}", "model.learning_rate")
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch.images))
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        """Keep a temperature that learns from falling below 0.01; a frozen one stays as it was loaded."""
        scale = self.towers.logit_scale
        if scale.requires_grad:
            with torch.no_grad():
                scale.clamp_(max=MAX_SCALE)

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Collect the features of a validation batch."""
        features = self.features(batch)
        self._kinds = [part is not None for part in features]
        self._validation.append(tuple(part for part in features if part is not None))

    def on_validation_epoch_end(self) -> None:
        """Log the loss of batches as large as in training, and recall@10 of images by their first caption.

        With fewer images than a batch it is the loss of all of them.
        """
        columns = iter([torch.cat(parts) for parts in zip(*self._validation, strict=True)])
        batch = len(self._validation[0][0]) * self.trainer.world_size
        features = tuple(next(columns) if kind else None for kind in self._kinds)
        self._validation.clear()
        images, texts = features[0], features[1]
        assert images is not None
        assert texts is not None
        losses = [
            self.loss(tuple(None if own is None else own[part] for own in features))
            for part in equal_parts(len(images), batch)
        ]
        self.log("val_loss", torch.stack(losses).mean(), prog_bar=True)
        owners = torch.arange(len(images), device=images.device)
        self.log("val_recall10", recall_at(10, images, texts, owners), prog_bar=True)


def equal_parts(count: int, size: int) -> list[slice]:
    """Return slices of ``size`` that cover ``count`` rows; one of all where there are fewer rows.

    The last overlaps the one before where rows are left over: a smaller rest would have fewer negatives,
    and so a lower loss.

    >>> equal_parts(10, 4)
    [slice(0, 4, None), slice(4, 8, None), slice(6, 10, None)]
    """
    size = min(size, count)
    return [slice(start, start + size) for start in (*range(0, count - size, size), count - size)]


def recall_at(k: int, images: Tensor, texts: Tensor, owners: Tensor) -> Tensor:
    """Return the share of texts [T, d] whose own image [I, d] is among the k nearest by cosine.

    Args:
        k: how many images are looked at.
        images: float [I, d].
        texts: float [T, d].
        owners: row of each text's image, int64 [T].
    """
    similarities = F.normalize(texts, dim=-1) @ F.normalize(images, dim=-1).T
    nearest = similarities.topk(min(k, len(images)), dim=-1).indices
    return (nearest == owners[:, None]).any(dim=-1).float().mean()
