"""Rows of CSV, TSV and Parquet."""

import sys

import pyarrow
import pyarrow.parquet
import pytest

from suisei.data.formats import iter_rows, read_samples
from suisei.data.lines import MAX_LINE_CHARACTERS
from suisei.data.sample import CaptionSample
from suisei.data.writers import write_samples
from suisei.errors import DataError, UnavailableError
from tests.unit.data.row_files import jsonl, parquet, problem, write


def test_csv_with_numbered_references_in_numeric_order(tmp_path):
    numbered = [f"reference_{number}" for number in range(1, 12)]
    header = ["candidate", *reversed(numbered), "rating"]
    cells = ["a cat", *(str(number) for number in range(11, 0, -1)), "0.5"]
    cells[1] = ""  # reference_11
    sample = read_samples(write(tmp_path, "r.csv", f"{','.join(header)}\n{','.join(cells)}\n"))[0]
    assert sample.references == tuple(str(number) for number in range(1, 11))
    assert sample.rating.values == (0.5,)


def test_csv_with_json_cells_and_blank_cells(tmp_path):
    text = (
        "id,candidate,references,rating,rating_scale,language,image\n"
        '1,"a ""cat"", asleep","[""a cat"", ""the cat""]","[1, 2]","[1, 5]",en,\n'
        "2,b,,,,,\n"
    )
    first, second = read_samples(write(tmp_path, "r.csv", text))
    assert first.candidate == 'a "cat", asleep'
    assert first.references == ("a cat", "the cat")
    assert (first.rating.values, first.rating.high) == ((1.0, 2.0), 5.0)
    assert (second.references, second.rating, second.language, second.image) == ((), None, None, None)


def test_a_whole_number_with_a_point_in_a_table_is_the_group_of_that_number(tmp_path):
    cells = ["12", "12.0", " 12.0 ", "12.5", "1.2.0", "012.0", "v12.0"]
    text = "candidate,image_id,id\n" + "".join(f"a,{cell},{cell}\n" for cell in cells)
    samples = read_samples(write(tmp_path, "r.csv", text), note=str)
    assert [sample.group for sample in samples] == ["12", "12", "12", "12.5", "1.2.0", "012", "v12.0"]
    assert [sample.id for sample in samples] == cells
    assert read_samples(jsonl(tmp_path, {"candidate": "a", "group": "12.0"}))[0].group == "12.0"


@pytest.mark.parametrize("column", ["refs", "reference", "references"])
def test_a_list_as_text_is_no_caption_whatever_the_column_is_called(tmp_path, column):
    lists = '"[ ""a cat"", ""the cat"" ]"', "[]", "\"['a cat', 'the cat']\"", '"[""a cat"""'
    text = f"mt,{column}\n" + "".join(f"a cat,{cell}\n" for cell in lists)
    full, none, *bad = iter_rows(write(tmp_path, "l.csv", text), note=str)
    assert (full.sample.references, none.sample.references) == (("a cat", "the cat"), ())
    assert all(f"{column} must be a JSON list such as" in str(row.error) for row in bad)


def test_ratings_may_be_written_in_full_width(tmp_path):
    text = 'candidate,rating\na,３．５\nb,３\nc,［３、４］\nd,"[３, 4]"\ne,３，５\n'
    rows = list(iter_rows(write(tmp_path, "r.csv", text), rating_scale=(1, 5)))
    assert [row.sample and row.sample.rating.values for row in rows] == [
        (3.5,),
        (3.0,),
        None,
        (3.0, 4.0),
        None,
    ]
    assert "must be a number or a JSON list of numbers, got '３，５'; write decimals with a point" in problem(
        rows[4]
    )


def test_a_column_of_ratings_per_rater_who_may_leave_rows_out(tmp_path):
    text = 'candidate,rating_2,rating_1,rating_scale\na,4,2,\nb,,3,\nc,,,\nd,9,1,\ne,7,,"[0, 9]"\nf,x,1,\n'
    rows = list(iter_rows(write(tmp_path, "r.csv", text), rating_scale=(1, 5)))
    found = [row.sample and row.sample.rating and row.sample.rating.values for row in rows]
    assert found == [(2.0, 4.0), (3.0,), None, None, (7.0,), None]
    assert "scale: --rating-scale LOW HIGH, or a column rating_scale (line 5)" in problem(rows[3])
    assert "rating_2 9 is outside the rating scale 1 to 5" in problem(rows[3])
    assert "rating_2" in problem(rows[5])
    in_json = read_samples(jsonl(tmp_path, {"candidate": "a", "rating_1": 0.5, "rating_2": [0.25, 1]}))
    assert in_json[0].rating.values == (0.5, 0.25, 1.0)


def test_columns_of_raters_that_a_caller_names_are_there(tmp_path):
    file, notes = write(tmp_path, "r.csv", "candidate,ann,bob\na,0.5,1\n"), []
    (row,) = iter_rows(file, columns={"rating": ["bob", "ann"]}, note=notes.append)
    assert (row.sample.rating.values, notes) == ((1.0, 0.5), [])


def test_comet_columns(tmp_path):
    write(tmp_path, "9.jpg", b"x")
    path = write(tmp_path, "r.tsv", "imgid\tsrc\tmt\tref\tscore\timg\n9\tこれ\tそれ\tあれ\t4\t9.jpg\n")
    sample = read_samples(path, rating_scale=(1, 5))[0]
    assert (sample.candidate, sample.references, sample.group) == ("それ", ("これ", "あれ"), "9")
    assert sample.rating.mean == pytest.approx(0.75)
    assert sample.image == tmp_path / "9.jpg"
    assert sample.id is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"2,only two", r"2 fields where the header has 3 \(id, candidate, rating\)"),
        (b"2,a,1,extra", "4 fields where"),
        (b"2,\x83\x4c,1", "not valid UTF-8"),
        (b'2,"never closed,1', "quotation mark"),
        (b'2,"closed" too early,1', "quotation mark"),
        (b"2,," + b"1", "candidate is empty"),
        (b"2,b,nan", "rating is NaN"),
        (b'2,b,"3,5"', r"got '3,5'; write decimals with a point \(line 3\)"),
        (b'2,b,"0,500"', r"got '0,500'; write decimals with a point \(line 3\)"),
        (b'2,b,"1,000"', "got '1,000'; write decimals with a point, and thousands without a comma"),
        (b'2,b,"1,000.5"', "got '1,000.5'; write decimals with a point, and thousands without a comma"),
        (b"2,b,four", r"rating must be a number or a JSON list of numbers, got 'four' \(line 3\)"),
        (b"2,b,n/a", "got 'n/a'; leave the cell blank where there is no rating"),
        (b"2,b,NA", "got 'NA'; leave the cell blank where there is no rating"),
        (b"2,b, - ", "got ' - '; leave the cell blank where there is no rating"),
        (b"2,b,[1", "rating must be a JSON list"),
        (b"2," + b"x" * 100_000 + b",1", "candidate has 100,000 characters"),
        (b"2," + b"x" * 200_000 + b",1", "over 131,072 characters"),
        (b"2," + b"x" * MAX_LINE_CHARACTERS + b",1", "the line has over"),
        (b"", "the line is blank"),
        (b"1,b,1", "id '1' is used by an earlier row"),
    ],
)
def test_a_broken_csv_line_costs_one_row(tmp_path, line, message):
    path = write(tmp_path, "r.csv", b"id,candidate,rating\n1,first,1\n" + line + b'\n3,"last\none",0\n')
    first, bad, last = iter_rows(path)
    assert problem(bad).startswith(f"{path}, row 2: ")
    assert problem(bad).endswith("(line 3)")
    with pytest.raises(DataError, match=message):
        raise bad.error
    assert (first.sample.candidate, last.sample.candidate) == ("first", "last\none")


def test_a_quotation_mark_that_is_never_closed_does_not_swallow_the_file(tmp_path):
    lines = [f"{number},caption {number}" for number in range(1, 2001)]
    lines[9] = '10,"caption 10'
    rows = list(iter_rows(write(tmp_path, "r.csv", "id,candidate\n" + "\n".join(lines))))
    assert [row.number for row in rows if row.error] == [10]
    assert [row.id for row in rows if row.sample] == [str(n) for n in range(1, 2001) if n != 10]


def test_csv_leaves_the_csv_modules_limit_alone(tmp_path):
    import csv

    before = csv.field_size_limit()
    list(iter_rows(write(tmp_path, "r.csv", "candidate\n" + "x" * 200_000 + "\n")))
    assert csv.field_size_limit() == before


def test_parquet_rows(tmp_path):
    path = parquet(
        tmp_path,
        id=pyarrow.array([1, 2, 3]),
        candidate=["a", None, "c"],
        references=[["x", "y"], [], None],
        rating=[0.5, None, float("nan")],
    )
    good, blank, nan = iter_rows(path)
    assert (good.id, good.sample.references, good.sample.rating.values) == ("1", ("x", "y"), (0.5,))
    assert "row 2: candidate is empty" in problem(blank)
    assert "row 3: rating is NaN" in problem(nan)
    with pytest.raises(DataError, match="header: no column 'candidate'"):
        read_samples(parquet(tmp_path, captoin=["a"]))


def test_a_parquet_cell_that_is_not_utf8_costs_one_row(tmp_path):
    cells = pyarrow.array([b"a", b"\xff\xfe", b"c"]).view(pyarrow.string())
    rows = list(iter_rows(parquet(tmp_path, candidate=cells)))
    assert [row.sample and row.sample.candidate for row in rows] == ["a", None, "c"]
    assert "row 2: the row is not valid UTF-8" in problem(rows[1])


def test_columns_of_the_callers_choice(tmp_path):
    path = write(tmp_path, "r.csv", "what,gold,alt,caption\na dog,the dog,,no\n")
    notes = []
    columns = {"candidate": "what", "references": ["gold", "alt"]}
    sample = read_samples(path, columns=columns, note=notes.append)[0]
    assert (sample.candidate, sample.references) == ("a dog", ("the dog",))
    with pytest.raises(
        DataError, match="no column 'waht', which is to be the candidate; did you mean 'what'"
    ):
        read_samples(path, columns={"candidate": "waht"}, note=str)
    assert "ignored: 'caption'" in notes[0]
    with pytest.raises(DataError, match="header: no column 'mos', which is to be the rating"):
        read_samples(path, columns={**columns, "rating": "mos"}, note=str)
    rows = jsonl(tmp_path, {"caption": "a"}, {"caption": "b", "mos": 1})
    assert [s.rating is None for s in read_samples(rows, columns={"rating": "mos"}, note=notes.append)] == [
        True,
        False,
    ]
    assert "the first row has no column 'mos'" in notes[1]


def test_parquet_without_its_library_says_what_to_install(tmp_path, monkeypatch, capsys):
    from suisei.__main__ import main

    source = parquet(tmp_path, candidate=["a dog"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as in an install without the extra
    wanted = r"r\.parquet: Parquet needs pyarrow: pip install 'suisei\[parquet\]'"
    with pytest.raises(UnavailableError, match=wanted):
        list(iter_rows(source))
    with pytest.raises(UnavailableError, match=r"/out\.parquet: Parquet needs pyarrow"):
        write_samples(tmp_path / "out.parquet", [CaptionSample("a dog")])
    output = tmp_path / "out.jsonl"
    assert main(["score", "--metrics", "length", "--input", str(source), "--output", str(output)]) == 2
    assert "pip install 'suisei[parquet]'" in capsys.readouterr().err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == [source]


ODD = {
    "a zone": (pyarrow.array([1, 2], pyarrow.timestamp("us", tz="Mars/Base")), 2),
    "a date": (pyarrow.array([1, 2**31 - 1], pyarrow.date32()), 1),
    "a time": (pyarrow.array([1, 2**62], pyarrow.timestamp("us")), 1),
    "a duration": (pyarrow.array([1, 2**62], pyarrow.duration("s")), 1),
    "a field twice": (pyarrow.StructArray.from_arrays([pyarrow.array([1, 2])] * 2, ["a", "a"]), 2),
}
"""Columns with values that Python has no object for, and in how many of their two rows."""


@pytest.mark.parametrize("kind", ODD)
def test_a_parquet_column_that_nobody_uses_is_named_and_not_read(tmp_path, kind):
    notes = []
    path = parquet(tmp_path, id=["x", "y"], odd=ODD[kind][0], candidate=["a", "b"], uid=["1", "2"])
    rows = list(iter_rows(path, note=notes.append))
    assert [(row.id, row.uid, row.sample.candidate) for row in rows] == [("x", "1", "a"), ("y", "2", "b")]
    assert notes == [f"{path}: columns ignored: 'odd'"]


@pytest.mark.parametrize("kind", ODD)
def test_a_parquet_value_without_an_object_costs_its_row(tmp_path, kind):
    odd, count = ODD[kind]
    path = parquet(tmp_path, candidate=["a", "b"], rating=odd)
    said = [problem(row) for row in iter_rows(path)]
    assert all(f"row {number}: rating " in text and "\n" not in text for number, text in enumerate(said, 1))
    unread = [text for text in said if f"rating cannot be read as {odd.type} (" in text]
    assert len(unread) == count
    assert all(text.endswith("; write it as text") for text in unread)


def test_parquet_columns_keep_their_dots_blanks_and_order(tmp_path):
    notes = []
    given = {"url": ["u"], "a.b": ["a dog"], "a": [1], "uid": ["1"], "references": [["x", "y"]]}
    path = parquet(tmp_path, **given)
    (sample,) = read_samples(path, columns={"candidate": "a.b"}, note=notes.append)
    assert (sample.candidate, sample.references) == ("a dog", ("x", "y"))
    assert notes == [f"{path}: columns ignored: 'url', 'a'"]
    (row,) = iter_rows(parquet(tmp_path, **{"cap ": ["a dog"]}), columns={"candidate": "cap"})
    assert "no column 'cap'" in problem(row)
    (row,) = iter_rows(parquet(tmp_path, id=["x"], candidate=[None]), columns={"id": None})
    assert row.id == "x"


def test_a_quotation_mark_that_a_later_row_closes_costs_no_other_row_of_a_tsv(tmp_path):
    rows = [
        '1\t"Hello\tdog\t.3',
        '2\tb"\tcat\t.4',
        '3\t"a ""dog""\truns"\tdog\t.5',
        '4\t"two\nlines"\tcat\t.6',
        '5\t"a\tdog"\t"two\nlines"\t.7',
    ]
    text = "\n".join(["id\tcandidate\treference_1\trating", *rows, ""])
    first, *others = iter_rows(write(tmp_path, "r.tsv", text), note=str)
    assert "row 1: a quotation mark opens a field with tabs and line ends in it" in problem(first)
    found = [(row.id, row.sample.candidate, row.sample.rating.mean) for row in others]
    assert found[:3] == [("2", 'b"', 0.4), ("3", 'a "dog"\truns', 0.5), ("4", "two\nlines", 0.6)]
    assert found[3:] == [("5", "a\tdog", 0.7)]  # of several lines, with a tab in the first
    kept = CaptionSample("two, or\nmore\tlines", id="1")
    for name in ("r.csv", "r.tsv"):
        write_samples(tmp_path / name, [kept])
        assert read_samples(tmp_path / name) == [kept]
