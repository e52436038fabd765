"""Captions of systems beside captions of people: whether a metric can tell which are which.

The last experiment of González-Chávez, Ruiz, Moctezuma and Ramirez-delReal, "Are metrics measuring what they
should?" (2022), section 4.2: a caption of a person and that of a system for each image, scored against the
same references, are sorted by score. That is a ladder of two sets, with people's as the better one.
"""

from __future__ import annotations

from collections.abc import Sequence

from suisei.data.sample import CaptionSample, language_of
from suisei.data.system_files import SystemFile, in_language
from suisei.data.system_outputs import join_people
from suisei.errors import DataError
from suisei.probes.degrade import by_language
from suisei.probes.ladders import Ladder
from suisei.probes.originals import some_of_each

PROTOCOL = "systems"
PEOPLE = "Human"


def ladders_beside_people(
    humans: Sequence[CaptionSample],
    files: Sequence[SystemFile],
    name: str,
    *,
    limit: int = 1000,
    seed: int = 0,
) -> tuple[list[tuple[str, Ladder]], list[str]]:
    """Return (language, ladder) of each system, its captions below those of people, and notes.

    Args:
        humans: captions of people, each with the image's others as references: one per image and language.
        files: the systems.
        name: of the data that ``humans`` are from, for messages.
        limit: images per language, chosen among those that all systems have.
        seed: decides which.

    Raises:
        DataError: no system says anything in a language of ``humans``, or of their images.
    """
    found: list[tuple[str, Ladder]] = []
    notes: list[str] = []
    for language, keep in by_language(humans):
        own = [sample for sample, there in zip(humans, keep, strict=True) if there]
        spoken = [in_language(file, language) for file in files]
        spoken = [file for file in spoken if file.samples]
        if not spoken:
            continue
        systems, people = join_people(own, spoken, name)
        notes += systems.notes
        chosen = set(map(id, some_of_each(people, limit, seed)))
        kept = [place for place, sample in enumerate(people) if id(sample) in chosen]
        best = tuple(people[place] for place in kept)
        for system, samples in systems.samples.items():
            worse = tuple(samples[place] for place in kept)
            found.append((language, Ladder(PROTOCOL, (system, PEOPLE), (worse, best), ())))
    if not found:
        languages = ", ".join(dict.fromkeys(map(language_of, humans)))
        raise DataError(f"no system has a caption in a language of the captions of people ({languages})")
    return found, notes
