"""A table as LaTeX for the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LONG_HEADING = 13
"""Characters that a heading of a column has on one line."""
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}

LatexRow = tuple[str, Sequence[str], Sequence[str]]
"""Label, figures, and their intervals, "" where there is none."""


def latex_table(title: str, headings: Sequence[str], rows: Sequence[LatexRow]) -> list[str]:
    """Return the lines of a table, with each interval below its figure.

    Args:
        title: the caption.
        headings: of the labels, and of each column of figures.
        rows: as many figures and intervals each as there are such columns.
    """
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(title)}}}"]
    if any(any(intervals) for _, _, intervals in rows):
        # four of them side by side are as wide as a page at most
        lines.append(r"\footnotesize\setlength{\tabcolsep}{3pt}")
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", r"\toprule"]
    lines += [" & ".join(map(_heading, headings)) + r" \\", r"\midrule"]
    for row in rows:
        lines += _row(*row)
    return [*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]


def _row(label: str, figures: Sequence[str], intervals: Sequence[str]) -> list[str]:
    """Return a line of figures, and one of their intervals where there are any."""
    line = " & ".join([_behind_break(_latex(label)), *map(_number, figures)])
    if not any(intervals):
        return [rf"{line} \\"]
    small = [rf"{{\scriptsize {_number(text)}}}" if text else "" for text in intervals]
    return [rf"{line} \\", rf"{' & '.join(['', *small]).lstrip()} \\[2pt]"]


def _latex(text: Any) -> str:
    characters: Sequence[str] = " ".join(str(text).split())
    return "".join(_ESCAPES.get(character, character) for character in characters).replace("–", "--")


def _behind_break(text: str) -> str:
    r"""Return what follows a ``\\`` or a rule, whose argument a star or bracket at its beginning would be."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def _number(text: str) -> str:
    return text.replace("–", "--") if text == "–" else text.replace("-", "$-$").replace("<", "$<$")


def _heading(text: str) -> str:
    """Return a column's heading, on two lines if it is long."""
    words = _latex(text).split(" ")
    if len(text) > _LONG_HEADING:
        middle = min(range(1, len(words)), default=0, key=lambda cut: _unevenness(words, cut))
        if middle:
            lower = _behind_break(" ".join(words[middle:]))
            words = [rf"\shortstack[r]{{{' '.join(words[:middle])}\\{lower}}}"]
    return " ".join(words).replace("tau-b", r"$\tau_b$").replace("tau-c", r"$\tau_c$")


def _unevenness(words: Sequence[str], cut: int) -> int:
    return abs(len(" ".join(words[:cut])) - len(" ".join(words[cut:])))
