"""RECAP, latent: its distance by hand, folders that give the same scores, and folders that are refused."""

import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, ModelError, UnavailableError
from suisei.metrics.default_model import default_model
from suisei.metrics.registry import get_metric
from suisei.models.latent import CaptionReconstruction, LatentModel, LatentShape, padded
from suisei.models.latent_folder import load_latent, save_latent
from suisei.models.prefix_mapper import PrefixMapper


@pytest.fixture
def folder(latent_folder):
    return latent_folder


@pytest.fixture
def model(latent_folder):
    return load_latent(latent_folder)[0]


def metric_of(folder, **options):
    return get_metric(f"recap-latent:{folder}", device="cpu", precision="fp32", cache="off", **options)


@pytest.fixture
def samples(captions, pictures):
    return [CaptionSample(c, image=pictures[n % len(pictures)]) for n, c in enumerate(captions)]


def test_the_score_is_the_mean_square_between_guess_and_mapped_image(model, folder, samples):
    expected = []
    with torch.inference_mode():
        for sample in samples:
            pixels = model.image.preprocess(Image.open(sample.image).convert("RGB"))
            target = model.mapper(model.image(pixels[None]))[0]
            guess = model.captions(*padded(model.tokenize([sample.candidate])))[0]
            expected.append(float(((guess - target) ** 2).mean()))
    assert target.shape == (3, 16)
    mean = metric_of(folder)
    np.testing.assert_allclose(mean.score(samples), expected, rtol=1e-5)
    length = metric_of(folder, distance="l2")
    np.testing.assert_allclose(length.score(samples), np.sqrt(48 * np.array(expected)), rtol=1e-5)
    assert mean.higher_is_better is False
    assert len(set(expected)) == len(expected)


def test_neither_batches_nor_order_nor_neighbours_decide(folder, samples):
    metric = metric_of(folder)
    scores = metric.score(samples)
    np.testing.assert_allclose(metric.score(samples, batch_size=1), scores, rtol=1e-5)
    np.testing.assert_allclose(metric.score(samples[::-1])[::-1], scores, rtol=1e-5)
    np.testing.assert_allclose(metric_of(folder).score(samples[2:3]), scores[2:3], rtol=1e-5)
    np.testing.assert_allclose(metric.score(samples * 3, batch_size=5), np.tile(scores, 3), rtol=1e-5)


def test_parts_of_many_samples_give_the_same(folder, samples, monkeypatch):
    scores = metric_of(folder).score(samples)
    monkeypatch.setattr("suisei.metrics.recap_latent.SAMPLES_AT_ONCE", 3)
    np.testing.assert_allclose(metric_of(folder).score(samples), scores, rtol=1e-5)


def test_the_order_of_words_decides(folder, pictures):
    metric = metric_of(folder)
    pair = [CaptionSample(text, image=pictures[0]) for text in ("a dog sees a cat", "a cat sees a dog")]
    first, second = metric.score(pair)
    assert abs(first - second) > 1e-6


def test_a_folder_gives_the_scores_and_the_signature_of_another_copy(model, folder, samples, tmp_path):
    again = tmp_path / "again"
    loaded, checksum = load_latent(folder)
    save_latent(again, loaded)
    assert np.array_equal(metric_of(again).score(samples), metric_of(folder).score(samples))
    assert metric_of(again).signature == metric_of(folder).signature
    assert f"model:{checksum[:12]}|distance:mean|dtype:fp32" in metric_of(folder).signature
    assert "distance:l2" in metric_of(folder, distance="l2").signature
    with torch.no_grad():
        loaded.captions.prefix += 1
    save_latent(again, loaded)
    assert metric_of(again).signature != metric_of(folder).signature


def test_it_survives_pickling(folder, samples):
    metric = metric_of(folder)
    before = metric.score(samples)
    assert np.array_equal(pickle.loads(pickle.dumps(metric)).score(samples), before)


def test_what_lacks_an_image_has_no_score_and_a_broken_one_is_named(folder, samples, tmp_path):
    metric = metric_of(folder)
    scores = metric.score([samples[0], CaptionSample("a dog")])
    assert np.isfinite(scores[0])
    assert np.isnan(scores[1])
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"broken\.png"):
        metric.score([CaptionSample("a dog", image=tmp_path / "broken.png")])


def test_a_caption_without_tokens_and_a_very_long_one_have_scores(model, folder, pictures):
    metric = metric_of(folder)
    texts = ["dog " * 500, "🐕", "."]
    given = [CaptionSample(text, image=pictures[0]) for text in texts]
    with pytest.warns(UserWarning, match="recap-latent: 1 caption with more tokens than .*'dog dog") as said:
        assert np.isfinite([metric.score(given) for _ in range(2)]).all()
    assert len(said) == 1
    with torch.inference_mode():
        empty, full = model.captions(*padded([[], [5, 6]])), model.captions(*padded([[]]))
    assert empty.isfinite().all()
    torch.testing.assert_close(empty[0], full[0], atol=1e-6, rtol=1e-5)


def test_options_that_are_none(folder):
    with pytest.raises(UnavailableError, match="suisei train --config recap_latent"):
        get_metric("recap-latent")
    with pytest.raises(ConfigError, match="distance is 'cosine'; it must be one of mean, l2"):
        metric_of(folder, distance="cosine")


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda c: c.update(kind="other"), "no folder of recap-latent"),
        (lambda c: c.update(format=9), "format 9"),
        (lambda c: c["shape"].update(width=10**9), "shape.width"),
        (lambda c: c["shape"].update(prefix=4), "the mapper gives 3 x 16"),
        (lambda c: c["shape"].update(vocabulary=10**6), "does not fit the model"),
        (lambda c: c["mapper"].update(layers=3), "missing"),
        (lambda c: c["mapper"].pop("heads"), "lacks heads"),
        (lambda c: c["image"]["vision_cfg"].update(timm_model_name="hf-hub:evil/model"), "timm_model_name"),
        (lambda c: c["shape"].update(run="os.system"), "no setting"),
    ],
)
def test_folders_that_somebody_changed_are_refused(folder, tmp_path, resign, little_memory, edit, told):
    shutil.copytree(folder, tmp_path / "bad")
    resign(tmp_path / "bad", edit)
    with pytest.raises(ModelError, match=told):
        load_latent(tmp_path / "bad")


def test_altered_and_missing_files_are_refused(folder, tmp_path):
    for name in ("model.safetensors", "tokenizer/tokenizer.json"):
        shutil.copytree(folder, tmp_path / "bad")
        (tmp_path / "bad" / name).write_bytes((folder / name).read_bytes()[:-1] + b" ")
        with pytest.raises(ModelError, match=f"{name} was altered"):
            load_latent(tmp_path / "bad")
        (tmp_path / "bad" / name).unlink()
        with pytest.raises(ModelError, match=f"{name} is missing"):
            load_latent(tmp_path / "bad")
        shutil.rmtree(tmp_path / "bad")
    with pytest.raises(ModelError, match="no model folder"):
        load_latent(tmp_path / "none")
    with pytest.raises(ModelError, match="holds a SuiSei model of ratings; one of another kind is needed"):
        load_latent(default_model())


def test_a_tokenizer_of_another_language_model_is_refused(model):
    few = CaptionReconstruction(LatentShape(5, 16, 3, 2, 24, 40))
    whole = LatentModel(model.image, model.mapper, few, model.tokenizer)
    with pytest.raises(ModelError, match="the language model has 5 embeddings"):
        whole.tokenize(["a dog"])


def test_the_first_token_without_an_embedding_is_refused(model):
    largest = max(model.tokenize(["a dog"])[0])
    for vocabulary in (largest, largest + 1):
        captions = CaptionReconstruction(LatentShape(vocabulary, 16, 3, 2, 24, 40))
        whole = LatentModel(model.image, model.mapper, captions, model.tokenizer)
        if vocabulary > largest:
            assert max(whole.tokenize(["a dog"])[0]) == largest
            continue
        with pytest.raises(ModelError, match=f"gives token {largest}, .* has {largest} embeddings"):
            whole.tokenize(["a dog"])


def test_parts_of_other_widths_are_refused(model):
    wide = CaptionReconstruction(LatentShape(500, 32, 3, 2, 24, 40))
    with pytest.raises(ModelError, match="mapper gives 3 x 16 and the captions' side 3 x 32"):
        LatentModel(model.image, model.mapper, wide, model.tokenizer)
    other = PrefixMapper(replace(model.mapper.shape, features=model.image.width + 1))
    with pytest.raises(ModelError, match="the image tower gives"):
        LatentModel(model.image, other, model.captions, model.tokenizer)
