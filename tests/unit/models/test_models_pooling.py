"""Pooling and layer mix against plain loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.errors import ConfigError
from suisei.models.pooling import LayerMix, pool_layers, pooling_weights
from suisei.models.poolings import POOLINGS, Pooling


def example(seed=0, captions=3, length=6, states=2, width=5):
    generator = torch.Generator().manual_seed(seed)
    hidden = [torch.randn(captions, length, width, generator=generator) for _ in range(states)]
    lengths = torch.randint(1, length + 1, (captions,), generator=generator)
    mask = (torch.arange(length) < lengths[:, None]).long()
    idf = torch.rand(captions, length, generator=generator)
    idf[:, 0] = 0
    return hidden, mask, idf


def naive(state, mask, idf, pooling, *, normalise):
    """One caption after the other, one token after the other."""
    rows = []
    for vectors, present, weights in zip(state.tolist(), mask.tolist(), idf.tolist(), strict=True):
        tokens = [v for v, there in zip(vectors, present, strict=True) if there]
        weights = [w for w, there in zip(weights, present, strict=True) if there]
        if normalise:
            normal = []
            for vector in tokens:
                mean = sum(vector) / len(vector)
                variance = sum((x - mean) ** 2 for x in vector) / len(vector)
                normal.append([(x - mean) / math.sqrt(variance + 1e-5) for x in vector])
            tokens = normal
        if pooling == "mean" or (pooling == "idf-normalised" and not sum(weights)):
            shares = [1 / len(tokens)] * len(tokens)
        elif pooling == "idf":
            shares = [w / len(tokens) for w in weights]  # by the number of tokens, not by the sum of idf
        else:
            shares = [w / sum(weights) for w in weights]
        columns = zip(*tokens, strict=True)
        rows.append([sum(s * x for s, x in zip(shares, column, strict=True)) for column in columns])
    return torch.tensor(rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 7), st.booleans())
def test_pooling_equals_a_plain_loop(seed, captions, length, normalise):
    hidden, mask, idf = example(seed, captions, length)
    pooled = pool_layers(hidden, mask, idf, POOLINGS, normalise=normalise)
    assert pooled.shape == (captions, 2, 3, 5)
    for s, state in enumerate(hidden):
        for p, pooling in enumerate(POOLINGS):
            expected = naive(state, mask, idf, pooling, normalise=normalise)
            torch.testing.assert_close(pooled[:, s, p], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("normalise", [False, True])
def test_states_in_half_precision_are_pooled_in_full(normalise):
    hidden, mask, idf = example()
    half = [state.bfloat16() for state in hidden]
    pooled = pool_layers(half, mask, idf, POOLINGS, normalise=normalise)
    expected = pool_layers([state.float() for state in half], mask, idf, POOLINGS, normalise=normalise)
    assert pooled.dtype == torch.float32
    assert torch.equal(pooled, expected)


def test_padding_never_matters():
    hidden, mask, idf = example()
    longer = [torch.cat([state, torch.full((3, 4, 5), 1e6)], dim=1) for state in hidden]
    more_mask = torch.cat([mask, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    more_idf = torch.cat([idf, torch.full((3, 4), 99.0)], dim=1)
    for normalise in (True, False):
        short = pool_layers(hidden, mask, idf, POOLINGS, normalise=normalise)
        long = pool_layers(longer, more_mask, more_idf, POOLINGS, normalise=normalise)
        torch.testing.assert_close(short, long)


def test_a_caption_never_depends_on_its_neighbours():
    hidden, mask, idf = example(captions=4)
    together = pool_layers(hidden, mask, idf, POOLINGS)
    loud = [state.clone() for state in hidden]
    for state in loud:
        state[1:] = state[1:] * 1000 + 500
    beside_others = pool_layers(loud, mask, idf, POOLINGS)
    assert torch.equal(together[0], beside_others[0])


def test_each_token_is_normalised_on_its_own():
    hidden, mask, idf = example(captions=1)
    scaled = [state * torch.linspace(0.5, 3, 6)[None, :, None] for state in hidden]
    torch.testing.assert_close(
        pool_layers(hidden, mask, idf, ["mean"]),
        pool_layers(scaled, mask, idf, ["mean"]),
        atol=1e-4,
        rtol=1e-4,
    )


def test_normalised_idf_falls_back_to_the_mean_where_every_token_weighs_nothing():
    mask = torch.tensor([[1, 1, 0]])
    weights = pooling_weights("idf-normalised", mask, torch.zeros(1, 3))
    assert weights.tolist() == [[0.5, 0.5, 0.0]]


def test_a_caption_without_tokens_weighs_nothing():
    for name in POOLINGS:
        assert not pooling_weights(name, torch.zeros(1, 3), torch.ones(1, 3)).any()


def test_another_pooling_is_one_entry(monkeypatch):
    monkeypatch.setitem(
        POOLINGS, "first", Pooling(lambda mask, idf: mask * (mask.cumsum(1) == 1), by_idf=False)
    )
    hidden, mask, idf = example()
    pooled = pool_layers(hidden, mask, idf, ["first", "mean"], normalise=False)
    torch.testing.assert_close(pooled[:, 0, 0], hidden[0][:, 0])


def test_unknown_pooling_is_refused():
    with pytest.raises(ConfigError, match=r"no pooling 'max'; there are: idf, mean, idf-normalised"):
        pooling_weights("max", torch.ones(1, 1), torch.ones(1, 1))


def test_mix_is_a_softmax_times_a_scale():
    mix = LayerMix(3, dropout=0.5).eval()
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.0, 1.0, -2.0]))
        mix.scale.fill_(1.5)
    pooled = torch.randn(2, 3, 2, 4)
    total = 1 + math.e + math.exp(-2)
    expected = 1.5 * (pooled[:, 0] + math.e * pooled[:, 1] + math.exp(-2) * pooled[:, 2]) / total
    torch.testing.assert_close(mix(pooled), expected)


def test_a_new_mix_is_the_plain_mean_of_the_layers():
    pooled = torch.randn(2, 4, 2, 3)
    torch.testing.assert_close(LayerMix(4).eval()(pooled), pooled.mean(dim=1))


def test_dropped_layers_share_their_weight_among_the_others():
    mix = LayerMix(4, dropout=0.5).train()
    one_hot = torch.eye(4)[None, :, None, :]  # the mixture of these shows the weights
    seen = set()
    generator_state = torch.get_rng_state()
    torch.manual_seed(0)
    for _ in range(200):
        weights = mix(one_hot)[0, 0].detach()
        kept = int((weights > 0).sum())
        torch.testing.assert_close(weights.sum(), torch.tensor(1.0))
        torch.testing.assert_close(weights[weights > 0], torch.full((kept,), 1 / kept))
        seen.add(tuple((weights > 0).tolist()))
    torch.set_rng_state(generator_state)
    assert len(seen) == 15  # every choice but none at all


def test_a_model_in_training_leaves_out_every_tenth_layer(build_regressor):
    mix = build_regressor(image=False, layers=9).mix.train()
    with torch.no_grad():
        mix.logits.zero_()
    torch.manual_seed(0)
    one_hot = torch.eye(10)[None, :, None, :]
    dropped = torch.stack([mix(one_hot)[0, 0] == 0 for _ in range(400)]).float().mean(dim=0)
    torch.testing.assert_close(dropped, torch.full((10,), 0.1), atol=0.05, rtol=0)
    assert bool((mix.eval()(one_hot) != 0).all())


def test_pooling_before_mixing_equals_mixing_before_pooling():
    hidden, mask, idf = example(states=3)
    mix = LayerMix(3).eval()
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.3, -1.0, 2.0]))
    pooled_first = mix(pool_layers(hidden, mask, idf, POOLINGS))
    normal = [torch.nn.functional.layer_norm(state, (5,)) for state in hidden]
    mixture = torch.softmax(mix.logits, 0)
    mixed = sum(share * state for share, state in zip(mixture, normal, strict=True))
    mixed_first = pool_layers([mixed], mask, idf, POOLINGS, normalise=False)[:, 0]
    torch.testing.assert_close(pooled_first, mixed_first)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_impossible_layer_dropout_is_refused(dropout):
    with pytest.raises(ConfigError, match="layer dropout"):
        LayerMix(2, dropout)


def test_either_of_two_layers_is_left_out_at_times():
    torch.manual_seed(0)
    mix = LayerMix(2, dropout=0.5).train()
    pooled = torch.tensor([0.0, 1.0])[None, :, None, None]
    with torch.no_grad():
        assert {float(mix(pooled)) for _ in range(64)} == {0.0, 0.5, 1.0}
        assert float(mix.eval()(pooled)) == 0.5


@pytest.mark.parametrize("normalise", [False, True])
def test_all_layers_at_once_are_pooled_as_one_by_one(normalise, monkeypatch):
    hidden, mask, idf = example(states=3)
    expected = pool_layers(hidden, mask, idf, ["idf", "mean"], normalise=normalise)
    monkeypatch.setattr("suisei.models.pooling.waits_for_calls", lambda _: True)  # as on a GPU
    torch.testing.assert_close(pool_layers(hidden, mask, idf, ["idf", "mean"], normalise=normalise), expected)
