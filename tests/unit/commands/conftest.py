"""What tests of the score and evaluate commands share: a small model, captions, ratings, known metrics."""

import json
import random

import numpy as np
import pytest
from PIL import Image

from suisei.metrics.registry import REGISTRY, Entry
from tests.unit.commands.evaluate_runs import MODES, Fake
from tests.unit.commands.score_runs import ENGLISH, JAPANESE
from tests.unit.runs import write_rows


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
def caption_file(tmp_path, records):
    return write_rows(tmp_path / "captions.jsonl", records)


@pytest.fixture
def fakes(monkeypatch):
    """Metrics whose scores are known, in the registry."""
    for mode in MODES:
        entry = Entry(f"{Fake.__module__}:Fake", (), "a fake", {} if mode == "plain" else {"mode": mode})
        monkeypatch.setitem(REGISTRY, f"fake-{mode}", entry)
    broken = Entry(f"{Fake.__module__}:Fake", (), "a fake", modules=("no_such_module",))
    monkeypatch.setitem(REGISTRY, "fake-absent", broken)


@pytest.fixture
def ratings(tmp_path):
    """Forty rated rows, in both languages, some without references."""
    rng = np.random.default_rng(0)
    path = tmp_path / "ratings.jsonl"
    rows = []
    for i in range(40):
        quality = rng.random()
        rating = np.clip(np.round(1 + 4 * quality + 0.6 * rng.normal(size=2)), 1, 5).tolist()
        row = {"id": f"r{i}", "candidate": f"{'犬' if i % 2 else 'dog'} {quality:.6f}", "rating": rating}
        row |= {"group": f"g{i // 2}", "system": "st"[i // 20]}
        if i % 4:
            row["references"] = ["a dog"]
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
