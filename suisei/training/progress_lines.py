"""How a training goes: a line every so often where there is no terminal for a bar, events, throughput."""

from __future__ import annotations

import sys
import time
from typing import Any

from lightning.pytorch.callbacks import Callback

from suisei.progress import EVERY, LOGGED, duration
from suisei.runlog.events import current, memory


class ProgressLines(Callback):
    """Writes epoch, step, loss and the time left to standard error, and what each validation found.

    The same goes to the log of the command; samples are counted for the run's report.

    Args:
        lines: whether lines are written; False where a bar shows the same, or nothing is to be seen.
    """

    def __init__(self, *, lines: bool = True) -> None:
        self._lines = lines and not current().replaces_messages
        self._every = LOGGED if current().verbose else EVERY
        self._started = self._last = self._event = time.monotonic()
        self._first = 0
        self._batch = 0.0
        self.samples = 0
        """Seen since this start."""
        self.seconds = 0.0
        """Spent in steps since this start, without validation."""
        self.earlier = 0.0
        """Seconds that earlier starts trained, up to the checkpoint that this one goes on from."""

    def state_dict(self) -> dict[str, Any]:
        """Return how long has been trained, for a start that goes on from here."""
        return {"seconds": self.earlier + time.monotonic() - self._started}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over how long earlier starts trained."""
        self.earlier = float(state_dict["seconds"])

    @property
    def per_second(self) -> float | None:
        """Samples per second while batches were trained on; None before the first."""
        return self.samples / self.seconds if self.seconds > 0 else None

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Begin to count."""
        self._started = self._last = self._event = time.monotonic()
        self._first = trainer.global_step
        current().tell("stage", stage="training", total=int(trainer.estimated_stepping_batches))

    def on_train_batch_start(self, *_: Any) -> None:
        """Take the time of a step."""
        self._batch = time.monotonic()

    def on_train_batch_end(self, trainer: Any, _: Any, __: Any, batch: Any, *___: Any) -> None:
        """Count the batch; write a line if the last one was written long enough ago."""
        now = time.monotonic()
        self.seconds += now - self._batch
        self.samples += len(batch)
        if not trainer.is_global_zero:
            return
        if now - self._event >= LOGGED:
            self._event = now
            self._tell("progress", trainer, epoch=trainer.current_epoch + 1)
        if not self._lines or now - self._last < self._every:
            return
        self._last = now
        done, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        loss = trainer.callback_metrics.get("train_loss")
        told = "" if loss is None else f", loss {float(loss):.4f}"
        pace = (now - self._started) / max(1, done - self._first)
        left = duration(pace * max(0, total - done))
        used = f", {memory().get('memory_mb', 0):,} MB" if current().verbose else ""
        epoch = trainer.current_epoch + 1
        _write(f"epoch {epoch}, step {done:,} of {total:,}{told}, {pace:.2f} s a step, {left} left{used}")

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        """Write what validation found."""
        if not trainer.is_global_zero or trainer.state.fn != "fit":
            return  # after the training the kept weights are validated again: of no epoch, and for the report
        figures = {
            name.removeprefix("val_"): float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("val_")
        }
        current().tell("epoch", epoch=trainer.current_epoch + 1, step=trainer.global_step, **figures)
        if self._lines:
            told = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
            _write(f"epoch {trainer.current_epoch + 1}, validation: {told}")

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Tell of the whole."""
        if trainer.is_global_zero:
            self._tell("done", trainer, epoch=trainer.current_epoch)  # counted up, even where it broke off

    def _tell(self, event: str, trainer: Any, *, epoch: int) -> None:
        loss = trainer.callback_metrics.get("train_loss")
        current().tell(
            event,
            stage="training",
            epoch=epoch,
            done=trainer.global_step,
            total=int(trainer.estimated_stepping_batches),
            loss=None if loss is None else float(loss),
            per_second=None if self.per_second is None else round(self.per_second, 3),
            **memory(),
        )


def lines_of(trainer: Any) -> ProgressLines | None:
    """Return what tells of a trainer's work."""
    return next((callback for callback in trainer.callbacks if isinstance(callback, ProgressLines)), None)


def minutes_since(began: float, trainer: Any) -> float:
    """Return the minutes of a training, those of earlier starts that it goes on from included.

    Args:
        began: when this start began, by ``time.perf_counter``.
        trainer: its trainer.
    """
    lines = lines_of(trainer)
    return (time.perf_counter() - began + (lines.earlier if lines is not None else 0.0)) / 60


def wanted(chosen: bool | None) -> bool:
    """Return whether lines are to be written: where there is no terminal and no choice about the bar."""
    return chosen is None and not sys.stderr.isatty() and not current().quiet


def silent() -> bool:
    """Return whether nothing is to be shown, not even a bar."""
    return current().quiet or current().replaces_messages


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
