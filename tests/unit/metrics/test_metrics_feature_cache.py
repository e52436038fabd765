"""The learned metric's memory of features: right, used, and bounded in bytes."""

import shutil

import numpy as np
import pytest
import torch

from suisei.data.images import read_image
from suisei.encoders.feature_cache import _ENTRY_BYTES, FeatureCache
from suisei.errors import DataError


def encoder(calls):
    def encode(items):
        calls.append(list(items))
        return torch.tensor([[float(item), 1.0] for item in items])

    return encode


def look_up(cache, numbers, calls):
    return cache.look_up([str(n) for n in numbers], numbers, encoder(calls))


def test_known_items_are_not_encoded_again_and_keep_their_order():
    cache, calls = FeatureCache(1 << 20), []
    look_up(cache, [3, 1, 2], calls)
    found = look_up(cache, [2, 5, 3], calls)
    assert calls == [[3, 1, 2], [5]]
    assert found[:, 0].tolist() == [2, 5, 3]


def test_more_items_than_fit_are_returned_and_the_oldest_forgotten():
    each = torch.zeros(2).nbytes + _ENTRY_BYTES
    cache, calls = FeatureCache(4 * each), []
    assert look_up(cache, list(range(10)), calls)[:, 0].tolist() == list(range(10))
    look_up(cache, [6, 7, 8, 9], calls)
    assert len(calls) == 1
    look_up(cache, [0], calls)  # pushes 6 out, which was used first
    look_up(cache, [9, 8, 7], calls)
    look_up(cache, [6], calls)
    assert calls[1:] == [[0], [6]]


def test_what_was_asked_for_last_is_forgotten_last():
    each = torch.zeros(2).nbytes + _ENTRY_BYTES
    cache, calls = FeatureCache(2 * each), []
    for numbers in ([1], [2], [1], [3], [1], [2]):  # 3 takes the place of 2, for 1 was asked for since
        look_up(cache, numbers, calls)
    assert calls == [[1], [2], [3], [2]]


@pytest.mark.parametrize("name", ["suisei", "clip-s"])
def test_features_of_a_file_that_changes_meanwhile_are_not_kept(
    make_metric, pictures, tmp_path, monkeypatch, name
):
    path, metric = tmp_path / "image.png", make_metric(name)
    shutil.copy(pictures[0], path)
    expected = make_metric(name).score(["a dog"], images=[path])

    def read_another(source, preprocess):
        shutil.copy(pictures[1], source)
        return read_image(source, preprocess)

    with monkeypatch.context() as patched:
        patched.setattr("suisei.encoders.decoding.read_image", read_another)
        with pytest.raises(DataError, match=r"image\.png: the image file changed while it was being read"):
            metric.score(["a dog"], images=[path])
    shutil.copy(pictures[0], path)
    np.testing.assert_allclose(metric.score(["a dog"], images=[path]), expected, atol=1e-7)


@pytest.mark.parametrize("before", [0, 3])
def test_room_that_was_asked_for_is_there_whatever_it_takes(before):
    cache, calls = FeatureCache(1), []  # by its bytes it holds a single item
    if before:
        cache.make_room(before)
        look_up(cache, list(range(before)), calls)
    cache.make_room(20)
    cache.make_room(2)  # takes none away
    look_up(cache, list(range(20)), calls)
    assert look_up(cache, list(range(20)), calls)[:, 0].tolist() == list(range(20))
    assert [number for each in calls for number in each] == list(range(20))
