"""``suisei metrics``: the registered metrics, what each needs, and which work on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from suisei.cli import table_console, write_output
from suisei.commands.command_parser import CommandParser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = CommandParser(
        prog="suisei metrics",
        description="List the metrics, what each needs of a sample, and why one is unavailable here.",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON list instead of a table")
    options = parser.parse_args(argv)
    rows = list_rows()
    if options.json:
        write_output(json.dumps(rows, ensure_ascii=False, indent=2) + "\n")
    else:
        _show(rows)
    return 0


def list_rows() -> list[dict[str, Any]]:
    """Return name, needs (all of them, and one of ``either``), summary and availability of each metric.

    ``available`` is False where something is absent on this machine, and ``reason`` says what. It is
    None where it depends on what the metric is given when it runs, and ``requires`` says what that is.
    """
    from suisei.metrics.registry import REGISTRY, Entry, get_entry, list_metrics, unavailable_reason
    from suisei.scoring.columns import failure_text

    rows = []
    for name in list_metrics():
        entry = REGISTRY.get(name) or Entry("", (), "of another package")
        try:
            entry, reason = get_entry(name), unavailable_reason(name)
        except Exception as error:  # of another package, which leaves the others as they are
            if name in REGISTRY:
                raise
            reason = failure_text(error)
        rows.append(
            {
                "name": name,
                "argument": entry.argument,
                "needs": list(entry.needs),
                "either": list(entry.either),
                "summary": entry.summary,
                "available": False if reason else None if entry.requires else True,
                "reason": reason,
                "requires": entry.requires,
            }
        )
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Metrics", title_justify="left", title_style="bold")
    table.add_column("name", no_wrap=True)
    for heading in ("needs", "what it is", "available here"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        state = "yes" if row["available"] else f"with {row['requires']}"
        if row["reason"]:
            state = f"no: {row['reason']}"
        name = row["name"] + (f":{row['argument'].upper()}" if row["argument"] else "")
        style = "dim" if row["reason"] else ""
        needs = ", ".join(row["needs"]) or " or ".join(row["either"]) or "candidate only"
        table.add_row(*map(escape, (name, needs, row["summary"], state)), style=style)
    table_console(160).print(table)
