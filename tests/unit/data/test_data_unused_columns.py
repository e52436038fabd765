"""Columns of numbers that fill no field."""

import json

import pytest

from suisei.data.unused_columns import unused_numbers


def test_columns_of_numbers_that_fill_nothing_are_named_in_their_order(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "r2,caption,worker,r1,image_id,blank,mixed\n1,a dog,w1,2.5,7,,1\n,a cat,w2,3,8,,x\n", "utf-8"
    )
    assert unused_numbers(path) == ["r2", "r1"]


def test_rows_with_columns_of_their_own(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"candidate": "a", "x": 1, "yes": True},
        {"candidate": "b", "y": 0.5},
        {"candidate": "c", "x": "n"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert unused_numbers(path) == ["y"]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "caption,r1\n\n\n", ""])
def test_a_file_that_says_nothing(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert unused_numbers(path) == []
    assert unused_numbers(tmp_path / "absent.csv") == []
