"""How many images a second CLIP-S and PAC-S look at, by tower, beside torchmetrics' CLIPScore.

Every caption has an image of its own, so that nothing is looked at once for several captions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from suisei.data.sample import CaptionSample
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.metrics.clipscore import ClipScore
from suisei.metrics.pacs import PacScore
from tests.benchmarks import clip_peer, inputs
from tests.benchmarks.harness import Options, Row, alternate, compared, seconds, spread

SECTION = "images"
TOWERS = ("ViT-B-16", "ViT-L-14")


def run(options: Options) -> Iterator[Row]:
    """Measure both towers."""
    by_image = {row.image: row for row in inputs.samples(options.root, 10**9)}
    rows = [replace(row, references=()) for row in by_image.values()]
    own = spread(rows, max(2, options.captions // 10))
    for tower in TOWERS if options.size != "tiny" else ("ViT-B-32",):
        yield from _of(tower, own, spread(own, options.peer_rows), options)


def _of(tower: str, own: list[CaptionSample], peers: list[CaptionSample], options: Options) -> Iterator[Row]:
    encoder = load_dual_encoder(tower, seed=0, device=options.device)
    encoder.memory = None  # repeats must not find what the first one left
    ours = {"CLIP-S": ClipScore(encoder=encoder), "PAC-S": PacScore(encoder=encoder)}
    torchmetrics = clip_peer.scorer(tower, options.device)
    for metric in ours.values():
        metric.score(own[:2])
    torchmetrics(peers[:2])
    sides = [
        *(partial(seconds, partial(metric.score, own)) for metric in ours.values()),
        partial(seconds, partial(torchmetrics, peers)),
    ]
    *times, theirs = alternate(sides, options.repeats)
    note = f"ours {encoder.precision}, {len(own)} images; theirs fp32, {len(peers)} of them; decoded in both"
    for name, spent in zip(ours, times, strict=True):
        counts = len(own), len(peers)
        what = f"{name}, {tower}"
        yield compared(SECTION, what, (spent, theirs), counts, "torchmetrics' CLIPScore", "images/s", note)
