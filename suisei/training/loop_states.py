"""What a checkpoint says of the place in an epoch."""

from __future__ import annotations

from typing import Any


def leave_epoch_open(checkpoint: dict[str, Any], batches: float) -> None:
    """Count an epoch that ended early, by a limit of time or steps, as one that is not over yet.

    The trainer counts it as over, and a run that goes on would have one epoch less.

    Args:
        checkpoint: what the trainer is about to write; changed in place.
        batches: of an epoch.
    """
    loops = checkpoint.get("loops", {}).get("fit_loop")
    if loops is None:  # weights alone
        return
    seen = loops["epoch_loop.batch_progress"]
    if seen["is_last_batch"] or not 0 < seen["current"]["ready"] < batches:
        return
    for progress in loops["epoch_progress"].values():
        progress["processed"] = progress["completed"]
