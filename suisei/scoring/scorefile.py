"""Score files: one row per sample, one column per metric, as JSONL or CSV, or in FLEUR's own text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.documents import parse_json
from suisei.data.json_files import invalid_json
from suisei.data.sample import CaptionSample
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError
from suisei.scoring.columns import ScoreColumn
from suisei.scoring.fleur import RAW, SMOOTHED, fleur_order, read_fleur
from suisei.scoring.score_columns import columns_of_scores, describes_sample, split_source


def write_scores(
    path: str | Path, samples: Sequence[CaptionSample], named_scores: Mapping[str, np.ndarray]
) -> None:
    """Write {name: scores [N]} of N samples at full precision; a missing score is null or empty.

    There is an ``id`` column if every sample has an id; without, rows are in sample order.

    Raises:
        ConfigError: the suffix is neither .jsonl nor .csv.
        DataError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in (".jsonl", ".csv"):
        raise ConfigError(f"{path}: scores are saved as .jsonl or .csv, got {path.suffix or 'no suffix'!r}")
    with_id = all(sample.id is not None for sample in samples)
    rows: list[dict[str, Any]] = [{"id": sample.id} if with_id else {} for sample in samples]
    for name, scores in named_scores.items():
        for row, score in zip(rows, scores.tolist(), strict=True):
            row[name] = None if math.isnan(score) else score
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        if path.suffix == ".jsonl":
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else ["id"])
            writer.writeheader()
            writer.writerows(rows)


Among = Sequence[tuple[int, Sequence[int]]]
"""How many rows the data had before some were left out, and which of them the samples are, from 0; several
where it was done in several steps, the most rows last."""


def read_scores(
    path: str | Path, samples: Sequence[CaptionSample], among: Among = (), picked: str = ""
) -> tuple[dict[str, np.ndarray], str]:
    """Read score columns and put them in the order of ``samples``.

    Rows are joined by id; where no sample has one, by row number, which ``suisei score`` writes as id
    then. A file without ids is joined by row order. Row order needs as many rows as there are samples, or as
    the data had before unrated or bad ones were left out. FLEUR's text is joined by image file and caption.

    Args:
        path: a .jsonl or .csv file with a header, or a .txt of :mod:`suisei.scoring.fleur`.
        samples: N samples.
        among: which rows of the data the samples are.
        picked: the columns to be read, separated by commas; "" for all that are no field of a sample.

    Returns:
        {column: float64 [N]}, NaN where a sample has no score, and a line that says how rows were
        joined and which columns were not taken. A column called "score" takes the file's name, unless
        another column has it.

    Raises:
        DataError: an unreadable file, a value that is not a finite number, a repeated id, no common
            id, ids other than row numbers for samples without, a wrong number of rows, or no score
            column.
    """
    path = Path(path)
    if path.suffix == ".txt":
        return _read_fleur(path, samples, picked)
    rows = _read_rows(path)
    names, others = columns_of_scores(path, rows, picked)
    if all(row.get("id") in (None, "") for row in rows):
        order, how = _by_position(path, len(rows), len(samples), among)
    elif any(sample.id is not None for sample in samples):
        order, how = _by_id(path, rows, samples)
    else:
        order, how = _by_number(path, rows, len(samples), among)
    untaken = f"; not taken for scores: {', '.join(others)}" if others else ""
    return _joined(path, rows, names, order, len(samples)), f"{path.name}: {how}{untaken}"


def _read_fleur(
    path: Path, samples: Sequence[CaptionSample], picked: str
) -> tuple[dict[str, np.ndarray], str]:
    try:
        rows = read_fleur(path)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    order = np.array(fleur_order(path, rows, samples), dtype=np.int64)
    found = int((order >= 0).sum())
    scores = [{name: row[name] for name in (SMOOTHED, RAW) if name in row} for row in rows]
    names, _ = columns_of_scores(path, scores, picked)
    how = f"joined by image and caption, {found:,} of {counted(len(samples), 'sample')} found"
    return _joined(path, rows, names, order, len(samples)), f"{path.name}: {how}"


def _joined(
    path: Path, rows: Sequence[dict[str, Any]], names: Sequence[str], order: np.ndarray, count: int
) -> dict[str, np.ndarray]:
    """Return {column: its values in the order of the samples, NaN where a sample has no row}."""
    joined = {}
    own = path.stem if path.stem not in names else "score"
    for name in names:
        values = np.array([_number(path, number, name, row.get(name)) for number, row in enumerate(rows, 1)])
        there = order >= 0
        column = np.full(count, np.nan)
        column[there] = values[order[there]]
        joined[own if name == "score" else name] = column
    return joined


def join_columns(
    paths: Sequence[str | Path],
    samples: Sequence[CaptionSample],
    among: Among,
    labels: Sequence[str],
) -> tuple[list[ScoreColumn], list[str]]:
    """Return the columns of score files, and how each file was joined.

    Args:
        paths: the files, each as :func:`~suisei.scoring.score_columns.split_source` takes it.
        samples: N samples.
        among: which rows of the data the samples are.
        labels: of the columns beside these; a name among them, or one that describes a sample where it was
            picked, gets the file's name beside it.

    Raises:
        ConfigError: a column is there already, the file's name included.
        DataError: what :func:`read_scores` raises.
    """
    joined, notes, taken = [], [], set(labels)
    for path, picked in map(split_source, paths):
        found, note = read_scores(path, samples, among, picked)
        for name, scores in found.items():
            known = name in taken or describes_sample(name)  # which would not be read back
            label = f"{name} ({path.name})" if known else name
            if label in taken:
                raise ConfigError(f"--scores {path}: column {name!r} is there already")
            taken.add(label)
            absent = int((scores != scores).sum())
            missing = {f"no score in {path.name}": absent} if absent else {}
            joined.append(ScoreColumn(label, scores, f"{name}|from:{path.name}", missing=missing))
        notes.append(note)
    return joined, notes


def _read_rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix not in (".jsonl", ".csv"):
        got = repr(path.suffix or "no suffix")
        raise DataError(f"{path}: scores are read from .jsonl, .csv or FLEUR's .txt, got {got}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # an id may hold line ends of any kind
            text = stream.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{path}: the file is UTF-16 or not text; save it as UTF-8")
    if path.suffix == ".csv":
        rows = _csv_rows(path, text)
    else:
        rows = [
            _json_row(path, number, line)
            for number, line in enumerate(io.StringIO(text, newline=None), 1)
            if line.strip()
        ]
    if not rows:
        raise DataError(f"{path}: the file has no rows")
    return rows


def _csv_rows(path: Path, text: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = list(reader.fieldnames or [])
        rows: list[dict[str, Any]] = list(reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
    if len(set(names)) < len(names) or "" in names:
        raise DataError(
            f"{path}, header: a column has no name, or two have the same: {', '.join(names)[:200]}"
        )
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise DataError(f"{path}, row {number}: its number of fields is not that of the header")
    return rows


def _json_row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, row {number}: {invalid_json(error, line=True)}") from None
    if not isinstance(row, dict):
        raise DataError(f'{path}, row {number}: expected an object such as {{"id": ..., "score": ...}}')
    return row


def _by_id(
    path: Path, rows: list[dict[str, Any]], samples: Sequence[CaptionSample]
) -> tuple[np.ndarray, str]:
    where = _positions(path, rows)
    order = np.array([-1 if s.id is None else where.get(s.id, -1) for s in samples], dtype=np.int64)
    found = int((order >= 0).sum())
    if not found:
        raise DataError(f"{path}: none of its {counted(len(rows), 'id')} is a sample's, of {len(samples):,}")
    return order, f"joined by id, {found:,} of {counted(len(samples), 'sample')} found"


def _by_number(path: Path, rows: list[dict[str, Any]], samples: int, among: Among) -> tuple[np.ndarray, str]:
    """Join by ids that are the row numbers of data without ids, in whatever order the file has them."""
    named = {str(row["id"]) for row in rows if row.get("id") not in (None, "")}
    most, mine = among[-1] if among else (samples, range(samples))
    if named <= _numbers(len(rows)) and len(rows) < most:
        fewer = [places for count, places in among[:-1] if count == len(rows)]
        own = {str(place + 1) for place in mine}
        if not own <= named or any(list(places) != list(mine) for places in fewer):
            raise DataError(
                f"{path}: its ids 1 to {len(rows)} may number all {most} rows of the data or those that are "
                f"left without unrated or bad ones and further raters; give scores of all {most} rows, or "
                "add ids to both"
            )
    if named <= _numbers(most):
        where = _positions(path, rows)
        order = np.array([where.get(str(place + 1), -1) for place in mine], dtype=np.int64)
        found = counted(len(rows), "row") if len(rows) == most else f"{len(rows)} of {most} rows"
        measured = "" if most == samples else f", {samples} measured"
        return order, f"the data has no ids, joined by row number ({found}{measured})"
    if named <= _numbers(len(rows)):
        return _by_position(path, len(rows), samples, among)  # which refuses more rows than there are
    last = max(most, len(rows))
    known = _numbers(last)
    names = [row.get("id") for row in rows]
    number, name = next((n, name) for n, name in enumerate(names, 1) if str(name) not in known)
    raise DataError(
        f"{path}, row {number}: id {name!r:.60} is no row number from 1 to {last}, and the data has no ids; "
        "add the id column to the data, or take the ids out of this file, whose rows are then joined by "
        "their order"
    )


def _numbers(count: int) -> set[str]:
    return {str(number) for number in range(1, count + 1)}


def _positions(path: Path, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return {id: position of its row}."""
    where: dict[str, int] = {}
    for position, row in enumerate(rows):
        name = row.get("id")
        if name in (None, ""):
            raise DataError(f"{path}, row {position + 1}: no id, while other rows have one")
        if str(name) in where:
            raise DataError(f"{path}, row {position + 1}: id {name!r} occurs twice")
        where[str(name)] = position
    return where


def _by_position(path: Path, rows: int, samples: int, among: Among) -> tuple[np.ndarray, str]:
    if rows == samples:
        return np.arange(samples), f"no ids, joined by row order ({counted(rows, 'row')})"
    for count, places in among:
        if rows == count:
            how = f"no ids, joined by row order ({counted(rows, 'row')}, {samples} measured)"
            return np.asarray(places, dtype=np.int64), how
    raise DataError(
        f"{path}: {rows} rows for {samples} samples, which no id joins; add ids to the data and to the file, "
        "or a row for each sample"
    )


def _number(path: Path, number: int, name: str, value: Any) -> float:
    if value is None or value == "":
        return math.nan
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(
            f"{path}, row {number}, column {name!r}: {value!r:.60} is not a finite number; beside id and "
            "fields such as image, a file holds scores alone, blank where there is none; to pick columns: "
            "--scores FILE:COLUMN[,COLUMN]"
        )
    return score
