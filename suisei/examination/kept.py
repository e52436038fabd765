"""Finished work of an examination, kept as JSON, so that the next start goes on from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.scoring.digest import row_digest, value_digest
from suisei.scoring.seen_images import readable_again


class Kept:
    """A folder of JSON files, each with the digest of what decided it.

    Args:
        folder: made when something is kept.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self.reused = 0
        """How many values were found and not computed again."""

    def get(
        self,
        name: str,
        digest: str,
        make: Callable[[], dict[str, Any]],
        refused: Callable[[dict[str, Any]], Iterable[tuple[CaptionSample, str]]] = lambda _: (),
    ) -> dict[str, Any]:
        """Return what is kept under a name and a digest, else what ``make`` returns, which is then kept.

        What has an ``error`` is not kept: the next start tries again. A file that is broken is made anew, and
        so is a value once an image for which it lacks a sample can be read.

        Args:
            name: of the value.
            digest: of what decides it.
            make: computes it.
            refused: gives the samples that a value was made without, and why.

        Raises:
            DataError: it cannot be written.
        """
        path = self._folder / f"{re.sub(r'[^0-9A-Za-z.+-]+', '_', name)[:80]}-{value_digest(name)[:6]}.json"
        found = _read(path)
        if found is not None and found.get("digest") == digest and isinstance(found.get("value"), dict):
            value = dict(found["value"])
            if not any(readable_again(sample, why) for sample, why in refused(value)):
                self.reused += 1
                return value
        value = make()
        if not value.get("error"):
            self._write(path, {"digest": digest, "value": value})
        return value

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        from suisei.data.writers import replacing

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self._folder}: cannot be written to: {error.strerror or error}") from None
        with replacing(path) as temporary:
            # In ASCII, for a path may hold bytes that are no text, which UTF-8 has nothing for.
            temporary.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def samples_digest(samples: Sequence[CaptionSample]) -> str:
    """Return a digest of samples with their ratings, languages, groups, systems and what else they hold."""
    judged = ("pair", "preferred", "scales", "parts")
    return value_digest(
        [
            [
                row_digest(Row(0, sample.id, sample, None)),
                sample.id, sample.group, sample.system, repr(sample.rating),
                [repr(getattr(sample, name, None)) for name in judged],
            ]
            for sample in samples
        ]
    )  # fmt: skip
