"""The training module, features and settings: what enters idf, what is dropped, what is logged."""

import math

import numpy as np
import pytest
import torch

from suisei.data.sample import CaptionSample, Rating
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
from suisei.errors import ConfigError, ModelError
from suisei.models.batch import Batch
from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
from suisei.models.features import encode_captions, encode_images, token_batches
from suisei.models.table import Collator, SampleTable
from suisei.training.module import SuiSei

TINY = TinyTextConfig(vocabulary=150, width=8, layers=1)
TINY_IMAGE = TinyImageConfig(width=2, image_size=64, features=4)


def module(**options):
    options = {
        "text": TextEncoderConfig(name="tiny", tiny=TINY),
        "image": ImageEncoderConfig(name="tiny", frozen=False, tiny=TINY_IMAGE),
        "head": HeadConfig(hidden=(8,)),
        **options,
    }
    return SuiSei(**options)


def rated(captions):
    return [
        CaptionSample(caption, (captions[number - 1], captions[number - 2]), None, Rating((number / 10,)))
        for number, caption in enumerate(captions)
    ]


def no_progress(description, total):
    return lambda _: None


def test_idf_is_fitted_on_training_references_alone(captions):
    samples = [CaptionSample("only in a candidate", ("two dogs", "a dog")), CaptionSample("x", ("two dogs",))]
    model = module(image=None)
    model.build(samples)
    text, idf = model.regressor.text, model.regressor.idf
    assert idf.documents == 3  # every reference of every sample, repeats included
    expected = {}
    for reference in ("two dogs", "a dog", "two dogs"):
        for token in set(text.tokenize([reference])[0]):
            expected[token] = expected.get(token, 0) + 1
    assert dict(idf.frequencies) == expected
    unseen = set(text.tokenize(["candidate"])[0]) - set(expected)
    assert unseen
    for token in unseen:
        assert float(model.regressor.idf_weights[token]) == pytest.approx(math.log(4))
    assert not model.regressor.idf_weights[text.special_ids].any()


def test_vocabulary_and_idf_never_see_samples_outside_the_training_split(captions):
    training = rated(captions)
    one, other = module(image=None), module(image=None)
    one.build(training)
    other.build(training)
    fingerprint = one._fingerprint()
    other.prepare(SampleTable([*training, CaptionSample("zebra", ("giraffe",))]), range(8), no_progress)
    assert other._fingerprint() == fingerprint


def batch_of(size, references=2):
    zeros = torch.zeros(size, dtype=torch.long)
    return Batch(
        caption_rows=torch.zeros(1, dtype=torch.long),
        ids=None,
        mask=None,
        candidate=zeros,
        references=zeros[:, None].expand(-1, references),
        reference_mask=torch.ones(size, references, dtype=torch.bool),
        image_rows=torch.zeros(1, dtype=torch.long),
        pixels=None,
        image=zeros,
        image_mask=torch.ones(size, dtype=torch.bool),
        extras=torch.zeros(size, 0),
        target=torch.zeros(size),
    )


def test_all_references_of_a_sample_are_dropped_together_and_the_image_by_itself(captions):
    model = module(reference_dropout=0.3, image_dropout=0.2)
    model.build(rated(captions))
    torch.manual_seed(0)
    batch = batch_of(20_000)
    model._drop(batch)
    kept = batch.reference_mask
    assert torch.equal(kept[:, 0], kept[:, 1])
    assert float((~kept[:, 0]).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float((~batch.image_mask).float().mean()) == pytest.approx(0.2, abs=0.02)
    both = (~kept[:, 0] & ~batch.image_mask).float().mean()
    assert float(both) == pytest.approx(0.06, abs=0.01)


def test_nothing_is_dropped_without_dropout_and_nothing_comes_back(captions):
    model = module(reference_dropout=0.0, image_dropout=0.0)
    model.build(rated(captions))
    batch = batch_of(100)
    batch.image_mask[::2] = batch.reference_mask[::3, 1] = False
    before = batch.image_mask.clone(), batch.reference_mask.clone()
    model._drop(batch)
    assert torch.equal(before[0], batch.image_mask)
    assert torch.equal(before[1], batch.reference_mask)


def test_with_an_input_goes_what_was_measured_by_it(captions):
    model = module(
        image=None,
        fusion=FusionConfig(extra_inputs=("clip-s", "cider", "length")),
        reference_dropout=0.3,
        image_dropout=0.4,
    )
    model.build(rated(captions))
    model.needs = {"clip-s": {"image"}, "cider": {"references"}}
    batch = batch_of(200)
    batch.extras = torch.ones(200, 3)
    model._drop(batch)
    known = ~batch.extras.isnan()
    assert torch.equal(known[:, 0], batch.image_mask)
    assert torch.equal(known[:, 1], batch.reference_mask.any(dim=1))
    assert bool(known[:, 2].all())
    assert 0 < int(known[:, 0].sum()) < 200
    assert 0 < int(known[:, 1].sum()) < 200


@pytest.mark.parametrize("name", ["reference_dropout", "image_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_impossible_dropout_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"model.{name}"):
        module(**{name: value})


def logged(model, scores, targets):
    values = {}
    model.log = lambda name, value, **_: values.__setitem__(name, float(value))
    for start in range(0, len(scores), 3):  # as uneven batches
        part = slice(start, start + 3)
        rows = [range(start, start + len(scores[part])), scores[part], targets[part]]
        model._validation.append(torch.tensor([list(row) for row in rows], dtype=torch.float64).T)
    model.on_validation_epoch_end()
    assert model._validation == []
    return values


def test_validation_figures_are_of_the_whole_split():
    from scipy.stats import kendalltau

    scores, targets = [0.1, 0.4, 0.35, 0.8, 0.5], [0.0, 0.25, 0.5, 1.0, 0.25]
    values = logged(module(), scores, targets)
    assert values["val_pearson"] == pytest.approx(np.corrcoef(scores, targets)[0, 1], abs=1e-6)
    assert values["val_kendall"] == pytest.approx(kendalltau(scores, targets).statistic, abs=1e-6)
    assert values["val_loss"] == pytest.approx(np.mean(np.subtract(scores, targets) ** 2), abs=1e-6)


@pytest.mark.parametrize("scores", [[0.5] * 4, [0.1, 0.2, 0.3, 0.4]])
def test_undefined_correlation_is_nan_not_an_error(scores):
    targets = [0.5] * 4 if scores[0] != scores[1] else [0.1, 0.2, 0.3, 0.4]
    values = logged(module(), scores, targets)
    assert math.isnan(values["val_pearson"])
    assert math.isfinite(values["val_loss"])


def test_frozen_features_looked_up_equal_those_computed_in_place(captions, pictures):
    samples = [
        CaptionSample(caption, (captions[number - 1],), [None, *pictures][number % 5], Rating((0.5,)))
        for number, caption in enumerate(captions)
    ]
    torch.manual_seed(0)
    model = module()
    model.build(samples)
    model.eval()
    table = SampleTable(samples)
    batch = model.prepare(table, range(8), no_progress)([5, 0, 3])
    assert batch.ids is not None
    assert batch.pixels is not None
    with torch.inference_mode():
        computed = model(batch)
        model.config.text.frozen = model.config.image.frozen = True
        looked_up_batch = model.prepare(table, range(8), no_progress)([5, 0, 3])
        assert looked_up_batch.ids is None
        assert looked_up_batch.pixels is None
        torch.testing.assert_close(model(looked_up_batch), computed, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_encoders_compute_on_the_device_of_the_training_and_return(captions, monkeypatch, frozen):
    """The device is made up: what is asked of it is written down, in order, and done where the model is."""
    samples = rated(captions)
    text = TextEncoderConfig(name="tiny", tiny=TINY, frozen=frozen, layers="last")
    model = module(image=None, text=text, fusion=FusionConfig(alignment=frozen))
    model.build(samples)
    done = []
    monkeypatch.setattr(model.regressor, "to", lambda device: done.append(str(device)))
    monkeypatch.setattr(
        model.regressor.text,
        "forward",
        lambda ids, mask, forward=model.regressor.text.forward: done.append("encode") or forward(ids, mask),
    )
    model.prepare(SampleTable(samples), range(8), no_progress, torch.device("cuda", 1))
    assert done == (["cuda:1", "encode", "encode", "cpu"] if frozen else [])
    assert model.regressor.extra_scale.device.type == "cpu"


def test_a_model_returns_from_a_device_that_fails(captions, monkeypatch):
    samples = rated(captions)
    model = module(image=None, text=TextEncoderConfig(name="tiny", tiny=TINY, frozen=True))
    model.build(samples)
    done = []
    monkeypatch.setattr(model.regressor, "to", lambda device: done.append(str(device)))

    def fail(ids, mask):
        raise torch.OutOfMemoryError("no memory left")

    monkeypatch.setattr(model.regressor.text, "forward", fail)
    with pytest.raises(torch.OutOfMemoryError):
        model.prepare(SampleTable(samples), range(8), no_progress, "cuda")
    assert done == ["cuda", "cpu"]


@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_features_come_in_input_order_whatever_the_batches(build_regressor, captions, pictures, budget):
    model = build_regressor()
    token_ids = model.text.tokenize(captions)
    advanced = []
    features = encode_captions(model, token_ids, budget=budget, advance=advanced.append)
    assert sum(advanced) == len(captions)
    for number, ids in enumerate(token_ids):
        with torch.inference_mode():
            alone = model.encode_text(*model.text.pad([ids]))
        torch.testing.assert_close(features[number], alone[0], atol=1e-5, rtol=1e-5)
    by_one = encode_images(model, pictures, batch_size=1)
    torch.testing.assert_close(by_one, encode_images(model, pictures, batch_size=3), atol=1e-5, rtol=1e-5)
    assert not model.training


def test_token_batches_hold_every_position_once_and_keep_to_the_budget():
    lengths = [3, 50, 7, 7, 1, 20, 49]
    batches = list(token_batches(lengths, budget=60))
    assert sorted(position for batch in batches for position in batch) == list(range(7))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= 60
    assert batches[0] == [1]


def test_a_caption_s_features_do_not_depend_on_long_neighbours(build_regressor):
    model = build_regressor(poolings=["idf", "mean", "idf-normalised"])
    short = model.text.tokenize(["猫"])
    long = model.text.tokenize(["two dogs run in the park " * 10])
    with torch.inference_mode():
        alone = model.encode_text(*model.text.pad(short))
        beside = model.encode_text(*model.text.pad(short + long))
    torch.testing.assert_close(alone[0], beside[0], atol=1e-5, rtol=1e-5)


def test_settings_survive_their_trip_through_json():
    import json

    config = RegressorConfig(
        TextEncoderConfig(name="x", layers="last", tiny=TINY),
        ImageEncoderConfig(tiny=TINY_IMAGE),
        FusionConfig(poolings=["mean"], blocks=["candidate"], extra_inputs=["length"]),
        HeadConfig(hidden=[3], activation="relu"),
    )
    again = RegressorConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert json.dumps(again.to_dict()) == json.dumps(config.to_dict())
    blind = RegressorConfig(image=None)
    assert RegressorConfig.from_dict(blind.to_dict()) == blind


def test_settings_of_earlier_versions_are_read():
    values = RegressorConfig().to_dict()
    values["text"].update(max_tokens=64)
    values["text"]["tiny"].update(heads=2, dropout=0.0, max_positions=40)
    values["image"]["tiny"].update(layers=[1, 1, 1, 1])
    values["fusion"].update(layer_dropout=0.2)
    values["head"].update(input_norm=False)
    assert RegressorConfig.from_dict(values) == RegressorConfig()
    values["fusion"].update(plain_writing=False, plain_japanese=False)  # once yes or no
    assert RegressorConfig.from_dict(values) == RegressorConfig()
    for name in ("plain_writing", "plain_japanese"):
        with pytest.raises(ModelError, match=name):
            RegressorConfig.from_dict({**values, "fusion": {**values["fusion"], name: True}})
    values["head"].update(input_norm=True)  # this one decides scores
    with pytest.raises(ModelError, match=r"head\.input_norm"):
        RegressorConfig.from_dict(values)


def test_settings_of_another_version_are_refused():
    values = RegressorConfig().to_dict()
    with pytest.raises(ModelError, match="flux"):
        RegressorConfig.from_dict({**values, "fusion": {**values["fusion"], "flux": 1}})
    del values["head"]
    with pytest.raises(ModelError, match="head"):
        RegressorConfig.from_dict(values)


def test_batches_of_the_regressor_with_and_without_padding_references_agree(build_regressor, captions):
    for references in ("mean", "max", "mean-max", "concat"):
        model = build_regressor(references=references)
        samples = [CaptionSample(captions[0], captions[1:2]), CaptionSample(captions[1], captions[:6])]
        table = SampleTable(samples)
        collate = Collator(table, model.text.tokenize(table.captions), model.text.pad)
        with torch.inference_mode():
            together = model(collate([0, 1]))
            alone = torch.cat([model(collate([0])), model(collate([1]))])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_a_sample_that_the_trained_model_will_not_score_is_not_validated(captions):
    text = TextEncoderConfig(name="tiny", tiny=TINY, layers="last")
    cosine = FusionConfig(poolings=("mean",), blocks=(), similarity=True)
    model = module(image=None, text=text, head=HeadConfig(start="cosine"), fusion=cosine)
    model.build(rated(captions))
    samples = [CaptionSample("a dog", references, rating=Rating((0.5,))) for references in (("a dog",), ())]
    table = SampleTable(samples, with_images=False)
    table.target = np.array([0.25, 0.75], dtype=np.float32)
    collate = model.prepare(table, range(2), no_progress)
    model.validation_step(collate(range(2)), 0)
    assert [row[2] for rows in model._validation for row in rows.tolist()] == [0.25]
