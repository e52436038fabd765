"""Samples from any form in which callers give them: samples, captions with parallel lists, a data frame."""

from __future__ import annotations

from typing import Any

from suisei.data.given_columns import is_frame, listed
from suisei.data.sample import CaptionSample, make_samples
from suisei.errors import DataError


def as_samples(samples: Any, references: Any = None, images: Any = None) -> list[CaptionSample]:
    """Return CaptionSamples from any form that a metric takes.

    Raises:
        DataError: samples among captions, references or images beside samples, or a caption, references or
            an image of a kind that there is not.
    """
    if is_frame(samples):
        _refuse_beside(references, images)
        from suisei.data.frames import frame_samples

        return frame_samples(samples)
    rows = listed("candidates", samples)
    wanted = next((row for row, item in enumerate(rows) if isinstance(item, CaptionSample)), None)
    if wanted is None:
        return make_samples(rows, references, images)
    other = next((row for row, item in enumerate(rows) if not isinstance(item, CaptionSample)), None)
    if other is not None:
        raise DataError(
            f"sample {other} is {type(rows[other]).__name__} while sample {wanted} is a CaptionSample; "
            "give one or the other"
        )
    _refuse_beside(references, images)
    return rows


def _refuse_beside(references: Any, images: Any) -> None:
    if references is not None or images is not None:
        raise DataError("references and images are inside the samples already; do not pass them again")
