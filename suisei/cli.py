"""What every command shares: one-line errors and warnings, exit statuses, quiet libraries."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.errors import SuiseiError

if TYPE_CHECKING:
    from rich.console import Console

Command = Callable[[Sequence[str] | None], int]


def run_command(command: Command, argv: Sequence[str] | None = None) -> int:
    """Run a command's ``main`` and turn an expected error into one line and exit status 2.

    A warning of this package is one line too, without the place in the source.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # silences a warning after a fork
    usual = warnings.formatwarning
    warnings.formatwarning = _one_line(usual)
    try:
        return command(argv)
    except SuiseiError as error:
        sys.stderr.write(f"suisei: {error}\n")
        return 2
    except BrokenPipeError:  # the reader of our output went away, such as `| head`
        # What is left in the buffer must go somewhere when the interpreter flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("suisei: interrupted\n")
        return 130
    finally:
        warnings.formatwarning = usual


def _one_line(usual: Callable[..., str]) -> Callable[..., str]:
    package = str(Path(__file__).parent)

    def format_warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if category is UserWarning and filename.startswith(package):
            return f"suisei: {message}\n"
        return usual(message, category, filename, lineno, line)

    return format_warning


def table_console() -> Console:
    """Return the console for tables on standard output."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:  # a pipe has no width: let lines be as long as they are
        console = Console(width=200)
    return console
