"""What is lowered beside the squared error: each part is what its name says, and nothing at weight 0."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from suisei.errors import ConfigError
from suisei.training.objective import PAIR_MARGIN, START_SHARE, LossConfig, Means, Objective, pair_cosines


def outputs(logits, start=None, vectors=None):
    return SimpleNamespace(logits=logits, start=start, vectors=vectors)


def batch(target, **fields):
    names = ("source", "original", "pairs", "pair_target", "place")
    return SimpleNamespace(target=target, counted=len(target), **{name: fields.get(name) for name in names})


LOGITS = torch.tensor([[0.0, 1.0, -2.0, 3.0], [0.5, 0.5, 0.5, 0.5]])
TARGET = torch.tensor([0.2, 0.9, 0.1, 0.6])
START = torch.tensor([0.1, -0.4, 2.0, 0.0])


def test_alone_it_is_the_squared_error_of_every_member():
    loss = Objective(LossConfig())(
        outputs(LOGITS, START), batch(TARGET, original=torch.tensor([-1, 0, -1, -1]))
    )
    torch.testing.assert_close(loss, (torch.sigmoid(LOGITS) - TARGET).square().mean())


def test_every_data_set_counts_as_much_however_small():
    source = torch.tensor([0, 0, 0, 1])
    errors = (torch.sigmoid(LOGITS) - TARGET).square()
    loss = Objective(LossConfig())(outputs(LOGITS), batch(TARGET, source=source))
    torch.testing.assert_close(loss, errors[:, :3].mean() + errors[:, 3].mean())


def test_the_cosine_answers_for_its_own_error():
    plain = Objective(LossConfig())(outputs(LOGITS, START), batch(TARGET))
    loss = Objective(LossConfig(cosine_weight=0.5))(outputs(LOGITS, START), batch(TARGET))
    torch.testing.assert_close(loss - plain, 0.5 * F.mse_loss(torch.sigmoid(START), TARGET))
    without = Objective(LossConfig(cosine_weight=0.5))(outputs(LOGITS), batch(TARGET))
    torch.testing.assert_close(without, plain)


def test_a_degraded_caption_is_drawn_below_the_one_it_was_made_of():
    objective = Objective(LossConfig(pair_weight=2.0))
    plain = Objective(LossConfig())
    original = torch.tensor([-1, -1, 1, 0])  # the third was made of the second, the last of the first
    loss = objective(outputs(LOGITS, START), batch(TARGET, original=original))
    loss -= plain(outputs(LOGITS, START), batch(TARGET))

    def above(logits):
        gaps = torch.stack([logits[..., 2] - logits[..., 1], logits[..., 3] - logits[..., 0]])
        return (F.softplus(4 * (gaps + PAIR_MARGIN)) / 4).mean()

    torch.testing.assert_close(loss, 2 * (above(LOGITS) + START_SHARE * above(START)))
    apart = torch.tensor([[0.0, 9.0, -9.0, -9.0]])  # in order, by far: nothing is left to be learned
    gap = objective(outputs(apart), batch(TARGET, original=original)) - plain(outputs(apart), batch(TARGET))
    assert 0 <= float(gap) < 1e-6
    none = torch.full((4,), -1)
    torch.testing.assert_close(
        objective(outputs(LOGITS), batch(TARGET, original=none)), plain(outputs(LOGITS), batch(TARGET))
    )


def test_degraded_captions_of_every_data_set_count_as_much_however_few():
    logits = torch.tensor([[0.3, -0.2, 0.9, 0.1, 2.0, -1.0]])
    given = {"source": torch.tensor([0, 0, 1, 1, 1, 1]), "original": torch.tensor([-1, 0, -1, 2, 2, 2])}
    losses = [
        Objective(LossConfig(pair_weight=weight))(outputs(logits), batch(torch.full((6,), 0.5), **given))
        for weight in (0.0, 1.0)
    ]
    found = logits[0].numpy().astype(np.float64)
    first = np.logaddexp(0, 4 * (found[1] - found[0] + PAIR_MARGIN)) / 4
    second = (np.logaddexp(0, 4 * (found[3:] - found[2] + PAIR_MARGIN)) / 4).mean()
    assert float(losses[1] - losses[0]) == pytest.approx(first + second, rel=1e-5)


def test_the_cosine_of_a_pair_is_the_mean_over_poolings():
    vectors = np.array([[[1.0, 0.0], [3.0, 4.0]], [[0.0, 2.0], [4.0, 3.0]], [[1.0, 1.0], [1.0, -1.0]]])
    pairs = np.array([[0, 1], [2, 0]])
    one, other = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    expected = ((one * other).sum(axis=-1) / lengths).mean(axis=1)
    found = pair_cosines(torch.tensor(vectors), torch.tensor(pairs))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_rated_pairs_teach_the_cosine_of_their_captions():
    vectors = torch.randn(5, 1, 8, requires_grad=True)
    pairs, similarity = torch.tensor([[0, 1], [4, 2]]), torch.tensor([0.3, 0.8])
    given = batch(TARGET, pairs=pairs, pair_target=similarity)
    objective = Objective(LossConfig(support_weight=3.0))
    loss = objective(outputs(LOGITS, vectors=vectors), given)
    loss = loss - Objective(LossConfig())(outputs(LOGITS), batch(TARGET))
    cosines = pair_cosines(vectors, pairs)
    expected = F.cosine_similarity(vectors[[0, 4], 0], vectors[[1, 2], 0], dim=-1)
    torch.testing.assert_close(cosines, expected)
    torch.testing.assert_close(loss, 3 * F.mse_loss(torch.sigmoid(objective.support(cosines)), similarity))
    loss.backward()
    assert float(vectors.grad[0].abs().sum()) > 0
    assert float(vectors.grad[3].abs().sum()) == 0
    assert Objective(LossConfig()).support is None


@pytest.mark.parametrize("name", ["cosine_weight", "pair_weight", "support_weight"])
def test_a_weight_below_nothing_is_refused(name):
    with pytest.raises(ConfigError, match=rf"model\.loss\.{name} is -0\.1"):
        LossConfig(**{name: -0.1})


def test_two_captions_that_are_worth_the_same_are_drawn_apart():
    equal, original = torch.zeros(1, 2), torch.tensor([-1, 0])
    losses = [
        Objective(LossConfig(pair_weight=weight))(
            outputs(equal, start), batch(torch.full((2,), 0.5), original=original)
        )
        for weight in (0.0, 1.0)
        for start in (None, equal[0])
    ]
    assert [round(float(loss), 4) for loss in losses] == [
        0,
        0,
        0.2928,
        0.3806,
    ]  # ln(1 + e^0.8) / 4; 1.3 times


def test_data_sets_without_a_sample_anywhere_add_nothing():
    source = torch.zeros(0, dtype=torch.long)
    assert float(Means(source, [0, 0])(torch.zeros(2, 0))) == 0
    assert float(Means(None, [0])(torch.zeros(2, 0))) == 0
