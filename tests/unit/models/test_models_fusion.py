"""Fusion: the paper's layout, and aggregations that neither order nor number of references changes."""

import pytest
import torch

from suisei.errors import ConfigError
from suisei.models.blocks import BLOCKS
from suisei.models.config import HeadConfig
from suisei.models.feedforward import FeedForward
from suisei.models.fusion import AGGREGATIONS, Fusion
from suisei.models.head import Head

INVARIANT = ("mean", "max", "mean-max")
WIDTH = 4


def make(aggregation="mean", *, poolings=2, image_width=3, blocks=None, seed=0):
    torch.manual_seed(seed)
    return Fusion(WIDTH, poolings, aggregation, image_width, blocks).eval()


def inputs(references=3, batch=2, poolings=2, seed=1):
    torch.manual_seed(seed)
    candidate = torch.randn(batch, poolings, WIDTH)
    refs = torch.randn(batch, references, poolings, WIDTH)
    mask = torch.ones(batch, references, dtype=torch.bool)
    return candidate, refs, mask, torch.randn(batch, 3), torch.ones(batch, dtype=torch.bool)


def test_paper_layout_has_18_blocks_in_the_paper_s_order():
    fusion = make("concat")
    c, r, mask, image, image_mask = inputs(references=2, batch=1)
    fused = fusion(c, r, mask, image, image_mask)[0]
    assert fused.shape == (18 * WIDTH,)
    i = fusion.project(image)[0]
    expected = []
    for pooling in range(2):  # nine blocks idf-pooled, then the same nine mean-pooled
        candidate, s, second = c[0, pooling], r[0, 0, pooling], r[0, 1, pooling]
        expected += [s, candidate, second]
        expected += [candidate * second, (candidate - second).abs()]
        expected += [candidate * s, (candidate - s).abs()]
        expected += [candidate * i, (candidate - i).abs()]
    for position, (got, block) in enumerate(zip(fused.split(WIDTH), expected, strict=True)):
        torch.testing.assert_close(got, block, msg=f"block {position}")


def test_paper_sizes():
    fusion = Fusion(768, 2, "concat", image_width=512)
    assert fusion.out_features == 13_824
    head = FeedForward(fusion.out_features)
    assert sum(parameter.numel() for parameter in head.parameters()) == 34_509_313


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("image_width", [None, 3])
@pytest.mark.parametrize("blocks", [None, ["candidate"], ["reference-difference", "reference"]])
@pytest.mark.parametrize("references", [0, 1, 2, 4])
def test_width_is_what_was_promised(aggregation, image_width, blocks, references):
    fusion = make(aggregation, image_width=image_width, blocks=blocks)
    assert fusion(*inputs(references)).shape == (2, fusion.out_features)


def test_mean_and_max_by_hand():
    c, r, mask, image, image_mask = inputs(references=3, batch=1)
    product, difference = c[:, None] * r, (c[:, None] - r).abs()
    i = make().project(image)[:, None]
    tail = [c * i, (c - i).abs()]
    rows = {
        "mean": [c, r.mean(1), product.mean(1), difference.mean(1)],
        "max": [c, r.mean(1), product.amax(1), difference.amin(1)],
        "mean-max": [c, r.mean(1), product.mean(1), product.amax(1), difference.mean(1), difference.amin(1)],
    }
    for aggregation, parts in rows.items():
        fused = make(aggregation)(c, r, mask, image, image_mask)
        torch.testing.assert_close(fused, torch.cat([*parts, *tail], dim=-1).flatten(1))


@pytest.mark.parametrize("aggregation", INVARIANT)
def test_order_repetition_and_padding_of_references_do_not_matter(aggregation):
    fusion = make(aggregation)
    c, r, mask, *image = inputs()
    expected = fusion(c, r, mask, *image)
    torch.testing.assert_close(fusion(c, r[:, [2, 0, 1]], mask, *image), expected)
    twice = torch.cat([r, r], dim=1), torch.cat([mask, mask], dim=1)
    torch.testing.assert_close(fusion(c, *twice, *image), expected)
    padded = torch.cat([torch.full_like(r[:, :2], 1e4), r], dim=1)
    padded_mask = torch.cat([torch.zeros(2, 2, dtype=torch.bool), mask], dim=1)
    torch.testing.assert_close(fusion(c, padded, padded_mask, *image), expected)


def test_concat_reads_the_first_two_references_only():
    fusion = make("concat")
    c, r, mask, *image = inputs(references=3)
    torch.testing.assert_close(fusion(c, r, mask, *image), fusion(c, r[:, :2], mask[:, :2], *image))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_no_reference_is_the_learned_vector(aggregation):
    fusion = make(aggregation)
    c, r, mask, *image = inputs()
    absent = fusion(c, r, torch.zeros_like(mask), *image)
    places = 2 if aggregation == "concat" else 1
    learned = fusion.missing_reference.expand(2, places, -1, -1)
    torch.testing.assert_close(absent, fusion(c, learned, mask[:, :places], *image))
    torch.testing.assert_close(absent, fusion(c, r[:, :0], mask[:, :0], *image))
    assert not torch.allclose(absent, fusion(c, r, mask, *image))


def test_concat_with_one_reference_learns_the_second():
    fusion = make("concat")
    c, r, mask, *image = inputs(references=1)
    filled = torch.cat([r, fusion.missing_reference.expand(2, 1, -1, -1)], dim=1)
    both = torch.ones(2, 2, dtype=torch.bool)
    torch.testing.assert_close(fusion(c, r, mask, *image), fusion(c, filled, both, *image))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_no_image_is_the_learned_vector(aggregation):
    fusion = make(aggregation)
    c, r, mask, image, present = inputs()
    half = torch.tensor([True, False])
    mixed = fusion(c, r, mask, image, half)
    torch.testing.assert_close(mixed[0], fusion(c, r, mask, image, present)[0])
    torch.testing.assert_close(mixed[1], fusion(c, r, mask, None, None)[1])
    torch.testing.assert_close(mixed[1], fusion(c, r, mask, image * 99, half)[1])


def test_gradients_reach_learned_vectors_and_projection():
    fusion = make()
    c, r, mask, image, present = inputs()
    mask[0] = present[1] = False
    fusion(c, r, mask, image, present).square().sum().backward()
    for name, parameter in fusion.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().sum()) > 0, name


def test_masked_references_get_no_gradient_and_no_nan():
    for aggregation in AGGREGATIONS:
        c, r, mask, *image = inputs()
        mask[:, 2] = False
        r.requires_grad_(True)
        make(aggregation)(c, r, mask, *image).sum().backward()
        assert torch.isfinite(r.grad).all()
        assert not r.grad[:, 2].any()


def test_a_sample_without_references_or_image_leaves_gradients_finite():
    for aggregation in AGGREGATIONS:
        c, r, mask, image, present = inputs()
        mask[0] = present[0] = False
        for one in (c, r, image):
            one.requires_grad_(True)
        make(aggregation)(c, r, mask, image, present).square().sum().backward()
        assert all(torch.isfinite(one.grad).all() for one in (c, r, image))
        assert not r.grad[0].any()
        assert not image.grad[0].any()


def test_a_batch_without_any_image_may_still_have_its_mask():
    fusion = make()
    c, r, mask, _, present = inputs()
    absent = torch.zeros_like(present)
    torch.testing.assert_close(fusion(c, r, mask, None, absent), fusion(c, r, mask, None, None))


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'median'.*mean, max, mean-max, concat"):
        make("median")
    with pytest.raises(ConfigError, match="candidate, reference, reference-product"):
        make(blocks=["candidates"])
    with pytest.raises(ConfigError, match="without image"):
        make(blocks=["image-product"], image_width=None)
    assert make(blocks=[]).out_features == 0
    assert make(blocks=list(reversed(BLOCKS))).blocks == tuple(BLOCKS)
    assert make(blocks=[])(*inputs()).shape == (2, 0)


@pytest.mark.parametrize(
    ("option", "path", "layer"),
    [("dropout", "fused", -1), ("input_dropout", "fused", 0), ("extra_dropout", "beside", -1)],
)
def test_each_dropout_drops_its_own_part_in_training_alone(option, path, layer):
    torch.manual_seed(0)
    off = {"dropout": 0.0, "input_dropout": 0.0, "extra_dropout": 0.0}
    head = Head(40, 30, HeadConfig(hidden=(50,), extra_hidden=60, **{**off, option: 0.25}))
    features, extras = torch.rand(200, 40) + 1, torch.rand(200, 30) + 1
    zeros = {}
    for name in ("fused", "beside"):
        linear = [module for module in getattr(head, name).modules() if isinstance(module, torch.nn.Linear)]
        for place, one in enumerate(linear):
            key = (name, place - len(linear) if place else 0)
            one.register_forward_hook(
                lambda _, given, __, key=key: zeros.__setitem__(key, float((given[0] == 0).float().mean()))
            )
    head.train()(features, extras)
    assert zeros.pop((path, layer)) == pytest.approx(0.25, abs=0.03)
    assert set(zeros.values()) == {0.0}
    torch.testing.assert_close(head.eval()(features, extras), head(features, extras), rtol=0, atol=0)


def test_head_gives_one_number_per_sample_and_refuses_bad_settings():
    head = FeedForward(6, (5, 3), "gelu", 0.1, 0.2).eval()
    features = torch.randn(7, 6) * 100
    numbers = head(features)
    assert numbers.shape == (7,)
    assert numbers.dtype == torch.float32
    with pytest.raises(ConfigError, match="tanh, relu, gelu"):
        FeedForward(6, (5,), "swish")
    with pytest.raises(ConfigError, match="positive"):
        FeedForward(6, (5, 0))
    assert FeedForward(6, (1,))(features).shape == (7,)


def test_learned_vectors_start_near_zero():
    fusion = Fusion(200, 2, "concat", image_width=3)
    for learned in (fusion.missing_reference, fusion.missing_image):
        assert 0.01 < float(learned.std()) < 0.03
