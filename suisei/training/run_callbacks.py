"""The callbacks of a run: which checkpoints are kept, when training stops, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint

from suisei.training.progress_lines import ProgressLines, silent, wanted


def mode_of(monitor: str) -> str:
    """Return whether the better figure is the smaller ("min") or the larger ("max")."""
    return "min" if monitor == "val_loss" else "max"


def best_checkpoint(output: Path, monitor: str) -> ModelCheckpoint:
    """Return what keeps the weights that validation likes best."""
    return _checkpoint(output, "best", monitor=monitor, mode=mode_of(monitor), save_weights_only=True)


class Stopping(EarlyStopping):
    """Early stopping that a resumed run goes on with as one that was not cut off.

    The patience is that of the settings now, where the trainer's own takes that of the checkpoint. Where none
    was left, nothing more is trained, where the trainer's own trains on until the next validation.
    A validation besides the interval (:class:`ValidatesLast`), which a longer run does not have, takes none.
    """

    wait_count: int

    @property
    def state_key(self) -> str:
        """The name in checkpoints, which is that of the trainer's own: earlier versions wrote it."""
        return super().state_key.replace(type(self).__qualname__, EarlyStopping.__qualname__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what has been found out, and nothing that the settings say."""
        super().load_state_dict({**state_dict, "patience": self.patience})

    def _run_early_stopping_check(self, trainer: Any) -> None:
        """Count a validation that is no better, unless it was besides the interval.

        The trainer's own calls it after a validation or, where these end epochs, after the epoch.
        """
        waited = self.wait_count
        super()._run_early_stopping_check(trainer)
        if any(isinstance(each, ValidatesLast) and each.besides for each in trainer.callbacks):
            self.wait_count = min(self.wait_count, waited)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """End at once what had ended."""
        if self.wait_count and self.wait_count >= self.patience:
            trainer.should_stop = True


def early_stopping(monitor: str, patience: int, **more: Any) -> EarlyStopping:
    """Return what ends training after so many validations in a row that are no better."""
    return Stopping(monitor, patience=patience, mode=mode_of(monitor), **more)


def states_to_go_on_with(output: Path, steps: int) -> list[ModelCheckpoint]:
    """Return what keeps the state after every validation and every so many steps.

    They belong after the best one and early stopping: what those have found out is part of the state.
    """
    return [
        _checkpoint(output, "steps", StepStates, every_n_train_steps=steps),
        _checkpoint(output, "last", every_n_epochs=1),
    ]


class StepStates(ModelCheckpoint):
    """Keeps the state every so many steps, save where a validation follows.

    The trainer would go on behind that validation, without having made it.
    """

    @property
    def state_key(self) -> str:
        """The name in checkpoints, which is that of the trainer's own: earlier versions wrote it."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
        """Keep the state, where it is one to go on with."""
        if not _validation_follows(trainer):
            super().on_train_batch_end(trainer, *rest)


def _validation_follows(trainer: Any) -> bool:
    """Say whether the trainer validates after the batch that it is at."""
    if not trainer.enable_validation:
        return False
    every = trainer.check_val_every_n_epoch
    if every is not None and (trainer.current_epoch + 1) % every:
        return False
    if trainer.val_check_batch == float("inf"):
        return bool(trainer.is_last_batch)
    loop = trainer.fit_loop
    seen = loop.total_batch_idx if every is None else loop.batch_idx
    return bool((seen + 1) % trainer.val_check_batch == 0)


def progress_lines(trainer: Any) -> ProgressLines:
    """Return what tells of the training where no bar does, see :func:`shows_bar`.

    Args:
        trainer: the settings of the trainer.
    """
    return ProgressLines(lines=wanted(trainer.enable_progress_bar))


def shows_bar(chosen: bool | None) -> bool | None:
    """Return the choice about the trainer's bar; False where lines, or nothing, take its place.

    Args:
        chosen: ``trainer.enable_progress_bar``, which a run's config keeps: it may go on elsewhere.
    """
    return False if wanted(chosen) or silent() else chosen


class ValidatesLast(Callback):
    """Has a training validated after its last batch too, wherever the batches between validations end.

    Without that, what was learned since the last validation could not be kept. Who has only some epochs
    validated (``trainer.check_val_every_n_epoch``) gets what was asked for.

    Attributes:
        besides: whether the interval alone would not have had the last batch validated.
    """

    besides = False
    _asked: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Have a run that goes on behind an epoch's validated last batch end that epoch.

        The trainer asks the interval whether that batch was validated; told no, it trains one more.
        """
        loop = trainer.fit_loop.epoch_loop
        if loop.restarted_on_last and loop.batch_progress.is_last_batch and trainer.enable_validation:
            self._asked, trainer.val_check_batch = trainer.val_check_batch, 1

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Take the interval again that was asked for."""
        if self._asked is not None:
            trainer.val_check_batch, self._asked = self._asked, None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Move a validation to the last batch, before anything is kept of it."""
        if trainer.enable_validation and _is_last(trainer, batch_idx):
            self.besides = not _validation_follows(trainer)
            trainer.val_check_batch = 1


def _is_last(trainer: Any, batch_idx: int) -> bool:
    """Say whether the limit of epochs or of steps ends the training after a batch."""
    ends_epoch = batch_idx + 1 == trainer.num_training_batches
    if ends_epoch and trainer.current_epoch + 1 == trainer.max_epochs:
        return True
    steps = ends_epoch or (batch_idx + 1) % trainer.accumulate_grad_batches == 0
    return bool(steps and trainer.global_step + 1 == trainer.max_steps)


def _checkpoint(
    output: Path, name: str, kind: type[ModelCheckpoint] = ModelCheckpoint, **more: Any
) -> ModelCheckpoint:
    return kind(output / "checkpoints", name, enable_version_counter=False, **more)
