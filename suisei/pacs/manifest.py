"""Manifests of generated captions and images: append-only, resumable, checked when they are read.

A folder of positives holds ``captions.jsonl`` (captions generated from images), ``images.jsonl`` and
``images/`` (images generated from captions), or one of the two. Every line of a manifest is one item
with the model, its revision, the seed and the settings that made it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from suisei.data.checksums import sha256_of
from suisei.data.images import content_key
from suisei.data.item_seeds import item_seed, text_key
from suisei.data.json_files import invalid_json
from suisei.data.pairs import ImageCaptions
from suisei.data.paths import is_inside, try_lock
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("captions", "images")
_REQUIRED = ("kind", "source", "model", "revision", "seed", "run_seed", "settings")
_TYPES = {"kind": str, "source": str, "seed": int, "run_seed": int, "settings": dict}
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


@dataclass(frozen=True, slots=True)
class Positive:
    """One generated caption or image.

    Attributes:
        kind: "captions" or "images": what was generated.
        source: key of what it was generated from.
        caption: the generated caption, or the caption that the image was generated from.
        file: the generated image; None for a caption.
        model: which model made it.
        revision: its commit or checksum.
        seed: the item's seed.
        settings: the settings it was made with.
        id: the caller's name of the source.
    """

    kind: str
    source: str
    caption: str
    file: Path | None
    model: str
    revision: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


def read_positives(path: Path | str) -> dict[str, Positive]:
    """Read a manifest, or both manifests of a folder; every generated image is compared with its checksum.

    Args:
        path: a manifest file, or the folder of one.

    Returns:
        {source key: positive}; look up an image with ``suisei.data.images.content_key`` and a caption
        with :func:`text_key`. Items that the model declined are left out.

    Raises:
        DataError: no manifest, a broken line, a source that occurs twice, an image file that is missing
            or was changed.
    """
    path = Path(path)
    manifests = [path / f"{kind}.jsonl" for kind in KINDS] if path.is_dir() else [path]
    existing = [manifest for manifest in manifests if manifest.is_file()]
    if not existing:
        looked = " or ".join(str(manifest) for manifest in manifests)
        raise DataError(f"no manifest of positives: {looked} is not there; make one with suisei positives")
    found: dict[str, Positive] = {}
    missing: list[str] = []
    for manifest in existing:
        for place, record in _records(manifest):
            if record["source"] in found:
                raise DataError(f"{place}: source {record['source']} occurs twice; remove one of the lines")
            if "problem" in record:
                continue
            positive = _positive(record, manifest.parent, place)
            found[positive.source] = positive
            if positive.file is not None and not os.path.isfile(positive.file):  # noqa: PTH113 - whatever its name
                missing.append(f"{place}: {positive.file}")
            elif positive.file is not None:
                _verify(positive.file, record.get("sha256"), place)
    if missing:
        more = ", ..." if len(missing) > 3 else ""
        raise DataError(
            f"{len(missing)} generated images are missing: {', '.join(missing[:3])}{more}; restore them, or "
            "remove their lines and run suisei positives again"
        )
    return found


def join_positives(pairs: Sequence[ImageCaptions], positives: Mapping[str, Positive]) -> list[ImageCaptions]:
    """Give every image the captions generated from it and the images generated from its captions.

    What it has already stays, and comes first. Each image stands beside the caption that it was made from.
    """
    joined = []
    for pair in pairs:
        made = positives.get(content_key(pair.image))
        captions = (made.caption,) if made is not None else ()
        images = list(zip(pair.generated_images, pair.origins, strict=True))
        for caption in pair.captions:
            drawn = positives.get(text_key(caption))
            if drawn is not None and drawn.file is not None:
                images.append((drawn.file, caption))
        origins: dict[Path, str | None] = {}
        for file, origin in images:
            origins[file.absolute()] = origins.get(file.absolute()) or origin
        joined.append(
            ImageCaptions(
                pair.image,
                pair.captions,
                tuple(origins),
                tuple(dict.fromkeys((*pair.generated_captions, *captions))),
                tuple(origins.values()),
            )
        )
    return joined


def write_pairs(path: Path, pairs: Sequence[ImageCaptions]) -> None:
    """Write training pairs as the JSON lines that ``suisei.data.pairs.load_pairs`` reads, with full paths.

    Raises:
        DataError: the file cannot be written.
    """
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for pair in pairs:
            record = {
                "image": str(pair.image.absolute()),
                "captions": list(pair.captions),
                "generated_images": [str(file.absolute()) for file in pair.generated_images],
                "generated_captions": list(pair.generated_captions),
                "generated_from": list(pair.generated_from),
            }
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


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
            for place, record in _records(self.path) if self.path.is_file() else ():
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


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record); a last line without its end is the item a run was writing, and is left out."""
    try:
        whole, end, _ = path.read_bytes().rpartition(b"\n")  # what follows may end within a character
        lines = whole.decode("utf-8").split("\n") if end else []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = invalid_json(error, line=True, fix="remove the line to make the item again")
            raise DataError(f"{place}: {problem}") from None
        absent = [name for name in _REQUIRED if not isinstance(record, dict) or name not in record]
        wrong = [] if absent else [name for name, kind in _TYPES.items() if not _is_of(record[name], kind)]
        if absent or wrong or record["kind"] not in KINDS:
            what = f"no {absent[0]!r}" if absent else f"a wrong {(wrong or ['kind'])[0]}"
            raise DataError(f"{place}: not an item of a manifest ({what}); remove the line")
        yield place, record


def _is_of(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _positive(record: Mapping[str, Any], folder: Path, place: str) -> Positive:
    caption, name = record.get("caption"), record.get("file")
    if not isinstance(caption, str) or (record["kind"] == "images") != isinstance(name, str):
        raise DataError(f"{place}: an item needs a caption, and an image its file; remove the line")
    file = None
    if name is not None:
        file = folder / name
        if not is_inside(folder, file):
            raise DataError(f"{place}: file {name[:80]!r} is outside the manifest's folder")
    return Positive(
        record["kind"],
        record["source"],
        caption,
        file,
        str(record["model"]),
        str(record["revision"]),
        record["seed"],
        record["settings"],
        record.get("id"),
    )


def _verify(file: Path, expected: Any, place: str) -> None:
    try:
        actual = sha256_of(file)
    except OSError as error:
        raise DataError(f"{place}: {file} cannot be read: {error.strerror or error}") from None
    if actual != expected:
        raise DataError(f"{place}: {file} is not the image that was generated; restore it, or remove both")


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
