"""State of torch's random numbers in a checkpoint, for a resumed run to go on with."""

from __future__ import annotations

from typing import Any

import torch


def random_states(device: torch.device) -> dict[str, Any]:
    """Return the states of the CPU's generator and, where training runs on them, of the GPUs'."""
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if device.type == "cuda" else [],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Restore what :func:`random_states` gave; GPUs' states only on as many GPUs."""
    torch.set_rng_state(states["cpu"].cpu())
    if states["cuda"] and torch.cuda.device_count() == len(states["cuda"]):
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
