"""What the metrics with a dual encoder share: their options, by name, and how the encoder is loaded."""

import inspect
import pickle

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
