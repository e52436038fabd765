"""A metric that does something in the middle of a run, and rows for it."""

import numpy as np
from PIL import Image

from suisei.commands import score
from suisei.data.images import load_image
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from suisei.runlog import events
from tests.unit.runs import run, write_rows

EVALUATING = ("--metrics", "length,acting,rouge-l", "--bootstrap", 10)


class Acting(Metric):
    """Scores by length, and does something when it comes to a caption."""

    name = "acting"
    at = "a dog 9"
    act = staticmethod(lambda: None)

    def _score(self, samples, *, batch_size, progress):
        if any(sample.candidate == Acting.at for sample in samples):
            Acting.act()
        return np.array([float(len(sample.candidate)) for sample in samples])


class Looking(Acting):
    """Looks at the images besides."""

    def _score(self, samples, **options):
        scores = super()._score(samples, **options)
        for sample in samples:
            load_image(sample.image)
        return scores


def interrupt():
    raise KeyboardInterrupt


def registered(monkeypatch):
    """Register both for a test."""
    for fake in (Acting, Looking):
        entry = Entry(f"{__name__}:{fake.__name__}", (), "a fake")
        monkeypatch.setitem(REGISTRY, fake.__name__.lower(), entry)
    monkeypatch.setattr(Acting, "act", staticmethod(lambda: None))
    yield Acting
    events.end(None)


def rated_rows(tmp_path):
    """Write twelve rated rows whose images are in a folder of their own."""
    images = tmp_path / "images"
    images.mkdir()
    rows = []
    for number in range(12):
        Image.new("RGB", (8, 8 + number)).save(images / f"{number}.png")
        rows.append({
            "id": f"r{number}", "candidate": f"a dog {number}", "references": ["a dog runs", "犬が走る"],
            "image": str(images / f"{number}.png"), "rating": number / 12,
        })  # fmt: skip
    return write_rows(tmp_path / "rows.jsonl", rows)


def scoring(data, output, *more, metrics="acting"):
    images = data.parent / "images"
    return run(
        score.main,
        "--input",
        data,
        "--images",
        images,
        "--metrics",
        metrics,
        "--output",
        output,
        "--window",
        4,
        *more,
    )
