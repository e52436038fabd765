"""One metric used by several threads at once scores as it does alone, then and afterwards."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from suisei.encoders.feature_cache import _ENTRY_BYTES, FeatureCache
from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.encoders.precision import matrix_products
from tests.unit.metrics.conftest import LOCAL

LEARNED = (
    *("suisei", "bertscore", "cosine", "clip-s", "ref-clip-s", "pac-s", "ref-pac-s", "em-score"),
    *("ref-video-pac-s", "recap-latent"),
)
ROUNDING = 1e-5
"""What a neural encoder's features differ by where other captions are in the batch."""


@pytest.fixture(autouse=True)
def switch_often():
    """Let threads take turns so often that they meet inside each other's work."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name in LOCAL if name != "meteor" and not name.endswith("++")])
def test_eight_threads_score_as_one(make_metric, some_samples, name):
    check_threads(make_metric, name, [some_samples(call) for call in range(100 if name == "suisei" else 48)])


@pytest.mark.slow
@pytest.mark.java
def test_threads_have_java_programs_of_their_own(make_metric, some_samples):
    check_threads(make_metric, "meteor", [some_samples(call) for call in range(6)], threads=3)


def check_threads(make_metric, name, jobs, threads=8):
    alone = make_metric(name)
    expected = np.concatenate([alone.score(job) for job in jobs])
    assert len(set(expected.round(4))) > 1
    metric = make_metric(name)
    with ThreadPoolExecutor(threads) as pool:
        found = np.concatenate(list(pool.map(metric.score, jobs)))
    afterwards = np.concatenate([metric.score(job) for job in jobs])
    tolerance = ROUNDING if name in LEARNED else 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(afterwards, expected, rtol=0, atol=tolerance)


def numbers(items):
    return torch.tensor([[float(item), -float(item)] for item in items])


def check(features, seed, items=40):
    draw = np.random.default_rng(seed)
    for _ in range(60):
        wanted = draw.permutation(items)[: draw.integers(1, 12)].tolist()
        found = features.look_up([str(number) for number in wanted], wanted, numbers)
        assert torch.equal(found, numbers(wanted))


def test_features_in_memory_are_never_anothers_while_rows_are_dropped():
    cache = FeatureCache(10 * (8 + _ENTRY_BYTES))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: check(cache, seed), range(16)))
    assert len(cache._row_of) == 10
    assert sorted(cache._row_of.values()) == list(range(10))
    check(cache, 99)


def test_features_on_disk_are_shared_by_threads(tmp_path, caplog):
    features = DiskFeatures(DiskCache(tmp_path, 1 << 24), b"space")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: check(features, seed, items=3000), range(8)))
    assert 1000 < features.cache.size()[0] < 3000
    assert not caplog.text  # no transaction met another's


def test_tf32_is_on_for_those_who_asked_and_off_afterwards():
    before = torch.get_float32_matmul_precision()
    seen, inside = [], threading.Barrier(2, timeout=0.2)

    def compute(precision):
        with matrix_products(precision), matrix_products(precision):
            seen.append((precision, torch.get_float32_matmul_precision()))
            try:
                inside.wait()  # two of a kind may be inside together
            except threading.BrokenBarrierError:
                inside.reset()
            seen.append((precision, torch.get_float32_matmul_precision()))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compute, ["tf32", "fp32", "bf16", "tf32"] * 8))
    assert set(seen) == {("tf32", "high"), ("fp32", before), ("bf16", before)}
    assert torch.get_float32_matmul_precision() == before
