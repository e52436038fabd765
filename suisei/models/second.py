"""A second model beside a first, whose scores are weighed against the first's in some languages.

Encoders that learned from other sentences err on other captions, so that two of them agree better with people
than either does. The second is a whole model folder, ``second/`` inside that of the first, and is asked of
candidates with references alone; all else the first scores as if it were by itself. There may be another in
``second-2/``, for other languages. Of one whose encoder is the lower layers of the first's, the network
alone is stored (:mod:`suisei.models.shared_second`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, language_of
from suisei.data.spoken import language_beside
from suisei.encoders.rules import check_folder
from suisei.errors import ModelError
from suisei.ranges import SHARE, SWITCH, Rule, Several, Word

FOLDERS = ("second", "second-2")
"""Names of their folders inside the first's: as many as there are languages."""
SURE = 1e-6
"""Nearest to 0 or 1 that a score is taken to be."""
RULES: dict[str, Rule] = {
    "languages": Several(Word(tuple(LANGUAGE_NAMES)), 1, len(LANGUAGE_NAMES)),
    "share": SHARE,
}
SHARED: dict[str, Rule] = {**RULES, "shared": SWITCH}


@dataclass(frozen=True)
class Weighing:
    """``sigmoid((1 - share) * logit(first) + share * logit(second))``.

    A mean, not a sum, so that two models that say the same are believed as they are.

    Attributes:
        languages: of the captions that the second is asked of, "ja" or "en".
        share: of the second's logit, 0 to 1.
    """

    languages: tuple[str, ...]
    share: float

    @classmethod
    def from_dict(cls, values: Any, place: str) -> Weighing:
        """Return what :meth:`to_dict` gave, and somebody may have altered since.

        Raises:
            ModelError: a setting that cannot be.
        """
        found = check_folder(values, RULES, place, required=tuple(RULES))
        return cls(tuple(found["languages"]), float(found["share"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as values that JSON can hold."""
        return {**asdict(self), "languages": list(self.languages)}

    def asked(self, samples: Sequence[CaptionSample]) -> list[int]:
        """Return the positions of the samples that the second model is asked of, references included."""
        return [
            position for position, sample in enumerate(samples) if sample.references and self._reads(sample)
        ]

    def _reads(self, sample: CaptionSample) -> bool:
        spoken = {language_of(sample), *(language_beside(sample, text) for text in sample.references)}
        return spoken.issubset(self.languages)

    def combined(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return scores in (0, 1), float64 [N]; the first's where either is NaN.

        Args:
            first: scores of the first model, [N].
            second: scores of the second, [N].
        """
        from scipy.special import expit

        both: np.ndarray = expit((1 - self.share) * logits(first) + self.share * logits(second))
        return np.where(np.isnan(both), first, both)


@dataclass(frozen=True)
class Second:
    """A second model in a folder, which is read when it is first asked.

    Attributes:
        weighing: how it is weighed.
        folder: its model folder.
        within: where links in it may lead to, see :func:`suisei.models.folder.load_model`.
        checksum: of its settings, and so of all its files.
        shared: whether it reads with the first's encoder, and its folder holds its network alone.
    """

    weighing: Weighing
    folder: Path
    within: Path | None
    checksum: str
    shared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return what the first's settings say of it."""
        return {**self.weighing.to_dict(), "shared": self.shared}


def said_of(values: Any, place: str) -> tuple[Weighing, bool]:
    """Return what :meth:`Second.to_dict` gave: how it is weighed, and whether it is shared.

    Raises:
        ModelError: a setting that cannot be.
    """
    found = check_folder(values, SHARED, place, required=tuple(SHARED))
    return Weighing(tuple(found["languages"]), float(found["share"])), found["shared"]


def check_apart(weighings: Sequence[Weighing], place: str) -> None:
    """Refuse two models that would be asked of the same captions.

    Raises:
        ModelError: a language that both are asked of.
    """
    spoken = [language for weighing in weighings for language in weighing.languages]
    twice = sorted({language for language in spoken if spoken.count(language) > 1})
    if twice:
        named = " and ".join(LANGUAGE_NAMES[language] for language in twice)
        raise ModelError(f"{place}: two models would be weighed beside the first in {named}; one may be")


def logits(scores: np.ndarray) -> np.ndarray:
    """Return the logits of scores in [0, 1], float64 [N]; NaN where there is no score."""
    from scipy.special import logit

    found: np.ndarray = logit(np.clip(np.asarray(scores, np.float64), SURE, 1 - SURE))
    return found


def copied(source: Path, new: Path, files: Iterable[str]) -> None:
    """Copy the files of a model folder into a new one.

    Args:
        source: the model folder.
        new: the new one.
        files: their names; the card is not among them.
    """
    for name in files:
        place = new / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, place)
