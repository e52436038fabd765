"""Captioning systems side by side: tables for people, values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from suisei.metaeval.labels import VERSUS
from suisei.metaeval.markdown import markdown_code, markdown_text
from suisei.metaeval.resampling import Interval
from suisei.metaeval.settings import ALPHA, Resampling
from suisei.metaeval.significance import too_few_permutations, too_few_units
from suisei.metaeval.systems import Example, MetricOutcome, Pair
from suisei.metaeval.tables import Cell, Row, Section, Table

_PER_CENT = ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge-l", "cider", "meteor", "spice")
"""Metrics that papers on captioning print times 100."""

_FEW_IMAGES = 20
"""Below so many images, intervals and p (bootstrap) are surer than they should be."""
_LARGE_SHARE = 0.1
"""So are they where one image has more than this share of the captions."""


def scale_of(label: str) -> int:
    """Return what a metric is printed times: 100 for those that papers print so, else 1."""
    return 100 if label.partition(":")[0] in _PER_CENT else 1


def scaled_name(label: str) -> str:
    """Return a metric's name with its scale."""
    return f"{label} x100" if scale_of(label) == 100 else label


def heading_of(outcome: MetricOutcome) -> str:
    """Return a metric's heading, with its scale, and which way it goes where lower is better."""
    name = scaled_name(outcome.label)
    return name if outcome.higher_is_better else f"{name} (lower is better)"


def system_table(
    outcomes: Sequence[MetricOutcome], names: Sequence[str], title: str, notes: Sequence[str]
) -> Table:
    """Return the table of systems by metrics: score, interval and rank.

    Args:
        outcomes: one per metric.
        names: the systems, in the order of the rows.
        title: above the table.
        notes: lines for below the table.
    """
    columns: dict[str, str] = {}
    rows: dict[str, Row] = {name: Row(name) for name in names}
    for outcome in outcomes:
        columns[outcome.label] = heading_of(outcome)
        columns[f"{outcome.label} rank"] = "rank"
        for name in names:
            score = outcome.systems.get(name)
            if score is None:
                rows[name].cells[outcome.label] = Cell(
                    None, reason=f"{outcome.label} failed: {outcome.error}"
                )
            else:
                rows[name].cells[outcome.label] = _cell(
                    outcome.label, score.value, score.interval, outcome.signature
                )
                rows[name].cells[f"{outcome.label} rank"] = Cell(score.rank)
    return Table(
        title, columns, (Section("systems", tuple(rows.values())),), tuple(notes), row_heading="System"
    )


def score_table(outcomes: Sequence[MetricOutcome], title: str) -> Table:
    """Return the scores alone, a section per metric, for a plot."""
    sections = tuple(
        Section(
            heading_of(outcome),
            tuple(
                Row(name, {"score": _cell(outcome.label, score.value, score.interval)})
                for name, score in outcome.systems.items()
            ),
        )
        for outcome in outcomes
        if outcome.systems
    )
    return Table(title, {"score": "corpus score"}, sections, row_heading="System")


def pair_table(outcomes: Sequence[MetricOutcome], settings: Resampling) -> Table:
    """Return the table of pairs, a section per metric."""
    columns = {
        "difference": "difference",
        "bootstrap": "p (bootstrap)",
        "permutation": "p (permutation)",
        "holm": "p (Holm)",
        "wins": "wins",
        "ties": "ties",
        "losses": "losses",
    }
    sections = tuple(
        Section(heading_of(outcome), tuple(_pair_row(outcome.label, pair) for pair in outcome.pairs))
        for outcome in outcomes
        if outcome.pairs
    )
    return Table(
        "Pairs of systems",
        columns,
        sections,
        tuple(_pair_notes([outcome for outcome in outcomes if outcome.pairs], settings)),
        row_heading="Pair",
    )


def _pair_row(label: str, pair: Pair) -> Row:
    p_values = {"bootstrap": pair.p_bootstrap, "permutation": pair.p_permutation, "holm": pair.p_holm}
    counts = {"wins": pair.wins, "ties": pair.ties, "losses": pair.losses}
    return Row(
        f"{pair.better}{VERSUS}{pair.worse}",
        {
            "difference": _cell(label, pair.difference, pair.interval),
            **{name: Cell(value, is_p_value=True) for name, value in p_values.items()},
            **{name: Cell(count) for name, count in counts.items()},
        },
    )


def _cell(label: str, value: float, interval: Interval, signature: str | None = None) -> Cell:
    scale = scale_of(label)
    low, high = (None if end is None else end * scale for end in (interval.low, interval.high))
    return Cell(value * scale, low, high, signature=signature, digits=1 if scale == 100 else None)


def _counted(outcomes: Sequence[MetricOutcome]) -> str:
    """Return what wins count: captions, where a system has several of an image."""
    return "captions" if any(outcome.n > outcome.images for outcome in outcomes) else "images"


def _pair_notes(outcomes: Sequence[MetricOutcome], settings: Resampling) -> list[str]:
    pairs = len(outcomes[0].pairs) if outcomes else 0
    count = settings.permutations
    if not count or not pairs:
        return []
    notes = [
        f"two-sided; {settings.n_resamples:,} bootstrap resamples of images, {count:,} permutations that "
        f"swap two systems' captions image by image, seed {settings.seed}; Holm over the pairs of a metric "
        f"({pairs}); wins, ties and losses count {_counted(outcomes)}, and less than a thousandth of the "
        "range of most scores is a tie",
        "a difference is the better system less the worse: below 0 where lower is better",
        "rank: systems of one rank cannot be told apart; the next begins where a system is worse than any "
        f"of the rank (Holm p <= {ALPHA:g})",
    ]
    few = [
        note
        for images in sorted({outcome.images for outcome in outcomes})
        for note in too_few_units(pairs, images, ALPHA, two_sided=True, what="images")
    ]
    return [*notes, *_thin_notes(outcomes), *few, *too_few_permutations(pairs, count, ALPHA)]


def _thin_notes(outcomes: Sequence[MetricOutcome]) -> list[str]:
    """Say where images are too few, or one has too many of the captions, for the bootstrap to be trusted."""
    images = min(outcome.images for outcome in outcomes)
    share = max(outcome.largest_share for outcome in outcomes)
    thin = [f"there are {images} images"] if images < _FEW_IMAGES else []
    if share > max(_LARGE_SHARE, 2 / images):  # and more than it would have among so few
        thin.append(f"one image has {share:.0%} of the captions")
    if not thin:
        return []
    return [
        f"{' and '.join(thin)}: intervals and p (bootstrap) are then surer than they should be; go by "
        "p (permutation)"
    ]


def as_dict(outcome: MetricOutcome, examples: Sequence[Example] = ()) -> dict[str, Any]:
    """Return an outcome as JSON values, in the metric's own units at full precision."""
    return {
        "metric": outcome.label,
        "signature": outcome.signature,
        "error": outcome.error,
        "images": outcome.images,
        "captions": outcome.n,
        "higher_is_better": outcome.higher_is_better,
        "systems": {
            name: {"score": score.value, **_ends(score.interval), "rank": score.rank}
            for name, score in outcome.systems.items()
        },
        "pairs": [_pair_dict(pair) for pair in outcome.pairs],
        "examples": [
            {
                example.kind: example.name,
                "scores": dict(example.scores),
                "captions": dict(example.captions),
                "references": list(example.references),
            }
            for example in examples
        ],
    }


def _pair_dict(pair: Pair) -> dict[str, Any]:
    names = (
        "better",
        "worse",
        "difference",
        "p_bootstrap",
        "p_permutation",
        "p_holm",
        "wins",
        "ties",
        "losses",
    )
    return {**{name: getattr(pair, name) for name in names}, **_ends(pair.interval)}


def _ends(interval: Interval) -> dict[str, float | None]:
    return {"low": interval.low, "high": interval.high}


def example_lines(examples: Mapping[str, Sequence[Example]]) -> list[str]:
    """Return the examples of each metric as lines of plain text."""
    lines = []
    for label, shown in examples.items():
        if not shown:
            continue
        lines += ["", f"{scaled_name(label)}: where {' and '.join(shown[0].scores)} differ most"]
        width = max(len(name) for name in (*shown[0].scores, "references"))
        for example in shown:
            lines.append(f"  {example.kind} {example.name}")
            for name, score in example.scores.items():
                figure = f"{shown_score(label, score):>7}"
                lines.append(f"    {name:<{width}}  {figure}  {_one_line(example.captions[name])}")
            if example.references:
                heads = ["references", *[""] * (len(example.references) - 1)]
                for head, reference in zip(heads, example.references, strict=True):
                    lines.append(f"    {head:<{width}}  {'':>7}  {_one_line(reference)}")
    return lines


def example_markdown(examples: Mapping[str, Sequence[Example]]) -> str:
    """Return the examples as Markdown, a section per metric; empty without any."""
    lines = []
    for label, shown in examples.items():
        if shown:
            heading = f"{scaled_name(label)}: where {' and '.join(shown[0].scores)} differ most"
            lines += [f"## {markdown_text(heading)}", ""]
        for example in shown:
            lines.append(f"- {example.kind} {markdown_code(example.name)}")
            for name, score in example.scores.items():
                caption = markdown_text(example.captions[name])
                lines.append(f"  - **{markdown_text(name)}** {shown_score(label, score)}: {caption}")
            lines += [f"  - reference: {markdown_text(reference)}" for reference in example.references]
        lines += [""] if shown else []
    return "\n".join(lines)


def shown_score(label: str, score: float) -> str:
    """Return a score as text, at its scale, with its metric's decimals."""
    scale = scale_of(label)
    return f"{score * scale:z.{1 if scale == 100 else 3}f}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
