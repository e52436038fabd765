"""What an error says, on one line."""

import pytest

from suisei.errors import one_line


@pytest.mark.parametrize(
    ("text", "most", "said"),
    [
        ("no\n\tcats  here ", 300, "no cats here"),
        ("x" * 400, 300, "x" * 300),
        ("x" * 400, None, "x" * 400),
        (" \n", 300, "ValueError"),
        ("", None, "ValueError"),
    ],
)
def test_an_error_is_one_line_and_never_empty(text, most, said):
    assert one_line(ValueError(text), most) == said
