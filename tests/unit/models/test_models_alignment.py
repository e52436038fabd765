"""Token-by-token match of candidate and references, against a plain loop; members and image cosines."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.loading import load
from suisei.models.alignment import alignment_inputs
from suisei.models.config import HeadConfig
from suisei.models.folder import save_model
from suisei.models.inputs import ALIGNMENTS
from suisei.models.regressor import EXTRA_LIMIT
from suisei.models.table import Collator, SampleTable
from tests.unit.kernels import Kernels

NUMBERS = {name: place for place, name in enumerate(ALIGNMENTS)}


@pytest.fixture(scope="module")
def model(build_regressor):
    return build_regressor(
        3,
        layers=1,
        text={"layers": "last", "frozen": True},
        head={"extra_hidden": 8, "members": 3},
        poolings=("idf-normalised",),
        blocks=(),
        similarity=True,
        image_similarity=True,
        alignment=True,
    )


@pytest.fixture(scope="module")
def samples(captions):
    return [
        CaptionSample("two dogs in the park", tuple(captions[:4])),
        CaptionSample("猫", (captions[6],)),
        CaptionSample(captions[6], ("猫", captions[7] + "と犬")),
        CaptionSample("a cat"),
        CaptionSample("ж ф", (captions[2],)),
        CaptionSample(captions[4], (captions[4],)),
        CaptionSample(captions[0], (captions[1], captions[3])),
    ]


def plain(model, sample):
    """The numbers of one sample, by loops over tokens."""

    def tokens(caption):
        [ids] = model.text.tokenize([caption])
        with torch.no_grad():
            hidden = model.text(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long))[-1][0]
        special = set(model.text.special_ids) - {model.text.tokenizer.unk_token_id}
        kept = [place for place, token in enumerate(ids) if token not in special]
        return F.normalize(hidden[kept], dim=-1), [float(model.idf_weights[ids[place]]) for place in kept]

    vectors, idf = tokens(sample.candidate)
    numbers = {}
    per_reference, best = [], [-2.0] * len(vectors)
    for reference in sample.references:
        others, weights = tokens(reference)
        precise = [max(float(a @ b) for b in others) for a in vectors]
        found = [max(float(a @ b) for a in vectors) for b in others]
        best = [max(old, new) for old, new in zip(best, precise, strict=True)]
        per_reference.append(
            {
                "precision": np.mean(precise), "idf-precision": mean(precise, idf),
                "least-precision": min(precise),
                "recall": np.mean(found), "idf-recall": mean(found, weights), "least-recall": min(found),
            }
        )  # fmt: skip
    for name in per_reference[0]:
        values = [own[name] for own in per_reference]
        numbers[f"{name}-max"], numbers[f"{name}-mean"] = max(values), np.mean(values)
    own = [sum(w * v for v, w in zip(*tokens(reference), strict=True)) for reference in sample.references]
    pairs = [float(F.cosine_similarity(a, b, dim=0)) for a in own for b in own if a is not b]
    numbers["reference-agreement"] = np.mean(pairs) if pairs else 1.0
    numbers["precision-anywhere"] = np.mean(best)
    numbers["idf-precision-anywhere"] = mean(best, idf)
    numbers["least-precision-anywhere"] = min(best)
    return numbers


def mean(values, weights):
    total = sum(weights)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / total if total else 0.0


def test_numbers_equal_a_loop_over_tokens(model, samples):
    values = alignment_inputs(model, SampleTable(samples))
    assert values.shape == (7, len(ALIGNMENTS))
    assert np.isnan(values[3]).all()
    for row, sample in enumerate(samples):
        if sample.references:
            for name, expected in plain(model, sample).items():
                assert values[row, NUMBERS[name]] == pytest.approx(expected, abs=2e-5), (row, name)
    assert values[5, NUMBERS["precision-max"]] == pytest.approx(1, abs=1e-5)
    assert values[5, NUMBERS["reference-agreement"]] == 1


def test_captions_that_are_special_tokens_alone_have_no_numbers(model, captions):
    empty = [CaptionSample("<s>", ("<s>",)), CaptionSample("<s>", tuple(captions[:2]))]
    assert np.isnan(alignment_inputs(model, SampleTable(empty[:1]))).all()
    assert np.isnan(alignment_inputs(model, SampleTable(empty))).all()
    [partly, plain_one] = alignment_inputs(
        model,
        SampleTable(
            [CaptionSample("two dogs", ("<s>", captions[2])), CaptionSample("two dogs", (captions[2],))]
        ),
    )
    np.testing.assert_allclose(partly, plain_one, atol=2e-5)


def test_a_gpu_is_told_of_batches_and_not_of_captions(model, samples):
    with Kernels() as few:
        alignment_inputs(model, SampleTable(samples[:2]))
    with Kernels() as many:
        alignment_inputs(model, SampleTable(samples))
    assert many.count == few.count


def test_numbers_depend_on_neither_batch_nor_order_of_references(model, samples):
    together = alignment_inputs(model, SampleTable(samples))
    for row, sample in enumerate(samples):
        turned = CaptionSample(sample.candidate, sample.references[::-1])
        alone = alignment_inputs(model, SampleTable([turned]))
        np.testing.assert_allclose(alone[0], together[row], atol=2e-5)


def test_scores_are_the_mean_over_members_and_survive_the_model_folder(model, samples, tmp_path, pictures):
    seen = [CaptionSample(s.candidate, s.references, pictures[0]) for s in samples[:3]] + samples
    save_model(tmp_path / "model", model)
    metric = load(tmp_path / "model", device="cpu", precision="fp32")
    scores = metric.score(seen)
    assert np.isfinite(scores).all()
    assert len(set(np.round(scores, 6))) == len(seen)
    order = np.random.default_rng(0).permutation(len(seen))
    np.testing.assert_allclose(metric.score([seen[i] for i in order]), scores[order], atol=1e-5)
    np.testing.assert_allclose([metric.score([one])[0] for one in seen], scores, atol=1e-5)

    table = SampleTable(samples, with_images=False)
    table.extras = alignment_inputs(model, table)
    batch = Collator(table, model.text.tokenize(table.captions), model.text.pad)(range(len(samples)))
    with torch.no_grad():
        own = model.member_scores(batch)
    assert own.shape == (3, len(samples))
    assert float((own[0] - own[1]).abs().max()) > 1e-3
    np.testing.assert_allclose(own.mean(dim=0).numpy(), scores[3:], atol=1e-5)


def test_members_learn_from_their_own_error_alone(model, samples):
    table = SampleTable(samples, with_images=False)
    table.extras = alignment_inputs(model, table)
    batch = Collator(table, model.text.tokenize(table.captions), model.text.pad)(range(len(samples)))
    model.zero_grad()
    model.member_scores(batch)[1].sum().backward()
    touched = [
        any(p.grad is not None and p.grad.abs().sum() > 0 for p in m.parameters()) for m in model.members
    ]
    assert touched == [False, True, False]
    model.zero_grad()


def test_extra_inputs_are_cut_off_and_image_cosines_missing_without_image(model):
    far = torch.full((1, len(model.extra_mean)), 1e6)
    assert model._standardised(far).max() == EXTRA_LIMIT
    assert model._standardised(-far).min() == -EXTRA_LIMIT
    candidate = torch.randn(2, 1, 16)
    image = torch.randn(2, 8)
    cosines = model.image_similarities(candidate, image, torch.tensor([True, False]))
    expected = F.cosine_similarity(candidate[0, 0], model.fusion.project(image[0]), dim=-1)
    assert float(cosines[0, 0].detach()) == pytest.approx(float(expected.detach()), abs=1e-6)
    assert cosines[1].isnan().all()
    assert model.image_similarities(candidate, None, torch.tensor([True, True])).isnan().all()


def test_a_model_wants_something_to_score_by(build_regressor):
    with pytest.raises(ConfigError, match="nothing to score by"):
        build_regressor(blocks=[])
    with pytest.raises(ConfigError, match="members"):
        HeadConfig(members=0)


def test_no_caption_is_encoded_twice(model, samples, tmp_path):
    save_model(tmp_path / "model", model)
    metric = load(tmp_path / "model", device="cpu", precision="fp32", cache="off")
    encoded = []
    metric.regressor.text.register_forward_hook(lambda _, given, __: encoded.append(len(given[0])))
    metric.score(samples)
    assert sum(encoded) == len({text for s in samples for text in (s.candidate, *s.references)})


def test_chosen_rows_are_aligned_in_the_order_they_are_named_in(model, samples):
    table = SampleTable(samples)
    whole = alignment_inputs(model, table)
    np.testing.assert_allclose(alignment_inputs(model, table, rows=[5, 3, 0]), whole[[5, 3, 0]], atol=2e-5)


def test_a_model_in_training_is_aligned_without_dropout_and_goes_on(build_regressor, samples):
    model = build_regressor(image=False, text={"layers": "last"}, alignment=True, head={"extra_hidden": 3})
    for part in model.text.modules():
        if hasattr(part, "dropout") and isinstance(part.dropout, torch.nn.Dropout):
            part.dropout.p = 0.5
    table = SampleTable(samples, with_images=False)
    expected = alignment_inputs(model.eval(), table)
    assert not model.training
    np.testing.assert_allclose(alignment_inputs(model.train(), table), expected, atol=2e-5)
    assert model.training
