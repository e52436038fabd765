"""Videos of which clearly less can be read than their files hold are told of, and whole ones are not."""

import struct
import warnings
from fractions import Fraction

import numpy as np
import pytest

from suisei.data.video import iter_frames
from tests.unit.data.videos import av, cut_video, encode_video

STEADY = [200 * number for number in range(47)]
PAUSED = [*range(0, 1000, 40), *range(60_000, 61_000, 40)]
SLOWER = [*range(0, 800, 40), *range(800, 20_000, 2000)]


def write_times(path, times, codec="mpeg4", rate=5, silence=0, noise=False, options=None):
    """Write frames at times in milliseconds; frames without noise have a few bytes each."""
    dice = np.random.default_rng(0)

    def frames():
        for number, time in enumerate(times):
            pixels = dice.integers(0, 256, (32, 32, 3)) if noise else np.full((32, 32, 3), 5 * number % 256)
            frame = av.VideoFrame.from_ndarray(pixels.astype(np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            yield frame

    return encode_video(path, frames(), codec, rate, options=options, silence=silence)


def damaged(path, at, size=200):
    content = bytearray(path.read_bytes())
    start = int(len(content) * at)
    content[start : start + size] = b"\xd7" * size
    path.write_bytes(content)
    return path


def cut_off(path, share=0.6):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return path


def readable(path):
    with av.open(str(path)) as container:
        return sum(packet.size > 0 and not packet.is_corrupt for packet in container.demux(video=0))


def told(path, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(iter_frames(path, count=5, **options))
    assert all(each.category is UserWarning for each in caught)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("at", [0.5, 0.6, 0.75])
def test_frames_lost_to_damage_in_the_middle_are_told_of(tmp_path, at):
    path = damaged(write_times(tmp_path / "a.mkv", STEADY), at)
    read = readable(path)
    assert 0 < read < 0.9 * 47
    (message,) = told(path)
    assert message == (
        f"{path}: {read / 5:.6g} of 9.4 seconds can be read, and scores are of these alone; "
        "the file is damaged or cut off, replace it"
    )


@pytest.mark.parametrize("name", ["a.mkv", "a.avi", "a.mp4"])
def test_a_video_that_is_cut_off_is_told_of_in_the_words_of_its_format(tmp_path, name):
    path = write_times(tmp_path / f"whole_{name}", STEADY, noise=True)
    if name == "a.mp4":  # else the index is at the end, and nothing can be read
        path = cut_video(path, tmp_path / name, options={"movflags": "faststart"})
    read = readable(cut_off(path))
    assert 10 < read < 40
    (message,) = told(path)
    amount = f"{read / 5:.6g} of 9.4 seconds" if name == "a.mkv" else f"{read} of 47 frames"
    assert message.startswith(f"{path}: {amount} can be read")


def test_a_segment_before_what_is_lost_is_not_told_of(tmp_path):
    path = cut_off(write_times(tmp_path / "a.mkv", STEADY, noise=True))
    assert told(path, segment=(0, 2)) == []
    assert len(told(path, segment=(3, 9))) == 1


@pytest.mark.parametrize("times", [STEADY, PAUSED, SLOWER, [0]], ids=["steady", "paused", "slower", "one"])
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.mkv", "libx264"),
        ("a.mov", "mpeg4"),
        ("a.avi", "mpeg4"),
        ("a.ts", "libx264"),
        ("a.webm", "libvpx"),
        ("a.flv", "flv1"),
        ("a.gif", "gif"),
    ],
)
def test_of_whole_videos_nothing_is_said(tmp_path, name, codec, times):
    assert told(write_times(tmp_path / name, times, codec, rate=25)) == []


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.flv"])
def test_sound_that_goes_on_is_no_loss(tmp_path, name):
    assert (
        told(write_times(tmp_path / name, STEADY, "flv1" if name == "a.flv" else "libx264", silence=30)) == []
    )


@pytest.mark.parametrize("start", [4, 13, 30])
@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_what_was_cut_out_of_a_longer_video_is_whole(tmp_path, name, start):
    options = {"x264-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3"}
    whole = write_times(tmp_path / "whole.mkv", STEADY, "libx264", options=options)
    assert told(cut_video(whole, tmp_path / name, start)) == []


def test_frames_that_an_edit_list_leaves_out_are_no_loss(tmp_path):
    path = write_times(tmp_path / "a.mp4", STEADY, "libx264", options={"g": "5"})
    content = bytearray(path.read_bytes())
    entry = content.index(b"elst") + 12
    (start,) = struct.unpack(">i", content[entry + 4 : entry + 8])
    content[entry : entry + 8] = struct.pack(">Ii", 3000, start)  # the first 3 of 9.4 seconds
    path.write_bytes(content)
    assert readable(path) < 0.9 * 47
    assert told(path) == []
