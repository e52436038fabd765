"""A table of results as Markdown, LaTeX and JSON; :mod:`suisei.metaeval.terminal` shows it on a console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from suisei.cli import counted
from suisei.metaeval.labels import short_names
from suisei.metaeval.latex import LatexRow, latex_table
from suisei.metaeval.markdown import markdown_code, markdown_text

LABELS = {"pearson": "Pearson", "spearman": "Spearman", "tau-b": "Kendall tau-b", "tau-c": "Kendall tau-c"}
_WHOLE = ("overall", "all")
"""Titles of a first section that is of all samples, and whose parts the others are."""
SCOPES = ("overall", "language", "system")
"""What sections of correlations may be over: all samples, those of a language, those of a system."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a table.

    Attributes:
        value: the number, or None where there is none; then ``reason`` says why.
        low: lower end of its confidence interval.
        high: upper end of its confidence interval.
        reason: why there is no value or no interval, what they leave out, or that one lies outside the other.
        signature: what the number is, in one line.
        is_p_value: show a tiny one as ``<0.001`` instead of as 0.
        digits: decimals shown, where they are not those of the table.
    """

    value: float | int | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    signature: str | None = None
    is_p_value: bool = False
    digits: int | None = None

    def text(self, digits: int = 3, interval: bool = True) -> str:
        """Return the cell as shown: ``0.512 [0.498, 0.527]``, an integer, or an en dash for none."""
        digits = digits if self.digits is None else self.digits
        if self.value is None:
            return "–"
        if isinstance(self.value, int):
            return f"{self.value:,}"
        if self.is_p_value and self.value < 10**-digits:
            return f"<{10**-digits:.{digits}f}"
        text = f"{self.value:z.{digits}f}"  # z: what is rounded to nothing has no sign
        return f"{text} {self.interval_text(digits)}".rstrip() if interval else text

    def interval_text(self, digits: int = 3) -> str:
        """Return the interval as shown: ``[0.498, 0.527]``, or nothing where there is none."""
        if self.low is None or self.high is None:
            return ""
        digits = digits if self.digits is None else self.digits
        return f"[{self.low:z.{digits}f}, {self.high:z.{digits}f}]"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, at full precision."""
        names = ("value", "low", "high", "reason", "signature", "digits")
        values = {name: getattr(self, name) for name in names} | {"is_p_value": self.is_p_value or None}
        return {name: value for name, value in values.items() if value is not None or name == "value"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a metric, or the human row.

    Attributes:
        label: the metric's name as the user wrote it.
        cells: a cell per column key; columns without a cell show an en dash.
        signature: the metric's signature.
        error: why the metric has no numbers at all.
        info: anything else worth keeping in the JSON; "best" are the keys of cells that are shown in bold.
    """

    label: str
    cells: dict[str, Cell] = field(default_factory=dict)
    signature: str | None = None
    error: str | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> float | None:
        """Return the number in a column; None where there is no such cell, or no number in it."""
        return self.cells[key].value if key in self.cells else None

    def reasons(self, overall: Row | None = None, *, errors: bool = True) -> list[str]:
        """Return why numbers are absent or what they leave out, each reason once.

        What the row of all samples says already is not among them.

        Args:
            overall: that row, for one of a scope: what it has no number for, no scope is expected to have.
            errors: whether the row's error is among them.
        """
        overall = overall or Row(self.label)
        if overall.error:
            return []
        absent = {key for key, cell in overall.cells.items() if cell.value is None and cell.reason}
        said = {cell.reason for cell in overall.cells.values()}
        cells = (cell for key, cell in self.cells.items() if key not in absent)
        found = dict.fromkeys([self.error if errors else None, *(cell.reason for cell in cells)])
        return [reason for reason in found if reason and reason not in said]

    def is_best(self, key: str) -> bool:
        """Return whether the number in a column is shown in bold."""
        return key in self.info.get("best", ())

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        result: dict[str, Any] = {"label": self.label}
        result |= {name: getattr(self, name) for name in ("signature", "error") if getattr(self, name)}
        result |= self.info
        result["cells"] = {key: cell.as_dict() for key, cell in self.cells.items()}
        return result


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one scope: overall, a language or a system."""

    title: str
    rows: tuple[Row, ...]

    @property
    def scope(self) -> str | None:
        """Which of SCOPES this is; None for a section of another kind, such as one of a metric."""
        kind = self.title.partition(": ")[0]
        return kind if kind in SCOPES else None


@dataclass(frozen=True, slots=True)
class Table:
    """A results table.

    Attributes:
        title: one line above the table.
        columns: {key: heading}, in order.
        sections: blocks of rows; the first is the overall one.
        notes: lines below the table.
        meta: settings, counts and versions, for the JSON; "plotted" is the column that figures show.
        digits: decimals shown; the JSON has all.
        row_heading: heading of the labels.
    """

    title: str
    columns: dict[str, str]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    digits: int = 3
    row_heading: str = "Metric"

    @property
    def overall(self) -> Section:
        """The first section."""
        return self.sections[0]

    def row(self, label: str, section: str | None = None) -> Row:
        """Return a row by its label, from the overall section or from the one named.

        Raises:
            KeyError: there is no such row or section.
        """
        for block in self.sections:
            if section is None or block.title == section:
                for row in block.rows:
                    if row.label == label:
                        return row
        raise KeyError(f"no row {label!r} in section {section or self.overall.title!r}")

    def as_dict(self) -> dict[str, Any]:
        """Return the whole table as JSON values at full precision."""
        return {
            "title": self.title,
            **self.meta,
            "columns": self.columns,
            "row_heading": self.row_heading,
            "digits": self.digits,
            "sections": [
                {"title": section.title, "rows": [row.as_dict() for row in section.rows]}
                for section in self.sections
            ],
            "notes": list(self.notes),
        }

    def to_markdown(self, by_system: bool = True) -> str:
        """Return the table as Markdown, one table per section, notes and signatures below.

        Args:
            by_system: whether to keep the sections by system.
        """
        shown = self.sections if by_system else self.without_systems()
        lines = [f"## {markdown_text(self.title)}", ""]
        for section in shown:
            if len(shown) > 1:
                lines += [f"### {markdown_text(section.title)}", ""]
            headings = map(markdown_text, (self.row_heading, *self.columns.values()))
            lines += ["| " + " | ".join(headings) + " |"]
            lines += ["|:---|" + "---:|" * len(self.columns)]
            for row in section.rows:
                texts = [markdown_text(row.label), *self.marked(row, self.texts(row), "**", "**")]
                lines.append("| " + " | ".join(texts) + " |")
            lines.append("")
        lines += [f"- {markdown_text(note)}" for note in self.all_notes(shown)]
        lines += [f"- signature: {markdown_code(signature)}" for signature in self._signatures(shown)]
        return "\n".join(lines).rstrip() + "\n"

    def to_latex(self, scopes: Sequence[str] = ("overall", "language")) -> str:
        """Return LaTeX for the package booktabs: a table per section, with each interval below its figure.

        Args:
            scopes: which of "overall", "language" and "system" to keep; sections of other kinds stay.
        """
        shown = [section for section in self.sections if section.scope in (None, *scopes)]
        labels = short_names([row.label for section in shown for row in section.rows])
        lines = []
        for section in shown:
            title = self.title if len(self.sections) == 1 else f"{self.title} ({section.title})"
            rows = [self._latex_row(row, labels[row.label]) for row in section.rows]
            lines += latex_table(title, (self.row_heading, *self.columns.values()), rows)
        lines += [f"% {note}" for note in self.all_notes(shown or None)]
        if len(shown) < len(self.sections):
            kinds = sorted({section.scope or "" for section in self.sections} - {*scopes, ""})
            count = counted(len(self.sections) - len(shown), "section")
            lines.append(f"% left out: {count} ({', '.join(kinds)})")
        lines += [f"% signature: {' '.join(signature.split())}" for signature in self._signatures(shown)]
        return "\n".join(lines) + "\n"

    def _signatures(self, shown: Sequence[Section]) -> list[str]:
        """Return the signatures of the rows that are shown, each once: sections may be of other metrics."""
        rows = (row for section in shown or self.sections[:1] for row in section.rows)
        return list(dict.fromkeys(row.signature for row in rows if row.signature))

    def without_systems(self) -> tuple[Section, ...]:
        """Return the sections that are not of one system."""
        return tuple(section for section in self.sections if section.scope != "system")

    def texts(self, row: Row) -> list[str]:
        """Return what a row's cells show, in the order of the columns."""
        return [cell.text(self.digits) for cell in self.cells(row)]

    def marked(self, row: Row, texts: Sequence[str], begin: str, end: str) -> list[str]:
        """Return the texts of a row's columns, the best between what makes them bold."""
        return [
            f"{begin}{text}{end}" if row.is_best(key) else text
            for key, text in zip(self.columns, texts, strict=True)
        ]

    def _latex_row(self, row: Row, label: str) -> LatexRow:
        cells = self.cells(row)
        figures = self.marked(row, [cell.text(self.digits, False) for cell in cells], r"\textbf{", "}")
        return label, figures, [cell.interval_text(self.digits) for cell in cells]

    def cells(self, row: Row) -> list[Cell]:
        """Return a row's cells in the order of the columns, empty ones where it has none."""
        empty = Cell(None)
        return [row.cells.get(key, empty) for key in self.columns]

    def all_notes(self, sections: Sequence[Section] | None = None, *, errors: bool = True) -> list[str]:
        """Return the notes, and why numbers are absent or what they leave out, with the sections it is of.

        What the section of all samples says, where there is one, no other repeats, and it is not named.

        Args:
            sections: those that are shown; None for all.
            errors: whether the errors of rows are among them; not where they stand beside the rows.
        """
        shown = self.sections if sections is None else sections
        whole = next((section for section in self.sections[:1] if section.title in _WHOLE), None)
        found: dict[tuple[int, str], list[str]] = {}
        overall: dict[str, Row] = {}
        for place, section in enumerate(shown):
            for row in section.rows:
                for reason in row.reasons(overall.get(row.label), errors=errors):
                    found.setdefault((place, reason), []).append(row.label)
            if section is whole:
                overall = {row.label: row for row in section.rows}
        alike: dict[tuple[str, str], list[Section]] = {}
        for (place, reason), labels in found.items():
            alike.setdefault((", ".join(labels), reason), []).append(shown[place])
        notes = [
            f"{labels}{'' if each == [whole] or len(each) == len(shown) else _scope_of(each)}: {reason}"
            for (labels, reason), each in alike.items()
        ]
        return [" ".join(note.split()) for note in (*self.notes, *notes)]


def _scope_of(sections: Sequence[Section]) -> str:
    return f" ({'; '.join(section.title for section in sections)})"
