"""The registry: which metrics there are, how to make one from its name, and which work here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.base import Metric
from suisei.metrics.plugins import GROUP, loaded, offered

NEEDS = ("references", "image", "video")
"""What a sample may have beside its candidate, as entries name it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered metric.

    Attributes:
        target: "module:factory"; the factory is a Metric class or a function that returns one.
        needs: what a sample must have, any of NEEDS, as commands and ``suisei metrics`` read it without
            importing the module; what the class says too.
        either: of which a sample must have one: the model in the package, others may do with the candidate.
        summary: one line for ``suisei metrics``.
        defaults: keyword arguments that this name stands for, such as {"n": 4}.
        modules: importable modules that the metric needs beyond the base install.
        extra: the extra of suisei that installs them.
        argument: the keyword that ``name:ARGUMENT`` fills, such as "path" for ``suisei:DIR``.
        check: "module:function" that returns why the metric cannot run here, or None.
        requires: what must be given or be reachable when it runs, which no check here can foresee.
        default_check: the same as ``check`` where no argument is given.
        extra_input: whether a model may read its scores beside its own features: "alone" where this package
            computes them by itself, "folder" where it needs a dual encoder, which is then kept in the model's
            folder, "" for never. A model folder names such metrics, so nothing that runs or asks something
            of the folder's choice may be among them.

    Raises:
        ConfigError: ``needs`` or ``either`` is no tuple of words in NEEDS.
    """

    target: str
    needs: tuple[str, ...]
    summary: str
    defaults: dict[str, Any] | None = None
    modules: tuple[str, ...] = ()
    extra: str | None = None
    argument: str | None = None
    check: str | None = None
    requires: str | None = None
    default_check: str | None = None
    extra_input: Literal["alone", "folder", ""] = ""
    either: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, words in (("needs", self.needs), ("either", self.either)):
            if not isinstance(words, tuple) or not set(words) <= set(NEEDS):
                known = ", ".join(NEEDS)
                raise ConfigError(
                    f"entry of {self.target}: {field} is {words!r}, expected a tuple of {known}, or ()"
                )


_OPENAI_WEIGHTS = "its weights in the cache of the Hugging Face hub, or a connection to fetch them once"

REGISTRY: dict[str, Entry] = {
    "suisei": Entry(
        "suisei.metrics.loading:load",
        (),
        "the learned metric: the model in the package, or a model folder (suisei:DIR)",
        argument="path",
        default_check="suisei.metrics.default_model:default_model_reason",
        either=("references", "image"),
    ),
    **{
        f"bleu-{n}": Entry(
            "suisei.metrics.bleu:Bleu",
            ("references",),
            f"BLEU-{n} as in the COCO evaluation",
            defaults={"n": n},
            extra_input="alone",
        )
        for n in (1, 2, 3, 4)
    },
    "rouge-l": Entry(
        "suisei.metrics.rouge:RougeL",
        ("references",),
        "ROUGE-L as in the COCO evaluation",
        extra_input="alone",
    ),
    "cider": Entry(
        "suisei.metrics.cider:Cider",
        ("references",),
        "CIDEr-D as in the COCO evaluation; fits its idf first",
        extra_input="alone",
    ),
    "sacrebleu": Entry(
        "suisei.metrics.sacrebleu:SacreBleu",
        ("references",),
        "smoothed BLEU by sacrebleu, 0 to 100",
        extra_input="alone",
    ),
    "chrf": Entry(
        "suisei.metrics.sacrebleu:ChrF",
        ("references",),
        "character F-score by sacrebleu, 0 to 100",
        extra_input="alone",
    ),
    "meteor": Entry(
        "suisei.metrics.meteor:Meteor",
        ("references",),
        "METEOR 1.5 by Java; Japanese matches by exact characters",
        modules=("pycocoevalcap",),
        extra="java",
        check="suisei.metrics.java:pycocoevalcap_reason",
        extra_input="alone",
    ),
    "spice": Entry(
        "suisei.metrics.spice:Spice",
        ("references",),
        "SPICE 1.0 by Java; English only",
        modules=("pycocoevalcap",),
        extra="java",
        check="suisei.metrics.spice:spice_reason",
        extra_input="alone",
    ),
    **{
        name: Entry(f"suisei.metrics.overlap:{kind}", needs, summary, extra_input="alone")
        for name, kind, needs, summary in (
            ("unigram-f1", "UnigramF1", ("references",), "F1 of shared words"),
            ("length", "Length", (), "length of the candidate"),
            ("length-ratio", "LengthRatio", ("references",), "closeness of the candidate's length"),
            ("japanese", "Japanese", (), "1 for a Japanese caption: for models of two"),
            ("distinct-2", "Distinct2", (), "share of distinct bigrams: low for repetition"),
        )
    },
    **{
        f"repetition-{n}": Entry(
            "suisei.metrics.repetition:Repetition",
            (),
            f"share of {n}-grams that a caption says again; lower is better",
            defaults={"n": n},
        )
        for n in (1, 2, 3, 4)
    },
    "incomplete-ending": Entry(
        "suisei.probes.caption_faults:IncompleteEnding",
        (),
        "1 for a caption that breaks off; lower is better",
    ),
    "hallucinated-nouns": Entry(
        "suisei.probes.caption_faults:HallucinatedNouns",
        ("references",),
        "share of nouns that no reference mentions; lower is better",
    ),
    "clip-s": Entry(
        "suisei.metrics.clipscore:ClipScore",
        ("image",),
        "CLIP-S (Hessel et al., 2021); another open_clip model as clip-s:MODEL@TAG",
        argument="model",
        requires=_OPENAI_WEIGHTS,
        extra_input="folder",
    ),
    "ref-clip-s": Entry(
        "suisei.metrics.clipscore:ClipScore",
        ("image", "references"),
        "RefCLIP-S (Hessel et al., 2021); another open_clip model as ref-clip-s:MODEL@TAG",
        {"references": True},
        argument="model",
        requires=_OPENAI_WEIGHTS,
        extra_input="folder",
    ),
    **{
        f"{ref}{variant}": Entry(
            "suisei.metrics.pacs:PacScore",
            ("image", "references") if ref else ("image",),
            f"{'Ref' if ref else ''}{variant.upper()} (Sarto et al., {year})",
            {"variant": variant, "references": bool(ref)},
            argument="checkpoint",
            requires=f"its trained weights: {ref}{variant}:CHECKPOINT",
            extra_input="folder",
        )
        for variant, year in (("pac-s", 2023), ("pac-s++", 2024))
        for ref in ("", "ref-")
    },
    **{
        f"{ref}{name}": Entry(
            "suisei.metrics.video_pacs:VideoScore",
            ("video", "references") if ref else ("video",),
            f"{summary}{', with references' if ref else ''}",
            {"variant": variant, "references": bool(ref)},
            modules=("av",),
            extra="video",
            argument=argument,
            requires=f"its trained weights: {ref}{name}:CHECKPOINT"
            if argument == "checkpoint"
            else _OPENAI_WEIGHTS,
        )
        for ref in ("", "ref-")
        for name, variant, argument, summary in (
            ("em-score", "em-score", "model", "EMScore (Shi et al., 2022) of a video; fits its idf first"),
            ("video-pac-s", "pac-s", "checkpoint", "PAC-S of a video"),
            ("video-pac-s++", "pac-s++", "checkpoint", "PAC-S++ of a video"),
        )
    },
    "bertscore": Entry(
        "suisei.metrics.bertscore:BertScore",
        ("references",),
        "BERTScore F1 (Zhang et al., 2020); any Hugging Face encoder or folder: bertscore:MODEL",
        argument="model",
        requires="the encoder in a folder or in the cache of the Hugging Face hub, or a connection",
    ),
    "cosine": Entry(
        "suisei.metrics.cosine:Cosine",
        ("references",),
        "mean cosine of a sentence encoder's vectors: cosine:MODEL, any Hugging Face encoder or folder",
        argument="model",
        requires="its encoder: cosine:MODEL",
    ),
    **{
        name: Entry(
            "suisei.metrics.recap:load",
            ("image",),
            summary,
            {"noise": True} if name == "recap-noise" else None,
            modules=("diffusers", "piq"),
            extra="recap",
            argument="argument",
            requires="a text-to-image model: recap:MEASURE@MODEL, or Stable Diffusion 2.1 from the hub",
        )
        for name, summary in (
            ("recap", "RECAP (Chang et al.): the image beside images drawn from the caption"),
            ("recap-noise", "its control: noise beside images drawn from the caption"),
        )
    },
    "jaspice": Entry(
        "suisei.metrics.jaspice:JaSpice",
        ("references",),
        "JaSPICE (Wada et al., 2023), Japanese",
        argument="address",
        requires="a running JaSPICE server (docs/install.md): jaspice:http://HOST:PORT (default http://localhost:2115)",
    ),
    "recap-latent": Entry(
        "suisei.metrics.recap_latent:RecapLatent",
        ("image",),
        "RECAP, latent (Chang et al., 2023): distance of a guessed from the true image, lower is better",
        argument="path",
        requires="its trained folder: recap-latent:DIR",
    ),
    "comet": Entry(
        "suisei.metrics.comet:Comet",
        ("references",),
        "COMET (Rei et al., 2020)",
        argument="python",
        requires="the interpreter of an environment that has unbabel-comet: --comet-python PATH",
    ),
}


FAMILIES: dict[str, tuple[str, ...]] = {
    "bleu": ("bleu-4", "bleu-1", "bleu-2", "bleu-3", "sacrebleu"),
    "rouge": ("rouge-l",),
    "ciderd": ("cider",),
    "chrf++": ("chrf",),
    "clip": ("clip-s", "ref-clip-s"),
    "clipscore": ("clip-s", "ref-clip-s"),
    "refclipscore": ("ref-clip-s",),
    "pac": ("pac-s", "pac-s++", "ref-pac-s", "ref-pac-s++"),
    "pacscore": ("pac-s", "pac-s++", "ref-pac-s", "ref-pac-s++"),
    "refpacscore": ("ref-pac-s", "ref-pac-s++"),
    "emscore": ("em-score", "ref-em-score"),
    "bert": ("bertscore",),
    "distinct": ("distinct-2",),
    "repetition": ("repetition-4", "repetition-1", "repetition-2", "repetition-3"),
}
"""What people call a metric or a family of them, letters and digits alone, and the names here."""


def canonical(spec: str) -> str:
    """Return ``NAME`` or ``NAME:ARGUMENT`` with the registered name, whatever its case: CIDEr is cider."""
    name, colon, argument = spec.partition(":")
    known = name.strip().lower().replace("_", "-")
    if name in REGISTRY or (known not in REGISTRY and (name in offered() or known not in offered())):
        return spec
    return f"{known}{colon}{argument}"


def list_metrics() -> list[str]:
    """Return the registered names, in registry order, then those that other installed packages offer."""
    return [*REGISTRY, *(name for name in offered() if canonical(name) not in REGISTRY)]


def unavailable_reason(name: str, *, argument: bool = False) -> str | None:
    """Return why a registered metric cannot run on this machine, or None if it can.

    Args:
        name: its name.
        argument: whether it will be given its argument.
    """
    entry = get_entry(name)
    absent = [module for module in entry.modules if _is_absent(module)]
    if absent:
        how = f"pip install 'suisei[{entry.extra}]'" if entry.extra else f"pip install {' '.join(absent)}"
        return f"needs {', '.join(absent)}: {how}"
    check = entry.check if argument else entry.check or entry.default_check
    return resolve(check)() if check else None


def _is_absent(module: str) -> bool:
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:  # what it would lie in
        return True


def get_metric(spec: str, **options: Any) -> Metric:
    """Make a metric from ``NAME`` or ``NAME:ARGUMENT`` (``bleu-4``, ``suisei:runs/scenes/model``).

    Args:
        spec: a registered name, with its argument where the metric takes one.
        options: keyword arguments of the metric, such as ``tokenizer="character"``.

    Raises:
        ConfigError: unknown name, argument or option; the valid ones are listed. Or what is made does not
            agree with its entry.
        UnavailableError: the metric cannot run on this machine; the reason and the cure are named.
    """
    if not isinstance(spec, str):
        raise ConfigError(f"a metric's name must be text such as 'bleu-4', got {spec!r:.60}")
    name, _, argument = canonical(spec).partition(":")
    entry = get_entry(name)
    if argument:
        if entry.argument is None:
            raise ConfigError(f"metric {name!r} takes no argument, got {spec!r}")
        options.setdefault(entry.argument, argument)
    reason = unavailable_reason(name, argument=options.get(str(entry.argument)) is not None)
    if reason:
        raise UnavailableError(f"metric {name!r} {reason}")
    factory = resolve(entry.target)
    given = {**(entry.defaults or {}), **options}
    _check_options(name, factory, given)
    metric = factory(**given)
    if not isinstance(metric, Metric):
        raise ConfigError(f"metric {name!r}: {entry.target} did not make a Metric")
    _check_agreement(name, entry, metric)
    return metric


def _check_options(name: str, factory: Any, given: Mapping[str, Any]) -> None:
    """Refuse options that a factory does not take; a TypeError within it is its author's, and no option's."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # of some that are written in C
        return
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ConfigError(f"metric {name!r}: {error}") from error


def _check_agreement(name: str, entry: Entry, metric: Metric) -> None:
    """Refuse a class that needs other things than its entry says: commands go by one, scores by the other.

    What an instance sets itself may depend on its options, and is left to it.
    """
    if "needs" not in vars(metric) and metric.needs != set(entry.needs):
        here, there, kind = sorted(entry.needs), sorted(metric.needs), type(metric).__name__
        raise ConfigError(
            f"metric {name!r}: needs is {here} where it is registered, {there} in {kind}; make them the same"
        )


def get_entry(name: str) -> Entry:
    """Return a registered metric's entry, or that of another package's (:mod:`suisei.metrics.plugins`).

    Raises:
        ConfigError: no metric has that name; those that there are are listed. Or a package offers no entry.
        UnavailableError: the package that offers it cannot be imported.
    """
    name = canonical(name)
    if name in REGISTRY:  # no package takes the place of a metric of this one
        return REGISTRY[name]
    if name in offered():
        return _offered_entry(name)
    raise ConfigError(
        f"no metric {name!r}; {_meant(name)}registered: {', '.join(list_metrics())}; "
        f"your own: by an entry point {GROUP} (see CONTRIBUTING.md)"
    )


def _offered_entry(name: str) -> Entry:
    entry, package = loaded(name)
    if not isinstance(entry, Entry):
        raise ConfigError(
            f"metric {name!r}: {package} offers {type(entry).__name__}, "
            "expected an Entry of suisei.metrics.registry"
        )
    return entry


def _meant(name: str) -> str:
    """Return what an unknown name probably stands for, as part of a sentence; "" where nothing is near."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum() or letter == "+")
    family = FAMILIES.get(plain)
    if family is not None and len(family) > 1:
        return f"of that family there are {', '.join(family)} (did you mean {family[0]!r}?); "
    names = list_metrics()
    close = family or difflib.get_close_matches(name.lower(), names, n=1)
    close = close or difflib.get_close_matches(plain, [each.replace("-", "") for each in names], n=1)
    near = next(
        (each for each in names if close and each.replace("-", "") == close[0].replace("-", "")), None
    )
    return f"did you mean {near!r}? " if near else ""


def resolve(target: str) -> Any:
    """Return what ``module:name`` in an entry stands for.

    Raises:
        UnavailableError: the module cannot be imported, or has no such name that can be called.
    """
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # another package raises what it likes when it is imported
        raise UnavailableError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise UnavailableError(f"{target} is no class or function, but {type(found).__name__}")
    return found
