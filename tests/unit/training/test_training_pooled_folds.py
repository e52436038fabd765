"""The report of a cross-validation, out of what its folds left."""

import json

import numpy as np

from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample
from suisei.training.pooled_folds import pool_folds
from suisei.training.run_report import write_scores


def test_a_baseline_that_a_fold_lacks_is_left_out_of_the_whole(tmp_path, caplog):
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
        (folder / "report.json").write_text("{}")
    pool_folds(tmp_path, 2)
    rows = [json.loads(line) for line in (tmp_path / "test_scores.jsonl").read_text().splitlines()]
    assert len(rows) == 20
    assert list(rows[0]) == ["id", "suisei", "length"]
    assert "clip-s: not compared on all folds together" in caplog.text
