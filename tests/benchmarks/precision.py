"""What bf16 and int8 give in time and cost in agreement, beside fp32 on the same CPU.

oneDNN's ``ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI`` in the environment hides what newer ones have beyond it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from suisei.data.load import load_data
from suisei.data.sample import CaptionSample
from suisei.metaeval.correlation import pearson, spearman
from suisei.metrics.loading import load
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models.features import encode_captions
from tests.benchmarks import inputs
from tests.benchmarks.harness import Options, Row, alternate, compared, seconds

SECTION = "precision"
OTHERS = ("bf16", "int8")


def run(options: Options) -> Iterator[Row]:
    """Measure both."""
    yield from _speed(options)
    folder = inputs.shipped(options)
    if folder is not None:
        for name, rows in _data(options).items():
            yield from _agreement(name, rows, folder)


def _speed(options: Options) -> Iterator[Row]:
    captions = inputs.captions_of(inputs.samples(options.root, 10**9))[: options.captions]
    sides = []
    for precision in ("fp32", *OTHERS):
        model = inputs.loaded(options, image=False, references="concat")
        metric = SuiSeiMetric(model, device="cpu", precision=precision, cache="off")
        ids = metric.regressor.text.tokenize(captions)
        sides.append(partial(seconds, partial(_encode, metric, ids)))
        _encode(metric, ids[:8])
    before, *after = alternate(sides, options.repeats)
    counts = len(captions), len(captions)
    for precision, times in zip(OTHERS, after, strict=True):
        what = f"text encoder of size {options.size} in {precision}"
        note = f"{len(captions)} captions; {os.environ.get('ONEDNN_MAX_CPU_ISA', 'all instructions')}"
        yield compared(SECTION, what, (times, before), counts, "fp32", "captions/s", note)


def _encode(metric: SuiSeiMetric, ids: list[list[int]]) -> None:
    with torch.inference_mode():
        encode_captions(metric.regressor, ids)


def _data(options: Options) -> dict[str, list[CaptionSample]]:
    """Return rated captions of both languages: those at hand, else the bundled scenes."""
    if options.root is None:
        return {"scenes": load_data("scenes")[: options.rows]}
    shichimi = options.root.parent / "shichimi" / "shichimi_dev.csv"
    return {
        "Flickr8k-Expert": load_data("flickr8k-expert", root=options.root)[: options.rows],
        "Shichimi": load_data(shichimi, rating_scale=(1, 5))[: options.rows],
    }


def _agreement(name: str, rows: list[CaptionSample], folder: Path) -> Iterator[Row]:
    rows = inputs.with_references(rows, 5, image=False)
    scores = {
        precision: load(folder, device="cpu", precision=precision, cache="off").score(rows)
        for precision in ("fp32", *OTHERS)
    }
    ratings = [row.rating.mean for row in rows if row.rating is not None]
    known = {precision: pearson(own, ratings) for precision, own in scores.items()}
    for precision in OTHERS:
        rank = spearman(scores["fp32"], scores[precision])
        note = f"{len(rows)} captions, rank agreement {rank:.5f}; Pearson with the ratings "
        note += f"{known[precision]:.4f}, in fp32 {known['fp32']:.4f}"
        what = f"largest change of a score from fp32, model in the package in {precision}, {name}"
        largest = float(np.abs(scores[precision] - scores["fp32"]).max())
        yield Row(SECTION, what, largest, "", note=note)
