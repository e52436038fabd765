"""Pairwise accuracy."""

import numpy as np
import pytest

from suisei.errors import ConfigError
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.pairwise import pair_credits, signature


def test_counts_agreement_half_for_ties_and_nothing_without_a_preference():
    found = pair_credits([3, 1, 2, 5, 1], [1, 3, 2, 4, 0], [10, 10, -4, 1, 0])
    assert found.tolist() == pytest.approx([1, 0, 0.5, 1, np.nan], nan_ok=True)
    assert signature() == "pairwise-accuracy|ties:half"


def test_ties_may_be_wrong():
    assert pair_credits([2, 2, 3], [2, 2, 1], [1, -1, 1], ties="wrong").tolist() == [0, 0, 1]
    assert signature("wrong") == "pairwise-accuracy|ties:wrong"
    with pytest.raises(ConfigError, match="half, wrong"):
        pair_credits([1], [2], [1], ties="random")


@pytest.mark.parametrize(
    ("first", "second", "preference", "message"),
    [
        ([1], [1, 2], [1, 1], "differ in length"),
        ([1, np.nan, np.nan], [1, 2, 3], [1, 1, 1], "first is NaN at pair 1"),
    ],
)
def test_refuses(first, second, preference, message):
    with pytest.raises(CorrelationError, match=message):
        pair_credits(first, second, preference)
