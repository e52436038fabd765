"""Where a command writes a new model folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suisei.data.paths import is_inside
from suisei.errors import ConfigError


def check_new_folder(output: str, models: Sequence[str]) -> None:
    """Refuse a folder that is there, or that would lie in a model's, whose files are listed.

    Args:
        output: the new folder.
        models: those that it is made of, as they were named; one on the hub has no folder to lie in.

    Raises:
        ConfigError: another folder must be named.
    """
    if Path(output).exists():
        raise ConfigError(f"--output {output} exists; name a new folder, or remove it first")
    for model in models:
        if Path(model).is_dir() and is_inside(model, output):
            raise ConfigError(f"--output {output} lies in the model {model}, which it would make unreadable")
