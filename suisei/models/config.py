"""The settings of the regressor, as they stand in a YAML config and in a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, cast, get_args, get_type_hints

from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.rules import (
    FINITE,
    WIDEST,
    YES_NO,
    Rule,
    check_settings,
    number,
    one_of,
    or_none,
    several,
    text,
    whole,
)
from suisei.encoders.text import TextEncoderConfig
from suisei.errors import ConfigError, ModelError
from suisei.models.feedforward import ACTIVATIONS
from suisei.models.fusion import AGGREGATIONS, BLOCKS
from suisei.models.pooling import POOLINGS

MOST_MEMBERS = 256
"""Most networks whose scores are averaged."""

RETIRED = {
    "text": ("max_tokens",),
    "text.tiny": ("heads", "dropout", "max_positions"),
    "image.tiny": ("layers",),
    "fusion": ("layer_dropout",),
    "head": ("input_norm",),
}
"""Settings in folders of earlier versions that say nothing which the architectures beside them do not."""


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
        similarity: whether the largest, mean and smallest cosine between candidate and references, per
            pooling, enter as further inputs: products of vectors hold them only as a sum to be learned.
        image_similarity: whether the cosine between candidate and projected image, per pooling, enters as a
            further input; for image encoders that were trained to be compared with captions.
        image_languages: languages ("ja", "en") whose candidates are compared with their image; null for all.
            A small model that saw images with English captions only knows nothing of an image beside a
            Japanese one, and scores that one as if it had no image.
        alignment: whether the token-by-token match of candidate and references enters as further inputs
            (:mod:`suisei.models.alignment`); the text encoder must be frozen.
        extra_inputs: metrics whose scores enter as further inputs, by registry name: "ridge", those that this
            package computes by itself, and CLIP-S and PAC-S, whose encoder goes into the model folder.
    """

    poolings: Sequence[str] = ("idf", "mean")
    references: str = "mean"
    blocks: Sequence[str] | None = None
    layer_norm: bool = True
    similarity: bool = False
    image_similarity: bool = False
    image_languages: Sequence[str] | None = None
    alignment: bool = False
    extra_inputs: Sequence[str] = ()


@dataclass
class HeadConfig:
    """The feed-forward network.

    Attributes:
        hidden: widths of the hidden layers.
        activation: "tanh", "relu" or "gelu".
        dropout: probability of dropping a hidden unit in training.
        input_dropout: probability of dropping an input feature in training.
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
    extra_hidden: int = 0
    extra_dropout: float = 0.0
    members: int = 1
    rank_share: float = 0.0

    def __post_init__(self) -> None:
        if self.members < 1:
            raise ConfigError(f"head.members must be at least 1, got {self.members}")
        if not 0 <= self.rank_share <= 1:
            raise ConfigError(f"head.rank_share must be from 0 to 1, got {self.rank_share:g}")


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
    def from_dict(cls, values: Any) -> RegressorConfig:
        """Rebuild the settings that :meth:`to_dict` returned, and that somebody may have altered since.

        Raises:
            ModelError: a part is missing, has a field that this version does not know, or a field has a value
                that cannot be.
        """
        parts = dict.fromkeys(("text", "image", "fusion", "head"), _SETTINGS)
        found = check_settings(values, parts, "settings", required=tuple(parts))
        image = found["image"]
        try:
            return cls(
                _checked(TextEncoderConfig, found["text"], "settings.text"),
                None if image is None else _checked(ImageEncoderConfig, image, "settings.image"),
                _checked(FusionConfig, found["fusion"], "settings.fusion"),
                _checked(HeadConfig, found["head"], "settings.head"),
            )
        except (ConfigError, TypeError) as error:
            raise ModelError(f"the model's settings do not fit this version of suisei: {error}") from None


_SETTINGS = Rule("settings by name", lambda value: value is None or isinstance(value, dict))
_SHARE = number(0, 1)
_BY_FIELD: dict[str, Rule] = {
    "fusion.poolings": several(one_of(*POOLINGS), 1, len(POOLINGS)),
    "fusion.references": one_of(*AGGREGATIONS),
    "fusion.blocks": or_none(several(one_of(*BLOCKS), 0, len(BLOCKS))),
    "fusion.image_languages": or_none(several(one_of("ja", "en"), 0, 2)),
    "head.hidden": several(whole(1, WIDEST), 0, 32),
    "head.activation": one_of(*ACTIVATIONS),
    "head.dropout": _SHARE,
    "head.input_dropout": _SHARE,
    "head.extra_hidden": whole(0, WIDEST),
    "head.extra_dropout": _SHARE,
    "head.members": whole(1, MOST_MEMBERS),
    "head.rank_share": _SHARE,
}
"""What fields may be beyond what their type says."""


def _checked(kind: type, values: Any, place: str) -> Any:
    """Return the settings of a dataclass, after their types were checked as the class declares them."""
    hints = get_type_hints(kind)
    rules = {
        own.name: _BY_FIELD.get(f"{place.removeprefix('settings.')}.{own.name}") or _rule(hints[own.name])
        for own in fields(kind)
    }
    found = check_settings(_kept(place.removeprefix("settings."), values), rules, place)
    for name, hint in hints.items():
        if is_dataclass(hint):
            if name not in found:
                raise ModelError(f"{place} lacks {name}")
            found[name] = _checked(cast(type, hint), found[name], f"{place}.{name}")
    return kind(**found)


def _kept(part: str, values: Any) -> Any:
    """Leave out what earlier versions wrote and this one does not need."""
    if not isinstance(values, dict):
        return values
    if part == "head" and values.get("input_norm"):
        raise ModelError("the model has head.input_norm, which suisei 0.1.0 was the last to know")
    return {name: value for name, value in values.items() if name not in RETIRED.get(part, ())}


def _rule(hint: Any) -> Rule:
    """Return the rule of a field's type, within the sizes that any model stays in."""
    plain = {bool: YES_NO, int: whole(0, 2**31), float: FINITE, str: text(1000)}
    if hint in plain:
        return plain[hint]
    if is_dataclass(hint):
        return _SETTINGS
    arguments = [own for own in get_args(hint) if own is not type(None)]
    if type(None) in get_args(hint):
        return or_none(_rule(arguments[0]))
    own = [argument for argument in arguments if argument is not Ellipsis]
    return several(_rule(own[0]), 0, 1024)
