"""The settings of the regressor, as they stand in a YAML config and in a model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from suisei.data.plain_writing import WAYS
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.text_config import TextEncoderConfig
from suisei.errors import ConfigError, ModelError
from suisei.models.blocks import BLOCKS
from suisei.models.feedforward import ACTIVATIONS
from suisei.models.fusion import AGGREGATIONS
from suisei.models.poolings import POOLINGS
from suisei.ranges import DROPOUT, NAME, SHARE, SWITCH, Range, Rule, Several, Word, at_least, check_settings

RETIRED = {
    "text": ("max_tokens", "frozen_embeddings"),
    "text.tiny": ("heads", "dropout", "max_positions"),
    "image.tiny": ("layers",),
    "fusion": ("layer_dropout", "image_languages"),
    "head": ("input_norm",),
}
"""Settings in folders of earlier versions that say nothing which the architectures beside them do not."""
SWITCHES = ("plain_japanese", "plain_writing")
"""Settings that said yes or no once: without a no, which is what leaving them out says."""

STARTS = ("cosine", "cosines")
WIDTH = 16_384
"""Widest hidden layer."""
FUSION: dict[str, Rule] = {
    "poolings": Several(Word(tuple(POOLINGS)), 1, len(POOLINGS)),
    "references": Word(AGGREGATIONS),
    "blocks": Several(Word(tuple(BLOCKS)), 0, len(BLOCKS), null=True),
    "layer_norm": SWITCH,
    "similarity": SWITCH,
    "image_similarity": SWITCH,
    "alignment": SWITCH,
    "extra_inputs": Several(NAME, 0, 100),
    "plain_writing": Several(Word(tuple(WAYS)), 0, len(WAYS)),
}
HEAD: dict[str, Rule] = {
    "hidden": Several(at_least(1, WIDTH), 0, 16),
    "activation": Word(tuple(ACTIVATIONS)),
    "dropout": DROPOUT,
    "input_dropout": DROPOUT,
    "extra_hidden": at_least(0, WIDTH),
    "extra_dropout": DROPOUT,
    "members": at_least(1, 100),
    "rank_share": SHARE,
    "start": Word(STARTS, null=True),
    "bridge": Several(Range(-1e4, 1e4), 2, 2, null=True),
}


@dataclass
class FusionConfig:
    """How captions and images become one feature vector.

    Attributes:
        poolings: the pooled vectors of a caption: any of "idf", "mean", "idf-normalised".
        references: how references are aggregated: "mean", "max", "mean-max", or "concat" for the
            paper's fixed two.
        blocks: which fusion blocks to use; the paper's by default. An empty list leaves the scores to the
            extra inputs, alignment and similarity: what suits data too small to learn from vectors.
        layer_norm: whether each token's vector is normalised before pooling.
        similarity: whether the largest, mean and smallest cosine between candidate and references, per
            pooling, enter as further inputs: products of vectors hold them only as a sum to be learned.
        image_similarity: whether the cosine between candidate and projected image, per pooling, enters as a
            further input; for image encoders that were trained to be compared with captions.
        alignment: whether the token-by-token match of candidate and references enters as further inputs
            (:mod:`suisei.models.alignment`).
        extra_inputs: metrics whose scores enter as further inputs, by registry name: "ridge", those that this
            package computes by itself, and CLIP-S and PAC-S, whose encoder goes into the model folder.
        plain_writing: what of captions is scored as it would plainly be written, whatever its way of writing:
            any of "width" (letters and digits of full width), "marks" (quotation marks or those of Markdown
            around a whole caption, curly apostrophes), "running-text" (Japanese with spaces between words or
            a full stop at the end) and "numbers" (Japanese ones in kanji; :mod:`suisei.data.plain_writing`).
            Where hardly any caption of the training data has these, a candidate is else rated by whether its
            references are written so too. Training reads captions as they are.
    """

    poolings: Sequence[str] = ("idf", "mean")
    references: str = "mean"
    blocks: Sequence[str] | None = None
    layer_norm: bool = True
    similarity: bool = False
    image_similarity: bool = False
    alignment: bool = False
    extra_inputs: Sequence[str] = ()
    plain_writing: Sequence[str] = ()

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
        extra_hidden: width of a hidden layer of the extra inputs' own, whose output is added before
            the sigmoid; 0 appends the extra inputs to the fused features instead. Beside thousands of
            features a few scalars are learned slowly; on a path of their own they are not.
        extra_dropout: probability of dropping a unit of that hidden layer in training.
        members: networks of this shape, each from random weights of its own and trained on its own
            error, whose scores are averaged.
        rank_share: share of a rating's rank among the training ratings, as against the rating itself, in what
            is learned, 0 to 1 (:mod:`suisei.models.rating_scale`); for ratings that crowd at one end.
        start: "cosine" for a network that corrects what the cosine between candidate and references (without
            any, the one with the image is the score) says of the rating, and starts by leaving it as it is
            (:mod:`suisei.models.cosine_start`); "cosines" for one whose cosine with the image counts beside
            references too, as ``suisei add-images`` makes it; null for one that starts from nothing.
        bridge: slope and offset of the line that scores a caption by its cosine with references in the other
            language, where it has none in its own, as ``suisei add-bridge`` fits it; null for none.
    """

    hidden: Sequence[int] = (2304, 1152)
    activation: str = "tanh"
    dropout: float = 0.1
    input_dropout: float = 0.0
    extra_hidden: int = 0
    extra_dropout: float = 0.0
    members: int = 1
    rank_share: float = 0.0
    start: str | None = None
    bridge: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_settings("model.head", self, HEAD)


def portable_name(name: str) -> str:
    """Return an encoder's name; of a path the last part alone, since the rest is of this machine."""
    return Path(name).name if Path(name).is_absolute() or Path(name).exists() else name


def portable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with encoders named as they may be in a model folder, which others get."""
    found = dict(settings)
    for part in ("text", "image"):
        own = dict(found.get(part) or {})
        named = {key: portable_name(str(own[key])) for key in ("name", "pretrained") if own.get(key)}
        found[part] = {**own, **named} if own else found.get(part)
    return found


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
        parts = _named(values, "settings", cls)
        absent = [own.name for own in fields(cls) if own.name not in parts]
        if absent:
            raise ModelError(f"settings lacks {', '.join(absent)}")
        image = parts["image"]
        try:
            return cls(
                _rebuilt(TextEncoderConfig, parts["text"], "text"),
                None if image is None else _rebuilt(ImageEncoderConfig, image, "image"),
                _rebuilt(FusionConfig, parts["fusion"], "fusion"),
                _rebuilt(HeadConfig, parts["head"], "head"),
            )
        except ConfigError as error:
            raise ModelError(f"the model's settings: {error}") from None


def _rebuilt(kind: Any, values: Any, part: str) -> Any:
    """Return the settings of a dataclass, which holds them against their rules."""
    found = _named(_kept(part, values), f"settings.{part}", kind)
    if "tiny" in kind.__dataclass_fields__:
        if "tiny" not in found:
            raise ModelError(f"settings.{part} lacks tiny")
        found["tiny"] = _rebuilt(type(kind().tiny), found["tiny"], f"{part}.tiny")
    return kind(**found)


def _named(values: Any, place: str, kind: Any) -> dict[str, Any]:
    """Return values by name, after no name was found that is no field."""
    if not isinstance(values, dict):
        raise ModelError(f"{place} must be settings by name, got {type(values).__name__}")
    known = [own.name for own in fields(kind)]
    unknown = sorted(str(name) for name in values if name not in known)
    if unknown:
        raise ModelError(
            f"{place} has {unknown[0][:60]!r}, which is no setting; there are: {', '.join(known)}"
        )
    return dict(values)


def _kept(part: str, values: Any) -> Any:
    """Leave out what earlier versions wrote and this one does not need."""
    if not isinstance(values, dict):
        return values
    if part == "head" and values.get("input_norm"):
        raise ModelError("the model has head.input_norm, which suisei 0.1.0 was the last to know")
    retired = (*RETIRED.get(part, ()), *(name for name in SWITCHES if values.get(name) is False))
    return {name: value for name, value in values.items() if name not in retired}
