"""The alignment in the forward pass is the one of scoring, and an encoder learns by it."""

import numpy as np
import torch

from suisei.data.sample import CaptionSample
from suisei.models.alignment import alignment_inputs
from suisei.models.inputs import ALIGNMENTS
from suisei.models.table import Collator, SampleTable
from suisei.models.token_matches import aligned


def test_a_batch_is_aligned_as_samples_are_for_scoring(build_regressor, captions):
    model = build_regressor(
        image=False, text={"layers": "last"}, alignment=True, head={"extra_hidden": 3}
    ).eval()
    samples = [
        CaptionSample(captions[0], tuple(captions[1:4])),
        CaptionSample(captions[1], (captions[5],)),
        CaptionSample("a cat"),
        CaptionSample(captions[3], (captions[4], captions[2], captions[4])),
    ]
    table = SampleTable(samples, with_images=False)
    tokens = model.text.tokenize(table.captions)
    for overhead in (None, 0):
        batch = Collator(table, tokens, model.text.pad, overhead=overhead)(range(4))
        with torch.no_grad():
            computed = model.outputs(batch).extras
        expected = torch.from_numpy(alignment_inputs(model, table))
        assert computed.shape == (4, len(ALIGNMENTS))
        torch.testing.assert_close(computed, expected, equal_nan=True, atol=1e-5, rtol=1e-4)
    model.train()
    model.outputs(batch).extras[[0, 1, 3]].sum().backward()
    weights = model.text.backbone.encoder.layer[-1].output.dense.weight
    assert float(weights.grad.abs().sum()) > 0
    assert bool(weights.grad.isfinite().all())


def test_references_given_twice_agree_no_more_than_once(build_regressor, captions):
    model = build_regressor(image=False, alignment=True, head={"extra_hidden": 3}).eval()
    once = tuple(captions[1:4])
    given = [once, once * 2, once[:1] * 3, once[:1]]
    table = SampleTable([CaptionSample(captions[0], own) for own in given], with_images=False)
    numbers = alignment_inputs(model, table)
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-5)
    np.testing.assert_allclose(numbers[2], numbers[3], atol=1e-5)
    agreement = ALIGNMENTS.index("reference-agreement")
    assert numbers[0, agreement] < 0.999
    assert numbers[3, agreement] == 1


def test_a_batch_without_any_reference_is_aligned_with_nothing(build_regressor):
    model = build_regressor(image=False, alignment=True, head={"extra_hidden": 3})
    table = SampleTable([CaptionSample("a cat"), CaptionSample("a dog runs")], with_images=False)
    batch = Collator(table, model.text.tokenize(table.captions), model.text.pad)(range(2))
    outputs = model.outputs(batch)
    assert outputs.extras.shape == (2, len(ALIGNMENTS))
    assert bool(outputs.extras.isnan().all())
    outputs.logits.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_tokens_of_every_caption_weigh_nothing_but_are_there():
    """A token that is in all references of the training has idf 0; what is no token has less."""
    axes = torch.eye(3)
    candidate, reference = axes[None, :2], axes[None, None, 1:]
    again = torch.zeros(1, 1, dtype=torch.bool)
    found = aligned(candidate, torch.tensor([[0.0, 1.0]]), reference, torch.tensor([[[0.0, 1.0]]]), again)
    numbers = dict(zip(ALIGNMENTS, found[0].tolist(), strict=True))
    assert numbers["precision-max"] == numbers["recall-max"] == 0.5
    assert (numbers["idf-precision-max"], numbers["idf-recall-max"]) == (1, 0)
