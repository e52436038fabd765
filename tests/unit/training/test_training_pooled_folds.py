"""The report of a cross-validation, out of what its folds left."""

import json

import numpy as np
import pytest

from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample
from suisei.report.contents import part_of
from suisei.report.html import render
from suisei.report.stored import read_result
from suisei.training.pooled_folds import pool_folds
from suisei.training.run_report import write_scores


@pytest.fixture
def folds(tmp_path):
    """Two folds of a cross-validation, in the second of which a baseline could not be computed."""
    for fold in range(2):
        folder = tmp_path / f"fold-{fold}"
        folder.mkdir()
        samples = [
            CaptionSample(f"dog {n}", ["a dog"], rating=n / 9, group=f"{fold}{n}", id=f"{fold}{n}")
            for n in range(10)
        ]
        write_samples(folder / "test.jsonl", samples)
        columns = {"suisei": np.linspace(0, 1, 10), "length": np.linspace(1, 0, 10)}
        others = {} if fold else {"clip-s": np.linspace(0, 1, 10)}
        write_scores(folder / "test_scores.jsonl", samples, {**columns, **others})
        shared = {"test and train": {"rows": 1, "images": 0, "references": 0}}
        results = {"settings": {"raters": "mean"}}
        report = {"data": {"sources": ["scenes"], "shared": shared}, "results": results}
        (folder / "report.json").write_text(json.dumps(report))
    return tmp_path


def test_a_baseline_that_a_fold_lacks_is_left_out_of_the_whole(folds, caplog):
    pool_folds(folds, 2)
    rows = [json.loads(line) for line in (folds / "test_scores.jsonl").read_text().splitlines()]
    assert len(rows) == 20
    assert list(rows[0]) == ["id", "suisei", "length"]
    assert "clip-s: not compared on all folds together" in caplog.text


def test_the_whole_counts_ratings_as_its_folds_do(folds):
    pool_folds(folds, 2)
    report = json.loads((folds / "report.json").read_text())
    assert report["results"]["settings"]["raters"] == "mean"  # in data with more raters elsewhere


def test_what_is_wrong_with_the_data_is_said_of_all_folds_together(folds, capsys):
    pool_folds(folds, 2)
    cautions = json.loads((folds / "report.json").read_text())["cautions"]
    page = render("page", [part_of(read_result(folds))])
    shown = " ".join(capsys.readouterr().out.split())
    for said in ("added up over 2 folds; test and training share 2 rows", "are simulated: figures"):
        assert any(said in caution for caution in cautions)
        assert all(said in text for text in ((folds / "report.md").read_text(), page, shown))
