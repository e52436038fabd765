"""`suisei train` with task: pretrain, and a metric that starts from its encoder."""

import json

import pytest

from suisei.commands.train import main

SMALL = [
    "--model.text.tiny.layers=0", "--model.text.tiny.width=32", "--model.text.tiny.vocabulary=500",
    "--model.pretraining.batch_size=32",
]  # fmt: skip


@pytest.mark.slow
def test_pretrained_encoder_finds_captions_and_is_read_by_a_metric(tmp_path):
    folder = tmp_path / "run"
    assert (
        main(["--config", "pretrain.yaml", *SMALL, "--model.pretraining.epochs=8", f"--output={folder}"]) == 0
    )
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert len(report["loss"]) == 8
    assert report["loss"][-1] < report["loss"][0]
    found = report["retrieval"]
    assert found["after"]["images"] == found["before"]["images"] > 10
    assert found["after"]["recall@1"] > found["before"]["recall@1"]

    metric = tmp_path / "metric"
    arguments = [
        "--config", "scenes.yaml", f"--model.text.name={folder / 'text'}", "--model.text.frozen=true",
        "--model.text.layers=last", "--model.image=null", "--model.fusion.extra_inputs=[length]",
        "--trainer.max_epochs=1", f"--output={metric}",
    ]  # fmt: skip
    assert main(arguments) == 0
    from suisei import load

    assert load(metric / "model").score(["a red ball"], references=[["a ball"]]).shape == (1,)


def test_a_pretraining_without_epochs_is_refused(tmp_path, capsys):
    from suisei.errors import ConfigError

    with pytest.raises(ConfigError, match="at least one epoch"):
        main(["--config", "pretrain.yaml", "--model.pretraining.epochs=0", f"--output={tmp_path / 'run'}"])


def test_a_pretraining_for_parts_is_refused(tmp_path):
    from suisei.errors import ConfigError

    several = ["--model.pretraining.cross_fit=4", "--model.fusion.blocks=[]", "--model.text.frozen=true"]
    with pytest.raises(ConfigError, match="cross_fit must be 0"):
        main(["--config", "pretrain.yaml", *several, f"--output={tmp_path / 'run'}"])
