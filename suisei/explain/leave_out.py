"""A score explained by the scores of samples from which one thing each was left out, all in one batch.

The metric is asked through its scores alone, so any metric can be explained. One that reads numbers beside
captions and image is also asked what its score is with a number replaced (:mod:`suisei.explain.interfaces`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.errors import DataError
from suisei.explain.explanation import (
    Explanation,
    InputEffect,
    ReferenceEffect,
    SecondEffect,
    WordEffect,
)
from suisei.explain.interfaces import (
    COSINES,
    AsksSecond,
    InputColumn,
    ReadsInputs,
    ReadsTokens,
    Scorer,
    SecondOpinion,
)

MAX_WORDS = 200
"""So many words of a caption are left out, one by one."""

_ALL, _IMAGE, _REFERENCES, _CANDIDATE = "all", "image", "references", "candidate"
_QUOTED = 30
"""Characters that a note quotes of a caption."""
_CLOSING = ",.;:!?)]」』、。"

Key = Hashable
"""What was left out of a sample."""
Span = tuple[int, int]
_Scores = dict[Key, float | None]


def explain_in_steps(
    metric: Scorer,
    sample: CaptionSample,
    cut: Callable[[str, str], Sequence[str]],
    *,
    batch_size: int = 64,
    step: int | None = 64,
) -> Iterator[Explanation | None]:
    """Explain the score of one sample, by what the metric reads of it, and yield None before each step.

    Args:
        metric: any metric, fitted where it must be.
        sample: the sample.
        cut: returns the words of a caption as they stand in it, given the caption and its language.
        batch_size: how many samples are scored at once; never changes a score.
        step: samples of a step, whose image is encoded anew; None for all of them.

    Yields:
        None, and at last the explanation.

    Raises:
        DataError: the metric has no score for the sample, or it cannot be read.
    """
    if any(map(str.isalpha, sample.candidate)):  # a caption without its kanji is Japanese still
        sample = replace(sample, language=language_of(sample))
    spans = word_spans(sample.candidate, cut(sample.candidate, language_of(sample)))
    spans, notes = _read(metric, sample, spans)  # before the variants, which no warning is to count
    opinion = metric.second_opinion(sample) if isinstance(metric, AsksSecond) else None
    asked = _Asked(sample, dict(_variants(sample, spans[:MAX_WORDS], metric.reads)))
    scores, inputs, groups = yield from asked.of(metric, batch_size, step)
    score = scores[_ALL]
    if score is None:
        lacking = metric.missing([sample]).get(0, "it gave none")
        raise DataError(f"{metric.name} has no score for this caption: {lacking}")
    if len(spans) > MAX_WORDS:
        notes.append(f"the first {MAX_WORDS} of {len(spans)} words were left out")
    yield Explanation(
        metric.name,
        metric.signature,
        sample.candidate,
        language_of(sample),
        _image_name(sample),
        score,
        scores.get(_IMAGE),
        scores.get(_REFERENCES),
        scores.get(_CANDIDATE),
        _reference_effects(sample, scores, asked.cosines, distance=not metric.higher_is_better)
        if "references" in metric.reads
        else (),
        _word_effects(sample.candidate, spans[:MAX_WORDS], scores),
        inputs,
        groups,
        tuple(notes),
        metric.higher_is_better,
        _second_effect(opinion, score),
    )


def _read(metric: Scorer, sample: CaptionSample, spans: list[Span]) -> tuple[list[Span], list[str]]:
    """Return which words of the candidate are read, and notes on what is not."""
    if not isinstance(metric, ReadsTokens):
        return spans, []
    references = sample.references if "references" in metric.reads else ()
    candidate, *others = (left < 0 for left in metric.tokens_left([sample.candidate, *references]))
    notes = []
    if candidate:
        spans, note = _words_read(metric, sample.candidate, spans)
        notes.append(note)
    if any(others):
        part = "from the beginning" if metric.reads_ends else "to the end"
        notes.append(f"the text encoder read {sum(others)} of {len(others)} references not {part}")
    return spans, notes


def _words_read(metric: ReadsTokens, caption: str, spans: list[Span]) -> tuple[list[Span], str]:
    """Return which words of a caption that is too long are read, and a note on the others."""
    ends = metric.reads_ends
    left = metric.tokens_left([caption[stop:] if ends else caption[:start] for start, stop in spans])
    spans = [span for span, room in zip(spans, left, strict=True) if room > 0]
    if ends:
        read = caption[spans[0][0] :] if spans else ""
        which, others = f"from “{read[:_QUOTED]}…” on", "earlier"
    else:
        read = caption[: spans[-1][1]] if spans else ""
        which, others = f"up to “…{read[-_QUOTED:]}”", "later"
    return spans, f"the text encoder read the caption {which}; {others} words were not left out"


def word_spans(caption: str, words: Sequence[str]) -> list[Span]:
    """Return where words stand in their caption, in order; what is not found there is left out."""
    spans, place = [], 0
    for word in words:
        start = caption.find(word, place)
        if word and start >= 0:
            place = start + len(word)
            spans.append((start, place))
    return spans


def without_word(caption: str, span: Span) -> str:
    """Return a caption without one word, and without the space that the word would leave behind."""
    left, right = caption[: span[0]], caption[span[1] :]
    if not right or right[0].isspace() or right[0] in _CLOSING:
        left = left.rstrip()
    return (left + right).strip()


def _variants(
    sample: CaptionSample, spans: Sequence[Span], reads: frozenset[str]
) -> Iterator[tuple[Key, CaptionSample]]:
    """Yield what is left out and the sample without it; what is not there or not read is not left out."""
    references = sample.references if "references" in reads else ()
    pictured = sample.image is not None and "image" in reads
    yield _ALL, sample
    if pictured:
        yield _IMAGE, replace(sample, image=None)
    if references:
        yield _REFERENCES, replace(sample, references=())
    if references and pictured:
        yield _CANDIDATE, replace(sample, references=(), image=None)
    for position, reference in enumerate(references):
        yield ("alone", position), replace(sample, references=(reference,))
        others = (*references[:position], *references[position + 1 :])
        yield ("without", position), replace(sample, references=others)
    for span in spans:
        try:
            yield span, replace(sample, candidate=without_word(sample.candidate, span))
        except DataError:  # nothing that can be seen is left
            continue


class _Asked:
    """The variants of a sample, and what a metric says of them."""

    def __init__(self, sample: CaptionSample, variants: Mapping[Key, CaptionSample]) -> None:
        self.sample = sample
        self.variants = variants
        self.cosines: dict[int, float] = {}

    def of(
        self, metric: Scorer, batch_size: int, step: int | None
    ) -> Generator[None, None, tuple[_Scores, tuple[InputEffect, ...], tuple[InputEffect, ...]]]:
        """Return the score without each thing, and what single numbers and groups of them do, in steps."""
        if not isinstance(metric, ReadsInputs) or not (columns := metric.input_columns()):
            variants, found = list(self.variants.values()), []
            for part in _parts(len(variants), step):
                yield
                found.append(metric.score(variants[part], batch_size=batch_size))
            return self._named(np.concatenate(found)), (), ()
        count, kinds = len(self.variants), _kinds(columns)
        replaced = _replacements(columns, list(kinds.values()), count)
        samples = [*self.variants.values(), *[self.sample] * (len(replaced) - count)]
        pairs = []
        for part in _parts(len(samples), step):
            yield
            pairs.append(metric.score_replaced(samples[part], replaced[part], batch_size=batch_size))
        scores, inputs = (np.concatenate(each) for each in zip(*pairs, strict=True))
        self._see_cosines(columns, inputs)
        own, changed = inputs[0], scores[count:]
        singles = [
            _effect(column.name, column, own[place], scores[0], changed[place])
            for place, column in enumerate(columns)
        ]
        known = {kind: [p for p in places if not math.isnan(own[p])] for kind, places in kinds.items()}
        groups = [
            _group_effect(kind, len(known[kind]), scores[0], changed[len(columns) + number])
            for number, kind in enumerate(kinds)
            if len(known[kind]) > 1
        ]
        return self._named(scores), _largest_first(singles), _largest_first(groups)

    def _named(self, scores: np.ndarray) -> dict[Key, float | None]:
        return {key: _number(score) for key, score in zip(self.variants, scores, strict=False)}

    def _see_cosines(self, columns: Sequence[InputColumn], inputs: np.ndarray) -> None:
        """Keep the cosine of each reference: with no other beside it, the only one."""
        places = [place for place, column in enumerate(columns) if column.kind == COSINES]
        for row, key in enumerate(self.variants):
            if places and isinstance(key, tuple) and key[0] == "alone":
                self.cosines[key[1]] = float(inputs[row, places].max())


def _parts(count: int, step: int | None) -> list[slice]:
    step = step or count
    return [slice(start, start + step) for start in range(0, count, step)]


def _kinds(columns: Sequence[InputColumn]) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        kinds.setdefault(column.kind, []).append(place)
    return kinds


def _replacements(
    columns: Sequence[InputColumn], groups: Sequence[Sequence[int]], variants: int
) -> np.ndarray:
    """Return what is put in the place of numbers: nothing in variants, then each number, then each group."""
    typical = np.array([column.typical for column in columns])
    changes = [[place] for place in range(len(columns))] + [list(places) for places in groups]
    replaced = np.full((variants + len(changes), len(columns)), np.nan)
    for row, places in enumerate(changes, start=variants):
        replaced[row, places] = typical[places]
    return replaced


def _effect(name: str, column: InputColumn, value: float, score: float, changed: float) -> InputEffect:
    if math.isnan(value):
        return InputEffect(name, column.kind, None, column.typical, None, None)
    return InputEffect(
        name, column.kind, float(value), column.typical, float(changed), float(score - changed)
    )


def _group_effect(kind: str, members: int, score: float, changed: float) -> InputEffect:
    return InputEffect(f"all {kind}", kind, None, None, float(changed), float(score - changed), members)


def _second_effect(found: SecondOpinion | None, score: float) -> SecondEffect | None:
    if found is None:
        return None
    return SecondEffect(found.second, found.share, found.first, score - found.first)


def _largest_first(effects: Sequence[InputEffect]) -> tuple[InputEffect, ...]:
    return tuple(sorted(effects, key=lambda effect: -abs(effect.moved or 0.0)))


def _reference_effects(
    sample: CaptionSample,
    scores: Mapping[Key, float | None],
    cosines: Mapping[int, float],
    *,
    distance: bool,
) -> tuple[ReferenceEffect, ...]:
    """Return what each reference does: nearest first by the cosine, or else by the score with it alone."""
    effects = []
    for position, text in enumerate(sample.references):
        alone, left = scores.get(("alone", position)), scores.get(("without", position))
        moved = _minus(scores[_ALL], left)
        effects.append(ReferenceEffect(text, position, alone, left, cosines.get(position), moved))

    def nearness(effect: ReferenceEffect) -> float:
        if effect.cosine is not None:
            return effect.cosine
        if effect.alone is None:
            return -math.inf
        return -effect.alone if distance else effect.alone

    return tuple(sorted(effects, key=nearness, reverse=True))


def _word_effects(
    candidate: str, spans: Sequence[Span], scores: Mapping[Key, float | None]
) -> tuple[WordEffect, ...]:
    effects = []
    for start, end in spans:
        left = scores.get((start, end))
        moved = _minus(scores[_ALL], left)
        effects.append(WordEffect(candidate[start:end], start, end, left, moved))
    return tuple(effects)


def _image_name(sample: CaptionSample) -> str | None:
    if sample.image is None:
        return None
    return str(sample.image) if isinstance(sample.image, str | Path) else "in memory"


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _minus(score: float | None, without: float | None) -> float | None:
    return None if score is None or without is None else score - without
