"""Extra inputs in a model folder, as plain data; :mod:`suisei.metrics.extras` makes metrics of them.

config.json           of each input the options and settings that it was computed with
extras.json           its state, save for long lists
extras.safetensors    those of numbers
extras.txt            those of texts, one a line
extras/NAME/          its dual encoder, where it has one
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.encoders.rules import BUILD_ERRORS, check_folder
from suisei.errors import ModelError, one_line
from suisei.models.packed_counts import PackedCounts
from suisei.ranges import Rule, Suits, shown

if TYPE_CHECKING:
    from suisei.encoders.dual import DualEncoder

ENCODER_FOLDER = "extras"
"""Folder inside a model folder that holds the dual encoders of extra inputs."""
_ENCODER_PLACE = re.compile(rf"{ENCODER_FOLDER}/[a-z0-9+-]+")
STATES, NUMBERS, TEXTS = "extras.json", "extras.safetensors", "extras.txt"
MANY = 64
"""From as many entries on a list is kept outside of JSON, megabytes of which take long to read."""
_TENSOR, _KEYS, _LINES = "$tensor", "$keys", "$lines"


@dataclass(frozen=True)
class SavedInput:
    """What a model holds of one extra input.

    Attributes:
        state: its corpus statistics.
        options: keyword arguments that it was made with.
        settings: what decided its scores in training; None in folders that do not say so.
        encoder: its dual encoder, while the model is in memory only.
        folder: its dual encoder's folder, inside the model's.
        version: the suisei that wrote it, "" where that is this one.
    """

    state: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] | None = None
    encoder: DualEncoder | None = None
    folder: Path | None = None
    version: str = ""


def is_encoder_place(place: str) -> bool:
    """Return whether a dual encoder may be at a place of a model folder."""
    return bool(_ENCODER_PLACE.fullmatch(place))


def write_extras(
    folder: Path, names: Sequence[str], saved: Mapping[str, SavedInput]
) -> tuple[list[str], dict[str, Any]]:
    """Write the extra inputs of a model into its folder.

    Args:
        folder: the new model folder.
        names: the inputs, in the order of the regressor.
        saved: what :meth:`suisei.metrics.extras.ExtraInputs.state` returned.

    Returns:
        The names that the folder knows them by, and what belongs into its config.json.
    """
    own = _own_names(folder, names, saved)
    content: dict[str, Any] = {}
    tensors: dict[str, np.ndarray] = {}
    lines: list[str] = []
    for name, new in zip(names, own, strict=True):
        state = saved[name].state
        content[new] = {key: _packed(f"{new}/{key}", value, tensors, lines) for key, value in state.items()}
    if names:
        (folder / STATES).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    if lines:
        (folder / TEXTS).write_bytes("\n".join(lines).encode("utf-8"))
    if tensors:
        import torch

        from suisei.encoders.weights import save_weights

        save_weights({name: torch.from_numpy(values) for name, values in tensors.items()}, folder / NUMBERS)
    record = {
        new: {"options": dict(saved[name].options), "settings": dict(saved[name].settings or {})}
        for name, new in zip(names, own, strict=True)
    }
    return own, record


def _own_names(folder: Path, names: Sequence[str], saved: Mapping[str, SavedInput]) -> list[str]:
    """Write each different dual encoder once, and return names that point to it inside the folder."""
    places: dict[tuple[str, str], str] = {}
    own = []
    for name in names:
        kind, encoder = name.partition(":")[0], saved[name].encoder
        if encoder is None:
            own.append(kind)
            continue
        key = (encoder.name, encoder.weights)
        if key not in places:
            from suisei.encoders.dual_folder import save_dual_encoder

            taken = set(places.values())
            tries = (f"{ENCODER_FOLDER}/{kind}{f'-{n}' if n > 1 else ''}" for n in range(1, len(names) + 2))
            places[key] = next(place for place in tries if place not in taken)
            save_dual_encoder(encoder, folder / places[key])
        own.append(f"{kind}:{places[key]}")
    return own


def _packed(place: str, value: Any, tensors: dict[str, np.ndarray], lines: list[str]) -> Any:
    """Return a value as JSON can hold it, with long lists moved to ``tensors`` and ``lines``."""
    if isinstance(value, np.ndarray):
        tensors[place] = np.ascontiguousarray(value)
        return {_TENSOR: place}
    if isinstance(value, Mapping) and len(value) >= MANY and _whole(value.values()):
        tensors[place] = np.array(list(value.values()), dtype=np.int64)
        return {_TENSOR: place, _KEYS: _in_lines(list(value), lines)}
    if isinstance(value, list) and len(value) >= MANY and all(isinstance(own, float) for own in value):
        tensors[place] = np.array(value, dtype=np.float64)
        return {_TENSOR: place}
    if isinstance(value, list) and len(value) >= MANY and all(isinstance(own, str) for own in value):
        return _in_lines(value, lines)
    return value


def _in_lines(texts: list[str], lines: list[str]) -> Any:
    """Move texts to ``lines`` and return where they are; those of which one has a line's end stay."""
    if any("\n" in text for text in texts):
        return texts
    lines += texts
    return {_LINES: [len(lines) - len(texts), len(texts)]}


def _whole(values: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


_RECORD: dict[str, Rule] = {
    "options": Suits("options by name", lambda value: isinstance(value, dict)),
    "settings": Suits(
        "texts by name",
        lambda value: isinstance(value, dict) and all(isinstance(own, str) for own in value.values()),
    ),
}


def read_extras(
    folder: Path, names: Sequence[str], record: Mapping[str, Any], version: str
) -> dict[str, SavedInput]:
    """Return the extra inputs that a model folder holds.

    Args:
        folder: the folder, whose files have been checked.
        names: the inputs, as its settings name them.
        record: what its config.json says of them.
        version: the suisei that wrote it.

    Raises:
        ModelError: a part is missing or damaged, or a name leads out of the folder.
    """
    if not names:
        return {}
    try:
        content = json.loads((folder / STATES).read_bytes().decode("utf-8"))
        tensors, texts = _tensors(folder / NUMBERS), _Texts(folder / TEXTS)
        states = {
            name: {key: _unpacked(value, tensors, texts) for key, value in content[name].items()}
            for name in names
        }
    except BUILD_ERRORS as error:
        raise ModelError(
            f"{folder}/{STATES}: damaged ({one_line(error)}); train or export it again"
        ) from None
    saved = {}
    for name in names:
        if name not in record:
            raise ModelError(f"{folder}/config.json: extras lacks {name}")
        own = check_folder(record[name], _RECORD, f"extras.{name}", required=tuple(_RECORD))
        place = name.partition(":")[2]
        if place and not is_encoder_place(place):
            raise ModelError(
                f"{folder}/config.json: extra input {shown(name)} leads out of {ENCODER_FOLDER}/"
            )
        saved[name] = SavedInput(
            states[name],
            own["options"],
            own["settings"],
            folder=folder / place if place else None,
            version=version,
        )
    return saved


def _tensors(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        return {}
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name}: {error}") from None


class _Texts:
    """The lines of a file, cut apart where somebody wants a list of them."""

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes() if path.is_file() else b""
        ends = np.flatnonzero(np.frombuffer(self._content, np.uint8) == ord("\n"))
        last = [len(self._content)] if self._content else []
        self._bounds = np.concatenate([[-1], ends, last]).astype(np.int64)

    def block(self, place: Any) -> str:
        """Return the lines at ``place``, first and number, in one."""
        start, count = place
        held = len(self._bounds) - 1
        if not (type(start) is type(count) is int and 0 <= start <= start + count <= held):
            raise ValueError(f"lines {shown(place)} of {TEXTS}, which has {held:,}")
        end = self._bounds[start + count]
        return self._content[self._bounds[start] + 1 : max(end, 0)].decode("utf-8")

    def lines(self, place: Any) -> list[str]:
        """Return the lines at ``place``, apart."""
        block = self.block(place)
        return block.split("\n") if place[1] else []


def _unpacked(value: Any, tensors: Mapping[str, np.ndarray], texts: _Texts) -> Any:
    if isinstance(value, dict) and _LINES in value:
        return texts.lines(value[_LINES])
    if not isinstance(value, dict) or _TENSOR not in value:
        return value
    numbers = tensors[value[_TENSOR]]
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"{value[_TENSOR]} is not a list of finite numbers")
    if _KEYS not in value:
        return numbers
    keys = value[_KEYS]
    if isinstance(keys, dict) and _LINES in keys:
        return PackedCounts(texts.block(keys[_LINES]), numbers)
    if set(map(type, keys)) - {str}:
        raise ValueError(f"{value[_TENSOR]} has names that are not text")
    return dict(zip(keys, numbers.tolist(), strict=True))
