"""The files of a report: all are tried, all problems are said, what cannot be written is refused before."""

import argparse
import json

import numpy as np
import pytest

from suisei.commands import probe
from suisei.commands.probe_findings import Findings
from suisei.commands.reports import Files, Report, check_report, save_scores
from suisei.data.load import load_data
from suisei.errors import ConfigError, DataError
from suisei.metaeval.tables import Cell, Row, Section, Table

SCORES = {"bleu": np.array([1.0, 2.0])}


def table(title, values):
    rows = tuple(Row(label, {"pearson": Cell(value)}) for label, value in values.items())
    return Table(title, {"pearson": "Pearson"}, (Section("overall", rows),))


def test_every_file_is_written_and_what_is_shown_has_rows(tmp_path, capsys):
    files = Files(tmp_path / "r.json", tmp_path / "r.md", tmp_path / "r.tex")
    drawn = []
    tables = [table("First", {"bleu": 0.25}), table("Empty", {})]
    Report(
        {"name": "犬"}, tables, heading="# Top\n\n", ending="The end.\n", lines=["a line"], notes=["a note"],
        plot=lambda: drawn.append(True),
    ).conclude(files)  # fmt: skip
    assert json.loads(files.json.read_text()) == {"name": "犬"}
    assert files.markdown.read_text().startswith("# Top\n\n")
    assert files.markdown.read_text().endswith("The end.\n")
    assert "First" in files.latex.read_text()
    assert drawn == [True]
    shown = capsys.readouterr().out
    assert "First" in shown
    assert "Empty" not in shown
    assert shown.endswith("a line\n· a note\n")


def test_what_cannot_be_written_is_said_after_everything_else(tmp_path, capsys):
    def plot():
        raise DataError("no plot")

    files = Files(tmp_path / "gone" / "r.json", tmp_path / "r.md", None)
    with pytest.raises(DataError, match=r"no scores; .*r\.json.*; no plot"):
        Report({}, [table("First", {"bleu": 0.25})], plot=plot).conclude(files, [DataError("no scores")])
    assert "First" in files.markdown.read_text()
    assert "First" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"save_scores": "s.txt"}, r"--save-scores .*s\.txt: must end in \.jsonl or \.csv"),
        ({"json": "data.csv"}, r"--json .*data\.csv is the input"),
        ({"json": "a", "plot": "a"}, r"--plot .* is the file of --json"),
        ({"markdown": "root/there.md"}, r"--markdown .* is a file of --root"),
    ],
)
def test_files_that_cannot_be_are_refused(tmp_path, options, message):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "there.md").write_text("x")
    (tmp_path / "data.csv").write_text("x")
    named = argparse.Namespace(
        root=str(tmp_path / "root"), **{name: str(tmp_path / path) for name, path in options.items()}
    )
    with pytest.raises(ConfigError, match=message):
        check_report(named, [("--data", tmp_path / "data.csv")], sealed=["root"])


def test_scores_that_cannot_be_written_cost_nothing_else(tmp_path):
    samples = load_data("scenes")[:2]
    assert save_scores(None, samples, SCORES) == []
    assert save_scores(str(tmp_path / "s.csv"), samples, SCORES) == []
    assert (tmp_path / "s.csv").read_text().count("\n") == 3
    problems = save_scores(str(tmp_path / "gone" / "s.csv"), samples, SCORES)
    assert [type(problem) for problem in problems] == [DataError]


def test_notes_and_signatures_of_probes_are_seen_in_markdown_as_they_are():
    facts = {"notes": ["'<unk>' is cut"], "metrics": {"chrf": "chrf|a\nb`c"}}
    heading = probe._report(argparse.Namespace(keep=None), Findings(), facts, None).heading
    assert "- '\\<unk>' is cut\n- signature: `` chrf|a b`c ``\n" in heading
