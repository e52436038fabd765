"""What is said of a metric that failed."""

import pytest

from suisei.errors import DataError
from suisei.scoring.columns import failure_text


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
