"""Cross-fitting: no encoder has seen the images of the samples that it speaks of to the head."""

import copy

import numpy as np
import pytest
import torch

from suisei.data.sample import CaptionSample, Rating
from suisei.data.splits import group_of
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
from suisei.errors import ConfigError, DataError
from suisei.models.alignment import alignment_inputs
from suisei.models.config import FusionConfig, HeadConfig
from suisei.models.features import encode_captions
from suisei.models.table import SampleTable
from suisei.training import cross_fitting
from suisei.training.cross_fitting import part_encoders, reading_with, separate_parts
from suisei.training.module import SuiSei, no_progress
from suisei.training.pretraining import PretrainingConfig
from suisei.training.support import Support

IMAGES = 9


@pytest.fixture
def training():
    things = ["dog", "cat", "ball", "tree", "car", "house", "bird", "boat", "cup"]
    return [
        CaptionSample(
            f"a {thing} number {number}",
            (f"the {thing} is here", f"one {thing} on grass"),
            None,
            Rating((number / 2,)),
            group=thing,
        )
        for thing in things
        for number in range(3)
    ]


def module(**options):
    options = {
        "text": TextEncoderConfig(
            name="tiny", layers="last", frozen=True, tiny=TinyTextConfig(vocabulary=120, width=8, layers=0)
        ),
        "image": None,
        "fusion": FusionConfig(
            poolings=["idf-normalised"], blocks=[], layer_norm=False, similarity=True, alignment=True
        ),
        "head": HeadConfig(extra_hidden=4),
        "pretraining": PretrainingConfig(epochs=2, batch_size=4, learning_rate=0.05, cross_fit=3),
        **options,
    }
    return SuiSei(**options)


def weights_of(encoder):
    return torch.cat([parameter.detach().flatten() for parameter in encoder.parameters()])


def test_every_part_is_pretrained_without_its_images_and_what_holds_their_references(training, monkeypatch):
    seen = []
    monkeypatch.setattr(
        cross_fitting, "pretrain", lambda encoder, idf, corpus, config, **_: seen.append(corpus)
    )
    captions = [caption for sample in training for caption in (sample.candidate, *sample.references)]
    untrained = TextEncoder.create(
        TextEncoderConfig(name="tiny", tiny=TinyTextConfig(vocabulary=120)), captions
    )
    elsewhere = CaptionSample("the dog is here", ("a dog",), None, Rating((1.0,)))
    support = Support(groups=[("the cat is here", "a cat"), ("snow", "white snow")], rated=[elsewhere])
    config = PretrainingConfig(cross_fit=3)
    parts = part_encoders(untrained, torch.ones(200), training, support, config)
    covered = np.concatenate([part.samples for part in parts])
    assert sorted(covered) == list(range(len(training)))
    for part, corpus in zip(parts, seen, strict=True):
        held_out = {group_of(training[row]) for row in part.samples}
        assert len(held_out) == 3
        assert {
            group_of(training[row]) for row in set(range(len(training))) - set(part.samples)
        } & held_out == set()
        known = {caption for group in corpus.groups for caption in group}
        known |= {caption for pair in corpus.rated for caption in pair[:2]}
        assert not known & {r for row in part.samples for r in training[row].references}
        assert "white snow" in known
        assert ("a dog" in known) == ("dog" not in held_out)


def test_encoders_start_alike_end_differently_and_come_out_the_same_again(training):
    captions = [caption for sample in training for caption in (sample.candidate, *sample.references)]
    tiny = TinyTextConfig(vocabulary=120, width=8, layers=0)
    config = TextEncoderConfig(name="tiny", layers="last", tiny=tiny)
    untrained = TextEncoder.create(config, captions)
    before = weights_of(untrained).clone()
    settings = PretrainingConfig(epochs=2, batch_size=4, cross_fit=3)
    steps = []
    idf = torch.ones(untrained.vocabulary_size)

    def make():
        return part_encoders(untrained, idf, training, Support(), settings, seed=1, advance=steps.append)

    first, again = make(), make()
    assert torch.equal(weights_of(untrained), before)
    assert len(steps) == 2 * 3 * 2
    for one, other in zip(first, again, strict=True):
        assert torch.equal(weights_of(one.encoder), weights_of(other.encoder))
        assert not any(parameter.requires_grad for parameter in one.encoder.parameters())
    assert not torch.equal(weights_of(first[0].encoder), weights_of(first[1].encoder))
    assert not torch.equal(weights_of(first[0].encoder), before)


def test_the_head_learns_from_encoders_that_have_not_seen_the_image(training):
    new = CaptionSample("a dog number 1", ("the cat is here",), None, Rating((0.5,)), group="new")
    model = module()
    model.build(training, seed=3)
    parts = copy.deepcopy(model._parts)
    assert len(parts) == 3
    table = SampleTable([new, *training])
    positions = range(1, len(table))
    collate = model.prepare(table, positions, no_progress)
    plain = SampleTable([new, *training])
    regressor = model.regressor

    def vector(caption):
        return encode_captions(regressor, regressor.text.tokenize([caption]))[0]

    def used(position):
        batch = collate([position])
        rows = model.ahead.captions.look_up(batch.caption_rows, torch.device("cpu")).clone()
        return rows[batch.candidate[0]], rows[batch.references[0]]

    own_alignment = alignment_inputs(regressor, plain)
    candidate, references = used(0)
    torch.testing.assert_close(candidate, vector(new.candidate))
    torch.testing.assert_close(references[0], vector(new.references[0]))
    np.testing.assert_allclose(table.extras[0], own_alignment[0], atol=1e-6)
    for part in parts:
        with reading_with(regressor, part.encoder):
            alignment = alignment_inputs(regressor, plain)
            for row in part.samples[:2]:
                candidate, references = used(positions[row])
                torch.testing.assert_close(candidate, vector(training[row].candidate))
                torch.testing.assert_close(references[1], vector(training[row].references[1]))
                np.testing.assert_allclose(table.extras[positions[row]], alignment[positions[row]], atol=1e-6)
        assert np.abs(table.extras - own_alignment)[positions[part.samples[0]]].max() > 1e-4


def test_samples_with_an_image_keep_the_encoder_that_the_image_tower_agrees_with(training, pictures):
    pictured = CaptionSample("a kite", ("the kite flies",), pictures[0], Rating((1.0,)), group="kite")
    samples = [pictured, *training]
    model = module(
        image=ImageEncoderConfig(name="tiny", frozen=False, tiny=TinyImageConfig(width=2, features=4)),
        pretraining=PretrainingConfig(epochs=1, batch_size=4, cross_fit=3),
        fusion=FusionConfig(
            poolings=["idf-normalised"], blocks=[], layer_norm=False, similarity=True, image_similarity=True
        ),
    )
    model.build(samples)
    parts = model._parts
    table = SampleTable(samples)
    separated = separate_parts(table, range(len(samples)), parts)
    assert sorted(int(row) for part in separated for row in part.rows) == list(range(1, len(samples)))
    assert table.candidate[0] < min(part.captions.start for part in separated)


def test_separated_captions_are_shared_within_their_samples_and_with_no_other():
    samples = [CaptionSample("a", ("b", "c")), CaptionSample("b", ("a",)), CaptionSample("a", ("c",))]
    table = SampleTable(samples)
    added = table.separate_captions([0, 2])
    assert added == range(3, 6)
    assert [table.captions[row] for row in added] == ["a", "b", "c"]
    assert table.candidate[0] == table.candidate[2] == 3
    for row, sample in enumerate(samples):
        assert table.captions[table.candidate[row]] == sample.candidate
        assert tuple(table.captions[caption] for caption in table.references[row]) == sample.references
    assert table.candidate[1] == 1
    assert table.separate_captions([]) == range(6, 6)


@pytest.mark.parametrize(
    "options",
    [
        {"fusion": FusionConfig(poolings=["mean"])},
        {"text": TextEncoderConfig(name="tiny", frozen=False, tiny=TinyTextConfig())},
    ],
)
def test_vectors_of_several_encoders_are_not_mixed(options):
    with pytest.raises(ConfigError, match="cross_fit"):
        module(**options)


@pytest.mark.parametrize("value", [-1, 1])
def test_impossible_parts_are_refused(value):
    with pytest.raises(ConfigError, match=r"pretraining\.cross_fit"):
        PretrainingConfig(cross_fit=value)


def test_fewer_images_than_parts_are_refused(training):
    model = module(pretraining=PretrainingConfig(epochs=1, cross_fit=IMAGES + 1))
    with pytest.raises(DataError, match="groups"):
        model.build(training)
