"""Pairwise accuracy."""

import numpy as np
import pytest

from suisei.errors import ConfigError
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.pairwise import pairwise_accuracy


def test_counts_agreement_and_names_ties():
    result = pairwise_accuracy([3, 1, 2, 5, 1], [1, 3, 2, 4, 0], [10, 10, -4, 1, 0])
    assert result.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert (result.n, result.human_ties, result.metric_ties) == (4, 1, 1)
    assert result.signature == "pairwise-accuracy|ties:half"


def test_ties_may_be_wrong_or_a_seeded_coin():
    zeros = np.zeros(2000)
    assert pairwise_accuracy(zeros, zeros, zeros + 1, ties="wrong").value == 0
    first = pairwise_accuracy(zeros, zeros, zeros + 1, ties="random", seed=0)
    assert first.value == pairwise_accuracy(zeros, zeros, zeros + 1, ties="random", seed=0).value
    assert first.value == pytest.approx(0.5, abs=0.06)
    assert first.signature.endswith("seed:0")
    with pytest.raises(ConfigError, match="half, wrong, random"):
        pairwise_accuracy([1], [2], [1], ties="skip")


@pytest.mark.parametrize(
    ("first", "second", "preference", "message"),
    [
        ([1], [1, 2], [1, 1], "differ in length"),
        ([1, np.nan, np.nan], [1, 2, 3], [1, 1, 1], "first is NaN at pair 1"),
        ([1], [2], [0], "no preference"),
    ],
)
def test_refuses(first, second, preference, message):
    with pytest.raises(CorrelationError, match=message):
        pairwise_accuracy(first, second, preference)
