"""The callbacks of a run: which checkpoints are kept, when training stops, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from suisei.training.progress_lines import ProgressLines, silent, wanted


def mode_of(monitor: str) -> str:
    """Return whether the better figure is the smaller ("min") or the larger ("max")."""
    return "min" if monitor == "val_loss" else "max"


def best_checkpoint(output: Path, monitor: str) -> ModelCheckpoint:
    """Return what keeps the weights that validation likes best."""
    return _checkpoint(output, "best", monitor=monitor, mode=mode_of(monitor), save_weights_only=True)


def early_stopping(monitor: str, patience: int, **more: Any) -> EarlyStopping:
    """Return what ends training after so many validations in a row that are no better."""
    return EarlyStopping(monitor, patience=patience, mode=mode_of(monitor), **more)


def states_to_go_on_with(output: Path, steps: int | None = None) -> list[ModelCheckpoint]:
    """Return what keeps the state at the end of every epoch and, where named, every so many steps.

    They belong after the best one and early stopping: what those have found out is part of the state.
    """
    every = [] if steps is None else [_checkpoint(output, "steps", every_n_train_steps=steps)]
    return [*every, _checkpoint(output, "last", every_n_epochs=1)]


def progress_lines(trainer: Any) -> ProgressLines:
    """Return what tells of the training; a bar is switched off where lines, or nothing, take its place.

    Args:
        trainer: the settings of the trainer.
    """
    lines = wanted(trainer.enable_progress_bar)
    if lines or silent():
        trainer.enable_progress_bar = False
    return ProgressLines(lines=lines)


def _checkpoint(output: Path, name: str, **more: Any) -> ModelCheckpoint:
    return ModelCheckpoint(output / "checkpoints", name, enable_version_counter=False, **more)
