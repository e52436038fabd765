"""The shipped configs: every one is read whole, and those for real data reach what they are meant to."""

import json
from pathlib import Path

import pytest

from suisei.commands.train import main, make_cli
from suisei.resources import resource_path

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (REPOSITORY / "configs").glob("*.yaml"))
REGRESSORS = [name for name in NAMES if not name.startswith(("pacs", "captioner", "self_critical"))]
CAPTIONERS = [name for name in NAMES if name.startswith("captioner")]


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_config_makes_model_data_and_trainer(name, tmp_path):
    cli = make_cli(["--config", str(resource_path(f"configs/{name}.yaml")), f"--output={tmp_path / 'run'}"])
    assert cli.datamodule.sources
    assert cli.model.optimizer_config.head_lr > 0


@pytest.mark.parametrize("name", CAPTIONERS)
def test_a_captioners_config_is_read_whole(name, capsys):
    path = str(resource_path(f"configs/{name}.yaml"))
    with pytest.raises(SystemExit) as stop:
        main(["--config", path, "--print_config"])
    assert not stop.value.code
    assert "data:" in capsys.readouterr().out


def test_the_papers_config_is_the_papers_model(tmp_path):
    cli = make_cli(["--config", str(resource_path("configs/suisei.yaml")), f"--output={tmp_path / 'run'}"])
    config, optimizer = cli.model.config, cli.model.optimizer_config
    assert config.text.name == "FacebookAI/xlm-roberta-base"
    assert (config.image.name, config.image.pretrained, config.image.frozen) == ("ViT-B-16", "openai", True)
    assert list(config.fusion.poolings) == ["idf", "mean"]
    assert config.fusion.references == "concat"
    assert (list(config.head.hidden), config.head.activation) == ([2304, 1152], "tanh")
    assert (optimizer.encoder_lr, optimizer.head_lr, optimizer.layerwise_decay) == (1e-5, 3e-5, 0.95)
    assert optimizer.frozen_fraction == 0.4
    assert cli.datamodule.batch_size * cli.trainer.accumulate_grad_batches == 128
    assert cli.trainer.gradient_clip_val == 1.0


@pytest.mark.slow
@pytest.mark.realdata
def test_the_japanese_config_agrees_with_people(shared, tmp_path):
    """At least .57 Pearson on images that it was not trained on, with nothing pretrained elsewhere.

    A short training of it: measured .61 on this split, and .63 as shipped.
    """
    config = str(resource_path("configs/shichimi.yaml"))
    run = tmp_path / "run"
    folders = {name: str(shared / "data" / name) for name in ("shichimi", "jsts")}
    root = f"--data.root={json.dumps(folders)}"
    options = [
        "--model.pretraining.epochs=2",
        "--model.pretraining.cross_fit=2",
        "--model.head.members=2",
        "--trainer.max_epochs=15",
        "--trainer.enable_progress_bar=false",
        f"--output={run}",
    ]
    assert main(["--config", config, root, *options]) == 0

    report = json.loads((run / "report.json").read_text("utf-8"))
    rows = {row["label"]: row for row in report["results"]["sections"][0]["rows"]}
    assert rows["suisei"]["cells"]["pearson"]["value"] >= 0.57
    assert (
        rows["suisei"]["cells"]["pearson"]["value"] > rows["unigram-f1"]["cells"]["pearson"]["value"] + 0.15
    )
