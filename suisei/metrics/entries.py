"""The metrics of this package: what each is, needs and takes, without importing any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from suisei.errors import ConfigError

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
