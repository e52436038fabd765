"""What a folder from somebody else must be before anything of it is read: its config, files and checksums.

Shared by the folders of models and of RECAP's latent reconstructions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from suisei.data.checksums import sha256_of
from suisei.errors import ModelError, one_line
from suisei.models.second import FOLDERS
from suisei.ranges import shown

FORMAT, ROUNDED, PAIRED, SEVERAL = 2, 3, 4, 5
"""Version of the folder's layout: in the first, states of extra inputs stood in config.json; the third has
weights in parts of few bits, the fourth a second model, the fifth a list of such, which may be shared."""
READABLE = (1, 2, 3, 4, 5)
CHECKED = ("model.safetensors", "idf.json")
RESTORE = "restore the file, or train or export the model again"
LARGEST_CONFIG, LARGEST_FILE = 2**28, 2**36
"""Bytes of config.json and of any other file: more than any model needs that suisei can make."""
MOST_LEVELS = 50
"""Of values within values in config.json: a model has a few, and what reads them takes some hundred."""
LONG_NAME = 200
"""From as many characters on, a file's name is not told whole."""
_PARTS = ("format", "settings", "text_architecture", "image_architecture", "extras", "sha256")


def read_config(
    folder: Path,
    within: Path | None = None,
    *,
    parts: Sequence[str] = _PARTS,
    formats: Sequence[int] = READABLE,
) -> dict[str, Any]:
    """Return what a folder's config.json holds, of which the parts are there and no more is checked.

    Args:
        folder: the folder.
        within: see :func:`suisei.models.folder.load_model`.
        parts: what must be there; "sha256" is among it.
        formats: versions of the layout that are read.

    Raises:
        ModelError: there is none, none that this version reads, or one of another kind of model.
    """
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}; give the folder that holds config.json")
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: config.json is missing{_trained_in(folder)}")
    if not _inside(folder, "config.json", within) or path.stat().st_size > LARGEST_CONFIG:
        raise ModelError(f"{path}: a link that leaves the folder, or larger than any config; {RESTORE}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: not valid JSON ({one_line(error)}); restore the file or export the model again"
        ) from None
    if _is_deep(config):
        raise ModelError(f"{path}: nested too deeply; a config has a few levels; {RESTORE}")
    kind = config.get("kind") if isinstance(config, dict) else None
    if kind is not None and "kind" not in parts:
        raise ModelError(
            f"{folder} holds a model of the kind {shown(kind)}; a SuiSei model of ratings is needed"
        )
    if kind is None and "kind" in parts and isinstance(config, dict) and "settings" in config:
        raise ModelError(f"{folder} holds a SuiSei model of ratings; one of another kind is needed")
    absent = [key for key in parts if not isinstance(config, dict) or key not in config]
    if absent:
        raise ModelError(f"{path}: lacks {', '.join(absent)}; {RESTORE}")
    if type(config["format"]) is not int or config["format"] not in formats:
        raise ModelError(
            f"{path}: format {shown(config['format'])}, this suisei reads "
            f"{', '.join(map(str, formats))}; install a matching version"
        )
    for key in ("extras", "sha256"):
        if key in parts and not isinstance(config[key], dict):
            raise ModelError(f"{path}: {key} is {shown(config[key])}; it must be values by name; {RESTORE}")
    return config


def _is_deep(content: Any) -> bool:
    """Whether values lie within values deeper than :data:`MOST_LEVELS`."""
    level = [content]
    for _ in range(MOST_LEVELS):
        nested = [part for part in level if isinstance(part, dict | list)]
        level = [value for part in nested for value in (part.values() if isinstance(part, dict) else part)]
    return bool(level)


def verify_files(folder: Path, config: dict[str, Any], within: Path | None, checked: Sequence[str]) -> None:
    """Hold a folder's files against the checksums in its config.

    Args:
        folder: the folder.
        config: what its config.json holds.
        within: see :func:`suisei.models.folder.load_model`.
        checked: files that must be there and have one.

    Raises:
        ModelError: a file is missing, altered, too large, not listed, or outside of the folder.
    """
    problems, sound = misplaced(folder, config, within, checked)
    refuse(folder, [*problems, *altered(folder, config, sound)])


def misplaced(
    folder: Path, config: Mapping[str, Any], within: Path | None, checked: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return what is wrong with a folder's files before any is read, and the listed ones that can be."""
    expected = config["sha256"]
    problems = [
        f"config.json lacks the checksum of {name}"
        for name in (*checked, "config.json")
        if name not in expected
    ]
    sound = []
    for name in expected:
        path = folder / name
        if not _inside(folder, name, within):
            problems.append(f"{shown(name)} leads out of the folder")
        elif not _is_file(path):
            told = name if len(name) < LONG_NAME and name.isprintable() else shown(name)
            problems.append(f"{told} is missing")
        elif path.stat().st_size > LARGEST_FILE:
            problems.append(f"{name} is larger than any model's")
        else:
            sound.append(name)
    problems += [f"{name} is not among the checksums in config.json" for name in _unlisted(folder, expected)]
    return problems, sound


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have, as one too long
        return False


def _trained_in(folder: Path) -> str:
    """Say where the model is, or those of all folds are, if the folder is that of a training."""
    own, first = folder / "model", folder / "fold-0" / "model"
    if (own / "config.json").is_file():
        return f"; the model of this training is in {own}"
    if (first / "config.json").is_file():
        return f"; this training has a model for each fold, {first} and so on"
    return ""


def altered(folder: Path, config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return what to say of those files that are not what their checksums say."""
    return [
        f"{name} was altered (it differs from its checksum in config.json)"
        for name in names
        if config["sha256"][name]
        != (own_checksum(config) if name == "config.json" else sha256_of(folder / name))
    ]


def refuse(folder: Path, problems: Sequence[str]) -> None:
    """Raise what is wrong with a folder, if anything is.

    Raises:
        ModelError: there are problems; all are told.
    """
    if problems:
        raise ModelError(f"{folder}: {'; '.join(problems)}; {RESTORE}")


def _inside(folder: Path, name: str, within: Path | None) -> bool:
    """Whether a name is one of a file in the folder, and no link leads out of what it may lead to."""
    pure = PurePosixPath(name)
    if not name or "\\" in name or "\0" in name or ":" in name or pure.is_absolute() or ".." in pure.parts:
        return False
    try:
        return (folder / name).resolve().is_relative_to((within or folder).resolve())
    except (OSError, RuntimeError):  # a link to itself
        return False


def _unlisted(folder: Path, expected: Mapping[str, Any]) -> list[str]:
    """Return the files that would be read without being checked; people may keep others beside them."""
    parts = [path for name in ("tokenizer", "extras", *FOLDERS) for path in (folder / name).rglob("*")]
    found = [*parts, *folder.glob("extras.*")]
    names = [path.relative_to(folder).as_posix() for path in found if path.is_symlink() or path.is_file()]
    return sorted(name for name in names if name not in expected and not Path(name).name.startswith("."))


def checksums(folder: Path) -> dict[str, str]:
    """Return {relative name: sha256} of every file but the model card, which people may edit."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


def own_checksum(config: dict[str, Any]) -> str:
    """Return the sha256 of the settings themselves, whatever the order and layout of the file."""
    checksums = {name: value for name, value in config["sha256"].items() if name != "config.json"}
    content = json.dumps({**config, "sha256": checksums}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
