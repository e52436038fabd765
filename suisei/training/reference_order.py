"""Which references a training sample begins with, for models that read two of them side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of

ReferenceOrder = Literal["first", "rotate"]


def rotated(samples: Sequence[CaptionSample], positions: Iterable[int]) -> list[CaptionSample]:
    """Begin with other references in each training sample of a group, as SuiSei's own program does.

    The i-th of a group, from 0 and in the order of the data, begins with reference i mod N of its N ones, and
    goes on with the next, so that the samples of an image go through all pairs of neighbours.

    Args:
        samples: all samples.
        positions: of those that are trained on; others keep their order.

    Returns:
        The samples, of which those with references are in the same groups with the same references.
    """
    turned, seen = list(samples), Counter[str]()
    for position in sorted(positions):
        sample = samples[position]
        group, own = group_of(sample), sample.references
        if own:
            start = seen[group] % len(own)
            turned[position] = replace(sample, references=(*own[start:], *own[:start]))
        seen[group] += 1
    return turned
