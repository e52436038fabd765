"""A few rows in both languages with references and images, and their scores by ``suisei score``."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROWS = [
    ("a red ball lies on the table", ["a red ball on a table", "there is a ball"]),
    ("犬が公園を走っている", ["犬が公園で走っています"]),
    ("two dogs run", ["two dogs run in the park", "dogs are running", "a park with dogs"]),
    ("猫", ["赤いボールが机の上にある"]),
    ("a man rides a bicycle in the rain", ["a man on a bicycle"]),
]


@pytest.fixture
def packaged(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a small model that stands for the one in the package."""
    monkeypatch.setattr("suisei.metrics.default_model._FOLDER", model_folder)
    return model_folder


@pytest.fixture
def given(pictures: list[Path]) -> SimpleNamespace:
    """Captions, references and images (the last row has none), as parallel lists."""
    images = [*map(str, pictures), None]
    return SimpleNamespace(captions=[c for c, _ in ROWS], references=[r for _, r in ROWS], images=images)


@pytest.fixture
def command_scores(
    given: SimpleNamespace, pictures: list[Path], tmp_path: Path
) -> Callable[..., list[float]]:
    """Score the rows with the command and return the column of a metric.

    ``window`` is how many rows it takes together, which changes the last digits of float32.
    """

    def score(spec: str, window: int = 64) -> list[float]:
        from suisei.commands.score import main

        source, target = tmp_path / "rows.jsonl", tmp_path / "scores.jsonl"
        rows: list[dict[str, Any]] = []
        for caption, references, image in zip(given.captions, given.references, given.images, strict=True):
            rows.append(
                {"candidate": caption, "references": references, **({"image": image} if image else {})}
            )
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        arguments = ["--metrics", spec, "--input", str(source), "--output", str(target)]
        arguments += ["--window", str(window), "--images", str(pictures[0].parent)]
        assert main([*arguments, "--device", "cpu"] if spec.startswith("suisei") else arguments) == 0
        name = spec.partition(":")[0]
        return [json.loads(line)[name] for line in target.read_text(encoding="utf-8").splitlines()]

    return score
