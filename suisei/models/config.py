"""The settings of the regressor, as they stand in a YAML config and in a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.text import TextEncoderConfig
from suisei.errors import ConfigError, ModelError
from suisei.models.feedforward import ACTIVATIONS
from suisei.models.fusion import AGGREGATIONS, BLOCKS
from suisei.models.pooling import POOLINGS
from suisei.ranges import DROPOUT, NAME, SHARE, SWITCH, Rule, Several, Word, at_least, check_settings

WIDTH = 16_384
"""Widest hidden layer."""
FUSION: dict[str, Rule] = {
    "poolings": Several(Word(POOLINGS), 1, len(POOLINGS)),
    "references": Word(AGGREGATIONS),
    "blocks": Several(Word(BLOCKS), 0, len(BLOCKS), null=True),
    "layer_norm": SWITCH,
    "layer_dropout": DROPOUT,
    "similarity": SWITCH,
    "image_similarity": SWITCH,
    "image_languages": Several(Word(("ja", "en")), 0, 2, null=True),
    "alignment": SWITCH,
    "extra_inputs": Several(NAME, 0, 100),
}
HEAD: dict[str, Rule] = {
    "hidden": Several(at_least(1, WIDTH), 0, 16),
    "activation": Word(tuple(ACTIVATIONS)),
    "dropout": DROPOUT,
    "input_dropout": DROPOUT,
    "input_norm": SWITCH,
    "extra_hidden": at_least(0, WIDTH),
    "extra_dropout": DROPOUT,
    "members": at_least(1, 100),
    "rank_share": SHARE,
}


@dataclass
class FusionConfig:
    """How captions and images become one feature vector.

    Attributes:
        poolings: the pooled vectors of a caption: any of "idf", "mean", "idf-normalised".
        references: how references are aggregated: "mean", "max", "mean-max", or "concat" for the
            paper's fixed two.
        blocks: which fusion blocks to use; all by default. An empty list leaves the scores to the extra
            inputs, alignment and similarity: what suits data too small to learn from vectors.
        layer_norm: whether each token's vector is normalised before pooling.
        layer_dropout: probability that the layer mix leaves a layer out in training.
        similarity: whether the largest, mean and smallest cosine between candidate and references, per
            pooling, enter as further inputs: products of vectors hold them only as a sum to be learned.
        image_similarity: whether the cosine between candidate and projected image, per pooling, enters as a
            further input; for image encoders that were trained to be compared with captions.
        image_languages: languages ("ja", "en") whose candidates are compared with their image; null for all.
            A small model that saw images with English captions only knows nothing of an image beside a
            Japanese one, and scores that one as if it had no image.
        alignment: whether the token-by-token match of candidate and references enters as further inputs
            (:mod:`suisei.models.alignment`); the text encoder must be frozen.
        extra_inputs: metrics whose scores enter as further inputs, by registry name.
    """

    poolings: Sequence[str] = ("idf", "mean")
    references: str = "mean"
    blocks: Sequence[str] | None = None
    layer_norm: bool = True
    layer_dropout: float = 0.1
    similarity: bool = False
    image_similarity: bool = False
    image_languages: Sequence[str] | None = None
    alignment: bool = False
    extra_inputs: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_settings("model.fusion", self, FUSION)


@dataclass
class HeadConfig:
    """The feed-forward network.

    Attributes:
        hidden: widths of the hidden layers.
        activation: "tanh", "relu" or "gelu".
        dropout: probability of dropping a hidden unit in training.
        input_dropout: probability of dropping an input feature in training.
        input_norm: whether each sample's input is normalised to zero mean and unit variance.
        extra_hidden: width of a hidden layer of the extra inputs' own, whose output is added before
            the sigmoid; 0 appends the extra inputs to the fused features instead. Beside thousands of
            features a few scalars are learned slowly; on a path of their own they are not.
        extra_dropout: probability of dropping a unit of that hidden layer in training.
        members: networks of this shape, each from random weights of its own and trained on its own
            error, whose scores are averaged.
        rank_share: share of a rating's rank among the training ratings, as against the rating itself, in what
            is learned, 0 to 1 (:mod:`suisei.models.rating_scale`); for ratings that crowd at one end.
    """

    hidden: Sequence[int] = (2304, 1152)
    activation: str = "tanh"
    dropout: float = 0.1
    input_dropout: float = 0.0
    input_norm: bool = False
    extra_hidden: int = 0
    extra_dropout: float = 0.0
    members: int = 1
    rank_share: float = 0.0

    def __post_init__(self) -> None:
        check_settings("model.head", self, HEAD)


@dataclass
class RegressorConfig:
    """All that decides the shape of the regressor."""

    text: TextEncoderConfig = field(default_factory=TextEncoderConfig)
    image: ImageEncoderConfig | None = field(default_factory=ImageEncoderConfig)
    fusion: FusionConfig = field(default_factory=FusionConfig)
    head: HeadConfig = field(default_factory=HeadConfig)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RegressorConfig:
        """Rebuild the settings that :meth:`to_dict` returned.

        Raises:
            ModelError: a part is missing, has a field that this version does not know, or a value that it
                cannot have.
        """
        try:
            text, image = dict(values["text"]), values["image"]
            text["tiny"] = _tiny(TextEncoderConfig, text["tiny"])
            if image is not None:
                image = ImageEncoderConfig(**{**image, "tiny": _tiny(ImageEncoderConfig, image["tiny"])})
            return cls(
                TextEncoderConfig(**text),
                image,
                FusionConfig(**values["fusion"]),
                HeadConfig(**values["head"]),
            )
        except (KeyError, TypeError) as error:
            raise ModelError(f"the model's settings do not fit this version of suisei: {error}") from None
        except ConfigError as error:
            raise ModelError(f"the model's settings: {error}") from None


def _tiny(owner: type[TextEncoderConfig] | type[ImageEncoderConfig], values: dict[str, Any]) -> Any:
    return type(owner().tiny)(**values)
