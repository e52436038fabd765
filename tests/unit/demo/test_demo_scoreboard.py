"""What the page computes."""

import csv
import json

import pytest
import torch

import suisei
from suisei.demo import scoreboard
from suisei.demo.scoreboard import Scoreboard, write_table
from suisei.errors import ConfigError, DataError, UnavailableError


@pytest.fixture
def board(model_folder):
    names = {"suisei": f"suisei:{model_folder}", "rouge-l": "rouge-l", "chrf": "chrf"}
    return Scoreboard({label: suisei.get_metric(name) for label, name in names.items()})


def test_a_caption_is_scored_by_every_metric(board, pictures):
    sample = board.one(" a dog runs ", "a dog\n\n  two dogs \n", str(pictures[0]))
    assert (sample.candidate, sample.references) == ("a dog runs", ("a dog", "two dogs"))
    lines = board.scores(sample)
    expected = [metric.score([sample])[0] for metric in board.metrics.values()]
    assert [line.score for line in lines] == expected
    assert [line.share for line in lines] == [expected[0], expected[1], expected[2] / 100]
    *_, explanation = board.explanation(sample)
    assert explanation.score == pytest.approx(expected[0], abs=1e-6)


def test_a_thread_in_mixed_precision_gets_the_same_reasons():
    board = Scoreboard({"suisei": suisei.load(precision="fp32", cache="off")})
    sample = board.one("a dog runs", "a dog", None)
    *_, expected = board.explanation(sample)
    with torch.autocast("cpu", torch.bfloat16):
        *_, explanation = board.explanation(sample)
    assert explanation == expected


def test_what_a_metric_lacks_is_said_in_its_line(board):
    lines = board.scores(board.one("犬", "", None))
    assert [line.reason for line in lines] == ["", "no references", "no references"]
    assert lines[0].score is not None
    with pytest.raises(DataError, match="candidate is empty"):
        board.one(" \n", "a dog", None)


def test_a_score_that_cannot_be_given_is_a_reason(monkeypatch):
    recap = suisei.get_metric("length")
    lacking = iter([{}, {0: "declined; image 1 of 3"}])  # RECAP knows once it has drawn
    monkeypatch.setattr(recap, "missing", lambda samples: next(lacking, {}))
    monkeypatch.setattr(recap, "score", lambda samples: [float("nan")])
    board = Scoreboard({"recap": recap})
    sample = board.one("a dog", "", None)
    assert [(line.score, line.share, line.reason) for line in board.scores(sample)] == [
        (None, None, "declined; image 1 of 3")
    ]
    assert board.scores(sample)[0].reason == "no score"


def test_a_metric_that_fails_is_a_reason_and_costs_no_other(board, monkeypatch):
    sample = board.one("a dog", "a dog", None)
    expected = board.scores(sample)

    def fail(*_, **__):
        raise UnavailableError("clip is not in the local cache")

    for number, metric in enumerate(board.metrics.values()):
        monkeypatch.setattr(metric, "score", fail)
        if number + 1 == len(expected):
            break
        lines = board.scores(sample)
        assert [line.reason for line in lines[: number + 1]] == ["clip is not in the local cache"] * (
            number + 1
        )
        assert [line.summary for line in lines] == [line.summary for line in expected]
        assert lines[number + 1 :] == expected[number + 1 :]
    with pytest.raises(DataError, match="clip is not in the local cache"):
        board.scores(sample)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("foo,bar", r"Call that of the captions candidate \(known: candidate, mt,"),
        ("caption,prediction,hyp", "the candidate may be prediction, hyp; rename the others$"),
    ],
)
def test_what_is_said_of_columns_names_no_option(board, tmp_path, header, said):
    (tmp_path / "rows.csv").write_text(f"{header}\na,b,c\n")
    with pytest.raises(DataError, match=said) as error:
        board.table(tmp_path / "rows.csv")
    assert "--" not in str(error.value)


def test_more_text_than_a_page_takes_is_refused(board):
    for caption, references in (("a" * 1001, ""), ("a", "b" * 1001), ("a", "b\n" * 21)):
        with pytest.raises(DataError, match="of up to 1,000 characters and 20 references"):
            board.one(caption, references, None)
    assert len(board.one("a" * 1000, "b\n" * 20, None).references) == 20


def test_metrics_of_a_corpus_are_refused():
    with pytest.raises(ConfigError, match="cider learns weights from a corpus"):
        Scoreboard({"cider": suisei.get_metric("cider")})


def test_a_file_becomes_a_table(board, tmp_path):
    source = tmp_path / "captions.jsonl"
    rows = [
        {"id": "a", "candidate": "a dog", "references": ["a dog runs"]},
        {"candidate": "犬", "references": ["犬が走る"]},
        {"candidate": ""},
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n", encoding="utf-8")
    headings, cells = board.table(source)
    assert headings == ["id", "caption", "suisei", "rouge-l", "chrf", "note"]
    samples = [board.one("a dog", "a dog runs", None), board.one("犬", "犬が走る", None)]
    for own, sample, start in zip(cells, samples, (["a", "a dog"], ["2", "犬"]), strict=False):
        expected = [metric.score([sample])[0] for metric in board.metrics.values()]
        assert own[:2] == start
        assert own[2:5] == pytest.approx(expected, abs=1e-5)
        assert own[5] == ""
    assert cells[2][5].startswith("row 3: candidate is empty")
    assert cells[3][2:5] == [None, None, None]
    assert "JSON" in cells[3][5]


@pytest.mark.parametrize("column", ["image", "Image Path", "file_name", "video"])
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_files_that_a_visitor_names_are_not_looked_at(board, pictures, tmp_path, suffix, column):
    tables = []
    for number, image in enumerate((str(pictures[0]), "/no/such/file.png", "")):
        source = tmp_path / f"{number}{suffix}"
        row = {"candidate": "a dog", column: image}
        if suffix == ".jsonl":
            source.write_text(json.dumps(row) + "\n")
        else:
            mark = "\t" if suffix == ".tsv" else ","
            source.write_text(f"{column}{mark}candidate\n{image}{mark}a dog\n")
        tables.append(board.table(source)[1])
    assert tables[0] == tables[1] == tables[2]
    assert tables[0][0][2] == pytest.approx(board.metrics["suisei"].score(["a dog"])[0], abs=1e-5)


def test_ratings_of_a_visitor_are_not_looked_at(board, tmp_path):
    source = tmp_path / "rated.csv"
    source.write_text("candidate,reference,score,rating\na dog,a dog runs,4,7\n")
    (cells,) = board.table(source)[1]
    assert (cells[1], cells[-1]) == ("a dog", "")
    assert None not in cells


def test_limits_of_files(board, tmp_path, monkeypatch):
    monkeypatch.setattr(scoreboard, "MAX_ROWS", 2)
    source = tmp_path / "rows.csv"
    source.write_text("candidate\na\nb\nc\n")
    with pytest.raises(DataError, match="more than 2 rows; 'suisei score' takes any number"):
        board.table(source)
    source.write_text("")
    with pytest.raises(DataError, match=r"^rows\.csv: the file is empty"):
        board.table(source)
    source.write_bytes(b"candidate\n\xff\xfe\n")
    assert "UTF-8" in board.table(source)[1][0][-1]
    for name in ("rows.parquet", "rows.txt"):
        with pytest.raises(ConfigError):
            board.table(tmp_path / name)


def test_a_spreadsheet_meets_no_formula(tmp_path):
    path = tmp_path / "scores.csv"
    write_table(path, ["id", "caption", "score"], [["1", "=HYPERLINK(1)", -0.5], ["2", "犬", None]])
    with path.open(encoding="utf-8-sig", newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["id", "caption", "score"], ["1", "'=HYPERLINK(1)", "-0.5"], ["2", "犬", ""]
        ]  # fmt: skip
