"""ActivityNet-FOIL: paragraphs about videos, right and with one noun phrase replaced by a wrong one.

Shi et al., "EMScore", CVPR 2022: 1,900 pairs for test videos of ActivityNet-Entities. The layout is the
one that EMScore's program reads: ``final_right_video_sentences.json`` and its ``foil`` twin hold under
``results`` the sentences of each video; the first annotator's file gives their times, sentence by
sentence, and the second annotator's file the references and theirs.

Every sentence becomes one sample, rated 1 in the right paragraph and 0 in the foil one;
``suisei.metaeval.video_protocols.foil_table`` averages each paragraph and compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, find_file, make_row
from suisei.data.benchmarks.vatex import find_video
from suisei.data.formats import Row
from suisei.data.json_files import read_object
from suisei.data.sample import Rating
from suisei.data.video import VideoSample
from suisei.errors import DataError

SIDES = ("right", "foil")
FIRST, SECOND = "anet_entities_test_1.json", "anet_entities_test_2.json"
TRAINING = "train.json"
LONGEST_TRAINING_SENTENCE = 66
"""Longer training sentences, in words, are left out of the idf corpus."""

OVERLAP = 0.4
"""A reference counts for a sentence if more than this share of its seconds lies in the sentence's."""


def read_training_captions(root: Path | str) -> list[str]:
    """Return the sentences of ActivityNet's training set, the corpus of EMScore's idf weights.

    Raises:
        DataError: the file is absent or laid out otherwise.
    """
    path = find_file(Path(root), TRAINING)
    sentences = []
    for video, entry in read_object(path).items():
        sentences += _texts(entry, f"{path}, {video}")
    return [text for text in sentences if len(text.split(" ")) <= LONGEST_TRAINING_SENTENCE]


def references_of(
    segment: Sequence[float], references: Sequence[str], segments: Sequence[Sequence[float]]
) -> tuple[str, ...]:
    """Return the references that are about a segment: those that overlap it enough, else all of them.

    As in EMScore's program, times are cut to whole seconds and both ends count.

    >>> references_of((0, 9.8), ("a", "b", "c"), ((0, 4), (6, 15), (30, 40)))
    ('a',)
    """
    start, end = int(segment[0]), int(segment[1])
    chosen = []
    for text, (first, last) in zip(references, segments, strict=True):
        first, last = int(first), int(last)
        shared = min(end, last) - max(start, first) + 1
        if max(shared, 0) / max(last - first + 1, 1) > OVERLAP:
            chosen.append(text)
    return tuple(chosen or references)


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    paths = {side: find_file(root, f"final_{side}_video_sentences.json") for side in SIDES}
    timed_path, reference_path = find_file(root, FIRST), find_file(root, SECOND)
    timed, others = read_object(timed_path), read_object(reference_path)
    sides = {side: _results(path) for side, path in paths.items()}
    if sides["right"].keys() != sides["foil"].keys():
        odd = sorted(sides["right"].keys() ^ sides["foil"].keys())
        raise DataError(f"{paths['foil']}: not the same videos as in its twin, such as {odd[0]!r}")
    number, seen = 0, set[str]()
    for video in sides["right"]:
        times = _times(timed, timed_path, video)
        references = (_texts(others.get(video), f"{reference_path}, {video}"),
                      _times(others, reference_path, video))  # fmt: skip
        if len(references[0]) != len(references[1]):
            raise DataError(f"{reference_path}, {video}: sentences and timestamps differ in number")
        for side in SIDES:
            sentences = sides[side][video]
            for position, entry in enumerate(sentences):
                number += 1
                make = partial(_sample, video, side, position, entry, times, references, images)
                row = make_row(paths[side], number, make, seen)
                if row is not None:
                    yield row


def _sample(
    video: str,
    side: str,
    position: int,
    entry: Any,
    times: list[tuple[float, float]],
    references: tuple[list[str], list[tuple[float, float]]],
    images: Path | None,
) -> VideoSample:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("sentence"), str):
        raise DataError(f"{video}, sentence {position + 1}: expected an object with a 'sentence'")
    if position >= len(times):
        raise DataError(f"{video} has no times for sentence {position + 1} in {FIRST}")
    return VideoSample(
        entry["sentence"],
        references_of(times[position], *references),
        rating=Rating((float(side == "right"),)),
        language="en",
        system=side,
        group=video,
        id=f"{video}/{position + 1}/{side}",
        video=find_video(images, video),
        segment=times[position],
    )


def _results(path: Path) -> dict[str, list[Any]]:
    results = read_object(path).get("results")
    if not isinstance(results, dict) or not all(isinstance(entry, list) for entry in results.values()):
        raise DataError(f"{path}: expected 'results' with a list of sentences per video")
    return results


def _texts(entry: Any, place: str) -> list[str]:
    texts = entry.get("sentences") if isinstance(entry, Mapping) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{place}: expected a list of text in 'sentences'")
    return texts


def _times(content: Mapping[str, Any], path: Path, video: str) -> list[tuple[float, float]]:
    entry = content.get(video)
    times = entry.get("timestamps") if isinstance(entry, Mapping) else None
    try:
        found = [(float(start), float(end)) for start, end in times or _absent()]
        return found if all(math.isfinite(second) for pair in found for second in pair) else _absent()
    except (OverflowError, TypeError, ValueError):
        raise DataError(f"{path}, {video}: expected [start, end] in seconds in 'timestamps'") from None


def _absent() -> list[Any]:
    raise ValueError


ACTIVITYNET_FOIL = Benchmark(
    name="activitynet-foil",
    rows=_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="sentences of 1,900 right paragraphs (1) and foil ones (0) about videos",
    source=(
        "Root is the folder that holds final_right_video_sentences.json, final_foil_video_sentences.json, "
        f"{FIRST} and {SECOND}, from the link in the README of https://github.com/ShiYaya/emscore; the "
        "folder of the videos (NAME.mp4) goes into --images, and without it only the text is read"
    ),
    has_images=True,
    idf_corpus=("activitynet-train", read_training_captions),
    protocol="paragraph-pairs",
)
