"""Columns and references that a caller gives in Python."""

import re

import pytest

import suisei
from suisei.data.sample import CaptionSample
from suisei.errors import DataError


@pytest.mark.parametrize(
    ("text", "how"), [('["a dog", "dogs"]', ", as json.loads makes it"), ("['a dog' 'dogs']", "")]
)
def test_a_list_as_text_is_no_reference_alone_or_in_a_list(text, how):
    """Who wraps it, as is said of one caption, would have its brackets compared."""
    message = f" a list or a dict as text, got {text!r}; give a list, each caption apart{how}"
    metric = suisei.get_metric("unigram-f1")
    for given, start in [
        (text, "references are"),
        ([text], "reference 1 is"),
        (["a dog", text], "reference 2 is"),
    ]:
        with pytest.raises(DataError, match=f"^sample 1: {re.escape(start + message)}$"):
            metric.score(["a dog", "a dog"], [["a dog"], given])
    with pytest.raises(DataError, match=f"^references are{re.escape(message)}$"):
        CaptionSample("a dog", text)


@pytest.mark.parametrize("caption", ["[a sign]", "[1,000]", "(3)", "a dog [sic]", "nan"])
def test_a_caption_in_brackets_is_a_reference(caption):
    assert suisei.get_metric("unigram-f1").score([caption], [[caption]]) == pytest.approx(1)
