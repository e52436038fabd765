"""Parts of the page as HTML: scores as bars, and why the first one is what it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from suisei.demo.scoreboard import Shown

if TYPE_CHECKING:
    from suisei.explain.explanation import Explanation, ReferenceEffect, WordEffect

STYLE = """
.sui { font-size: 15px; line-height: 1.5; color: var(--body-text-color); }
.sui h3 { margin: 18px 0 6px; font-size: 15px; font-weight: 600; }
.sui .hint, .sui th { opacity: .7; }
.sui .row { display: grid; grid-template-columns: 8.5em 1fr 4.5em; gap: 12px; align-items: center;
  padding: 5px 0; }
.sui .row .name { font-weight: 500; overflow-wrap: anywhere; }
.sui .row .value { text-align: right; font-variant-numeric: tabular-nums; }
.sui .row .track { height: 12px; border-radius: 6px; background: var(--background-fill-secondary);
  border: 1px solid var(--border-color-primary); overflow: hidden; }
.sui .row .fill { height: 100%; background: #94a3b8; }
.sui .row.first { padding: 8px 0 12px; }
.sui .row.first .name { font-size: 18px; font-weight: 600; }
.sui .row.first .value { font-size: 24px; font-weight: 600; }
.sui .row.first .fill { background: #2563eb; }
.sui .row.first .track { height: 18px; border-radius: 9px; }
.sui .words { font-size: 19px; line-height: 2.1; }
.sui .words span { padding: 3px 5px; margin: 0 1px; border-radius: 5px; white-space: nowrap; color: #0f172a; }
.sui .words span.flat { color: inherit; }
.sui .words span.costs { border-bottom: 3px solid #d9722b; border-radius: 5px 5px 0 0; }
.sui table { border-collapse: collapse; width: 100%; border: none; }
.sui tr { border: none; background: none; }
.sui td, .sui th { text-align: left; padding: 4px 10px 4px 0; vertical-align: top; font-weight: 400;
  border: none; border-bottom: 1px solid var(--border-color-primary); }
.sui td.n, .sui th.n { text-align: right; padding: 4px 0 4px 10px; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.sui code { font-size: 12px; overflow-wrap: anywhere; }
"""
"""Style sheet of the panels; colours of text and lines are those of the page, light or dark."""

EMPTY = '<div class="sui hint">Scores appear here.</div>'
_HELPS, _COSTS = "#68a3d6", "#e99a62"
"""Blue and orange as in the chart of an explanation, lighter: dark letters stand on them."""
_FAINTEST, _STRONGEST = 0.15, 0.85


def score_panel(lines: Sequence[Shown]) -> str:
    """Return a bar per metric, the first one large."""
    rows = [_score_row(line, first=number == 0) for number, line in enumerate(lines)]
    return f'<div class="sui">{"".join(rows)}</div>'


def _score_row(line: Shown, *, first: bool) -> str:
    if line.score is None:
        bar, value = f'<div class="hint">{escape(line.reason)}</div>', "–"
    else:
        value = f"{line.score:.3f}" if abs(line.score) <= 1 else f"{line.score:.1f}"
        fill = f'<div class="fill" style="width: {100 * (line.share or 0):.1f}%"></div>'
        bar = "" if line.share is None else f'<div class="track">{fill}</div>'
    return (
        f'<div class="row{" first" * first}" title="{escape(line.summary)}">'
        f'<div class="name">{escape(line.label)}</div><div>{bar}</div><div class="value">{value}</div></div>'
    )


def explanation_panel(explanation: Explanation) -> str:
    """Return why a caption has its score: sentences, its words tinted, parts and references."""
    from suisei.explain.wording import sentences

    parts = [f"<p>{escape(' '.join(sentences(explanation)))}</p>"]
    if len(explanation.words) > 1:
        parts += ["<h3>Words</h3>", _words(explanation)]
    rows = [
        _cells(name, _signed(explanation.score - without), f"{without:.3f}")
        for name, without in (
            ("the image", explanation.without_image),
            ("the references", explanation.without_references),
            ("image and references", explanation.candidate_alone),
            ("the second model", None if explanation.second is None else explanation.second.without),
        )
        if without is not None
    ]
    if rows:
        parts += ["<h3>With and without</h3>", _table(("", "effect", "score without"), rows)]
    if len(explanation.references) > 1:
        rows = [_reference(effect) for effect in explanation.references]
        parts += [
            "<h3>References, nearest first</h3>",
            _table(("", "effect", "score with it alone"), rows),
        ]
    parts += [f'<p class="hint">{escape(note)}</p>' for note in explanation.notes]
    parts.append(f'<p class="hint"><code>{escape(explanation.signature)}</code></p>')
    return f'<div class="sui"><h3>Why {explanation.score:.3f}?</h3>{"".join(parts)}</div>'


def _words(explanation: Explanation) -> str:
    """Return the caption with each word tinted by what it does, and its gaps as they are."""
    most = max((abs(word.moved or 0) for word in explanation.words), default=0.0)
    pieces, end = [], 0
    for word in explanation.words:
        pieces += [escape(explanation.candidate[end : word.start]), _word(explanation, word, most)]
        end = word.end
    pieces.append(escape(explanation.candidate[end:]))
    blue, orange = ("raise", "lower") if explanation.higher_is_better else ("lower", "raise")
    hint = f"Blue words {blue} the score, orange ones, underlined, {orange} it; hover for by how much."
    if not explanation.higher_is_better:
        hint += " Lower is better."
    return f'<div class="words">{"".join(pieces)}</div><div class="hint">{hint}</div>'


def _word(explanation: Explanation, word: WordEffect, most: float) -> str:
    moved, by = word.moved or 0, _signed(word.moved)
    kind, style = "flat", ""
    if most and abs(moved) >= _FAINTEST / 2 * most:
        strength = _FAINTEST + (_STRONGEST - _FAINTEST) * abs(moved) / most
        kind, colour = ("helps", _HELPS) if explanation.helps(moved) else ("costs", _COSTS)
        # with white, not with the page, which may be dark as the letters are
        style = f' style="background: color-mix(in srgb, {colour} {strength:.0%}, white)"'
    text = escape(word.text)
    label = f'role="img" aria-label="{text}: {by}"'  # a bare span cannot be labelled
    return f'<span class="{kind}"{style} title="{by}" {label}>{text}</span>'


def _reference(effect: ReferenceEffect) -> str:
    alone = "–" if effect.alone is None else f"{effect.alone:.3f}"
    return _cells(effect.text, _signed(effect.moved), alone)


def _table(headings: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th class="n">{name}</th>' if name else "<th></th>" for name in headings)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _cells(name: str, *values: str) -> str:
    numbers = "".join(f'<td class="n">{value}</td>' for value in values)
    return f"<tr><td>{escape(name)}</td>{numbers}</tr>"


def _signed(value: float | None) -> str:
    from suisei.explain.wording import signed

    return signed(value).replace("-", "−")
