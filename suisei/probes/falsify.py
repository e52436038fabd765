"""Rules that make a caption say what is not so, less than it did, or nothing: each takes a :class:`Task`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from suisei.data.plain_numbers import COUNTERS
from suisei.probes.lexicon import (
    ADDITIONS,
    GENERIC,
    NO_PLACES,
    WAYS,
    WRONG,
    numbers_of,
)
from suisei.probes.phrases import attributes_of, phrases, with_joints
from suisei.probes.segments import Segmented, segment
from suisei.probes.spans import Span, find_spans, put, texts, without

_UP_OR_DOWN = ("lay", "lie", "lying", "hang", "upside", "hold", "sit", "kneel")
_ON_AS_PART = ("try", "tries", "look")
"""Words that "up" and "down", or "on", belong to."""


@dataclass(frozen=True, slots=True)
class Task:
    """A caption to be changed.

    Attributes:
        caption: its words.
        rng: random numbers that the seed, the probe and the caption decide.
        references: what else is known to be true of its image.
    """

    caption: Segmented
    rng: random.Random
    references: tuple[str, ...] = ()

    def mentioned(self, phrase: str) -> bool:
        """Return whether the caption or a reference says this, and it may be true."""
        if self.caption.language == "ja":
            return any(phrase in text for text in (self._text, *self.references))
        said = [_spaced(text) for text in (self._text, *self.references)]
        return any(f" {form} " in text for form in numbers_of(phrase) for text in said)

    @property
    def _text(self) -> str:
        return self.caption.join(texts(self.caption))


Rule = Callable[[Task], str | None]


def _spaced(text: str) -> str:
    letters = (c if c.isalnum() or c in "-'" else " " for c in text.lower())
    return f" {' '.join(''.join(letters).split())} "


def wrong_object(task: Task) -> str | None:
    """Name another thing of its kind: a cat for a dog."""
    return _wrong(task, "object", lambda span: task.caption.words[span.stop - 1].noun)


def wrong_attribute(task: Task) -> str | None:
    """Give another colour, size, age or material."""
    return _wrong(task, "attribute", lambda span: True)


def wrong_number(task: Task) -> str | None:
    """Count otherwise: three for two."""
    said = texts(task.caption)

    def counts(span: Span) -> bool:
        if task.caption.language == "en":
            return True
        return counts_ja(said, span)

    return _wrong(task, "number", counts)


def counts_ja(words: Sequence[str], span: Span) -> bool:
    """Return whether a Japanese number counts something: 二 before 匹, or 二人 as one word."""
    if len(span.phrase) > 1:
        return True
    return span.stop < len(words) and words[span.stop] in COUNTERS


def wrong_relation(task: Task) -> str | None:
    """Place things otherwise: under for on."""
    said = [text.lower() for text in texts(task.caption)]
    return _wrong(task, "relation", lambda span: _places(said, span), known=False)


def _places(said: Sequence[str], span: Span) -> bool:
    """Return whether English words say where something is: up a street is down it, and "try on" no place."""
    before, after = said[span.start - 1] if span.start else "", said[span.stop : span.stop + 4]
    if span.phrase in ("up", "down"):
        return not (before.startswith(_UP_OR_DOWN) or WAYS & set(after))
    if span.phrase == "on":
        return not (before.startswith(_ON_AS_PART) or before in ("put", "puts") or NO_PLACES & set(after[:3]))
    return True


def _wrong(task: Task, kind: str, fits: Callable[[Span], bool], *, known: bool = True) -> str | None:
    """Return the caption with one word of a list replaced.

    Args:
        task: the caption.
        kind: key of :data:`suisei.probes.lexicon.WRONG`.
        fits: whether a span's words are used as the list means them.
        known: whether what the caption or a reference mentions is no wrong word.
    """
    choices = WRONG[kind][task.caption.language]
    possible = []
    for span in find_spans(task.caption, choices):
        others = [word for word in choices[span.phrase] if not (known and task.mentioned(word))]
        if others and fits(span):
            possible.append((span, others))
    if not possible:
        return None
    span, others = task.rng.choice(possible)
    return put(task.caption, span, task.rng.choice(others))


def near_copy(task: Task) -> str | None:
    """Copy a reference, with one word of it changed for a wrong one that the caption does not say either."""
    references = sorted(task.references)
    task.rng.shuffle(references)
    known = (*task.references, task._text)
    for reference in references:
        own = replace(task, caption=segment(reference, task.caption.language), references=known)
        rules: list[Rule] = [wrong_object, wrong_attribute, wrong_number]
        task.rng.shuffle(rules)
        copied = next((text for text in (rule(own) for rule in rules) if text), None)
        if copied and copied not in task.references:
            return copied
    return None


def add_thing(task: Task) -> str | None:
    """Say that something is there that is not."""
    absent = [each for each in ADDITIONS[task.caption.language] if not task.mentioned(each.thing)]
    if not absent:
        return None
    phrase = task.rng.choice(absent).phrase
    said = texts(task.caption)
    return task.caption.join([f"{phrase}、", *said] if task.caption.language == "ja" else [*said, phrase])


def generic(task: Task) -> str | None:
    """Say fluently what is true of every picture."""
    fitting = GENERIC[task.caption.language]
    text = task.rng.choice(fitting)
    return (text[0].upper() + text[1:] if task.caption.capital else text) + task.caption.tail


def break_off(task: Task) -> str | None:
    """Leave out the last quarter of the words, at least one."""
    said = texts(task.caption)
    kept = len(said) - max(1, round(len(said) / 4))
    return task.caption.join(said[:kept]) if kept else None


def omit(task: Task) -> str | None:
    """Leave out a phrase that says where or with what, or else an attribute."""
    spans = phrases(task.caption) or attributes_of(task.caption)
    if not spans:
        return None
    span = task.rng.choice(spans)
    text = without(task.caption, span if task.caption.language == "ja" else with_joints(task.caption, span))
    return text.removeprefix("、").replace("、、", "、")  # 公園で、犬が走る
