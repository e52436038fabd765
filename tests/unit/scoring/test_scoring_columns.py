"""What is said of a metric that failed."""

import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.scoring.columns import failure_text, score_column, shown_problems
from suisei.scoring.plan import plan_metrics


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no\n  cats"), "ValueError: no cats"),
        (DataError("row 3:\nno image"), "row 3: no image"),
        (AssertionError(), "AssertionError"),
        (DataError(" \n"), "DataError"),
        (RuntimeError("x" * 600), f"RuntimeError: {'x' * 500}"),
    ],
)
def test_a_failure_is_one_line_with_a_reason(error, said):
    assert failure_text(error) == said


@pytest.mark.parametrize(
    ("count", "end"), [(5, "; p4"), (6, "; p4; and 1 more problem"), (7, "; p4; and 2 more problems")]
)
def test_problems_beyond_the_first_are_counted(count, end):
    assert shown_problems([f"p{number}" for number in range(count)]) == f"p0; p1; p2; p3{end}"


def test_the_signature_says_what_a_metric_was_fitted_on_and_that_its_scores_are_turned_round():
    samples = [CaptionSample("a dog runs", (text,)) for text in ("a dog runs", "a cat sleeps", "two cats")]
    cider, repetition = plan_metrics(["cider", "repetition-1"])
    assert score_column(cider, samples).signature.endswith("|fit:references-of-3-samples")
    assert score_column(repetition, samples).signature.endswith("|negated-for-correlation")
    whole = score_column(repetition, samples, shared=samples[:1]).signature  # a corpus score is not turned
    assert whole + "|negated-for-correlation" == score_column(repetition, samples).signature
