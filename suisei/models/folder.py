"""Model folders: what a trained model is on disk, written whole and checked when read.

config.json         format, settings, architectures, extra inputs, checksums of the other files
model.safetensors   weights, whole or in parts of 4 and 8 bits (:mod:`suisei.models.quantization`)
idf.json            document frequencies of the training references
tokenizer/          the tokenizer's files
extras.json ...     what the extra inputs were fitted to, see :mod:`suisei.models.extras_folder`
second/             another model's folder, where one is weighed beside it (:mod:`suisei.models.second`)
README.md           the model card

A folder may come from somebody else. Its settings are a closed list of names, types and ranges; nothing in
it is executed or unpickled, nothing outside it is read for it, and no memory is taken that its weights do not
fill.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from suisei.data.idf import IdfTable
from suisei.encoders.image import ImageEncoder
from suisei.encoders.rules import BUILD_ERRORS, one_line
from suisei.encoders.text import TextEncoder, read_tokenizer
from suisei.encoders.threads import one_thread
from suisei.encoders.weights import Unfilled, check_fit, filled_by, save_weights, take_weights, weight_shapes
from suisei.errors import ConfigError, ModelError, SuiseiError
from suisei.models.config import RegressorConfig
from suisei.models.extras_folder import SavedInput, read_extras, write_extras
from suisei.models.packed_rows import TABLE, packed_rows, put_rows
from suisei.models.quantization import dequantize_state, dequantized_shapes, is_rounded
from suisei.models.regressor import Regressor
from suisei.models.second import FOLDER as SECOND
from suisei.models.second import Second, Weighing, copied
from suisei.ranges import shown
from suisei.version import __version__

FORMAT, ROUNDED, PAIRED = 2, 3, 4
"""Version of the folder's layout: in the first, states of extra inputs stood in config.json; the third has
weights in parts of few bits, the fourth a second model."""
READABLE = (1, 2, 3, 4)
CHECKED = ("model.safetensors", "idf.json")
SECOND_CONFIG = f"{SECOND}/config.json"
RESTORE = "restore the file, or train or export the model again"
LARGEST_CONFIG, LARGEST_FILE = 2**28, 2**36
"""Bytes of config.json and of any other file: more than any model needs that suisei can make."""
PIECE = 2**22
"""Bytes that are hashed at once: a thread that hashes seldom waits for the interpreter."""
_PARTS = ("format", "settings", "text_architecture", "image_architecture", "extras", "sha256")


@dataclass(frozen=True)
class LoadedModel:
    """A model read from a folder.

    Attributes:
        regressor: the model in evaluation mode, on the CPU, float32.
        extras: what the model holds of every extra input, by name.
        checksum: hash of the settings and of all other files, for the signature.
        path: the folder.
        within: where links in it may lead to, see :func:`load_model`.
        second: another model that is weighed beside it, not yet read.
    """

    regressor: Regressor
    extras: Mapping[str, SavedInput]
    checksum: str
    path: Path
    within: Path | None = None
    second: Second | None = None


def save_model(
    folder: Path,
    regressor: Regressor,
    *,
    extras: Mapping[str, SavedInput] | None = None,
    card: str = "",
    stored: Mapping[str, Tensor] | None = None,
    second: Second | None = None,
) -> None:
    """Write a model folder; an existing one is replaced once the new one is complete.

    Args:
        folder: where to write.
        regressor: the model.
        extras: what :meth:`suisei.metrics.extras.ExtraInputs.state` returned. Dual encoders are written into
            the folder, so that it needs no other.
        card: text of the model card.
        stored: its weights as they are to be stored, see :func:`suisei.models.quantization.quantize_state`;
            None for as they are.
        second: a model that is weighed beside it, whose folder is copied.

    Raises:
        ConfigError: an extra input of the model is not among ``extras``, or cannot go into a folder.
        ModelError: the second model has a second itself.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        new = Path(name) / folder.name
        new.mkdir()
        config = _write_parts(new, regressor, extras or {}, stored or regressor.state_dict())
        _complete(new, config, card, second)
        put_in_place(new, folder, aside=Path(name) / "old")


def save_pair(folder: Path, first: LoadedModel, second: Second, *, card: str = "") -> None:
    """Write a folder that holds one model as it is stored, and a second beside it.

    Args:
        folder: where to write; a folder that is there is replaced.
        first: a loaded model without a second.
        second: what is weighed beside it, whose folder is copied.
        card: text of the model card.

    Raises:
        ModelError: either of them has a second model already.
    """
    config = read_config(first.path, first.within)
    if first.second is not None:
        raise ModelError(f"{first.path} has a second model already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        new = Path(name) / folder.name
        copied(first.path, new, (own for own in config["sha256"] if own != "config.json"))
        _complete(new, config, card, second)
        put_in_place(new, folder, aside=Path(name) / "old")


def _complete(new: Path, config: dict[str, Any], card: str, second: Second | None) -> None:
    """Write a new folder's card, its second model, and config.json with all checksums."""
    if second is not None:
        config |= _write_second(new, second)
    (new / "README.md").write_text(card, encoding="utf-8")
    config["sha256"] = checksums(new)
    config["sha256"]["config.json"] = own_checksum(config)
    (new / "config.json").write_text(
        json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _write_parts(
    new: Path, regressor: Regressor, extras: Mapping[str, SavedInput], weights: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Write all but config.json and the card; returns what config.json says, save for the checksums."""
    names = list(regressor.config.fusion.extra_inputs)
    absent = [name for name in names if name not in extras]
    if absent:
        raise ConfigError(f"the model reads extra inputs that are not saved with it: {', '.join(absent)}")
    save_weights(weights, new / "model.safetensors")
    regressor.idf.save(new / "idf.json")
    regressor.text.tokenizer.save_pretrained(new / "tokenizer")
    own, record = write_extras(new, names, extras)
    settings = regressor.config.to_dict()
    settings["fusion"]["extra_inputs"] = own
    return {
        "format": ROUNDED if is_rounded(weights) else FORMAT,
        "suisei": __version__,
        "settings": settings,
        "text_architecture": regressor.text.architecture(),
        "image_architecture": None if regressor.image is None else regressor.image.architecture(),
        "extras": record,
    }


def _write_second(new: Path, second: Second) -> dict[str, Any]:
    """Copy a second model, and return what config.json says of it."""
    config = read_config(second.folder, second.within)
    if config["format"] >= PAIRED:
        raise ModelError(f"{second.folder} has a second model itself, and cannot be one")
    copied(second.folder, new / SECOND, config["sha256"])
    return {"format": PAIRED, "second": second.weighing.to_dict()}


def put_in_place(new: Path, folder: Path, *, aside: Path) -> None:
    """Rename ``new`` to ``folder``; what was there goes ``aside``, and comes back if that fails."""
    replaced = folder.exists()
    if replaced:
        folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        if replaced:
            aside.rename(folder)
        raise


def is_model_folder(path: str | Path) -> bool:
    """Return whether a folder is one that :func:`save_model` wrote, and no other encoder's."""
    return (Path(path) / "idf.json").is_file()


def load_model(
    path: str | Path,
    check_inputs: Callable[[Sequence[str]], Any],
    *,
    within: Path | None = None,
    packed: bool = False,
) -> LoadedModel:
    """Read a model folder and check every file of it. Nothing in it is executed or unpickled.

    Args:
        path: the folder.
        check_inputs: called with the names of the extra inputs before anything is built; refuses those that
            a folder may not name, such as :func:`suisei.metrics.extras.check_names`.
        within: a folder above it that links may lead to, as those of the hub's cache do; by default none may
            leave the folder.
        packed: whether word vectors that are stored in few bits stay so, for scoring on the CPU.

    Raises:
        ModelError: the folder, a file or a weight is missing, altered, or does not fit.
    """
    folder = Path(path)
    config = read_config(folder, within)
    paired = config["format"] >= PAIRED
    problems, sound = _misplaced(folder, config, within, (*CHECKED, *([SECOND_CONFIG] if paired else [])))
    _refuse(folder, problems and [*problems, *_altered(folder, config, sound)])
    second = _second(folder, config, within) if paired else None
    with ThreadPoolExecutor(1) as pool:
        altered = pool.submit(_altered, folder, config, sound)
        try:
            with one_thread():
                regressor, extras = _read(folder, config, check_inputs, packed)
        finally:
            _refuse(folder, altered.result())  # which says more than what it led to
    return LoadedModel(regressor, extras, config["sha256"]["config.json"], folder, within, second)


def _second(folder: Path, config: Mapping[str, Any], within: Path | None) -> Second:
    weighing = Weighing.from_dict(config.get("second"), f"{folder}/config.json: second")
    return Second(weighing, folder / SECOND, within, config["sha256"][SECOND_CONFIG])


def load_second(second: Second, check_inputs: Callable[[Sequence[str]], Any], *, packed: bool) -> LoadedModel:
    """Read a second model; the arguments are those of :func:`load_model`.

    Raises:
        ModelError: it cannot be read, or is another than when the first was.
    """
    path = second.folder / "config.json"
    if not path.is_file() or sha256_of(path) != second.checksum:
        raise ModelError(f"{second.folder}: was altered since the model was loaded; {RESTORE}")
    found = load_model(second.folder, check_inputs, within=second.within, packed=packed)
    if found.second is not None:
        raise ModelError(f"{second.folder} has a second model itself, and cannot be one")
    return found


def _read(
    folder: Path, config: Mapping[str, Any], check_inputs: Callable[[Sequence[str]], Any], packed: bool
) -> tuple[Regressor, dict[str, SavedInput]]:
    try:
        settings = RegressorConfig.from_dict(config["settings"])
        check_inputs(settings.fusion.extra_inputs)
        extras = _read_extras(folder, config, settings.fusion.extra_inputs)
        return _build(folder, config, settings, packed), extras
    except SuiseiError as error:
        told = str(error) if str(folder) in str(error) else f"{folder}: {error}"
        raise ModelError(told) from None
    except BUILD_ERRORS as error:
        raise ModelError(f"{folder}: its parts do not go together: {one_line(error)}") from None


def _build(folder: Path, config: Mapping[str, Any], settings: RegressorConfig, packed: bool) -> Regressor:
    """Build the model without memory, compare its size with that of its weights, and give it those."""
    tokenizer, idf = read_tokenizer(folder / "tokenizer"), IdfTable.load(folder / "idf.json")
    path = folder / "model.safetensors"

    def made() -> Regressor:
        text = TextEncoder.from_architecture(config["text_architecture"], tokenizer)
        architecture = config["image_architecture"]
        image = None if architecture is None else ImageEncoder.from_architecture(architecture)
        return Regressor(settings, text, image, idf)

    shapes = weight_shapes(path)
    rounded = config["format"] >= ROUNDED
    with torch.device("meta"), Unfilled():
        regressor = made()
    check_fit(regressor, dequantized_shapes(shapes) if rounded else shapes, str(path))
    weights = load_file(path)
    rows = packed_rows(regressor, weights) if packed else None
    put_rows(regressor, rows)
    # Copied: what was read is the file's own memory, which somebody may overwrite.
    weights = dequantize_state(weights) if rounded else {key: own.clone() for key, own in weights.items()}
    if not filled_by(regressor, weights):  # it has numbers that are computed, as positions are
        with Unfilled():
            regressor = made()
        put_rows(regressor, rows)
    if rows is not None:
        weights |= rows.state_dict(prefix=TABLE)
    take_weights(regressor, weights)
    regressor.eval()
    regressor.requires_grad_(False)
    with torch.inference_mode():  # settings that fit the weights and still cannot compute show here
        regressor.text(*regressor.text.pad(regressor.text.tokenize(["a 犬"])))
    return regressor


def _read_extras(folder: Path, config: Mapping[str, Any], names: Sequence[str]) -> dict[str, SavedInput]:
    if config["format"] == 1:  # which holds their states and no more
        return {name: SavedInput(state) for name, state in config["extras"].items()}
    return read_extras(folder, names, config["extras"], str(config.get("suisei", ""))[:20])


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
        within: see :func:`load_model`.
        parts: what must be there; "sha256" is among it.
        formats: versions of the layout that are read.

    Raises:
        ModelError: there is none, or none that this version reads.
    """
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}; give the folder that holds config.json")
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: config.json is missing")
    if not _inside(folder, "config.json", within) or path.stat().st_size > LARGEST_CONFIG:
        raise ModelError(f"{path}: a link that leaves the folder, or larger than any config; {RESTORE}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: not valid JSON ({one_line(error)}); restore the file or export the model again"
        ) from None
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


def verify_files(
    folder: Path, config: dict[str, Any], within: Path | None, checked: Sequence[str] = CHECKED
) -> None:
    """Hold a folder's files against the checksums in its config.

    Args:
        folder: the folder.
        config: what its config.json holds.
        within: see :func:`load_model`.
        checked: files that must be there and have one.

    Raises:
        ModelError: a file is missing, altered, too large, not listed, or outside of the folder.
    """
    problems, sound = _misplaced(folder, config, within, checked)
    _refuse(folder, [*problems, *_altered(folder, config, sound)])


def _misplaced(
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
        elif not path.is_file():
            problems.append(f"{name} is missing")
        elif path.stat().st_size > LARGEST_FILE:
            problems.append(f"{name} is larger than any model's")
        else:
            sound.append(name)
    problems += [f"{name} is not among the checksums in config.json" for name in _unlisted(folder, expected)]
    return problems, sound


def _altered(folder: Path, config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return what to say of those files that are not what their checksums say."""
    return [
        f"{name} was altered (it differs from its checksum in config.json)"
        for name in names
        if config["sha256"][name]
        != (own_checksum(config) if name == "config.json" else sha256_of(folder / name))
    ]


def _refuse(folder: Path, problems: Sequence[str]) -> None:
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
    parts = [path for name in ("tokenizer", "extras", SECOND) for path in (folder / name).rglob("*")]
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


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        piece = memoryview(bytearray(min(PIECE, max(1, path.stat().st_size))))
        while read := file.readinto(piece):
            digest.update(piece[:read])
    return digest.hexdigest()
