"""An explanation in words: sentences, and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from suisei.explain.explanation import Explanation, InputEffect, ReferenceEffect, SecondEffect

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LEAST = 0.005
"""Smaller effects are called none in sentences."""
MOST_INPUTS = 12
_BAR = 16
"""Cells of the longest bar."""
_ZERO = 1e-6
"""Nearer to 0 than this, a number that a model reads is 0, and an effect none: BLEU is never quite 0."""

TYPICAL_NOTE = (
    "moved: the score, less what it would be with this number at its typical value and all else as it is; "
    "typical is the mean over the training data, or for cosines what the model counts them from: a constant, "
    "or in a model that starts from the cosine a mean before training. Numbers that say the same hide each "
    "other, so all of a kind are replaced together too"
)


def parts_of(explanation: Explanation) -> list[tuple[str, float]]:
    """Return what was left out as a whole, and the score without it: what there is, the full score first."""
    named = [
        ("with all", explanation.score),
        ("without the image", explanation.without_image),
        ("without references", explanation.without_references),
        ("the candidate alone", explanation.candidate_alone),
        ("without the second model", None if explanation.second is None else explanation.second.without),
    ]
    return [(name, score) for name, score in named if score is not None]


def sentences(explanation: Explanation) -> list[str]:
    """Return what matters most, in a few sentences of plain text."""
    score = explanation.score
    said = [f"{explanation.metric} gives this caption {score:.3f}."]
    for what, without in (
        ("image", explanation.without_image),
        ("references", explanation.without_references),
    ):
        if without is not None:
            said.append(_part_sentence(what, score - without, without))
    if explanation.second is not None:
        said.append(_second_sentence(explanation.second))
    if len(explanation.references) > 1:
        said.append(_nearest_sentence(explanation.references))
    return said + list(_word_sentences(explanation)) + list(_input_sentences(explanation))


def _part_sentence(what: str, moved: float, without: float) -> str:
    if abs(moved) < LEAST:
        return f"The {what} hardly change{'s' * (what == 'image')} it."
    verb = ("raises" if moved > 0 else "lowers") if what == "image" else ("raise" if moved > 0 else "lower")
    return f"The {what} {verb} it by {abs(moved):.3f}, from {without:.3f} without."


def _nearest_sentence(references: Sequence[ReferenceEffect]) -> str:
    """Return which reference is the nearest of those that are read; one unread moves nothing."""
    near = next((one for one in references if one.moved is None or abs(one.moved) > _ZERO), references[0])
    which = "" if near is references[0] else " of those that move the score"
    return f"The nearest reference{which} is “{near.text}”{_alone(near.alone)}."


def _second_sentence(effect: SecondEffect) -> str:
    """Return what the second model says and how much it counts, even where that changes nothing."""
    beginning = f"The second model says {effect.says:.3f}; its share is {effect.share:.3f}"
    if abs(effect.moved) < LEAST:
        return f"{beginning}, and it hardly changes the score."
    verb = "raises" if effect.moved > 0 else "lowers"
    return f"{beginning}, and it {verb} the score by {abs(effect.moved):.3f}."


def _alone(score: float | None) -> str:
    return "" if score is None else f", with which alone it would be {score:.3f}"


def _word_sentences(explanation: Explanation) -> Iterator[str]:
    known = sorted(
        (word for word in explanation.words if word.moved is not None),
        key=lambda word: word.moved or 0.0,
        reverse=not explanation.higher_is_better,
    )
    if not known:
        return
    best, worst = known[-1], known[0]
    if explanation.helps(best.moved) and abs(best.moved or 0) >= LEAST:
        yield f"The word that helps most is “{best.text}”: without it, {best.without:.3f}."
    if explanation.helps(-(worst.moved or 0)) and abs(worst.moved or 0) >= LEAST:
        yield f"The word that costs most is “{worst.text}”: without it, {worst.without:.3f}."
    if max(abs(word.moved or 0) for word in known) < LEAST:
        yield "No single word changes it much."


def _input_sentences(explanation: Explanation) -> Iterator[str]:
    known = inputs_there(explanation)
    if known and abs(known[0].moved or 0) >= LEAST:
        most = known[0]
        verb = "raises" if (most.moved or 0) > 0 else "lowers"
        yield (
            f"Of the numbers that go in, {most.name} ({_number(most.value)}, {_beside(most)}) {verb} it "
            f"most, by {abs(most.moved or 0):.3f}."
        )


def _beside(effect: InputEffect) -> str:
    """Return what a number is compared with: of cosines there may be nothing but a constant of the model."""
    how = "counted from" if effect.kind.startswith("cosines") else "typically"
    return f"{how} {_number(effect.typical)}"


def terminal_parts(explanation: Explanation) -> Iterator[RenderableType]:
    """Yield what a rich console shows: sentences, then a table of each kind of effect."""
    from rich.text import Text

    yield Text(explanation.candidate, style="bold")
    yield Text(" ".join(sentences(explanation)))
    if len(parts_of(explanation)) > 1:
        yield _part_table(explanation)
    if explanation.references:
        yield _reference_table(explanation)
    if explanation.words:
        yield _word_table(explanation)
    if inputs_there(explanation):
        yield _input_table(explanation)
        yield Text(f"· {TYPICAL_NOTE}", style="dim")
    for note in (*explanation.notes, f"signature: {explanation.signature}"):
        yield Text(f"· {note}", style="dim")


def _table(title: str, first: str, headings: Sequence[str]) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table as NewTable

    table = NewTable(title=title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    return table


def _part_table(explanation: Explanation) -> Table:
    from rich.text import Text

    table = _table("With and without", "", ["score", "moved"])
    for name, score in parts_of(explanation):
        moved = "" if name == "with all" else signed(explanation.score - score)
        table.add_row(Text(name), f"{score:.3f}", moved)
    return table


def _reference_table(explanation: Explanation) -> Table:
    from rich.text import Text

    cosines = any(effect.cosine is not None for effect in explanation.references)
    table = _table(
        "References, nearest first",
        "reference",
        [*(["cosine"] if cosines else []), "alone", "without", "moved"],
    )
    for number, effect in enumerate(explanation.references, start=1):
        near = [_plain(effect.cosine)] if cosines else []
        table.add_row(
            Text(f"{number}: {effect.text}"),
            *near,
            _plain(effect.alone),
            _plain(effect.without),
            signed(effect.moved),
        )
    return table


def _word_table(explanation: Explanation) -> Table:
    from rich.text import Text

    table = _table("Words, each left out in turn", "word", ["without", "moved", ""])
    most = max((abs(word.moved or 0) for word in explanation.words), default=0.0)
    for word in explanation.words:
        table.add_row(
            Text(word.text), _plain(word.without), signed(word.moved), _bar(explanation, word.moved, most)
        )
    return table


def _input_table(explanation: Explanation) -> Table:
    from rich.text import Text

    groups = [effect for effect in explanation.groups if effect.moved is not None]
    inputs = inputs_there(explanation)
    shown = [*groups, *inputs[:MOST_INPUTS]]
    table = _table("Numbers that went in", "number", ["value", "typical", "moved", ""])
    most = max((abs(effect.moved or 0) for effect in shown), default=0.0)
    for effect in shown:
        table.add_row(
            Text(input_label(effect)),
            "" if effect.members > 1 else _number(effect.value),
            _number(effect.typical) if effect.typical is not None else "",
            signed(effect.moved),
            _bar(explanation, effect.moved, most),
        )
    rest = len(inputs) - MOST_INPUTS
    if rest > 0:
        table.add_row(Text(f"{rest} more, each of less effect", style="dim"))
    return table


def inputs_there(explanation: Explanation) -> list[InputEffect]:
    """Return the numbers that went in: those that compare with references are not there without any."""
    return [effect for effect in explanation.inputs if effect.moved is not None]


def input_label(effect: InputEffect) -> str:
    """Return what a number, or a group of them, is called."""
    return f"{effect.name} ({effect.members})" if effect.members > 1 else effect.name


def _bar(explanation: Explanation, moved: float | None, most: float) -> str:
    if moved is None or not most:
        return ""
    length = round(_BAR * abs(moved) / most)
    colour = "green" if explanation.helps(moved) else "red"
    return f"[{colour}]{('+' if moved > 0 else '-') * length}[/]" if length else ""


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else "0" if abs(value) < _ZERO else f"{value:.3g}"


def signed(value: float | None) -> str:
    """Return how far something moves a score; nothing that rounds to 0 has a sign."""
    if value is None:
        return "–"
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text
