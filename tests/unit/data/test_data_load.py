"""Loading by name or by file."""

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.load import load_data
from suisei.errors import ConfigError, DataError


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("candidate,rating\na,4\nb,9\n")
    return path


def test_a_file(rows):
    skipped = []
    for name in (rows, str(rows)):
        samples = load_data(name, rating_scale=(1, 5), on_error="skip", skipped=skipped)
        assert [sample.rating.mean for sample in samples] == [0.75]
    assert [row.number for row in skipped] == [2, 2]
    with pytest.raises(DataError, match=r"rows\.csv, row 2: rating 9"):
        load_data(rows, rating_scale=(1, 5))


def test_a_benchmark(tmp_path):
    path = tmp_path / "shichimi_dev.csv"
    path.write_text("imgid,src,mt,ref,score\n1,あ,い,う,5\n", encoding="utf-8")
    assert load_data("shichimi", root=tmp_path)[0].rating.mean == 1
    assert load_data("shichimi", root=str(tmp_path), rating_scale=(1, 5))[0].group == "1"
    with pytest.raises(ConfigError, match="own rating scale, 1 to 5"):
        load_data("shichimi", root=tmp_path, rating_scale=(0, 5))


@pytest.mark.parametrize("name", ["shichmi", "Shichimi"])
def test_an_unknown_name_lists_what_there_is(name):
    with pytest.raises(ConfigError) as caught:
        load_data(name)
    message = str(caught.value)
    assert "did you mean 'shichimi'?" in message
    assert ", ".join(BENCHMARKS) in message
    assert ".jsonl, .ndjson, .csv, .tsv, .parquet" in message


def test_columns_and_references_of_a_file(tmp_path):
    path, references, notes = tmp_path / "rows.csv", tmp_path / "refs.txt", []
    path.write_text("what,mos\na,4\nb,5\n")
    references.write_text("x\ny\n")
    samples = load_data(
        path, rating_scale=(1, 5), columns={"candidate": "what"}, references=[references], note=notes.append
    )
    assert [(s.candidate, s.references, s.rating.mean) for s in samples] == [
        ("a", ("x",), 0.75),
        ("b", ("y",), 1),
    ]
    assert any("'mos' for the rating" in note for note in notes)
    for given in ({"columns": {"candidate": "what"}}, {"references": [references]}):
        for name in ("shichimi", "thumb"):
            with pytest.raises(ConfigError) as caught:
                load_data(name, root=tmp_path, **given)
            message = f"{name} takes {next(iter(given))} from its own files alone; leave them out, or give a"
            assert str(caught.value).startswith(message)
            assert str(caught.value).endswith(BENCHMARKS[name].source)


def test_a_folder_and_a_workbook_are_no_data(tmp_path):
    with pytest.raises(ConfigError, match="is a folder; give a file, or a benchmark's name"):
        load_data(tmp_path)
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    with pytest.raises(ConfigError, match="Excel: save it as 'CSV UTF-8'"):
        load_data(tmp_path / "book.xlsx")


def test_a_file_takes_no_root(rows):
    with pytest.raises(ConfigError, match=r"takes no root.*--images"):
        load_data(rows, root=rows.parent)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load_data(tmp_path / "gone.jsonl")


def test_the_bundled_sample():
    samples = load_data("scenes")
    assert {sample.language for sample in samples} == {"ja", "en"}
    assert all(sample.image.is_file() and sample.group and sample.rating for sample in samples)
    assert {(sample.rating.low, sample.rating.high) for sample in samples} == {(1, 5)}
    assert len({sample.id for sample in samples}) == len(samples)
