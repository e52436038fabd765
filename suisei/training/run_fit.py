"""The training itself, whose failures become one line that says how it goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, NoReturn

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from suisei.errors import ConfigError, DataError, SuiseiError, UnavailableError
from suisei.training.first_process import known_to_those_it_starts
from suisei.training.processes import lost_another
from suisei.training.run_folder import how_to_go_on

LESS_MEMORY = (
    "lower data.batch_size (and raise trainer.accumulate_grad_batches as much), then --ckpt_path last"
)
OUT_OF_REACH = {
    "out of memory": LESS_MEMORY,
    "can't allocate memory": LESS_MEMORY,
    "DataLoader worker": "set data.num_workers to 0, then go on with --ckpt_path last",
}
"""Part of a runtime error's text, and what to do about it."""


def fit(trainer: Any, model: Any, data: Any, checkpoint: str | None, whole: Path | None = None) -> None:
    """Let the trainer train; what goes wrong outside this program's hands becomes one line.

    Args:
        trainer: the trainer, whose root folder is the run's.
        model: what it trains.
        data: the data module.
        checkpoint: what it goes on from; None for a new run.
        whole: the folder of the cross-validation that this run is a fold of, whose config goes on with all of
            it; None for a run by itself.

    Raises:
        ConfigError: settings that do not go together.
        DataError: a file cannot be written.
        UnavailableError: the memory does not suffice, or a process that prepares batches, or trains along,
            ended.
        SystemExit: in another process than the first, which says what happened.
    """
    # Where steps are limited, the trainer would go on within an epoch that a checkpoint has whole, and leave
    # the next one out.
    trainer.fit_loop._iteration_based_training = lambda: False
    trainer._signal_connector._sigterm_notifier_fn = _end_as_by_ctrl_c
    try:
        with known_to_those_it_starts():
            trainer.fit(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except SuiseiError:
        raise
    except (KeyboardInterrupt, SystemExit):  # what Lightning makes of Ctrl-C
        if not trainer.is_global_zero:  # the first process says it
            raise SystemExit(130) from None
        raise KeyboardInterrupt(_interrupted(trainer, whole)) from None
    except MisconfigurationException as error:
        raise ConfigError(f"trainer: {' '.join(str(error).split())}") from None
    except ValueError as error:
        if "val_check_interval" not in str(error):
            raise
        raise ConfigError(
            f"trainer.val_check_interval is {trainer.val_check_interval}, and an epoch has "
            f"{trainer.num_training_batches} batches: lower it, or set trainer.check_val_every_n_epoch to "
            "null, so that batches are counted on from epoch to epoch"
        ) from None
    except OSError as error:
        raise DataError(
            f"training stopped: {error}; make room or mend access, then --ckpt_path last"
        ) from None
    except (MemoryError, RuntimeError) as error:
        if lost_another(error):
            _without_another(trainer)
        advice = next((advice for sign, advice in OUT_OF_REACH.items() if sign in str(error)), None)
        if advice is None and not isinstance(error, MemoryError | torch.OutOfMemoryError):
            raise
        reason = " ".join(str(error).split())[:200] or "out of memory"
        raise UnavailableError(f"training stopped: {reason}; {advice or LESS_MEMORY}") from None


def _without_another(trainer: Any) -> NoReturn:
    """End a training that lost one of its processes; that one, or else the first, says something of it."""
    if not trainer.is_global_zero:
        raise SystemExit(2) from None
    raise UnavailableError(
        "training stopped: another of its processes ended, or cannot be reached; go on with --ckpt_path last"
    ) from None


def _end_as_by_ctrl_c(*_: Any) -> None:
    """Handle a request to terminate, in the place of what the trainer does.

    That speaks to the other processes from within the handler, and waits for ever where the program itself
    was speaking to them.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would break off what ends the others
    raise KeyboardInterrupt


def _interrupted(trainer: Any, whole: Path | None) -> str:
    """Say how far a training came, and how it goes on."""
    place = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step:,}"
    return f"{place}; {how_to_go_on(Path(trainer.default_root_dir), whole)}"
