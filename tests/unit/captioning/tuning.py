"""What tests of tuning share: a captioner that has begun to learn, and a short run that tunes it."""

import csv
import json
import shutil

import torch
from PIL import Image

from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig
from suisei.encoders.tiny import TinyImageConfig

COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250), "white": (250, 250, 250)}


def fill(folder):
    """Write eight pictures of four colours with captions, and a captioner that has begun to learn them."""
    rows = []
    for number, name in enumerate([*COLOURS, *COLOURS]):
        Image.new("RGB", (40, 40 + number), COLOURS[name]).save(folder / f"{number}.png")
        captions = [f"a {name} wall", f"a wall is painted {name}", f"something {name} is here"]
        rows.append({"image": f"{number}.png", "captions": captions})
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, row in enumerate(rows):
        shutil.copy(folder / row["image"], folder / f"dev{number}.png")
    others = [{**row, "image": f"dev{row['image']}"} for row in rows]
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in others))
    begun(folder, rows).save(folder / "captioner")


def begun(folder, rows):
    """Return a captioner that names a colour as often as none: "a red wall" or "a wall".

    CIDEr gives no colour nothing, and any colour something, so much can be raised whatever the random start.
    """
    torch.manual_seed(0)
    captions = [caption for row in rows for caption in (row["captions"][0], "a wall")]
    pieces = Pieces.learned([caption for row in rows for caption in row["captions"]], 80)
    layers = TransformerConfig(
        width=32, heads=4, encoder_layers=1, decoder_layers=1, feed_forward=64, dropout=0.1, positions=16
    )
    encoder = create_image_encoder(TowerConfig("tiny", tiny=TinyImageConfig(8, 64, 16)))
    model = Captioner(GridTower(encoder), layers, pieces, ["en"])
    grid = model.grid(model.read([folder / row["image"] for row in rows]))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    tokens = model.tokens_of(captions).view(len(rows), 2, -1)
    for _ in range(40):
        optimizer.zero_grad()
        (-model.log_probs(model.memory(grid), tokens).sum() / (tokens != model.pad_id).sum()).backward()
        optimizer.step()
    return model.eval()


def arguments(folder, output, *more):
    return [
        f"--model={folder / 'captioner'}",
        "--reward=cider",
        f"--data.train={folder / 'train.jsonl'}",
        f"--data.validation={folder / 'dev.jsonl'}",
        "--data.batch_size=4",
        "--model.captions=3",
        "--model.max_length=12",
        "--model.learning_rate=0.002",
        f"--output={output}",
        "--trainer.max_epochs=-1",
        "--trainer.max_steps=6",
        "--trainer.val_check_interval=3",
        "--trainer.log_every_n_steps=1",
        "--checkpoint_steps=2",
        "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false",
        *more,
    ]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def logged(run_folder, name):
    values = []
    for path in sorted((run_folder / "logs").glob("*/metrics.csv")):
        with path.open() as file:
            values += [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
    return values
