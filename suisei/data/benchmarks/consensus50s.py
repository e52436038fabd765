"""Pascal-50S and Abstract-50S: which of two captions is nearer to what about fifty people wrote.

Vedantam, Zitnick and Parikh: "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015. Each pair
was judged 48 times, beside another reference each time. The kinds of Pascal-50S: HC (two correct captions
by people), HI (one of them of another image), HM (one by a person, one by a model), MM (two by models).

Two layouts are read. The official one is in MATLAB files: ``consensus_NAME.mat`` has the judgements
(``triplets``: reference, first, second, and 1 where the first won), ``pair_pascal.mat`` the images and
kinds of the pairs. Five references of each pair are drawn five times, as papers do. The other is
``pascal_50s.json``, as published with FLEUR: five references are drawn there already.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file
from suisei.data.benchmarks.jsonfile import text_of, texts_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, read_object
from suisei.errors import DataError

KINDS = ("HC", "HI", "HM", "MM")
JUDGEMENTS = 48
"""Judgements of each pair, each with a reference."""

DRAWS, REFERENCES, SEED = 5, 5, 0
"""How often, how many and from which seed references are drawn where there are all of them."""
_DRAW = "draw-"
"""Begins the name of a pair in each draw, before its number."""

JSON_FILE = "pascal_50s.json"
PASCAL_FILES = ("consensus_pascal.mat", "pair_pascal.mat")
ABSTRACT_FILE = "consensus_abstract.mat"
ABSTRACT_SAME_IMAGE = 200
"""So many pairs of Abstract-50S, the first ones, are of captions of the same image."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A pair with all its judgements."""

    kind: str
    image: str
    captions: tuple[str, str]
    references: tuple[str, ...]
    share: float


def _pascal_rows(root: Path, images: Path | None) -> Iterator[Row]:
    files = ImageFolder.find(images)
    if find_file(root, JSON_FILE, PASCAL_FILES[0]).name == JSON_FILE:
        yield from _json_rows(root / JSON_FILE, files)
        return
    path, pairs = root / PASCAL_FILES[0], find_file(root, PASCAL_FILES[1])
    yield from _drawn_rows(path, list(_judged_pascal(path, pairs)), files)


def _abstract_rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = find_file(root, ABSTRACT_FILE)
    yield from _drawn_rows(path, list(_judged_abstract(path)), ImageFolder.find(images))


def _json_rows(path: Path, files: ImageFolder) -> Iterator[Row]:
    content, seen = read_object(path), set[str]()
    for kind in KINDS:
        if not isinstance(content.get(kind), list):
            raise DataError(f"{path}: {kind} must hold a list of pairs")
        yield from pair_rows(path, enumerate(content[kind], start=1), partial(_json_pair, kind), files, seen)


def _json_pair(kind: str, number: int, record: Any) -> Pair:
    record = as_object(record)
    first, second = texts_of(record, "captions", count=2)
    label = record.get("label")
    if label not in (0, 1) or isinstance(label, bool):
        raise DataError(
            f"{kind}: label must be 0 or 1, the index of the preferred caption, got {label!r:.40}"
        )
    return Pair(
        f"{kind}/{number}",
        (first, second),
        ((kind, 1.0 - label),),
        text_of(record, "image"),
        texts_of(record, "references"),
    )


def draws_of(pairs: Iterable[str]) -> int:
    """Return of how many draws of references pairs are, by their names; 1 for pairs of other sets."""
    names = {name.partition("/")[0] for name in pairs if name.startswith(_DRAW)}
    return max(len(names), 1)


def _drawn_rows(path: Path, judged: Sequence[_Judged], files: ImageFolder) -> Iterator[Row]:
    """Yield every pair with every draw of its references; a pair keeps its number in all of them."""
    seen: set[str] = set()
    for draw in range(1, DRAWS + 1):
        rng = random.Random(f"{SEED}-{draw}")
        make = partial(_drawn_pair, draw, rng)
        yield from pair_rows(path, enumerate(judged, start=1), make, files, seen)


def _drawn_pair(draw: int, rng: random.Random, number: int, judged: _Judged) -> Pair:
    references = rng.sample(judged.references, min(REFERENCES, len(judged.references)))
    return Pair(
        f"{_DRAW}{draw}/{judged.kind}/{number}",
        judged.captions,
        ((judged.kind, judged.share),),
        judged.image,
        tuple(references),
    )


def _judged_pascal(path: Path, pairs_path: Path) -> Iterator[_Judged]:
    triplets = _triplets(path)
    pairs = _matlab(pairs_path, "new_input")
    try:
        kinds = [int(number) for number in np.ravel(_matlab(pairs_path, "category"))]
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(f"{pairs_path}: category must be whole numbers ({error})") from None
    if not len(pairs) == len(kinds) == len(triplets) / JUDGEMENTS:
        raise DataError(
            f"{path}: {len(triplets)} judgements, {JUDGEMENTS} of each of the {len(pairs)} pairs are expected"
        )
    for number, (pair, kind) in enumerate(zip(pairs, kinds, strict=True)):
        if not 1 <= kind <= len(KINDS):
            raise DataError(f"{pairs_path}, pair {number + 1}: category must be 1 to 4, got {kind}")
        image, first, second = (_text(value, pairs_path) for value in _fields(pair, 3, pairs_path))
        yield _judged(
            KINDS[kind - 1],
            image,
            (first, second),
            triplets[number * JUDGEMENTS : (number + 1) * JUDGEMENTS],
            f"{path}, pair {number + 1}",
        )


def _judged_abstract(path: Path) -> Iterator[_Judged]:
    """Yield the pairs in the order of their first judgement; images are known by their references."""
    groups: dict[tuple[str, str], list[tuple[str, str, str, float]]] = {}
    for triplet in _triplets(path):
        groups.setdefault((triplet[1], triplet[2]), []).append(triplet)
    images: dict[frozenset[str], str] = {}
    for number, (captions, triplets) in enumerate(groups.items()):
        references = frozenset(triplet[0] for triplet in triplets)
        image = images.setdefault(references, f"image-{len(images) + 1}")
        kind = "HC" if number < ABSTRACT_SAME_IMAGE else "HI"
        yield _judged(kind, image, captions, triplets, f"{path}, pair {number + 1}")


def _judged(
    kind: str,
    image: str,
    captions: tuple[str, str],
    triplets: Sequence[tuple[str, str, str, float]],
    place: str,
) -> _Judged:
    votes = Counter(first if winner > 0 else second for _, first, second, winner in triplets)
    if not set(votes) <= set(captions):
        raise DataError(f"{place}: its judgements are about other captions; download both files again")
    references = tuple(dict.fromkeys(triplet[0] for triplet in triplets))
    share = votes[captions[0]] / len(triplets) if captions[0] != captions[1] else 0.5
    return _Judged(kind, image, captions, references, share)


def _triplets(path: Path) -> list[tuple[str, str, str, float]]:
    found: list[tuple[str, str, str, float]] = []
    for record in _matlab(path, "triplets"):
        reference, first, second, winner = _fields(record, 4, path)
        won = float(np.ravel(winner)[0])
        found.append((_text(reference, path), _text(first, path), _text(second, path), won))
    return found


def _fields(record: Any, count: int, path: Path) -> list[Any]:
    """Return the fields of a MATLAB struct, or the entries of a cell."""
    fields = list(record.tolist()) if isinstance(record, np.void) else list(np.ravel(record))
    if len(fields) != count:
        raise DataError(f"{path}: an entry has {len(fields)} fields; expected {count}")
    return fields


def _matlab(path: Path, name: str) -> np.ndarray:
    """Return a variable of a MATLAB file as a flat array of its entries; nothing in such a file is run."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (MatReadError, ValueError, TypeError, KeyError, NotImplementedError, EOFError) as error:
        raise DataError(f"{path}: not a MATLAB file of version 5 ({error})") from None
    if name not in content:
        names = ", ".join(key for key in content if not key.startswith("__"))
        raise DataError(f"{path}: it has no {name!r}, only {names or 'nothing'}")
    return np.ravel(content[name])


def _text(value: Any, path: Path) -> str:
    """Return the text in nested cells of MATLAB."""
    while isinstance(value, np.ndarray) and value.size:
        value = value.flat[0]
    if not isinstance(value, str):
        raise DataError(f"{path}: expected text, got {str(value)[:40]!r}")
    return value.strip()


_VOTES = (
    "the caption that most of 48 people preferred is right, a tie of theirs is left out; from the MATLAB "
    f"files, {REFERENCES} references are drawn {DRAWS} times (seed {SEED}) and figures averaged"
)

PASCAL_50S = Benchmark(
    name="pascal-50s",
    rows=_pascal_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary=f"4,000 pairs of captions of four kinds ({', '.join(KINDS)}), one of which people prefer",
    source=(
        f"Root is the folder that holds {' and '.join(PASCAL_FILES)}, from the page "
        "https://vrama91.github.io/cider/ (pyCIDErConsensus), or "
        f"{JSON_FILE}, from https://github.com/Yebin46/FLEUR (annotations); {_VOTES}; the images are "
        "VOC2010's (--images)"
    ),
    has_images=True,
    protocol="pairs",
)

ABSTRACT_50S = Benchmark(
    name="abstract-50s",
    rows=_abstract_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="400 pairs of captions of clip-art scenes (HC, HI), one of which people prefer; no image files",
    source=(
        f"Root is the folder that holds {ABSTRACT_FILE}, from the page https://vrama91.github.io/cider/; "
        f"{_VOTES}"
    ),
    protocol="pairs",
)
