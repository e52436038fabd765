"""Reading frames of small videos that are made here."""

import dataclasses
import sys

import numpy as np
import pytest

from suisei.data import video as module
from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample, even_positions, iter_frames
from suisei.errors import ConfigError, DataError, UnavailableError
from suisei.metrics.registry import get_metric
from tests.unit.data.videos import av, cut_video, encode_video

STEP = 5
"""How much brighter each frame is than the one before."""


def write_video(path, frames, codec="libx264", rate=25, size=(32, 32), options=None, silence=0):
    shape = (size[1], size[0], 3)
    pixels = (np.full(shape, number * STEP, dtype=np.uint8) for number in range(frames))
    made = (av.VideoFrame.from_ndarray(each, format="rgb24") for each in pixels)
    return encode_video(path, made, codec, rate, size, options, silence)


def numbers(pictures):
    return [round(float(np.asarray(picture).mean()) / STEP) for picture in pictures]


def plain_frames(path):
    with av.open(str(path)) as container:
        return numbers(frame.to_image() for frame in container.decode(video=0))


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.mkv", "libx264"),
        ("a.avi", "libx264"),
        ("a.ts", "mpeg2video"),
        ("a.webm", "libvpx"),
        ("a.mov", "libx264"),
        ("a.flv", "flv1"),
        ("a.mpg", "mpeg2video"),
    ],
)
def test_even_sampling_finds_the_very_frames(tmp_path, name, codec):
    path = write_video(tmp_path / name, 47, codec)
    assert numbers(iter_frames(path, count=7)) == [0, 7, 15, 23, 30, 38, 46]
    assert numbers(iter_frames(path, count=None)) == list(range(47))
    assert numbers(iter_frames(path, count=None, segment=(0.4, 0.8))) == list(range(10, 20))


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_frames_come_turned_and_mirrored_as_the_file_says(tmp_path, name, turn, mirrored):
    colours = np.array([[(200, 0, 0), (0, 200, 0)], [(0, 0, 200), (200, 200, 200)]], dtype=np.uint8)
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        if not hasattr(stream, "set_display_rotation"):
            pytest.skip("this PyAV writes no display matrix")
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        stream.set_display_rotation(turn, hflip=mirrored)
        stored = colours.repeat(32, axis=0).repeat(48, axis=1)
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(stored, format="rgb24")))
        container.mux(stream.encode())
    upright = np.rot90(colours, turn // 90)
    upright = upright[:, ::-1] if mirrored else upright
    for picture in iter_frames(tmp_path / name, count=2):
        assert picture.size == ((96, 64) if turn % 180 == 0 else (64, 96))
        width, height = picture.size
        found = [[picture.getpixel((width * x // 4, height * y // 4)) for x in (1, 3)] for y in (1, 3)]
        assert np.abs(np.array(found, int) - upright).max() < 40


def test_even_positions_equal_linspace():
    for total in (1, 2, 9, 10, 299, 108_000):
        assert even_positions(total, 10) == [int(p) for p in np.linspace(0, total - 1, 10)]


def test_a_video_of_one_frame_repeats_it(tmp_path):
    path = write_video(tmp_path / "one.mp4", 1)
    assert numbers(iter_frames(path, count=3)) == [0, 0, 0]


def test_a_segment_shorter_than_a_frame_is_the_frame_shown(tmp_path):
    path = write_video(tmp_path / "a.mp4", 20, rate=5)
    assert numbers(iter_frames(path, count=2, segment=(1.05, 1.1))) == [5, 5]
    assert numbers(iter_frames(path, count=None, segment=(3.5, 99))) == [18, 19]


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_segment_after_the_end_is_refused(tmp_path, name):
    path = write_video(tmp_path / name, 20, rate=5)
    assert numbers(iter_frames(path, count=1, segment=(3.9, 5.0))) == [19]
    with pytest.raises(DataError, match=rf"{name}.*begins after the video's end at 4\.00 s"):
        list(iter_frames(path, segment=(4.0, 5.0)))


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "libx264"), ("a.mkv", "libx264"), ("a.flv", "flv1")])
def test_a_segment_of_sound_alone_is_refused(tmp_path, name, codec):
    path = write_video(tmp_path / name, 5, codec, rate=5, silence=10)
    assert numbers(iter_frames(path, count=1, segment=(0.9, 9))) == [4]
    with pytest.raises(DataError, match=rf"{name}.*begins after the video's end at 1\.00 s"):
        list(iter_frames(path, segment=(8, 9)))


def test_a_segment_that_was_cut_off_is_refused(tmp_path):
    whole = write_video(tmp_path / "a.mkv", 47, "mpeg2video", rate=5)
    (tmp_path / "cut.mkv").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(DataError, match=r"cut\.mkv: the segment 9 to 9\.4 s begins after the video's end"):
        list(iter_frames(tmp_path / "cut.mkv", segment=(9, 9.4)))


@pytest.mark.parametrize("segment", [(2, 1), (-1, 2), (1, 1), (0, float("nan")), (1,), "ab"])
def test_impossible_segments_are_refused(segment):
    with pytest.raises(DataError, match="segment must be"):
        VideoSample("a dog", video="a.mp4", segment=segment)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"this is no video" * 100, "not a video that can be decoded"),
        (None, "no such video"),
    ],
)
def test_what_is_no_video_is_named(tmp_path, content, message):
    path = tmp_path / "broken.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rf"broken\.mp4.*{message}"):
        list(iter_frames(path))


@pytest.mark.parametrize("name", ["https://example.org/a.mp4", "data:video/mp4;base64," + "AAAA" * 10_000])
def test_an_address_of_a_video_is_said_to_be_one(name):
    message = "': no such video file; addresses are not fetched, give the path of a file$"
    with pytest.raises(DataError, match=message) as error:
        list(iter_frames(name))
    assert len(str(error.value)) < 300


def test_a_cut_off_video_is_refused_or_read_as_far_as_it_goes(tmp_path):
    whole = write_video(tmp_path / "a.mp4", 47)
    (tmp_path / "cut.mp4").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(DataError, match=r"cut\.mp4"):  # an MP4 has its index at the end
        list(iter_frames(tmp_path / "cut.mp4"))
    stream = write_video(tmp_path / "a.ts", 47, "mpeg2video")
    (tmp_path / "cut.ts").write_bytes(stream.read_bytes()[: stream.stat().st_size // 2])
    found = numbers(iter_frames(tmp_path / "cut.ts", count=3))
    assert len(found) == 3
    assert 5 < found[-1] < 46


CLOSED = {"x264-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3"}
OPEN = {"x265-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3:open-gop=1:log-level=none"}


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
@pytest.mark.parametrize(("codec", "options"), [("libx264", CLOSED), ("libx265", OPEN)])
@pytest.mark.parametrize("packets", [4, 13])
def test_frames_before_the_first_that_can_be_shown_do_not_count(tmp_path, name, codec, options, packets):
    whole = write_video(tmp_path / "whole.mkv", 47, codec, options=options)
    path = cut_video(whole, tmp_path / name, packets)
    expected = plain_frames(path)
    if expected != sorted(expected):
        pytest.skip("FFmpeg 7 shows some cut HEVC out of order")
    assert 0 < expected[0] < expected[-1] == 46
    assert numbers(iter_frames(path, count=None)) == expected
    assert numbers(iter_frames(path, count=10)) == [expected[n] for n in even_positions(len(expected), 10)]
    assert numbers(iter_frames(path, count=None, segment=(0.2, 0.4))) == expected[5:10]
    end = len(expected) / 25
    assert numbers(iter_frames(path, count=1, segment=(end - 0.01, 9))) == [46]
    with pytest.raises(DataError, match=rf"begins after the video's end at {end:.2f} s"):
        list(iter_frames(path, segment=(end + 0.001, 9)))


def test_a_damaged_frame_is_replaced_by_a_later_one(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.mp4", 47)
    read = module._Reader._next

    def without_frame_15(self, position):
        self._frames = (frame for frame in self._frames if frame.pts != self._pts(15))
        return read(self, position)

    monkeypatch.setattr(module._Reader, "_next", without_frame_15)
    assert numbers(iter_frames(path, count=7)) == [0, 7, 16, 23, 30, 38, 46]
    assert numbers(iter_frames(path, count=None)) == [*range(15), 16, *range(16, 47)]


def test_a_last_frame_that_is_damaged_is_named(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.mp4", 5)
    monkeypatch.setattr(module._Reader, "_next", lambda self, position: None)
    with pytest.raises(DataError, match=r"a\.mp4: frame 1 of 5 cannot be decoded"):
        list(iter_frames(path))


def test_sound_alone_is_no_video(tmp_path):
    with av.open(str(tmp_path / "sound.mka"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), dtype=np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(DataError, match=r"sound\.mka: the file holds only sound"):
        list(iter_frames(tmp_path / "sound.mka"))


HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{}\n#EXT-X-ENDLIST\n"
CONCAT = "ffconcat version 1.0\nfile {}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("list.m3u8", HLS), ("list.mp4", HLS), ("list.ffconcat", CONCAT), ("concat.mp4", CONCAT)],
    ids=["m3u8", "m3u8 as mp4", "ffconcat", "ffconcat as mp4"],
)
@pytest.mark.parametrize("place", ["{}", "../other/a.ts", "a.ts", "file://{}", "http://127.0.0.1:9/a.ts"])
def test_a_playlist_is_no_video(tmp_path, name, text, place):
    for folder in ("other", "own"):
        (tmp_path / folder).mkdir()
        video = write_video(tmp_path / folder / "a.ts", 20, "mpeg2video")
    path = tmp_path / "own" / name
    path.write_text(text.format(place.format(video)))
    (tmp_path / "own" / "link.mp4").symlink_to(path)
    for given in (path, tmp_path / "own" / "link.mp4"):
        with pytest.raises(DataError, match=given.name):
            list(iter_frames(given))


def test_of_another_format_the_message_says_which_are_read(tmp_path):
    (tmp_path / "a.m3u8").write_text(HLS.format("b.ts"))
    with pytest.raises(DataError, match=r"a\.m3u8: of a format that is not read; give one of MP4, .*WebM"):
        list(iter_frames(tmp_path / "a.m3u8"))


def test_a_long_video_is_reached_by_seeking(tmp_path, monkeypatch):
    path = tmp_path / "long.mp4"
    with av.open(str(path), "w") as container:  # an hour at 1 frame per second, a keyframe every 10
        stream = container.add_stream("mpeg4", rate=1)
        stream.width = stream.height = 16
        stream.pix_fmt, stream.gop_size = "yuv420p", 10
        frame = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), dtype=np.uint8), format="rgb24")
        for number in range(3600):
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    decoded = []
    read = module._Reader._next

    def counted(self, position):
        frames = self._frames
        self._frames = (decoded.append(frame.pts) or frame for frame in frames)
        found = read(self, position)
        self._frames = frames
        return found

    monkeypatch.setattr(module._Reader, "_next", counted)
    assert len(list(iter_frames(path, count=10))) == 10
    assert len(decoded) <= 10 * 12


def test_frames_arrive_one_by_one(tmp_path):
    pictures = iter_frames(write_video(tmp_path / "a.mp4", 20), count=None)
    assert not isinstance(pictures, list)
    assert numbers([next(pictures)]) == [0]
    pictures.close()


def test_count_must_be_positive(tmp_path):
    with pytest.raises(ConfigError, match="at least 1"):
        list(iter_frames(tmp_path / "a.mp4", count=0))


def test_without_pyav_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UnavailableError, match=r"suisei\[video\]"):
        list(iter_frames(tmp_path / "a.mp4"))


def test_a_video_sample_is_a_caption_sample():
    sample = VideoSample("a dog runs", ("a dog is running",), rating=0.5, video="a.mp4", segment=(1, 2.5))
    assert isinstance(sample, CaptionSample)
    assert sample.rating.values == (0.5,)
    assert dataclasses.replace(sample, segment=None).video == "a.mp4"
    plain = CaptionSample("a dog runs", ("a dog is running",))
    metric = get_metric("unigram-f1")
    np.testing.assert_array_equal(metric.score([sample]), metric.score([plain]))
    with pytest.raises(DataError, match="candidate is empty"):
        VideoSample(" ", video="a.mp4")


def test_a_log_level_that_was_set_elsewhere_does_not_have_decoders_wait(tmp_path):
    path = write_video(tmp_path / "a.mp4", 6)
    av.logging.set_level(av.logging.ERROR)  # as torchvision does
    assert len(list(iter_frames(path, count=None))) == 6
    assert av.logging.get_level() is None
