"""The regressor's parts: what is frozen, mixed, filled in and added up before the sigmoid."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from suisei.data.sample import CaptionSample, Rating
from suisei.models.config import HeadConfig
from suisei.models.head import Head
from suisei.models.rating_scale import RatingScale
from suisei.models.regressor import LEAST_SCALE, SIMILARITY_MEAN, SIMILARITY_SCALE
from suisei.models.table import Collator, SampleTable


def batch_of(model, samples, extras=None):
    table = SampleTable(samples, extras, with_images=False)
    return Collator(table, model.text.tokenize(table.captions), model.text.pad)(range(len(samples)))


@pytest.fixture(scope="module")
def samples(captions):
    return [
        CaptionSample("two dogs", tuple(captions[:3])),
        CaptionSample(captions[6], ("猫",)),
        CaptionSample("a cat"),
    ]


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_encoders_neither_train_nor_learn(build_regressor, frozen):
    model = build_regressor(text={"frozen": frozen}, frozen_image=frozen)
    rebuilt = type(model)(model.config, model.text, model.image, model.idf)
    assert all(p.requires_grad is not frozen for p in rebuilt.text.parameters())
    assert all(p.requires_grad is not frozen for p in rebuilt.image.parameters())
    assert rebuilt.train() is rebuilt
    assert (rebuilt.text.training, rebuilt.image.training) == (not frozen, not frozen)
    assert rebuilt.fusion.training
    assert not any(module.training for module in rebuilt.eval().modules())


def test_frozen_embeddings_stay_while_the_layers_learn(build_regressor):
    model = build_regressor(image=False, text={"trained_layers": 9})
    learns = {name: p.requires_grad for name, p in model.text.named_parameters()}
    assert {learns[name] for name in learns if ".embeddings." in name} == {False}
    assert {learns[name] for name in learns if ".layer." in name} == {True}


def test_layers_are_mixed_by_their_weights_and_a_single_one_is_itself(build_regressor):
    states = torch.randn(4, 3, 2, 16)
    model = build_regressor(image=False)
    model.mix.scale.data.fill_(2.0)
    shares = torch.softmax(model.mix.logits.detach(), dim=0)
    expected = 2 * sum(share * states[:, place] for place, share in enumerate(shares))
    with torch.no_grad():
        mixed = model.mix_layers(states)
    torch.testing.assert_close(mixed, expected)
    assert model.mix_layers(mixed) is mixed
    single = build_regressor(image=False, text={"layers": "last"})
    assert single.mix is None
    torch.testing.assert_close(single.mix_layers(states[:, :1]), states[:, 0])


@pytest.mark.parametrize("light", [True, False])
def test_captions_encoded_in_parts_equal_those_encoded_at_once(build_regressor, captions, light):
    """In spans that are packed, and in as many calls of an encoder of transformers'."""
    model = build_regressor(image=False, text={"checkpointing": not light})
    own = sorted(model.text.tokenize(captions), key=len, reverse=True)
    ids, mask = model.text.pad(own)
    spans = ((0, 3, len(own[0])), (3, 5, len(own[3])), (5, 8, len(own[5])))
    batch = SimpleNamespace(ids=ids, mask=mask, spans=spans)
    seen = []
    handle = model.text.register_forward_pre_hook(lambda _, given: seen.append(tuple(given[0].shape)))
    with torch.no_grad():
        parts, tokens = model._encode_spans(batch, None, tokens=True)
        whole = model.encode_text(ids, mask)
    handle.remove()
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)
    calls = [] if light else [(end - start, width) for start, end, width in spans]
    assert seen == [*calls, tuple(ids.shape)]
    with torch.no_grad():
        last = model.text(ids, mask)[-1] * mask[..., None]
    torch.testing.assert_close(tokens * mask[..., None], last, atol=1e-5, rtol=1e-4)


def test_idf_is_not_among_the_weights_that_a_folder_holds(build_regressor):
    model = build_regressor(image=False)
    assert bool(model.idf_weights.any())
    assert not any("idf" in name for name in model.state_dict())


def test_a_path_of_their_own_adds_the_extra_inputs_logit():
    torch.manual_seed(0)
    fused, extras = torch.randn(3, 5), torch.randn(3, 2)
    apart = Head(5, 2, HeadConfig(hidden=(4,), extra_hidden=3)).eval()
    torch.testing.assert_close(apart(fused, extras), apart.beside(extras) + apart.fused(fused))
    assert apart.beside.layers[0].weight.shape == (3, 2)
    assert apart.fused.layers[0].weight.shape == (4, 5)
    appended = Head(5, 2, HeadConfig(hidden=(4,), extra_hidden=0)).eval()
    assert appended.beside is None
    torch.testing.assert_close(appended(fused, extras), appended.fused(torch.cat([fused, extras], dim=-1)))
    alone = Head(0, 2, HeadConfig(hidden=(4,), extra_hidden=3)).eval()
    assert alone.fused is None
    torch.testing.assert_close(alone(fused[:, :0], extras), alone.beside(extras))
    assert Head(5, 0, HeadConfig(hidden=(4,), extra_hidden=3)).beside is None


def test_extra_inputs_are_measures_then_alignment_then_cosines_per_pooling(build_regressor):
    plain = build_regressor(image=False)
    assert plain.missing_extra is None
    assert plain.extra_mean.shape == (0,)
    model = build_regressor(similarity=True, image_similarity=True, extra_inputs=["length", "unigram-f1"])
    assert model.missing_extra.shape == (2 + (3 + 1) * 2,)
    assert model.extra_mean.tolist() == [0.0] * 2 + [SIMILARITY_MEAN] * 8
    assert model.extra_scale.tolist() == [1.0] * 2 + [SIMILARITY_SCALE] * 8
    blind = build_regressor(image=False, similarity=True, image_similarity=True, poolings=("mean",))
    assert blind.missing_extra.shape == (3,)


def test_what_never_varied_in_training_leaves_scores_alone(build_regressor):
    nan = float("nan")
    model = build_regressor(image=False, extra_inputs=["length", "unigram-f1", "chrf", "length-ratio"])
    model.fit_extras(torch.tensor([[5.0, 3.0, nan, 1.0], [nan, 3.0, nan, 3.0], [nan, 3.0, nan, nan]]))
    assert model.extra_mean.tolist() == [5.0, 3.0, 0.0, 2.0]
    told = model._standardised(torch.tensor([[2.0, 3.0, 34.0, 3.0], [9.0, -9.0, 80.0, 99.0]]))
    assert told[:, :3].abs().max() < 1e-4
    assert told[:, 3].tolist() == [pytest.approx(0.5**0.5), 3.0]  # cut off there


def test_what_the_text_encoder_says_is_followed_by_the_share_and_other_scores_are_not(build_regressor):
    model = build_regressor(image=False, similarity=True, poolings=("mean",), extra_inputs=["length"])
    columns = model.extra_mean.shape[0]
    batch = torch.tensor([[5.0] + [0.2] * (columns - 1), [7.0] + [0.6] * (columns - 1)])
    batch[:, -1] = float("nan")  # nobody has it: it stays
    model.follow_extras(batch, 0.25)
    old, new = SIMILARITY_MEAN, 0.4
    assert model.extra_mean.tolist() == pytest.approx(
        [0.0] + [0.75 * old + 0.25 * new] * (columns - 2) + [old]
    )
    spread = 0.75 * SIMILARITY_SCALE + 0.25 * (0.2 + LEAST_SCALE)
    assert model.extra_scale.tolist() == pytest.approx([1.0] + [spread] * (columns - 2) + [SIMILARITY_SCALE])


def test_what_the_text_encoder_always_says_counts_as_nothing_until_it_varies(build_regressor):
    model = build_regressor(image=False, similarity=True, poolings=("mean",), extra_inputs=["length"])
    columns = model.extra_mean.shape[0]
    always, varied = torch.full((4, columns), 0.9), torch.tensor([[0.2], [0.6]]).expand(2, columns)
    model.follow_extras(always, 1.0)
    assert model._standardised(torch.full((1, columns), 0.1))[:, 1:].abs().max() < 1e-4
    for _ in range(3):
        model.follow_extras(always, 0.05)
    assert model._standardised(torch.full((1, columns), 0.1))[:, 1:].abs().max() < 1e-4
    model.follow_extras(varied, 0.05)  # what it is then is taken at once
    assert model.extra_mean[1:].tolist() == pytest.approx([0.4] * (columns - 1))
    assert model.extra_scale[1:].tolist() == pytest.approx([0.2 + LEAST_SCALE] * (columns - 1))
    model.follow_extras(always, 0.05)
    assert model.extra_scale[1:].max() < 1


@torch.no_grad()
def test_cosines_of_references_enter_behind_the_extra_inputs(build_regressor, samples):
    model = build_regressor(image=False, similarity=True, poolings=("mean",), extra_inputs=["length"])
    seen = []
    model.members[0].register_forward_pre_hook(lambda _, given: seen.append(given))
    own = [samples[0], samples[2]]
    batch = batch_of(model, own, np.array([[1.5], [-1.5]], np.float32))
    model(batch)
    vectors = model.mix_layers(model.encode_text(batch.ids, batch.mask))[:, 0]
    cosines = F.cosine_similarity(vectors[batch.candidate[0]], vectors[batch.references[0]], dim=-1)
    expected = torch.stack([cosines.max(), cosines.mean(), cosines.min()])
    expected = ((expected - SIMILARITY_MEAN) / SIMILARITY_SCALE).clamp(-3, 3)
    torch.testing.assert_close(seen[0][1][0], torch.cat([torch.tensor([1.5]), expected]))
    torch.testing.assert_close(seen[0][1][1, 1:], model.missing_extra[1:])


@torch.no_grad()
def test_what_is_put_in_place_of_extra_inputs_stays_away_where_there_was_nothing(build_regressor, samples):
    model = build_regressor(image=False, extra_inputs=["length", "chrf"], similarity=True)
    extras = np.array([[0.5, 0.25], [0.5, np.nan], [0.5, np.nan]], dtype=np.float32)
    batch = batch_of(model, samples, extras)
    with torch.no_grad():
        before = model.outputs(batch).extras
        batch.replaced = torch.full_like(before, 0.75)
        batch.replaced[:, 0] = torch.nan
        after = model.outputs(batch).extras
    expected = torch.where(before.isnan(), before, 0.75)
    expected[:, 0] = before[:, 0]
    torch.testing.assert_close(after, expected, equal_nan=True)


def test_what_is_known_already_is_not_encoded_again(build_regressor, samples, pictures):
    model = build_regressor(image_similarity=True)
    batch = batch_of(model, samples)
    captions = model.encode_text(batch.ids, batch.mask)
    expected = model(batch)
    model.text.forward = None
    torch.testing.assert_close(model(batch, captions), expected)
    torch.testing.assert_close(model(batch, model.mix_layers(captions)), expected)
    batch.image_mask = torch.tensor([True, False, True])
    features = torch.randn(2, 8)
    batch.image = torch.tensor([1, 0, 0])
    seen = model(batch, captions, features)
    torch.testing.assert_close(seen[1], expected[1])
    assert not torch.isclose(seen[[0, 2]], expected[[0, 2]], atol=1e-4).any()
    batch.image = torch.tensor([0, 1, 1])
    torch.testing.assert_close(model(batch, captions, features.flip(0)), seen)


@torch.no_grad()
def test_scores_are_members_mean_on_the_scale_of_the_ratings(build_regressor, samples):
    model = build_regressor(image=False, head={"members": 3})
    batch = batch_of(model, samples)
    members = model.member_scores(batch)
    assert members.shape == (3, 3)
    assert bool(((members > 0) & (members < 1)).all())
    torch.testing.assert_close(model(batch), members.mean(dim=0))
    rated = [CaptionSample("a", rating=Rating((value,), 1, 5)) for value in (1, 1, 1, 5)]
    rated.append(CaptionSample("b"))
    np.testing.assert_allclose(model.targets(rated), [0, 0, 0, 1, np.nan])
    model.scale = RatingScale(1.0)
    model.scale.fit([*rated, CaptionSample("a", rating=Rating((3,), 1, 5))])
    np.testing.assert_allclose(
        model.targets([CaptionSample("a", rating=Rating((3,), 1, 5))]), [2 / 3], rtol=1e-6
    )
    torch.testing.assert_close(model(batch), model.scale(members.mean(dim=0)))


def test_ranks_are_learned_where_the_settings_say_so(build_regressor):
    assert build_regressor(image=False).scale is None
    assert build_regressor(image=False, head={"rank_share": 0.25}).scale.rank_share == 0.25


def test_parameters_are_named_by_encoder_with_their_depth_from_the_top(build_regressor):
    model = build_regressor(similarity=True, head={"extra_hidden": 3, "members": 2})
    named = {name: (parameter, depth) for name, parameter, depth in model.encoder_parameters()}
    depths = model.text.layer_depths()
    texts = {f"text.{name}": (p, depths[name]) for name, p in model.text.named_parameters()}
    images = {f"image.{name}": (p, None) for name, p in model.image.named_parameters()}
    assert named.keys() == texts.keys() | images.keys()
    for name, (parameter, depth) in {**texts, **images}.items():
        assert named[name][0] is parameter
        assert named[name][1] == depth
    assert len({depth for _, depth in texts.values()}) == 3  # two layers and the embeddings
    beside = {id(p) for member in model.members for p in member.beside.parameters()}
    assert {id(p) for p in model.beside_parameters()} == beside
    assert len(beside) == 2 * 4
    assert not list(build_regressor(image=False).beside_parameters())
    assert all(name.startswith("text.") for name, _, _ in build_regressor(image=False).encoder_parameters())
