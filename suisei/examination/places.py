"""Which benchmarks lie under a folder, and why the others are not examined."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suisei.cli import counted
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import DataError, UnavailableError
from suisei.metaeval.protocols import measured_places

DEPTH = 3
"""How many folders deep a benchmark may lie under the root."""

_FOLDERS = {
    "flickr8k-expert": ("flickr8k",),
    "flickr8k-expert-all": ("flickr8k",),
    "flickr8k-cf": ("flickr8k",),
    "pfn-pic-gen": ("pfn-pic",),
    "hat": ("aloha",),
    "nocaps-foil": ("aloha",),
    "foil": ("foil-coco",),
    "vatex-eval": ("vatex", "emscore"),
    "activitynet-foil": ("activitynet", "emscore"),
    "iiw-400": ("iiw", "imageinwords"),
    "sugarcrepe": ("sugar-crepe",),
    "jsts": ("jsts-v1.3",),
}
"""Names, beside a benchmark's own, of folders that hold it."""

_INSIDE = (".", "data", "mscoco")
"""Where the files are in such a folder: a clone of a set's own repository has them in a folder below it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A benchmark that was looked for.

    Attributes:
        name: the benchmark.
        root: where it is; None where it is not, or comes with the package.
        samples: those that its protocol measures; None where it cannot be examined.
        note: what was left out of it, or why it is not examined.
    """

    name: str
    root: Path | None
    samples: Sequence[CaptionSample] | None
    note: str = ""


def find_benchmark(name: str, root: Path) -> Place:
    """Look for a benchmark in the folders under ``root`` that have its name or its repository's, and read it.

    A bad row is left out and counted. Images that are absent are no reason to leave a benchmark out.

    Args:
        name: key of :data:`suisei.data.benchmarks.BENCHMARKS`.
        root: folder with data sets in folders of their own.
    """
    benchmark, wanted = BENCHMARKS[name], _names(name)
    if benchmark.default_root is not None:
        return _read(name, None)
    problem = f"no folder called {' or '.join(sorted(wanted))} under {root}"
    for folder in _folders(root):
        if _plain(folder.name) not in wanted:
            continue
        for inner in (folder / inside for inside in _INSIDE if (folder / inside).is_dir()):
            place = _read(name, inner)
            if place.samples is not None:
                return place
            problem = place.note
    return Place(name, None, None, problem)


def _names(name: str) -> set[str]:
    return {_plain(each) for each in (name, *_FOLDERS.get(name, ()))}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _folders(root: Path) -> Iterator[Path]:
    """Yield the root and the folders under it, those near it first, always in the same order."""
    level = [root]
    for _ in range(DEPTH + 1):
        yield from level
        level = [folder for parent in level for folder in _inside(parent)]


def _inside(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir() and entry.name[0] != ".")
    except OSError:
        return []


def _read(name: str, root: Path | None) -> Place:
    skipped: list[Row] = []
    try:
        found = BENCHMARKS[name].read(root, on_error="skip", skipped=skipped)
    except (DataError, UnavailableError) as error:  # the latter: of what reads Parquet
        return Place(name, root, None, str(error))
    samples = [found[place] for place in measured_places(name, found)]
    if not samples:
        return Place(
            name, root, None, f"{root or name}: none of its {counted(len(found), 'sample')} is rated"
        )
    return Place(name, root, samples, f"{counted(len(skipped), 'bad row')} left out" if skipped else "")
