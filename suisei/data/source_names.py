"""Names of groups and rows of several sources, of which two may use one name for different images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.leaks import linked_groups
from suisei.data.paths import full_path
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of, portable_names


def told_apart(names: Sequence[str], sources: Sequence[Sequence[CaptionSample]]) -> list[list[CaptionSample]]:
    """Name groups and ids by their sources, two of which may use one name for different images.

    Groups that share an image file become one: what is learned without a group (inner folds of a ridge), or
    of captions of two images, would take one image for two.

    Args:
        names: of the sources, benchmarks or files.
        sources: the samples of each.

    Returns:
        The same samples, with groups ``SOURCE/GROUP`` and ids ``SOURCE/ID``, wherever the files lie.
    """
    short = _short_names(names)
    apart = []
    for name, samples in zip(names, sources, strict=True):
        own = portable_names(map(group_of, samples))
        apart.append(
            [
                replace(
                    s,
                    group=f"{short[name]}/{own[group_of(s)]}",
                    id=None if s.id is None else f"{short[name]}/{s.id}",
                )
                for s in samples
            ]
        )
    linked = linked_groups(apart)
    return [[replace(s, group=linked.get(group_of(s), s.group)) for s in samples] for samples in apart]


def _short_names(sources: Sequence[str]) -> dict[str, str]:
    """Return as many last parts of each path as tell all apart: moved files are split as before.

    The folder that all files are in is no part, nor is how a path is written.
    """
    files = {name: Path(full_path(name)) for name in sources if name not in BENCHMARKS}
    one_drive = len({path.anchor for path in files.values()}) == 1
    folder = os.path.commonpath([path.parent for path in files.values()]) if one_drive else ""
    found = {name: path.relative_to(folder).parts if folder else path.parts for name, path in files.items()}
    parts = {name: found.get(name, (name,)) for name in sources}
    count = 1
    while len({own[-count:] for own in parts.values()}) < len(set(parts.values())):
        count += 1
    return {name: "/".join(own[-count:]) for name, own in parts.items()}
