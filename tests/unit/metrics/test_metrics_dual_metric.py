"""What the metrics with a dual encoder share: their options, by name, and how the encoder is loaded."""

import inspect
import pickle
from types import SimpleNamespace

import open_clip
import pytest

from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.registry import get_entry, get_metric
from suisei.metrics.video_pacs import VideoScore
from suisei.scoring.plan import plan_metrics

ENCODER = {"encoder", "model", "pretrained", "checkpoint", "seed", "precision", "device", "cache"}
IMAGE = ENCODER | {"compile", "prompt", "clip_reference", "references", "w"}
OWN = {
    "clip-s": IMAGE,
    "pac-s": IMAGE | {"variant", "code_w", "untrained"},
    "video-pac-s": ENCODER
    | {"variant", "references", "aggregate", "part", "frames", "idf", "prompt", "overlong", "untrained"},
}


def factory(name):
    module, _, attribute = get_entry(name).target.partition(":")
    return getattr(__import__(module, fromlist=[attribute]), attribute)


@pytest.mark.parametrize("name", OWN)
def test_the_signature_names_every_option(name):
    parameters = inspect.signature(factory(name)).parameters
    assert set(parameters) == OWN[name]
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values())
    assert parameters["model"].default == "ViT-B-32"


@pytest.mark.parametrize("name", OWN)
def test_an_option_that_is_not_known_is_refused_with_those_that_are(name):
    with pytest.raises(ConfigError, match=r"has no option 'sed'; it takes .*precision, pretrained"):
        plan_metrics([name], options=[f"{name}.sed=1"])
    with pytest.raises(ConfigError, match="unexpected keyword argument 'sed'"):
        get_metric(name, sed=1, seed=0)


def test_common_options_reach_those_that_take_them():
    common = {"device": "cpu", "compile": True, "cache": "none", "precision": "fp32"}
    plans = plan_metrics(["clip-s", "pac-s", "video-pac-s"], common=common)
    assert [plan.options for plan in plans[:2]] == [common, common]
    assert plans[2].options == {key: common[key] for key in ("device", "cache", "precision")}


@pytest.mark.parametrize("name", ["pac-s", "video-pac-s"])
def test_no_seed_and_no_encoder_are_no_trained_weights(name):
    with pytest.raises(UnavailableError, match="needs its trained weights"):
        get_metric(name, seed=None, encoder=None)
    assert get_metric(name, seed=0).name == name


def test_encoder_is_loaded_once_and_the_same_after_a_round_trip(tiny_clip):
    metric = VideoScore(variant="em-score", model=tiny_clip, seed=3, device="cpu")
    again = pickle.loads(pickle.dumps(metric))
    assert metric.encoder is metric.encoder
    assert again.encoder.weights == metric.encoder.weights == "seed-3"


def made(weights, name="ViT-B-32", **described):
    """An encoder as far as its backbone goes."""
    architecture = {**(open_clip.get_model_config(name) or {}), **described}
    return SimpleNamespace(weights=weights, name=name, architecture=architecture)


@pytest.mark.parametrize(
    ("name", "encoder", "options", "expected"),
    [
        ("clip-s", made("openai", quick_gelu=True), {}, "ViT-B-32@openai"),
        ("ref-clip-s", made("laion2b_s32b_b82k", "ViT-L-14"), {}, "ViT-L-14@laion2b"),
        ("em-score", made("openai", "ViT-B-16"), {}, "ViT-B-16@openai"),
        ("clip-s", made("datacomp_xl_s13b_b90k", "ViT-L-14"), {}, "other"),
        ("clip-s", made("openai", "RN50"), {}, "other"),
        ("clip-s", made("sha256-0"), {}, "other"),  # trained further: not what CLIP-S is of
        ("clip-s", made("seed-0"), {}, "other"),
        ("pac-s", made("seed-0"), {}, "other"),
        ("pac-s", made("openai"), {}, "other"),  # not trained at all
        ("pac-s", made("sha256-0"), {}, "ViT-B-32@openai"),
        ("video-pac-s", made("sha256-0", "ViT-L-14"), {}, "ViT-L-14@openai"),
        ("pac-s", made("sha256-0", "ViT-L-14"), {"model": "ViT-L-14@laion2b_s32b_b82k"}, "ViT-L-14@laion2b"),
        ("pac-s", SimpleNamespace(weights="sha256-0", name="x", architecture=None), {}, "other"),
    ],
)
def test_the_backbone_is_known_from_the_encoder(name, encoder, options, expected):
    assert get_metric(name, encoder=encoder, **options).backbone == expected


def test_of_a_folder_the_architecture_says_the_backbone(tmp_path):
    encoders = {"openai": made("sha256-0", quick_gelu=True), "other": made("sha256-0")}
    for expected, encoder in encoders.items():
        metric = get_metric("pac-s", checkpoint=tmp_path, encoder=encoder)
        assert metric.backbone == (f"ViT-B-32@{expected}" if expected == "openai" else expected)


def test_a_metric_without_a_dual_encoder_has_no_backbone():
    assert get_metric("bleu-4").backbone is None
