"""One dual encoder for all metrics that ask for the same, its features computed once and kept."""

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.data.sample import CaptionSample
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.sharing import scoring_encoder, shared_encoders
from suisei.errors import DataError
from suisei.metrics.registry import get_metric


@pytest.fixture
def rows(monkeypatch):
    """How many images and captions reach the encoders."""
    from suisei.encoders.dual import DualEncoder

    seen = {"loaded": 0, "images": 0, "texts": 0}
    create, forward = DualEncoder.__init__, DualEncoder._forward

    def created(self, *arguments, **options):
        seen["loaded"] += 1
        create(self, *arguments, **options)

    def counted(self, encode, batch):
        seen["images" if batch.dim() == 4 else "texts"] += len(batch)
        return forward(self, encode, batch)

    monkeypatch.setattr(DualEncoder, "__init__", created)
    monkeypatch.setattr(DualEncoder, "_forward", counted)
    return seen


@pytest.fixture(scope="module")
def samples(pictures, captions):
    captions = [caption for caption in captions if caption.isascii()]
    captions += [caption + " again" for caption in captions]
    return [
        CaptionSample(captions[n % 6], (captions[n % 5], captions[n % 3]), pictures[n % 4]) for n in range(12)
    ]


def score(tiny_clip, samples, **options):
    return [
        get_metric(name, seed=1, device="cpu", model=str(tiny_clip), **options).score(samples)
        for name in ("clip-s", "ref-clip-s")
    ]


def test_metrics_of_a_command_share_encoder_and_features(tiny_clip, rows, samples):
    with shared_encoders():
        shared = score(tiny_clip, samples)
        pac = get_metric(
            "pac-s", seed=1, device="cpu", model=str(tiny_clip), prompt="A photo depicts ", w=2.5
        )
        shared.append(pac.score(samples))
    assert rows == {"loaded": 1, "images": 4, "texts": 6}
    alone = score(tiny_clip, samples)
    assert rows["loaded"] == 3
    np.testing.assert_allclose(shared[:2], alone, atol=1e-6)
    np.testing.assert_array_equal(shared[2], shared[0])


def test_other_settings_are_another_encoder(tiny_clip, rows):
    with shared_encoders():
        first = scoring_encoder(name=str(tiny_clip), seed=1, device="cpu")
        assert scoring_encoder(name=str(tiny_clip), seed=1, device="cpu") is first
        assert scoring_encoder(name=str(tiny_clip), seed=2, device="cpu") is not first
        assert scoring_encoder(name=str(tiny_clip), seed=1, device="cpu", precision="bf16") is not first
        with shared_encoders():
            assert scoring_encoder(name=str(tiny_clip), seed=1, device="cpu") is not first
    assert scoring_encoder(name=str(tiny_clip), seed=1, device="cpu") is not first


def test_windows_of_a_stream_encode_what_is_new(tiny_clip, rows, samples, captions):
    metric = get_metric("ref-clip-s", seed=1, device="cpu", model=str(tiny_clip))
    for start in range(0, 12, 4):
        metric.score(samples[start : start + 4])
    assert rows == {"loaded": 1, "images": 4, "texts": 6}


def test_the_next_run_reads_features_from_disk(tiny_clip, rows, samples, tmp_path):
    first = score(tiny_clip, samples, cache=tmp_path)
    assert (rows["images"], rows["texts"]) == (4, 6)
    second = score(tiny_clip, samples, cache=tmp_path)
    assert (rows["images"], rows["texts"]) == (4, 6)
    np.testing.assert_array_equal(first, second)
    get_metric("clip-s", seed=2, device="cpu", model=str(tiny_clip), cache=tmp_path).score(samples)
    assert (rows["images"], rows["texts"]) == (8, 12)
    changed = [CaptionSample(samples[0].candidate + ".", image=samples[0].image)]
    get_metric("clip-s", seed=1, device="cpu", model=str(tiny_clip), cache=tmp_path).score(changed)
    assert (rows["images"], rows["texts"]) == (8, 13)
    get_metric("clip-s", seed=1, device="cpu", model=str(tiny_clip), cache=tmp_path, prompt="").score(changed)
    assert (rows["images"], rows["texts"]) == (8, 14)
    lower = get_metric("clip-s", seed=1, device="cpu", model=str(tiny_clip), cache=tmp_path, precision="bf16")
    lower.score(changed)
    assert (rows["images"], rows["texts"]) == (9, 15)


def test_images_are_decoded_ahead_in_order_and_a_bad_one_is_named(tmp_path):
    paths = []
    for number in range(11):
        paths.append(tmp_path / f"{number}.png")
        Image.new("RGB", (4, 4), (number, 0, 0)).save(paths[-1])

    def preprocess(image):
        return torch.tensor(np.array(image))[..., 0]

    with torch.device("meta"):  # of the caller, whose tensors they are not
        batches = list(decoded_batches(paths, preprocess, 3))
    assert [len(batch) for batch in batches] == [3, 3, 3, 2]
    assert torch.cat(batches)[:, 0, 0].tolist() == list(range(11))
    assert list(decoded_batches([], preprocess, 3)) == []
    paths[7].write_bytes(b"no image")
    with pytest.raises(DataError, match=r"7\.png"):
        list(decoded_batches(paths, preprocess, 3))
    batches = decoded_batches(paths, preprocess, 3)
    assert len(next(batches)) == 3
    batches.close()  # a caller may stop early
