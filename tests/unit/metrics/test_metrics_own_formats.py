"""Scores are computed in the formats that signatures name, whatever the caller computes in."""

import numpy as np
import pytest
import torch

import suisei
from suisei.data.sample import CaptionSample
from suisei.encoders.precision import own_formats

CAPTIONS = ["a dog runs on the grass", "猫が椅子で寝ている", "two men"]
REFERENCES = [["a brown dog running", "a dog"], ["椅子に猫がいる", "寝る猫"], ["two men talk"]]


@pytest.fixture
def default_dtype():
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, build_regressor):
    """The folder of a model, for its text encoder."""
    from suisei.models.folder import save_model

    path = tmp_path_factory.mktemp("models") / "model"
    save_model(path, build_regressor())
    return path


def metrics(encoder):
    yield suisei.load(precision="fp32", cache="off")
    yield suisei.get_metric(f"cosine:{encoder}", precision="fp32")


def scores(encoder):
    return [metric.score(CAPTIONS, REFERENCES) for metric in metrics(encoder)]


@pytest.mark.parametrize("mixed", [torch.bfloat16, torch.float16])
def test_mixed_precision_around_a_metric_changes_no_score(encoder, mixed):
    expected = scores(encoder)
    with torch.autocast("cpu", mixed):
        found = scores(encoder)
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == mixed
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_another_default_type_changes_no_score(encoder, default_dtype, dtype):
    expected = scores(encoder)
    default_dtype(dtype)
    np.testing.assert_array_equal(scores(encoder), expected)
    assert torch.get_default_dtype() == dtype


def test_another_default_device_changes_no_score():
    def found():
        return suisei.load(device="cpu", precision="fp32", cache="off").score(CAPTIONS, REFERENCES)

    expected = found()
    with torch.device("meta"):
        np.testing.assert_array_equal(found(), expected)
        assert torch.get_default_device().type == "meta"


def test_the_default_type_comes_back_when_the_last_thread_is_done(default_dtype):
    default_dtype(torch.float64)
    first, second = own_formats(), own_formats()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_default_dtype() == torch.float32  # the second is at work still
    second.__exit__(None, None, None)
    assert torch.get_default_dtype() == torch.float64


def test_mixed_precision_around_it_changes_no_explanation():
    metric = suisei.load(precision="fp32", cache="off")
    expected = metric.explain(CAPTIONS[0], REFERENCES[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert metric.explain(CAPTIONS[0], REFERENCES[0]) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_steps_of_an_explanation_have_its_formats_and_leave_the_caller_theirs(default_dtype, dtype):
    metric = suisei.load(precision="fp32", cache="off")
    sample = CaptionSample(CAPTIONS[0], tuple(REFERENCES[0]))
    *_, expected = metric.explain_in_steps(sample, step=7)
    default_dtype(dtype)
    found = []
    with torch.autocast("cpu", torch.bfloat16):
        for explanation in metric.explain_in_steps(sample, step=7):
            found.append(explanation)
            assert torch.is_autocast_enabled("cpu")
            assert torch.get_default_dtype() == dtype
    assert len(found) > 2
    assert found == [None] * (len(found) - 1) + [expected]
