"""DataFrames as samples: columns named as the fields of a file, rows taken by position."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.column_names import chosen_columns, match_columns
from suisei.data.fields import Settings, make_sample
from suisei.data.file_rows import warn
from suisei.data.given_columns import is_missing, is_series
from suisei.data.paths import ANYWHERE, Root
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

_CHOSEN = chosen_columns({"rating": "rating"})
"""No rating is guessed, which scoring has no use for: a column "score" may be of an earlier one."""


_ADVICE = (
    (r"; say which: --column \w+=\S+", "; leave out the others: frame.drop(columns=[...])"),
    (r"or say which: --column references=\S+", "or leave one out: frame.drop(columns=[...])"),
    (r"--column (\w+)=NAME", r"frame.rename(columns={NAME: '\1'})"),
    (r"--column \w+=(?=$|,|;)", "leave the column out"),
    (r"pass the folder that holds the \w+s \(--images DIR\)", "give it in full"),
    (r"(download the \w+s) into a folder, name them .*", r"\1 and give the paths of the files"),
    (r"say the right scale: --rating-scale LOW HIGH, or", "say the right scale in"),
)
"""What the readers of files advise, and what does it in Python."""


def frame_samples(frame: Any) -> list[CaptionSample]:
    """Return one sample per row of a pandas or Polars DataFrame.

    The columns are those of a file (see :mod:`suisei.data.fields`), except that images may also be
    objects: PIL images, arrays, tensors, and that ratings are a column "rating" alone. A missing cell (None,
    NaN) is a field left out. A warning says which columns were guessed, and which are ignored.

    Raises:
        DataError: no column of candidates, or a row that cannot be a sample; its position is named.
    """
    try:
        return _samples(frame)
    except DataError as error:
        text = str(error)
        for pattern, advice in _ADVICE:
            text = re.sub(pattern, advice, text)
        raise type(error)(text) from None


def _samples(frame: Any) -> list[CaptionSample]:
    names = tuple(frame.columns)
    wrong = next((name for name in names if not isinstance(name, str)), None)
    if wrong is not None:
        raise DataError(f"the DataFrame's columns must be named by text, got {wrong!r:.60}")
    if len(set(names)) < len(names):
        raise DataError(f"a column of the DataFrame occurs twice: {', '.join(names)[:200]}")
    columns = match_columns(names, _CHOSEN)
    if note := columns.note():
        warn(f"the DataFrame: columns {note}")
    of_image = columns.of.get("image", "image")
    cells = [frame[name].to_list() for name in names]
    settings = Settings(Root(Path(), allowed=ANYWHERE), table=True)  # rows of the caller's own
    samples = []
    for position, row in enumerate(zip(*cells, strict=True)):
        record = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        inside = None if isinstance(record.get(of_image), str) else record.pop(of_image, None)
        try:
            sample = make_sample(record, columns, settings)
            samples.append(sample if inside is None else replace(sample, image=inside))
        except DataError as error:
            raise DataError(f"sample {position}: {error}") from None
    return samples


def _plain(value: Any) -> Any:
    """Return a cell as a reader of files gives it: lists, numbers of Python, None where it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if is_series(value):
        return value.to_list()
    if isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return [item.item() if isinstance(item, np.generic) else item for item in value]
    return value
