"""The settings of a run: read safely, compared with those of an earlier start, kept off the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from suisei.data.karpathy_parts import file_of
from suisei.errors import ConfigError
from suisei.ranges import differences

LARGEST_CONFIG = 1_000_000
"""Bytes of a config file."""
MOST_LEVELS = 50
"""Values within values of a config."""
MOST_VALUES = 20_000
"""Values of a config, those that anchors repeat counted each time."""
NAMES_OF_CODE = ("class_path", "init_args", "dict_kwargs")
"""How a config could name a class for jsonargparse to import and make; no setting of a run needs it."""
HARMLESS = (
    "baselines",
    "checkpoint_steps",
    "data.num_workers",
    "data.eval_batch_size",
    "trainer.enable_progress_bar",
    "trainer.enable_model_summary",
    "trainer.log_every_n_steps",
    "trainer.logger",
    "trainer.profiler",
    "trainer.default_root_dir",
    "checkpoint.dirpath",
    "checkpoint.verbose",
    "output",
    "ckpt_path",
    "config",
)
"""Settings that a resumed run may change without a word: they change no weight and no figure of the model."""
MAY_CHANGE = (
    "trainer.max_epochs",
    "trainer.min_epochs",
    "trainer.max_steps",
    "trainer.min_steps",
    "trainer.max_time",
    "early_stopping",
    "patience_steps",
    "trainer.accelerator",
    "trainer.devices",
    "trainer.strategy",
    "data.train",
    "data.validation",
    "data.test",
    "data.support",
    "data.root",
    "data.images",
    "model.checkpoint",
    "report_metrics",
)
"""Settings that a resumed run may change, and says so: how long it trains, where it runs and has its data,
and what its report measures."""


def named_configs(arguments: Sequence[str]) -> list[Path]:
    """Return the config files that a command line names."""
    following = [*arguments[1:], ""]
    named = [
        argument.partition("=")[2] or after
        for argument, after in zip(arguments, following, strict=True)
        if argument in ("--config", "-c") or argument.startswith("--config=")
    ]
    return [Path(name) for name in named if name]


def read_config(path: Path) -> dict[str, Any]:
    """Read a YAML config as plain values; nothing that it names is imported or executed.

    Raises:
        ConfigError: it is missing, no file, too large, not text, not YAML of plain values, or names classes.
    """
    try:
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is no file" if path.exists() else "does not exist"
            raise ConfigError(f"--config {path}: {what}; give a YAML file, or the name of a shipped config")
        size = path.stat().st_size
        if size > LARGEST_CONFIG:
            raise ConfigError(
                f"--config {path}: {size:,} bytes; a config has at most {LARGEST_CONFIG:,}: give a YAML file"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--config {path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config {path}: not a text file in UTF-8; give a YAML file") from None
    return parse_config(text, f"--config {path}")


def parse_config(text: str, place: str) -> dict[str, Any]:
    """Parse the text of a config, see :func:`read_config`.

    Args:
        text: YAML.
        place: what messages begin with.

    Raises:
        ConfigError: it is not YAML of plain values, is beyond the limits of a config, or is no settings.
    """
    content = parse_value(text, place)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{place}: holds a {type(content).__name__}, not settings; write them as `name: value`"
        )
    return content


def parse_value(text: str, place: str) -> Any:
    """Return the plain values that a text holds, within the limits of a config.

    Args:
        text: YAML.
        place: what messages begin with.

    Raises:
        ConfigError: it is not YAML of plain values, or is beyond the limits.
    """
    try:
        return load_limited(text, place, yaml.safe_load)
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        raise ConfigError(f"{place}{where}: not YAML of plain values: {problem}") from None


def load_limited(text: str, place: str, load: Callable[[str], Any]) -> Any:
    """Return what YAML holds, within the limits of a config.

    Args:
        text: YAML.
        place: what messages begin with.
        load: reads it.

    Raises:
        ConfigError: it is too large, nested too deeply, has too many values, or names classes.
        yaml.YAMLError: it is no YAML.
    """
    if len(text) > LARGEST_CONFIG:
        raise ConfigError(f"{place}: {len(text):,} characters; a config has at most {LARGEST_CONFIG:,}")
    _refuse_depth(text, place)
    content = load(text)
    _refuse_code(content, place)
    return content


def _refuse_depth(text: str, place: str) -> None:
    """Refuse values within values within values, on which the parser spends seconds before it gives up."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise ConfigError(f"{place}: nested too deeply; a config has a few levels")


def _refuse_code(content: Any, place: str) -> None:
    """Refuse names of classes, and more values than a config can need."""
    waiting: list[tuple[str, Any]] = [("", content)]
    count = 0
    while waiting:
        name, value = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise ConfigError(f"{place}: more than {MOST_VALUES:,} values; that is no config")
        if isinstance(value, dict):
            named = [key for key in value if key in NAMES_OF_CODE]
            if named:
                raise ConfigError(
                    f"{place}: {name or 'the config'} has {named[0]}: a config names no classes and no code; "
                    "take it out"
                )
            waiting += [(f"{name}.{key}" if name else str(key), part) for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(name, part) for part in value]


def check_resumed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Refuse to go on with a run under settings that make it another one.

    Args:
        old: the settings that it was started with.
        new: those of now.

    Returns:
        A sentence on settings that differ and may; None where there is none.

    Raises:
        ConfigError: other settings differ.
    """
    changed = {key: text for key, text in differences(old, new).items() if not _is_of(key, HARMLESS)}
    refused = [text for key, text in changed.items() if not _is_of(key, MAY_CHANGE)]
    if refused:
        raise ConfigError(
            f"the run was started with other settings: {'; '.join(refused[:5])}"
            f"{f'; and {len(refused) - 5} more' if len(refused) > 5 else ''}. Go on with those of its "
            "config.yaml, or train anew in another --output"
        )
    return f"going on with other settings: {'; '.join(changed.values())}" if changed else None


def _is_of(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def refuse_own_data(output: Path, inputs: Mapping[str, Iterable[str | Path]]) -> None:
    """Refuse to write a run into a folder that is, or holds, what it reads.

    Args:
        output: the run's folder.
        inputs: {setting: files and folders that it names}; what does not exist is passed over.

    Raises:
        ConfigError: an input is in the folder.
    """
    folder = output.resolve()
    for setting, paths in inputs.items():
        for path in (Path(file_of(str(path))) for path in paths):
            if path.exists() and path.resolve().is_relative_to(folder):
                how = "is" if path.resolve() == folder else "holds"
                raise ConfigError(
                    f"--output {output} {how} {setting} ({path}), and the run would write there; choose a "
                    "folder of its own"
                )
