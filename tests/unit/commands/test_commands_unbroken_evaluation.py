"""Evaluations and comparisons that are interrupted, or whose images go away: what is said and kept."""

import pytest

from suisei.commands import compare, evaluate, probe
from suisei.metrics.base import Metric
from tests.unit.commands.acting import EVALUATING, interrupt, rated_rows, registered
from tests.unit.runs import read_rows, run, write_rows


@pytest.fixture(autouse=True)
def acting(monkeypatch):
    yield from registered(monkeypatch)


@pytest.fixture
def data(tmp_path):
    return rated_rows(tmp_path)


def test_an_image_that_goes_away_stops_an_evaluation_that_keeps_scores(data, acting, capsys):
    image, away = data.parent / "images" / "9.png", data.parent / "away.png"
    arguments = ["--data", data, "--metrics", "looking", "--bootstrap", 10, "--keep", data.parent / "kept"]
    acting.act = staticmethod(lambda: image.rename(away) if image.exists() else None)
    assert run(evaluate.main, *arguments) == 2
    assert f"{image} is not there any more; the same command goes on" in capsys.readouterr().err
    acting.act = staticmethod(lambda: None)
    away.rename(image)
    assert run(evaluate.main, *arguments) == 0


def test_ctrl_c_of_an_evaluation_says_what_is_kept(data, acting, capsys):
    arguments = ["--data", data, *EVALUATING, "--json", data.parent / "e.json"]
    keep = ["--keep", data.parent / "kept"]
    acting.act = staticmethod(interrupt)
    assert run(evaluate.main, *arguments) == 130
    assert (
        "1 of 3 metrics are done; their scores are lost; with --keep DIR they would"
        in capsys.readouterr().err
    )
    assert run(evaluate.main, *arguments, *keep) == 130
    assert (
        f"1 of 3 metrics are done; scores are in {data.parent / 'kept'}, and the same"
        in capsys.readouterr().err
    )
    acting.act = staticmethod(lambda: None)
    assert run(evaluate.main, *arguments, *keep) == 0
    whole = (data.parent / "e.json").read_bytes()
    assert run(evaluate.main, *arguments) == 0
    assert (data.parent / "e.json").read_bytes() == whole


def test_kept_scores_that_lack_none_may_lie_in_a_folder_that_cannot_be_written_to(data, monkeypatch, capsys):
    arguments = ["--data", data, "--metrics", "length", "--bootstrap", 10, "--keep", data.parent / "kept"]
    assert run(evaluate.main, *arguments) == 0
    shown = capsys.readouterr().out
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever may write anywhere has no such folder
    monkeypatch.setattr("suisei.scoring.kept_scores.FileOutput", None)
    assert run(evaluate.main, *arguments) == 0
    assert capsys.readouterr().out == shown
    assert run(evaluate.main, *arguments[:-1], data.parent / "new") == 2
    assert f"--keep {data.parent / 'new'}: cannot be written to" in capsys.readouterr().err


def test_a_comparison_goes_on_from_what_is_kept(data, acting):
    rows = read_rows(data)
    for name in ("one", "two"):
        own = [{**row, "candidate": f"{row['candidate']} {name}"} for row in rows]
        write_rows(data.parent / f"{name}.jsonl", own)
    arguments = [
        data.parent / "one.jsonl",
        data.parent / "two.jsonl",
        *EVALUATING,
        "--json",
        data.parent / "c.json",
    ]
    assert run(compare.main, *arguments) == 0
    whole = (data.parent / "c.json").read_bytes()
    acting.at = "a dog 9 two"
    acting.act = staticmethod(interrupt)
    try:
        assert run(compare.main, *arguments, "--keep", data.parent / "kept") == 130
        acting.act = staticmethod(lambda: None)
        assert run(compare.main, *arguments, "--keep", data.parent / "kept") == 0
    finally:
        acting.at = "a dog 9"
    assert (data.parent / "c.json").read_bytes() == whole


@pytest.mark.parametrize("at", ["a dog 9", "no dog 11"])  # as it is, and changed
def test_probes_go_on_from_what_is_kept(data, acting, monkeypatch, capsys, at):
    arguments = ["--data", data, *EVALUATING, "--json", data.parent / "p.json", "--good", 0.5]
    keep = ["--keep", data.parent / "kept"]
    assert run(probe.main, *arguments) == 0
    whole = (data.parent / "p.json").read_bytes()
    monkeypatch.setattr(acting, "at", at)
    acting.act = staticmethod(interrupt)
    capsys.readouterr()
    assert run(probe.main, *arguments) == 130
    lost = "interrupted; the scores are lost; with --keep DIR they would have been kept"
    assert lost in capsys.readouterr().err
    assert run(probe.main, *arguments, *keep) == 130
    kept = f"interrupted; scores are in {data.parent / 'kept'}, and the same command goes on from them"
    assert kept in capsys.readouterr().err
    acting.act = staticmethod(lambda: None)
    (data.parent / "p.json").unlink()
    assert run(probe.main, *arguments, *keep) == 0
    assert (data.parent / "p.json").read_bytes() == whole


def test_what_probes_keep_is_never_scored_again(data, monkeypatch):
    rows = read_rows(data)
    for row in rows:  # so that there are protocols, for which CIDEr is fitted anew
        number = row["id"][1:]
        row["references"] = [f"a dog {number} runs on grass", f"the dog {number} is running outside"]
        row["rating"] = 0.9
    write_rows(data, rows)
    arguments = ["--data", data, "--metrics", "cider,rouge-l", "--bootstrap", 10]
    arguments += ["--systems", f"one={data}", "--json", data.parent / "p.json"]
    keep = ["--keep", data.parent / "kept"]
    assert run(probe.main, *arguments) == 0
    whole = (data.parent / "p.json").read_bytes()
    assert b'"curves"' in whole
    assert run(probe.main, *arguments, *keep) == 0

    def never(*_, **__):
        raise AssertionError("scored again")

    monkeypatch.setattr(Metric, "score_each", never)
    assert run(probe.main, *arguments, *keep) == 0
    assert (data.parent / "p.json").read_bytes() == whole


@pytest.mark.parametrize(("at", "number"), [("a dog 9", 9), ("no dog 11", 11)])
def test_an_image_that_goes_away_stops_probes_that_keep_scores(data, acting, capsys, monkeypatch, at, number):
    image, away = data.parent / "images" / f"{number}.png", data.parent / "away.png"
    monkeypatch.setattr(acting, "at", at)
    arguments = [
        "--data",
        data,
        "--metrics",
        "length,looking",
        "--bootstrap",
        10,
        "--keep",
        data.parent / "k",
    ]
    acting.act = staticmethod(lambda: image.rename(away) if image.exists() else None)
    assert run(probe.main, *arguments) == 2
    assert f"{image} is not there any more; the same command goes on" in capsys.readouterr().err
    acting.act = staticmethod(lambda: None)
    away.rename(image)
    assert run(probe.main, *arguments) == 0
