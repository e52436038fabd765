"""What a benchmark is: a reader of one official layout, and what a user has to know about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suisei.data.formats import OnError, Row, collect
from suisei.data.lines import (
    LONE_RETURN,
    has_lone_return,
    is_broken,
    numbered_lines,
    utf8_lines,
    whole_utf8,
)
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError

Rows = Callable[[Path, Path | None], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One data set with human ratings.

    Attributes:
        name: what users call it.
        rows: reads the official layout: (root, image folder or None) to rows, bad ones included.
        language: "ja", "en" or None for both.
        rating_scale: worst and best rating.
        summary: one line on what it holds.
        source: where to get it, and what ``root`` has to be.
        has_images: whether image files belong to it.
        default_root: where it is when no root is given; None if it has to be given.
        idf_corpus: name and reader (root to captions) of the captions that its protocol learns idf
            weights of tokens from.
        protocol: how metrics are measured on it, a name of :data:`suisei.metaeval.protocols.PROTOCOLS`.
        ratings_of: the benchmark whose ratings these are, read in another way; None for its own.
        raters: what its papers do with several ratings of a caption: "rows" (each its own row) or "mean".
        correlation: the coefficient that its papers compare metrics by.
    """

    name: str
    rows: Rows
    language: str | None
    rating_scale: tuple[float, float]
    summary: str
    source: str
    has_images: bool = False
    default_root: Callable[[], Path] | None = None
    idf_corpus: tuple[str, Callable[[Path | str], list[str]]] | None = None
    protocol: str = "ratings"
    ratings_of: str | None = None
    raters: str = "rows"
    correlation: str = "tau-c"

    def read(
        self,
        root: Path | str | None = None,
        *,
        images: Path | str | None = None,
        on_error: OnError = "raise",
        skipped: list[Row] | None = None,
    ) -> list[CaptionSample]:
        """Read the whole benchmark.

        Args:
            root: the folder (or file) that ``source`` describes.
            images: image folder, where it is not at its official place.
            on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
            skipped: a list that receives the rows left out.

        Raises:
            ConfigError: no root, or images given for a benchmark without any.
            DataError: the layout is not the official one, or a bad row.
        """
        if images is not None and not self.has_images:
            raise ConfigError(f"{self.name} has no image files; leave the image folder out")
        if root is None:
            if self.default_root is None:
                raise ConfigError(f"{self.name} needs to know where it is: pass --root DIR. {self.source}")
            root = self.default_root()
        folder = None if images is None else Path(images)
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder}: no such image folder (images of {self.name})")
        try:
            return collect(self.rows(Path(root), folder), on_error=on_error, skipped=skipped)
        except LayoutError as error:
            raise DataError(f"{error}. {self.source}") from None


class LayoutError(DataError):
    """A file of the official layout is not where it should be."""


def find_file(root: Path, *names: str) -> Path:
    """Return the first of the files that exists under ``root``.

    Raises:
        LayoutError: none does; it says what was looked for.
    """
    for name in names:
        if (root / name).is_file():
            return root / name
    raise not_found(root, names)


def not_found(root: Path, names: Sequence[str]) -> LayoutError:
    """Return the error that none of the files, or of those that fit a pattern, is under ``root``."""
    what = "the folder exists, but has no" if root.is_dir() else "there is no such folder; looked for its"
    return LayoutError(f"{root}: {what} {' or '.join(names)}")


class ImageFolder:
    """Where image files are.

    Where the image folder is absent altogether the data is text only and every image is None. Where
    it is there, an image without its file is an error: scoring it as text would go unnoticed.

    Args:
        folder: the folder, or None.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._known: dict[str, Path] = {}

    @classmethod
    def find(cls, images: Path | None, *usual: Path) -> ImageFolder:
        """Return the folder that the user named, else the first of the usual ones that exists."""
        folders = [images] if images is not None else usual
        return cls(next((folder for folder in folders if folder.is_dir()), None))

    def path(self, name: str, endings: Sequence[str] = ()) -> Path | None:
        """Return an image's file, which may lie in the folders of its name or directly in the folder.

        Args:
            name: of the file.
            endings: what may follow the name in the folder, where the data leave it out: ".jpg" of "12.jpg".

        Raises:
            DataError: there is a folder, and the file is not in it.
        """
        if self.folder is None:
            return None
        if name not in self._known:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise DataError(f"the image name {name[:60]!r} leads out of the image folder {self.folder}")
            names = [each + ending for ending in ("", *endings) for each in (name, Path(name).name)]
            found = next((path for each in names if (path := self.folder / each).is_file()), None)
            if found is None:
                raise DataError(_absent(self.folder / name, endings))
            self._known[name] = found
        return self._known[name]


def _absent(path: Path, endings: Sequence[str]) -> str:
    if not endings:
        return (
            f"the image file {path} is not there; unpack the image archive again, or leave its rows out "
            "(--on-error skip)"
        )
    return (
        f"there is no image file {path}, alone or with {', '.join(endings)}; call the files so, leave the "
        "rows out (--on-error skip), or, for metrics that read text alone, take the image folder away"
    )


def text_rows(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield (row number, line without its end, problem or None) of a UTF-8 file; blank lines are skipped.

    Raises:
        DataError: the file is empty, UTF-16, Shift_JIS or cannot be read.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in whole_utf8(numbered_lines(utf8_lines(stream, newline="\n"))):
                text = line.rstrip("\r\n")
                if text.strip():
                    yield number, text, _line_problem(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if number == 0:
        raise DataError(f"{path}: the file is empty; copy it again")


def _line_problem(text: str) -> str | None:
    if is_broken(text):
        return "not valid UTF-8; copy the file again"
    return LONE_RETURN if has_lone_return(text) else None


def make_row(path: Path, number: int, make: Callable[[], CaptionSample | None], seen: set[str]) -> Row | None:
    """Make the sample of one row, and turn what is wrong with it into the row's error.

    Returns None where ``make`` does: the row does not belong to the benchmark.

    Args:
        path: the file, for the message.
        number: the row's number.
        make: returns the sample or raises a DataError without the place.
        seen: ids so far; a sample whose id is among them is an error.
    """
    try:
        sample = make()
        if sample is None:
            return None
        if sample.id in seen:
            raise DataError(f"{sample.id} occurs twice; every rated pair must be unique")
        if sample.id is not None:
            seen.add(sample.id)
    except DataError as error:
        return Row(number, None, None, DataError(f"{path}, row {number}: {error}"))
    return Row(number, sample.id, sample, None)


def count(text: str, field: str) -> int:
    """Parse a whole number of at least 0.

    Raises:
        DataError: it is none; the field is named.
    """
    if not is_count(text):
        raise DataError(f"{field} must be a whole number, got {text[:40]!r}")
    return int(text)


def is_count(text: str) -> bool:
    """Say whether the text is a whole number of at least 0, of at most nine digits."""
    return text.isascii() and text.isdigit() and len(text) < 10


def with_language(rows: Iterable[Row], language: str) -> Iterator[Row]:
    """Set the language of samples that state none."""
    for row in rows:
        if row.sample is None or row.sample.language is not None:
            yield row
        else:
            yield replace(row, sample=replace(row.sample, language=language))
