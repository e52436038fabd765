"""Many samples are scored a window at a time: the same scores, the memory of a window, and progress."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.metrics import suisei as metric_module
from suisei.metrics.windows import windows
from suisei.models import alignment
from suisei.runlog import events

REFERENCES = [("a dog runs", "the dog is running"), ("two cats sleep", "cats on a mat"), ("a red ball",)]
SAMPLES = [
    CaptionSample(f"{what} in picture {number}", own, rating=0.5)
    for what in ("a dog", "a cat", "a ball")
    for number, own in enumerate(REFERENCES)
]


def test_samples_of_the_same_references_share_a_window():
    found = list(windows(SAMPLES, 3))
    assert found == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert list(windows(SAMPLES, 9)) == [list(range(9))]
    assert list(windows(SAMPLES, 4)) == [[0, 3, 6, 1], [4, 7, 2, 5], [8]]
    assert list(windows([], 4)) == []


@pytest.fixture
def metric(build_regressor, tmp_path):
    from suisei.models.folder import LoadedModel

    model = build_regressor(image=False, alignment=True, poolings=["mean"])
    return metric_module.SuiSeiMetric(LoadedModel(model, {}, "0", tmp_path), "cpu", "fp32", cache="off")


def test_windows_change_no_score_and_hold_their_own_captions(metric, monkeypatch):
    whole = metric.score(SAMPLES)
    held, tokens = [], alignment._Tokens

    def watched(model, captions, *given):
        held.append(len(captions))
        return tokens(model, captions, *given)

    monkeypatch.setattr(alignment, "_Tokens", watched)
    monkeypatch.setattr(metric_module, "WINDOW", 3)
    np.testing.assert_allclose(metric.score(SAMPLES), whole, atol=1e-6)
    assert held == [5, 5, 4]


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", [2, 100])
def test_progress_counts_samples(metric, build_regressor, tmp_path, monkeypatch, size, aligned):
    from suisei.models.folder import LoadedModel

    if not aligned:
        model = LoadedModel(build_regressor(image=False), {}, "0", tmp_path)
        metric = metric_module.SuiSeiMetric(model, "cpu", "fp32", cache="off")
    told = []
    monkeypatch.setattr(metric_module, "WINDOW", size)
    monkeypatch.setattr(events.current(), "tell", lambda event, **facts: told.append((event, facts)))
    metric.score(SAMPLES, progress=True)
    metric.score(SAMPLES, progress=True)  # of captions that are known, if they are kept
    ended = [(facts["stage"], facts["done"], facts["total"]) for event, facts in told if event == "done"]
    assert ended == [("scoring", 9, 9)] * 2
    told.clear()
    metric.score(SAMPLES)
    assert not told
