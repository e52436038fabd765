"""The parser of all commands: errors of a line, a short help and a whole one."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from suisei.cli import write_output
from suisei.errors import ConfigError
from suisei.runlog.events import begin

COMMON = (
    "--model", "--metrics", "--input", "--data", "--images", "--references", "--output", "--json",
    "--markdown", "--plot",
)  # fmt: skip
"""The options that most people use, which a short help shows unless the command says which."""
MOST_SHOWN = 13
"""So many options are shown whichever they are."""

Add = Callable[..., Any]
"""``add_argument`` of a parser or of a group of its options."""


class CommandParser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong with an option, like every other error.

    Description and epilog are shown as they are written. ``--help`` shows the options that most people use
    and the examples of the epilog, ``--help all`` everything.

    Args:
        args: of argparse's parser.
        common: the options that the short help shows.
        settings: of argparse's parser.
    """

    def __init__(self, *args: Any, common: Sequence[str] = COMMON, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**settings, "add_help": False})
        self._common = common
        self._typed: Sequence[str] = ()
        self.add_argument(
            "-h", "--help", action=_Help, nargs="?", metavar="all", default=argparse.SUPPRESS,
            help="show this message; --help all: every option",
        )  # fmt: skip

    def short_help(self) -> str:
        """Return the help on what most people use; the whole help where there is not much more."""
        options = [action for action in self._actions if action.option_strings]
        hidden = [
            action
            for action in options
            if not action.required and not {*self._common, "--help"} & {*action.option_strings}
        ]
        if len(options) - 1 <= MOST_SHOWN or not hidden:
            return self.format_help()
        rest = f"{self.prog} --help all shows all {len(options) - 1} options and says more of what it does.\n"
        with _without(hidden), _epilog(self, _examples(self.epilog)):
            return f"{self.format_help()}\n{rest}"

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; ``--option=--``, an empty list to argparse before Python 3.13 and a text since, is refused.

        Files may stand before and after options, where argparse takes those of one place alone.
        """
        self._typed = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        files = next((one for one in self._actions if not one.option_strings and one.nargs == "+"), None)
        if rest and files and not any(one.startswith("-") for one in rest):
            setattr(found, files.dest, [*getattr(found, files.dest), *self._get_values(files, rest)])
            rest = []
        for action in self._actions:
            value = getattr(found, action.dest, None)
            empty = value == [] != action.default or (isinstance(value, list) and [] in value)
            typed = any(f"{name}=--" in self._typed for name in action.option_strings)
            if typed or (action.nargs is None and empty):
                self.error(f"argument {'/'.join(action.option_strings) or action.metavar}: '--' is no value")
        if hasattr(found, "loudness"):
            begin(found.log_json, found.loudness, self.prog, list(map(str, self._typed)))
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError in place of printing all options."""
        raise ConfigError(f"{message}{self._near()} (see {self.prog} --help)")

    def _near(self) -> str:
        """Return what an option that there is not was probably meant to be."""
        known = list(_option_names(self))
        for argument in self._typed:
            name = argument.partition("=")[0]
            if len(name) > 2 and name[0] == "-" and not any(option.startswith(name) for option in known):
                near = difflib.get_close_matches(f"--{name.strip('-')}".lower().replace("_", "-"), known, 1)
                if near:
                    return f"; {name[:60]} is no option, did you mean {near[0]}?"
        return ""


class _Help(argparse.Action):
    """Shows the short help, or with ``all`` the whole."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> NoReturn:
        if values not in (None, "all") and not str(values).startswith("-"):
            parser.error(f"argument --help: takes nothing or 'all', got {str(values)[:40]!r}")
        short = parser.short_help() if isinstance(parser, CommandParser) and values is None else None
        write_output(short or parser.format_help())
        parser.exit()


@contextmanager
def _without(actions: Iterable[argparse.Action]) -> Iterator[None]:
    """Leave options out of a help message."""
    texts = [(action, action.help) for action in actions]
    for action, _ in texts:
        action.help = argparse.SUPPRESS
    try:
        yield
    finally:
        for action, text in texts:
            action.help = text


@contextmanager
def _epilog(parser: argparse.ArgumentParser, text: str | None) -> Iterator[None]:
    """Give a parser another epilog for a while."""
    before, parser.epilog = parser.epilog, text
    try:
        yield
    finally:
        parser.epilog = before


def _examples(epilog: str | None) -> str | None:
    """Return the part of an epilog that shows examples."""
    parts = (epilog or "").split("\n\n")
    return next((part for part in parts if part.startswith("examples:")), parts[0]) or None


def _option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the long options of a parser and of the commands inside it."""
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _option_names(inner)
