"""What tests of the caption command share: a tiny captioner of both languages, images, a run cut off."""

import json

import torch
from PIL import Image

from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig


def tiny_captioner():
    pieces = Pieces.learned(["a red picture", "青い絵です"], 60)
    torch.manual_seed(0)
    tower = GridTower(create_image_encoder(TowerConfig(name="tiny", train=True)))
    config = TransformerConfig(width=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16)
    made = Captioner(tower, config, pieces, ["en", "ja"]).eval()
    with torch.no_grad():  # so that captions do not end before they begin
        made.decoder.last_norm.bias -= 3 * made.decoder.embedding.weight[made.end_id]
    return made


def colours(place):
    """Make a folder of three images and, in between, one that is none."""
    place.mkdir()
    for name, colour in (("a", "red"), ("b", "green"), ("d", "blue")):
        Image.new("RGB", (70, 80), colour).save(place / f"{name}.png")
    (place / "c.png").write_bytes(b"no image")
    return place


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def counting(monkeypatch, stop_at=0, stop=KeyboardInterrupt):
    """Count batches that a captioner looks at, and stop it at one of them; returns their sizes."""
    encode, seen = Captioner.encode, []

    def watched(self, pixels):
        seen.append(len(pixels))
        if len(seen) == stop_at:
            raise stop
        return encode(self, pixels)

    monkeypatch.setattr(Captioner, "encode", watched)
    return seen
