"""Benchmarks of caption pairs: every pair becomes two samples that know of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import ImageFolder
from suisei.data.formats import Row
from suisei.data.judged import PairCaption
from suisei.data.sample import Rating
from suisei.errors import DataError


@dataclass(frozen=True, slots=True)
class Pair:
    """Two captions of an image, and which people prefer.

    Attributes:
        id: name of the pair; its captions are ``ID/1`` and ``ID/2``.
        captions: the first and the second.
        preferred: (kind, how far the first is preferred: 1 always, 0.5 undecided, 0 never) per kind.
        image: name of the image file.
        references: further captions of the image.
        group: what must not be split, by default the image.
    """

    id: str
    captions: tuple[str, str]
    preferred: tuple[tuple[str, float], ...]
    image: str
    references: tuple[str, ...] = ()
    group: str | None = None

    def samples(self, files: ImageFolder) -> tuple[PairCaption, PairCaption]:
        """Return the two samples.

        Raises:
            DataError: a blank caption, or the image's file is not there.
        """
        return self._sample(0, files), self._sample(1, files)

    def _sample(self, position: int, files: ImageFolder) -> PairCaption:
        preferred = tuple((kind, 1 - share if position else share) for kind, share in self.preferred)
        return PairCaption(
            self.captions[position],
            self.references,
            image=files.path(self.image),
            rating=Rating((sum(share for _, share in preferred) / len(preferred),)),
            language="en",
            group=self.image if self.group is None else self.group,
            id=f"{self.id}/{position + 1}",
            pair=self.id,
            preferred=preferred,
        )


def pair_rows(
    path: Path,
    records: Iterable[tuple[int, Any]],
    make: Callable[[int, Any], Pair | None],
    files: ImageFolder,
    seen: set[str],
) -> Iterator[Row]:
    """Yield two rows per pair; what is wrong with either caption costs both, as one bad row.

    Args:
        path: the file, for messages.
        records: (row number, record).
        make: returns the pair of a record, or None for one that does not belong to the benchmark; raises
            DataError without the place.
        files: where the images are.
        seen: names of pairs so far.
    """
    for number, record in records:
        try:
            pair = make(number, record)
            if pair is None:
                continue
            if pair.id in seen:
                raise DataError(f"pair {pair.id} occurs twice; every pair must be unique")
            samples = pair.samples(files)
        except DataError as error:
            yield Row(number, None, None, DataError(f"{path}, row {number}: {error}"))
            continue
        seen.add(pair.id)
        for sample in samples:
            yield Row(number, sample.id, sample, None)
