"""Topics of images, so that a model can be tested on one that it has never seen.

A split by image says how well a metric judges new images of the kind it learned from. Leaving out a topic
says what is left of that on images of another kind, which is closer to what its users will give it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.data.splits import group_of
from suisei.errors import DataError

DIMENSIONS = 50
STARTS = 10
_COMMON = 0.5
"""A term that so large a share of the groups have is of no topic."""
_TERMS: dict[str, dict[str, Any]] = {
    "en": {"analyzer": "word", "token_pattern": r"[^\W\d_]{2,}"},
    "ja": {"analyzer": "char", "ngram_range": (2, 2)},
}


def topics_of(samples: Sequence[CaptionSample], topics: int, seed: int = 0) -> dict[str, int]:
    """Sort groups into topics by what their captions speak of.

    The references of a group, or its candidates where there are none, make one text. TF-IDF of its words
    (English) or pairs of characters (Japanese) is reduced to at most 50 dimensions, and vectors of length 1
    are clustered by k-means. Each language is sorted by itself, else the languages would be the topics, and
    the largest topic of one goes with that of the other; a group with both goes by the English captions.

    Args:
        samples: what to sort, in any order.
        topics: number of topics, at least 2.
        seed: of the starts of k-means, of which the best of ten is taken.

    Returns:
        {group: topic}, topics from 0 for the one with most groups.

    Raises:
        DataError: a language has fewer groups that differ than there are topics.
    """
    from threadpoolctl import threadpool_limits

    captions: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for sample in samples:
        captions[group_of(sample)][language_of(sample)].update(sample.references or (sample.candidate,))
    found: dict[str, int] = {}
    for language in _TERMS:
        groups = sorted(group for group, own in captions.items() if min(own) == language)
        texts = ["\n".join(sorted(captions[group][language])) for group in groups]
        if groups:
            with threadpool_limits(1):  # several round differently each time, and all folds must agree
                labels = _clusters(texts, topics, seed, language)
            found.update(zip(groups, labels, strict=True))
    return found


def _clusters(texts: Sequence[str], topics: int, seed: int, language: str) -> list[int]:
    from sklearn.cluster import KMeans

    vectors = _vectors(texts, seed, language)
    different = len(np.unique(vectors.round(6), axis=0))
    if different < topics:
        raise DataError(
            f"{len(texts)} groups with captions in {language}, of which {different} differ in their words, "
            f"cannot be sorted into {topics} topics; give more data, or fewer data.folds"
        )
    labels = KMeans(topics, n_init=STARTS, random_state=seed).fit_predict(vectors)
    by_size = np.argsort(-np.bincount(labels), kind="stable")  # k-means numbers its clusters at random
    return np.argsort(by_size)[labels].tolist()


def _vectors(texts: Sequence[str], seed: int, language: str) -> np.ndarray:
    """Return a vector of length 1 for each text, or zeros where its words are too rare or common, [N, D]."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    counted = _counted(texts, language)
    dimensions = min(DIMENSIONS, min(counted.shape) - 1)
    if dimensions < 2:
        return counted.toarray()
    return normalize(TruncatedSVD(dimensions, random_state=seed).fit_transform(counted))


def _counted(texts: Sequence[str], language: str) -> Any:
    """Return TF-IDF, sparse [N, terms]; of all terms where none is in two texts and not in most."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    options: dict[str, Any] = {**_TERMS[language], "sublinear_tf": True}
    try:
        return TfidfVectorizer(**options, min_df=2, max_df=_COMMON).fit_transform(texts)
    except ValueError:
        return TfidfVectorizer(**{**options, "analyzer": "char"}).fit_transform(texts)
