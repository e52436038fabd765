"""One dual encoder for all metrics of a command that score with it, and one text-to-image model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.encoders.locks import Lock

if TYPE_CHECKING:
    from suisei.encoders.drawings import Drawings
    from suisei.encoders.dual import DualEncoder

_loading = Lock()
"""Building a model draws from PyTorch's global random numbers, which one thread does at a time."""

_open: ContextVar[dict[tuple[tuple[str, str], ...], Any] | None] = ContextVar("_open", default=None)


@contextmanager
def shared_encoders(*, within: bool = False) -> Iterator[None]:
    """Let metrics that load the same dual encoder, or draw the same images, inside this block share it.

    Args:
        within: whether a block that is open already goes on, instead of a new one.
    """
    if within and _open.get() is not None:
        yield
        return
    token = _open.set({})
    try:
        yield
    finally:
        _open.reset(token)


def scoring_encoder(
    *,
    compile: bool = False,  # noqa: A002 - the word users know
    cache: str | Path | None = None,
    **loading: Any,
) -> DualEncoder:
    """Load a dual encoder that remembers its features, or return the one that is shared already.

    Args:
        compile: whether its towers are compiled.
        cache: where features are on disk, see :func:`suisei.encoders.cache_place.disk_cache`.
        loading: arguments of :func:`suisei.encoders.dual_loading.load_dual_encoder`.
    """
    from suisei.encoders.cache_place import disk_cache
    from suisei.encoders.dual_loading import load_dual_encoder
    from suisei.encoders.memory import FeatureMemory

    settings = {"compile": compile, "cache": cache, **loading}
    key = tuple(sorted((name, repr(value)) for name, value in settings.items()))
    with _loading:
        known = _open.get()
        if known is not None and key in known:
            found: DualEncoder = known[key]
            return found
        encoder = load_dual_encoder(**loading)
        if compile:
            encoder.compile()
        precision = encoder.settings()["precision"]
        encoder.memory = FeatureMemory(encoder.model, encoder.tokenize, precision, disk_cache(cache))
        if known is not None:
            known[key] = encoder
        return encoder


def shared_drawings(model: str, **options: Any) -> Drawings:
    """Return the images of a text-to-image model, those that are shared already where they are the same.

    Args:
        model: the model.
        options: arguments of :class:`suisei.encoders.drawings.Drawings`.
    """
    from suisei.encoders.drawings import Drawings

    key = (("drawings", model), *sorted((name, repr(value)) for name, value in options.items()))
    known = _open.get()
    if known is None:
        return Drawings(model, **options)
    with _loading:
        drawings: Drawings = known.setdefault(key, Drawings(model, **options))
        return drawings
