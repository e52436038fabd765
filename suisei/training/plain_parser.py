"""The parser of a training's settings: plain values alone, and errors of one line that name the setting."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from collections.abc import Iterator
from functools import reduce
from typing import Any, Literal, NoReturn, get_args, get_type_hints

from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningArgumentParser

from suisei.errors import ConfigError, SuiseiError

LONGEST_ERROR = 400
"""A message of the parser is cut to so many characters."""
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

_WITHIN = re.compile(
    r"([\w.]+): Does not validate against any of the Union subtypes Subtypes: \[.*?\] Errors: "
    r"- Problem with given class_path '[\w.]+': (.*) - Expected a NoneType Given value type: .*"
)
"""What the parser says of settings that may be null, and of what is wrong within them."""
_GROUP = re.compile(r"(?<!['\w])(?!Literal|Path)[A-Z]\w+")
"""The class of a group of settings among the types that a message lists."""
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
        kinds = _GROUP.sub("settings of its own", kinds)
        text = f"{name}: expected {' or '.join(re.split(r', (?![^[]*])', kinds))}, got {value!r}"
    listed = re.search(r"[Ee]xpected .*\b(tuple|list)\b", text)
    return f"{text}; a list is one word, as '[1,5]'" if listed else text


def _whole_first(kind: Any) -> Any:
    """Return a type whose values are read as whole numbers where they are, and then as other numbers.

    The parser takes the first type that fits, and 3 fits a float. The order of an annotation is no help:
    typing takes Optional[Union[int, float]] and Optional[Union[float, int]] for one, and gives whichever was
    made first in the process.
    """
    kinds = get_args(kind)
    if not {int, float} <= set(kinds):
        return kind
    return reduce(operator.or_, sorted(kinds, key=lambda one: (one is not int, one is not float)))


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
        last = name.rpartition(".")[2]  # --monitor for checkpoint.monitor
        near = [last] if last in own else difflib.get_close_matches(name, own, 3)
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
        for action in self._actions:
            if hasattr(action, "_typehint"):
                action._typehint = _whole_first(action._typehint)
        for name, (kind, default, text) in PLAIN.items():
            self.add_argument(f"--{nested_key}.{name}", type=kind, default=default, help=text)
        return added
