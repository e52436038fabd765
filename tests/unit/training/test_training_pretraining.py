"""Pre-training on captions and images."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.errors import ConfigError, DataError, ModelError
from suisei.training import image_pretraining, pretraining
from suisei.training.image_pretraining import draw_to_captions, pretrain_images
from suisei.training.pretraining import CaptionPretraining, PretrainingConfig, pretrain
from suisei.training.pretraining_loop import Passes
from suisei.training.support import CaptionCorpus
from suisei.training.text_run import retrieval

GROUPS = [
    ("a dog on grass", "the puppy in a meadow", "a dog in a meadow"),
    ("two men on bikes", "cyclists on a road", "two cyclists"),
    ("a red car", "the crimson automobile", "a red automobile"),
    ("女性が歩く", "歩いている女の人", "女の人が歩く"),
    ("boats at sea", "ships on water", "ships at sea"),
]
RATED = [("a dog on grass", "a puppy", 0.9), ("a red car", "ships", 0.0)]
SETTINGS = {"epochs": 30, "batch_size": 5, "learning_rate": 0.01, "word_dropout": 0.05}


def silent(description, total):
    return lambda _: None


def make(seed=0):
    torch.manual_seed(seed)
    captions = [caption for group in GROUPS for caption in group]
    config = TextEncoderConfig(name="tiny", layers="last", tiny=TinyTextConfig(200, 32, 0))
    text = TextEncoder.create(config, captions)
    weights = IdfTable.fit(text.tokenize(captions)).weights(text.vocabulary_size, text.special_ids)
    return text, torch.from_numpy(weights)


def cosines(text, weights):
    objective = CaptionPretraining(text, weights, PretrainingConfig()).eval()
    with torch.no_grad():
        vectors = objective.embed(text.tokenize([c for group in GROUPS for c in group[:2]]))
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(len(vectors)))
    return vectors[::2] @ vectors[1::2].T


def test_an_encoder_that_says_the_same_of_all_captions_finds_one_of_as_many_as_there_are(monkeypatch):
    text, weights = make()
    groups = [(f"a dog {n}", f"a cat {n}") for n in range(20)]
    samples = [CaptionSample("c", references, group=references[0]) for references in groups]
    vectors = torch.randn(8, generator=torch.Generator().manual_seed(0)).repeat(40, 1)
    monkeypatch.setattr(CaptionPretraining, "embed", lambda *_: vectors)
    found = retrieval(text, weights, samples)
    assert found == {"images": 20, "recall@1": pytest.approx(1 / 20), "recall@10": pytest.approx(1 / 2)}
    vectors[2:4] = -vectors[2:4]  # one image's captions are told from the others
    found = retrieval(text, weights, samples)
    assert found["recall@1"] == pytest.approx((1 + 19 / 19) / 20)
    assert retrieval(text, weights, []) == {"images": 0, "recall@1": 0.0, "recall@10": 0.0}


def test_captions_of_one_image_come_together():
    text, weights = make()
    before = cosines(text, weights)
    losses = pretrain(text, weights, CaptionCorpus(GROUPS, RATED, []), PretrainingConfig(**SETTINGS))
    after = cosines(text, weights)
    assert len(losses) == 30
    assert losses[-1] < 0.5 * losses[0]
    assert (after.argmax(dim=1) == torch.arange(5)).all()
    gap = after.diagonal().mean() - after.mean()
    assert gap > before.diagonal().mean() - before.mean() + 0.2


def test_no_caption_is_drawn_to_itself(monkeypatch):
    seen, contrast = [], CaptionPretraining.contrast

    def noting(own, first, second):
        seen.extend(zip(first, second, strict=True))
        return contrast(own, first, second)

    monkeypatch.setattr(CaptionPretraining, "contrast", noting)
    settings = PretrainingConfig(epochs=4, batch_size=5)
    pretrain(*make(), CaptionCorpus(GROUPS, [], []), settings)
    assert len(seen) == 4 * len(GROUPS)
    assert all(first != second for first, second in seen)


def test_same_seed_same_weights_and_the_global_numbers_are_left_alone():
    results = []
    for seed in (1, 1, 2):
        text, weights = make()
        state = torch.get_rng_state()
        settings = PretrainingConfig(**{**SETTINGS, "epochs": 2})
        pretrain(text, weights, CaptionCorpus(GROUPS, RATED, []), settings, seed=seed)
        assert torch.equal(torch.get_rng_state(), state)
        results.append(torch.cat([p.detach().flatten() for p in text.parameters()]))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def step_by_step(monkeypatch):
    """The rate of every step of AdamW and the length of its gradient, temperatures apart."""
    seen = []
    step = torch.optim.AdamW.step

    def watched(self, *arguments, **options):
        group = self.param_groups[0]
        grads = [p.grad.norm() for p in group["params"] if p.grad is not None and p.grad.ndim]
        seen.append((group["lr"], float(torch.stack(grads).norm())))
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    return seen


@pytest.mark.parametrize(("batch_size", "batches"), [(2, 2), (3, 1), (5, 1)])
def test_steps_of_an_epoch_and_their_rates(monkeypatch, batch_size, batches):
    seen = step_by_step(monkeypatch)
    text, weights = make()
    settings = PretrainingConfig(epochs=10, batch_size=batch_size, learning_rate=0.003)
    pretrain(text, weights, CaptionCorpus(GROUPS, [], []), settings)
    rates = [rate for rate, _ in seen]
    assert len(rates) == 10 * batches
    assert max(rates) == pytest.approx(0.003, rel=0.05)
    assert rates[0] == pytest.approx(0.003 / 25)  # where a one-cycle schedule begins
    assert rates.index(max(rates)) <= len(rates) // 5
    assert rates[-1] < 0.05 * max(rates)


def test_rated_pairs_draw_their_cosine(monkeypatch):
    """Pairs that no image joins come together or part as people rated them, the more the more they weigh."""
    pairs = [("a dog on grass", "ships at sea"), ("a red car", "two cyclists")]

    def gap(first, second, weight=pretraining.SIMILARITY_WEIGHT):
        monkeypatch.setattr(pretraining, "SIMILARITY_WEIGHT", weight)
        text, weights = make()
        rated = [(*pairs[0], first), (*pairs[1], second)]
        settings = PretrainingConfig(**{**SETTINGS, "epochs": 15})
        pretrain(text, weights, CaptionCorpus(GROUPS, rated, []), settings)
        objective = CaptionPretraining(text, weights, PretrainingConfig()).eval()
        with torch.no_grad():
            vectors = objective.embed(text.tokenize([caption for pair in pairs for caption in pair]))
        same, other = (vectors[::2] * vectors[1::2]).sum(dim=1).tolist()
        return same - other

    unrated, weak, strong = (gap(1.0, 0.0, weight) for weight in (0.0, 1.0, 20.0))
    assert unrated + 0.3 < gap(1.0, 0.0) == strong
    assert gap(0.0, 1.0) < unrated - 0.3
    assert weak < strong - 0.1


def test_as_many_rated_pairs_meet_as_the_batch_has(monkeypatch):
    monkeypatch.setattr(pretraining, "SIMILARITY_BATCH", 3)
    met = []
    monkeypatch.setattr(
        CaptionPretraining,
        "similarity",
        lambda self, first, second, rated: met.append(rated.tolist()) or self.log_scale * 0,
    )
    rated = [("a dog", f"caption {number}", number / 10) for number in range(10)]
    text, weights = make()
    pretrain(text, weights, CaptionCorpus(GROUPS, rated, []), PretrainingConfig(epochs=20, batch_size=5))
    assert {len(batch) for batch in met} == {len(set(batch)) for batch in met} == {3}
    assert len({value for batch in met for value in batch}) == 10


def test_weights_of_words_that_do_not_occur_decay(monkeypatch):
    """AdamW moves what has no gradient by its decay alone: each step by the factor 1 - rate x decay."""
    seen = step_by_step(monkeypatch)
    text, weights = make()
    table = text.backbone.get_input_embeddings().weight
    before = table.detach().clone()
    corpus = CaptionCorpus(GROUPS[:2], [], [])
    settings = PretrainingConfig(epochs=30, batch_size=2, learning_rate=0.1, word_dropout=0.0)
    pretrain(text, weights, corpus, settings)
    used = {token for group in corpus.groups for ids in text.tokenize(group) for token in ids}
    unused = [token for token in range(len(table)) if token not in used and bool(before[token].any())]
    assert len(unused) > 20
    expected = float(torch.tensor([1 - rate * 0.02 for rate, _ in seen]).prod())
    assert expected < 0.98
    torch.testing.assert_close(table.detach()[unused], expected * before[unused], rtol=1e-4, atol=1e-6)


def test_steep_gradients_are_clipped(monkeypatch, build_regressor, pictures, captions):
    seen = step_by_step(monkeypatch)
    monkeypatch.setattr(pretraining, "TEMPERATURE", 1e-4)
    text, weights = make()
    settings = PretrainingConfig(epochs=3, image_epochs=3, batch_size=5)
    pretrain(text, weights, CaptionCorpus(GROUPS, [], []), settings)
    assert 0.1 < max(length for _, length in seen) <= 1.001  # the temperature's own may be most of it
    seen.clear()
    monkeypatch.setattr(image_pretraining, "TEMPERATURE", 1e-4)
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    pretrain_images(build_regressor(frozen_image=True), pairs, settings, seed=0, progress=silent)
    assert max(length for _, length in seen) == pytest.approx(1.0, rel=1e-3)


def test_the_image_tower_decays(monkeypatch, build_regressor, pictures, captions):
    """After one step the weights differ from those without decay by rate x decay x weight."""
    seen = step_by_step(monkeypatch)
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    start = build_regressor(frozen_image=True).image.tower.conv2.weight.detach().clone()
    after = []
    for decay in (image_pretraining.WEIGHT_DECAY, 0.0):
        monkeypatch.setattr(image_pretraining, "WEIGHT_DECAY", decay)
        model = build_regressor(frozen_image=True)
        settings = PretrainingConfig(image_epochs=1, batch_size=4)
        pretrain_images(model, pairs, settings, seed=0, progress=silent)
        after.append(model.image.tower.conv2.weight.detach())
    rate = seen[0][0]
    assert rate > 0
    torch.testing.assert_close(after[1] - after[0], rate * 0.05 * start, rtol=0.05, atol=1e-7)


def test_crops_and_rates_of_the_image_tower(monkeypatch, build_regressor, pictures, captions):
    seen, shares = step_by_step(monkeypatch), []
    monkeypatch.setattr(
        image_pretraining, "random_crops", lambda pixels, smallest: shares.append(smallest) or pixels
    )
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    settings = PretrainingConfig(image_epochs=20, batch_size=4)
    pretrain_images(build_regressor(frozen_image=True), pairs, settings, seed=0, progress=silent)
    assert shares == [0.4] * 20
    assert max(rate for rate, _ in seen) == pytest.approx(2e-3, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_share_of_the_words_that_are_dropped(share):
    text, weights = make()
    ids, mask = text.pad(text.tokenize(["a dog on grass"] * 500))
    objective = CaptionPretraining(text, weights, PretrainingConfig(word_dropout=share)).train()
    ordinary = weights[ids] > 0
    for training, expected in ((True, share), (False, 0.0)):
        dropped = objective.train(training)._drop_words(ids, mask) == text.tokenizer.mask_token_id
        assert float(dropped[ordinary].float().mean()) == pytest.approx(expected, abs=0.03)


def test_special_tokens_are_never_dropped():
    text, weights = make()
    objective = CaptionPretraining(text, weights, PretrainingConfig(word_dropout=0.99)).train()
    ids, mask = text.pad(text.tokenize(["a dog on grass"] * 50))
    dropped = objective._drop_words(ids, mask)
    special = torch.isin(ids, torch.tensor(text.special_ids))
    assert torch.equal(dropped[special], ids[special])
    assert (dropped[~special] == text.tokenizer.mask_token_id).float().mean() > 0.9


def test_what_cannot_be_learned_from_is_refused(build_regressor):
    text, weights = make()
    with pytest.raises(DataError, match="two captions or more"):
        pretrain(text, weights, CaptionCorpus([("one",), ("two",)], [], []), PretrainingConfig())
    for settings, message in (
        ({"epochs": -1}, "epochs is -1; it must be an integer from 0"), ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0.0}, "learning_rate"), ({"word_dropout": 1.0}, "word_dropout"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            PretrainingConfig(**settings)
    with pytest.raises(DataError, match="images with captions"):
        pretrain_images(build_regressor(), [], PretrainingConfig(), seed=0, progress=lambda *_: print)


def test_images_learn_what_their_captions_say(build_regressor, pictures, captions, monkeypatch):
    for name, value in {"LEARNING_RATE": 0.01, "SMALLEST_CROP": 1.0, "TEMPERATURE": 0.2}.items():
        monkeypatch.setattr(image_pretraining, name, value)
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    settings = PretrainingConfig(image_epochs=40, batch_size=4)

    def trained(seed):
        model = build_regressor(frozen_image=True)
        losses = pretrain_images(model, pairs, settings, seed=seed, progress=silent)
        return losses, model

    losses, model = trained(0)
    assert len(losses) == 40
    assert min(losses[-5:]) < 0.6 * losses[0]
    assert not any(parameter.requires_grad for parameter in model.image.parameters())
    assert all(parameter.requires_grad for parameter in model.fusion.project.parameters())
    again, _ = trained(0)
    assert again == losses


def drawn(monkeypatch, loss=None):
    """Draw four images that are all alike to two captions each; returns the mean loss of every epoch."""
    if loss is not None:
        monkeypatch.setattr(image_pretraining, "symmetric_info_nce", loss)
    same = torch.nn.Linear(1, 3)
    rows = [np.array([2 * image, 2 * image + 1]) for image in range(4)]
    passes = Passes("passes", 3, 4, 2.0, 0.0, 0.2, "rate", seed=0)
    return draw_to_captions(
        lambda batch: same(torch.ones(len(batch), 1)), (torch.ones(8, 3), rows), same, same.parameters(),
        passes, lambda _: None,
    )  # fmt: skip


def test_the_loss_of_images_is_the_mean_of_both_ways(monkeypatch):
    assert drawn(monkeypatch) == pytest.approx([(math.log(4) + math.log(8)) / 2] * 3)


def test_the_temperature_of_images_stays_above_a_hundredth(monkeypatch):
    scales = []

    def loss(images, texts, scale, owners):
        scales.append(float(scale.detach()))
        return -scale + 0 * images.sum()

    drawn(monkeypatch, loss)
    assert scales == pytest.approx([1 / image_pretraining.TEMPERATURE, 100, 100])


def test_a_loss_of_images_that_is_no_number_names_a_rate_that_exists(
    build_regressor, pictures, captions, monkeypatch
):
    model = build_regressor(frozen_image=True)
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    monkeypatch.setattr(image_pretraining, "TEMPERATURE", 1e-300)
    with pytest.raises(ModelError, match=r"pre-training on images, epoch 1, .*lower suisei\.(\S+)") as error:
        pretrain_images(model, pairs, PretrainingConfig(image_epochs=1), seed=0, progress=silent)
    assert "image_pretraining.LEARNING_RATE" in str(error.value)
    assert hasattr(image_pretraining, "LEARNING_RATE")
    assert not any(parameter.requires_grad for parameter in model.image.parameters())  # frozen as before
