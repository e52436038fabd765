"""Model folders: what a trained model is on disk, written whole and checked when read.

config.json         format, settings, architectures, extra inputs, checksums of the other files; and of which
                    ratings it learned, for people alone
model.safetensors   weights, whole or in parts of 4 and 8 bits (:mod:`suisei.models.quantization`)
idf.json            document frequencies of the training references
tokenizer/          the tokenizer's files
extras.json ...     what the extra inputs were fitted to, see :mod:`suisei.models.extras_folder`
second/, second-2/  another model's folder, where one is weighed beside it (:mod:`suisei.models.second`)
README.md           the model card

A folder may come from somebody else. Its settings are a closed list of names, types and ranges; nothing in
it is executed or unpickled, nothing outside it is read for it, and no memory is taken that its weights do not
fill.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from suisei.data.checksums import sha256_of
from suisei.data.writers import replacing_folder
from suisei.encoders.rules import built_from
from suisei.encoders.threads import one_thread
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, ModelError, one_line
from suisei.models.config import RegressorConfig, portable
from suisei.models.extras_folder import SavedInput, read_extras, write_extras
from suisei.models.folder_checks import (
    CHECKED,
    FORMAT,
    PAIRED,
    RESTORE,
    ROUNDED,
    altered,
    checksums,
    misplaced,
    own_checksum,
    read_config,
    refuse,
)
from suisei.models.folder_regressor import build_regressor
from suisei.models.quantization import is_rounded
from suisei.models.regressor import Regressor
from suisei.models.second import FOLDERS, Second, check_apart, copied
from suisei.models.second_folders import configs_of, said_of_seconds, seconds_in, settings_for
from suisei.models.shared_second import network_of, read_shared, settings_of
from suisei.version import __version__

LEFT_OUT = ("config.json", *FOLDERS)
"""What is written anew where a model is stored again."""


@dataclass(frozen=True)
class LoadedModel:
    """A model read from a folder.

    Attributes:
        regressor: the model in evaluation mode, on the CPU, in float32 but where it was read for bf16.
        extras: what the model holds of every extra input, by name.
        checksum: hash of the settings and of all other files, for the signature.
        path: the folder.
        within: where links in it may lead to, see :func:`load_model`.
        seconds: other models that are weighed beside it, each for its languages, not yet read.
    """

    regressor: Regressor
    extras: Mapping[str, SavedInput]
    checksum: str
    path: Path
    within: Path | None = None
    seconds: tuple[Second, ...] = ()


def save_model(
    folder: Path,
    regressor: Regressor,
    *,
    extras: Mapping[str, SavedInput] | None = None,
    card: str = "",
    stored: Mapping[str, Tensor] | None = None,
    seconds: Sequence[Second] = (),
    ratings: Mapping[str, Any] | None = None,
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
        seconds: models that are weighed beside it, whose folders are copied.
        ratings: what is known of the ratings that it learned from (:func:`suisei.data.raters.rating_facts`).

    Raises:
        ConfigError: an extra input of the model is not among ``extras``, or cannot go into a folder.
        ModelError: a second model has a second itself.
    """
    with replacing_folder(folder) as new:
        config = _write_parts(new, regressor, extras or {}, stored or regressor.state_dict())
        config |= {"ratings": dict(ratings)} if ratings else {}
        _complete(new, config, card, seconds)


def save_pair(folder: Path, first: LoadedModel, second: Second, *, card: str = "") -> None:
    """Write a folder that holds one model as it is stored, and one more beside it.

    Args:
        folder: where to write; a folder that is there is replaced.
        first: a loaded model, which may have a second in another language.
        second: what is weighed beside it, whose folder is copied, or of a shared one the network.
        card: text of the model card.

    Raises:
        ModelError: the first has a second model in one of its languages, the second has one itself, or the
            first is of a layout whose extra inputs stood in config.json.
    """
    seconds = (*first.seconds, second)
    check_apart([own.weighing for own in seconds], str(first.path))
    _save_as_stored(folder, first, _config_of(first), card, seconds)


def save_bridged(folder: Path, model: LoadedModel, bridge: Sequence[float], *, card: str = "") -> None:
    """Write a folder that holds a model as it is stored, with another line for cosines across languages.

    Args:
        folder: where to write; a folder that is there is replaced.
        model: a loaded model that starts from the cosine.
        bridge: slope and offset, see :class:`suisei.models.config.HeadConfig`.
        card: text of the model card.

    Raises:
        ModelError: it is of a layout whose extra inputs stood in config.json.
    """
    config = _config_of(model)
    config["settings"]["head"]["bridge"] = list(bridge)
    _save_as_stored(folder, model, config, card, model.seconds)


def ratings_of(model: LoadedModel) -> dict[str, Any] | None:
    """Return what a folder says of the ratings that its model learned from; None of one that says nothing."""
    said = read_config(model.path, model.within).get("ratings")
    return said if isinstance(said, dict) else None


def _config_of(model: LoadedModel) -> dict[str, Any]:
    """Return what a model's config.json says, if all else of it lies in files."""
    config = read_config(model.path, model.within)
    if config["format"] == 1 and config["extras"]:
        raise ModelError(f"{model.path} was written by an older suisei; write it anew with suisei compact")
    return config


def _save_as_stored(
    folder: Path, model: LoadedModel, config: dict[str, Any], card: str, seconds: Sequence[Second]
) -> None:
    """Write a folder of the files of another, with a config, a card and second models of its own."""
    with replacing_folder(folder) as new:
        copied(model.path, new, (own for own in config["sha256"] if own.split("/")[0] not in LEFT_OUT))
        _complete(new, config, card, seconds)


def _complete(new: Path, config: dict[str, Any], card: str, seconds: Sequence[Second]) -> None:
    """Write a new folder's card, its second models, and config.json with all checksums."""
    for name, second in zip(FOLDERS, seconds, strict=False):
        _write_second(new / name, second, config)
    config |= settings_for(seconds)
    (new / "README.md").write_text(card, encoding="utf-8")
    sign(new, config)


def sign(new: Path, config: dict[str, Any]) -> None:
    """Write a folder's config.json, with the checksums of all other files and its own."""
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
    settings = portable(regressor.config.to_dict())
    settings["fusion"]["extra_inputs"] = own
    return {
        "format": ROUNDED if is_rounded(weights) else FORMAT,
        "suisei": __version__,
        "settings": settings,
        "text_architecture": regressor.text.architecture(),
        "image_architecture": None if regressor.image is None else regressor.image.architecture(),
        "extras": record,
    }


def _write_second(new: Path, second: Second, first: Mapping[str, Any]) -> None:
    """Copy a second model into its folder beside the first, whose config is given."""
    config = read_config(second.folder, second.within)
    if config["format"] >= PAIRED:
        raise ModelError(f"{second.folder} has a second model itself, and cannot be one")
    whole = "idf.json" in config["sha256"]
    if not second.shared or not whole:  # a shared one lies beside a first model already
        copied(second.folder, new, config["sha256"])
        return
    new.mkdir()
    regressor = load_model(second.folder, lambda _: None, within=second.within).regressor
    save_weights(network_of(regressor), new / "model.safetensors")
    sign(new, settings_of(config, first))


def is_model_folder(path: str | Path) -> bool:
    """Return whether a folder is one that :func:`save_model` wrote, and no other encoder's."""
    return (Path(path) / "idf.json").is_file()


def read_card(folder: Path) -> str:
    """Return the text of a model folder's card, "" where it has none.

    Raises:
        ModelError: it is no UTF-8 text.
    """
    path = folder / "README.md"
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not UTF-8 text ({one_line(error)}); mend or remove it") from None


def load_model(
    path: str | Path,
    check_inputs: Callable[[Sequence[str]], Any],
    *,
    within: Path | None = None,
    scoring: str | None = None,
) -> LoadedModel:
    """Read a model folder and check every file of it. Nothing in it is executed or unpickled.

    Args:
        path: the folder.
        check_inputs: called with the names of the extra inputs before anything is built; refuses those that
            a folder may not name, such as :func:`suisei.metrics.extras.check_names`.
        within: a folder above it that links may lead to, as those of the hub's cache do; by default none may
            leave the folder.
        scoring: the precision in which the model is to score on the CPU and do nothing else: word vectors
            that are stored in few bits then stay so, and in "bf16" encoders never are anything wider. None
            for all else.

    Raises:
        ModelError: the folder, a file or a weight is missing, altered, or does not fit.
    """
    folder = Path(path)
    config = read_config(folder, within)
    said = said_of_seconds(folder, config)
    problems, sound = misplaced(folder, config, within, (*CHECKED, *configs_of(said)))
    refuse(folder, problems and [*problems, *altered(folder, config, sound)])
    seconds = seconds_in(folder, config, said, within)
    with ThreadPoolExecutor(1) as pool:
        changed = pool.submit(altered, folder, config, sound)
        try:
            with one_thread():
                regressor, extras = _read(folder, config, check_inputs, scoring)
        finally:
            refuse(folder, changed.result())  # which says more than what it led to
    return LoadedModel(regressor, extras, config["sha256"]["config.json"], folder, within, seconds)


def load_second(
    second: Second,
    check_inputs: Callable[[Sequence[str]], Any],
    first: LoadedModel,
    *,
    scoring: str | None = None,
) -> LoadedModel:
    """Read a second model.

    Args:
        second: the model.
        check_inputs: see :func:`load_model`.
        first: the model that it lies in, whose encoder a shared one reads with.
        scoring: see :func:`load_model`.

    Raises:
        ModelError: it cannot be read, or is another than when the first was.
    """
    path = second.folder / "config.json"
    if not path.is_file() or sha256_of(path) != second.checksum:
        raise ModelError(f"{second.folder}: was altered since the model was loaded; {RESTORE}")
    if second.shared:
        regressor, inputs, checksum = read_shared(second, first.regressor, first.extras)
        return LoadedModel(regressor, inputs, checksum, second.folder, second.within)
    found = load_model(second.folder, check_inputs, within=second.within, scoring=scoring)
    if found.seconds:
        raise ModelError(f"{second.folder} has a second model itself, and cannot be one")
    return found


def _read(
    folder: Path,
    config: Mapping[str, Any],
    check_inputs: Callable[[Sequence[str]], Any],
    scoring: str | None,
) -> tuple[Regressor, dict[str, SavedInput]]:
    with built_from(folder):
        settings = RegressorConfig.from_dict(config["settings"])
        check_inputs(settings.fusion.extra_inputs)
        extras = _read_extras(folder, config, settings.fusion.extra_inputs)
        return build_regressor(folder, config, settings, scoring), extras


def _read_extras(folder: Path, config: Mapping[str, Any], names: Sequence[str]) -> dict[str, SavedInput]:
    if config["format"] == 1:  # which holds their states and no more
        return {name: SavedInput(state) for name, state in config["extras"].items()}
    return read_extras(folder, names, config["extras"], str(config.get("suisei", ""))[:20])
