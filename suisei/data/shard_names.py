"""Which files are the shards of a set: by a pattern, each with a format that its name says."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from suisei.data.compressed import is_gzip, plain_suffix
from suisei.data.formats import FORMATS
from suisei.errors import ConfigError

MOST_SHARDS = 1_000_000
TAR = ".tar"

_RANGE = re.compile(r"\{(\d{1,12})\.\.(\d{1,12})\}|\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[]")


def is_pattern(text: str) -> bool:
    """Say whether an input names shards: a tar archive, or a pattern that is no file's own name."""
    if Path(text).suffix.lower() == TAR:
        return True
    return bool(_RANGE.search(text) or _MAGIC.search(text)) and not os.path.exists(text)  # noqa: PTH110


def shard_paths(pattern: str) -> list[Path]:
    """Return the shards that a pattern names, in order; those of a range whether they are there or not.

    ``{00000..00999}`` counts with leading zeros, ``{0..999}`` without, ``{a,b}`` lists, ``*``, ``?`` and
    ``[]`` match files. A file or folder that is there under such a name is that one.

    Raises:
        ConfigError: too many, or none.
    """
    found: dict[str, None] = {}
    for name in _expanded(pattern):
        found.update(dict.fromkeys(_matches(name)))
    if not found:
        raise ConfigError(f"--input {pattern}: no file has such a name")
    return [Path(name) for name in found]


def _matches(name: str) -> list[str]:
    """Return the files that a name without ranges stands for: what is there by that very name comes first."""
    if not _MAGIC.search(name) or os.path.exists(name):  # noqa: PTH110 - False of names that are too long
        return [name]
    folder, rest = _split(name)
    if not _MAGIC.search(rest):  # in a folder that is called so, where a shard of a range may be missing
        return [name]
    return sorted(glob.glob(str(Path(glob.escape(str(folder)), rest))))  # noqa: PTH207 - may be absolute


def _split(name: str) -> tuple[Path, str]:
    """Return the deepest folder of a name that is there, and the rest of the name."""
    path = Path(name)
    folder = next(each for each in path.parents if os.path.isdir(each) or each == each.parent)  # noqa: PTH112
    return folder, str(path.relative_to(folder))


def _expanded(pattern: str) -> list[str]:
    names = [str(Path(pattern))]
    while any(matches := [_first_range(name) for name in names]):
        wider: list[str] = []
        for name, match in zip(names, matches, strict=True):
            parts = [""] if match is None else _choices(match)
            before, after = (name, "") if match is None else (name[: match.start()], name[match.end() :])
            if len(wider) + len(parts) > MOST_SHARDS:
                raise ConfigError(f"--input {pattern[:200]}: names more than {MOST_SHARDS:,} shards")
            wider += [f"{before}{part}{after}" for part in parts]
        names = wider
    return names


def _first_range(name: str) -> re.Match[str] | None:
    """Return the first range of a name that is not part of the name of something that is there."""
    if not _RANGE.search(name) or os.path.exists(name):  # noqa: PTH110 - False of names that are too long
        return None
    return _RANGE.search(name, len(name) - len(_split(name)[1]))


def _choices(match: re.Match[str]) -> list[str]:
    if match[3] is not None:
        return match[3].split(",")
    first, last = int(match[1]), int(match[2])
    ends = match[1], match[2]
    padded = any(len(end) > 1 and end.startswith("0") for end in ends)  # as the shell counts
    width = max(map(len, ends)) if padded else 0
    step = 1 if first <= last else -1
    if abs(last - first) >= MOST_SHARDS:
        raise ConfigError(f"{match[0]} names more than {MOST_SHARDS:,} shards")
    return [f"{number:0{width}d}" for number in range(first, last + step, step)]


def stem_of(name: str) -> str:
    """Return a shard's name without what says its format: ``part.0`` of ``part.0.jsonl.gz``."""
    return Path(Path(name).stem if is_gzip(name) else name).stem


def check_kind(path: Path) -> None:
    """Refuse a shard whose name says no format.

    Raises:
        ConfigError: the format is not known.
    """
    if path.suffix.lower() != TAR and plain_suffix(path) not in FORMATS:
        raise ConfigError(f"{path}: unknown shard format; expected {TAR}, {', '.join(FORMATS)}")
