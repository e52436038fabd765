"""Captions of a run that is not at its end, kept as they come, so that one that was cut off goes on.

``captions.jsonl.part`` says in its first line what decides captions, then has a line per batch of images:
its number, which files they were, and what became of each. A batch whose line is whole is never captioned
again, unless one of its images could not be read and can be by now. Images of a batch are captioned together
as in an unbroken run, so that the outputs of both are the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from suisei.captioning.caption_writing import Written
from suisei.data.images import load_image
from suisei.data.part_files import is_left, locked, part_of, write_all
from suisei.data.paths import real_path
from suisei.data.writers import temporaries
from suisei.errors import ConfigError, DataError
from suisei.scoring.digest import file_state
from suisei.version import __version__

_LAYOUT = 1


class CaptionPart:
    """The part file of an output: what is done of it, and what is being done.

    Args:
        output: the file that captions go to in the end; of a link, the file that it names.
        decides: what decides captions beside the images, as {what it is: a value that JSON can hold}.
        images: all images, in order.
        batch_size: images of a batch.
        resume: whether to go on with a part file.

    Raises:
        ConfigError: a part file without ``resume``, in use, of other settings or of other images.
        DataError: it cannot be read or written.
    """

    def __init__(
        self,
        output: Path,
        decides: Mapping[str, Any],
        images: Sequence[Path],
        batch_size: int,
        *,
        resume: bool,
    ) -> None:
        self.part = part_of(output)
        self._decides = {"part": _LAYOUT, "suisei": __version__, **json.loads(json.dumps(decides))}
        self._batches = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
        self._states = {image: file_state(image) for image in images}
        self._there = {image for image in images if os.path.exists(image)}  # noqa: PTH110 - of any name
        self._lines: dict[int, tuple[int, int]] = {}
        self._end = 0
        try:
            self._kept = is_left(self.part, resume=resume)
            self._handle = locked(self.part, "--output")
            try:
                self._begin()
            except BaseException:
                self._close()
                raise
            for left in temporaries(real_path(output)):  # of a run that was killed as it ended
                left.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.part}: cannot be written: {error.strerror or error}") from None

    @property
    def done(self) -> Container[int]:
        """Numbers of the batches that need not be captioned."""
        return self._lines.keys()

    @property
    def images_done(self) -> int:
        """How many images have become a caption or a problem."""
        return sum(len(self._batches[number]) for number in self._lines)

    def __enter__(self) -> CaptionPart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def add(self, number: int, written: Sequence[Written]) -> None:
        """Keep what became of a batch; it is in the file when this returns.

        Raises:
            DataError: an image went away since the run began, or the file cannot be written.
        """
        images = self._batches[number]
        for image, found in zip(images, written, strict=True):
            if found.problem and image in self._there and not os.path.exists(image):  # noqa: PTH110
                raise DataError(f"{image} is not there any more; --resume goes on once it is back")
        states = [self._states[image] for image in images]
        outcomes = [[found.captions, found.log_probs, found.problem] for found in written]
        try:
            line = self._append({"batch": number, "images": states, "written": outcomes})
        except OSError as error:
            raise DataError(f"{self.part}: cannot be written: {error.strerror or error}") from None
        self._lines[number], self._kept = line, True

    def written(self) -> Iterator[Written]:
        """Yield what became of every image, in order, once all are done."""
        with self.part.open("rb") as stream:
            for number in range(len(self._batches)):
                start, length = self._lines[number]
                stream.seek(start)
                for captions, log_probs, problem in json.loads(stream.read(length))["written"]:
                    yield Written(tuple(captions), tuple(log_probs), problem)

    def complete(self) -> None:
        """Have the file taken away at the end of the block, now that the output has its own name."""
        self._kept = False

    def _close(self) -> None:
        """Close the file; one without a batch, or of an output that is complete, goes."""
        self._handle.close()
        if not self._kept:
            with suppress(OSError):
                self.part.unlink()

    def _begin(self) -> None:
        """Read what is there, and cut off what a killed run left after its last whole line."""
        if self._kept:
            with self.part.open("rb") as stream:
                for number, line in enumerate(stream):
                    record = _parsed(line)
                    if number == 0 and line.endswith(b"\n"):
                        self._check(record)
                    elif record is None or not self._take(record, len(line)):
                        break
                    self._end += len(line)
        self._handle.truncate(self._end)
        if not self._end:
            self._append(self._decides)

    def _check(self, noted: dict[str, Any] | None) -> None:
        """Refuse captions of other settings."""
        if noted is None or any(noted.get(name) != self._decides[name] for name in ("part", "suisei")):
            raise ConfigError(
                f"{self.part} is damaged or of another version of suisei, so nothing says what its captions "
                "are of; delete it and start again"
            )
        for what, value in self._decides.items():
            if noted.get(what) != value:
                raise ConfigError(
                    f"{self.part} was written with another {what}; give the same, or another --output"
                )

    def _take(self, record: dict[str, Any], length: int) -> bool:
        """Take the line of a batch; returns False for one that is damaged."""
        number, states, written = (record.get(name) for name in ("batch", "images", "written"))
        if not (isinstance(number, int) and isinstance(states, list) and isinstance(written, list)):
            return False
        if len(states) != len(written) or not all(map(_is_outcome, written)):
            return False
        images = self._batches[number] if 0 <= number < len(self._batches) else []
        if len(images) != len(states):
            raise self._changed(
                f"batch {number + 1} of the images has {len(images)}, in the part file {len(states)}"
            )
        again = False
        for image, state, (_, _, problem) in zip(images, states, written, strict=True):
            same = state == self._states[image]
            if not problem and not os.path.exists(image):  # noqa: PTH110
                raise DataError(f"{image} is not there any more; --resume goes on once it is back")
            if not problem and not same:
                raise self._changed(f"{image} is not what was captioned")
            again |= bool(problem) and not (same and _is_unreadable(image))
        if not again:
            self._lines[number] = (self._end, length)
        return True

    def _changed(self, how: str) -> DataError:
        return DataError(
            f"{self.part}: the images have changed: {how}; go on with the images as they were, in that "
            "order, or give another --output"
        )

    def _append(self, record: Mapping[str, Any]) -> tuple[int, int]:
        """Write a line; returns where it begins, and how long it is."""
        line = json.dumps(record) + "\n"  # in ASCII, so that its length is that of its bytes
        write_all(self._handle, line)
        begin, self._end = self._end, self._end + len(line)
        return begin, len(line)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None where there is no whole one."""
    try:
        found = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_outcome(found: Any) -> bool:
    """Say whether something is captions, their log probabilities and a problem."""
    return (
        isinstance(found, list)
        and list(map(type, found)) == [list, list, str]
        and all(isinstance(text, str) for text in found[0])
        and all(isinstance(value, float) for value in found[1])
    )


def _is_unreadable(image: Path) -> bool:
    """Say whether an image still cannot be read; people mend what they are told of."""
    try:
        load_image(image)
    except DataError:
        return True
    return False
