"""What an ablation leaves out: each variant is a few changed settings of the full configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suisei.errors import ConfigError
from suisei.metrics.registry import REGISTRY
from suisei.metrics.ridge import Ridge
from suisei.models.blocks import BLOCKS, PAPER, applicable_blocks
from suisei.models.poolings import POOLINGS

FULL = "full"
TINY = "tiny"
"""The encoders that start from random weights."""

Settings = Mapping[str, Any]
Changes = dict[str, str]
"""{key of the configuration: value as YAML}."""


class NotApplicableError(Exception):
    """The full configuration lacks what a variant would leave out; the message says what."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the ablation.

    Attributes:
        name: of its row and its folder.
        changes: {key: value as YAML} beside the full configuration.
    """

    name: str
    changes: Changes

    @property
    def arguments(self) -> list[str]:
        """The changes as options of ``suisei train``."""
        return [f"--{key}={value}" for key, value in self.changes.items()]

    @property
    def summary(self) -> str:
        """The changes in one line."""
        return ", ".join(f"{key}={value}" for key, value in self.changes.items()) or "nothing changed"


def choose_variants(
    names: Sequence[str] | None, own: Sequence[Variant], settings: Settings
) -> tuple[list[Variant], dict[str, str]]:
    """Return the variants to train, the full model first, and why others are left out.

    Args:
        names: variants asked for; None for all that there are.
        own: variants that the user defined; they are trained whether named or not.
        settings: the full configuration, as plain values.

    Raises:
        ConfigError: an unknown name; the valid ones are listed. Or two of the user's with one name, or with
            names that differ in case alone.
    """
    _check_apart([variant.name for variant in own])
    defined = {variant.name: variant for variant in own}
    known = [FULL, *BUILT_IN, *defined]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ConfigError(f"no variant {unknown[0]!r}; there are: {', '.join(known)}")
    chosen, skipped = [Variant(FULL, {})], {}
    seen: dict[tuple[tuple[str, str], ...], str] = {}
    for name in dict.fromkeys([*(BUILT_IN if names is None else names), *defined]):
        if name == FULL:
            continue
        try:
            variant = defined.get(name) or Variant(name, _built_in(name, settings))
        except NotApplicableError as reason:
            skipped[name] = str(reason)
            continue
        same = seen.setdefault(tuple(sorted(variant.changes.items())), name)
        if same != name:
            skipped[name] = f"the same as {same} here"
            continue
        chosen.append(variant)
    return chosen, skipped


def _check_apart(names: Sequence[str]) -> None:
    """Refuse names that are one, or one folder on a disk that ignores case."""
    before: dict[str, str] = {}
    for name in names:
        other = before.get(name.lower())
        if other is not None:
            same = "two have that name" if other == name else f"it differs from {other!r} in case alone"
            raise ConfigError(f"--variant {name!r}: {same}; give one of them another")
        before[name.lower()] = name


def parse_variant(text: str) -> Variant:
    """Read ``NAME:key=value,key=value``; commas inside brackets or quotes belong to a value.

    Raises:
        ConfigError: the text has another form, a key twice, or a name that could not be a folder's or is that
            of another variant but for its case.
    """
    name, colon, rest = text.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise ConfigError(
            f"--variant {text!r}: the name must be of letters from a to z, digits, '.', '_', '+' and '-', "
            "and begin with a letter or digit"
        )
    if (known := name.lower()) in (FULL, *BUILT_IN):  # one folder, on a disk that ignores case
        raise ConfigError(f"--variant {text!r}: there is {known!r} already; give it another name")
    changes: Changes = {}
    for part in _split(rest) if colon else []:
        key, equals, value = part.partition("=")
        if not (equals and re.fullmatch(r"[\w.]+", key.strip())):
            raise ConfigError(f"--variant {text!r}: {part!r} is not key=value, such as model.image=null")
        if key.strip() in changes:
            raise ConfigError(f"--variant {text!r}: {key.strip()} is there twice; give it one value")
        changes[key.strip()] = value.strip()
    if not changes:
        raise ConfigError(f"--variant {text!r}: expected NAME:key=value,key=value")
    return Variant(name, changes)


def _split(text: str) -> list[str]:
    """Split at commas that are in no bracket and no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{(") - (character in "]})")
        if character == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


# -- the built-in ones ----------------------------------------------------------------------------


def _built_in(name: str, settings: Settings) -> Changes:
    """Return the changes of a built-in variant, which must leave the model something to score by."""
    changes = BUILT_IN[name](settings)
    new = {key: json.loads(value) for key, value in changes.items()}
    fusion = {
        key: new.get(f"model.fusion.{key}", value) for key, value in settings["model"]["fusion"].items()
    }
    image = new.get("model.image", settings["model"]["image"])
    sees = fusion["image_similarity"] and image is not None
    vectors = fusion["blocks"] is None or fusion["blocks"]
    if not (vectors or fusion["similarity"] or fusion["alignment"] or fusion["extra_inputs"] or sees):
        raise NotApplicableError("the full model has nothing else to score by")
    return changes


def _no_image(settings: Settings) -> Changes:
    """Leave out the image, and with it the extra inputs that look at it."""
    model = settings["model"]
    if model["image"] is None:
        raise NotApplicableError("the full model reads no image")
    changes = {"model.image": "null"}
    blocks, extras = model["fusion"]["blocks"], list(model["fusion"]["extra_inputs"])
    if blocks is not None:
        kept = [block for block in blocks if BLOCKS[block].reads != "image"]
        if blocks and not kept:
            raise NotApplicableError("the full model has no other fusion blocks than those of the image")
        if kept != list(blocks):
            changes["model.fusion.blocks"] = json.dumps(kept)
    blind = [name for name in extras if not _needs_image(name)]
    if blind != extras:
        changes["model.fusion.extra_inputs"] = json.dumps(blind)
    return changes


def _no_idf(settings: Settings) -> Changes:
    poolings = list(settings["model"]["fusion"]["poolings"])
    kept = [name for name in poolings if not POOLINGS[name].by_idf]
    if kept == poolings:
        raise NotApplicableError("the full model does not pool by idf")
    return {"model.fusion.poolings": json.dumps(kept or ["mean"])}


def _without_inputs(key: str) -> Callable[[Settings], Changes]:
    def change(settings: Settings) -> Changes:
        if not settings["model"]["fusion"][key]:
            raise NotApplicableError(f"the full model has no {key} inputs")
        return {f"model.fusion.{key}": "false"}

    return change


def _no_pretraining(settings: Settings) -> Changes:
    """Leave out all pre-training; that of an image encoder which would else be frozen at random stays."""
    model = settings["model"]
    pretraining, image = model["pretraining"], model["image"]
    if pretraining is None or not (pretraining["epochs"] or pretraining["image_epochs"]):
        raise NotApplicableError("the full model is not pre-trained")
    at_random = image is not None and (image["name"] == TINY or not image.get("pretrained", True))
    if not at_random or not image["frozen"]:
        return {"model.pretraining": "null"}
    if not pretraining["epochs"]:
        raise NotApplicableError("the image encoder is frozen and starts from random weights")
    return {"model.pretraining.epochs": "0"}


def _no_cross_fit(settings: Settings) -> Changes:
    pretraining = settings["model"]["pretraining"]
    if pretraining is None or not pretraining["cross_fit"]:
        raise NotApplicableError("the full model's pre-training is not cross-fitted")
    return {"model.pretraining.cross_fit": "0"}


def _no_support(settings: Settings) -> Changes:
    """Leave out the data beside the ratings; pre-training is left with the training samples' own."""
    if not settings["data"]["support"]:
        raise NotApplicableError("the full model has no data.support")
    return {"data.support": "null", **_unweighted(settings, "support_weight")}


def _unweighted(settings: Settings, *names: str) -> Changes:
    """Return what takes terms out of the loss that have nothing left to learn from."""
    loss = settings["model"]["loss"]
    return {f"model.loss.{name}": "0" for name in names if loss[name]}


def _one_member(settings: Settings) -> Changes:
    if settings["model"]["head"]["members"] == 1:
        raise NotApplicableError("the full model has one member")
    return {"model.head.members": "1"}


def _only_extra(settings: Settings) -> Changes:
    """Leave the extra inputs alone to score by, without what the encoders say and what it takes."""
    model = settings["model"]
    fusion = model["fusion"]
    if not fusion["extra_inputs"]:
        raise NotApplicableError("the full model has no extra inputs")
    changes = {} if fusion["blocks"] == [] else {"model.fusion.blocks": "[]"}
    changes |= {
        f"model.fusion.{key}": "false"
        for key in ("similarity", "image_similarity", "alignment")
        if fusion[key] and not (key == "image_similarity" and model["image"] is None)
    }
    if model["head"]["start"] is not None:
        changes["model.head.start"] = "null"
        changes |= _unweighted(settings, "cosine_weight", "support_weight")
    if not changes:
        raise NotApplicableError("the full model has nothing else")
    if any(_needs_image(name) for name in fusion["extra_inputs"]):
        return changes
    return changes | {f"model.{key}": "null" for key in ("image", "pretraining") if model[key] is not None}


def _without_extras(what: str, leaves_out: Callable[[str], bool]) -> Callable[[Settings], Changes]:
    def change(settings: Settings) -> Changes:
        extras = list(settings["model"]["fusion"]["extra_inputs"])
        kept = [name for name in extras if not leaves_out(name)]
        if kept == extras:
            raise NotApplicableError(f"the full model has no {what}")
        return {"model.fusion.extra_inputs": json.dumps(kept)}

    return change


def _without_block(block: str) -> Callable[[Settings], Changes]:
    def change(settings: Settings) -> Changes:
        model = settings["model"]
        blocks = model["fusion"]["blocks"]
        if blocks is None:
            blocks = applicable_blocks(model["image"] is not None, PAPER)
        if block not in blocks:
            why = (
                "the full model reads no image"
                if BLOCKS[block].reads == "image"
                else "it is not in the full model"
            )
            raise NotApplicableError(why)
        kept = [name for name in blocks if name != block]
        if not kept:
            raise NotApplicableError("the full model has no other block")
        return {"model.fusion.blocks": json.dumps(kept)}

    return change


def _needs_image(name: str) -> bool:
    entry = REGISTRY.get(name.partition(":")[0])
    return entry is not None and "image" in entry.needs


def _is_pacs(name: str) -> bool:
    return name.partition(":")[0] in ("pac-s", "pac-s++", "ref-pac-s", "ref-pac-s++")


BUILT_IN: dict[str, Callable[[Settings], Changes]] = {
    "no-image": _no_image,
    "no-idf": _no_idf,
    "no-pac-s": _without_extras("PAC-S inputs", _is_pacs),
    "no-ridge": _without_extras("ridge input", lambda name: name == Ridge.name),
    "no-lexical": _without_extras("lexical inputs", lambda name: not _needs_image(name)),
    "no-extra": _without_extras("extra inputs", lambda name: True),
    "only-extra": _only_extra,
    "no-similarity": _without_inputs("similarity"),
    "no-alignment": _without_inputs("alignment"),
    "no-pretraining": _no_pretraining,
    "no-cross-fit": _no_cross_fit,
    "no-support": _no_support,
    "one-member": _one_member,
    **{f"no-{block}": _without_block(block) for block in BLOCKS},
}
