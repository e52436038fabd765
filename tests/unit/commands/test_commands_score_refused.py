"""What the score command refuses, and what it says where nothing can be scored."""

import argparse
import gzip
import re

import pytest

from suisei.commands.score import main
from suisei.commands.score_rows import quick_count
from suisei.errors import ConfigError
from tests.unit.commands.score_runs import ENGLISH, JAPANESE, run
from tests.unit.runs import read_rows, write_rows


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_input_is_an_error_and_leaves_no_file(tmp_path, content, capsys):
    data = tmp_path / "in.jsonl"
    data.write_text(content)
    assert run("--metrics", "length", "--input", data, "--output", tmp_path / "o.jsonl") == 2
    assert "the file is empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_no_row_that_can_be_scored_is_a_failure(tmp_path):
    data = write_rows(tmp_path / "in.jsonl", [{"candidate": ""}] * 3)
    output = tmp_path / "o.jsonl"
    assert run("--metrics", "length", "--input", data, "--output", output, "--on-error", "skip") == 1
    assert [row["length"] for row in read_rows(output)] == [None] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "blue-4"], "no metric 'blue-4'"),
        (["--metrics", "length", "--output", "o.txt"], r"\.jsonl, \.csv, \.tsv"),
        (["--metrics", "length", "--output", "missing/o.csv"], "its folder does not exist"),
        (["--metrics", "length", "--images", "missing"], "no such folder"),
        (["--metrics", "length", "--resume"], "needs an --output file"),
        (["--metrics", "length", "--output", "in.jsonl"], "is the input"),
        (["--metrics", "length,length"], "given twice"),
        (["--metrics", "length", "--metric-option", "cider.x=1"], "not asked for"),
        (["--metrics", "length", "--input", "-", "--format", "parquet"], "Parquet"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "in.jsonl", [{"candidate": "a"}])
    with pytest.raises(ConfigError, match=message):
        main(["--input", "in.jsonl", *arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("r.csv", 'candidate\na\n"b ""x""\nc"\nd', 3),
        ("r.csv", "candidate\n", 0),
        ("r.tsv", "candidate\r\na\r\nb\r\n\r\n", 2),
        ("r.jsonl", '{"candidate": "a"}\n{"candidate": "b"}', 2),
        ("r.jsonl", '{"candidate": "a"}\n\n\n', 1),
        ("r.txt", 'an "open quotation\nb\n', 2),
        ("r.json", "[]", None),
        ("r.csv.gz", "", None),
    ],
)
def test_progress_counts_rows(tmp_path, name, text, rows):
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert quick_count(argparse.Namespace(input=str(path), format=None)) == rows


def test_captions_and_references_in_text_are_what_they_are_in_json_lines(tmp_path, capsys):
    captions, references = ENGLISH[:3], [ENGLISH[1:], JAPANESE[:3]]
    rows = [{"candidate": c, "references": [a, b]} for c, a, b in zip(captions, *references, strict=True)]
    texts = [tmp_path / f"ref{n}.txt" for n in range(2)]
    for path, lines in zip(texts, references, strict=True):
        path.write_text("\n".join(lines) + "\n")
    (tmp_path / "hyp.txt.gz").write_bytes(gzip.compress("\n".join(captions).encode()))
    outputs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    chosen = ("--metrics", "CIDEr,rouge-l", "--output")
    assert run(*chosen, outputs[0], "--input", write_rows(tmp_path / "in.jsonl", rows)) == 0
    assert "taken for" not in capsys.readouterr().err
    assert run(*chosen, outputs[1], "--input", tmp_path / "hyp.txt.gz", "--references", *texts) == 0
    told = capsys.readouterr().err
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert told.count("taken for plain text, a caption a line") == 1  # though CIDEr reads them twice
    assert told.count("is joined with line n of") == 1


def test_scores_of_other_metrics_are_no_ratings(tmp_path, capsys):
    data = write_rows(tmp_path / "in.jsonl", [{"caption": "a dog", "image_id": 3, "score": -7.5}])
    assert run("--metrics", "length", "--input", data) == 0
    told = capsys.readouterr().err
    assert "taken: 'caption' for the candidate, 'image_id' for the group; ignored: 'score'; --column" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--references", "gone.json"], "--references gone.json: no such file"),
        (["--references", "."], "is a folder; give a file"),
        (["--column", "candiate=x"], "no field 'candiate' .*did you mean 'candidate'"),
        (["--column", "candidate"], "must be FIELD=NAME, such as candidate=my_name, got 'candidate'"),
        (["--references", "in.jsonl", "--output", "in.jsonl"], "is the input"),
        (["--references=--"], "--references: '--' is no value"),
    ],
)
def test_references_and_columns_that_cannot_be(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "in.jsonl", [{"candidate": "a"}])
    assert run("--metrics", "length", "--input", "in.jsonl", *arguments) == 2
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
    assert re.search(message, found.err)
