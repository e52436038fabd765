"""A pickled metric scores as the one that it came from, in this process and in a spawned one."""

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.encoders.locks import Lock
from suisei.metrics.registry import list_metrics
from suisei.metrics.tokenizers import get_tokenizer
from tests.unit.metrics.conftest import LOCAL

ELSEWHERE = {"jaspice", "comet", "spice"} | {"recap", "recap-noise"}
"""These need a server, another environment, or files that are not here, or have a test of their own."""

JAVA = [pytest.mark.slow, pytest.mark.java]


def test_no_metric_is_forgotten():
    from suisei.metrics.registry import REGISTRY

    tried = {REGISTRY[name].target for name in LOCAL}
    assert {name for name in list_metrics() if REGISTRY[name].target not in tried} == ELSEWHERE


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=JAVA if name == "meteor" else ()) for name in LOCAL]
)
def test_a_copy_scores_the_same_before_and_after_use(make_metric, some_samples, name):
    samples = some_samples(0) + some_samples(1)
    metric = make_metric(name)
    unused = pickle.loads(pickle.dumps(metric))
    expected = metric.score(samples)
    used = pickle.loads(pickle.dumps(metric))
    for copy in (unused, used):
        np.testing.assert_allclose(copy.score(samples), expected, rtol=0, atol=1e-7)
        assert copy.signature == metric.signature
    np.testing.assert_array_equal(metric.score(samples), expected)


def test_an_encoder_of_transformers_is_pickled_while_it_is_in_use(build_regressor, captions, tmp_path):
    from suisei.metrics.suisei import HOOKED, SuiSeiMetric
    from suisei.models.folder import LoadedModel

    regressor = build_regressor(text={"frozen": True})
    metric = SuiSeiMetric(LoadedModel(regressor, {}, "0", tmp_path), "cpu", "fp32", cache="off")
    expected = metric.score(captions, [captions[:2]] * 8)
    assert HOOKED in vars(metric.regressor.text.backbone)
    copy = pickle.loads(pickle.dumps(metric))
    assert copy.regressor is copy.model.regressor
    assert copy.regressor is copy._forward.features.computed.model
    np.testing.assert_allclose(copy.score(captions, [captions[:2]] * 8), expected, rtol=0, atol=1e-7)
    metric._forward.features.forget()  # what was copied goes on catching hidden states
    np.testing.assert_allclose(metric.score(captions, [captions[:2]] * 8), expected, rtol=0, atol=1e-7)


def test_metrics_of_other_machines_can_be_pickled_too():
    from suisei.metrics.jaspice import JaSpice

    assert pickle.loads(pickle.dumps(JaSpice("http://host:1"))).address == "http://host:1"


@pytest.mark.parametrize("name", ["suisei", "cider"])
def test_a_spawned_process_scores_the_same(make_metric, some_samples, name):
    samples = some_samples(0)
    metric = make_metric(name)
    expected = metric.score(samples)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(metric.score, samples).result(timeout=120)
    np.testing.assert_array_equal(found, expected)


_taken = []


def _take(metric):
    """Keep what a forked process inherits, which is not pickled."""
    _taken.append(metric)


def _score_taken(samples):
    return _taken[0].score(samples)


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_speaks_to_a_java_program_of_its_own(make_metric, some_samples):
    metric = make_metric("meteor")
    first, second = some_samples(0), some_samples(1)
    expected = [metric.score(first), metric.score(second)]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, context, initializer=_take, initargs=(metric,)) as pool:
        futures = [pool.submit(_score_taken, part) for part in (second, first)]
        own = [metric.score(part) for part in (second, first)]
        found = [future.result(timeout=300) for future in futures]
    for scores, wanted in zip([*found, *own], expected[::-1] * 2, strict=True):
        np.testing.assert_array_equal(scores, wanted)


def test_a_cache_on_disk_is_opened_anew(tmp_path):
    import torch

    features = DiskFeatures(DiskCache(tmp_path, 1 << 20), b"space")
    features.look_up(["1"], [1], lambda items: torch.ones(len(items), 2))
    copy = pickle.loads(pickle.dumps(features))
    assert copy.cache._connection is None
    found = copy.look_up(["1"], [1], lambda items: pytest.fail("it is on disk"))
    assert found.tolist() == [[1.0, 1.0]]


def test_a_held_lock_comes_out_open():
    lock = Lock()
    with lock, lock, pickle.loads(pickle.dumps(lock)) as entered:
        assert entered is None


@pytest.mark.parametrize("name", ["auto", "ptb", "character", "whitespace", "ptb+character"])
def test_tokenizers_come_back(name):
    tokenizer = get_tokenizer(name)
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.signature == tokenizer.signature
    assert copy("A dog, 犬が走る。") == tokenizer("A dog, 犬が走る。")
