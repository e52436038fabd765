"""A score that starts from the cosine: what it is before training, and what is missing."""

import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.models.cosine_start import Beside, CosineStart, Line, reference_cosine
from suisei.models.similarities import similarities
from suisei.models.table import Collator, SampleTable

NAN = torch.nan


def test_a_line_says_nothing_of_what_is_not_there_and_learns_nothing_from_it():
    line = Line()
    with torch.no_grad():
        line.slope.fill_(10.0)
        line.offset.fill_(-1.0)
        line.centre.fill_(0.8)
    values = torch.tensor([0.9, NAN, 0.7])
    logits = line(values)
    torch.testing.assert_close(logits, torch.tensor([0.0, NAN, -2.0]), equal_nan=True)
    torch.where(logits.isnan(), 0.0, logits).sum().backward()
    assert float(line.slope.grad) == pytest.approx(0.0, abs=1e-6)  # 0.1 and -0.1 from the middle
    assert float(line.offset.grad) == 2.0


def test_the_image_speaks_where_there_is_no_reference_and_a_constant_where_there_is_neither():
    start = CosineStart()
    with torch.no_grad():
        start.references.centre.fill_(0.5)
        start.image.centre.fill_(0.2)
        start.nothing.fill_(0.25)
    similar = torch.tensor([[0.8, 0.6, 0.1], [NAN, NAN, NAN], [NAN, NAN, NAN]])
    seen = torch.tensor([[0.9], [0.3], [NAN]])
    expected = torch.tensor([16 * 0.2, 16 * 0.1, 0.25])
    torch.testing.assert_close(start(similar, seen), expected)
    torch.testing.assert_close(start(similar, None), torch.tensor([16 * 0.2, 0.25, 0.25]))


def test_beside_references_the_image_is_weighed_where_it_is_known():
    beside = Beside()
    with torch.no_grad():
        beside.kept.fill_(0.5)
        beside.line.centre.fill_(0.3)
        beside.line.slope.fill_(2.0)
        beside.line.offset.fill_(-0.1)
    seen = torch.tensor([[0.9], [NAN], [0.9], [NAN]])
    compared = torch.tensor([True, True, False, False])
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    expected = torch.tensor([[0.5 + 1.1, 2.0, 3.0, 4.0], [2.5 + 1.1, 6.0, 7.0, 8.0]])
    torch.testing.assert_close(beside(logits, seen, compared), expected)


def test_the_cosine_is_the_middle_of_the_largest_and_the_mean():
    similar = torch.tensor([[0.9, 0.7, 0.5, 0.3, 0.0, 0.0]])  # two poolings: largest, mean, smallest
    torch.testing.assert_close(reference_cosine(similar), torch.tensor([0.6]))


@pytest.fixture
def model(build_regressor):
    built = build_regressor(
        image=False,
        text={"layers": "last", "trained_layers": 1},
        head={"start": "cosine", "extra_hidden": 4, "members": 2},
        poolings=["mean"],
        similarity=True,
        alignment=True,
        extra_inputs=["length"],
    )
    for member in built.members:
        member.start_at_zero()  # the fixture moves all weights
    return built


def batch_of(model, captions):
    samples = [CaptionSample(own, tuple(captions[1:4])) for own in captions[:3]] + [CaptionSample("a cat")]
    table = SampleTable(samples, torch.rand(4, 1).numpy(), with_images=False)
    return Collator(table, model.text.tokenize(table.captions), model.text.pad)(range(4))


def test_an_untrained_network_leaves_the_score_to_the_cosine(model, captions):
    batch = batch_of(model, captions)
    model.eval()
    with torch.no_grad():
        outputs = model.outputs(batch)
        vectors = model.mix_layers(model.encode_text(batch.ids, batch.mask))
    own = similarities(vectors[batch.candidate], vectors[batch.references], batch.reference_mask)
    line = model.start.references
    expected = line.slope * (own[:3, :2].mean(dim=1) - line.centre) + line.offset
    torch.testing.assert_close(outputs.start[:3], expected)
    torch.testing.assert_close(outputs.start[3], model.start.nothing)
    torch.testing.assert_close(outputs.logits, outputs.start.expand(2, -1))


def test_gradients_are_finite_though_a_sample_has_no_reference(model, captions):
    model.train()
    batch = batch_of(model, captions)
    model.outputs(batch).logits.square().sum().backward()
    learned = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert all(bool(gradient.isfinite().all()) for gradient in learned.values())
    assert float(learned["start.references.slope"].abs()) > 0
    assert any("layer.1" in name and bool(gradient.abs().sum() > 0) for name, gradient in learned.items())


def test_far_from_the_training_data_the_correction_is_bounded(model, captions):
    """The network sees numbers of at most four standard deviations, however far out they are."""
    batch = batch_of(model, captions)
    model.eval()
    with torch.no_grad():
        for parameter in model.members.parameters():
            parameter.normal_()
        batch.extras[:] = 1e3
        far = model.outputs(batch)
        batch.extras[:] = 1e6
        farther = model.outputs(batch)
    torch.testing.assert_close(far.logits, farther.logits)
    standard = model._standardised(torch.full_like(far.extras, 1e6)).detach()
    assert float(standard.max()) == 4.0


def test_mean_and_scale_follow_what_a_trained_encoder_says(model):
    before = model.extra_mean.clone(), model.extra_scale.clone()
    extras = torch.randn(50, len(before[0])) * 0.1 + 0.8
    extras[:, 3] = NAN
    model.follow_extras(extras, 1.0)
    assert torch.equal(model.extra_mean[:1], before[0][:1])  # scores of another metric
    assert torch.equal(model.extra_mean[3], before[0][3])
    torch.testing.assert_close(model.extra_mean[4:], extras[:, 4:].mean(dim=0))
    scale = extras[:, 4:].std(dim=0, correction=0) + 1e-3
    torch.testing.assert_close(model.extra_scale[4:], scale)
    model.follow_extras(torch.zeros(50, len(before[0])), 0.5)
    torch.testing.assert_close(model.extra_mean[4:], extras[:, 4:].mean(dim=0) / 2)


def test_a_batch_that_stands_in_for_none_moves_no_mean(model, captions):
    """The last batch of a process that has none left counts in no process's figures."""
    before = model.extra_mean.clone()
    batch = batch_of(model, captions)
    batch.place = torch.full((len(batch),), -1)
    model.train()
    model.outputs(batch)
    assert torch.equal(model.extra_mean, before)
    batch.place = None
    model.outputs(batch)
    assert not torch.equal(model.extra_mean, before)


def test_scoring_leaves_mean_and_scale_alone(model, captions):
    before = model.extra_mean.clone()
    model.eval()
    model.outputs(batch_of(model, captions))
    assert torch.equal(model.extra_mean, before)
    model.train()
    model.outputs(batch_of(model, captions))
    assert not torch.equal(model.extra_mean, before)


def test_a_line_goes_through_where_it_was_put():
    line = Line()
    line.put(2.0, 0.25, 0.5)
    with torch.no_grad():
        found = line(torch.tensor([0.25, 0.75, -1.0, torch.nan]))
    torch.testing.assert_close(found, torch.tensor([0.5, 1.5, -2.0, torch.nan]), equal_nan=True)
