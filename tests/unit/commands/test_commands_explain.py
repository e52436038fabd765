"""The explain command: a caption on the command line, or rows of a file."""

import json
from functools import partial

import numpy as np
import pytest

from suisei.__main__ import main as suisei
from suisei.commands.explain import main
from suisei.metrics.base import Metric
from suisei.metrics.entries import Entry
from suisei.metrics.loading import load
from suisei.metrics.registry import REGISTRY, get_metric
from tests.unit import runs

ROWS = [
    {"id": "x", "candidate": "a red dog runs", "references": ["a dog runs on grass", "dogs run"]},
    {"id": "y", "candidate": "犬が公園を走る", "references": ["公園を走る犬"]},
    {"id": "z", "candidate": "a cat", "references": ["cats sleep"]},
]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


run = partial(runs.run, main)


def explained(tmp_path, *arguments):
    assert run(*arguments, "--json", tmp_path / "out.json") == 0
    return json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["explanations"]


def test_a_caption_of_the_command_line(model_folder, pictures, tmp_path, capsys):
    given = ["two dogs", "--reference", "dogs", "--reference", "a cat", "--image", pictures[0]]
    (found,) = explained(tmp_path, *given, "--model", model_folder, "--plot", tmp_path / "why.svg")
    metric = load(model_folder)
    own = metric.explain("two dogs", ["dogs", "a cat"], pictures[0])
    assert found == json.loads(json.dumps(own.as_dict()))
    shown = capsys.readouterr().out
    assert f"{own.score:.3f}" in shown
    assert "without the image" in shown
    assert ">dogs<" in (tmp_path / "why.svg").read_text()


def test_rows_by_place_and_by_id(rows, tmp_path):
    first = explained(tmp_path, "--input", rows, "--metrics", "bleu-1")
    assert [each["candidate"] for each in first] == ["a red dog runs"]
    some = explained(tmp_path, "--input", rows, "--metrics", "bleu-1,length", "--row", 3, "--id", "y")
    assert [(each["metric"], each["candidate"]) for each in some] == [
        (name, text) for text in ("a cat", "犬が公園を走る") for name in ("bleu-1", "length")
    ]


def test_rows_are_counted_with_the_bad_ones_before_them(rows, tmp_path, capsys):
    bad = json.dumps({"id": "b", "candidate": ""}) + "\n"
    rows.write_text(bad + rows.read_text(encoding="utf-8"), encoding="utf-8")
    chosen = ("--input", rows, "--metrics", "bleu-1", "--on-error", "skip")
    some = explained(tmp_path, *chosen, "--row", 4, "--row", 2)
    assert [each["candidate"] for each in some] == ["a cat", "a red dog runs"]
    for row, message in ((1, "row 1: candidate is empty"), (5, "--row 5, but it has 4 rows")):
        assert run(*chosen, "--row", row) == 2
        assert message in capsys.readouterr().err


def test_a_bad_row_elsewhere_stops_only_what_learns_from_all_rows(rows, tmp_path, capsys):
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "b", "candidate": ""}) + "\n")
    (found,) = explained(tmp_path, "--input", rows, "--metrics", "bleu-1", "--row", 1)
    assert found["candidate"] == "a red dog runs"
    for chosen in (["cider", "--row", 1], ["bleu-1", "--row", 4], ["bleu-1", "--id", "b"]):
        assert run("--input", rows, "--metrics", *chosen) == 2
        assert "row 4: candidate is empty" in capsys.readouterr().err
    explained(tmp_path, "--input", rows, "--metrics", "cider", "--row", 1, "--on-error", "skip")
    rows.write_text(json.dumps({"candidate": "a cat"}), encoding="utf-8")
    assert run("--input", rows, "--metrics", "length", "--row", 2) == 2
    assert "--row 2, but it has 1 row\n" in capsys.readouterr().err


def test_a_bad_row_with_the_id_of_a_good_one_does_not_stop_it(rows, tmp_path):
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "x", "candidate": "a second dog", "references": ["dogs"]}) + "\n")
    (found,) = explained(tmp_path, "--input", rows, "--metrics", "bleu-1", "--id", "x", "--on-error", "skip")
    assert found["candidate"] == "a red dog runs"


def test_ratings_on_any_scale_are_not_looked_at(tmp_path):
    path = tmp_path / "rated.csv"
    path.write_text("candidate,reference,mos,rating\na dog,a dog runs,4,five\n")
    (found,) = explained(tmp_path, "--input", path, "--metrics", "bleu-1")
    assert found["candidate"] == "a dog"


class Breaking(Metric):
    """Has a defect with one caption."""

    name = "breaking"

    def _score(self, samples, *, batch_size, progress):
        return np.array([{"a cat": 1.0}[sample.candidate] for sample in samples])


def test_a_metric_that_fails_costs_no_other_explanation(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(REGISTRY, "breaking", Entry(f"{__name__}:Breaking", (), "a fake"))
    out = tmp_path / "out.json"
    given = ["explain", "--input", rows, "--metrics", "bleu-1,breaking", "--row", 1, "--json", out]
    assert suisei(list(map(str, given))) == 2
    shown = capsys.readouterr()
    assert "suisei: breaking failed: KeyError: 'a red dog runs'" in shown.err
    assert "bleu-1" in shown.out
    assert [each["metric"] for each in json.loads(out.read_text("utf-8"))["explanations"]] == ["bleu-1"]
    out.unlink()
    assert suisei(list(map(str, [*given[:3], "--metrics", "breaking", "--json", out]))) == 2
    assert not out.exists()
    assert "breaking failed: KeyError" in capsys.readouterr().err


def test_cider_is_fitted_on_all_rows(rows, tmp_path):
    from suisei.data.formats import read_samples
    from suisei.scoring.fitting import fitted_signature

    (found,) = explained(tmp_path, "--input", rows, "--metrics", "cider")
    cider, samples = get_metric("cider"), read_samples(rows)
    cider.fit(samples)
    assert found["score"] == pytest.approx(cider.score(samples)[0])
    assert found["signature"] == cider.signature + fitted_signature(len(samples))


def test_what_cannot_be_drawn_costs_nothing_else(rows, tmp_path, capsys, monkeypatch):
    from suisei.data import figures

    monkeypatch.setattr(figures, "east_asian_font", lambda: None)
    files = ["--json", tmp_path / "a.json", "--plot", tmp_path / "a.png"]
    assert run("--input", rows, "--row", 2, "--metrics", "bleu-1", *files) == 2
    said = capsys.readouterr()
    assert "fonts-noto-cjk" in said.err
    assert "公園を走る犬" in said.out
    assert (tmp_path / "a.json").exists()
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a caption, or --input FILE"),
        ([" "], "CAPTION: has no text"),
        (["a dog", "--reference", ""], "--reference: has no text"),
        (["a dog", "--input", "ROWS"], "give a caption, or --input FILE"),
        (["a dog", "--row", "1"], "--row belongs to --input"),
        (["a dog", "--column", "candidate=x"], "--column belongs to --input"),
        (["a dog", "--references", "ROWS"], "--references belongs to --input"),
        (["--input", "ROWS", "--reference", "x"], "--reference belongs to a caption on the command line"),
        (["--input", "ROWS", "--row", "4"], "--row 4, but it has 3 rows"),
        (["--input", "ROWS", "--id", "w"], "no sample has the id 'w'"),
        (
            ["--input", "ROWS", "--metrics", "length,bleu-1", "--plot", "a.png"],
            "draws one caption by one metric",
        ),
        (["--input", "ROWS", "--plot", "a.gif"], "must end in .png, .pdf or .svg"),
        (["a dog", "--reference", "dogs", "--metrics", "cider"], "cider learns from many references"),
        (["a dog", "--metrics", "bleu-1"], "bleu-1 has no score for this caption: no references"),
        (["a dog", "--image", "absent.png"], "absent.png"),
        (
            ["a dog", "--reference", "x", "--metrics", "bleu-4", "--metric-option", "bleu-4.n=abc"],
            "bleu-4 cannot be made with n=abc: TypeError",
        ),
        (["--input", "ROWS", "--json", "ROWS"], "is the input"),
    ],
)
def test_refuses(arguments, message, rows, capsys, model_folder):
    named = [str(rows) if argument == "ROWS" else argument for argument in arguments]
    chosen = [] if "--metrics" in named else ["--model", model_folder]
    assert run(*named, *chosen) == 2
    assert message in capsys.readouterr().err


def test_rows_of_other_columns_with_references_in_a_file(tmp_path, capsys):
    data, references, out = (tmp_path / name for name in ("in.csv", "refs.txt", "out.json"))
    data.write_text("what,MOS,url,rating_scale\na dog runs,1,x,1-5\na cat,2,y,1-5\n")
    references.write_text("a dog walks\nthe cat\n")
    chosen = ("--column", "candidate=what", "--references", references, "--json", out)
    assert run("--input", data, "--row", 2, "--metrics", "bleu-1", *chosen) == 0
    assert "the cat" in out.read_text()
    told = capsys.readouterr().err
    assert "ignored: 'url'; --column FIELD=NAME says otherwise" in told  # ratings are never asked for
    assert "is joined with line n of" in told


def test_it_is_a_command_with_help(capsys):
    with pytest.raises(SystemExit):
        suisei(["explain", "--help"])
    assert "--reference TEXT" in capsys.readouterr().out
