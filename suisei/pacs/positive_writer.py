"""Writes manifests of generated captions and images (:mod:`suisei.pacs.manifest`): append-only, resumable."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from suisei.data.checksums import sha256_of
from suisei.data.item_seeds import item_seed
from suisei.data.paths import try_lock
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError
from suisei.pacs.manifest import KINDS, records
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from PIL.Image import Image

_ITEM_BEGINS = b'{"kind": "'
_RECIPE = ("model", "revision", "run_seed", "settings")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes the items of one manifest.

    Attributes:
        model: the model's name on the hub, or the name of its folder.
        revision: its commit, or a checksum of its files.
        run_seed: what the items' seeds are derived from.
        settings: everything else that decides an item.
    """

    model: str
    revision: str
    run_seed: int
    settings: Mapping[str, Any]

    def item_seed(self, source: str) -> int:
        """Return the seed of one item, from the run's seed and what the item is made of."""
        return item_seed(self.run_seed, source)


class PositiveWriter:
    """Appends to one manifest of a folder, alone: a second writer is refused.

    Args:
        folder: where the manifest and the images go; made if it is not there.
        kind: "captions" or "images".

    Attributes:
        done: the sources that the manifest has a line of.
        declined: those of them that the model made nothing of.

    Raises:
        ConfigError: another process writes to the folder.
        DataError: the folder cannot be written to, or its manifest is broken.
    """

    def __init__(self, folder: Path | str, kind: str) -> None:
        check("kind", kind, Word(KINDS))
        self.folder, self.kind = Path(folder), kind
        self.path = self.folder / f"{kind}.jsonl"
        self.done: set[str] = set()
        self.declined: set[str] = set()
        self._recipe: Recipe | None = None

    def __enter__(self) -> PositiveWriter:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / f".{self.kind}.lock").open("a")
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be written to: {error.strerror or error}") from None
        if not try_lock(self._lock):
            self._lock.close()
            raise ConfigError(f"another process is writing {self.path}; wait for it, or use another folder")
        self._first: dict[str, Any] | None = None
        try:
            for place, record in records(self.path) if self.path.is_file() else ():
                if record["source"] in self.done:
                    raise DataError(f"{place}: source {record['source']} occurs twice; remove one line")
                self.done.add(record["source"])
                if "problem" in record:
                    self.declined.add(record["source"])
                self._first = self._first or record
            _drop_unfinished_line(self.path)
            self._stream = self.path.open("a", encoding="utf-8", newline="\n")
        except DataError:
            self._lock.close()
            raise
        except OSError as error:
            self._lock.close()
            raise DataError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what could not be written was said when it was written
            self._stream.close()
        with suppress(OSError):
            if not self.path.stat().st_size:
                self.path.unlink()
        self._lock.close()  # which also releases it

    def begin(self, recipe: Recipe) -> None:
        """Say what makes the items from now on.

        Raises:
            ConfigError: the manifest's items were made otherwise.
        """
        self.check(**{name: getattr(recipe, name) for name in _RECIPE})
        if self._first is not None and dict(self._first["settings"]) != json.loads(
            json.dumps(dict(recipe.settings))
        ):
            raise ConfigError(
                f"{self.path} was made with settings {self._first['settings']}, this run has "
                f"{dict(recipe.settings)}; give the same, or another folder"
            )
        self._recipe = recipe

    def check(self, *, settings: Mapping[str, Any], **fields: Any) -> None:
        """Compare what a run knows of its recipe, before it loads the model, with the manifest's items.

        Args:
            settings: some of the settings.
            fields: some of model, revision and run_seed.

        Raises:
            ConfigError: the manifest's items were made otherwise.
        """
        first = self._first
        if first is None:
            return
        pairs = [(name, first[name], value) for name, value in fields.items()]
        pairs += [(name, first["settings"].get(name), value) for name, value in settings.items()]
        for name, before, now in pairs:
            if before != now:
                raise ConfigError(
                    f"{self.path} was made with {name} {before!r}, this run has {now!r}; give the same, or "
                    "another folder"
                )

    def add_caption(self, source: str, caption: str, **origin: Any) -> None:
        """Append a caption generated from the image with the key ``source``."""
        self._append(source, {"caption": caption, **origin})

    def add_image(self, source: str, image: Image, **origin: Any) -> None:
        """Save an image generated from the caption with the key ``source``, then append its line.

        A file without a line is written over: another model may have made it, before the manifest went.
        """
        name = f"{source.removeprefix('text-')}.png"
        file = self.folder / "images" / name[:2] / name
        stream = io.BytesIO()
        image.save(stream, format="PNG")
        with replacing(file) as temporary:
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(stream.getvalue())
        relative = file.relative_to(self.folder).as_posix()
        self._append(source, {"file": relative, "sha256": sha256_of(file), **origin})

    def add_problem(self, source: str, problem: str, **origin: Any) -> None:
        """Append that the model declined an item, so that it is not tried again."""
        self._append(source, {"problem": problem, **origin})
        self.declined.add(source)

    def _append(self, source: str, fields: Mapping[str, Any]) -> None:
        recipe = self._recipe
        if recipe is None:
            raise RuntimeError("begin() comes before the first item: this is a defect")
        if source in self.done:
            raise RuntimeError(f"{source} is in the manifest already: this is a defect")
        record = {
            "kind": self.kind,
            "source": source,
            **{name: value for name, value in fields.items() if value is not None},
            "model": recipe.model,
            "revision": recipe.revision,
            "seed": recipe.item_seed(source),
            "run_seed": recipe.run_seed,
            "settings": dict(recipe.settings),
        }
        try:
            self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._stream.flush()
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        self.done.add(source)


def _drop_unfinished_line(path: Path) -> None:
    """Cut off what an interrupted run left of its last line; the item is then made again.

    Raises:
        DataError: what would be cut off does not begin as an item does: it is somebody else's file.
    """
    if not path.is_file():
        return
    with path.open("r+b") as stream:
        size = stream.seek(0, os.SEEK_END)
        while size > 0:
            begin = max(0, size - 65536)
            stream.seek(begin)
            end = stream.read(size - begin).rfind(b"\n")
            if end >= 0:
                size = begin + end + 1
                break
            size = begin
        stream.seek(size)
        rest = stream.read(len(_ITEM_BEGINS))
        if not _ITEM_BEGINS.startswith(rest):
            raise DataError(f"{path}: its last line is not an item of a manifest; remove it, or the file")
        stream.truncate(size)
