"""`suisei ablate` with real trainings, which are small."""

import json

import pytest

from suisei.cli import run_command
from suisei.commands.ablate import main

pytestmark = pytest.mark.slow


def test_an_ablation_trains_reports_and_keeps_what_is_done(settings, tmp_path, capfd):
    given = [
        "--config", str(settings), "--seeds", "3,4", "--variants", "no-image", "--bootstrap", "50",
        "--output", str(tmp_path / "ab"), "--jobs", "2", "--trainer.max_epochs", "1",
    ]  # fmt: skip
    assert run_command(main, given) == 0
    content = json.loads((tmp_path / "ab" / "report.json").read_text())
    rows = {row["label"]: row["cells"] for row in content["ablation"]["sections"][0]["rows"]}
    assert {name: cells["seeds"]["value"] for name, cells in rows.items()} == {"full": 2, "no-image": 2}
    runs = [tmp_path / "ab" / name / f"seed-{seed}" for name in rows for seed in (3, 4)]
    assert len({(run / "splits.json").read_text() for run in runs}) == 1  # the seed does not decide the split
    learned = [json.loads((run / "report.json").read_text())["training"]["data_digests"] for run in runs]
    assert learned == [learned[0]] * 4  # neither the seed nor what is left out decides it
    assert set(learned[0]) == {"train", "validation", "test", "support", "rated"}
    assert not any((run / "checkpoints").exists() for run in runs)
    assert json.loads((runs[2] / "model" / "config.json").read_text())["settings"]["image"] is None
    written = [(run / "report.json").stat().st_mtime_ns for run in runs]
    capfd.readouterr()
    assert run_command(main, given) == 0
    assert [(run / "report.json").stat().st_mtime_ns for run in runs] == written
    assert "4 runs in" in capfd.readouterr().err
