"""How the data sets of a training are split: what is trained on, validated on and tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from suisei.data.sample import CaptionSample
from suisei.data.splits import (
    PARTS,
    Disjoint,
    Split,
    cross_candidates,
    fold_by_group,
    group_of,
    split_by_group,
    without_shared_candidates,
)
from suisei.data.topics import topics_of
from suisei.errors import ConfigError, DataError
from suisei.ranges import at_least, check


@dataclass(frozen=True)
class Splitting:
    """The settings of a split, see :class:`suisei.training.datamodule.CaptionDataModule`.

    Attributes:
        sources: the data sets, by name, which errors name.
        validation: the data given for validation, None where it is split off.
        test: the data given for the test, None where it is split off.

    Raises:
        ConfigError: settings that contradict each other.
    """

    sources: tuple[str, ...]
    fractions: tuple[float, float, float]
    folds: int
    fold: int | None
    seed: int
    disjoint: Disjoint
    validation: str | None
    test: str | None

    def __post_init__(self) -> None:
        fractions, folds, fold = self.fractions, self.folds, self.fold
        if abs(sum(fractions) - 1) > 1e-6 or fractions[0] == 0:
            raise ConfigError(
                f"data.fractions is {tuple(fractions)}, which sums to {sum(fractions):g}; it must be three "
                "shares that sum to 1, the first above 0, such as [0.8, 0.1, 0.1]"
            )
        if fold is not None and not folds:
            raise ConfigError(
                f"data.fold is {fold} without data.folds; set data.folds, such as 5, or leave it out"
            )
        if fold is not None:
            check("data.fold", fold, at_least(0, folds - 1))
        if folds and (self.validation or self.test):
            raise ConfigError("folds split the training data; leave data.validation and data.test out")
        if self.disjoint in ("crossed", "topics") and not folds:
            what = "candidates" if self.disjoint == "crossed" else "topics"
            raise ConfigError(
                f"data.disjoint: {self.disjoint} puts {what} into folds; set data.folds, such as 5"
            )

    def parts(
        self, sources: Sequence[Sequence[CaptionSample]]
    ) -> tuple[tuple[list[int], list[int], list[int]], str]:
        """Split each source by group and return the positions of training, validation and test, and how.

        An image that several sources have is where the first of them has it.

        Raises:
            DataError: a source has too few groups.
        """
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        method = "given"
        number_of: dict[str, int] = {}
        start = 0
        called: Sequence[str] = self.sources
        if self.disjoint == "topics":
            sources = [[sample for samples in sources for sample in samples]]  # one dog is like another's
            called = [", ".join(self.sources)]
        for source, samples in zip(called, sources, strict=True):
            names = [group_of(sample) for sample in samples]
            try:
                split = self._of(samples)
            except DataError as error:
                raise DataError(f"{source}: {error}") from None
            method = split.method  # which the settings alone decide
            own = {row: number for number, part in enumerate(PARTS) for row in getattr(split, part)}
            for row, name in enumerate(names):
                parts[number_of.setdefault(name, own[row])].append(start + row)
            start += len(samples)
        return parts, method

    def _of(self, samples: Sequence[CaptionSample]) -> Split:
        if self.folds:
            if self.fold is None:
                raise ConfigError(
                    "data.fold is null: choose one fold, or run `suisei train`, which runs them all"
                )
            by_topic = self.disjoint == "topics"
            topics = topics_of(samples, self.folds, self.seed) if by_topic else None
            return fold_by_group(samples, self.fold, self.folds, self.seed, self.fractions[1], topics)
        train, validation, test = self.fractions
        wanted = (train, 0.0 if self.validation else validation, 0.0 if self.test else test)
        total = sum(wanted)
        shares = (wanted[0] / total, wanted[1] / total, wanted[2] / total)
        return split_by_group(samples, shares, seed=self.seed)

    def checked(
        self,
        samples: Sequence[CaptionSample],
        names: Sequence[str],
        parts: Sequence[Sequence[int]],
        method: str,
    ) -> Split:
        """Return the split of positions into parts, with candidates apart where ``disjoint`` asks for it.

        Args:
            samples: all samples.
            names: the groups of all as their files name them.
            parts: the positions of training, validation and test.
            method: how they were split off, in words.

        Raises:
            DataError: given data shares groups with another part, or a part has no samples.
        """
        self._refuse_shared_groups(names, parts)
        given = [part for part, source in zip(PARTS[1:], (self.validation, self.test), strict=True) if source]
        whole = len(given) == 2
        said = "given" if whole else ", ".join([method, *(f"{part} given" for part in given)])
        seed = None if whole else self.seed
        split = Split(tuple(parts[0]), tuple(parts[1]), tuple(parts[2]), method=said, seed=seed)
        self._refuse_empty(split, "change data.fractions")
        if self.disjoint in ("captions", "topics"):
            split = replace(without_shared_candidates(samples, split), disjoint=self.disjoint)
        elif self.disjoint == "crossed":
            assert self.fold is not None
            split = cross_candidates(samples, split, self.fold, self.folds, self.seed)
        self._refuse_empty(split, "its samples share candidates with other parts; set data.disjoint: group")
        return split

    def _refuse_shared_groups(self, names: Sequence[str], parts: Sequence[Sequence[int]]) -> None:
        """Refuse a validation or test file with groups of another part: its figures would be too good."""
        groups = [{names[position] for position in part} for part in parts]
        for own, source in ((1, self.validation), (2, self.test)):
            for other in range(3):
                shared = sorted(groups[own] & groups[other]) if source and other != own else []
                if shared:
                    raise DataError(
                        f"{source}: {len(shared)} of its groups (images), such as {shared[0]!r}, are in the "
                        f"{PARTS[other]} split too; take them out of one, or name the groups apart"
                    )

    def _refuse_empty(self, split: Split, advice: str) -> None:
        for name, part in zip(("training", "validation", "test"), PARTS, strict=True):
            if not getattr(split, part):
                raise DataError(f"the {name} split of {', '.join(self.sources)} is empty; {advice}")
