"""What is said where training reads the beginning of captions alone."""

from __future__ import annotations

import logging
from collections.abc import Collection

logger = logging.getLogger(__name__)


def tell_of_cut(cut: Collection[str], count: int, reader: str) -> None:
    """Say how many captions are cut, if any are.

    Args:
        cut: those that are.
        count: of how many.
        reader: what reads no more of them.
    """
    if cut:
        logger.warning(
            "%d of %d captions have more tokens than %s reads and are cut to its limit, such as %r",
            *(len(cut), count, reader, min(cut)[:60]),
        )
