"""A sparse ridge regression on character n-grams, fitted on the training ratings.

Not in the registry: it is trained on ratings, so it is not a baseline that can be fitted on whatever
is being evaluated. It is an extra input of the regressor, or a supervised baseline of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suisei.data.given_samples import as_samples
from suisei.data.sample import CaptionSample, Rating, language_of
from suisei.data.splits import group_of, references_by_image
from suisei.errors import ConfigError, DataError, ModelError
from suisei.metrics.base import Metric
from suisei.metrics.tfidf import CharTfidf

INNER_FOLDS = 5
SUPPORT = "support/"
LOW_RATED = 0.2
"""Share of the training ratings that are not above that of a free negative."""


class Ridge(Metric):
    """Predicts the rating from tf-idf of character n-grams of candidate and references.

    With c the candidate's tf-idf vector and r the element-wise maximum over references, the features
    are c*r (what is shared), max(c-r, 0) (what only the candidate says) and max(r-c, 0) (what it leaves
    out). N-grams that the training captions do not hold are not seen.

    Ratings are few and n-grams many, so the training samples are widened (:func:`widen`): captions of
    other images are free negatives, and a rating holds for any references of its image.

    Args:
        alpha: strength of the L2 penalty.
        longest: longest n-gram, in characters.
        least: n-grams in fewer training captions are left out.
        negatives: training samples made per sample by giving it another image's references.
        resampled: training samples made per sample by drawing other references of its image.

    Attributes:
        support: rated samples from elsewhere that are trained on too, in every fold.
    """

    name = "ridge"
    needs = frozenset({"references"})

    def __init__(
        self, alpha: float = 5.0, longest: int = 3, least: int = 3, negatives: int = 1, resampled: int = 1
    ) -> None:
        self.alpha, self.longest, self.least = alpha, longest, least
        self.negatives, self.resampled = negatives, resampled
        self.support: Sequence[CaptionSample] = ()
        self._vectorizer: Any = None
        self._weights = np.zeros(0)
        self._intercept = 0.0

    @property
    def needs_fit(self) -> bool:
        """Whether ``fit`` must be called before ``score``."""
        return self._vectorizer is None

    def settings(self) -> dict[str, str]:
        """Return the n-grams, the penalty, and how references are combined."""
        return {"ngrams": f"char1-{self.longest}", "alpha": f"{self.alpha:g}", "refs": "max"}

    def fit(self, samples: Iterable[CaptionSample] | Any) -> None:
        """Fit vocabulary and weights on rated training samples.

        Args:
            samples: as :meth:`Metric.score` takes them.

        Raises:
            DataError: no rated sample with references.
        """
        from sklearn.linear_model import Ridge as LinearRidge

        rated = _usable(as_samples(samples))
        usable = self._widened(rated)
        captions = {_one_spaced(caption) for s in usable for caption in (s.candidate, *s.references)}
        self._vectorizer = self._make_vectorizer(min(self.least, len(captions)))
        self._vectorizer.fit(sorted(captions))
        target = _targets(usable) - _offsets(usable, len(rated))
        model = LinearRidge(alpha=self.alpha).fit(self._features(usable), target)
        self._weights, self._intercept = model.coef_.astype(np.float64), float(model.intercept_)

    def out_of_fold(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Score training samples as if they were new: each by weights fitted without its group.

        Returns:
            float64 [N]; NaN where a sample has no rating or no references. With fewer groups than inner
            folds all of it is NaN.
        """
        from sklearn.linear_model import Ridge as LinearRidge
        from sklearn.model_selection import GroupKFold

        scores = np.full(len(samples), np.nan)
        positions = np.array([i for i, s in enumerate(samples) if s.references and s.rating is not None])
        usable = _usable(samples)
        if len({group_of(sample) for sample in usable}) < INNER_FOLDS:
            return scores
        widened = self._widened(usable)
        groups = np.array([group_of(sample) for sample in widened])
        features = self._features(widened)
        target = _targets(widened) - _offsets(widened, len(usable))
        folds = GroupKFold(INNER_FOLDS).split(target[: len(usable)], groups=groups[: len(usable)])
        for _, held_out in folds:
            kept = ~np.isin(groups, groups[held_out])
            model = LinearRidge(alpha=self.alpha).fit(features[kept], target[kept])
            scores[positions[held_out]] = model.predict(features[held_out])
        return scores

    def _widened(self, samples: Sequence[CaptionSample]) -> list[CaptionSample]:
        support = [replace(sample, group=SUPPORT + group_of(sample)) for sample in _rated(self.support)]
        return [*widen(samples, self.negatives, self.resampled), *support]

    def state(self) -> dict[str, Any]:
        """Return vocabulary and weights, as values that JSON can hold."""
        if self.needs_fit:
            return {}
        vocabulary = self._vectorizer.vocabulary_
        return {
            "terms": sorted(vocabulary, key=vocabulary.get),
            "idf": [float(f"{value:.5g}") for value in self._vectorizer.idf_],
            "weights": [float(f"{value:.5g}") for value in self._weights],
            "intercept": self._intercept,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            ModelError: the state is not one of a ridge.
        """
        try:
            terms, idf = state["terms"], np.asarray(state["idf"], dtype=np.float64)
            weights = np.asarray(state["weights"], dtype=np.float64)
            intercept = float(state["intercept"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"the saved state of the ridge is damaged ({error}); retrain the model"
            ) from None
        if not isinstance(terms, list) or set(map(type, terms)) - {str}:
            raise ModelError("the saved state of the ridge is damaged (n-grams that are not text); retrain")
        if not len(terms) == len(idf) == len(weights) / 3 or not idf.ndim == weights.ndim == 1:
            raise ModelError("the saved state of the ridge is damaged (lengths differ); retrain")
        if not (np.isfinite(idf).all() and np.isfinite(weights).all() and math.isfinite(intercept)):
            raise ModelError("the saved state of the ridge is damaged (numbers that are not finite); retrain")
        self._vectorizer = CharTfidf(terms, idf, self.longest)
        self._weights, self._intercept = weights, intercept

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        if self.needs_fit:
            raise ConfigError("ridge is trained on ratings: call fit with rated training samples first")
        scores = np.empty(len(samples))
        for start in range(0, len(samples), CHUNK):
            part = samples[start : start + CHUNK]
            scores[start : start + CHUNK] = self._features(part) @ self._weights + self._intercept
        return scores

    def _make_vectorizer(self, least: int) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(
            analyzer="char",
            ngram_range=(1, self.longest),
            min_df=least,
            sublinear_tf=True,
        )

    def _features(self, samples: Sequence[CaptionSample]) -> Any:
        """Return the sparse features [N, 3 * terms]; every distinct caption is cut into n-grams once."""
        from scipy import sparse

        rows: dict[str, int] = {}
        for sample in samples:
            for caption in (sample.candidate, *sample.references):
                rows.setdefault(caption, len(rows))
        vectors = self._vectorizer.transform(list(map(_one_spaced, rows)))
        candidate = vectors[[rows[sample.candidate] for sample in samples]]
        reference = vectors[[rows[sample.references[0]] for sample in samples]]
        for place in range(1, max(len(sample.references) for sample in samples)):
            further = [rows[sample.references[min(place, len(sample.references) - 1)]] for sample in samples]
            reference = reference.maximum(vectors[further])
        difference = candidate - reference
        parts = [candidate.multiply(reference), difference.maximum(0), (-difference).maximum(0)]
        return sparse.hstack(parts).tocsr()


def _one_spaced(caption: str) -> str:
    """Return a caption with one plain space between words, whichever white space it had there."""
    return " ".join(caption.split())


CHUNK = 4096
"""Samples scored at once: bounds the memory of the sparse features."""


def widen(samples: Sequence[CaptionSample], negatives: int, resampled: int) -> list[CaptionSample]:
    """Return rated samples followed by what can be concluded from them.

    A candidate beside references of another image is rated low: the rating that a fifth of the samples
    do not exceed, for some candidates fit other images too. A candidate beside other references of its
    own image keeps its rating. The same is drawn every time.

    Args:
        samples: rated samples with references.
        negatives: samples made per sample with another image's references.
        resampled: samples made per sample with other references of its image, where there are more.
    """
    rng = random.Random(0)
    images = references_by_image(samples)
    names: dict[str, list[str]] = {}
    for group, language in images:
        names.setdefault(language, []).append(group)
    low = float(np.quantile(_targets(samples), LOW_RATED))
    made = list(samples)
    for sample in samples:
        own, language, count = group_of(sample), language_of(sample), len(sample.references)
        said = images[own, language]
        for _ in range(negatives):
            other = images[rng.choice(names[language]), language]
            references = tuple(rng.sample(other, min(count, len(other))))
            if references and other is not said:
                made.append(replace(sample, references=references, rating=Rating((low,)), group=own))
        for _ in range(resampled if len(said) > count else 0):
            made.append(replace(sample, references=tuple(rng.sample(said, count)), group=own))
    return made


def _rated(samples: Sequence[CaptionSample]) -> list[CaptionSample]:
    return [sample for sample in samples if sample.references and sample.rating is not None]


def _usable(samples: Sequence[CaptionSample]) -> list[CaptionSample]:
    usable = _rated(samples)
    if not usable:
        raise DataError(
            "the ridge needs rated training samples with references, and there are none; add some, or leave "
            "ridge out of model.fusion.extra_inputs"
        )
    return usable


def _offsets(samples: Sequence[CaptionSample], rated: int) -> np.ndarray:
    """Return how far each sample's rating would be off the mean for its language and source alone, [N].

    Ratings of two languages come from two sets of captions, one of which may be the better one. Left in,
    that difference would be learned as the worth of an n-gram of the language.

    Args:
        samples: what is trained on: rated samples, what was made of them, and support.
        rated: how many of them, from the first on, were rated.
    """
    target = _targets(samples)
    kinds = [(group_of(s).startswith(SUPPORT), language_of(s)) for s in samples]
    means: dict[tuple[bool, str], float] = {}
    for kind in dict.fromkeys(kinds):
        own = [row for row, other in enumerate(kinds) if other == kind and (kind[0] or row < rated)]
        means[kind] = float(target[own].mean())
    overall = float(target[:rated].mean())
    return np.array([means[kind] - overall for kind in kinds])


def _targets(samples: Sequence[CaptionSample]) -> np.ndarray:
    return np.array([sample.rating.mean for sample in samples if sample.rating is not None])
