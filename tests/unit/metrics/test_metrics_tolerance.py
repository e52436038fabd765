"""What a score may depend on besides its own sample: nothing beyond the tolerance that is stated."""

import numpy as np
import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.metrics.loading import load

TOLERANCES = {"fp32": 1e-5, "bf16": 5e-3, "int8": 5e-3}
WORDS = ("red", "blue", "dog", "two", "cats", "run", "in", "the", "park", "ball", "on", "犬", "猫が")


@pytest.fixture(scope="module")
def folder(build_regressor, tmp_path_factory):
    from suisei.models.folder import save_model

    regressor = build_regressor(references="mean-max")
    with torch.no_grad():
        for weights in regressor.members.parameters():
            weights.mul_(3)  # spreads the scores of random weights over the range of trained ones
    path = tmp_path_factory.mktemp("models") / "model"
    save_model(path, regressor)
    return path


@pytest.fixture(scope="module")
def rows(pictures):
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(WORDS, size=generator.integers(2, 14))) for _ in range(192)]
    return [
        CaptionSample(texts[n], texts[n + 64 : n + 64 + n % 3], [*pictures, None][n % 5]) for n in range(64)
    ]


def scores(folder, rows, precision, *, size, threads=1):
    """Score in windows of ``size`` samples that know nothing of each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        return np.concatenate(
            [
                load(folder, device="cpu", precision=precision, cache="off").score(part, batch_size=size)
                for part in parts
            ]
        )
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("precision", TOLERANCES)
def test_neighbours_and_threads_move_scores_within_the_tolerance(folder, rows, precision):
    expected = scores(folder, rows, precision, size=64)
    assert expected.std() > 0.05
    for size in (1, 7):
        few = rows[:14] if size == 1 else rows  # a model is loaded for each window
        found = scores(folder, few, precision, size=size)
        assert np.abs(found - expected[: len(few)]).max() < TOLERANCES[precision]
    for threads in (2, 4):
        found = scores(folder, rows, precision, size=64, threads=threads)
        assert np.abs(found - expected).max() < TOLERANCES[precision]
