"""Pre-training on captions and images."""

from pathlib import Path

import pytest
import torch

from suisei.data.captions import CaptionCorpus
from suisei.data.idf import IdfTable
from suisei.encoders.text import TextEncoder, TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.errors import ConfigError, DataError
from suisei.models.image_pretraining import pretrain_images
from suisei.models.pretraining import CaptionPretraining, PretrainingConfig, pretrain

GROUPS = [
    ("a dog on grass", "the puppy in a meadow", "a dog in a meadow"),
    ("two men on bikes", "cyclists on a road", "two cyclists"),
    ("a red car", "the crimson automobile", "a red automobile"),
    ("女性が歩く", "歩いている女の人", "女の人が歩く"),
    ("boats at sea", "ships on water", "ships at sea"),
]
RATED = [("a dog on grass", "a puppy", 0.9), ("a red car", "ships", 0.0)]
SETTINGS = {"epochs": 30, "batch_size": 5, "learning_rate": 0.01, "word_dropout": 0.05}


def make(seed=0):
    torch.manual_seed(seed)
    captions = [caption for group in GROUPS for caption in group]
    config = TextEncoderConfig(name="tiny", layers="last", tiny=TinyTextConfig(200, 32, 0, 2, 0.0))
    text = TextEncoder.create(config, captions)
    weights = IdfTable.fit(text.tokenize(captions)).weights(text.vocabulary_size, text.special_ids)
    return text, torch.from_numpy(weights)


def cosines(text, weights):
    objective = CaptionPretraining(text, weights, PretrainingConfig()).eval()
    with torch.no_grad():
        vectors = objective.embed(text.tokenize([c for group in GROUPS for c in group[:2]]))
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(len(vectors)))
    return vectors[::2] @ vectors[1::2].T


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
        ({"temperature": 0.0}, "temperature"), ({"word_dropout": 1.0}, "word_dropout"),
        ({"smallest_crop": 0.0}, "smallest_crop"), ({"weight_decay": -1.0}, "weight_decay"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            PretrainingConfig(**settings)
    with pytest.raises(DataError, match="images with captions"):
        pretrain_images(build_regressor(), [], PretrainingConfig(), seed=0, progress=lambda *_: print)


def test_images_learn_what_their_captions_say(build_regressor, pictures, captions):
    pairs = [(Path(path), tuple(captions[2 * n : 2 * n + 2])) for n, path in enumerate(pictures)]
    settings = PretrainingConfig(
        image_epochs=40, batch_size=4, image_learning_rate=0.01, smallest_crop=1.0, temperature=0.2
    )

    def trained(seed):
        model = build_regressor(frozen_image=True)
        losses = pretrain_images(model, pairs, settings, seed=seed, progress=lambda *_: lambda __: None)
        return losses, model

    losses, model = trained(0)
    assert len(losses) == 40
    assert min(losses[-5:]) < 0.6 * losses[0]
    assert not any(parameter.requires_grad for parameter in model.image.parameters())
    assert all(parameter.requires_grad for parameter in model.fusion.project.parameters())
    again, _ = trained(0)
    assert again == losses
