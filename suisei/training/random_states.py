"""State of torch's random numbers in a checkpoint, for a resumed run to go on with."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

from suisei.training.processes import gather_rows, world_size

PROCESSES = "processes"
"""Where the states have those of each of several processes."""


def random_states(device: torch.device) -> dict[str, Any]:
    """Return the states of the CPU's generator and, where training runs on them, of the GPUs'."""
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if device.type == "cuda" else [],
    }


def random_states_of_all(device: torch.device) -> dict[str, Any]:
    """Return the states, and of several processes that train together those of each, which must all ask.

    Dropout within encoders and networks has each process draw numbers of its own.
    """
    states = random_states(device)
    if world_size() > 1:
        own = {"cpu": states["cpu"]}
        if device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state(device)
        states[PROCESSES] = {name: gather_rows(state[None].to(device)).cpu() for name, state in own.items()}
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Restore what the functions above gave; GPUs' states only on as many GPUs.

    As many processes as before each go on with their own.
    """
    of_each = states.get(PROCESSES)
    if of_each and len(of_each["cpu"]) == world_size():
        own = {name: rows[distributed.get_rank()].clone() for name, rows in of_each.items()}
        torch.set_rng_state(own["cpu"])
        if "cuda" in own and torch.cuda.is_available():
            torch.cuda.set_rng_state(own["cuda"])
        return
    torch.set_rng_state(states["cpu"].cpu())
    if states["cuda"] and torch.cuda.device_count() == len(states["cuda"]):
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
