import warnings

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from suisei.data.sample import CaptionSample
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.errors import ConfigError
from suisei.metrics.clipscore import ClipScore, harmonic_mean
from suisei.metrics.registry import get_metric

PROMPT = "A photo depicts "


@pytest.fixture(scope="module")
def encoder(tiny_clip):
    encoder = load_dual_encoder(str(tiny_clip), seed=1, device="cpu")
    with torch.no_grad():  # random CLIP weights put all captions in one spot; spread them out
        encoder.model.token_embedding.weight.mul_(50)
        encoder.model.visual.proj.neg_()  # so that not all cosines are below 0
    return encoder


def picture(seed: int) -> Image.Image:
    generator = np.random.default_rng(seed)
    return Image.fromarray(generator.integers(0, 255, (30 + 5 * seed, 60, 3), dtype=np.uint8))


SAMPLES = [
    CaptionSample("a dog runs", ("a dog", "the sea at night"), picture(0)),
    CaptionSample("two cats on a mat", ("cats", "two cats on a mat", "x"), picture(1)),
    CaptionSample("word " * 200, ("another " * 150,), picture(2)),
    CaptionSample("a red car", ("a red car",), picture(0)),
    CaptionSample("no references", (), picture(1)),
    CaptionSample("no image", ("a",)),
]


def direct(encoder, sample, w=2.5):
    """The reference program's steps, one sample at a time, with open_clip alone."""
    with torch.inference_mode():
        image = encoder.model.encode_image(encoder.transform(sample.image)[None])[0].double()
        texts = [PROMPT + text for text in (sample.candidate, *sample.references)]
        features = encoder.model.encode_text(open_clip.tokenize(texts)).double()
    image = image / image.norm()
    features = features / features.norm(dim=-1, keepdim=True)
    score = w * max(float(image @ features[0]), 0)
    if not sample.references:
        return score, None
    best = float((features[1:] @ features[0]).max())
    return score, (2 * score * best / (score + best) if score + best else 0.0)


def test_clip_s_equals_a_direct_computation(encoder):
    scores = ClipScore(encoder=encoder).score(SAMPLES, batch_size=2)
    np.testing.assert_allclose(scores[:5], [direct(encoder, s)[0] for s in SAMPLES[:5]], atol=1e-6)
    assert np.isnan(scores[5])
    assert (scores[:5] > 0).any()
    assert len(np.unique(scores[:4])) > 2


def test_ref_clip_s_equals_a_direct_computation(encoder):
    metric = ClipScore(encoder=encoder, references=True)
    scores = metric.score(SAMPLES)
    np.testing.assert_allclose(scores[:4], [direct(encoder, s)[1] for s in SAMPLES[:4]], atol=1e-6)
    assert np.isnan(scores[4:]).all()
    assert metric.missing(SAMPLES) == {4: "no references", 5: "no image"}


def test_a_score_depends_on_its_own_sample_alone(encoder):
    metric = ClipScore(encoder=encoder, references=True)
    together = metric.score(SAMPLES[:4])
    alone = [metric.score([sample], batch_size=1)[0] for sample in SAMPLES[:4]]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(metric.score(SAMPLES[3::-1]), together[::-1], atol=1e-6)


def test_order_of_references_does_not_matter(encoder):
    metric = ClipScore(encoder=encoder, references=True)
    turned = [CaptionSample(s.candidate, s.references[::-1], s.image) for s in SAMPLES[:4]]
    np.testing.assert_allclose(metric.score(turned), metric.score(SAMPLES[:4]), atol=1e-6)


class Fixed:
    """An encoder whose cosines are given: the image is (1, 0), captions are angles."""

    name = "fixed"
    reads_japanese = True

    def __init__(self, **angles):
        self.angles = angles

    def encode_images(self, sources, **_options):
        return np.array([[1.0, 0.0]] * len(sources), dtype=np.float32)

    def encode_texts(self, texts, **_options):
        radians = np.deg2rad([self.angles[text] for text in texts])
        return 7 * np.stack([np.cos(radians), np.sin(radians)], axis=-1).astype(np.float32)


@pytest.mark.parametrize(
    ("candidate", "reference", "clip", "expected"),
    [
        (0, 0, False, 2 * 2.5 / 3.5),  # the largest value
        (180, 180, False, 0.0),  # clipped image term
        (90, 180, False, 0.0),  # 0 and 0 give 0, not NaN
        (180, 0, True, 0.0),  # 0 and a clipped -1
        (60, 180, False, 2 * 1.25 * -0.5 / 0.75),  # as the authors' program: below 0
        (60, 180, True, 0.0),  # as the paper's equation
    ],
)
def test_ends_of_the_harmonic_mean(candidate, reference, clip, expected):
    encoder = Fixed(candidate=candidate, reference=reference)
    metric = ClipScore(encoder=encoder, references=True, clip_reference=clip)
    sample = CaptionSample("candidate", ("reference",), picture(0))
    assert metric.score([sample])[0] == pytest.approx(expected, abs=1e-6)


def test_a_best_reference_cosine_below_0_is_warned_of_once():
    encoder = Fixed(near=60, apart=170, opposite=180, far=95)
    odd = CaptionSample("near", ("apart", "opposite"), picture(0))
    fine = [
        CaptionSample("near", ("near", "opposite"), picture(0)),
        CaptionSample("far", ("near",), picture(0)),
        CaptionSample("opposite", ("near",), picture(0)),  # the image term is 0, and so is the score
    ]
    metric = ClipScore(encoder=encoder, references=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.score(fine)
        ClipScore(encoder=encoder, references=True, clip_reference=True).score([odd])
        ClipScore(encoder=encoder).score([odd])
    said = r"ref-clip-s: 2 of 5 captions have a .*--metric-option ref-clip-s\.clip_reference=true"
    with pytest.warns(UserWarning, match=said) as caught:
        metric.score([odd, *fine, odd])
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="1 of 4 captions has a negative"):
        ClipScore(encoder=encoder, references=True).score([odd, *fine])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.score([odd])


def test_harmonic_mean_is_never_nan_or_infinite():
    values = np.array([0.0, 1.0, 0.5, 0.0, 2.0])
    others = np.array([0.0, -1.0, 0.5, 0.7, 1.0])
    np.testing.assert_allclose(harmonic_mean(values, others), [0, 0, 0.5, 0, 4 / 3])


def test_signature_says_what_decides_the_score(encoder):
    signature = ClipScore(encoder=encoder, references=True, clip_reference=True).signature
    for part in ("weights:seed-1", "precision:fp32", "prompt:'A photo depicts '", "w:2.5", "ref:max-clipped"):
        assert part in signature
    assert "preprocess:bicubic-shortest-" in signature


def test_japanese_with_an_english_model_is_warned_of_once(encoder):
    metric = ClipScore(encoder=encoder)
    sample = CaptionSample("猫が寝ている", (), picture(0))
    with pytest.warns(UserWarning, match="xlm-roberta-base-ViT-B-32"):
        metric.score([sample])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.score([sample])
        ClipScore(encoder=encoder).score([CaptionSample("a cat", (), picture(0))])


def test_registry_makes_both(tiny_clip):
    metric = get_metric(f"ref-clip-s:{tiny_clip}", seed=1, device="cpu")
    assert metric.name == "ref-clip-s"
    assert metric.needs == {"image", "references"}
    assert metric.signature.startswith(f"ref-clip-s|model:{tiny_clip.name}|weights:seed-1|")
    tagged = get_metric("clip-s:ViT-L-14@laion2b_s32b_b82k")
    assert tagged._loading["name"] == "ViT-L-14"
    assert tagged._loading["pretrained"] == "laion2b_s32b_b82k"
    with pytest.raises(ConfigError, match="w must be positive"):
        get_metric("clip-s", w=0)
