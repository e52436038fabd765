"""Files of rows, and what is said of a bad one."""

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


def problem(row: Row) -> str:
    assert row.sample is None
    assert row.error is not None
    return str(row.error)


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "r.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path
