"""Score files: written, read back, joined by id or by row order."""

import json
from pathlib import Path

import numpy as np
import pytest

from suisei.commands import evaluate, score
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.scoring.score_columns import split_source
from suisei.scoring.scorefile import join_columns, read_scores, write_scores

SAMPLES = [CaptionSample("x", id=name) for name in ("a", "b", "c")]
NAMELESS = [CaptionSample("x"), CaptionSample("y")]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_round_trip_is_exact(tmp_path, suffix):
    path = tmp_path / f"s{suffix}"
    scores = {"m": np.array([0.1 + 0.2, np.nan, 1e-300]), "n,o": np.array([1.0, 2.0, 3.0])}
    write_scores(path, SAMPLES, scores)
    read, how = read_scores(path, SAMPLES[::-1])
    assert how == f"s{suffix}: joined by id, 3 of 3 samples found"
    np.testing.assert_array_equal(read["m"], scores["m"][::-1])
    np.testing.assert_array_equal(read["n,o"], [3, 2, 1])


def test_samples_found_by_id_have_a_mark_of_thousands(tmp_path):
    samples = [CaptionSample("x", id=str(number)) for number in range(1200)]
    write_scores(tmp_path / "s.csv", samples[:1100], {"m": np.zeros(1100)})
    assert read_scores(tmp_path / "s.csv", samples)[1] == "s.csv: joined by id, 1,100 of 1,200 samples found"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_an_id_keeps_its_line_ends(tmp_path, suffix):
    samples = [CaptionSample("a", id=name) for name in ("1\n2", "1\r2", "1\r\n2")]
    write_scores(tmp_path / f"s{suffix}", samples, {"m": np.arange(3.0)})
    scores, how = read_scores(tmp_path / f"s{suffix}", samples)
    assert scores["m"].tolist() == [0, 1, 2]
    assert "3 of 3 samples" in how


def test_rows_without_ids_are_joined_by_order(tmp_path):
    path = tmp_path / "s.csv"
    write_scores(path, NAMELESS, {"m": np.array([1.0, 2.0])})
    read, how = read_scores(path, NAMELESS)
    assert read["m"].tolist() == [1, 2]
    assert "row order" in how
    path.write_text("m\n1\n2\n3\n4\n")
    assert read_scores(path, NAMELESS, among=[(4, [1, 3])])[0]["m"].tolist() == [2, 4]
    with pytest.raises(DataError, match=r"4 rows for 2 samples, which no id joins; add ids"):
        read_scores(path, NAMELESS)


@pytest.mark.parametrize("text", ["id,m\n3,30\n1,10\n2,20\n", "id,m,n\n2,20,1\n3,30,\n1,10,3\n"])
def test_ids_that_are_row_numbers_join_data_without_ids(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_text(text)
    nameless = [CaptionSample(word) for word in "xyz"]
    read, how = read_scores(path, nameless)
    assert read["m"].tolist() == [10, 20, 30]
    assert how == "s.csv: the data has no ids, joined by row number (3 rows)"
    read, how = read_scores(path, NAMELESS, among=[(3, [0, 2])])
    assert read["m"].tolist() == [10, 30]
    assert how.endswith("(3 rows, 2 measured)")
    with pytest.raises(DataError, match="3 rows for 2 samples"):
        read_scores(path, NAMELESS)


@pytest.mark.parametrize("count", [5, 6, 8])
def test_row_numbers_that_may_be_those_of_all_rows_or_of_the_rated_ones_are_refused(tmp_path, count):
    """Of twelve rows the last six are rated."""
    path = tmp_path / "s.csv"
    samples = [CaptionSample(word) for word in "uvwxyz"]
    rated = [(12, [6, 7, 8, 9, 10, 11])]
    path.write_text("id,m\n" + "".join(f"{n},{n}\n" for n in range(1, count + 1)))
    with pytest.raises(
        DataError, match=rf"its ids 1 to {count} may number all 12 rows .*all 12 rows, or add"
    ):
        read_scores(path, samples, among=rated)
    path.write_text("id,m\n" + "".join(f"{n},{n}\n" for n in range(7, 13)))
    assert read_scores(path, samples, among=rated)[0]["m"].tolist() == [7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("count", [6, 8])
def test_row_numbers_that_mean_the_same_either_way_are_taken(tmp_path, count):
    """Of twelve rows the first six are rated."""
    path = tmp_path / "s.csv"
    path.write_text("id,m\n" + "".join(f"{n},{n}\n" for n in range(1, count + 1)))
    samples = [CaptionSample(word) for word in "uvwxyz"]
    read, how = read_scores(path, samples, among=[(12, [0, 1, 2, 3, 4, 5])])
    assert read["m"].tolist() == [1, 2, 3, 4, 5, 6]
    assert how.endswith(f"joined by row number ({count} of 12 rows, 6 measured)")


@pytest.mark.parametrize("text", ["id,m\n1,1\n2,2\n3,\n4,4\n5,5\n", "id,m\n5,5\n4,4\n2,2\n1,1\n"])
def test_row_numbers_count_bad_rows_that_were_left_out(tmp_path, text):
    """Of five rows the third is bad and the fourth unrated."""
    path = tmp_path / "s.csv"
    path.write_text(text)
    samples = [CaptionSample(word) for word in "xyz"]
    read, how = read_scores(path, samples, among=[(4, [0, 1, 3]), (5, [0, 1, 4])])
    assert read["m"].tolist() == [1, 2, 5]
    assert "joined by row number" in how
    path.write_text(
        "id,m\n1,1\n2,2\n3,3\n4,4\n"
    )  # without the last row, or without the third and numbered anew
    with pytest.raises(DataError, match="its ids 1 to 4 may number all 5 rows of the data or those"):
        read_scores(path, samples, among=[(4, [0, 1, 3]), (5, [0, 1, 4])])
    path.write_text('m\n1\n2\n""\n4\n5\n')
    assert read_scores(path, samples, among=[(4, [0, 1, 3]), (5, [0, 1, 4])])[0]["m"].tolist() == [1, 2, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,m\n1,1\nb,2\n",
            "row 2: id 'b' is no row number from 1 to 2, and the data has no ids; add the id",
        ),
        ("id,m\n0,1\n1,2\n", "row 1: id '0' is no row number from 1 to 2"),  # counted from 0: off by one
        ("id,m\n1,1\n3,2\n", "row 2: id '3' is no row number .*, or take the ids out of this file"),
        ("id,m\n1,1\n1,2\n", "row 2: id '1' occurs twice"),
        ("id,m\n1,1\n,2\n", "row 2: no id"),
    ],
)
def test_other_ids_do_not_join_data_without_ids(tmp_path, text, message):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_scores(path, NAMELESS)


def test_a_column_score_does_not_take_the_place_of_another(tmp_path):
    for order in ("score,cider", "cider,score"):
        path = tmp_path / "cider.csv"
        values = {"cider": "1", "score": "2"}
        path.write_text(f"id,{order}\na," + ",".join(values[name] for name in order.split(",")) + "\n")
        read, _ = read_scores(path, SAMPLES[:1])
        assert {name: column.tolist() for name, column in read.items()} == {"cider": [1], "score": [2]}


def test_absent_ids_are_missing_and_sample_fields_are_no_scores(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [{"id": "c", "score": 3, "candidate": "x"}, {"id": "z", "score": 9}, {"id": "a", "score": None}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read, how = read_scores(path, SAMPLES)
    assert list(read) == ["mine"]
    np.testing.assert_array_equal(read["mine"], [np.nan, np.nan, 3])
    assert "2 of 3" in how


def test_columns_that_describe_the_sample_are_no_scores_and_are_named(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(
        "id,image_file,caption,image_id,rating_1,reference_2,pred,model_name,mine\n"
        "a,1.jpg,a dog,7,5,the dog,.5,sys,1\nb,2.jpg,a cat,8,4,the cat,,sys,2\nc,,,,,,1,sys,3\n"
    )
    read, how = read_scores(path, SAMPLES)
    assert {name: values.tolist()[::2] for name, values in read.items()} == {"pred": [0.5, 1], "mine": [1, 3]}
    assert how.endswith(
        "; not taken for scores: image_file, caption, image_id, rating_1, reference_2, model_name"
    )


@pytest.mark.parametrize(
    ("picked", "names"),
    [
        ("mine", ["mine"]),
        ("n,o", ["n,o"]),
        ("rating,mine,mine", ["rating (s.csv)", "mine"]),
        ("b:c", ["b:c"]),
        (" mine, b:c,", ["mine", "b:c"]),
        (",".join(["mine"] * 80), ["mine"]),
    ],
)
def test_columns_may_be_picked(tmp_path, picked, names):
    path = tmp_path / "s.csv"
    path.write_text('id,rating,comment,mine,"n,o",b:c\na,1,good,2,3,4\n')
    columns, _ = join_columns([f"{path}:{picked}"], SAMPLES[:1], (), [])
    assert [column.label for column in columns] == names
    with pytest.raises(DataError, match=r"column 'comment': 'good' is not a finite .*: --scores FILE:COLUMN"):
        read_scores(path, SAMPLES[:1])
    with pytest.raises(DataError, match=r"s\.csv: no column 'other'; it has id, rating, comment, mine"):
        read_scores(path, SAMPLES[:1], picked="mine,other")


@pytest.mark.parametrize("header", ["id, score", "id,human", "id,Score "])
def test_scores_may_be_called_as_a_rating_is(tmp_path, header):
    path = tmp_path / "s.csv"
    path.write_text(f"{header}\na,.5\n")
    read, _ = read_scores(path, SAMPLES[:1])
    assert [values.tolist() for values in read.values()] == [[0.5]]


def test_what_is_saved_of_any_column_is_read_back(tmp_path):
    path, saved = tmp_path / "ratings.csv", tmp_path / "saved.jsonl"
    path.write_text("id,score,image_id\na,.5,7\n")
    columns, _ = join_columns([path, f"{path}:image_id"], SAMPLES[:1], (), [])
    assert [column.label for column in columns] == ["ratings (ratings.csv)", "image_id (ratings.csv)"]
    write_scores(saved, SAMPLES[:1], {column.label: column.scores for column in columns})
    again, _ = read_scores(saved, SAMPLES[:1])
    assert {name: values.tolist() for name, values in again.items()} == {
        "ratings (ratings.csv)": [0.5],
        "image_id (ratings.csv)": [7],
    }


@pytest.mark.parametrize(
    ("source", "path", "picked"),
    [
        ("s.csv", "s.csv", ""),
        ("s.csv:", "s.csv:", ""),
        ("s.csv:a,b", "s.csv", "a,b"),
        ("s.jsonl:bertscore:x.csv:y", "s.jsonl", "bertscore:x.csv:y"),
        (r"C:\s.csv", r"C:\s.csv", ""),
        (r"C:\s.csv:a", r"C:\s.csv", "a"),
        ("run:1.csv:here.csv", "run:1.csv:here.csv", ""),
        ("run:1.csv:here.csv:a", "run:1.csv:here.csv", "a"),
    ],
)
def test_a_colon_may_be_of_the_file_or_pick_columns(tmp_path, monkeypatch, source, path, picked):
    monkeypatch.chdir(tmp_path)
    Path("run:1.csv:here.csv").touch()
    assert split_source(source) == (Path(path), picked)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.jsonl", '{"id": "a", "m": 1}\n{"id": "a", "m": 2}\n', "row 2: id 'a' occurs twice"),
        ("s.jsonl", '{"id": "a", "m": "high"}\n', "row 1, column 'm': 'high' is not a finite number"),
        ("s.jsonl", '{"id": "a", "m": NaN}\n', "row 1, column 'm'"),
        ("s.jsonl", '{"id": "a", "m": 1}\n{"m": 2}\n', "row 2: no id"),
        ("s.jsonl", '{"id": "q", "m": 1}\n', "none of its 1 id is"),
        ("s.jsonl", "[1]\n", "row 1: expected an object"),
        ("s.jsonl", "{\n", "row 1: not valid JSON"),
        ("s.jsonl", '{"id": "a", "rating": 1}\n', "no score column"),
        ("s.csv", "id,m\na,1,2\n", "row 1: its number of fields"),
        ("s.csv", "id,m\n", "no rows"),
        ("s.tsv", "id,m\n", r"read from .jsonl, .csv or FLEUR's .txt, got '.tsv'"),
    ],
)
def test_refuses(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_scores(path, SAMPLES)


def test_unreadable_and_unknown_files(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_scores(tmp_path / "absent.csv", SAMPLES)
    (tmp_path / "s.csv").write_bytes("id,m\n犬,1\n".encode("cp932"))
    with pytest.raises(DataError, match="not valid UTF-8"):
        read_scores(tmp_path / "s.csv", SAMPLES)
    with pytest.raises(ConfigError, match=r"\.jsonl or \.csv"):
        write_scores(tmp_path / "s.xlsx", SAMPLES, {})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.jsonl", b'{"id": "a", "m": 1, "m": 2}\n', "row 1: not valid JSON: .*'m' is given twice"),
        ("s.jsonl", b'{"id": "a", "m": ' + b"9" * 5000 + b"}\n", "row 1: not valid JSON"),
        (
            "s.jsonl",
            b'{"id": "a", "m": 1' + b"0" * 400 + b"}\n",
            "row 1, column 'm': 10+ is not a finite number",
        ),
        ("s.jsonl", b"[" * 100_000, "row 1: not valid JSON"),
        ("s.csv", b"id,m,m\na,1,2\n", "header: a column has no name, or two have the same: id, m, m"),
        ("s.csv", b"id,\na,1\n", "header: a column has no name"),
        ("s.csv", b"id,m\na," + b"1" * 200_000 + b"\n", "not CSV"),
        ("s.csv", b'id,m\na,"1\n', "line 1: not CSV"),
        ("s.csv", "id,m\na,1\n".encode("utf-16-le"), "UTF-16 or not text"),
        ("s.tsv", b"m\n1\n", "read from .jsonl, .csv or FLEUR"),
    ],
)
def test_hostile_files_are_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_scores(tmp_path / name, SAMPLES)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_evaluate_joins_what_score_wrote_of_the_same_data_with_bad_rows(tmp_path):
    """Row 4 has no caption and row 6 no rating."""
    rows = [
        {"candidate": "a " * n, "references": ["a"], "rating": n / 10} for n in (5, 1, 9, 2, 7, 3, 8, 4, 6)
    ]
    rows[3]["candidate"], rows[5]["rating"] = "", None
    data, scores, found = (tmp_path / name for name in ("data.jsonl", "scores.jsonl", "found.json"))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    skip = ["--on-error", "skip"]
    score.main(["--input", str(data), "--metrics", "length", "--output", str(scores), *skip])
    given = ["--data", str(data), "--scores", str(scores), "--bootstrap", "0", "--json", str(found), *skip]
    assert evaluate.main(given) == 0
    rows = json.loads(found.read_text())["sections"][0]["rows"]
    (row,) = (row for row in rows if row["label"] == "length")
    assert (row["samples"], row["skipped"]) == (7, 0)
    assert row["cells"]["spearman"]["value"] == pytest.approx(1.0)
