"""Reading rows: every field, every kind of damage, and nothing lost beside it."""

import io
import json
import sys
import tracemalloc
import unicodedata
from itertools import islice

import pytest

from suisei.data.formats import Row, iter_rows, read_samples
from suisei.data.lines import MAX_LINE_CHARACTERS
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from tests.unit.data.row_files import jsonl, parquet, problem, write


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
        ({"error": "x.png: cut\noff"}, r"row 2: no caption: x\.png: cut off; --on-error skip leaves it out$"),
        ({"candidate": "", "error": "no \ud83d"}, r"row 2: no caption: no \\ud83d; --on-error skip"),
        ({"error": " "}, "row 2: no column 'candidate'"),
        ({"error": 5}, "row 2: no column 'candidate'"),
        ({"candidate": 5, "error": "x"}, "row 2: candidate must be text"),
        ({"caption": "a", "text": "b", "error": "x"}, "row 2: the candidate may be caption, text"),
        ({"candidate": "x" * 100_000}, "candidate has 100,000 characters"),
        ({"candidate": "half \ud83d"}, "broken character"),
        ({"candidate": "a", "references": "b"}, "references must be a list of captions, got str 'b'"),
        ({"candidate": "a", "references": ["b", ""]}, "reference 2 is empty"),
        ({"candidate": "a", "references": [None]}, "reference 1 must be text"),
        ({"candidate": "a", "rating": float("nan")}, "rating is NaN"),
        ({"candidate": "a", "rating": float("inf")}, "rating inf is outside"),
        ({"candidate": "a", "rating": 1.5}, "--rating-scale LOW HIGH"),
        ({"candidate": "a", "rating": [0.5, 7]}, "rating 7 is outside the rating scale 0 to 1;"),
        ({"candidate": "a", "rating": 1.0000001}, r"rating 1\.0000001 is outside the rating scale 0 to 1;"),
        ({"candidate": "a", "rating": "0.5"}, "rating must be a number, got str '0.5'"),
        ({"candidate": "a", "rating": True}, "rating must be a number, got bool"),
        ({"candidate": "a", "rating": []}, "rating is an empty list"),
        (
            {"candidate": "a", "rating": [0.5, None]},
            r"rating is \[0.5, None\], with null .*leave the rater out",
        ),
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


def test_a_row_marked_as_failed_says_so_whichever_column_holds_the_captions(tmp_path):
    path = jsonl(tmp_path, {"words": "first"}, {"error": "cut off"})
    rows = list(iter_rows(path, columns={"candidate": "words"}))
    assert problem(rows[1]) == f"{path}, row 2: no caption: cut off; --on-error skip leaves it out"


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


def test_a_list_as_text_in_json_is_no_caption_and_a_caption_in_brackets_is_one(tmp_path):
    lists = '["a cat", "the cat"]', "['a cat']", "('a cat', 'the cat')"
    texts = *lists, '["Stop" sign', "[a cat]", '("Stop" sign)', "('a cat')"
    lines = "".join(json.dumps({"mt": "a cat", "refs": text}) + "\n" for text in texts)
    full, *bad = islice(rows := iter_rows(write(tmp_path, "l.jsonl", lines), note=str), 3)
    assert full.sample.references == ("a cat", "the cat")
    assert all("refs must be a JSON list" in str(row.error) for row in bad)
    assert [row.sample.references for row in rows] == [(text,) for text in texts[3:]]


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
        ("h.json", b'{"images": [{"sentences": []}]}', "a Karpathy split holds references.*--references"),
        ("h.json", b"[]", "the file is empty"),
        ("h.csv", b"candidate,\x83\n", "header: not valid UTF-8"),
        ("h.csv", b"\ncandidate\na\n", "header: the first line is blank"),
        ("h.csv", b"\xef\xbb\xbfsep=,\r\ncandidate,id\r\n", "header: the first line tells Excel"),
        ("h.csv", b"sep=;\ncandidate;id\na;1\n", "header: the first line tells Excel"),
        ("h.tsv", b"sep=\t\ncandidate\tid\na\t1\n", "header: the first line tells Excel"),
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
    form = '{{"system": "one of those of the paper", "candidate": "{}"}}\n' if name == "a.jsonl" else "{}\n"
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


@pytest.mark.parametrize("held", [b"\x89PNG", {"bytes": b"\x89PNG", "path": "a.png"}])
def test_an_image_in_a_cell_is_told_from_the_name_of_its_file(tmp_path, held):
    path = parquet(tmp_path, candidate=["a"], image=[held])
    with pytest.raises(DataError, match="row 1: image holds the image itself, not the name of its file"):
        read_samples(path)
    assert read_samples(path, columns={"image": None})[0].image is None


def test_absent_files_folders_and_unknown_formats(tmp_path):
    with pytest.raises(DataError, match=r"gone\.csv: no such file"):
        read_samples(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_samples(tmp_path / "folder.csv")
    with pytest.raises(ConfigError, match=r"'\.xlsx' \(Excel: save it as 'CSV UTF-8'\); expected \.jsonl"):
        read_samples(tmp_path / "rows.xlsx")
    for name in ("rows.zip", "rows.csv.xz", "rows.jsonl.zst"):
        with pytest.raises(ConfigError, match=r"\(decompress it; of compressed files \.gz alone is read\)"):
            read_samples(tmp_path / name)
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


@pytest.mark.parametrize(("there", "here"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")])
def test_an_image_is_found_whether_its_name_is_composed_or_not(tmp_path, there, here):
    name = "ガード/カード é.png"
    file = tmp_path / unicodedata.normalize(there, name)
    file.parent.mkdir()
    file.write_bytes(b"x")
    path = jsonl(tmp_path, {"candidate": "a", "image": unicodedata.normalize(here, name)})
    assert read_samples(path)[0].image == file


def test_of_two_images_whose_names_look_alike_the_one_that_is_written_is_taken(tmp_path):
    names = [unicodedata.normalize(form, "ガード.png") for form in ("NFC", "NFD")]
    for name in names:
        write(tmp_path, name, b"x")
    path = jsonl(tmp_path, *({"candidate": "a", "image": name} for name in names))
    assert [sample.image.name for sample in read_samples(path)] == names


def test_a_link_of_another_spelling_does_not_lead_out(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / unicodedata.normalize("NFD", "ガ.png")).symlink_to(write(tmp_path, "secret.png", b"x"))
    (row,) = iter_rows(jsonl(folder, {"candidate": "a", "image": "ガ.png"}))
    assert "leads out of the folder" in problem(row)
    write(folder, "ガ.png", b"x")
    assert read_samples(folder / "rows.jsonl")[0].image == folder / "ガ.png"


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
    with pytest.raises(DataError, match=r"none of the 1 row is usable; the first problem: .*row 1"):
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
