"""Published correlations of known data sets, shown beside those computed here.

Figures are those that papers and their authors' repositories print, with all the digits they give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import HUMAN, LABELS, Cell, Row, Section, Table


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """The correlations that papers report for one data set.

    Attributes:
        source: where the figures are printed.
        raters: how the paper treats a sample's ratings: "rows" or "mean".
        kinds: which correlations, in the order of the figures.
        figures: {metric: one value per kind}; the key is the registry name where there is one.
        scale: what the printed values are multiplied by: 100 for percentages.
        differences: why ours are not the same, one line each.
    """

    source: str
    raters: str
    kinds: tuple[str, ...]
    figures: Mapping[str, tuple[float, ...]]
    scale: float = 1.0
    differences: tuple[str, ...] = ()


_FLICKR8K_SOURCE = (
    "Hessel et al. (EMNLP 2021), table 1; Sarto et al. (CVPR 2023), tables 1 and 2, with the further digits "
    "of their repository; Wada et al. (CVPR 2024) for Polos. CLIP-S and PAC-S are those of ViT-B/32"
)

PUBLISHED: dict[str, PublishedFigures] = {
    "flickr8k-expert": PublishedFigures(
        source=_FLICKR8K_SOURCE,
        raters="rows",
        kinds=("tau-b", "tau-c"),
        scale=100,
        figures={
            "bleu-1": (32.175, 32.324),
            "bleu-4": (30.599, 30.776),
            "rouge-l": (32.139, 32.314),
            "meteor": (41.538, 41.822),
            "cider": (43.602, 43.891),
            "spice": (51.7, 44.9),
            "clip-s": (51.1, 51.2),
            "ref-clip-s": (52.6, 53.0),
            "pac-s": (53.919, 54.292),
            "ref-pac-s": (55.5, 55.9),
            "Polos": (56.1, 56.4),
        },
        differences=(
            "each of the three ratings is a row beside the pair's score, and pairs whose caption is one of "
            "the image's own are left out, as published; tokenizing by rules instead of by Java moves no "
            "figure by more than 0.0006",
        ),
    ),
    "flickr8k-cf": PublishedFigures(
        source=_FLICKR8K_SOURCE,
        raters="mean",
        kinds=("tau-b", "tau-c"),
        scale=100,
        figures={
            "bleu-1": (17.946, 9.256),
            "bleu-4": (16.863, 8.710),
            "rouge-l": (19.903, 10.274),
            "meteor": (22.269, 11.510),
            "cider": (24.619, 12.724),
            "spice": (24.4, 12.0),
            "clip-s": (34.4, 17.7),
            "ref-clip-s": (36.4, 18.8),
            "pac-s": (36.037, 18.628),
            "ref-pac-s": (37.6, 19.5),
            "Polos": (37.8, 19.5),
        },
        differences=(
            "which captions were the references is not stated fully: none of the rules tried gives all the "
            "published figures, and the nearest, the four captions other than number 2, is used here; they "
            "rest on about 47,830 pairs, and a copy that lacks some moves the figures too",
        ),
    ),
    "shichimi": PublishedFigures(
        source="the SuiSei paper, table 2, on Shichimi's 103,170 samples and its split by image",
        raters="rows",
        kinds=("pearson", "spearman", "tau-b"),
        figures={
            "bleu-4": (0.296, 0.343, 0.260),
            "rouge-l": (0.366, 0.340, 0.258),
            "meteor": (0.345, 0.366, 0.279),
            "cider": (0.312, 0.355, 0.269),
            "jaspice": (0.499, 0.531, 0.413),
            "comet": (0.624, 0.573, 0.442),
            "suisei": (0.672, 0.644, 0.504),
            HUMAN: (0.759, 0.750, 0.669),
        },
        differences=(
            "the paper states no tokenizer, and it matters: on the 11,900 samples of the dev file, "
            "characters instead of MeCab's words (--tokenizer character) move the Pearson correlation of "
            "BLEU-4 from 0.299 to 0.421 and of ROUGE-L from 0.384 to 0.447",
            "nor does it say how many references n-gram metrics had: with one of the two instead of both, "
            "MeCab's words, Pearson falls for BLEU-4 from 0.299 to 0.212 or 0.219, for CIDEr from 0.373 to "
            "0.278 or 0.285",
            "METEOR here matches Japanese by exact characters; what the paper's METEOR matched is not stated",
            "the dev file is a part of the paper's data; the paper says BLEU without an order, which stands "
            "beside bleu-4, and Kendall without a variant, which stands beside tau-b; its SuiSei was trained "
            "on one half by image and tested on the other",
        ),
    ),
}


def published_table(
    data: str, named_scores: Mapping[str, np.ndarray], samples: Sequence[CaptionSample]
) -> Table | None:
    """Return a data set's published figures beside those of ``named_scores``.

    Ours are computed as the papers did, whatever the options of the main table are: all rows pooled,
    and a sample's ratings as ``PublishedFigures.raters`` says.

    Args:
        data: the data set's name.
        named_scores: {label: float64 [N]}; a label is a registry name, perhaps with its ``:ARGUMENT``.
        samples: N samples, all rated.

    Returns:
        The table, or None where no figures are known.
    """
    known = PUBLISHED.get(data)
    if known is None:
        return None
    settings = EvaluationSettings(raters=known.raters)
    ours = evaluation_table(named_scores, samples, settings, by_scope=False, human=HUMAN in known.figures)
    rows, told = [], set()
    for row in ours.overall.rows:
        name = row.label.partition(":")[0]
        if name in known.figures:
            told.add(name)
            here = {kind: row.cells[kind] for kind in known.kinds}
            rows.append(Row(row.label, {**here, **_cells(known, name)}, row.signature))
    rows += [Row(name, _cells(known, name)) for name in known.figures if name not in told]
    rows.sort(key=lambda row: row.label == HUMAN)  # the ceiling comes last, as in the main table
    columns: dict[str, str] = {}
    for kind in known.kinds:
        columns |= {kind: f"{LABELS[kind]} here", _key(kind): f"{LABELS[kind]} published"}
    notes = (f"published: {known.source}", *known.differences)
    meta = {"data": data, "settings": {"averaging": "pooled", "raters": known.raters}}
    return Table(
        f"Beside published figures: {data}",
        columns,
        (Section("overall", tuple(rows)),),
        notes,
        meta,
        digits=4,
    )


def _cells(known: PublishedFigures, name: str) -> dict[str, Cell]:
    values = zip(known.kinds, known.figures[name], strict=True)
    return {_key(kind): Cell(value / known.scale) for kind, value in values}


def _key(kind: str) -> str:
    return f"{kind}-published"
