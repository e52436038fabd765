"""The best and the worst predictions, with their pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, detect_language, language_of
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.agreement import mean_rating
from suisei.metaeval.system_tables import scaled_name, shown_score
from suisei.metaeval.systems import Example
from suisei.report.parts import Card, Cards, Rated
from suisei.report.thumbnails import thumbnail

SHOWN_REFERENCES = 5
SHOWN_METRICS = 7
_FAR = 0.15
"""Scores in [0, 1] whose mean is farther than this from that of the ratings are compared by rank."""

Explain = Callable[[Sequence[CaptionSample]], Sequence[Sequence[str]]]
"""Says of each sample, in lines, why it has its score."""


def prediction_cards(rated: Rated, label: str, count: int, explain: Explain | None = None) -> list[Cards]:
    """Return the predictions that are farthest from people, and some of the nearest.

    The nearest are taken from all over the human scale: bad captions that are found bad count as well. An
    image is shown once in each list.

    Args:
        rated: samples and scores.
        label: the metric.
        count: most predictions in each list.
        explain: says why a sample has its score.
    """
    predicted, human = rated.scores[label], human_scores(rated.samples)
    known = np.flatnonzero(np.isfinite(predicted) & np.isfinite(human))
    pictured = np.array([rated.samples[place].image is not None for place in known.tolist()], dtype=np.bool_)
    if pictured.sum() >= 2 * count:
        known = known[pictured]
    if not len(known) or not count:
        return []
    distance, how = _distance(predicted[known], human[known], turned=label in rated.distances)
    if _are_verdicts(rated.samples):
        how = f"{how}; human is 1 where people prefer the caption or find it good, else 0"
    shown = [name for name in _shown_metrics(rated, label) if name in rated.distances]
    if shown:
        how = f"{how}; {', '.join(shown)}: lower is better, shown without its sign turned"
    if len(rated.scores) > SHOWN_METRICS:
        how = f"{how}; {SHOWN_METRICS} of {len(rated.scores)} metrics are shown"
    groups = [group_of(rated.samples[place]) for place in known.tolist()]
    worst = _first_of_groups(np.argsort(-distance, kind="stable"), groups, count)
    order = np.argsort(human[known], kind="stable")
    parts = [part for part in np.array_split(order, count) if len(part)]
    nearest = (part[np.argsort(distance[part], kind="stable")] for part in parts)
    best = _one_of_each(nearest, groups)
    return [
        Cards(title, how, tuple(_cards(rated, label, known[chosen], explain)))
        for title, chosen in (
            (f"Farthest from people: {label}", worst),
            (f"Nearest to people: {label}", best),
        )
    ]


def difference_cards(label: str, examples: Sequence[Example], pictures: Mapping[str, Any]) -> Cards:
    """Return the images on which two systems differ most, with both captions.

    Args:
        label: the metric.
        examples: of :func:`suisei.metaeval.systems.most_different`.
        pictures: {name of the image, or caption: file or PIL image, or None}.
    """
    cards = []
    for example in examples:
        picture, problem = _picture(pictures.get(example.name))
        (first, caption), *others = example.captions.items()
        cards.append(
            Card(
                title=example.name,
                candidate=f"{first}: {caption}",
                references=example.references[:SHOWN_REFERENCES],
                more_references=max(0, len(example.references) - SHOWN_REFERENCES),
                language=detect_language(caption),
                figures=tuple((name, shown_score(label, score)) for name, score in example.scores.items()),
                picture=picture,
                no_picture=problem,
                reasons=tuple(f"{name}: {text}" for name, text in others),
            )
        )
    title = f"Where two systems differ most: {scaled_name(label)}"
    return Cards(title, "the largest differences first", tuple(cards))


def _picture(image: Any) -> tuple[str | None, str]:
    """Return a thumbnail, or why there is none."""
    if image is None:
        return None, "no image belongs to it"
    try:
        return thumbnail(image), ""
    except DataError as error:
        return None, str(error)


def nearest_metric(rated: Rated) -> str:
    """Return a SuiSei model, else the metric whose order is nearest to people's."""
    from suisei.metaeval.correlation import CorrelationError, spearman

    human = human_scores(rated.samples)
    found: dict[str, float] = {}
    for label, scores in rated.scores.items():
        known = np.isfinite(scores) & np.isfinite(human)
        try:
            found[label] = spearman(scores[known], human[known]) + 2 * label.startswith("suisei")
        except CorrelationError:
            found[label] = -2.0
    return max(found, key=lambda label: found[label])


def human_scores(samples: Sequence[CaptionSample]) -> np.ndarray:
    """Return mean ratings in [0, 1], float64 [N], NaN where there is none; equal means are equal numbers."""
    return np.array([np.nan if s.rating is None else mean_rating(s.rating.scaled) for s in samples])


def _are_verdicts(samples: Sequence[CaptionSample]) -> bool:
    """Say whether people preferred or accepted captions, or not: a grade of 1 or 5 is no verdict.

    Those are ratings from 0 to 1 of which all samples, whether they are shown or not, have one of both.
    """
    ratings = [sample.rating for sample in samples if sample.rating is not None]
    return all((each.low, each.high) == (0, 1) and each.mean in (0, 1) for each in ratings)


def _distance(predicted: np.ndarray, human: np.ndarray, *, turned: bool) -> tuple[np.ndarray, str]:
    """Return how far scores are from ratings, and in what: the scale itself, or ranks.

    Scores whose sign was turned, those of a distance, are never on the human scale, not even where all are 0.
    """
    on_scale = not turned and predicted.min() >= 0 and predicted.max() <= 1
    if on_scale and abs(predicted.mean() - human.mean()) <= _FAR:
        return np.abs(predicted - human), "compared by score: both are on a scale from 0 to 1"
    from scipy.stats import rankdata

    apart = np.abs(rankdata(predicted) - rankdata(human))
    return apart, "compared by rank among all samples, because the metric is not on the human scale"


def _first_of_groups(order: Iterable[int], groups: Sequence[str], count: int) -> np.ndarray:
    found: dict[str, int] = {}
    for place in order:
        if len(found) == count:
            break
        found.setdefault(groups[place], int(place))
    return np.array(list(found.values()), dtype=np.int64)


def _one_of_each(parts: Iterable[np.ndarray], groups: Sequence[str]) -> np.ndarray:
    """Return the first of each part whose image was not taken yet."""
    taken: dict[str, int] = {}
    for part in parts:
        place = next((int(place) for place in part if groups[place] not in taken), None)
        if place is not None:
            taken[groups[place]] = place
    return np.array(list(taken.values()), dtype=np.int64)


def _shown_metrics(rated: Rated, label: str) -> list[str]:
    """Return the metrics whose scores a card shows, that which chose it first."""
    return [label, *[name for name in rated.scores if name != label][: SHOWN_METRICS - 1]]


def _cards(rated: Rated, label: str, places: np.ndarray, explain: Explain | None) -> list[Card]:
    samples = [rated.samples[place] for place in places.tolist()]
    reasons = explain(samples) if explain else [()] * len(samples)
    return [_card(rated, label, int(place), tuple(why)) for place, why in zip(places, reasons, strict=True)]


def _card(rated: Rated, label: str, place: int, reasons: tuple[str, ...]) -> Card:
    sample = rated.samples[place]
    figures = [("human", f"{sample.rating.mean:.2f}" if sample.rating else "–")]
    for name in _shown_metrics(rated, label):
        value = rated.scores[name][place] * (-1 if name in rated.distances else 1)
        figures.append((name, f"{value:z.2f}" if np.isfinite(value) else "–"))
    picture, problem = _picture(sample.image)
    titles = [
        str(sample.id or f"sample {place + 1}"),
        sample.system or "",
        LANGUAGE_NAMES[language_of(sample)],
    ]
    references = sample.references
    return Card(
        title=" · ".join(text for text in titles if text),
        candidate=sample.candidate,
        references=references[:SHOWN_REFERENCES],
        more_references=max(0, len(references) - SHOWN_REFERENCES),
        language=language_of(sample),
        figures=tuple(figures),
        picture=picture,
        no_picture=problem,
        reasons=reasons,
    )
