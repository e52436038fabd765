"""A small training run on a part of the bundled sample, for the tests of the whole path."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]
SCENES = REPOSITORY / "data" / "scenes"
SAMPLES = 90

SETTINGS = """
seed_everything: 3
data:
  train: {data}
  batch_size: 8
model:
  text: {{name: tiny, tiny: {{vocabulary: 300, width: 16, layers: 1}}}}
  image: {{name: tiny, frozen: false, tiny: {{width: 4, image_size: 64, features: 8}}}}
  head: {{hidden: [16]}}
  optimizer: {{head_lr: 0.005, encoder_lr: 0.003, image_lr: 0.003}}
trainer: {{max_epochs: 2, accelerator: cpu, precision: 32-true, enable_progress_bar: false}}
early_stopping: {{patience: 9}}
"""


@pytest.fixture(scope="session")
def rated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first samples of the bundled data, with absolute image paths."""
    rows = [
        json.loads(line) for line in (SCENES / "captions.jsonl").read_text("utf-8").splitlines()[:SAMPLES]
    ]
    for row in rows:
        row["image"] = str(SCENES / row["image"])
    path = tmp_path_factory.mktemp("data") / "rated.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def settings(rated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config of a model that trains in a second or two."""
    path = tmp_path_factory.mktemp("config") / "small.yaml"
    path.write_text(SETTINGS.format(data=rated_file), encoding="utf-8")
    return path


Train = Callable[..., Path]


@pytest.fixture(scope="session")
def train(settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Run `suisei train` in this process; returns the run's folder.

    Runs with options of their own do without the picture and with fewer bootstrap samples.
    """
    from suisei.commands import train as module
    from suisei.training import run_report

    torch.set_num_threads(1)

    def run(*arguments: str, output: Path | None = None) -> Path:
        output = tmp_path_factory.mktemp("runs") / "run" if output is None else output
        os.environ.pop("PL_GLOBAL_SEED", None)
        with pytest.MonkeyPatch.context() as patch:
            if arguments:
                patch.setattr(run_report, "RESAMPLES", 20)
                patch.setattr(run_report, "plot_predicted", lambda *_, **__: None)
            assert module.main(["--config", str(settings), f"--output={output}", *arguments]) == 0
        return output

    return run


@pytest.fixture(scope="session")
def finished(train: Train) -> Path:
    """The folder of one finished run; not to be changed."""
    return train()


@pytest.fixture
def built(settings: Path, tmp_path: Path) -> Callable[..., Any]:
    """Make model, data and batches as a run does before its first step."""
    from suisei.commands import train as module
    from suisei.training.run import _build
    from suisei.training.synthetic import synthetic_samples

    def build(*options: str) -> Any:
        os.environ.pop("PL_GLOBAL_SEED", None)
        cli = module.make_cli(["--config", str(settings), f"--output={tmp_path / 'run'}", *options])
        data = cli.datamodule
        data.load()
        data.add_training(synthetic_samples(data.part("train"), data.synthetic, cli.config.seed_everything))
        _build(cli.config.seed_everything, cli.datamodule, cli.model, torch.device("cpu"))
        return cli

    return build
