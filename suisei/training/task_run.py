"""What the runs of trainings of a task of their own share: going on, training, keeping the best weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from suisei.errors import ConfigError
from suisei.training.checkpoints import restore_best, resumed_data
from suisei.training.command_line import settings_of
from suisei.training.data_digest import check_same_data
from suisei.training.losses import require_finite_weights
from suisei.training.progress_lines import minutes_since
from suisei.training.run_fit import fit
from suisei.training.run_folder import find_checkpoint, started_run
from suisei.training.task_cli import TaskCLI


def checkpoint_of(cli: TaskCLI) -> str | None:
    """Return the checkpoint to go on with, verified; None to start from the beginning."""
    return find_checkpoint(cli.folder, cli.config.ckpt_path, settings_of(cli))


def check_data(cli: TaskCLI, checkpoint: str | None) -> None:
    """Refuse to go on with other data than the run was started with.

    Args:
        cli: the command line, whose data are read.
        checkpoint: what the run goes on from; None for a new run.

    Raises:
        ModelError: training or validation data have changed.
    """
    if checkpoint is not None:
        check_same_data(resumed_data(Path(checkpoint)), cli.datamodule.digests)


def train(cli: TaskCLI, checkpoint: str | None, prepare: Callable[[], None] = lambda: None) -> float:
    """Train, and give the model the weights that validation chose.

    Args:
        cli: the command line; its data are read and its model is built.
        checkpoint: what the run goes on from; None for a new run.
        prepare: work that belongs to the training and its minutes.

    Returns:
        The minutes that it took, earlier starts that it goes on from included.

    Raises:
        ConfigError: no step was taken, so that there is nothing to keep.
        ModelError: the weights are no numbers.
    """
    model, trainer = cli.model, cli.trainer
    began = time.perf_counter()
    with started_run(cli, cli.folder) if trainer.is_global_zero else nullcontext():
        prepare()
        fit(trainer, model, cli.datamodule, checkpoint)
        if not trainer.global_step:
            raise ConfigError(
                "the training took no step, and no model is written; lower data.batch_size, or give "
                "trainer.max_time more time"
            )
    minutes = minutes_since(began, trainer)
    restore_best(model, trainer)
    if trainer.is_global_zero:
        require_finite_weights(model, "model.learning_rate")
    return minutes
