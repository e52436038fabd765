"""`suisei train`: train on human ratings, then report correlations on the test split.

Without a config it trains on the bundled sample. Settings come from a YAML file (``--config``) and
from the command line (``--data.train my.csv --trainer.max_epochs 5``); unknown ones are refused.
With ``--html FILE`` the finished run is also written as one page, as by ``suisei report RUN``. ``--quiet``,
``--verbose`` and ``--log-json FILE`` say how much is told of it, as for the other commands.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser

from suisei.captioning.caption_run import TASK as CAPTIONER
from suisei.captioning.caption_run import run as run_captioner
from suisei.captioning.self_critical_run import TASK as SELF_CRITICAL
from suisei.captioning.self_critical_run import run as run_self_critical
from suisei.commands.command_parser import CommandParser
from suisei.commands.options import add_log_options
from suisei.commands.report import main as write_report
from suisei.data.outputs import check_outputs
from suisei.errors import ConfigError
from suisei.metrics.registry import get_entry
from suisei.pacs.dual_run import TASK as PACS
from suisei.pacs.dual_run import run as run_pacs
from suisei.pacs.dual_run import task_of
from suisei.ranges import NAME, SWITCH, Range, Rule, Several, Word, at_least, check, check_settings
from suisei.recap.latent_run import RUNS as RECAP
from suisei.resources import resource_path
from suisei.runlog.events import begin
from suisei.training.command_line import RunCLI, best_precision
from suisei.training.datamodule import CaptionDataModule
from suisei.training.first_process import end_with_first_process
from suisei.training.module import SuiSei
from suisei.training.pooled_folds import pool_folds
from suisei.training.processes import check_processes, is_first_process, several_processes
from suisei.training.run import DEFAULT_BASELINES, run_training
from suisei.training.run_callbacks import (
    ValidatesLast,
    early_stopping,
    mode_of,
    progress_lines,
    states_to_go_on_with,
)
from suisei.training.run_folder import started_run
from suisei.training.run_lock import alone_in, refuse_started
from suisei.training.text_run import TASK as PRETRAIN
from suisei.training.text_run import run_pretraining
from suisei.training.trainer_settings import NULL

DEFAULT_CONFIG = "configs/scenes.yaml"
OF_THEIR_OWN: dict[str, Callable[[Sequence[str]], int]] = {
    PACS: run_pacs,
    CAPTIONER: run_captioner,
    SELF_CRITICAL: run_self_critical,
    **RECAP,
}
"""What is trained besides raters of captions, by the config's ``task``; each has its own command line."""
TRAINER_DEFAULTS = {
    "max_epochs": 10,
    "devices": 1,
    "gradient_clip_val": 1.0,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
}


MONITORS = ("val_pearson", "val_kendall", "val_loss")
EARLY_STOPPING: dict[str, Rule] = {"patience": at_least(0), "min_delta": Range(0, 1_000_000)}
CHECKPOINT: dict[str, Rule] = {
    "filename": Word(("best",)),
    "save_top_k": Word((1,)),
    "save_weights_only": SWITCH,
    "every_n_epochs": at_least(1, null=True),
    "every_n_train_steps": NULL,
    "train_time_interval": NULL,
    "save_on_train_epoch_end": Word((False,), null=True),
}
"""Of the kept checkpoint, whose weights the model gets: kept after a validation alone, for at other times the
trainer would hold the figure of the last one to be that of the weights of now."""


@dataclass
class Stopping:
    """When training ends before its last epoch.

    Attributes:
        patience: after so many validations in a row that are no better, one an epoch unless set otherwise.
        min_delta: least difference that counts as better.
    """

    patience: int = 1
    min_delta: float = 0.0


class TrainingCLI(RunCLI):
    """The command line of training: model, data, trainer, and the few settings beside them."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the run's folder, resuming, baselines, early stopping and the kept checkpoint."""
        parser.add_argument("--task", type=str | None, default=None, help="pretrain: the text encoder alone")
        parser.add_argument(
            "--output", type=str | None, default=None, help="the run's folder (default: runs/CONFIG)"
        )
        self.add_resuming(parser, steps=500)
        parser.add_argument(
            "--baselines",
            type=list[str],
            default=list(DEFAULT_BASELINES),
            help="metrics that the test table compares with",
        )
        parser.add_argument(
            "--monitor", type=str, default="val_pearson",
            help="what stops training and chooses the epoch: val_pearson, val_kendall or val_loss",
        )  # fmt: skip
        parser.add_argument(
            "--early_stopping", type=Stopping | None, default=Stopping(),
            help="when training ends before its last epoch; null for never",
        )  # fmt: skip
        skipped = {"monitor", "mode"}  # which follow from --monitor
        parser.add_class_arguments(ModelCheckpoint, "checkpoint", instantiate=False, skip=skipped)
        parser.set_defaults({"checkpoint.filename": "best", "checkpoint.enable_version_counter": False})

    def check_run(self) -> None:
        """Check when to save, when to stop, and what is compared with."""
        config = self.config
        check("task", config.task, Word((PRETRAIN, *OF_THEIR_OWN), null=True))
        check("baselines", config.baselines, Several(NAME, 0, 100))
        _check_baselines(config.baselines)
        check_processes(config)
        check("monitor", config.monitor, Word(MONITORS))
        if config.early_stopping is not None:
            check_settings("early_stopping", vars(config.early_stopping), EARLY_STOPPING)
        check_settings("checkpoint", vars(config.checkpoint), CHECKPOINT)

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the encoders too."""
        text, image = self.config.model.text, self.config.model.image
        encoders = {
            "model.text.name": [text.name],
            "model.image.pretrained": [image.pretrained] if image and image.pretrained else [],
        }
        return {**super().inputs(), **encoders}

    def before_instantiate_classes(self) -> None:
        """Fix the run's folder and the precision before anything is made."""
        config = self.config
        first = is_first_process() or not several_processes(config.trainer)
        if first:
            folder = run_folder(config.output, config_name(config), resuming=config.ckpt_path is not None)
            self.refuse_used_folder(folder)
        else:  # the first process has looked at it, and may have begun to write into it
            folder = Path(config.output)
        config.output = str(folder)
        config.checkpoint.dirpath = str(folder / "checkpoints")
        config.trainer.default_root_dir = str(folder)
        if config.trainer.precision is None:
            config.trainer.precision = best_precision()
        mode = mode_of(config.monitor)
        best = ModelCheckpoint(monitor=config.monitor, mode=mode, **vars(config.checkpoint))
        states = states_to_go_on_with(folder, config.checkpoint_steps)
        lines = progress_lines(config.trainer)
        told = [lines] if first else []
        self.trainer_defaults["callbacks"] = [*self._early_stopping(), best, *states, ValidatesLast(), *told]

    def instantiate_trainer(self, **options: Any) -> Any:
        """Make the trainer; of several processes each has a share of a batch, in which a part may be idle."""
        trainer = self.config.trainer
        if several_processes(trainer) and trainer.strategy != "ddp_find_unused_parameters_true":
            from lightning.pytorch.strategies import DDPStrategy

            # Buffers are the same everywhere: they are fitted to the same data, and follow whole batches.
            options["strategy"] = DDPStrategy(find_unused_parameters=True, broadcast_buffers=False)
        return super().instantiate_trainer(**options)

    def _early_stopping(self) -> list[EarlyStopping]:
        monitor, stopping = self.config.monitor, self.config.early_stopping
        if stopping is None:
            return []
        return [early_stopping(monitor, check_finite=False, **vars(stopping))]


def _check_baselines(names: Sequence[str]) -> None:
    """Refuse a baseline that is no metric; whether one runs here is found out when it scores.

    Raises:
        ConfigError: no metric has the name; what it probably stands for is named.
    """
    for name in names:
        try:
            get_entry(name.partition(":")[0])
        except ConfigError as error:
            raise ConfigError(f"baselines: {error}") from None


def config_name(config: Any) -> str:
    """Return the name of the config file, which names the run."""
    files = config.get("config") or []
    return Path(str(files[-1])).stem if files else "run"


def run_folder(output: str | None, name: str, *, resuming: bool) -> Path:
    """Return the folder of a run: the one asked for, or runs/NAME, runs/NAME-2, ... .

    Raises:
        ConfigError: the folder holds a finished or interrupted run and is not being resumed, or there is
            nothing to resume.
    """
    if output is not None:
        folder = Path(output)
        if not resuming:
            refuse_started(folder)
        return folder
    numbered = re.compile(re.escape(name) + r"(-\d+)?")  # the runs of scenes, not those of scenes-large
    taken = [path for path in Path("runs").glob("*/config.yaml") if numbered.fullmatch(path.parent.name)]
    taken.sort(key=lambda path: path.stat().st_mtime)
    if resuming:
        if not taken:
            raise ConfigError(f"no run to go on with under runs/{name}; give its folder with --output")
        return taken[-1].parent
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder


def with_config(arguments: Sequence[str]) -> list[str]:
    """Add the default config where none is given, and find shipped configs by name from anywhere.

    Raises:
        ConfigError: there is no such config.
    """
    arguments = list(arguments)
    named = False
    for position, argument in enumerate(arguments):
        previous = arguments[position - 1] if position else ""
        if argument.startswith("--config="):
            arguments[position] = f"--config={_find_config(argument.removeprefix('--config='))}"
            named = True
        elif previous in ("--config", "-c"):
            arguments[position] = str(_find_config(argument))
            named = True
    return arguments if named else ["--config", str(resource_path(DEFAULT_CONFIG)), *arguments]


def _find_config(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        try:
            path = resource_path(f"configs/{path.name if path.suffix else path.name + '.yaml'}")
        except ConfigError as error:
            if not path.exists():
                raise ConfigError(f"--config {name}: no such file, and {error}") from None
    return path


def make_cli(arguments: Sequence[str], kind: type[TrainingCLI] = TrainingCLI) -> TrainingCLI:
    """Parse the command line and, unless ``kind`` does otherwise, make model, data module and trainer."""
    return kind(SuiSei, CaptionDataModule, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `suisei train`; returns the exit status."""
    end_with_first_process()
    quiet_libraries()
    arguments = without_log(sys.argv[1:] if argv is None else argv)
    arguments, page = without_page(arguments)
    arguments = with_config(arguments)
    task = task_of(arguments)
    if task in OF_THEIR_OWN:
        _refuse_page(page)
        return OF_THEIR_OWN[task](arguments)
    cli = make_cli(arguments)
    if PRETRAIN in (task, cli.config.task):
        _refuse_page(page)
        run_pretraining(cli)
        return 0
    _train(cli, arguments)
    if page is None or not cli.trainer.is_global_zero:
        return 0
    return write_report([cli.config.output, "--output", page])


def _refuse_page(page: str | None) -> None:
    if page is not None:
        raise ConfigError(f"--html {page}: only a training on ratings has a page; leave it out")


def without_log(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without what says how much is told of the run, which begins to be told so.

    Raises:
        ConfigError: an option without its value.
    """
    parser = CommandParser(prog="suisei train", allow_abbrev=False, usage=argparse.SUPPRESS)
    add_log_options(parser.add_argument)
    own = {"--quiet", "--verbose", "--log-json"}
    chosen: list[str] = []
    left: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.partition("=")[0] not in own:
            left.append(argument)
            continue
        chosen.append(argument)
        if argument == "--log-json":
            chosen += islice(rest, 1)
    options = parser.parse_args(chosen)
    begin(options.log_json, options.loudness, "suisei train", list(arguments))
    return left


def without_page(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the arguments without --html, and its file: it decides nothing about the run.

    Raises:
        ConfigError: the file is missing, or cannot be written.
    """
    left: list[str] = []
    page: str | None = None
    rest = iter(arguments)
    for argument in rest:
        if argument == "--html" or argument.startswith("--html="):
            page = next(rest, "") if argument == "--html" else argument.removeprefix("--html=")
            if not page.strip():
                raise ConfigError("--html needs the name of a file")
        else:
            left.append(argument)
    check_outputs([("--html", page)])
    return left, page


def _train(cli: TrainingCLI, arguments: Sequence[str]) -> None:
    """Train once, or once per fold."""
    folds = cli.config.data.folds
    if not folds or cli.config.data.fold is not None:
        run_training(cli)
        return
    folder = Path(cli.config.output)
    resuming = cli.config.ckpt_path is not None
    with alone_in(folder, fresh=not resuming):
        if resuming and (folder / "config.yaml").exists():
            _train_folds(arguments, folder, folds, resuming=True)
        else:
            with started_run(cli, folder):
                _train_folds(arguments, folder, folds, resuming=resuming)
        pool_folds(folder, folds)


def _train_folds(arguments: Sequence[str], folder: Path, folds: int, *, resuming: bool) -> None:
    for fold in range(folds):
        done = folder / f"fold-{fold}"
        if (done / "report.json").exists():
            continue  # a resumed cross-validation keeps what is finished
        started = (done / "config.yaml").exists()
        resume = ["--ckpt_path", "last" if resuming and started else "null"]
        cli = make_cli([*arguments, f"--data.fold={fold}", f"--output={done}", *resume])
        run_training(cli, whole=folder)


def quiet_libraries() -> None:
    """Leave out the notes of Lightning that a user of suisei can do nothing about."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for name in ("lightning.pytorch", "lightning.pytorch.utilities.rank_zero", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*find_unused_parameters=True was specified.*")
