"""The two towers of an open_clip model, split before their projections into the shared space.

With a frozen tower its output before the projection never changes, so it is computed once and only
the projection is run in training.

Shape letters: N items, L tokens, s side in pixels, h width of a tower, d width of the shared space.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from suisei.encoders.dual import projected, without_padding

Slot = tuple[nn.Module, str]
"""A module and the name of its attribute that holds a projection."""


def image_slot(model: Any) -> Slot | None:
    """Return where the image projection is, or None if it is part of the tower (as in ResNets)."""
    if getattr(model.visual, "proj", None) is not None:
        return model.visual, "proj"
    head = getattr(
        model.visual, "head", None
    )  # timm's trunk may pool by itself; the head then projects alone
    alone = isinstance(head, nn.Sequential) and len(head) > 0 and not hasattr(head, "pool")
    return (model.visual, "head") if alone else None


def text_slot(model: Any) -> Slot | None:
    """Return where the text projection is, or None if there is none."""
    for owner, name in ((model, "text_projection"), (getattr(model, "text", None), "text_projection")):
        if owner is not None and getattr(owner, name, None) is not None:
            return owner, name
    text = getattr(model, "text", None)
    return (text, "proj") if text is not None and isinstance(getattr(text, "proj", None), nn.Module) else None


def image_states(model: Any, pixels: Tensor) -> Tensor:
    """Return float [N, h] before the projection, of float pixels [N, 3, s, s]."""
    with _without(image_slot(model)):
        states: Tensor = model.visual(pixels)
    return states


def text_states(model: Any, tokens: Tensor) -> Tensor:
    """Return float [N, h] before the projection, of int64 tokens [N, L]."""
    with _without(text_slot(model)):
        states: Tensor = model.encode_text(without_padding(model, tokens))
    return states


def project(slot: Slot | None, states: Tensor) -> Tensor:
    """Apply a projection to float [N, h]; gives float [N, d]."""
    return states if slot is None else projected(getattr(*slot), states)


def projections(model: Any) -> list[nn.Parameter]:
    """Return the parameters of both projections."""
    found: list[nn.Parameter] = []
    for slot in (image_slot(model), text_slot(model)):
        if slot is not None:
            projection = getattr(*slot)
            found += list(projection.parameters()) if isinstance(projection, nn.Module) else [projection]
    return found


@contextmanager
def _without(slot: Slot | None) -> Iterator[None]:
    """Take a projection off for a moment."""
    if slot is None:
        yield
        return
    owner, name = slot
    projection = getattr(owner, name)
    # open_clip skips an absent projection of its own towers, and calls that of a Hugging Face one
    setattr(owner, name, nn.Identity() if isinstance(projection, nn.Module) else None)
    try:
        yield
    finally:
        setattr(owner, name, projection)
