"""Images that a reward looks at before the training, shared out among processes."""

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.captioning.rewards import CaptionReward
from suisei.errors import DataError
from suisei.training.processes import gather_texts, process_number
from tests.unit.tiny_models import write_clip
from tests.unit.two_processes import answers_of


def look(clip, pictures, damaged):
    """Return how many images this process encoded, what it then knows of all, and why it stopped."""
    reward = CaptionReward(f"pac-s:{clip}+clip-s:{clip}", device="cpu")
    encoder = reward.metrics["pac-s"].encoder
    seen, original = [], encoder.model.encode_image
    encoder.model.encode_image = lambda pixels: seen.append(len(pixels)) or original(pixels)
    try:
        reward.look_at([*pictures, damaged] if damaged else pictures)
    except DataError as error:
        return 0, None, str(error)
    count = sum(seen)
    features = encoder.encode_images(pictures)
    assert sum(seen) == count, "an image was encoded again"
    return count, features, ""


def work(rank, clip, pictures, damaged):
    texts = gather_texts([f"{rank} 犬\n\\", ""][: 1 + rank], torch.device("cpu"))
    looked = [look(clip, pictures, None), look(clip, pictures[:1], None), look(clip, pictures, damaged)]
    return process_number(), texts, *looked


@pytest.mark.slow
def test_each_process_looks_at_its_share_and_all_know_all(tmp_path):
    write_clip(tmp_path / "clip", context=77)
    pictures = []
    for number, colour in enumerate(["red", "blue", "green", "white", "red"]):  # the last is the first again
        pictures.append(str(tmp_path / f"{number}.png"))
        Image.new("RGB", (32, 32), colour).save(pictures[-1])
    damaged = tmp_path / "damaged.png"
    damaged.write_bytes((tmp_path / "0.png").read_bytes()[:40])
    answers = answers_of(work, tmp_path, str(tmp_path / "clip"), pictures, str(damaged))
    assert [answer[0] for answer in answers] == [0, 1]
    assert [answer[1] for answer in answers] == [["0 犬\n\\", "1 犬\n\\", ""]] * 2
    expected = look(str(tmp_path / "clip"), pictures, None)
    assert expected[0] == 4
    assert [answer[2][0] for answer in answers] == [2, 2]  # red, green and red again; blue and white
    for answer in answers:
        np.testing.assert_allclose(answer[2][1], expected[1], atol=1e-6)
        np.testing.assert_allclose(answer[3][1], expected[1][:1], atol=1e-6)
    assert [answer[3][0] for answer in answers] == [1, 0]
    assert "in another process" in answers[0][4][2]
    assert str(damaged) in answers[1][4][2]
