"""An image side for a trained model: captions stay, images lie near theirs and count in a score."""

import dataclasses

import numpy as np
import pytest
import torch

from suisei.data.images import content_keys
from suisei.data.sample import CaptionSample
from suisei.encoders.efficientnet_lite import LITE, EfficientNetLite
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, DataError
from suisei.models.features import ModelFeatures
from suisei.models.table import Collator, SampleTable
from suisei.training import image_side
from suisei.training.image_side import (
    ImageSideData,
    Weighed,
    leave_languages_out,
    teach_projection,
    with_images,
)

SPOKEN = {
    "en": ["a red ball", "two dogs run", "a cat on a mat", "a girl by the lake"],
    "ja": ["赤いボール", "犬が走る", "猫がいる", "少女が湖にいる"],
}


def silent(*_):
    return lambda _: None


@pytest.fixture(scope="module")
def tower(tmp_path_factory):
    """EfficientNet-Lite0 with random weights that tell pictures apart."""
    torch.manual_seed(0)
    made = EfficientNetLite().train()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():  # normalisations learn what they see
        made(torch.rand(8, 3, 64, 64))
    path = tmp_path_factory.mktemp("tower") / "lite0.safetensors"
    save_weights({key.removeprefix("trunk."): value for key, value in made.state_dict().items()}, path)
    return ImageEncoderConfig(f"timm:{LITE}", str(path))


@pytest.fixture
def model(build_regressor):
    return build_regressor(
        text={"layers": "last"},
        head={"start": "cosine", "extra_hidden": 4},
        image=False,
        poolings=["mean"],
        blocks=[],
        similarity=True,
    ).eval()


@pytest.fixture
def samples(pictures):
    return [
        CaptionSample(caption, (SPOKEN["en"][(n + 1) % 4],), picture, 0.2 + 0.15 * n, language="en")
        for n, (caption, picture) in enumerate(zip(SPOKEN["en"], pictures, strict=True))
    ]


@pytest.fixture
def data(samples, pictures):
    pairs = [(picture, (caption,)) for picture, caption in zip(pictures, SPOKEN["en"], strict=True)]
    japanese = [CaptionSample("x", (text,), language="ja") for text in SPOKEN["ja"]]
    return ImageSideData(pairs, samples, [*samples, *japanese])


def logits(model, samples):
    table = SampleTable(samples)
    collate = Collator(table, model.text.tokenize(table.captions), model.text.pad)
    with torch.inference_mode():
        images = None
        if model.image is not None and table.images:
            sources = list(zip(table.image_keys, table.images, strict=True))
            images = ModelFeatures(model, None, mixed=True).of_images(sources)
        return model.outputs(collate(list(range(len(samples)))), images=images).logits[0]


def test_scores_with_references_stay_and_the_image_speaks_without_them(model, tower, data, samples):
    new = with_images(model, tower, data, epochs=3, seed=1, progress=silent)
    assert new.config.head.start == "cosine"
    bare = [dataclasses.replace(sample, image=None) for sample in samples]
    before = logits(model, bare)
    assert torch.equal(logits(new, bare), before)
    assert torch.equal(logits(new, samples), before)
    alone = logits(new, [dataclasses.replace(sample, references=()) for sample in samples])
    assert len(set(alone.tolist())) == len(samples)


def test_ratings_that_were_not_learned_from_weigh_the_image_beside_references(model, tower, data, samples):
    scores = np.linspace(0.3, 0.6, 4)
    data = dataclasses.replace(data, weighed=Weighed(samples, scores, scores))
    new = with_images(model, tower, data, epochs=3, seed=1, progress=silent)
    assert new.config.head.start == "cosines"
    bare = [dataclasses.replace(sample, image=None) for sample in samples]
    before = logits(model, bare)
    assert torch.equal(logits(new, bare), before)
    with torch.no_grad():
        new.start.beside.line.slope.fill_(3.0)
    assert (logits(new, samples) - before).abs().min() > 1e-4
    assert model.config.head.start == "cosine"


@pytest.mark.parametrize("weighed", [False, True])
def test_scores_by_the_image_lie_on_the_scale_of_ratings_where_ranks_were_learned(
    build_regressor, tower, data, samples, weighed
):
    crowded = [
        dataclasses.replace(s, rating=r) for s, r in zip(samples, (0.94, 0.95, 0.96, 0.97), strict=True)
    ]
    model = build_regressor(
        text={"layers": "last"}, head={"start": "cosine", "extra_hidden": 4, "rank_share": 1.0},
        image=False, poolings=["mean"], blocks=[], similarity=True,
    ).eval()  # fmt: skip
    model.scale.fit(crowded)
    scores = np.array([0.945, 0.94, 0.96, 0.97])
    beside = Weighed(crowded, scores, scores) if weighed else None
    data = dataclasses.replace(data, rated=crowded, weighed=beside)
    with pytest.MonkeyPatch.context() as patch:
        cosines = np.array([0.1, 0.2, 0.3, 0.4])
        seen = image_side._seen
        patch.setattr(image_side, "_seen", lambda *given: (cosines, seen(*given)[1]))
        start = with_images(model, tower, data, epochs=1, seed=1, progress=silent).start
    shown = torch.tensor(cosines, dtype=torch.float32)
    with torch.no_grad():
        alone = model.scale(start.image(shown).sigmoid())
        assert alone.mean() == pytest.approx(0.955, abs=0.01)
        if weighed:
            learned = torch.logit(torch.from_numpy(model.scale.learn(scores))).float()
            both = start.beside(learned[None], shown[:, None], torch.ones(4, dtype=torch.bool))[0]
            assert model.scale(both.sigmoid()).mean() == pytest.approx(0.955, abs=0.01)


def test_an_image_lies_nearest_to_its_own_caption(model, tower, data):
    new = with_images(model, tower, data, epochs=1, seed=1, progress=silent)
    teach_projection(new, data.pairs, epochs=60, seed=1, progress=silent)
    features = ModelFeatures(new, None, mixed=True)
    captions = features.of_captions([own[0] for _, own in data.pairs])[:, 0]
    paths = [path for path, _ in data.pairs]
    images = features.of_images(list(zip(content_keys(paths), paths, strict=True)))
    with torch.no_grad():
        seen = new.fusion.project(images)
    centred = torch.nn.functional.normalize(captions - captions.mean(dim=0), dim=-1)
    assert (centred @ seen.T).argmax(dim=0).tolist() == [0, 1, 2, 3]


def test_a_feature_that_never_differed_does_not_decide_when_it_does(model, tower, data, monkeypatch):
    features = torch.randn(4, 1280)
    features[:, 0] = 0.5
    monkeypatch.setattr(image_side, "_image_features", lambda *_: features.clone())
    new = with_images(model, tower, data, epochs=20, seed=1, progress=silent)
    lengths = new.fusion.project.weight.norm(dim=0)
    assert lengths[0] < 30 * lengths.median()


def test_a_model_that_has_an_image_side_gets_another(model, tower, data, samples):
    first = with_images(model, tower, data, epochs=1, seed=1, progress=silent)
    again = with_images(first, tower, data, epochs=1, seed=1, progress=silent)
    assert torch.equal(logits(first, samples), logits(again, samples))


def test_images_have_no_part_in_what_all_captions_of_a_language_share(model, tower, data):
    new = with_images(model, tower, data, epochs=1, seed=1, progress=silent)
    with torch.no_grad():
        new.fusion.project.weight.normal_()
    samples = [CaptionSample("x", (text,), language=name) for name, own in SPOKEN.items() for text in own]
    leave_languages_out(new, samples)
    projected = new.fusion.project(torch.randn(5, new.image.width))
    for captions in SPOKEN.values():
        vectors = ModelFeatures(new, None, mixed=True).of_captions(captions)[:, 0]
        torch.testing.assert_close(projected @ vectors.mean(dim=0), torch.zeros(5), atol=1e-3, rtol=0)
        assert (projected @ (vectors[0] - vectors[1])).abs().max() > 1e-2


def test_a_model_or_tower_that_cannot_be_joined_is_refused(model, build_regressor, tower, data):
    with pytest.raises(ConfigError, match="must be pretrained"):
        with_images(model, ImageEncoderConfig("tiny"), data, epochs=1, seed=1, progress=silent)
    for other in (
        {"head": {}},
        {"head": {"start": "cosine"}, "blocks": ["image-product"]},
        {"head": {"start": "cosine"}, "blocks": None},
    ):
        built = build_regressor(text={"layers": "last"}, **other)
        with pytest.raises(ConfigError, match="starts from the cosine"):
            with_images(built, tower, data, epochs=1, seed=1, progress=silent)
    few = dataclasses.replace(data, pairs=data.pairs[:1])
    with pytest.raises(DataError, match="there are 1"):
        with_images(model, tower, few, epochs=1, seed=1, progress=silent)


def test_a_new_image_side_is_centred_drops_features_and_knows_no_folder(model, tower, data, monkeypatch):
    drawn, dropped = [], []

    def watched(projected, captions, *more):
        drawn.append(captions[0].mean(dim=0))
        return draw(projected, captions, *more)

    def dropping(values, share, *more, **options):
        dropped.extend([] if more or options else [share])
        return dropout(values, share, *more, **options)

    draw, dropout = image_side.draw_to_captions, image_side.F.dropout
    monkeypatch.setattr(image_side, "draw_to_captions", watched)
    monkeypatch.setattr(image_side.F, "dropout", dropping)
    new = with_images(model, tower, data, epochs=1, seed=1, progress=silent)
    assert float(drawn[0].abs().max()) < 1e-5
    assert set(dropped) == {0.5}
    assert new.config.image.pretrained == "lite0.safetensors"
    for own in SPOKEN.values():  # what the captions of a language share is no part of an image
        vectors = ModelFeatures(new, None, mixed=True).of_captions(own)[:, 0]
        shared = new.fusion.project.weight.T @ vectors.mean(dim=0)
        assert float(shared.abs().max()) < 1e-3
