"""Splitting samples so that no group, usually an image, is on two sides.

Groups are put in the order of a seeded hash of their names. The split is therefore the same whatever
the order of the rows, on every machine and with every version of numpy; row order never enters (in
Shichimi's published order the rating can be read off a row's position).

Where one caption is rated with several images, groups alone let a model see in training how people rated
a caption that it is tested on: :func:`without_shared_candidates`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from suisei.cli import counted
from suisei.data.paths import full_path
from suisei.data.sample import CaptionSample, language_of, plain_name
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError

PARTS = ("train", "validation", "test")
Disjoint = Literal["group", "captions", "crossed", "topics"]
"""What two parts never share: groups; groups and candidate captions; these two by crossed folds; or these
two, and with the test not the topic of a group either."""


@dataclass(frozen=True, slots=True)
class Split:
    """Which samples are for training, for validation and for the final test.

    Attributes:
        train: positions of the training samples, ascending.
        validation: positions of the samples that decide when training stops.
        test: positions of the samples that are read once, at the end.
        groups: part name to the sorted names of its groups, those included of which every sample is left
            out; empty if the split was made by hand.
        method: how the split was made, in words.
        seed: the seed it was made with.
        disjoint: what the parts do not share.
        left_out: part name to the positions that belong to it by group and are in no part, because another
            part has their candidate; empty where ``disjoint`` is "group".
        crossing: fold, number of folds and seed of the candidates, where ``disjoint`` is "crossed".
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    method: str = "given"
    seed: int | None = None
    disjoint: Disjoint = "group"
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    crossing: tuple[int, int, int] | None = None

    def save(self, path: Path | str, samples: Sequence[CaptionSample]) -> None:
        """Write the split as JSON by group names, so that it can be restored for reordered samples.

        Raises:
            DataError: a group of ``samples`` is in two parts, or the file cannot be written.
        """
        path = Path(path)
        positions = {part: getattr(self, part) for part in PARTS}
        left_out = {part: self.left_out.get(part, ()) for part in PARTS}
        groups = {
            part: sorted({group_of(samples[p]) for p in (*positions[part], *left_out[part])})
            for part in PARTS
        }
        _part_of_group(groups, path)
        content = {
            "method": self.method,
            "seed": self.seed,
            "disjoint": self.disjoint,
            "left_out": {part: len(left_out[part]) for part in PARTS},
            "crossing": self.crossing,
            "counts": {
                part: {"groups": len(groups[part]), "samples": len(positions[part])} for part in PARTS
            },
            "groups": groups,
        }
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path | str, samples: Sequence[CaptionSample]) -> Split:
        """Restore a saved split for samples in any order.

        Raises:
            DataError: the file is not a saved split, or the samples hold groups it does not know.
        """
        path = Path(path)
        content = _read_split(path)
        part_of = _part_of_group(content["groups"], path)
        names = [group_of(sample) for sample in samples]
        unknown = sorted(set(names) - set(part_of))
        if unknown:
            raise DataError(
                f"{path}: the split lacks {len(unknown):,} of these samples' {len(set(names)):,} groups, "
                f"such as {', '.join(map(repr, unknown[:3]))}; use the data it was made for, or split anew"
            )
        split = _make_split(names, part_of, content.get("method", "given"), content.get("seed"))
        if content["disjoint"] == "crossed":
            return cross_candidates(samples, split, *content["crossing"])
        if content["disjoint"] == "group":
            return split
        return replace(without_shared_candidates(samples, split), disjoint=content["disjoint"])


def group_of(sample: CaptionSample) -> str:
    """Return the name of what must stay on one side with this sample.

    Its ``group``; else its image or video; else its references in any order; else its id; else its candidate:
    each as :func:`plain_name` has it, so that a sample given this name as its ``group`` keeps it.
    Files are named in full: a row may name one from the working folder on, and another the same one in full.
    The order of the rows never matters: it may carry the rating.
    """
    return plain_name(_written_group(sample))


def references_by_image(samples: Iterable[CaptionSample]) -> dict[tuple[str, str], list[str]]:
    """Return the different references of each group (image) by (group, language), as they occur.

    An image may have captions in both languages.
    """
    pools: dict[tuple[str, str], dict[str, None]] = {}
    for sample in samples:
        pools.setdefault((group_of(sample), language_of(sample)), {}).update(dict.fromkeys(sample.references))
    return {key: list(pool) for key, pool in pools.items()}


def _written_group(sample: CaptionSample) -> str:
    """Return the name of a sample's group, white space and characters as they are written."""
    if sample.group is not None:
        return sample.group
    if isinstance(sample.image, str | Path):
        return f"image:{full_path(sample.image)}"
    if sample.image is not None:
        from suisei.data.images import content_key

        return f"image:{content_key(sample.image)}"
    video = getattr(sample, "video", None)
    if video is not None:
        return f"video:{full_path(video)}"
    if sample.references:
        return f"references:{_digest(*sorted(sample.references)).hex()}"
    if sample.id is not None:
        return f"id:{sample.id}"
    return f"candidate:{_digest(sample.candidate).hex()}"


def portable_names(groups: Iterable[str]) -> dict[str, str]:
    """Return what each group is called wherever its files lie: what seeds decide by.

    Of groups that :func:`group_of` names after an image or a video, the folder that all of these are in is
    left out, so that data in another folder is split and degraded as before.
    """
    names = dict.fromkeys(groups)
    found = {name: name for name in names}
    for kind in ("image:", "video:"):
        paths = {name: Path(name.removeprefix(kind)) for name in names if name.startswith(kind)}
        files = {name: path for name, path in paths.items() if path.is_absolute()}  # not images in memory
        if len({path.anchor for path in files.values()}) == 1:  # drives have no folder in common
            folder = os.path.commonpath([path.parent for path in files.values()])
            found.update({name: kind + path.relative_to(folder).as_posix() for name, path in files.items()})
    return found


def split_by_group(
    samples: Sequence[CaptionSample], fractions: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0
) -> Split:
    """Split samples into training, validation and test by group.

    Args:
        samples: what to split.
        fractions: shares of the groups (not of the samples) for the three parts; they sum to 1. A
            part with a share above 0 gets at least one group, a share of 0 leaves it empty.
        seed: another seed gives another split; 0 is a seed like any other.

    Raises:
        ConfigError: fractions that are not three shares of 1, or nothing to train on.
        DataError: fewer groups than parts.
    """
    shares = tuple(float(fraction) for fraction in fractions)
    valid = len(shares) == 3 and all(math.isfinite(share) and share >= 0 for share in shares)
    if not valid or abs(sum(shares) - 1) > 1e-6 or shares[0] == 0:
        raise ConfigError(
            f"fractions must be three shares of 1 with a first above 0, such as 0.8 0.1 0.1; got {shares}"
        )
    names = [group_of(sample) for sample in samples]
    groups = _seeded_order(names, seed)
    parts = sum(share > 0 for share in shares)
    if len(groups) < parts:
        raise _too_few(len(groups), f"{parts} parts")
    held_out = [max(1, round(share * len(groups))) if share > 0 else 0 for share in shares[1:]]
    while sum(held_out) >= len(groups):  # few groups: rounding up must leave one to train on
        held_out[held_out.index(max(held_out))] -= 1
    part_of = dict.fromkeys(groups, "train")
    part_of.update(dict.fromkeys(groups[: held_out[1]], "test"))
    part_of.update(dict.fromkeys(groups[held_out[1] : sum(held_out)], "validation"))
    method = "by group, " + " / ".join(f"{share:g}" for share in shares)
    return _make_split(names, part_of, method, seed)


def fold_by_group(
    samples: Sequence[CaptionSample],
    fold: int,
    folds: int,
    seed: int = 0,
    validation: float = 0.1,
    fold_of: Mapping[str, int] | None = None,
) -> Split:
    """Return one fold of a cross-validation by group: every group is tested in exactly one fold.

    Args:
        samples: what to split.
        fold: which fold is the test part, 0 to folds - 1.
        folds: number of folds, at least 2.
        seed: decides which group is in which fold.
        validation: share of the remaining groups that is held out for validation; 0 for none.
        fold_of: which group is in which fold, where that is not left to the seed
            (:func:`suisei.data.topics.topics_of`).

    Raises:
        ConfigError: a fold that does not exist, or a share outside [0, 1).
        DataError: too few groups.
    """
    if folds < 2 or not 0 <= fold < folds:
        raise ConfigError(f"fold must be 0 to folds - 1 with at least 2 folds, got fold {fold} of {folds}")
    if not 0 <= validation < 1:
        raise ConfigError(f"validation must be a share of at least 0 and below 1, got {validation:g}")
    names = [group_of(sample) for sample in samples]
    groups = _seeded_order(names, seed)
    tested = groups[fold::folds] if fold_of is None else [name for name in groups if fold_of[name] == fold]
    rest = _seeded_order(set(groups) - set(tested), seed, "validation")
    count = max(1, round(validation * len(rest))) if validation > 0 else 0
    if len(groups) < folds or len(rest) <= count:
        raise _too_few(len(groups), f"{folds} folds" + (" and a validation part" if count else ""))
    part_of = dict.fromkeys(groups, "train")
    part_of.update(dict.fromkeys(tested, "test"))
    part_of.update(dict.fromkeys(rest[:count], "validation"))
    method = f"by {'group' if fold_of is None else 'topic'}, fold {fold} of {folds}"
    return _make_split(names, part_of, method, seed)


def without_shared_candidates(samples: Sequence[CaptionSample], split: Split) -> Split:
    """Leave out validation and training samples whose candidate is held out too.

    Afterwards no candidate of a test sample is one of a validation or training sample, and none of a
    validation sample is one of a training sample; captions are compared by :func:`caption_key`. The test
    part stays as it is, so that figures compare with those of the split by group alone. References do not
    count, for they carry no rating: a test candidate may be a reference in training, and a training
    candidate a reference in the test.

    Args:
        samples: what was split.
        split: the split by group.
    """
    keys = [caption_key(sample.candidate) for sample in samples]
    held_out = {keys[position] for position in split.test}
    validation = tuple(position for position in split.validation if keys[position] not in held_out)
    held_out |= {keys[position] for position in validation}
    train = tuple(position for position in split.train if keys[position] not in held_out)
    left_out = {
        "train": tuple(sorted({*split.train} - {*train})),
        "validation": tuple(sorted({*split.validation} - {*validation})),
    }
    return replace(split, train=train, validation=validation, disjoint="captions", left_out=left_out)


def cross_candidates(
    samples: Sequence[CaptionSample], split: Split, fold: int, folds: int, seed: int = 0
) -> Split:
    """Put candidates into folds as groups are, and leave out samples that are of the fold by one alone.

    Tested is what is of the fold by group and by candidate, trained on what is of it by neither: with five
    folds about 64 % of the samples train and 4 % test, so that all folds together test a fifth of them.
    No candidate of a test sample is one of a validation or training sample; these two may share some.
    References do not count, as in :func:`without_shared_candidates`.

    Args:
        samples: what was split.
        split: the fold by group.
        fold: which fold, 0 to folds - 1.
        folds: number of folds.
        seed: decides which candidate is in which fold.
    """
    keys = [caption_key(sample.candidate) for sample in samples]
    tested = set(_seeded_order(keys, seed, "candidates")[fold::folds])
    train, validation, test = (
        tuple(p for p in getattr(split, part) if (keys[p] in tested) == (part == "test")) for part in PARTS
    )
    left_out = {
        part: tuple(sorted({*getattr(split, part)} - {*kept}))
        for part, kept in zip(PARTS, (train, validation, test), strict=True)
    }
    crossing = (fold, folds, seed)
    return replace(
        split,
        train=train,
        validation=validation,
        test=test,
        disjoint="crossed",
        left_out=left_out,
        crossing=crossing,
    )


def caption_key(caption: str) -> str:
    """Return what captions have in common that say the same but for width, case, spaces and punctuation."""
    folded = unicodedata.normalize("NFKC", caption).casefold()
    return "".join(character for character in folded if character.isalnum()) or caption.strip()


def _make_split(names: Sequence[str], part_of: Mapping[str, str], method: str, seed: int | None) -> Split:
    positions: dict[str, list[int]] = {part: [] for part in PARTS}
    groups: dict[str, set[str]] = {part: set() for part in PARTS}
    for position, name in enumerate(names):
        positions[part_of[name]].append(position)
        groups[part_of[name]].add(name)
    return Split(
        tuple(positions["train"]),
        tuple(positions["validation"]),
        tuple(positions["test"]),
        groups={part: tuple(sorted(groups[part])) for part in PARTS},
        method=method,
        seed=seed,
    )


def _seeded_order(names: Iterable[str], seed: int, purpose: str = "") -> list[str]:
    portable = portable_names(names)
    return sorted(portable, key=lambda name: (_digest(str(int(seed)), purpose, portable[name]), name))


def _digest(*texts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))  # so that ("ab", "c") is not ("a", "bc")
        digest.update(encoded)
    return digest.digest()


def _too_few(groups: int, wanted: str) -> DataError:
    return DataError(
        f"the samples form {counted(groups, 'group')}, too few for {wanted}; give more data, "
        "or set 'group' per row (usually the image) if different images share one group"
    )


def tested_groups(path: Path) -> set[str]:
    """Return the names of the groups that a saved split tests.

    Raises:
        DataError: the file is not there, or is not a saved split.
    """
    return set(_read_split(path)["groups"]["test"])


def _read_split(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: the split cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a saved split: {error}") from None
    groups = content.get("groups") if isinstance(content, dict) else None
    if not isinstance(groups, dict) or set(groups) != set(PARTS):
        raise DataError(f"{path}: not a saved split: 'groups' with {', '.join(PARTS)} is missing")
    for part in PARTS:
        if not isinstance(groups[part], list) or not all(isinstance(name, str) for name in groups[part]):
            raise DataError(f"{path}: not a saved split: the groups of {part} are not a list of names")
    if content.setdefault("disjoint", "group") not in get_args(Disjoint):  # older files do not say it
        known = ", ".join(get_args(Disjoint))
        raise DataError(f"{path}: not a saved split: 'disjoint' is {content['disjoint']!r}, not of {known}")
    crossing = content.get("crossing")
    if content["disjoint"] == "crossed" and not (
        isinstance(crossing, list)
        and len(crossing) == 3
        and all(isinstance(n, int) for n in crossing)
        and 0 <= crossing[0] < crossing[1]
    ):
        raise DataError(f"{path}: not a saved split: 'crossing' must be fold, number of folds and seed")
    return content


def _part_of_group(groups: Mapping[str, Iterable[str]], path: Path) -> dict[str, str]:
    part_of: dict[str, str] = {}
    for part in PARTS:
        for name in map(plain_name, groups[part]):  # older files have those of images as they are written
            if part_of.setdefault(name, part) != part:
                raise DataError(f"{path}: group {name!r} is in two parts, {part_of[name]} and {part}")
    return part_of
