"""Captions of more tokens than a dual encoder reads: said once where they are cut, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from suisei.cli import counted
from suisei.errors import DataError

if TYPE_CHECKING:
    from suisei.encoders.dual import DualEncoder


class LengthWarning:
    """Says once that captions are cut, which the authors' programs do without a word.

    Args:
        metric: the metric's name, for the message.
    """

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._said = False

    def __call__(self, encoder: DualEncoder, texts: set[str], prompt: str, shown: str) -> None:
        """Warn if the encoder, which is called as ``shown``, cuts any texts, unless that was said before."""
        from suisei.encoders.dual_tokens import overlong_texts

        if self._said:
            return
        cut = overlong_texts(encoder, texts, prompt=prompt)
        if cut:
            self._said = True
            warnings.warn(
                f"{self._metric}: {counted(len(cut), 'caption')} with more tokens than {shown} reads: "
                f"cut to its limit, such as {min(cut)[:60]!r}; later ones are cut without another warning",
                stacklevel=4,
            )


def overlong_errors(
    metric: str, encoder: DualEncoder, texts: Sequence[Sequence[str]], prompt: str
) -> dict[int, DataError]:
    """Return {position: error} of the samples with a caption that the encoder would cut.

    Args:
        metric: the metric's name, for the message.
        encoder: the dual encoder.
        texts: the captions of each of N samples.
        prompt: put before every caption.
    """
    from suisei.encoders.dual_tokens import overlong_texts

    cut = overlong_texts(encoder, {text for own in texts for text in own}, prompt=prompt)
    first = {i: next((text for text in own if text in cut), None) for i, own in enumerate(texts)}
    return {
        position: DataError(
            f"{metric}: the caption {text[:60]!r} has more tokens than {encoder.name} reads; "
            "shorten it, or use overlong=cut"
        )
        for position, text in first.items()
        if text is not None
    }
