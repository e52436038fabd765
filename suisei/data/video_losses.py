"""Videos of which clearly less can be read than their files hold or declare: damaged, or cut off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_ENOUGH = 0.9
"""Share of what is declared; a few frames fewer are nothing: writers round, last frames have no length."""

_HEADERS = 100
"""Bytes between two blocks of a Matroska file that are no frame's: more than headers take."""

_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d*)?)")


class Packet(NamedTuple):
    """What is read of a packet without decoding it; times in units of the stream, None where it has none."""

    pts: int | None
    dts: int | None
    duration: int
    is_key: bool
    is_discard: bool
    is_corrupt: bool


def losses(path: Path, container: Any, stream: Any, packets: Sequence[Packet]) -> str:
    """Return what to warn of, "" where about as much was read as there is.

    An average frame rate says nothing where rates vary, and a duration that is guessed from the file's
    end or holds the sound too says nothing of the frames: formats with such alone declare nothing.

    Args:
        path: the video file, for the message.
        container: PyAV's container, read to its end; it may be read again.
        stream: its video stream.
        packets: all packets of the stream.
    """
    read, declared, unit = _read_and_declared(container, stream, packets)
    if not 0 < read < _ENOUGH * declared:
        return ""
    return (
        f"{path}: {read:.6g} of {declared:.6g} {unit} can be read, and scores are of these alone; "
        "the file is damaged or cut off, replace it"
    )


def _read_and_declared(container: Any, stream: Any, packets: Sequence[Packet]) -> tuple[float, float, str]:
    name = container.format.name
    intact = [packet for packet in packets if not packet.is_corrupt]
    if name == "avi" and stream.frames:  # by number: a frame shown again has an empty packet, or none
        return 1 + max((p.dts for p in intact if p.dts is not None), default=-1), stream.frames, "frames"
    if name.startswith("matroska"):
        ends = [float((p.pts + p.duration) * stream.time_base) for p in intact if p.pts is not None]
        end, declared = max(ends, default=0.0), 0.0
        if clock := _CLOCK.match(stream.metadata.get("DURATION", "")):
            hours, minutes, seconds = map(float, clock.groups())
            declared = 3600 * hours + 60 * minutes + seconds
        few = len(intact) < _ENOUGH * end * float(stream.average_rate or 0)
        skipped = _skipped(container, stream) if few else 0.0
        return round(end - skipped, 2), round(max(declared, end), 2), "seconds"
    # MP4: not stream.frames, which has those that an edit list leaves out. PyAV 17 may not know the index.
    index = len(getattr(stream, "index_entries", ())) if name.startswith("mov") else 0
    return len(intact), max(len(packets), index), "frames"


def _skipped(container: Any, stream: Any) -> float:
    """Return the seconds without a frame where the file has bytes that belong to no packet.

    A reader of Matroska goes on at the next cluster after a block that it cannot make out. Seconds alone
    tell nothing: a picture may stand still.
    """
    import av

    start = end = shown = None
    seconds, holed = 0.0, False
    with suppress(av.FFmpegError):  # the frames can be read all the same
        container.seek(0)
        for packet in container.demux():
            if packet.pos is None or packet.pos < 0:
                continue
            holed = holed or (end is not None and packet.pos - end > _HEADERS)
            laced = end is not None and packet.pos == start
            start, end = packet.pos, packet.size + (end if laced else packet.pos)
            if packet.stream.index == stream.index and packet.pts is not None:
                if holed and shown is not None:
                    seconds += max(0.0, float((packet.pts - shown) * stream.time_base))
                shown, holed = max(packet.pts + (packet.duration or 0), shown or 0), False
    return seconds
