"""The uids of an archive's samples in the Parquet file that img2dataset writes beside it."""

from __future__ import annotations

from pathlib import Path

from suisei.data.file_rows import Note, uid_text
from suisei.data.parquet import import_pyarrow
from suisei.errors import UnavailableError, one_line


class UidsBeside:
    """The uids of the Parquet file beside an archive, read when the first sample lacks its own.

    Args:
        path: the file, which need not be there.
        note: told in a line why they cannot be read; samples have no uid then.
    """

    def __init__(self, path: Path, note: Note) -> None:
        self._path, self._note = path, note
        self._uids: dict[str, str] | None = None

    def of(self, key: str) -> str | None:
        """Return the uid of a sample, None where there is none."""
        if self._uids is None:
            self._uids = self._read()
        return self._uids.get(key.rpartition("/")[2])

    def _read(self) -> dict[str, str]:
        if not self._path.is_file():
            return {}
        try:
            pyarrow = import_pyarrow(self._path)
        except UnavailableError:
            self._note(
                "uids that stand in Parquet files beside archives need pyarrow, so that samples have those "
                "of their JSON alone; pip install 'suisei[parquet]'"
            )
            return {}
        try:
            if not {"key", "uid"} <= set(pyarrow.parquet.read_schema(self._path).names):
                return {}
            table = pyarrow.parquet.read_table(self._path, columns=["key", "uid"])
            pairs = zip(table["key"].to_pylist(), table["uid"].to_pylist(), strict=True)
            return {str(key): uid_text(uid) or str(uid) for key, uid in pairs if uid}
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            self._note(
                f"the uids of {self._path} cannot be read, so that samples have those of their JSON alone; "
                f"put the file back whole ({one_line(error)})"
            )
            return {}
