"""A small model and captions that tests of the score command share."""

import random

import numpy as np
import pytest
from PIL import Image

from tests.unit.commands.score_runs import ENGLISH, JAPANESE, write


@pytest.fixture(scope="session")
def model(tmp_path_factory, build_regressor):
    import torch

    from suisei.models.folder import save_model

    regressor = build_regressor()
    with torch.no_grad():
        for parameter in regressor.members.parameters():
            parameter.mul_(4)  # spreads the scores of random weights
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder, regressor)
    return folder


@pytest.fixture
def records(tmp_path):
    """Forty rows with ids, two references each and an image in every second row."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(5):
        pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    generator = random.Random(0)
    rows = []
    for number in range(40):
        captions = ENGLISH if number % 2 else JAPANESE
        row = {
            "id": f"c{number}",
            "candidate": generator.choice(captions),
            "references": generator.sample(captions, 2),
        }
        rows.append(row | ({"image": f"images/{number % 5}.png"} if number % 4 < 2 else {}))
    return rows


@pytest.fixture
def captions(tmp_path, records):
    return write(tmp_path / "captions.jsonl", records)
