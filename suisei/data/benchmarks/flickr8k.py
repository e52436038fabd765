"""Flickr8k: English captions rated for images they were or were not written for.

Hodosh, Young and Hockenmaier: "Framing Image Description as a Ranking Task", JAIR 47, 2013. Two sets
of ratings: three experts on 1 to 4, and three or more crowd workers with yes or no. In both, every
candidate is the third caption (number 2) of some image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from suisei.data.benchmarks.benchmark import (
    Benchmark,
    ImageFolder,
    count,
    find_file,
    is_count,
    make_row,
    text_rows,
)
from suisei.data.formats import Row
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError, DataError

TEXT_FOLDER = "Flickr8k_text"
IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset")  # the first is the archive's own spelling
CAPTIONS, EXPERT, CROWD = "Flickr8k.token.txt", "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt"
FLICKR8K_PARTS = ("train", "dev", "test")
CANDIDATE_NUMBER = 2
"""Which of an image's captions, counted from 0, serves as a candidate in both sets of ratings."""

MAX_VOTES = 100
"""More votes than this on one pair is a damaged row."""

Captions = dict[str, tuple[str, ...]]


def read_captions(root: Path | str) -> Captions:
    """Return each image's captions in their official order, as they are in the file (tokenised).

    Args:
        root: the folder that holds Flickr8k_text.

    Raises:
        DataError: the file is not there, a line is damaged, or one of an image's captions is missing.
    """
    path = _text_file(Path(root), CAPTIONS)
    found: dict[str, dict[int, str]] = {}
    for number, line, problem in text_rows(path):
        name, tab, caption = line.partition("\t")
        image, hash_sign, position = name.rpartition("#")
        if problem is None and not (tab and hash_sign and image and is_count(position) and caption.strip()):
            problem = f"expected IMAGE#NUMBER, a tab and a caption, got {line[:60]!r}"
        if problem is None and int(position) in found.get(image, {}):
            problem = f"{name} occurs twice"
        if problem is not None:
            raise DataError(f"{path}, row {number}: {problem}")
        found.setdefault(image, {})[int(position)] = caption
    return {image: _in_order(path, image, captions) for image, captions in found.items()}


def _in_order(path: Path, image: str, captions: Mapping[int, str]) -> tuple[str, ...]:
    """Return captions by their numbers; with a gap among them every later one would pass for another."""
    absent = next((number for number in range(len(captions)) if number not in captions), None)
    if absent is not None:
        raise DataError(f"{path}: {image} has no caption {absent}, but later ones; copy the file again")
    return tuple(captions[number] for number in range(len(captions)))


def read_image_list(root: Path | str, part: str) -> tuple[str, ...]:
    """Return the image names of an official part of the data: "train", "dev" or "test".

    Raises:
        ConfigError: another part.
        DataError: the list is not there.
    """
    if part not in FLICKR8K_PARTS:
        raise ConfigError(f"part is {part!r}; expected {', '.join(FLICKR8K_PARTS)}")
    path = _text_file(Path(root), f"Flickr_8k.{part}Images.txt")
    return tuple(line.strip() for _, line, _ in text_rows(path))


def _text_file(root: Path, name: str) -> Path:
    return find_file(root, f"{TEXT_FOLDER}/{name}")


def _files(root: Path, images: Path | None) -> ImageFolder:
    return ImageFolder.find(images, *(root / name for name in IMAGE_FOLDERS))


Make = Callable[[str, str, list[str]], CaptionSample | None]
"""(image, caption id, the three numbers as text) to a sample, or None for a pair that is left out."""


def _rated_rows(path: Path, make: Make) -> Iterator[Row]:
    seen: set[str] = set()
    for number, line, problem in text_rows(path):
        row = make_row(path, number, partial(_parse, line, problem, make), seen)
        if row is not None:
            yield row


def _parse(line: str, problem: str | None, make: Make) -> CaptionSample | None:
    fields = line.split("\t")
    if problem is None and len(fields) != 5:
        problem = f"{len(fields)} fields where there should be 5, separated by tabs: {line[:80]!r}"
    if problem is not None:
        raise DataError(problem)
    return make(fields[0], fields[1], fields[2:])


def _caption(captions: Captions, caption_id: str) -> str:
    image, _, position = caption_id.rpartition("#")
    own = _own_captions(captions, image)
    if not is_count(position) or int(position) >= len(own):
        raise DataError(f"caption {caption_id[:80]!r} is not in {CAPTIONS}")
    return own[int(position)]


def _own_captions(captions: Captions, image: str) -> tuple[str, ...]:
    if image not in captions:
        raise DataError(f"image {image[:80]!r} has no captions in {CAPTIONS}")
    return captions[image]


def _expert_rows(root: Path, images: Path | None, *, own: bool = False) -> Iterator[Row]:
    """Yield every pair with its three ratings; those that rate an image's own caption only under ``own``."""
    captions, files = read_captions(root), _files(root, images)

    def make(image: str, caption_id: str, numbers: list[str]) -> CaptionSample | None:
        candidate, references = _caption(captions, caption_id), _own_captions(captions, image)
        # As mostly published: a candidate that is among its own references says nothing about a metric.
        if candidate in references and not own:
            return None
        rating = Rating(tuple(count(number, "rating") for number in numbers), 1, 4)
        return _sample(image, caption_id, candidate, references, rating, files)

    yield from _rated_rows(_text_file(root, EXPERT), make)


def _crowd_rows(root: Path, images: Path | None) -> Iterator[Row]:
    """Yield every pair; each vote is a rating of 1 (yes) or 0 (no).

    The published set-up is not known exactly. Closest to the published figures: keep every pair, and
    take the image's captions except number 2, which may be the candidate, as references.
    """
    captions, files = read_captions(root), _files(root, images)

    def make(image: str, caption_id: str, numbers: list[str]) -> CaptionSample:
        candidate, own = _caption(captions, caption_id), _own_captions(captions, image)
        references = own[:CANDIDATE_NUMBER] + own[CANDIDATE_NUMBER + 1 :]
        return _sample(image, caption_id, candidate, references, _votes(*numbers), files)

    yield from _rated_rows(_text_file(root, CROWD), make)


def _votes(share: str, yes: str, no: str) -> Rating:
    ayes, noes = count(yes, "number of yes votes"), count(no, "number of no votes")
    if not 1 <= ayes + noes <= MAX_VOTES:
        raise DataError(f"{ayes} yes and {noes} no votes; expected 1 to {MAX_VOTES} in all")
    try:
        wrong = not abs(float(share) - ayes / (ayes + noes)) < 1e-3
    except ValueError:
        wrong = True
    if wrong:
        raise DataError(
            f"the share of yes votes is {share[:40]!r}, but {ayes} of {ayes + noes} votes are yes"
        )
    return Rating((1.0,) * ayes + (0.0,) * noes)


def _sample(
    image: str,
    caption_id: str,
    candidate: str,
    references: tuple[str, ...],
    rating: Rating,
    files: ImageFolder,
) -> CaptionSample:
    return CaptionSample(
        candidate,
        references,
        image=files.path(image),
        rating=rating,
        language="en",
        group=image,
        id=f"{image}/{caption_id}",
    )


_SOURCE = (
    f"Root is the folder that holds {TEXT_FOLDER} (and {IMAGE_FOLDERS[0]} with the images; without it "
    "only the text is read). Flickr8k is for research; its authors' site has closed, and copies of the "
    "archives Flickr8k_text.zip and Flickr8k_Dataset.zip are at "
    "https://github.com/Div99/Image-Captioning/releases/tag/1.0"
)

FLICKR8K_EXPERT = Benchmark(
    name="flickr8k-expert",
    rows=_expert_rows,
    language="en",
    rating_scale=(1.0, 4.0),
    summary="5,664 English captions for 1,000 photographs, each rated 1 to 4 by three experts",
    source=_SOURCE,
    has_images=True,
)

FLICKR8K_EXPERT_ALL = replace(
    FLICKR8K_EXPERT,
    name="flickr8k-expert-all",
    rows=partial(_expert_rows, own=True),
    summary="all 5,822 pairs of flickr8k-expert, the 158 that rate an image's own caption included",
    ratings_of="flickr8k-expert",
)

FLICKR8K_CF = Benchmark(
    name="flickr8k-cf",
    rows=_crowd_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="about 47,800 English captions for 1,000 photographs, yes or no by three or more crowd workers",
    source=_SOURCE,
    has_images=True,
    raters="mean",  # the share of yes
    correlation="tau-b",
)
