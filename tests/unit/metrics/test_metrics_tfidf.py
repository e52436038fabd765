"""Tf-idf of character n-grams equals scikit-learn's."""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from suisei.metrics.tfidf import CharTfidf


def test_rows_equal_those_of_scikit_learn(captions):
    theirs = TfidfVectorizer(analyzer="char", ngram_range=(1, 4), min_df=2, sublinear_tf=True)
    theirs.fit(captions)
    terms = sorted(theirs.vocabulary_, key=theirs.vocabulary_.get)
    ours = CharTfidf(terms, theirs.idf_, 4)
    texts = [
        *captions,
        "Dogs   run\n\nin  THE\tpark\t again, again",
        "☃",
        "",
        "犬と猫が公園を走る",
        "aaaaaaaa",
    ]
    expected, found = theirs.transform(texts), ours.transform(texts)
    assert found.shape == expected.shape
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-12)
    assert found.nnz == expected.nnz > 100
    assert ours.transform([]).shape == (0, len(terms))
