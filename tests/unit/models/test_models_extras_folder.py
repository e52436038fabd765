"""The long lists of extra inputs, outside of JSON."""

import json

import pytest

from suisei.errors import ModelError
from suisei.models.extras_folder import MANY, SavedInput, read_extras, write_extras


def test_texts_with_an_end_of_a_line_come_back_too(tmp_path):
    terms = [f"term {number}" for number in range(MANY)]
    states = {"a": terms, "b": [*terms, "one\r", "two\nlines"], "c": {f"{text}\r": 1 for text in terms}}
    write_extras(tmp_path, ["x"], {"x": SavedInput(states)})
    record = {"x": {"options": {}, "settings": {}}}
    assert read_extras(tmp_path, ["x"], record, "1")["x"].state == states


@pytest.mark.parametrize("place", [[0, MANY + 1], [-1, 2], [1], [0.0, 1], [True, 1], "ab", None, {}])
def test_lines_that_are_not_there_are_refused(tmp_path, place):
    write_extras(tmp_path, ["x"], {"x": SavedInput({"a": [f"term {number}" for number in range(MANY)]})})
    (tmp_path / "extras.json").write_text(json.dumps({"x": {"a": {"$lines": place}}}))
    with pytest.raises(ModelError, match=r"extras\.json: damaged"):
        read_extras(tmp_path, ["x"], {"x": {"options": {}, "settings": {}}}, "1")
