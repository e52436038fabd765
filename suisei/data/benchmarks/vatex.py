"""VATEX-EVAL: English captions of videos, each rated 1 to 5 by three people.

Shi et al., "EMScore", CVPR 2022: 3,000 videos of VATEX's validation set with six captions each. The
layout is the one that EMScore's evaluation program reads: four pickled arrays of equal length
(candidates, reference lists, video names; ratings as three blocks, one per annotator), and VATEX's
training captions for idf weights. The program's ready-made frame features are not read; the videos are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.benchmarks.benchmark import Benchmark, find_file, make_row
from suisei.data.benchmarks.pickled import read_pickled_array
from suisei.data.formats import Row
from suisei.data.json_files import read_object
from suisei.data.sample import CaptionSample, Rating
from suisei.data.video import VideoSample
from suisei.errors import ConfigError, DataError

CANDIDATES, REFERENCES = "candidates_list.pkl", "gts_list.pkl"
RATINGS, VIDEOS = "human_scores.pkl", "video_ids.pkl"
TRAINING_CAPTIONS = "vatex_train_en_annotations.json"
ANNOTATORS = 3
VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov")


def find_video(folder: Path | None, name: str) -> Path | None:
    """Return a video's file; None where there is no video folder at all.

    Raises:
        DataError: the folder has no file of that name.
    """
    if folder is None:
        return None
    if Path(name).name != name or name.startswith("."):
        raise DataError(f"video name {name[:60]!r} is not a plain file name")
    found = next((folder / f"{name}{s}" for s in VIDEO_SUFFIXES if (folder / f"{name}{s}").is_file()), None)
    if found is None:
        raise DataError(
            f"the video {folder / name} ({', '.join(VIDEO_SUFFIXES)}) is not there; download it, or leave "
            "its rows out (--on-error skip)"
        )
    return found


def read_training_captions(root: Path | str) -> list[str]:
    """Return the English captions of VATEX's training set, the corpus of EMScore's idf weights.

    Raises:
        DataError: the file is absent or laid out otherwise.
    """
    path = find_file(Path(root), TRAINING_CAPTIONS)
    content = read_object(path)
    for video, captions in content.items():
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            raise DataError(f"{path}: {video!r} must hold a list of captions")
    return [caption for captions in content.values() for caption in captions]


def limit_references(samples: Sequence[CaptionSample], count: int) -> list[CaptionSample]:
    """Keep the first ``count`` references of every sample, as EMScore does for its figures at 1 to 9.

    Raises:
        ConfigError: ``count`` is negative.
        DataError: a sample has fewer.
    """
    if count < 0:
        raise ConfigError(f"the number of references must be at least 0, got {count}")
    for position, sample in enumerate(samples):
        if len(sample.references) < count:
            raise DataError(f"sample {position} has {len(sample.references)} references, fewer than {count}")
    return [replace(sample, references=sample.references[:count]) for sample in samples]


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path, candidates, videos, references, by_sample = _columns(root)
    counts: dict[str, int] = {}
    seen: set[str] = set()
    for position, candidate in enumerate(candidates.tolist()):
        video = str(videos[position])
        counts[video] = counts.get(video, 0) + 1

        def make(
            candidate: Any = candidate,
            position: int = position,
            video: str = video,
            number: int = counts[video],
        ) -> VideoSample:
            return VideoSample(
                candidate,
                tuple(str(text) for text in np.atleast_1d(references[position]).tolist()),
                rating=Rating(tuple(by_sample[position].tolist()), 1, 5),
                language="en",
                group=video,
                id=f"{video}/{number}",
                video=find_video(images, video),
            )

        row = make_row(path, position + 1, make, seen)
        if row is not None:
            yield row


def _columns(root: Path) -> tuple[Path, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the file of the candidates, and N candidates, videos, references and ratings [N, annotators].

    Raises:
        DataError: a file is absent, or they are not of one length.
    """
    paths = {name: find_file(root, name) for name in (CANDIDATES, REFERENCES, RATINGS, VIDEOS)}
    candidates, videos = (read_pickled_array(paths[name]).ravel() for name in (CANDIDATES, VIDEOS))
    references, ratings = (read_pickled_array(paths[name]) for name in (REFERENCES, RATINGS))
    if ratings.dtype.kind not in "iuf" or ratings.size != ANNOTATORS * len(candidates):
        raise DataError(
            f"{paths[RATINGS]}: expected {ANNOTATORS} x {len(candidates)} ratings as numbers, "
            f"got {ratings.size} of type {ratings.dtype}"
        )
    for name, column in ((REFERENCES, references), (VIDEOS, videos)):
        if len(column) != len(candidates):
            raise DataError(f"{paths[name]}: {len(column)} entries, {CANDIDATES} has {len(candidates)}")
    return paths[CANDIDATES], candidates, videos, references, ratings.reshape(ANNOTATORS, -1).T


VATEX_EVAL = Benchmark(
    name="vatex-eval",
    rows=_rows,
    language="en",
    rating_scale=(1.0, 5.0),
    summary="18,000 English captions for 3,000 videos, each rated 1 to 5 by three people",
    source=(
        f"Root is the folder that holds {CANDIDATES}, {REFERENCES}, {RATINGS} and {VIDEOS}, from the link in "
        "the README of https://github.com/ShiYaya/emscore; the folder of the videos (NAME.mp4) goes into "
        "--images, and without it only the text is read"
    ),
    has_images=True,
    idf_corpus=("vatex-train", read_training_captions),
    protocol="vatex-eval",
    correlation="tau-b",
)
