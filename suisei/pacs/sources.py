"""What positives are generated from: the images and captions of any data that can be read here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.flickr8k import FLICKR8K_PARTS
from suisei.data.caption_texts import is_json
from suisei.data.column_names import field_called
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.file_rows import warn
from suisei.data.formats import UNRATED, NamedColumns
from suisei.data.json_files import parse_object
from suisei.data.karpathy_parts import file_of, read_parts
from suisei.data.lines import numbered_lines, utf8_lines
from suisei.data.load import load_data, refuse_root
from suisei.data.pairs import load_pairs
from suisei.data.paths import Allowed, Root
from suisei.data.sample import is_blank, plain_text, refuse_surrogate
from suisei.errors import DataError

_FIELDS = ("id", "image", "caption")


@dataclass(frozen=True, slots=True)
class Source:
    """One image, or none, with the captions people wrote for it.

    Attributes:
        image: path of the image file.
        captions: captions; may be empty.
        id: the caller's name of it.
        generated_images: images that the data has of it already.
        generated_captions: captions that were generated from it already.
        generated_from: the caption that each of those images was made from, None where that is unknown.
    """

    image: Path | None
    captions: tuple[str, ...]
    id: str | None = None
    generated_images: tuple[Path, ...] = ()
    generated_captions: tuple[str, ...] = ()
    generated_from: tuple[str | None, ...] = ()


def read_sources(
    name_or_file: str,
    *,
    root: Path | str | None = None,
    images: Path | str | None = None,
    columns: NamedColumns | None = None,
    references: Sequence[Path | str] = (),
    allowed: Allowed | None = None,
) -> list[Source]:
    """Read images and captions.

    Args:
        name_or_file: training pairs ("flickr8k-train", a Karpathy split with the parts wanted,
            "dataset_coco.json:train+restval", or JSON lines with ``captions``), JSON lines with ``id`` and
            ``image``, ``caption`` or both, or rated data that ``load_data`` reads, whose references are
            taken, and the candidate where there are none.
        root: where a named data set is, or the images of a Karpathy split.
        images: folder where relative image paths start, where it is not the file's own.
        columns: {field: the column that fills it}, of rated data in a file.
        references: files of references, of rated data in a file.
        allowed: what a file may name beside images in ``images`` or its own folder.

    Raises:
        ConfigError: an unknown name or part, or a root for rows in a file.
        DataError: unusable data. Whether an image can be read shows only when it is.
    """
    found = _read(name_or_file, root, images, columns, references, allowed)
    for source in found:
        if source.image is not None:
            refuse_surrogate(f"{name_or_file}: an image's path", str(source.image))
    return found


def _read(
    name_or_file: str,
    root: Path | str | None,
    images: Path | str | None,
    columns: NamedColumns | None,
    references: Sequence[Path | str],
    allowed: Allowed | None,
) -> list[Source]:
    path = Path(name_or_file)
    if plain_suffix(path) == ".jsonl" and not (columns or references):
        refuse_root(path, root)
        keys = _telling_keys(path)
        if "caption" in keys or not keys:  # rows of an image alone are captioned too
            start = path.parent if images is None else images
            return list(_captioned(path, Root(start, path.parent, allowed=allowed)))
        if "captions" in keys:
            pairs = load_pairs(name_or_file, root=images, allowed=allowed)
            return [
                Source(
                    pair.image,
                    pair.captions,
                    generated_images=pair.generated_images,
                    generated_captions=pair.generated_captions,
                    generated_from=pair.origins,
                )
                for pair in pairs
            ]
    if is_json(file_of(name_or_file)):
        split = read_parts(name_or_file, images=images if images is not None else root, allowed=allowed)
        if split is not None:
            return [Source(image.file, image.captions, image.name) for image in split]
    name, _, part = name_or_file.partition("-")
    if name == "flickr8k" and part in FLICKR8K_PARTS:
        return [Source(pair.image, pair.captions) for pair in load_pairs(name_or_file, root=root)]
    if name_or_file not in BENCHMARKS:
        columns = {**UNRATED, **(columns or {})}
    samples = load_data(
        name_or_file, root=root, images=images, columns=columns, references=references, allowed=allowed
    )
    return [
        Source(
            Path(sample.image) if isinstance(sample.image, str | Path) else None,
            sample.references or (sample.candidate,),
            sample.id,
        )
        for sample in samples
    ]


def _telling_keys(path: Path) -> set[str]:
    """Return the fields of the first row that has some for texts; none where rows are of images alone."""
    rows = 0
    for _, record, _ in _objects(path):
        rows += 1
        if _texts(record):
            return set(record)
    if not rows:
        raise DataError(f"{path}: the file has no rows")
    return set()


def _texts(record: Iterable[str]) -> list[str]:
    """Return the fields of a row that hold captions, by their names."""
    return [key for key in record if field_called(key) in ("candidate", "references")]


def _captioned(path: Path, root: Root) -> Iterator[Source]:
    seen: set[str] = set()
    told = False
    for number, record, place in _objects(path):
        unknown = [key for key in record if key not in _FIELDS]
        image, caption, id_ = _text(record, "image", place), _text(record, "caption", place), record.get("id")
        others = [key for key in _texts(unknown) if record[key]]
        if others and not caption:
            raise DataError(
                f"{place}: {others[0]!r} in a file whose captions stand in 'caption'; put rows of two shapes "
                "into two files"
            )
        if unknown and not told:
            told = True
            shown = ", ".join(map(repr, unknown[:8]))
            warn(f"{place}: fields ignored: {shown}; there are {', '.join(_FIELDS)}")
        if not image and not caption:
            raise DataError(f"{place}: neither an image nor a caption; a row needs one of them")
        name = str(number if id_ is None else id_)
        refuse_surrogate(f"{place}: id", name)
        if name in seen:
            raise DataError(f"{place}: id {name!r} is used by an earlier row; every id must be unique")
        seen.add(name)
        file = root.found(image, place=place) if image else None
        yield Source(file, (plain_text(caption),) if caption else (), name)


def _text(record: dict[str, object], field: str, place: str) -> str:
    """Return a field as text that manifests can hold, "" where it is absent or blank."""
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: image and caption must be text")
    if not value or is_blank(value):
        return ""
    refuse_surrogate(f"{place}: {field}", value)
    return value


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object], str]]:
    try:
        with open_plain(path) as stream:
            for number, line in numbered_lines(utf8_lines(stream, newline="\n")):
                if not line.strip():
                    continue
                place = f"{path}, line {number}"
                try:
                    record = parse_object(line.encode("utf-8", "surrogateescape"))
                except DataError as error:
                    raise DataError(f"{place}: {error}") from None
                yield number, record, place
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
