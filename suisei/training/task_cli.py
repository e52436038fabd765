"""What the command lines of trainings of a task of their own share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from lightning.pytorch.callbacks import Callback
from lightning.pytorch.cli import LightningArgumentParser

from suisei.ranges import Word, at_least, check
from suisei.training.command_line import RunCLI, best_precision
from suisei.training.processes import is_first_process, several_processes
from suisei.training.run_callbacks import (
    ValidatesLast,
    best_checkpoint,
    early_stopping,
    progress_lines,
    states_to_go_on_with,
)
from suisei.training.run_lock import alone_in, refuse_started

TASK_DEFAULTS: dict[str, Any] = {
    "devices": 1,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}
"""Settings of the trainer that differ from its own."""


class TaskCLI(RunCLI, ABC):
    """The command line of a training that a config names by ``task``: model, data, trainer, folder.

    Attributes:
        task: its name.
        place: the run's folder where none is named.
        checkpoint_steps: a checkpoint is written every so many steps.
    """

    task: ClassVar[str]
    place: ClassVar[str]
    checkpoint_steps: ClassVar[int]

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the task, the run's folder and resuming."""
        parser.add_argument("--task", type=str, default=self.task, help=f"what is trained; {self.task}")
        parser.add_argument("--output", type=str, default=self.place, help="the run's folder")
        self.add_resuming(parser, self.checkpoint_steps)

    def check_run(self) -> None:
        """Check what is trained."""
        check("task", self.config.task, Word((self.task,)))

    @abstractmethod
    def callbacks(self) -> Sequence[Callback]:
        """Return what keeps checkpoints, the best one first, and what stops the training."""

    def before_instantiate_classes(self) -> None:
        """Fix the run's folder and the precision, and make the callbacks, which depend on the settings."""
        config, folder = self.config, self.folder
        # Further processes of a training start once the first has written its config.
        if is_first_process() or not several_processes(config.trainer):
            if config.ckpt_path is None:
                refuse_started(folder)
            self.refuse_used_folder(folder)
        config.trainer.default_root_dir = str(folder)
        if config.trainer.precision is None:
            config.trainer.precision = best_precision()
        self.trainer_defaults["callbacks"] = [
            *self.callbacks(),
            ValidatesLast(),
            progress_lines(config.trainer),
        ]

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.config.output)

    def alone(self) -> AbstractContextManager[None]:
        """Keep other trainings out of the run's folder, see :func:`suisei.training.run_lock.alone_in`."""
        first = bool(self.trainer.is_global_zero)
        return alone_in(self.folder, fresh=self.config.ckpt_path is None, first=first)


class StepCLI(TaskCLI):
    """A command line of a training that is validated, and ends, by steps.

    Attributes:
        patience_steps: training stops after so many steps that are no better.
    """

    checkpoint_steps = 50
    patience_steps: ClassVar[int]

    @property
    def monitored(self) -> str:
        """The validation figure that chooses the kept weights and decides when to stop."""
        return "val_loss"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the patience too."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--patience_steps",
            type=int,
            default=self.patience_steps,
            help="stop after so many steps without a better validation figure",
        )

    def check_run(self) -> None:
        """Check when to stop too."""
        super().check_run()
        check("patience_steps", self.config.patience_steps, at_least(1, 10**9))
        check("trainer.val_check_interval", self.config.trainer.val_check_interval, at_least(1, 10**9))

    def callbacks(self) -> Sequence[Callback]:
        """Return what keeps checkpoints, and what stops the training."""
        trainer = self.config.trainer  # whose interval is in batches, of which a step may take several
        batches = self.config.patience_steps * trainer.accumulate_grad_batches
        patience = max(1, batches // trainer.val_check_interval)
        return [
            best_checkpoint(self.folder, self.monitored),
            early_stopping(self.monitored, patience),
            *states_to_go_on_with(self.folder, self.config.checkpoint_steps),
        ]
