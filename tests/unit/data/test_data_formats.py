"""Reading rows: every field, every kind of damage, and nothing lost beside it."""

import io
import json
import sys
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from suisei.data.formats import Row, iter_rows, read_samples
from suisei.data.lines import MAX_LINE_CHARACTERS
from suisei.data.sample import CaptionSample
from suisei.data.writers import write_samples
from suisei.errors import ConfigError, DataError, UnavailableError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def jsonl(folder: Path, *records: object) -> Path:
    return write(folder, "rows.jsonl", "".join(json.dumps(record) + "\n" for record in records))


def problem(row: Row) -> str:
    assert row.sample is None
    assert row.error is not None
    return str(row.error)


def test_jsonl_fields(tmp_path):
    write(tmp_path, "a.png", b"not opened by the reader")
    path = jsonl(
        tmp_path,
        {
            "id": "x",
            "candidate": "猫がいる",
            "references": ["猫", "ねこ"],
            "image": "a.png",
            "rating": [3, 4.5],
            "rating_scale": [1, 5],
            "language": "ja",
            "system": "s1",
            "group": 7,
        },
        {"candidate": "a cat"},
    )
    full, bare = read_samples(path)
    assert (full.id, full.candidate, full.references) == ("x", "猫がいる", ("猫", "ねこ"))
    assert full.image == tmp_path / "a.png"
    assert (full.rating.values, full.rating.low, full.rating.high) == ((3.0, 4.5), 1.0, 5.0)
    assert (full.language, full.system, full.group) == ("ja", "s1", "7")
    assert (bare.id, bare.references, bare.image, bare.rating, bare.group) == (None, (), None, None, None)


def test_scale_of_the_row_before_the_callers_before_0_to_1(tmp_path):
    path = jsonl(
        tmp_path, {"candidate": "a", "rating": 3}, {"candidate": "b", "rating": 3, "rating_scale": [0, 4]}
    )
    first, second = read_samples(path, rating_scale=(1, 5))
    assert first.rating.mean == pytest.approx(0.5)
    assert second.rating.mean == pytest.approx(0.75)
    with pytest.raises(DataError, match=r"row 1: rating 3 is outside .* 0 to 1.*--rating-scale LOW HIGH"):
        read_samples(path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"candidate": ""}, "candidate is empty"),
        ({"candidate": " \u3000"}, "candidate is empty"),
        ({"references": ["a"]}, "no column 'candidate'"),
        ({"candidate": 5}, "candidate must be text, got int 5"),
        ({"candidate": "x" * 100_000}, "candidate has 100,000 characters"),
        ({"candidate": "half \ud83d"}, "broken character"),
        ({"candidate": "a", "references": "b"}, "references must be a list of captions, got str 'b'"),
        ({"candidate": "a", "references": ["b", ""]}, "reference 2 is empty"),
        ({"candidate": "a", "references": [None]}, "reference 1 must be text"),
        ({"candidate": "a", "rating": float("nan")}, "rating is NaN"),
        ({"candidate": "a", "rating": float("inf")}, "rating inf is outside"),
        ({"candidate": "a", "rating": 1.5}, "--rating-scale LOW HIGH"),
        ({"candidate": "a", "rating": [0.5, 7]}, "rating 7 is outside"),
        ({"candidate": "a", "rating": "0.5"}, "rating must be a number, got str '0.5'"),
        ({"candidate": "a", "rating": True}, "rating must be a number, got bool"),
        ({"candidate": "a", "rating": []}, "rating is an empty list"),
        ({"candidate": "a", "rating": 10**400}, "rating is too large a number"),
        ({"candidate": "a", "rating": 1, "rating_scale": [5, 1]}, "rating_scale must be"),
        ({"candidate": "a", "rating": 1, "rating_scale": 5}, "rating_scale must be"),
        ({"candidate": "a", "image": "gone.png"}, "no file .*gone.png"),
        ({"candidate": "a", "image": "x" * 5000}, "image 'x+"),
        ({"candidate": "a", "image": 1.5}, "image must be text"),
        ({"candidate": "a", "language": "fr"}, "language is 'fr'; expected one of ja, en"),
        ({"candiate": "a"}, r"no column 'candidate'; 'candiate' \(did you mean 'candidate'\?\)"),
        (
            {"caption": "a", "text": "b"},
            "candidate may be caption, text; say which: --column candidate=caption",
        ),
        ({"candidate": "a", "mos": 1, "human": 1}, "the rating may be human, mos; say which"),
        ({"candidate": "a", "score": 3}, "score 3 is outside .*; if it is no rating: --column rating="),
        ({"candidate": "a", "Rating": 3}, "Rating 3 is outside the rating scale"),
        ({"candidate": "a", "file_name": "gone.png"}, "file_name 'gone.png' is not there.*--column image="),
        ({"candidate": "a", "references": [], "reference": "b"}, "references are given twice"),
        ([1], "expected a JSON object"),
        ("text", "expected a JSON object"),
        (None, "expected a JSON object"),
    ],
)
def test_a_bad_record_costs_one_row_and_says_why(tmp_path, record, message):
    path = jsonl(tmp_path, {"candidate": "first"}, record, {"candidate": "last"})
    rows = list(iter_rows(path))
    assert [row.number for row in rows] == [1, 2, 3]
    assert problem(rows[1]).startswith(f"{path}, row 2: ")
    with pytest.raises(DataError, match=message):
        raise rows[1].error
    assert (rows[0].sample.candidate, rows[2].sample.candidate) == ("first", "last")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{bad", "not valid JSON"),
        (b'{"candidate": "a", "candidate": "b"}', "'candidate' is given twice"),
        (b'{"candidate": "\x83\x4c"}', "not valid UTF-8"),
        (b"[" * 50_000, "not valid JSON"),
        (b'{"candidate": "a", "rating": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"", "the line is blank"),
        (b'{"candidate": "' + b"a" * MAX_LINE_CHARACTERS * 2 + b'"}', "the line has over"),
    ],
)
def test_a_broken_json_line_costs_one_row(tmp_path, line, message):
    path = write(tmp_path, "r.jsonl", b'{"candidate": "first"}\n' + line + b'\n{"candidate": "last"}\n\n\n')
    first, bad, last = iter_rows(path)
    assert message in problem(bad)
    assert (first.sample.candidate, last.sample.candidate) == ("first", "last")


def test_the_id_of_a_bad_row_is_known_and_an_id_may_occur_once(tmp_path):
    path = jsonl(
        tmp_path,
        {"id": 1, "candidate": ""},
        {"id": "1", "candidate": "a"},
        {"id": "2", "candidate": "b"},
        {"candidate": "c"},
        {"candidate": "c"},
    )
    rows = list(iter_rows(path))
    assert [row.id for row in rows] == ["1", "1", "2", None, None]
    assert "id '1' is used by an earlier row" in problem(rows[1])
    assert [row.sample is not None for row in rows] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"candidate": " a dog\\n", "references": ["the dog "]}\n'),
        ("a.csv", 'candidate,reference\n"a dog\n", the dog\n'),
        ("a.tsv", "candidate\treference\na dog \tthe dog \n"),
    ],
)
def test_white_space_around_captions_is_taken_off_in_every_format(tmp_path, name, content):
    (sample,) = read_samples(write(tmp_path, name, content))
    assert sample == CaptionSample("a dog", ["the dog"])


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


@pytest.mark.parametrize("column", ["refs", "reference", "references"])
def test_a_list_as_text_is_no_caption_whatever_the_column_is_called(tmp_path, column):
    lists = '"[ ""a cat"", ""the cat"" ]"', "[]", "\"['a cat', 'the cat']\"", '"[""a cat"""'
    text = f"mt,{column}\n" + "".join(f"a cat,{cell}\n" for cell in lists)
    full, none, *bad = iter_rows(write(tmp_path, "l.csv", text), note=str)
    assert (full.sample.references, none.sample.references) == (("a cat", "the cat"), ())
    assert all(f"{column} must be a JSON list such as" in str(row.error) for row in bad)


def test_a_list_as_text_in_json_is_no_caption_and_a_caption_in_brackets_is_one(tmp_path):
    texts = '["a cat", "the cat"]', "['a cat']", '["Stop" sign', "[a cat]"
    lines = "".join(json.dumps({"mt": "a cat", "refs": text}) + "\n" for text in texts)
    full, bad, *plain = iter_rows(write(tmp_path, "l.jsonl", lines), note=str)
    assert full.sample.references == ("a cat", "the cat")
    assert "refs must be a JSON list" in str(bad.error)
    assert [row.sample.references for row in plain] == [('["Stop" sign',), ("[a cat]",)]


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
        (b'2,b,"3,5"', "got '3,5'; write decimals with a point"),
        (b"2,b,four", "rating must be a number or a JSON list of numbers, got 'four'"),
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.jsonl", b"", "the file is empty"),
        ("e.jsonl", b"\n\n", "the file is empty"),
        ("e.csv", b"", "the file is empty"),
        ("e.csv", b"candidate\n", "the file is empty"),
        ("e.parquet", b"", "the file is empty"),
        ("e.parquet", b"PAR1 but no more", "cannot be read as Parquet"),
        (
            "h.csv",
            b"id,candiate\n1,a\n",
            "header: no column 'candidate'; 'candiate' .did you mean 'candidate'",
        ),
        (
            "h.csv",
            b"id,rating\n1,1\n",
            "header: no column 'candidate'.*--column candidate=NAME .known: candidate, mt",
        ),
        ("h.csv", b"src,ref,score\na,b,1\n", "header: no column 'candidate'"),
        ("h.csv", b"candidate,candidate\na,b\n", "header: a column name occurs twice"),
        ("h.csv", b"candiate|rating\na|1\n", "is the delimiter right"),
        ("h.txt", b'{"candidate": "a"}\n', "its lines are JSON objects, not captions; name it .jsonl"),
        ("h.txt", b"id\tcaption\n1\ta\n", "it is a table, not a caption a line; name it .tsv"),
        ("h.jsonl", b"\x1f\x8b\x08\x00", "compressed by gzip; let the name end in .gz"),
        ("h.csv", b"PK\x03\x04\x00", "ZIP archive or an Excel workbook"),
        ("h.jsonl.gz", b'{"candidate": "a"}\n', "not compressed by gzip; leave out .gz"),
        ("h.json", b"3", "expected .*it begins '3'"),
        ("h.json", b'[{"candidate": "a"}, {"candi', "not valid JSON in item 2"),
        ("h.json", b'[{"candidate": "a"} {"candidate": "b"}]', "after item 1: expected a comma"),
        ("h.json", b'[{"candidate": "a"}, ', "not valid JSON in item 2"),
        ("h.json", b'{"a": "b"', "not valid JSON: .* at line 1, character"),
        ("h.json", b'{"images": [], "annotations": []}', "an annotation file holds references.*--references"),
        ("h.json", b"[]", "the file is empty"),
        ("h.csv", b"candidate,\x83\n", "header: not valid UTF-8"),
        ("h.csv", b"\ncandidate\na\n", "header: no column 'candidate'"),
        ("u.csv", "candidate\na\n".encode("utf-16"), "UTF-16"),
        ("u.csv", "candidate\na\n".encode("utf-16-be"), "UTF-16"),
        ("u.jsonl", '{"candidate": "a"}\n'.encode("utf-16-le"), "UTF-16"),
    ],
)
def test_an_unusable_file_is_refused_as_a_whole(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=message) as caught:
        list(iter_rows(path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_a_file_in_shift_jis_is_refused_as_a_whole(tmp_path, name):
    form = {"a.txt": "{}\n", "a.jsonl": '{{"candidate": "{}"}}\n'}.get(name, "{}\n")
    start = "candidate\n" if name in ("a.csv", "a.tsv") else ""
    text = start + "".join(map(form.format, ["a dog", "犬", "犬が草の上を走っている", "a cat"]))
    path = write(tmp_path, name, text.encode("cp932"))
    with pytest.raises(DataError, match=r"a\.\w+: line [34] is in Shift_JIS .*Excel: 'CSV UTF-8'") as caught:
        read_samples(path, on_error="skip")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        "犬が草の上を走っている".encode().replace(b"\xe3", b"\xff", 1),
        "犬が草の上を走っている".encode()[1:],
        "Málaga, café “ñandú”".replace(",", "").encode("cp1252"),
    ],
)
def test_a_broken_line_that_is_not_shift_jis_costs_one_row(tmp_path, broken):
    path = write(tmp_path, "a.csv", b"candidate\na dog\n" + broken + b"\na cat\n")
    assert [sample.candidate for sample in read_samples(path, on_error="skip")] == ["a dog", "a cat"]


def test_a_line_in_shift_jis_after_others_in_utf8_costs_one_row(tmp_path):
    content = "candidate\n犬\n".encode() + "犬が草の上を走っている\n".encode("cp932") + b"a cat\n"
    samples = read_samples(write(tmp_path, "a.csv", content), on_error="skip")
    assert [sample.candidate for sample in samples] == ["犬", "a cat"]


def test_absent_files_folders_and_unknown_formats(tmp_path):
    with pytest.raises(DataError, match=r"gone\.csv: no such file"):
        read_samples(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_samples(tmp_path / "folder.csv")
    with pytest.raises(ConfigError, match=r"'\.xlsx' \(Excel: save it as 'CSV UTF-8'\); expected \.jsonl"):
        read_samples(tmp_path / "rows.xlsx")
    with pytest.raises(ConfigError, match=r"Parquet is compressed inside; write it without \.gz"):
        read_samples(tmp_path / "rows.parquet.gz")
    with pytest.raises(ConfigError, match="format is 'xml'; expected jsonl, csv, tsv, parquet, json, text"):
        read_samples(tmp_path / "rows.csv", format="xml")
    with pytest.raises(ConfigError, match="LOW < HIGH"):
        read_samples(tmp_path / "rows.csv", rating_scale=(5, 1))


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    assert read_samples(write(tmp_path, "r.csv", b"\xef\xbb\xbfcandidate,id\r\na,1\r\n"))[0].candidate == "a"
    assert read_samples(write(tmp_path, "r.jsonl", b'\xef\xbb\xbf{"candidate": "a"}\r\n'))[0].id is None


def test_images_are_looked_for_where_the_caller_says(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    write(folder, "a.png", b"x")
    path = jsonl(tmp_path, {"candidate": "a", "image": "a.png"})
    assert read_samples(path, images=folder)[0].image == folder / "a.png"
    with pytest.raises(DataError, match="--images DIR"):
        read_samples(path)


def test_on_error_skip_counts_what_it_leaves_out(tmp_path):
    path = jsonl(tmp_path, {"candidate": "a"}, {"candidate": ""}, {"candidate": "b", "rating": 9})
    skipped: list[Row] = []
    samples = read_samples(path, on_error="skip", skipped=skipped)
    assert [sample.candidate for sample in samples] == ["a"]
    assert [row.number for row in skipped] == [2, 3]
    with pytest.raises(DataError, match="row 2"):
        read_samples(path, on_error="raise")
    with pytest.raises(ConfigError, match="'raise' or 'skip'"):
        read_samples(path, on_error="ignore")
    with pytest.raises(DataError, match=r"none of the 1 rows is usable; the first problem: .*row 1"):
        read_samples(jsonl(tmp_path, {"candidate": ""}), on_error="skip")


def test_streams(tmp_path, monkeypatch):
    assert read_samples(io.StringIO('{"candidate": "a"}\n'))[0].candidate == "a"
    assert read_samples(io.StringIO("\ufeffcandidate\n猫\n"), format="csv")[0].candidate == "猫"
    with pytest.raises(DataError, match="Parquet cannot be read from a stream"):
        read_samples(io.StringIO(""), format="parquet")
    # Standard input counts as UTF-8 whatever the locale, and stays open; a wrong byte costs one row.
    raw = io.BytesIO('{"candidate": "猫"}\n'.encode() + b'{"candidate": "\xff"}\n{"candidate": "c"}\n')
    stdin = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stdin)
    rows = list(iter_rows(stdin))
    assert [row.sample and row.sample.candidate for row in rows] == ["猫", None, "c"]
    assert not raw.closed
    # A stream that the caller opened keeps its encoding.
    other = io.TextIOWrapper(io.BytesIO("candidate\n猫\n".encode("cp932")), encoding="cp932")
    assert read_samples(other, format="csv")[0].candidate == "猫"
    broken = io.TextIOWrapper(io.BytesIO(b"candidate\n\xff\n"), encoding="utf-8")
    with pytest.raises(DataError, match="not valid utf-8"):
        read_samples(broken, format="csv")


def parquet(folder: Path, **columns: object) -> Path:
    path = folder / "r.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


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


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, suffix):
    caption = "a caption of some length, as long as captions usually are, and then a little more " * 5
    path, ids = tmp_path / f"r.{suffix}", [f"row {number}" for number in range(20_000)]
    if suffix == "parquet":
        parquet(tmp_path, candidate=[caption] * len(ids), id=ids)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps({"id": own, "candidate": caption}) + "\n" for own in ids))
    else:
        path.write_text("id,candidate\n" + "".join(f'{own},"{caption}"\n' for own in ids))
    del ids
    tracemalloc.start()
    count = sum(row.sample is not None for row in iter_rows(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 3_000_000  # the captions alone are 8 MB, and a plain set of the ids' hashes 3.3 MB


FORMS = {
    "r.jsonl": '{"image_id": 7, "caption": "a dog"}\n{"image_id": 8, "caption": "犬"}\n',
    "r.csv": "image_id,caption\n7,a dog\n8,犬\n",
    "r.json": '[{"image_id": 7, "caption": "a dog"},\n {"image_id": 8, "caption": "犬"}]',
    "by_image.json": '{"7": "a dog", "8": ["犬"]}',
    "list.json": '[{"7": "a dog"}, {"8": "犬"}]',
    "rows.json": '[{"group": 7, "candidate": "a dog", "rating": 1}, {"group": 8, "hyp": "犬"}]',
    "lines.json": '{"image_id": 7, "prediction": "a dog"}\n\n{"image_id": 8, "prediction": "犬"}\n',
    "objects.json": '{"7": {"group": 7, "caption": "a dog"}, "8": {"group": 8, "caption": "犬"}}',
    "semicolon.csv": "image_id;caption\r\n7;a dog\r\n8;犬\r\n",
    "tabs.csv": "image_id\tcaption\n7\ta dog\n8\t犬\n",
    "commas.tsv": "image_id,caption\n7,a dog\n8,犬\n",
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order-mark"])
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
@pytest.mark.parametrize("name", FORMS)
def test_the_forms_that_people_have_say_the_same(tmp_path, name, packed, mark):
    import gzip

    notes, content = [], mark + FORMS[name].encode()
    path = write(tmp_path, name + ".gz" * packed, gzip.compress(content) if packed else content)
    samples = read_samples(path, note=notes.append)
    assert [(sample.group, sample.candidate) for sample in samples] == [("7", "a dog"), ("8", "犬")]
    assert 1 <= len(notes) <= 2
    assert all(note.startswith(f"{path}: ") and "\n" not in note for note in notes)


def test_one_row_as_a_document_is_a_row(tmp_path):
    path = write(tmp_path, "r.json", '{\n "caption": "a dog",\n "references": ["the dog", "dog"]\n}')
    (sample,) = read_samples(path, note=str)
    assert (sample.candidate, sample.references) == ("a dog", ("the dog", "dog"))


def test_plain_text_is_a_caption_a_line(tmp_path):
    path = write(tmp_path, "r.txt", 'a dog\r\n"quoted", 猫\n')
    assert [sample.candidate for sample in read_samples(path, note=str)] == ["a dog", '"quoted", 猫']


def test_columns_that_differ_by_row_are_noted_a_few_times(tmp_path):
    notes = []
    rows = [{"candidate": "a", f"extra{number // 2}": 1} for number in range(100)]
    assert len(read_samples(jsonl(tmp_path, *rows), note=notes.append)) == 100
    assert 1 <= len(notes) <= 3
    assert "ignored: 'extra0'" in notes[0]


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


def test_a_repeated_image_of_a_result_file_is_refused_or_kept_without_ids(tmp_path):
    path = write(tmp_path, "r.json", json.dumps([{"image_id": 1, "caption": text} for text in "ab"]))
    with pytest.raises(DataError, match=r"row 2: id '1' is used by an earlier row.*--column id="):
        read_samples(path, note=str)
    samples = read_samples(path, columns={"id": None}, note=str)
    assert [(sample.id, sample.group, sample.candidate) for sample in samples] == [
        (None, "1", "a"),
        (None, "1", "b"),
    ]


def test_bad_items_of_a_json_list_cost_a_row_each(tmp_path):
    content = b'[{"image_id": 1, "caption": "a"}, 3, {"image_id": 2, "caption": "\x83"}'
    content += b', {"image_id": 4, "caption": "b"}]'
    rows = list(iter_rows(write(tmp_path, "r.json", content), note=str))
    assert [row.sample and row.sample.candidate for row in rows] == ["a", None, None, "b"]
    assert "got 3" in problem(rows[1])
    assert "not valid UTF-8" in problem(rows[2])
    rows = list(iter_rows(write(tmp_path, "r.json", '{"1": ["a", "b"], "2": "c", "3": 4}'), note=str))
    assert "2 captions for image '1'" in problem(rows[0])
    assert "candidate must be text" in problem(rows[2])


@pytest.mark.parametrize("form", ["results", "joined"])
def test_memory_does_not_grow_with_a_json_list_or_files_of_references(tmp_path, form):
    caption, count = "a caption of some length, as long as captions usually are " * 5, 20_000
    items = ({"image_id": number, "caption": caption} for number in range(count))
    path = write(tmp_path, "r.json", "[" + ",\n".join(map(json.dumps, items)) + "]")
    references = None
    if form == "joined":
        path = write(tmp_path, "r.txt", f"{caption}\n" * count)
        references = [write(tmp_path, f"ref{n}.txt", f"{caption}\n" * count) for n in range(2)]
    tracemalloc.start()
    found = sum(row.sample is not None for row in iter_rows(path, references=references, note=str))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    assert peak < 4_000_000  # the captions alone are 6 MB, three times where there are references


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
