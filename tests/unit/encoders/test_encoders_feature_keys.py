"""What features of a model on disk are known by: all that changes them, and nothing else."""

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.encoders.feature_file import DiskCache
from suisei.models.features import ModelFeatures


@pytest.fixture
def asked(monkeypatch):
    """What reaches the encoders."""
    from suisei.models import features

    seen = {"captions": 0, "images": 0}
    captions, images = features.encode_captions, features.encode_images

    def count_captions(model, ids, **options):
        seen["captions"] += len(ids)
        return captions(model, ids, **options)

    def count_images(model, sources, **options):
        seen["images"] += len(sources)
        return images(model, sources, **options)

    monkeypatch.setattr(features, "encode_captions", count_captions)
    monkeypatch.setattr(features, "encode_images", count_images)
    return seen


def encode_all(model, captions, pictures, folder, **options):
    from suisei.data.images import content_key

    features = ModelFeatures(model, DiskCache(folder, 1 << 24), **{"mixed": False, **options})
    return features.of_captions(captions), features.of_images([(content_key(p), p) for p in pictures])


def test_one_character_pixel_weight_or_setting_is_enough(
    tmp_path, build_regressor, captions, pictures, asked
):
    cache = tmp_path / "cache"
    model = build_regressor()
    first = encode_all(model, captions, pictures, cache)
    assert asked == {"captions": 8, "images": 4}
    again = encode_all(build_regressor(), captions, pictures, cache)
    assert asked == {"captions": 8, "images": 4}
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
    encode_all(model, [captions[0] + "!", *captions[1:]], pictures, cache)
    assert asked == {"captions": 9, "images": 4}
    image = Image.open(pictures[0]).convert("RGB")
    image.putpixel((3, 3), tuple(255 - side for side in image.getpixel((3, 3))))
    image.save(tmp_path / "changed.png")
    _, changed = encode_all(model, captions, [tmp_path / "changed.png", *pictures[1:]], cache)
    assert asked == {"captions": 9, "images": 5}
    assert not torch.equal(changed[0], first[1][0])
    assert torch.equal(changed[1:], first[1][1:])
    with torch.no_grad():
        model.text.backbone.embeddings.word_embeddings.weight[5, 3] += 1e-3
        next(model.image.tower.parameters()).view(-1)[0] += 1e-3
    encode_all(model, captions, pictures, cache)
    assert asked == {"captions": 17, "images": 9}
    encode_all(model, captions, pictures, cache, precision="bf16")
    assert asked == {"captions": 25, "images": 13}
    mixed, _ = encode_all(model, captions, pictures, cache, mixed=True)
    assert asked == {"captions": 33, "images": 13}
    assert mixed.shape == (8, 2, 16)


def other_mix(model):
    with torch.no_grad():
        model.mix.logits[0] += 1


def unit_length(model):
    model.image.settings["normalise"] = True


@pytest.mark.parametrize(
    ("options", "mixed", "change", "encoded"),
    [
        ({}, True, other_mix, (8, 0)),
        ({"layer_norm": False}, False, None, (8, 0)),
        ({"text": {"layers": "last"}}, False, None, (8, 0)),
        ({}, False, unit_length, (0, 4)),
    ],
    ids=["mix", "layer-norm", "last-layer", "normalise"],
)
def test_one_setting_of_the_model_is_enough(
    tmp_path, build_regressor, captions, pictures, asked, options, mixed, change, encoded
):
    encode_all(build_regressor(), captions, pictures, tmp_path, mixed=mixed)
    asked.update(captions=0, images=0)
    model = build_regressor(**options)
    if change is not None:
        change(model)
    encode_all(model, captions, pictures, tmp_path, mixed=mixed)
    assert (asked["captions"], asked["images"]) == encoded


def test_the_idf_table_counts_only_where_captions_are_pooled_by_it(
    tmp_path, build_regressor, captions, pictures, asked
):
    for poolings, encoded in ((["mean"], 8), (["mean", "idf"], 16)):
        asked["captions"] = 0
        for weight in (0.5, 0.7):  # another fold has another table
            model = build_regressor(poolings=poolings)
            model.idf_weights.fill_(weight)
            encode_all(model, captions, pictures, tmp_path)
        assert asked["captions"] == encoded


def test_the_learned_metric_scores_the_same_from_the_cache(tmp_path, model_folder, captions, pictures, asked):
    from suisei.metrics.loading import load

    images = [*pictures, None, None, pictures[0], pictures[1]]
    references = [captions[:2], captions[2:5], [], captions[3:4]] * 2
    scores = [
        load(model_folder, device="cpu", cache=cache).score(captions, references, images)
        for cache in ("off", tmp_path, tmp_path)
    ]
    assert asked == {"captions": 16, "images": 8}
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-7)
    np.testing.assert_array_equal(scores[2], scores[1])


def test_training_with_frozen_encoders_encodes_once_for_all_runs_and_folds(
    tmp_path, captions, pictures, asked, monkeypatch
):
    from suisei.data.sample import CaptionSample, Rating
    from suisei.encoders.image import ImageEncoderConfig
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
    from suisei.models.config import FusionConfig
    from suisei.models.table import SampleTable
    from suisei.training.module import SuiSei

    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path))
    samples = [
        CaptionSample(text, (captions[n - 1],), pictures[n % 4], Rating((0.5,)))
        for n, text in enumerate(captions)
    ]
    model = SuiSei(
        text=TextEncoderConfig(name="tiny", tiny=TinyTextConfig(vocabulary=200, width=16, layers=1)),
        image=ImageEncoderConfig(name="tiny", frozen=False, tiny=TinyImageConfig(width=4, features=8)),
        fusion=FusionConfig(poolings=("mean",)),
    )
    model.build(samples)
    model.config.text.frozen = model.config.image.frozen = True
    scores = []
    for fold in range(3):  # its references, and so its idf table, are a fold's own
        model.regressor.idf_weights.fill_(fold)
        collate = model.prepare(SampleTable(samples), range(8), lambda *_: lambda _: None)
        model.eval()
        with torch.no_grad():
            scores.append(model(collate(range(8))))
    assert asked == {"captions": 8, "images": 4}
    torch.testing.assert_close(scores[1], scores[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(scores[2], scores[1], atol=0, rtol=0)
