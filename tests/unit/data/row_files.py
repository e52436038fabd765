"""Files of rows, and what is said of a bad one."""

import csv
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

from suisei.data.formats import Row


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def jsonl(folder: Path, *records: object) -> Path:
    return write(folder, "rows.jsonl", "".join(json.dumps(record) + "\n" for record in records))


def save(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def lines(path: Path, *rows: object) -> Path:
    return save(path, "".join(json.dumps(row) + "\n" for row in rows))


def problem(row: Row) -> str:
    assert row.sample is None
    assert row.error is not None
    return str(row.error)


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "r.parquet"
    write_parquet(path, **columns)
    return path


def write_csv(path, header, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def write_parquet(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
