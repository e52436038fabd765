"""What stands in the place of a caption and is none costs its row, whatever the format; captions do not."""

import pytest

from suisei.data.formats import iter_rows, read_samples
from suisei.data.frames import frame_samples
from suisei.errors import DataError
from tests.unit.data.row_files import jsonl, parquet, problem, write

pandas = pytest.importorskip("pandas")


def in_table(folder, kind, **columns):
    """Write a table of text in a format that has one."""
    frame = pandas.DataFrame(columns)
    path = folder / f"t.{kind}"
    if kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    elif kind == "parquet":
        parquet(folder, **columns).rename(path)
    else:
        frame.to_json(path, orient="records", lines=kind == "jsonl")
    return path


TABLES = ("csv", "tsv", "parquet", "jsonl", "json")


@pytest.mark.parametrize("kind", TABLES)
def test_what_tables_say_where_there_is_no_value_is_no_caption(tmp_path, kind):
    words = ["nan", "NaN", "None", "NULL", "null", "<NA>", " N/A "]
    others = ["none", "Nan", "NA", "null and void", "none of the dogs runs", "a nan", "N/A?"]
    captions = [*words, *others]
    path = in_table(tmp_path, kind, candidate=captions, reference_2=["a dog"] * len(captions))
    rows = list(iter_rows(path, note=str))
    assert [row.sample is None for row in rows] == [True] * len(words) + [False] * len(others)
    assert "row 7: candidate is 'N/A', which a table says where it has no value" in problem(rows[6])
    path = in_table(tmp_path, kind, candidate=["a dog"] * len(captions), reference_2=captions)
    rows = list(iter_rows(path, note=str))
    assert [row.sample is None for row in rows] == [True] * len(words) + [False] * len(others)
    assert "row 1: reference_2 is 'nan', which" in problem(rows[0])
    assert "leave the cell blank" in problem(rows[0])


def test_a_list_of_references_has_no_such_word_either(tmp_path):
    (row,) = iter_rows(jsonl(tmp_path, {"candidate": "a", "references": ["a dog", "nan"]}))
    assert "row 1: reference 2 is 'nan'" in problem(row)
    (row,) = iter_rows(jsonl(tmp_path, {"mt": "a", "refs": ["a dog", "None"]}))
    assert "row 1: reference 2 of refs is 'None'" in problem(row)


def test_a_data_frame_of_text_has_no_such_word_either():
    frame = pandas.DataFrame({"candidate": ["a", "b"], "reference_1": ["a dog", None]})
    assert [sample.references for sample in frame_samples(frame)] == [("a dog",), ()]
    with pytest.raises(DataError, match="sample 1: reference_1 is 'None', which a table says"):
        frame_samples(frame.fillna("None"))


def test_lines_of_plain_text_are_what_somebody_wrote(tmp_path):
    samples = read_samples(write(tmp_path, "t.txt", "nan\nNone\n"), note=str)
    assert [sample.candidate for sample in samples] == ["nan", "None"]
