"""Captions of videos, and reading frames: bounded memory however long a video is.

Frames are counted by reading the container's packets. Only the first frame is decoded for that, as what
was cut out of a longer video may begin with some that cannot be shown. The wanted ones are reached by
seeking. Needs the extra ``video``.
"""

from __future__ import annotations

import bisect
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.data.file_rows import warn
from suisei.data.images import max_pixels
from suisei.data.paths import refuse_address
from suisei.data.sample import CaptionSample
from suisei.data.video_losses import Packet, losses
from suisei.errors import ConfigError, DataError, UnavailableError

if TYPE_CHECKING:
    from PIL.Image import Image

Segment = tuple[float, float]
"""Start and end in seconds from the first frame; a frame at the end is not part of it."""

_ADVICE = "replace the file"
_READERS = "mov,matroska,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,flv,ogg,asf,gif,apng,dv,mxf,ivf"
"""FFmpeg's readers of files that hold their own frames; a playlist, which names other files, has none."""
_FORMATS = "MP4, MOV, 3GP, MKV, WebM, AVI, MPEG, H.264, HEVC, FLV, Ogg, WMV, GIF, APNG, DV, MXF, IVF"

_MIRRORED = {
    (-1, 0, 0, 1): "FLIP_LEFT_RIGHT",
    (1, 0, 0, -1): "FLIP_TOP_BOTTOM",
    (0, 1, 1, 0): "TRANSPOSE",
    (0, -1, -1, 0): "TRANSVERSE",
}
"""Pillow's name of what display matrices that mirror do, by their signs; PyAV's angle does not tell it."""


@dataclass(frozen=True, slots=True)
class VideoSample(CaptionSample):
    """A candidate caption of a video, or of a segment of one.

    It is a CaptionSample in every other respect, so that metrics which read only text score it too.

    Attributes:
        video: path of the video file, or None where there is none.
        segment: (start, end) in seconds, or None for the whole video.

    Raises:
        DataError: what CaptionSample refuses, or a segment that is not 0 <= start < end.
    """

    video: str | Path | None = None
    segment: Segment | None = None

    def __post_init__(self) -> None:
        CaptionSample.__post_init__(self)  # super() does not work in a class with slots
        if self.video is not None and not isinstance(self.video, str | Path):
            raise DataError(f"video must be the path of a file, got {type(self.video).__name__}")
        if self.segment is not None:
            object.__setattr__(self, "segment", checked_segment(self.segment))


def checked_segment(segment: Sequence[float]) -> Segment:
    """Return a segment as two floats.

    Raises:
        DataError: it is not two finite numbers with 0 <= start < end.
    """
    try:
        start, end = (float(value) for value in segment)
    except (TypeError, ValueError):
        raise DataError(f"segment must be two numbers of seconds, got {segment!r:.60}") from None
    if not 0 <= start < end < float("inf"):
        raise DataError(f"segment must be 0 <= start < end in seconds, got {start:g} to {end:g}")
    return start, end


def clip_key(sample: VideoSample, count: int | None) -> tuple[Any, ...]:
    """Return what decides the frames of a sample; a file that was changed has another size or time.

    Args:
        sample: a sample with a video.
        count: how many frames are taken.
    """
    name = str(sample.video)
    try:
        stat = Path(name).stat()
    except (OSError, ValueError):
        return (name, sample.segment, count)  # decoding it says what is wrong
    return (name, stat.st_size, stat.st_mtime_ns, sample.segment, count)


def even_positions(total: int, count: int | None) -> list[int]:
    """Return which of ``total`` frames are taken: ``count`` evenly spaced ones, first and last included.

    The positions are those of ``linspace(0, total - 1, count)`` without their fractions, as EMScore
    samples VATEX; where there are fewer frames than ``count``, some repeat.

    >>> even_positions(25, 4), even_positions(2, 3), even_positions(3, None)
    ([0, 8, 16, 24], [0, 0, 1], [0, 1, 2])
    """
    if count is None:
        return list(range(total))
    return [int(position) for position in np.linspace(0, total - 1, count)]


def iter_frames(
    path: str | Path, *, count: int | None = 10, segment: Segment | None = None
) -> Iterator[Image]:
    """Yield frames of a video in order, upright and in RGB.

    Args:
        path: the video file.
        count: how many frames, evenly spaced (see :func:`even_positions`); None for all of them.
        segment: only frames shown from start to end; where that is shorter than a frame, the frame
            shown at the start.

    Warns:
        UserWarning: clearly less can be read than the file declares, see :mod:`suisei.data.video_losses`;
            not of a segment that ends before the last frame that can be read.

    Raises:
        ConfigError: ``count`` is not positive.
        UnavailableError: PyAV is not installed.
        DataError: not a video that can be read: absent, empty, damaged, a playlist or of another format
            that is not read, without pictures or frames, too large; or a segment that begins after the
            last frame.
    """
    if count is not None and count < 1:
        raise ConfigError(f"the number of frames must be at least 1, got {count}")
    path = Path(path)
    with _decoding(path):
        times = _frame_times(path)
        first, last = (0, len(times)) if segment is None else _within(path, times, segment)
        if times.lacking and last == len(times):  # a segment may end before what is lost
            warn(times.lacking)
        wanted = [first + position for position in even_positions(last - first, count)]
        yield from _pictures(path, times, wanted)


def _within(path: Path, times: _Times, segment: Segment) -> tuple[int, int]:
    start, end = checked_segment(segment)
    seconds = [float(pts * times.unit) for pts in times.pts]
    if start > seconds[-1] and start >= times.seconds:
        raise DataError(
            f"{path}: the segment {start:g} to {end:g} s begins after the video's end at "
            f"{max(times.seconds, seconds[-1]):.2f} s; fix the segment"
        )
    first, last = bisect.bisect_left(seconds, start), bisect.bisect_left(seconds, end)
    return (first, last) if first < last else (max(first - 1, 0), max(first, 1))


@dataclass(frozen=True, slots=True)
class _Times:
    """When frames are shown.

    Attributes:
        pts: rising times in display order, the first frame at 0, in units of ``unit`` seconds.
        start: what was subtracted from them.
        unit: seconds.
        seconds: duration of the video.
        keys: positions of the frames that decoding can begin at, rising; empty where the times are not
            those of the packets, so that seeking to one would not find its frame.
        counted: the frames have no times, and ``pts`` are their numbers.
        lacking: what to warn of where the file declares clearly more frames, "" where it does not.
    """

    pts: list[int]
    start: int
    unit: Fraction
    seconds: float
    keys: list[int]
    counted: bool = False
    lacking: str = ""

    def __len__(self) -> int:
        return len(self.pts)


def _frame_times(path: Path) -> _Times:
    with _opened(path) as (container, stream):
        read = [
            Packet(p.pts, p.dts, p.duration or 0, p.is_keyframe, p.is_discard, p.is_corrupt)
            for p in container.demux(stream)
            if p.size
        ]
        lacking = losses(path, container, stream, read)
        packets = [packet for packet in read if not packet.is_discard and not packet.is_corrupt]
        unit = stream.time_base or Fraction(1, 25)
        seconds = (stream.duration or 0) * unit  # the container's has the sound too, and what was cut off
        interval = 1 / stream.average_rate if stream.average_rate else unit
        trusted = container.format.name != "avi"  # which stores the order of decoding, not display times
    keys: list[int] = []
    lost, counted = 0, False
    timed = sorted((p.pts, p.is_key, p.duration) for p in packets if p.pts is not None)
    given = [pts for pts, _, _ in timed]
    last = (timed[-1][2] * unit if timed else 0) or interval
    if trusted and given and len(set(given)) == len(packets):
        lost = _lost(path, given)
        given = given[lost:]
        keys = [position for position, (_, is_key, _) in enumerate(timed[lost:]) if is_key]
    else:  # only decoding says which frames there are
        given, counted = _decoded_times(path)
        unit = interval if counted else unit
    if not given:
        raise DataError(f"{path}: the video has no frames; {_ADVICE}")
    if lost or not seconds:
        seconds = (given[-1] - given[0]) * unit + last
    return _Times([pts - given[0] for pts in given], given[0], unit, float(seconds), keys, counted, lacking)


def _lost(path: Path, given: Sequence[int]) -> int:
    """Return how many of the first frames no decoder shows: what they build on was cut off.

    Args:
        path: the video file.
        given: times of the packets, rising.
    """
    import av

    with _opened(path) as (container, stream), suppress(av.FFmpegError):  # reading the frames names an error
        shown = next((frame.pts for frame in container.decode(stream)), None)
        return given.index(shown) if shown in given else 0
    return 0


def _decoded_times(path: Path) -> tuple[list[int], bool]:
    """Return the frames' times in display order, or their numbers and True where they have no times."""
    with _opened(path) as (container, stream):
        found = [frame.pts for frame in container.decode(stream)]
    if None in found or found != sorted(set(found)):
        return list(range(len(found))), True
    return found, False


def _pictures(path: Path, times: _Times, wanted: Sequence[int]) -> Iterator[Image]:
    """Yield the frames at rising positions, decoding as little as seeking allows."""
    with ExitStack() as stack:
        reader = _Reader(path, times, stack)
        picture, shown = None, -1
        for position in wanted:
            if picture is None or position != shown:
                picture, shown = reader.at(position), position
            yield picture


class _Reader:
    """Frames at rising positions; seeks where there is a later frame that decoding can begin at."""

    def __init__(self, path: Path, times: _Times, stack: ExitStack) -> None:
        self._path, self._times, self._stack = path, times, stack
        self._keys = times.keys
        self._near = -1
        self._axes: tuple[int, ...] | None = None
        self._restart()

    def at(self, position: int) -> Image:
        following = bisect.bisect_right(self._keys, self._near + 1)
        self._near = position
        if bisect.bisect_right(self._keys, position) > following:
            self._container.seek(self._pts(position), stream=self._stream, backward=True)
            self._decode()
        frame = self._next(position)
        if self._keys and (frame is None or frame.pts != self._pts(position)):
            # Seeking went too far, as it may in MPEG-TS, or the frame is damaged. Decoding from the
            # beginning tells which; where the frame is damaged the next one stands in for it.
            self._keys = []
            self._restart()
            frame = self._next(position)
        if frame is None:
            raise DataError(
                f"{self._path}: frame {position + 1} of {len(self._times)} cannot be decoded; "
                f"the file is damaged, {_ADVICE}"
            )
        if self._axes is None:  # only once: frames whose matrix was read stay in memory for a while
            self._axes = _axes(frame)
        return _upright(frame, self._axes)

    def _restart(self) -> None:
        self._container, self._stream = self._stack.enter_context(_opened(self._path))
        self._decode()
        self._number = 0

    def _decode(self) -> None:
        self._frames = self._container.decode(self._stream)
        self._last: Any = None

    def _pts(self, position: int) -> int:
        return self._times.pts[position] + self._times.start

    def _next(self, position: int) -> Any:
        if self._times.counted:
            wanted = position - self._number
            self._number = position + 1
            return next(islice(self._frames, wanted, None), None)
        pts = self._pts(position)
        if self._last is None or self._last.pts < pts:  # else it stood in for a damaged one
            timed = (frame for frame in self._frames if frame.pts is not None)
            self._last = next((frame for frame in timed if frame.pts >= pts), None)
        return self._last


def _upright(frame: Any, axes: tuple[int, ...]) -> Image:
    picture = frame.to_image()
    if axes in _MIRRORED:
        from PIL.Image import Transpose

        return picture.transpose(Transpose[_MIRRORED[axes]])
    turn = int(getattr(frame, "rotation", 0) or 0) % 360
    return picture.rotate(turn, expand=True) if turn else picture


def _axes(frame: Any) -> tuple[int, ...]:
    """Return the signs of the display matrix's first two rows and columns; () without a matrix."""
    try:
        matrix = np.frombuffer(frame.side_data["DISPLAYMATRIX"], dtype=np.int32)
    except (KeyError, ValueError):  # ValueError: the frame has data of a kind that this PyAV does not know
        return ()
    return tuple(int(sign) for sign in np.sign(matrix[[0, 1, 3, 4]]))


def _container(path: Path) -> Any:
    import av

    # Where a level of FFmpeg's log is set, as torchvision does, its threads wait for the interpreter to log
    # something, and who closes a video has the interpreter and waits for the threads: both for ever.
    av.logging.set_level(None)
    limits = {"protocol_whitelist": "file", "format_whitelist": _READERS}
    try:  # not options=, with which FLV ends the process before PyAV 18
        return av.open(str(path.resolve()), container_options=limits)
    except av.FFmpegError as error:
        if error.errno != errno.EINVAL:
            raise
        raise DataError(f"{path}: of a format that is not read; give one of {_FORMATS}") from None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    import av

    with _container(path) as container:
        streams = [
            s for s in container.streams.video if not s.disposition & av.stream.Disposition.attached_pic
        ]
        if not streams:
            kind = "only sound" if container.streams.audio else "no video stream"
            raise DataError(f"{path}: the file holds {kind}; give a video")
        stream = streams[0]
        if stream.codec_context is None:
            raise DataError(f"{path}: the video's codec is not known to FFmpeg; convert it to H.264")
        if stream.codec_context.width * stream.codec_context.height > max_pixels():
            raise DataError(f"{path}: frames have over {max_pixels():,} pixels; shrink the video")
        stream.thread_type = "AUTO"
        yield container, stream


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Turn what reading a video may raise into errors that name the file."""
    try:
        import av
    except ImportError:
        raise UnavailableError("videos need PyAV: pip install 'suisei[video]'") from None
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - whatever its name
            refuse_address(path, "video")
        if not path.is_file():
            raise DataError(f"{path}: no such video file; fix the path or the video folder")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the video file is empty (0 bytes); copy it again")
        yield
    except DataError:
        raise
    except (av.FFmpegError, OSError, EOFError, ValueError, OverflowError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error)  # FFmpeg's text names the file again
        text = " ".join(reason.split())[:160] or type(error).__name__
        raise DataError(f"{path}: not a video that can be decoded ({text}); {_ADVICE}") from None
