"""How captions and rewards change while a captioner is tuned: two files of lines and a figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.data.figures import new_figure, save_figure, style
from suisei.data.outputs import raise_first, write_texts

CURVE, SAMPLES = "curve.jsonl", "samples.jsonl"
_LETTERS = 34
"""So many of a title have room above a panel, capitals too; kana and kanji are two each."""
_LINE = 0.2
"""Inches of a line of the title."""


class CaptionLog:
    """Lines of a run's folder, each of a step of training.

    A run that goes on from an earlier step writes the later ones anew: lines of steps that are written again,
    or come after, are dropped.

    Args:
        folder: the run's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(
        self, step: int, figures: Mapping[str, float | None], samples: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add what validation found.

        Args:
            step: optimizer steps so far.
            figures: {name: value}, for the curve.
            samples: captions of the same images every time.

        Raises:
            DataError: a file cannot be written.
        """
        changed = self._changed(step, samples)
        lines = {
            CURVE: [*before(self.folder / CURVE, step), {"step": step, **figures}],
            SAMPLES: [*before(self.folder / SAMPLES, step), *({"step": step, **one} for one in changed)],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = (
            (self.folder / name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            for name, rows in lines.items()
        )
        raise_first(write_texts(texts))

    def _changed(self, step: int, samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the samples whose caption is not the one that was written last."""
        last = {row["image"]: row["caption"] for row in before(self.folder / SAMPLES, step)}
        return [sample for sample in samples if last.get(sample["image"]) != sample["caption"]]


def before(path: Path, step: int | None = None) -> list[dict[str, Any]]:
    """Return the lines of a file that are of steps before this one, or all; none where it is not there."""
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")  # a file's name may hold other ends of lines
    rows = [json.loads(line) for line in lines if line.strip()]
    return [row for row in rows if step is None or row["step"] < step]


def plot_curve(path: Path, folder: Path, title: str) -> bool:
    """Draw the figures of a run's curve over its steps, a panel each; returns whether there was anything.

    Args:
        path: file of the figure.
        folder: the run's.
        title: above the figure.
    """
    rows = before(folder / CURVE)
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "step"]
    if len(rows) < 2 or not names:
        return False
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    heading = _broken(title, _LETTERS * columns)
    with style():
        figure = new_figure((4.0 * columns, 2.6 * lines + _LINE * (len(heading) - 1)))
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel, name in zip(panels, names, strict=False):
            points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
            panel.plot([step for step, _ in points], [value for _, value in points], marker=".")
            panel.set_title(name)
        for panel in panels[len(names) :]:
            panel.set_axis_off()
        figure.suptitle("\n".join(heading))
        figure.supxlabel("step")
        save_figure(figure, path)
    return True


def _broken(text: str, width: int) -> list[str]:
    """Return lines of at most so many letters; a longer word, as a reward's folder may be, is cut."""
    from rich.cells import cell_len, chop_cells

    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += chop_cells(word, width)
    return lines
