"""The state of a pre-training, kept while it lasts: a run that was killed goes on as an unbroken one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from suisei.training.checkpoints import DATA, SETTINGS, read_checkpoint, write_checkpoint
from suisei.training.random_states import random_states, set_random_states
from suisei.training.run_lock import remove_empty

SECONDS = "suisei_seconds"
"""Where a checkpoint says how long the passes took until then."""
SPARINGLY = 10.0
"""Between two states lies at least so many times the time that writing the first one took."""


@dataclass
class Place:
    """Where passes over items are.

    Attributes:
        losses: the mean loss of every epoch that is over.
        step: how many steps of the epoch are done.
        total: the sum of their losses.
        order: the items in the order of the epoch.
    """

    losses: list[float] = field(default_factory=list)
    step: int = 0
    total: float = 0.0
    order: list[int] = field(default_factory=list)

    def take(self, loss: float, steps: int) -> None:
        """Count a step with its loss, and the epoch of so many steps as over behind its last."""
        self.step, self.total = self.step + 1, self.total + loss
        if self.step == steps:
            self.losses.append(self.total / steps)
            self.step, self.total = 0, 0.0


@dataclass
class Passing:
    """What passes change.

    Attributes:
        module: what is trained, whose buffers may change.
        parameters: what is trained, of the module and besides.
        optimizer: with the moments of the gradients.
        schedule: of the rate.
        rng: what draws items.
        place: where they are.
    """

    module: nn.Module
    parameters: Sequence[nn.Parameter]
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    rng: np.random.Generator
    place: Place = field(default_factory=Place)

    def state(self, *, over: bool) -> dict[str, Any]:
        """Return all of it, as checkpoints hold it; without what further steps need if it is over."""
        trained = {str(number): weights.detach() for number, weights in enumerate(self.parameters)}
        return {
            "state_dict": {**trained, **self._buffers()},
            "optimizer_states": [] if over else [self.optimizer.state_dict()],
            "lr_schedulers": [self.schedule.state_dict()],
            "suisei_random_states": random_states(self.parameters[0].device),
            "suisei_passes": json.dumps([asdict(self.place), self.rng.bit_generator.state]),
        }

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Take what :meth:`state` returned."""
        with torch.no_grad():
            for number, weights in enumerate(self.parameters):
                weights.copy_(state["state_dict"][str(number)])
            for name, own in self._buffers().items():
                own.copy_(state["state_dict"][name])
        for own in state["optimizer_states"]:
            self.optimizer.load_state_dict(own)
        self.schedule.load_state_dict(state["lr_schedulers"][0])
        set_random_states(state["suisei_random_states"])
        place, self.rng.bit_generator.state = json.loads(state["suisei_passes"])
        self.place = Place(**place)

    def _buffers(self) -> dict[str, torch.Tensor]:
        return {f"module.{name}": own for name, own in self.module.named_buffers()}


class PassStates:
    """Keeps the state of passes in a file, after every epoch and every so many steps, where time allows.

    Args:
        path: the file.
        settings: the run's, as plain values; nothing goes on under others.
        data: digests of the run's data.
        steps: after so many the state is kept.
        begun: the checkpoint that the passes go on from; None for a new run.
        first: whether this is the first process of its run: the others read what it writes.
    """

    def __init__(
        self,
        path: Path,
        settings: dict[str, Any],
        data: dict[str, str],
        steps: int,
        begun: str | None,
        *,
        first: bool = True,
    ) -> None:
        self._path = path
        self._noted = {SETTINGS: json.dumps(settings, default=str), DATA: data}
        self._steps = steps
        self._begun = begun
        self._first = first
        self._started = time.perf_counter()
        self._not_before = self._started

    @property
    def seconds(self) -> float:
        """What the passes have taken, in the starts that they go on from too."""
        return time.perf_counter() - self._started

    def go_on(self, passing: Passing) -> None:
        """Let passes go on from where they were, if they were begun."""
        if self._begun is not None:
            state = read_checkpoint(Path(self._begun))
            passing.go_on_from(state)
            self._started -= state[SECONDS]

    def after_step(self, passing: Passing, steps: int, *, over: bool) -> None:
        """Keep the state, if it is time to.

        Args:
            passing: what has taken a step.
            steps: of an epoch.
            over: whether that was the last step of all.
        """
        place = passing.place
        due = not place.step or (len(place.losses) * steps + place.step) % self._steps == 0
        began = time.perf_counter()
        if self._first and (over or (due and began >= self._not_before)):
            write_checkpoint({**passing.state(over=over), **self._noted, SECONDS: self.seconds}, self._path)
            ended = time.perf_counter()
            self._not_before = ended + SPARINGLY * (ended - began)

    def forget(self) -> None:
        """Take the file away, and its folder where that is empty then."""
        self._path.unlink(missing_ok=True)
        remove_empty([self._path.parent])


StatesOf = Callable[[str], PassStates | None]
"""Gives what keeps the state of a pre-training, by its name; None where none is kept."""


def no_states(_: str) -> None:
    """Keep nothing."""
