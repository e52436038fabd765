"""What tests of commands share: a run of one, and rows of JSON in files."""

import json
from pathlib import Path

from suisei.cli import run_command


def run(main, *arguments):
    """Return the exit status of a command's ``main`` with arguments of any type."""
    return run_command(main, [str(argument) for argument in arguments])


def write_rows(path, rows):
    """Write rows as JSON Lines and return the path."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read_rows(path):
    """Return the rows of a file of JSON Lines."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
