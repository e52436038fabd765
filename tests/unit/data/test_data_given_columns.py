"""Columns and references that a caller gives in Python."""

import re

import numpy as np
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


def test_columns_of_arrow_are_taken_by_position():
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"candidate": ["a dog", "a cat"], "references": [["a dog"], ["dogs", "a dog"]]})
    metric = suisei.get_metric("unigram-f1")
    scores = metric.score(["a dog", "a cat"], [["a dog"], ["dogs", "a dog"]])
    np.testing.assert_array_equal(metric.score(table["candidate"], table["references"]), scores)
    batch = table.to_batches()[0]
    np.testing.assert_array_equal(metric.score(batch["candidate"], batch["references"]), scores)
    assert CaptionSample("a cat", arrow.array(["dogs", "a dog"])).references == ("dogs", "a dog")
    with pytest.raises(DataError, match="sample 1: candidate must be text, got NoneType"):
        metric.score(arrow.array(["a dog", None]), [["a dog"]] * 2)


def test_what_is_advised_of_a_whole_data_set_can_be_done():
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"candidate": ["a dog"]})
    length = suisei.get_metric("length")
    for given in (whole, datasets.DatasetDict({"train": whole}), whole.to_iterable_dataset()):
        frame = hasattr(given, "to_pandas")  # newer iterable ones have it too
        advice = r"it as a DataFrame, \.to_pandas\(\)" if frame else "a list with one entry per sample"
        with pytest.raises(DataError, match=f"candidates is a whole {type(given).__name__}; pass {advice}$"):
            length.score(given)
        if frame:
            assert length.score(given.to_pandas()) == length.score(["a dog"])
    assert hasattr(whole, "to_pandas")


def test_a_data_frame_of_a_class_with_more_attributes_is_one():
    pandas = pytest.importorskip("pandas")

    class Frame(pandas.DataFrame):
        @property
        def column_names(self):
            return list(self.columns)

    rows = {"candidate": ["a dog"], "references": [["a dog"]]}
    assert suisei.get_metric("unigram-f1").score(Frame(rows)) == pytest.approx(1)


def test_a_lazy_frame_is_to_be_collected(recwarn):
    polars = pytest.importorskip("polars")
    lazy = polars.DataFrame({"candidate": ["a dog"]}).lazy()
    with pytest.raises(
        DataError, match=r"candidates is a LazyFrame, whose rows are not there yet; pass \.collect"
    ):
        suisei.get_metric("length").score(lazy)
    assert not recwarn
    assert suisei.get_metric("length").score(lazy.collect()) == 0.2
