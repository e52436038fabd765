"""An image encoder that is taught by a sentence encoder's vectors: what these share is kept out of it."""

import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.models.features import ModelFeatures
from suisei.training.image_pretraining import fit_image_line, leave_languages_out, pretrain_images
from suisei.training.pretraining import PretrainingConfig

SPOKEN = {
    "en": ["a red ball", "two dogs run", "a cat on a mat"],
    "ja": ["赤いボール", "犬が走る", "猫がいる"],
}


@pytest.fixture
def model(build_regressor):
    return build_regressor(
        text={"layers": "last"}, head={"start": "cosine"}, poolings=["mean"], blocks=["candidate"]
    )


def test_images_have_no_part_in_what_all_captions_of_a_language_share(model):
    samples = [CaptionSample("x", (text,), language=name) for name, own in SPOKEN.items() for text in own]
    leave_languages_out(model, samples)
    projected = model.fusion.project(torch.randn(5, model.image.width))
    for captions in SPOKEN.values():
        vectors = ModelFeatures(model, None, mixed=True).of_captions(captions)[:, 0]
        shared = projected @ vectors.mean(dim=0)
        torch.testing.assert_close(shared, torch.zeros(5), atol=1e-4, rtol=0)
        assert (projected @ (vectors[0] - vectors[1])).abs().max() > 1e-3


def test_the_line_through_the_image_cosine_is_fitted_to_rated_images(model, pictures):
    samples = [
        CaptionSample(caption, ("r",), picture, 0.2 + 0.15 * number)
        for number, (caption, picture) in enumerate(zip(SPOKEN["en"], pictures[:3], strict=True))
    ]
    fit_image_line(
        model, [*samples, CaptionSample("no image", ("r",), rating=0.1)], lambda *_: lambda _: None
    )
    assert float(model.start.image.slope.detach()) != 16.0
    with pytest.raises(DataError, match="no training sample has a rating and an image"):
        fit_image_line(model, [CaptionSample("no image", ("r",), rating=0.1)], lambda *_: lambda _: None)


@pytest.mark.parametrize("centred", [False, True])
def test_what_all_captions_share_is_taken_from_them_where_asked(model, pictures, monkeypatch, centred):
    from suisei.training import image_pretraining as module

    seen = []

    def watched(images, texts, *more):
        seen.append(texts)
        return loss(images, texts, *more)

    loss = module.symmetric_info_nce
    monkeypatch.setattr(module, "symmetric_info_nce", watched)
    config = PretrainingConfig(epochs=0, image_epochs=1, batch_size=2)
    pairs = [(picture, own) for picture, own in zip(pictures[:2], SPOKEN.values(), strict=True)]
    pretrain_images(model, pairs, config, seed=0, progress=lambda *_: lambda _: None, centred=centred)
    shared = float(seen[0].mean(dim=0).norm())
    assert (shared < 1e-4) is centred
