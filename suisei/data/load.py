"""Loading rated data by name: a benchmark, the bundled sample, or a file of one's own."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suisei.cli import unspelt
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.benchmark import Benchmark
from suisei.data.compressed import plain_suffix
from suisei.data.file_rows import Note, warn
from suisei.data.formats import FORMATS, NamedColumns, OnError, Row, format_of, read_samples
from suisei.data.paths import Allowed, is_stream
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError


def load_data(
    name_or_file: str | Path,
    *,
    root: Path | str | None = None,
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
    columns: NamedColumns | None = None,
    references: Sequence[Path | str] = (),
    note: Note = warn,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    allowed: Allowed | None = None,
) -> list[CaptionSample]:
    """Return the samples of a benchmark or of a file.

    Args:
        name_or_file: a name in ``suisei.data.benchmarks.BENCHMARKS``, such as "scenes", or the path
            of a .jsonl, .csv, .tsv, .parquet, .json or .txt file.
        root: where a benchmark's files are; not for a file.
        images: folder of the images, where they are not at their usual place.
        rating_scale: (low, high) of a file's rows that state none; a benchmark knows its own.
        columns: {field: the column that fills it}, in a file.
        references: files of references, which take the place of a file's own.
        note: told what is guessed of a file, and what is left out.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
        skipped: a list that receives the rows left out.
        allowed: what a file's rows may name beside images in ``images`` or its own folder.

    Raises:
        ConfigError: an unknown name, or an argument that does not go with it.
        DataError: a bad row under "raise", or unusable files.
    """
    benchmark = BENCHMARKS.get(str(name_or_file)) if isinstance(name_or_file, str) else None
    if benchmark is not None:
        _check_own(benchmark, rating_scale=rating_scale, columns=columns, references=references)
        return benchmark.read(root, images=images, on_error=on_error, skipped=skipped)
    path = _checked_file(Path(name_or_file), root, images)
    return read_samples(
        path,
        images=images,
        rating_scale=rating_scale,
        columns=columns,
        references=references or None,
        note=note,
        on_error=on_error,
        skipped=skipped,
        allowed=allowed,
    )


def _check_own(benchmark: Benchmark, **given: Any) -> None:
    """Refuse what a benchmark decides itself.

    Raises:
        ConfigError: the first such argument.
    """
    scale = given.pop("rating_scale")
    if scale is not None and tuple(scale) != benchmark.rating_scale:
        low, high = benchmark.rating_scale
        raise ConfigError(f"{benchmark.name} has its own rating scale, {low:g} to {high:g}; leave it out")
    for what, value in given.items():
        if value:
            raise ConfigError(
                f"{benchmark.name} takes {what} from its own files alone; leave them out, or give a file of "
                f"ratings. {benchmark.source}"
            )


def _checked_file(path: Path, root: Path | str | None, images: Path | str | None) -> Path:
    if plain_suffix(path) not in FORMATS and not is_stream(path):
        if os.path.isfile(path):  # noqa: PTH113 - whatever the name is
            format_of(path)
        if os.path.isdir(path):  # noqa: PTH112
            raise ConfigError(
                f"{path} is a folder; give a file, or a benchmark's name and the folder as root"
            )
        raise ConfigError(_unknown(str(path)))
    refuse_root(path, root)
    if images is not None and not os.path.isdir(images):  # noqa: PTH112 - whatever the name is
        raise DataError(
            f"{images}: no such folder of images or videos{unspelt(images)}; leave it out if there are none"
        )
    return path


def refuse_root(path: Path, root: Path | str | None) -> None:
    """Make sure that no root is given with a file of rows, whose images start beside it or in their folder.

    Raises:
        ConfigError: one is.
    """
    if root is not None:
        raise ConfigError(
            f"{path} is a file and takes no root; to say where its images are, pass their folder (--images)"
        )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), BENCHMARKS, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"unknown data {name!r}{hint} (benchmarks: {', '.join(BENCHMARKS)}; "
        f"or a file that ends in {', '.join(FORMATS)})"
    )
