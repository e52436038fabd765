"""What the command lines of training share: plain settings alone, checked before anything is made.

A config is data. The parser takes no class, no callback and no plugin from it: what jsonargparse would import
to read such a setting is closed off, and the settings of the trainer that take objects take words instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Path as SettingsFile
from jsonargparse import get_loader, set_loader, set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from suisei.errors import ConfigError, SuiseiError, UnavailableError
from suisei.ranges import NAME, SEED, Of, at_least, check
from suisei.training.checkpoints import CheckpointFiles
from suisei.training.plain_parser import PlainParser
from suisei.training.processes import check_started
from suisei.training.run_callbacks import shows_bar
from suisei.training.run_settings import load_limited, named_configs, read_config, refuse_own_data
from suisei.training.trainer_settings import check_trainer

WRITTEN = ("test.jsonl", "report.json", "report.md", "splits.json", "model", "text", "test_scores.jsonl")
"""What a run writes, and would overwrite in a folder that is not its own."""
_read_yaml = get_loader("yaml")


def _read_limited(text: str) -> Any:
    """Read YAML for the parser, which opens what a config or an option names as a file of more settings."""
    return load_limited(text, "a setting, or the file that it names", _read_yaml)


@contextmanager
def _files_in_utf8() -> Iterator[None]:
    """Have the parser read every file of settings as UTF-8, which it reads as the locale has it."""
    own = SettingsFile.read_text

    def read_text(self: SettingsFile) -> str:
        path = Path(self.absolute)
        if not path.is_file():  # standard input
            return str(own(self))
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"{self}: not a text file in UTF-8; give a YAML file") from None

    SettingsFile.read_text = read_text
    try:
        yield
    finally:
        SettingsFile.read_text = own


class RunCLI(LightningCLI):
    """A command line of training, which makes model, data module and trainer.

    Args:
        model: class of the model.
        data: class of the data module.
        arguments: what was typed.
        trainer_defaults: settings of the trainer that differ from its own.
        about: what the help begins with: the first paragraph.
    """

    def __init__(
        self,
        model: type[LightningModule],
        data: type[LightningDataModule],
        arguments: Sequence[str],
        *,
        trainer_defaults: Mapping[str, Any],
        about: str,
    ) -> None:
        set_parsing_settings(
            import_path_denylist=["*"],
            import_path_allowlist=["suisei"],
            instantiate_subclass_spec_in_any=False,
            config_read_mode_fsspec_enabled=False,
            config_read_mode_urls_enabled=False,
        )
        set_loader("yaml", _read_limited, (yaml.YAMLError, ConfigError))
        super().__init__(
            model,
            data,
            run=False,
            save_config_callback=None,
            auto_configure_optimizers=False,
            seed_everything_default=0,
            trainer_defaults=dict(trainer_defaults),
            parser_class=PlainParser,
            parser_kwargs={
                "prog": "suisei train",
                "description": about.split("\n\n")[0],
                "allow_abbrev": False,
            },
            args=list(arguments),
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, then check what is of the run and of the trainer; model and data check their own."""
        for path in named_configs(args):
            read_config(path)
        with _files_in_utf8():
            super().parse_arguments(parser, args)
        config = self.config
        for name in ("model", "data", "trainer"):
            if config.get(name) is None:
                raise ConfigError(f"{name} is null; leave it out for its defaults, or give its settings")
        check("seed_everything", config.seed_everything, SEED)
        if config.output is not None:
            check("output", config.output, NAME)
        check("ckpt_path", config.ckpt_path, Of(str, null=True))
        check("checkpoint_steps", config.checkpoint_steps, at_least(1, 10**9))
        check_trainer(config.trainer)
        self.check_run()

    def add_resuming(self, parser: LightningArgumentParser, steps: int) -> None:
        """Add how a run is gone on with, and after how many steps it can be."""
        parser.add_argument(
            "--ckpt_path",
            type=str | None,
            default=None,
            help="go on with an interrupted run: a checkpoint file, or 'last' for the run's newest",
        )
        parser.add_argument(
            "--checkpoint_steps", type=int, default=steps, help="write a checkpoint every so many steps"
        )

    def check_run(self) -> None:
        """Check the settings of this kind of run."""

    def refuse_used_folder(self, folder: Path) -> None:
        """Refuse a folder that a run must not write into.

        Raises:
            ConfigError: it is no folder, holds what the run reads, or files that it would overwrite.
        """
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"--output {folder} is a file; choose a folder, or a name that is free")
        resuming = self.config.ckpt_path is not None
        inputs = self.inputs()
        if not resuming:  # to go on with a run, its own config may be given
            inputs["--config"] = [str(path) for path in self.config.get("config") or []]
        refuse_own_data(folder, inputs)
        found = [name for name in WRITTEN if (folder / name).exists()]
        if found and not resuming and not (folder / "config.yaml").exists():
            raise ConfigError(
                f"--output {folder} holds {found[0]}, which is no run's and would be overwritten; choose a "
                "folder of its own"
            )

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, {setting: paths}."""
        data = self.config.data
        root = data.get("root")
        named: dict[str, Any] = {
            **{
                f"data.{name}": data.get(name)
                for name in ("train", "validation", "test", "support", "images")
            },
            "data.root": list(vars(root).values()) if hasattr(root, "__dict__") else root,
        }
        if isinstance(root, Mapping):
            named["data.root"] = list(root.values())
        return {
            name: [value] if isinstance(value, str) else [str(part) for part in value or []]
            for name, value in named.items()
        }

    def instantiate_classes(self) -> None:
        """Make model, data module and trainer.

        Raises:
            ConfigError: what one of them says of its settings; the parser wraps it where a group may be null.
        """
        try:
            super().instantiate_classes()
        except ValueError as error:
            raise _own_error(error) from None

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """Make the trainer: its curves go to logs/ in the run's folder, a version per start.

        Raises:
            ConfigError: settings that do not go together, a device that is not there, or another number of
                processes than torchrun or SLURM started.
        """
        if self.config.trainer.logger is not False:
            options["logger"] = _loggers(self.config.output, self.config.trainer.logger)
        options["enable_progress_bar"] = shows_bar(self.config.trainer.enable_progress_bar)
        options["plugins"] = [CheckpointFiles(settings_of(self), Path(self.config.output) / "checkpoints")]
        if _every_batch(self.config.trainer):
            options["check_val_every_n_epoch"] = None
        try:
            trainer = super().instantiate_trainer(**options)
        except (MisconfigurationException, ValueError, RuntimeError, TypeError) as error:
            if isinstance(error, SuiseiError):
                raise
            raise ConfigError(f"trainer: {' '.join(str(error).split())}") from None
        check_started(trainer)
        return trainer


def _every_batch(trainer: Any) -> bool:
    """Say whether each batch of every epoch is validated.

    The trainer's callbacks take an interval of 1 batch for that of an epoch (1.0), and would keep weights and
    stop by an epoch's last validation alone. Batches counted on from epoch to epoch mean the same.
    """
    interval = trainer.val_check_interval
    return isinstance(interval, int) and interval == 1 and trainer.check_val_every_n_epoch == 1


def _own_error(error: BaseException) -> BaseException:
    """Return the first error raised on purpose among one and its causes; the error itself without any."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SuiseiError):
        cause = cause.__cause__
    return cause or error


def _loggers(folder: str, chosen: str | bool | None) -> list[Logger]:
    """Return what writes the curves: CSV always, as the picture of them is drawn from it.

    Raises:
        UnavailableError: TensorBoard is asked for and not installed.
    """
    loggers: list[Logger] = [CSVLogger(folder, name="logs", flush_logs_every_n_steps=1)]
    if chosen == "tensorboard":
        try:
            loggers.append(TensorBoardLogger(folder, name="logs", version="tensorboard"))
        except ModuleNotFoundError:
            raise UnavailableError(
                "trainer.logger: tensorboard needs TensorBoard: pip install 'suisei[tensorboard]', or leave "
                "the setting out for curves as CSV"
            ) from None
    return loggers


def settings_of(cli: LightningCLI) -> dict[str, Any]:
    """Return the resolved settings of a command line as plain values."""
    text = cli.parser.dump(cli.config, format="yaml", skip_validation=True, skip_unset=False)
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def best_precision() -> str:
    """Return "bf16-mixed" where the machine multiplies bf16 matrices in hardware, else "32-true"."""
    from suisei.encoders.precision import choose_device, choose_precision

    return "bf16-mixed" if choose_precision("auto", choose_device("auto")) == "bf16" else "32-true"
