"""The bundled sample: rendered scenes with Japanese and English captions and simulated ratings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suisei.data.benchmarks.benchmark import Benchmark, find_file
from suisei.data.formats import Row, iter_rows
from suisei.resources import resource_path


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    return iter_rows(find_file(root, "captions.jsonl"), images=images)


def _bundled() -> Path:
    return resource_path("data/scenes")


SCENES = Benchmark(
    name="scenes",
    rows=_rows,
    language=None,
    rating_scale=(1.0, 5.0),
    summary="the bundled sample: drawn scenes, captions in two languages, simulated ratings of 1 to 5",
    source="It comes with suisei; leave --root out, or give a folder that holds captions.jsonl.",
    has_images=True,
    default_root=_bundled,
)
