"""Tiny captioners with random weights."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig
from tests.unit.captioning.tuning import fill

SAID = {
    "red": ["A red picture .", "the picture is red"],
    "green": ["A green picture .", "all is green here"],
    "blue": ["青い絵です。", "青い絵"],
    "white": ["白い絵です。", "白い絵"],
}


@pytest.fixture
def build_captioner():
    """Make a tiny captioner; further keywords are those of its layers."""

    def build(seed=0, languages=("en", "ja"), trained_tower=False, **layers):
        sizes = {"width": 32, "heads": 4, "encoder_layers": 1, "decoder_layers": 2, "feed_forward": 64}
        pieces = Pieces.learned([text for own in SAID.values() for text in own], 60)
        torch.manual_seed(seed)
        tower = GridTower(create_image_encoder(TowerConfig(name="tiny", train=True)))
        config = TransformerConfig(**{**sizes, "positions": 16, **layers})
        return Captioner(tower, config, pieces, languages, trained_tower=trained_tower).eval()

    return build


@pytest.fixture
def pictures(tmp_path) -> list[Path]:
    """Six pictures, each of one colour."""
    names = ["red", "green", "blue", "white", "black", "yellow"]
    paths = [tmp_path / f"{name}.png" for name in names]
    for name, path in zip(names, paths, strict=True):
        Image.new("RGB", (70, 80), name).save(path)
    return paths


@pytest.fixture
def captioned(tmp_path, pictures) -> Path:
    """JSON lines of four pictures with captions, two of each language."""
    path = tmp_path / "pairs.jsonl"
    rows = [{"image": f"{name}.png", "captions": captions} for name, captions in SAID.items()]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pictures with captions, and a captioner that a reward can tune."""
    folder = tmp_path_factory.mktemp("rewarded")
    fill(folder)
    return folder
