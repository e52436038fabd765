"""What the command lines of training share: plain settings alone, checked before anything is made.

A config is data. The parser takes no class, no callback and no plugin from it: what jsonargparse would import
to read such a setting is closed off, and the settings of the trainer that take objects take words instead.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_type_hints

import yaml
from jsonargparse import get_loader, set_loader, set_parsing_settings
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from suisei.errors import ConfigError, SuiseiError, UnavailableError
from suisei.ranges import NAME, SEED, SWITCH, Of, Range, Rule, Several, Word, at_least, check, check_settings
from suisei.training.checkpoints import CheckpointFiles
from suisei.training.processes import check_started
from suisei.training.run_settings import load_limited, named_configs, read_config, refuse_own_data

WRITTEN = ("test.jsonl", "report.json", "report.md", "splits.json", "model", "text", "test_scores.jsonl")
"""What a run writes, and would overwrite in a folder that is not its own."""
LONGEST_ERROR = 400
"""A message of the parser is cut to so many characters."""
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "32", 32, "16", 16, "bf16")
PLAIN: dict[str, tuple[Any, Any, str]] = {
    "accelerator": (str, "auto", "auto, cpu, gpu, cuda or mps"),
    "strategy": (str, "auto", "auto, or ddp for several processes"),
    "logger": (
        bool | Literal["csv", "tensorboard"] | None,
        None,
        "csv (default): curves as CSV in logs/ of the run's folder; tensorboard: for TensorBoard besides; "
        "false: none",
    ),
    "profiler": (Literal["simple", "advanced"] | None, None, "simple or advanced"),
    "callbacks": (str | None, None, "null: a run has its own"),
    "plugins": (str | None, None, "null: a run has its own"),
    "precision": (str | int | None, None, "such as bf16-mixed; null for the fastest of this machine"),
}
"""Type, default and help of the trainer's settings that would take objects."""
LEAST_PROCESSES = 8
"""So many processes on the CPU are allowed on the smallest machine too, for trying things out."""
COUNT_OR_SHARE = Range(0, 1, above=True)
BATCHES = (at_least(1), COUNT_OR_SHARE)
NULL = Word((), null=True)
TRAINER: dict[str, Rule] = {
    "accelerator": Word(("auto", "cpu", "gpu", "cuda", "mps")),
    "strategy": Word(("auto", "ddp", "ddp_find_unused_parameters_true")),
    "num_nodes": at_least(1, 10_000),
    "precision": Word(PRECISIONS, null=True),
    "callbacks": NULL,
    "plugins": NULL,
    "model_registry": NULL,
    "fast_dev_run": Word((False,)),
    "barebones": Word((False,)),
    "enable_checkpointing": Word((True,), null=True),
    "max_epochs": at_least(1, 10**9, also=(-1,), null=True),
    "min_epochs": at_least(0, 10**9, null=True),
    "max_steps": at_least(1, 10**12, also=(-1,)),
    "min_steps": at_least(0, 10**12, null=True),
    "overfit_batches": Word((0, 0.0)),  # a batch knows its place in an epoch, which this would take from it
    "check_val_every_n_epoch": at_least(1, null=True),
    "num_sanity_val_steps": at_least(-1, null=True),
    "log_every_n_steps": at_least(0, null=True),
    "accumulate_grad_batches": at_least(1, 100_000),
    "gradient_clip_val": Range(0, 1_000_000, null=True),
    "gradient_clip_algorithm": Word(("norm", "value"), null=True),
    "inference_mode": SWITCH,
    "detect_anomaly": SWITCH,
    "sync_batchnorm": SWITCH,
    "use_distributed_sampler": SWITCH,
    "deterministic": Word((True, False, "warn"), null=True),
    "reload_dataloaders_every_n_epochs": at_least(0),
}
"""What the trainer's settings may be; the types of the others say enough."""


_WITHIN = re.compile(
    r"([\w.]+): Does not validate against any of the Union subtypes Subtypes: \[.*?\] Errors: "
    r"- Problem with given class_path '[\w.]+': (.*) - Expected a NoneType Given value type: .*"
)
"""What the parser says of settings that may be null, and of what is wrong within them."""
_UNKNOWN = re.compile(
    r"(?:Group '([\w.]+)' does not accept option|Option|unrecognized arguments:) (?:'|--)([\w.]+).*"
)


def _one_of(text: str) -> str:
    """Return a message on a value of a wrong type; of several types, without what each of them says of it.

    Of settings that may be null it is one on what is wrong within them, where that is known.
    """
    text = re.sub(r": - Expected a path but .* either not accessible or invalid - (?=Does not)", ": ", text)
    within = _WITHIN.fullmatch(text)
    unknown = _UNKNOWN.fullmatch(within[2]) if within else None
    if within and unknown:
        group, _, name = ".".join(filter(None, (within[1], *unknown.groups()))).rpartition(".")
        return f"Group '{group}' does not accept option '{name}'"
    if within and ": " in within[2]:
        return _one_of(f"{within[1]}.{within[2]}")
    found = re.fullmatch(
        r"(.*): Does not validate against any of the Union subtypes Subtypes: \[(.*?)\] Errors: .* "
        r"Given value type: [\w.]+ Given value: (.*)",
        text,
    )
    if found is not None:
        name, kinds, value = found.groups()
        kinds = re.sub(r"\b(?:\w+\.)+", "", kinds.replace("NoneType", "null"))
        text = f"{name}: expected {' or '.join(re.split(r', (?![^[]*])', kinds))}, got {value!r}"
    listed = re.search(r"[Ee]xpected .*\b(tuple|list)\b", text)
    return f"{text}; a list is one word, as '[1,5]'" if listed else text


def _settings_within(name: str, kind: Any) -> Iterator[str]:
    """Yield the names of the settings that one has which may be null, and for which there is no option."""
    for one in get_args(kind):
        if dataclasses.is_dataclass(one):
            for part, own in get_type_hints(one).items():
                yield f"{name}.{part}"
                yield from _settings_within(f"{name}.{part}", own | None)


class PlainParser(LightningArgumentParser):
    """A parser whose values are plain, and whose errors are one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise a ConfigError of one line."""
        if not self.exit_on_error:  # of a value that may be of another type
            super().error(message, ex)
        if isinstance(ex, SuiseiError):
            raise ex
        text = re.sub(r'Parser key "([^"]*)": ', r"\1: ", " ".join(message.split()))
        text = _one_of(re.sub(r"(<class '|typing\.)([^'>]*)('>)?", r"\2", text))[:LONGEST_ERROR]
        raise ConfigError(f"{text}{self._near(text)} (suisei train --help all lists every setting)") from None

    def _near(self, text: str) -> str:
        """Return the settings whose names are near to one that a message calls unknown."""
        unknown = re.search(
            r"unrecognized arguments: --([\w.]+)|accept(?:ed)? option '([\w.]+)'|Option '(\w+)'", text
        )
        if unknown is None:
            return ""
        group = re.search(r"Group '([\w.]+)'", text)
        name = ".".join(part for part in (group and group[1], *unknown.groups()) if part)
        known = [option.removeprefix("--") for action in self._actions for option in action.option_strings]
        for action in self._actions:
            known += _settings_within(action.dest, getattr(action, "_typehint", None))
        own = [option for option in known if ".help" not in option and not option.endswith(("help", "+"))]
        near = difflib.get_close_matches(name, own, 3)
        return f"; did you mean --{', --'.join(near)}?" if near else ""

    def add_lightning_class_args(
        self,
        lightning_class: Any,
        nested_key: str,
        subclass_mode: bool = False,
        required: bool = True,
    ) -> list[str]:
        """Add the settings of a class; of the trainer's, those that take objects as plain ones."""
        if lightning_class is not Trainer:
            return super().add_lightning_class_args(lightning_class, nested_key, subclass_mode, required)
        added: list[str] = self.add_class_arguments(
            Trainer, nested_key, fail_untyped=False, instantiate=False, sub_configs=True, skip=set(PLAIN)
        )
        for name, (kind, default, text) in PLAIN.items():
            self.add_argument(f"--{nested_key}.{name}", type=kind, default=default, help=text)
        return added


_read_yaml = get_loader("yaml")


def _read_limited(text: str) -> Any:
    """Read YAML for the parser, which opens what a config or an option names as a file of more settings."""
    return load_limited(text, "a setting, or the file that it names", _read_yaml)


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
            parser_kwargs={"prog": "suisei train", "description": about.split("\n\n")[0]},
            args=list(arguments),
        )

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, then check what is of the run and of the trainer; model and data check their own."""
        for path in named_configs(args):
            read_config(path)
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
        check_settings("trainer", vars(config.trainer), TRAINER)
        for name in ("limit_train_batches", "limit_val_batches", "val_check_interval"):
            _check_batches(f"trainer.{name}", config.trainer.get(name))
        _check_time("trainer.max_time", config.trainer.max_time)
        _check_length(config.trainer)
        _check_devices(config.trainer)
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

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """Make the trainer: its curves go to logs/ in the run's folder, a version per start.

        Raises:
            ConfigError: settings that do not go together, a device that is not there, or another number of
                processes than torchrun or SLURM started.
        """
        if self.config.trainer.logger is not False:
            options["logger"] = _loggers(self.config.output, self.config.trainer.logger)
        options["plugins"] = [CheckpointFiles(settings_of(self), Path(self.config.output) / "checkpoints")]
        try:
            trainer = super().instantiate_trainer(**options)
        except (MisconfigurationException, ValueError, RuntimeError, TypeError) as error:
            if isinstance(error, SuiseiError):
                raise
            raise ConfigError(f"trainer: {' '.join(str(error).split())}") from None
        check_started(trainer)
        return trainer


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


def _check_batches(name: str, value: Any) -> None:
    """Check a number of batches, or a share of them; val_check_interval may be a time as well."""
    if value is None:
        return
    if isinstance(value, str) and name.endswith("interval"):
        _check_time(name, value)
        return
    if not any(rule.holds(value) for rule in BATCHES):
        raise ConfigError(
            f"{name} is {value!r}; it must be an integer of at least 1 (batches), or a number above 0 and at "
            "most 1 (a share of them)"
        )


def _check_time(name: str, value: Any) -> None:
    if isinstance(value, str) and not re.fullmatch(r"\d+:\d{1,2}:\d{1,2}:\d{1,2}", value):
        raise ConfigError(f"{name} is {value[:60]!r}; it must be a time as DD:HH:MM:SS, such as 00:08:00:00")


def _check_length(trainer: Any) -> None:
    """Refuse a training without a number of steps, which learning rates and the time left are reckoned by."""
    timed = trainer.max_epochs is None and trainer.max_time is not None  # which is no limit to the trainer
    if (trainer.max_epochs == -1 or timed) and trainer.max_steps == -1:
        raise ConfigError(
            f"trainer.max_epochs is {'null' if timed else -1}, for no limit, and no trainer.max_steps is "
            "named: set one of them to the most that it may be; trainer.max_time may end the training before"
        )


def _check_devices(trainer: Any) -> None:
    """Refuse more devices than there are."""
    import torch

    devices = trainer.devices
    numbers = at_least(1, 4096, also=(-1, "auto"))
    listed = Several(at_least(0, 4096), 1, 4096)
    if isinstance(devices, str) and devices != "auto":  # such as "2" or "0,1"
        parts = devices.strip().rstrip(",").split(",")
        whole = all(part.strip().lstrip("-").isdigit() for part in parts)
        devices = [int(p) for p in parts] if whole and "," in devices else int(parts[0]) if whole else devices
    if isinstance(devices, list):
        check("trainer.devices", devices, listed)
    else:
        check("trainer.devices", devices, numbers)
    cuda = trainer.accelerator in ("gpu", "cuda") or (
        trainer.accelerator == "auto" and torch.cuda.is_available()
    )
    there = torch.cuda.device_count() if cuda else max(LEAST_PROCESSES, os.cpu_count() or 1)
    if cuda and not there:
        raise ConfigError(
            f"trainer.accelerator is {trainer.accelerator!r}; torch sees no GPU here: cpu or auto"
        )
    if trainer.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("trainer.accelerator is 'mps', which this machine does not have; set cpu or auto")
    wanted = max(devices) + 1 if isinstance(devices, list) and cuda else devices
    if isinstance(wanted, int) and wanted > there:
        what = "GPUs that torch sees" if cuda else "processes that a machine like this has use for"
        raise ConfigError(f"trainer.devices is {trainer.devices!r}; it must be at most {there}, the {what}")
