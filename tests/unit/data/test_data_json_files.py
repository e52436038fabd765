"""JSON that cannot be read: every reader says in the same words what is wrong, where, and what to do."""

import pytest

from suisei.data.coco import read_references, read_results
from suisei.data.formats import read_samples
from suisei.data.json_files import frame_problem, parse_object, read_list, read_object
from suisei.data.karpathy_parts import read_parts
from suisei.data.pairs import load_pairs
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.pacs.sources import read_sources
from suisei.scoring.scorefile import read_scores
from tests.unit.data.row_files import write

LINES = {
    "rows": lambda path: read_samples(path, note=str),
    "references": lambda path: read_references([path]),
    "pairs": lambda path: load_pairs(str(path)),
    "positives": lambda path: list(read_sources(str(path))),
    "scores": lambda path: read_scores(path, [CaptionSample("a dog")]),
}


@pytest.mark.parametrize("reader", LINES)
def test_a_line_that_is_no_json_is_shown_with_the_character_where_it_ends(tmp_path, reader):
    path = write(tmp_path, "a.jsonl", '{"captions": ["a dog"], "image": nothing}\n')
    message = (
        r"a\.jsonl,? (row|line) 1: not valid JSON: Expecting value at character 34: '{\"captions\": \[\"a"
    )
    with pytest.raises(DataError, match=message):
        LINES[reader](path)


@pytest.mark.parametrize("reader", ["rows", "references", "pairs", "positives"])
def test_lines_that_end_in_a_carriage_return_alone_are_told(tmp_path, reader):
    path = write(tmp_path, "a.jsonl", '{"captions": ["a dog"]}\r{"captions": ["a cat"]}\r')
    message = r"a\.jsonl,? (row|line) 1: a carriage return \(CR\) within the line, .* with LF line ends"
    with pytest.raises(DataError, match=message):
        LINES[reader](path)


def test_a_file_that_is_no_json_is_named_with_line_and_character(tmp_path):
    path = write(tmp_path, "a.json", '{\n"a": 1,\n "b" 2}')
    where = r"a\.json: not valid JSON: Expecting ':' delimiter at line 3, character 6"
    with pytest.raises(DataError, match=where + "; copy the file again"):
        read_object(path)
    with pytest.raises(DataError, match=where + "; copy the file again"):
        list(read_parts(f"{path}:test"))
    with pytest.raises(DataError, match=where + "$"):
        read_references([path])


@pytest.mark.parametrize(
    ("content", "read", "message"),
    [
        ('["a"]', read_object, "expected an object with named entries, got list"),
        ("{}", read_object, "expected an object with named entries, got nothing"),
        ('{"a": 1}', read_list, "expected a list of entries, got dict"),
        ("[]", read_list, "expected a list of entries, got nothing"),
    ],
)
def test_a_file_of_the_other_form_or_of_nothing_is_refused(tmp_path, content, read, message):
    with pytest.raises(DataError, match=rf"a\.json: {message}$"):
        read(write(tmp_path, "a.json", content))


def test_what_follows_a_document_in_its_line_is_no_other_line(tmp_path):
    with pytest.raises(DataError, match=r"not valid JSON: Extra data at line 1, character 11$"):
        read_references([write(tmp_path, "a.json", '{"7": "a"}}')])


def test_a_document_that_breaks_off_in_its_second_line_is_not_taken_for_lines(tmp_path):
    message = r"not valid JSON: Unterminated string starting at line 2, character 6$"
    with pytest.raises(DataError, match=message):
        read_references([write(tmp_path, "a.json", '{\n"7": "a do')])


def test_lines_in_a_document_are_told(tmp_path):
    with pytest.raises(
        DataError, match=r"line 2, character 1; if each line is an object .* name the file \.jsonl"
    ):
        read_references([write(tmp_path, "a.json", '{"1": "a"}\n{"2": "b"}')])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 100_000, "not valid JSON: "),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON: "),
        (b'{"a": "\xff"}', "not valid JSON: 'utf-8' codec"),
        ("[1]", r"expected a JSON object, got '\[1\]'"),
    ],
    ids=["deep", "long", "bytes", "list"],
)
def test_what_is_no_object_is_told(line, message):
    with pytest.raises(DataError, match=message):
        parse_object(line)


@pytest.mark.parametrize("orient", ["columns", "split", "table"])
def test_a_data_frame_that_pandas_wrote_otherwise_than_in_rows_is_named(tmp_path, orient):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"candidate": ["a dog", "a cat"], "image_id": [7, 8]})
    frame.to_json(tmp_path / "frame.json", orient=orient)
    frame.to_json(tmp_path / "frame.jsonl", orient=orient)
    for read in (read_samples, lambda path: read_references([path]), read_results):
        with pytest.raises(
            DataError, match=r"frame\.json: it is a DataFrame, .*orient='records', lines=True"
        ):
            read(tmp_path / "frame.json")
    with pytest.raises(DataError, match=r"frame\.jsonl, row 1: it is a DataFrame"):
        read_samples(tmp_path / "frame.jsonl")
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    assert [sample.candidate for sample in read_samples(tmp_path / "rows.jsonl", note=str)] == [
        "a dog",
        "a cat",
    ]


def test_a_data_frame_by_columns_whose_rows_have_names_is_named_and_its_fix_keeps_them(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"caption": ["a dog", "a cat"], "lang": ["en", "en"]}, index=["x.png", "y.png"])
    for name, kept in (("two", frame), ("one", frame[["caption"]])):
        path = tmp_path / f"{name}.json"
        kept.to_json(path)
        kept.to_json(path.with_suffix(".jsonl"))
        for read in (read_samples, lambda path: read_references([path]), read_results):
            with pytest.raises(DataError, match=rf"{name}\.json: it is a DataFrame, .*orient='index'"):
                read(path)
        with pytest.raises(DataError, match=r"\.jsonl, row 1: it is a DataFrame, .*orient='index'"):
            read_samples(path.with_suffix(".jsonl"))
        kept.to_json(path, orient="index")
        assert [(s.group, s.candidate) for s in read_samples(path, note=str)] == [
            ("x.png", "a dog"),
            ("y.png", "a cat"),
        ]
        assert read_references([path]).captions == {"x.png": ("a dog",), "y.png": ("a cat",)}


@pytest.mark.parametrize(
    "content",
    [
        {"7": {"caption": "a dog"}, "8": {"caption": "a cat"}},
        {"text": {"caption": "a dog"}, "target": {"caption": "a cat"}},
        {"7": {"en": "a dog"}, "8": {"en": "a cat"}},
        {"caption": {}},
        {"caption": {"a": "a dog"}, "image": {"b": "b.png"}},
        {"caption": {"a": "a dog"}, "image": "b.png"},
    ],
)
def test_what_is_no_column_by_column_data_frame_is_taken_for_none(content):
    assert frame_problem(content) == ""


def test_empty_objects_by_id_are_no_data_frame(tmp_path):
    (tmp_path / "refs.json").write_text('{"1": {}, "2": {}}')
    with pytest.raises(DataError) as raised:
        read_references([tmp_path / "refs.json"])
    assert "DataFrame" not in str(raised.value)


def test_a_byte_order_mark_is_no_part_of_a_file_and_another_encoding_is_told(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes("\ufeff".encode() + b'{"a": 1}')
    assert read_object(path) == {"a": 1}
    for encoding, said in (("utf-16", "UTF-16"), ("cp932", "not valid UTF-8 at byte 2")):
        path.write_bytes('{"犬": 1}'.encode(encoding))
        with pytest.raises(DataError, match=rf"a\.json: {said}; save it as UTF-8"):
            read_object(path)
