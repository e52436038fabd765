"""What is said of a metric that failed."""

import pytest

from suisei.errors import DataError
from suisei.scoring.columns import failure_text, shown_problems


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
