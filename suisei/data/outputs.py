"""What commands write to: refused before any work where it would destroy something or cannot be written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.data.paths import descriptor_of, is_stream, real_path
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from suisei.data.sample import CaptionSample

Named = tuple[str, str | Path | None]
"""The option that names a path, and the path; None where the option is not given."""
_Inode = tuple[int, int]

_MEDIA = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".mp4", ".avi", ".mkv", ".webm")


def check_outputs(
    outputs: Iterable[Named],
    inputs: Iterable[Named] = (),
    *,
    pictures: Iterable[Named] = (),
    folders: Iterable[Named] = (),
    kept: Iterable[Named] = (),
    sealed: Iterable[Named] = (),
) -> None:
    """Refuse outputs that would overwrite an input or each other, or that cannot be written.

    Files are the same if they are one on the disk, whatever the names: links of both kinds count.

    Args:
        outputs: files of text to be written.
        inputs: files and folders that are read; "-" is standard input.
        pictures: images to be written; a text never takes the place of one.
        folders: folders to be written into, made where they are absent.
        kept: folders of scores, which may hold all that is asked for: one that is there may be read-only.
        sealed: folders that are read, in which nothing that is there may be overwritten, such as models.

    Raises:
        ConfigError: the first output that cannot be, in one line.
    """
    read = cache(partial(_identified, [named for named in inputs if named[1] is not None]))
    closed = [
        (option, real_path(path)) for option, path in sealed if path is not None and Path(path).is_dir()
    ]
    written: dict[object, str] = {}
    named = [(option, path, False) for option, path in outputs]
    named += [(option, path, True) for option, path in pictures]
    for option, path, picture in named:
        if path is None:
            continue
        name = f"{option} {path}"
        if str(path) == "-":
            raise ConfigError(f"{name}: give the name of a file (/dev/stdout is standard output)")
        _check_not_input(name, path, read)
        if is_stream(path):
            continue
        _check_file(name, Path(path), picture=picture)
        _check_sealed(name, Path(path), closed)
        for key in _identities(Path(path)):
            if key in written:
                raise ConfigError(f"{name} is the file of {written[key]} as well; give another name")
            written[key] = option
    for option, path in folders:
        if path is not None:
            _check_folder(f"{option} {path}", Path(path))
    for option, path in kept:
        if path is not None and not Path(path).is_dir():
            _check_folder(f"{option} {path}", Path(path))


def check_spelt(name: str, path: str | Path) -> None:
    """Refuse a folder for a model whose name is no UTF-8: libraries that write weights and tokenizers do.

    Raises:
        ConfigError: it is not.
    """
    from suisei.data.sample import without_surrogates

    if without_surrogates(str(path)) != str(path):
        raise ConfigError(f"{name}: is not UTF-8, and no model can be written there; give another name")


def check_media(outputs: Iterable[Named], samples: Sequence[CaptionSample]) -> None:
    """Refuse outputs that are an image or a video of the samples.

    Raises:
        ConfigError: one is.
    """
    there = {_inode(Path(path)): option for option, path in outputs if path and Path(path).is_file()}
    if not there:
        return
    for sample in samples:
        for file in (sample.image, getattr(sample, "video", None)):
            if isinstance(file, str | Path) and (found := there.get(_inode(Path(file)))):
                raise ConfigError(f"{found} {file} is an image or video of the data; give another name")


def write_texts(texts: Iterable[tuple[str | Path | None, str]]) -> list[DataError]:
    """Write texts to files; one that cannot be written does not keep the others from it.

    Args:
        texts: (path, text); nothing is written where the path is None.

    Returns:
        What went wrong, for :func:`raise_first` after everything else is done.
    """
    from suisei.data.writers import replacing

    problems = []
    for path, text in texts:
        if path is None:
            continue
        try:
            with replacing(Path(path)) as temporary:
                # A file name may hold bytes that are no text; in JSON this is the escape for them.
                temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        except DataError as error:
            problems.append(error)
    return problems


def raise_first(problems: Sequence[DataError]) -> None:
    """Raise a DataError that names all problems, if there are any."""
    if problems:
        raise DataError("; ".join(str(problem) for problem in problems))


def given(options: Mapping[str, Any], *names: str) -> list[Named]:
    """Return the options of these names with their paths; of an option that repeats, each."""
    found: list[Named] = []
    for name in names:
        value = options.get(name)
        values = value if isinstance(value, list) else [value]
        found += [(f"--{name.replace('_', '-')}", each) for each in values]
    return found


def _check_not_input(name: str, path: str | Path, inputs: Callable[[], Mapping[_Inode, str]]) -> None:
    mine = _file_status(path)
    if mine is not None and (found := inputs().get((mine.st_dev, mine.st_ino))):
        raise ConfigError(f"{name} is the input ({found}), which would be lost; give another name")


def _identified(inputs: Sequence[Named]) -> dict[_Inode, str]:
    """Return {file on the disk: the first input that it is}; a set in shards has hundreds of thousands."""
    found: dict[_Inode, str] = {}
    for option, path in inputs:
        status = _file_status("/dev/stdin" if path is None or str(path) == "-" else path)
        if status is not None:
            found.setdefault((status.st_dev, status.st_ino), f"{option} {path}")
    return found


def _file_status(path: str | Path) -> os.stat_result | None:
    """Return the status of a file or pipe, None for what is not there or cannot be overwritten."""
    number = descriptor_of(path)
    try:
        status = os.stat(path) if number is None else os.fstat(number)  # noqa: PTH116
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode) else None


def _check_file(name: str, path: Path, *, picture: bool) -> None:
    try:
        exists = stat.S_ISREG(path.stat().st_mode)
        folder = path.is_dir()
    except FileNotFoundError:
        exists = folder = False
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror or error}; give another name") from None
    if folder:
        raise ConfigError(f"{name}: is a folder; give the name of a file")
    parent = real_path(path).parent
    if not parent.is_dir():
        raise ConfigError(f"{name}: its folder does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{name}: its folder cannot be written to")
    if exists and path.suffix.lower() in _MEDIA and not picture:
        raise ConfigError(f"{name} is an image or a video, which would be lost; give another name")


def _check_folder(name: str, path: Path) -> None:
    for place in (path, *path.parents):  # no folder can be made where such a link is
        if place.is_symlink() and not place.exists():
            raise ConfigError(f"{name}: {place} is a link to what is not there; give the name of a folder")
    nearest = real_path(path)
    while not (nearest.exists() or nearest.is_symlink()) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        what = "is no folder" if nearest == real_path(path) else f"{nearest} is no folder"
        raise ConfigError(f"{name}: {what}; give the name of a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{name}: cannot be written to")


def _check_sealed(name: str, path: Path, sealed: Sequence[tuple[str, Path]]) -> None:
    target = real_path(path)
    for option, folder in sealed:
        if target.exists() and target.is_relative_to(folder):
            raise ConfigError(f"{name} is a file of {option} {folder}; write results elsewhere")


def _identities(path: Path) -> list[object]:
    """Return what two names of one file have in common, whether it is there already or not."""
    found: list[object] = [str(real_path(path))]
    return [*found, _inode(path)] if path.exists() else found


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
