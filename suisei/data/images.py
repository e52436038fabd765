"""Reading images safely: right, or refused with the file's name; never silently black or rotated.

A file is looked at before it is read: what it is, how long, its format, how many pixels. How many pixels
are decoded at one time is bounded for all threads together.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from suisei.data.image_bytes import ImageBytes
from suisei.data.paths import refuse_address
from suisei.data.pixel_modes import as_rgb, strips
from suisei.errors import ConfigError, DataError

MAX_PIXELS = 100_000_000
"""Largest image that is decoded, in pixels, unless PIXELS_VARIABLE says otherwise: 400 MB in memory."""
PIXELS_VARIABLE = "SUISEI_MAX_IMAGE_PIXELS"

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""What is read. Pillow's other formats, some of which start programs (EPS) or are rare, stay closed."""

MAX_RATIO = 200
"""Longest side, in shorter sides: encoders scale the shorter one to theirs, and the longer one with it."""
BYTES_PER_PIXEL = 8
"""A file with more bytes for each pixel that it may have is not read: 16 bits of four channels."""
PIXELS_AT_ONCE = 50_000_000
"""Pixels that are decoded at one time, by all threads; a larger image is decoded alone."""
DRAFT_SIDE = 2048
"""A JPEG that is shrunk anyway is decoded at 1/2, 1/4 or 1/8 where both sides keep so many pixels."""
DRAFT_SIDES = 4
"""So many times the side that is needed, where that is known and less than DRAFT_SIDE.

With 4, an encoder's features of the bundled scenes as large photographs have cosines of .9999 and more with
those of whole decoding, and their similarities the same order (rank correlation .99997), in 0.3 of the time;
with 2 it is .9994 and .9998 in 0.25.
"""


Result = TypeVar("Result")

# What Pillow's decoders raise on damaged files, by experience and by reading them.
_DECODING_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    AssertionError,
    OverflowError,
    NotImplementedError,
    struct.error,
    zlib.error,
)


def max_pixels() -> int:
    """Return the size of the largest image that is decoded, in pixels: width x height.

    Raises:
        ConfigError: SUISEI_MAX_IMAGE_PIXELS is no whole number above 0.
    """
    given = os.environ.get(PIXELS_VARIABLE)
    if not given:
        return MAX_PIXELS
    if not given.isascii() or not given.isdigit() or not int(given):
        raise ConfigError(f"{PIXELS_VARIABLE} is {given!r}; it must be a whole number of pixels above 0")
    limit = int(given)
    if Image.MAX_IMAGE_PIXELS is not None and limit > Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = limit  # Pillow has a limit of its own, for the whole process
    return limit


def load_image(source: str | Path | Image.Image | ImageBytes) -> Image.Image:
    """Return an image as 8-bit RGB, upright and fully decoded.

    The camera's rotation (EXIF) is applied, transparency is laid on white, 16-bit grey is scaled
    down, and of an animation the first frame is taken.

    Args:
        source: path of a file, or a PIL image, which is not changed and comes back itself where there
            is nothing to convert.

    Raises:
        DataError: no such file, no regular file, not an image of FORMATS, truncated, too large, or a
            pixel format whose range is not known (32-bit integers, floats).
    """
    return _with_image(source, lambda image: image, None)


def read_image(
    source: str | Path | Image.Image | ImageBytes, preprocess: Callable[[Image.Image], Result]
) -> Result:
    """Decode an image and return what ``preprocess`` makes of it, which is small.

    Threads that do this at once wait for one another, so that no more than PIXELS_AT_ONCE are in memory;
    one larger image is decoded alone. A JPEG is decoded at a fraction of its size where it keeps
    DRAFT_SIDE pixels on both sides, or DRAFT_SIDES times the ``side`` that the function, or the object whose
    method it is, says it makes of an image.

    Raises:
        DataError: see :func:`load_image`.
    """
    side = getattr(getattr(preprocess, "__self__", preprocess), "side", None)
    return _with_image(source, preprocess, min(DRAFT_SIDE, DRAFT_SIDES * side) if side else DRAFT_SIDE)


def _with_image(
    source: str | Path | Image.Image | ImageBytes,
    use: Callable[[Image.Image], Result],
    target_size: int | None,
) -> Result:
    if isinstance(source, Image.Image):
        file = getattr(source, "filename", "")
        name = f"the image in memory, of {file}" if file else "the image in memory"
        _check_size(source, name)
        with _room.taken(source.width * source.height):
            return use(_decoded(source, name, own=False))
    with _opened(source if isinstance(source, ImageBytes) else Path(source)) as image:
        if target_size is not None:
            image.draft(None, (target_size, target_size))  # does nothing unless it is a JPEG file
        with _room.taken(image.width * image.height):
            result = use(_decoded(image, str(source), own=True))
            if result is not image:
                image.close()  # while the room is still taken
            return result


class _Room:
    """A number of pixels that threads share."""

    def __init__(self, pixels: int) -> None:
        self._all = self._free = pixels
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels are free, or all where there are never so many, and take them."""
        pixels = min(pixels, self._all)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


_room = _Room(PIXELS_AT_ONCE)


def content_key(source: str | Path | Image.Image | ImageBytes) -> str:
    """Return a hash of what an image shows, to cache its features under.

    A file is hashed by its bytes, once its header says that it is an image that would be decoded. An
    image in memory is hashed by its size and its pixels as ``load_image`` gives them, because the raw
    pixels of two different palette images may agree.

    Raises:
        DataError: the file or image cannot be read.
    """
    if isinstance(source, Image.Image):
        return f"pixels-{_with_image(source, _pixel_digest, None)}"
    if isinstance(source, ImageBytes):
        with _opened(source):
            return f"file-{_file_digest(source.content)}"
    path = Path(source)
    with _opened(path):
        pass
    return _file_key(path)


def _file_key(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return f"file-{hashlib.file_digest(stream, _blake2b).hexdigest()}"
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def content_keys(sources: Sequence[str | Path | Image.Image | ImageBytes]) -> list[str]:
    """Return the :func:`content_key` of each image, reading a file once however often it occurs."""
    by_path: dict[str, str] = {}
    keys = []
    for source in sources:
        if not isinstance(source, str | Path):
            keys.append(content_key(source))
            continue
        path = str(source)
        if path not in by_path:
            by_path[path] = content_key(source)
        keys.append(by_path[path])
    return keys


def check_unchanged(keys: Sequence[str], sources: Sequence[Any]) -> None:
    """Make sure that files that were just decoded are still those that were hashed before.

    Args:
        keys: what ``content_key`` said of each image.
        sources: paths, or what is in memory, which is not looked at.

    Raises:
        DataError: a file has changed, so that its features would be kept as those of another image.
    """
    limit = max_pixels()
    for key, source in zip(keys, sources, strict=True):
        if isinstance(source, Image.Image | ImageBytes):
            continue
        path = Path(source)
        _check_file(path, limit)  # it may be a pipe by now, or endless; the same bytes have the same header
        if _file_key(path) != key:
            raise DataError(f"{source}: the image file changed while it was being read; start again")


def _blake2b() -> Any:
    return hashlib.blake2b(digest_size=20)


def _file_digest(content: bytes) -> str:
    digest = _blake2b()
    digest.update(content)
    return str(digest.hexdigest())


def _pixel_digest(image: Image.Image) -> str:
    digest = _blake2b()
    digest.update(f"{image.mode} {image.width} {image.height} ".encode())
    for strip in strips(image):
        digest.update(strip.tobytes())
    return str(digest.hexdigest())


@contextmanager
def _opened(path: Path | ImageBytes) -> Iterator[ImageFile.ImageFile]:
    """Give a file's image, which is not decoded yet: its header is that of an image we decode."""
    limit = max_pixels()
    if isinstance(path, ImageBytes):
        _check_length(str(path), len(path.content), limit)
    else:
        _check_file(path, limit)
    try:
        file = None
        if isinstance(path, ImageBytes):
            file = _StrictFile(path.content)
        elif ImageFile.LOAD_TRUNCATED_IMAGES:
            file = _StrictFile(path.read_bytes())
        image = Image.open(file or path, formats=FORMATS)  # type: ignore[arg-type]
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(_too_large(str(path), _size_of_bomb(error), limit)) from None
    except _DECODING_ERRORS as error:
        raise DataError(
            f"{path}: not an image that can be read ({_reason(error)}); replace the file, or convert it "
            f"to one of {', '.join(FORMATS)}"
        ) from None
    with image:
        if file is not None:
            file.armed = True
        _check_size(image, str(path))
        yield image


def _check_file(path: Path, limit: int) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        refuse_address(path, "image")
        raise DataError(f"{path}: no such image file; fix the path or the image folder") from None
    except (OSError, ValueError) as error:  # a NUL or half a surrogate pair in the name is a ValueError
        refuse_address(path, "image")  # too long for a name
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{str(path)!a:.300}: cannot be read: {reason}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a device or a socket"
        raise DataError(f"{path}: no such image file, it is {kind}; give a regular file")
    _check_length(str(path), status.st_size, limit)


def _check_length(name: str, size: int, limit: int) -> None:
    if size == 0:
        raise DataError(f"{name}: the image file is empty (0 bytes); copy it again")
    if size > BYTES_PER_PIXEL * limit:
        raise DataError(
            f"{name}: the image file has {size:,} bytes, more than an image within the limit of "
            f"{limit:,} pixels takes; shrink it, or raise {PIXELS_VARIABLE}"
        )


def _check_size(image: Image.Image, name: str) -> None:
    if image.width * image.height > max_pixels():
        raise DataError(_too_large(name, f"{image.width} x {image.height} pixels", max_pixels()))
    if image.width == 0 or image.height == 0:
        raise DataError(f"{name}: the image has no pixels ({image.width} x {image.height})")
    if max(image.size) > MAX_RATIO * min(image.size):
        raise DataError(
            f"{name}: the image is too narrow ({image.width} x {image.height} pixels; one side may be "
            f"{MAX_RATIO} times the other)"
        )


class _StrictFile(io.BytesIO):
    """A file in memory that refuses to be read past its end once ``armed``.

    Other libraries switch on Pillow's ``LOAD_TRUNCATED_IMAGES`` for the whole process, and whatever is
    missing at the end of a file then comes out grey or black. Decoders meet this error instead.
    """

    armed = False

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if self.armed and not data and size != 0:
            raise OSError("image file is truncated")
        return data


_in_memory = threading.Lock()
"""An image in memory may be decoded on first use, which two threads must not do at once."""


def _decoded(image: Image.Image, name: str, *, own: bool) -> Image.Image:
    """Return an image upright and in RGB, without a copy where there is nothing to change.

    Args:
        image: the image.
        name: for messages.
        own: whether it may be changed.
    """
    try:
        with nullcontext() if own else _in_memory:
            image.load()
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        if turned and own:
            ImageOps.exif_transpose(image, in_place=True)
        elif turned:
            image = ImageOps.exif_transpose(image)
        return as_rgb(image, name)
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError) as error:
        raise DataError(_too_large(name, _size_of_bomb(error), max_pixels())) from None
    except _DECODING_ERRORS as error:
        fix = (
            "the file is damaged, copy it again"
            if own
            else "its file is damaged, or was closed too early: open it again"
        )
        raise DataError(f"{name}: the image cannot be decoded ({_short(error)}); {fix}") from None


def _too_large(name: str, size: str, limit: int) -> str:
    return (
        f"{name}: the image is too large ({size}; the limit is {limit:,} pixels); "
        f"shrink the file, or raise {PIXELS_VARIABLE}"
    )


def _size_of_bomb(error: BaseException) -> str:
    """Return the pixels that Pillow counted, whose own limit is none of ours; or what else it says."""
    found = re.search(r"\d+(?= pixels)", str(error))
    return f"{int(found[0]):,} pixels" if found else _short(error)


def _reason(error: BaseException) -> str:
    """Return why Pillow opens no image; of one that it does not know it says where that is in memory."""
    return "it has no format of an image" if isinstance(error, UnidentifiedImageError) else _short(error)


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:160]
