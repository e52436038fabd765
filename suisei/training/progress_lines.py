"""How a training goes, in a line every so often, where there is no terminal for a bar."""

from __future__ import annotations

import sys
import time
from typing import Any

from lightning.pytorch.callbacks import Callback

EVERY = 30.0
"""Seconds between two lines."""


class ProgressLines(Callback):
    """Writes epoch, step, loss and the time left to standard error, and what each validation found."""

    def __init__(self) -> None:
        self._started = self._last = 0.0
        self._first = 0

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Begin to count."""
        self._started = self._last = time.monotonic()
        self._first = trainer.global_step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """Write a line if the last one was written long enough ago."""
        now = time.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        done, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        loss = trainer.callback_metrics.get("train_loss")
        told = "" if loss is None else f", loss {float(loss):.4f}"
        pace = (now - self._started) / max(1, done - self._first)
        left = pace * max(0, total - done)
        epoch = trainer.current_epoch + 1
        _write(f"epoch {epoch}, step {done:,} of {total:,}{told}, {pace:.2f} s a step, {_time(left)} left")

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        """Write what validation found."""
        figures = {
            name.removeprefix("val_"): float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("val_")
        }
        told = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
        _write(f"epoch {trainer.current_epoch + 1}, validation: {told}")


def wanted(chosen: bool | None) -> bool:
    """Return whether lines are to be written: where there is no terminal and no choice about the bar."""
    return chosen is None and not sys.stderr.isatty()


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
