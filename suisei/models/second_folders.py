"""What a model folder's config.json says of second models, and where in the folder they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.errors import ModelError
from suisei.models.folder_checks import PAIRED, RESTORE, SEVERAL
from suisei.models.second import FOLDERS, Second, Weighing, check_apart, said_of
from suisei.ranges import shown

Said = Sequence[tuple[Weighing, bool]]
"""Of every second model how it is weighed, and whether it is shared."""


def settings_for(seconds: Sequence[Second]) -> dict[str, Any]:
    """Return what config.json says where there are second models, the format among it."""
    if not seconds:
        return {}
    if len(seconds) == 1 and not seconds[0].shared:  # which earlier versions read too
        return {"format": PAIRED, "second": seconds[0].weighing.to_dict()}
    return {"format": SEVERAL, "second": [second.to_dict() for second in seconds]}


def said_of_seconds(folder: Path, config: Mapping[str, Any]) -> Said:
    """Return what :func:`settings_for` gave, and somebody may have altered since.

    Raises:
        ModelError: a setting that cannot be.
    """
    if config["format"] < PAIRED:
        return []
    place, said = f"{folder}/config.json: second", config.get("second")
    if config["format"] == PAIRED:
        return [(Weighing.from_dict(said, place), False)]
    if not isinstance(said, list) or not 1 <= len(said) <= len(FOLDERS):
        raise ModelError(f"{place} is {shown(said)}; it must be a list of 1 to {len(FOLDERS)}; {RESTORE}")
    found = [said_of(own, f"{place}[{number}]") for number, own in enumerate(said)]
    check_apart([weighing for weighing, _ in found], place)
    return found


def configs_of(said: Said) -> list[str]:
    """Return the names of their config.json files, as the first's checksums list them."""
    return [f"{name}/config.json" for name, _ in zip(FOLDERS, said, strict=False)]


def seconds_in(
    folder: Path, config: Mapping[str, Any], said: Said, within: Path | None
) -> tuple[Second, ...]:
    """Return the second models of a folder, not yet read.

    Args:
        folder: the first's folder.
        config: what its config.json holds.
        said: what that says of them.
        within: see :func:`suisei.models.folder.load_model`.
    """
    place = within and within.absolute()  # read later, when a program may work in another folder
    return tuple(
        Second(weighing, (folder / name).absolute(), place, config["sha256"][f"{name}/config.json"], shared)
        for name, (weighing, shared) in zip(FOLDERS, said, strict=False)
    )
