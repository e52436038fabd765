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
    assert found["after"]["recall@10"] > found["before"]["recall@10"]

    metric = tmp_path / "metric"
    arguments = [
        "--config", "scenes.yaml", f"--model.text.name={folder / 'text'}", "--model.text.frozen=true",
        "--model.text.layers=last", "--model.image=null", "--model.fusion.extra_inputs=[length]",
        "--trainer.max_epochs=1", f"--output={metric}",
    ]  # fmt: skip
    assert main(arguments) == 0
    from suisei import load

    assert load(metric / "model").score(["a red ball"], references=[["a ball"]]).shape == (1,)


@pytest.mark.slow
def test_encoders_that_were_trained_before_are_pretrained_again(tmp_path, capsys):
    """One of Hugging Face's, of which a metric would train some layers alone; and that of a trained model."""
    from suisei.errors import ConfigError

    once = [*SMALL, "--model.pretraining.epochs=1", "--data.fractions=[0.1,0.1,0.8]"]
    layers = ["--model.text.tiny.layers=1", "--model.text.layers=last"]
    assert main(["--config", "pretrain.yaml", *once, *layers, f"--output={tmp_path / 'one'}"]) == 0
    text = f"--model.text.name={tmp_path / 'one' / 'text'}"
    some = ["--model.text.layers=last", "--model.text.trained_layers=1"]
    assert main(["--config", "pretrain.yaml", *once, text, *some, f"--output={tmp_path / 'two'}"]) == 0
    assert (tmp_path / "two" / "text" / "model.safetensors").is_file()
    metric = [
        "--config", "scenes.yaml", *once, "--model.text.layers=last", "--model.image=null",
        "--model.fusion.extra_inputs=[]", "--trainer.max_epochs=1", "--baselines=[]",
    ]  # fmt: skip
    assert main([*metric, text, f"--output={tmp_path / 'three'}"]) == 0
    model = f"--model.text.name={tmp_path / 'three' / 'model'}"
    assert main([*metric, model, f"--output={tmp_path / 'four'}"]) == 0
    with pytest.raises(ConfigError, match=r"three/model is the folder of a trained model; name the encoder"):
        main(["--config", "pretrain.yaml", *once, model, f"--output={tmp_path / 'five'}"])
    assert not (tmp_path / "five").exists()


def test_a_pretraining_without_epochs_is_refused(tmp_path, capsys):
    from suisei.errors import ConfigError

    with pytest.raises(ConfigError, match="at least one epoch"):
        main(["--config", "pretrain.yaml", "--model.pretraining.epochs=0", f"--output={tmp_path / 'run'}"])


def test_a_pretraining_for_parts_is_refused(tmp_path):
    from suisei.errors import ConfigError

    several = ["--model.pretraining.cross_fit=4", "--model.fusion.blocks=[]", "--model.text.frozen=true"]
    with pytest.raises(ConfigError, match="cross_fit must be 0"):
        main(["--config", "pretrain.yaml", *several, f"--output={tmp_path / 'run'}"])
