"""A captioner that several processes train: the batches and the weights of one."""

import csv
import json
import subprocess
import sys

import pytest
import torch
from PIL import Image

from suisei.captioning.caption_data import CaptionedImages
from suisei.encoders.weights import read_weights
from suisei.training.processes import token_weight
from tests.unit.two_processes import answers_of, environment

SIZES = {
    "width": 32, "heads": 4, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 64, "dropout": 0.0,
}  # fmt: skip
COLOURS = ("red", "green", "blue", "white", "black", "yellow")


@pytest.fixture
def config(tmp_path):
    """Settings of a short training on seventeen images with captions of unequal lengths."""
    for part, count in (("train", 17), ("validation", 6)):
        rows = []
        for number in range(count):
            colour, name = COLOURS[number % 6], f"{part}-{number}.png"
            Image.new("RGB", (40, 40 + number), colour).save(tmp_path / name)
            rows.append({"image": name, "captions": [f"a {colour} wall" + " and more" * (number % 5)]})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{part}.jsonl").write_text(text, encoding="utf-8")
    model = {
        "tower": {"name": "tiny"},
        "pretraining": {"epochs": 1},
        "layers": SIZES,
        "vocabulary": 60,
        "learning_rate": 3e-3,
    }
    trainer = {
        "max_epochs": 3, "enable_progress_bar": False, "accelerator": "cpu", "precision": "32-true",
        "log_every_n_steps": 1,
    }  # fmt: skip
    data = {part: str(tmp_path / f"{part}.jsonl") for part in ("train", "validation")}
    settings = {"task": "captioner", "monitor": "val_loss", "model": model, "data": data, "trainer": trainer}
    (tmp_path / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path / "config.yaml"


def trained(config, processes, batch_size):
    """Return steps, the losses of each step and the weights of a training in processes of its own."""
    output = config.parent / f"run-{processes}"
    command = [
        sys.executable, "-m", "suisei", "train", "--config", str(config), f"--output={output}",
        f"--trainer.devices={processes}", f"--data.batch_size={batch_size}",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with (output / "logs" / "version_0" / "metrics.csv").open() as file:
        losses = [float(row["train_loss"]) for row in csv.DictReader(file) if row["train_loss"]]
    steps = json.loads((output / "report.json").read_text())["steps"]
    return steps, losses, read_weights(output / "model" / "model.safetensors")


@pytest.mark.slow
def test_two_processes_train_as_one(config):
    """The last batch of an epoch is one image, of which the second process has nothing."""
    one, two = trained(config, 1, 8), trained(config, 2, 4)
    assert one[0] == two[0] == 9
    torch.testing.assert_close(torch.tensor(one[1]), torch.tensor(two[1]), rtol=0, atol=1e-5)
    for name, weights in one[2].items():
        if not name.endswith("key.bias"):  # which has no gradient but rounding
            torch.testing.assert_close(weights, two[2][name], rtol=0, atol=1e-4, msg=name)


@pytest.mark.parametrize("batch_size", [2, 4, 8, 16])
def test_every_image_is_in_one_process_once_an_epoch(config, monkeypatch, batch_size):
    file = config.parent / "train.jsonl"
    data = CaptionedImages(str(file), str(config.parent / "validation.jsonl"), batch_size=batch_size)
    data.load(0)
    seen, lengths = [], set()
    for rank in (0, 1):
        monkeypatch.setattr(CaptionedImages, "processes", (rank, 2))
        batches = list(data.train_dataloader().sampler)
        assert all(batches)
        lengths.add(len(batches))
        seen += [row for batch in batches if batch.places != [-1] for row in batch]
    assert sorted(seen) == list(range(17))
    assert lengths == {-(-17 // (2 * batch_size))}


def weights(rank, *counts):
    return token_weight(counts[rank], torch.device("cpu"))


@pytest.mark.slow
def test_processes_weigh_by_their_tokens(tmp_path):
    assert answers_of(weights, tmp_path, 1, 3) == [0.5, 1.5]
    (tmp_path / "meet").unlink(missing_ok=True)
    assert answers_of(weights, tmp_path, 0, 0) == [0.0, 0.0]
    assert token_weight(0, torch.device("cpu")) == 1.0
