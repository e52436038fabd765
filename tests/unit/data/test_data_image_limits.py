"""Images of great size: refused before they are read, bounded in memory, shrunk while decoding."""

import os
import threading
import time

import pytest
import torch
from PIL import Image

from suisei.data.images import DRAFT_SIDES, _Room, content_key, load_image, read_image
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.errors import ConfigError, DataError
from tests.unit.data.noisy import noise


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_huge_image_is_refused_before_it_is_decoded(tmp_path):
    Image.new("1", (12_000, 9_000)).save(tmp_path / "large.png")
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(DataError, match=r"large.png: .*12000 x 9000 pixels; the limit is 100,000,000 pixels"):
        load_image(tmp_path / "large.png")
    with pytest.raises(DataError, match=r"bomb.png: the image is too large \(400,000,000 pixels; the limit"):
        load_image(tmp_path / "bomb.png")


@pytest.mark.parametrize("read", [load_image, content_key])
def test_the_limit_of_pixels_may_be_set(tmp_path, monkeypatch, read):
    noise().save(tmp_path / "a.png")
    for source, name in ((noise(), "in memory"), (tmp_path / "a.png", r"a\.png")):
        monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "2399")
        with pytest.raises(DataError, match=f"{name}: the image is too large .60 x 40.*SUISEI_MAX_IMAGE_PIX"):
            read(source)
        monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "2400")
        read(source)
    for wrong in ("0", "-1", "1e6", "many"):
        monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", wrong)
        with pytest.raises(ConfigError, match="whole number of pixels above 0"):
            read(noise())


def test_a_raised_limit_is_pillows_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    noise().save(tmp_path / "a.png")
    with pytest.raises(DataError, match="too large"):
        load_image(tmp_path / "a.png")
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "2400")
    assert load_image(tmp_path / "a.png").size == (60, 40)


def test_an_image_that_scaling_would_make_huge_is_refused(tmp_path):
    Image.new("1", (1, 201)).save(tmp_path / "thread.png")
    Image.new("1", (1, 200)).save(tmp_path / "narrow.png")
    with pytest.raises(DataError, match=r"too narrow \(1 x 201 pixels"):
        load_image(tmp_path / "thread.png")
    assert load_image(tmp_path / "narrow.png").size == (1, 200)


@pytest.mark.parametrize("read", [load_image, content_key])
def test_a_file_is_looked_at_before_it_is_read(tmp_path, read):
    with (tmp_path / "sparse.png").open("wb") as file:
        file.truncate(300 * 10**9)
    with pytest.raises(DataError, match=r"sparse.png: the image file has 300,000,000,000 bytes, more than"):
        read(tmp_path / "sparse.png")
    os.mkfifo(tmp_path / "pipe.png")  # reading it would wait for ever
    with pytest.raises(DataError, match="a pipe, a device or a socket"):
        read(tmp_path / "pipe.png")
    with pytest.raises(DataError, match="a pipe, a device or a socket"):
        read("/dev/zero")
    with pytest.raises(DataError, match="it is a folder"):
        read(tmp_path)
    for name in ("a\0b.png", "a\ud800b.png"):
        with pytest.raises(DataError, match="cannot be read"):
            read(name)


def test_pixels_in_memory_are_bounded_for_all_threads_together(tmp_path, monkeypatch):
    monkeypatch.setattr("suisei.data.images._room", _Room(5000))
    paths = [tmp_path / f"{number}.png" for number in range(9)]
    for number, path in enumerate(paths):
        noise(60 if number % 3 else 200, 40).save(path)  # 2,400 pixels, or 8,000: more than there is room for
    lock, inside, most = threading.Lock(), [], []

    def shrink(image):
        with lock:
            inside.append(image.width * image.height)
            most.append(list(inside))
        time.sleep(0.02)
        with lock:
            inside.remove(image.width * image.height)
        return torch.tensor([float(image.width)])

    batches = list(decoded_batches(paths, shrink, 3))
    assert torch.cat(batches).flatten().tolist() == [200, 60, 60] * 3
    assert all(sum(sizes) <= 5000 or len(sizes) == 1 for sizes in most)
    assert max(map(len, most)) > 1


def test_a_refused_image_gives_its_room_back(tmp_path, monkeypatch):
    monkeypatch.setattr("suisei.data.images._room", room := _Room(5000))
    noise().save(tmp_path / "a.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "a.png").read_bytes()[:3000])
    with pytest.raises(DataError, match=r"cut\.png"):
        read_image(tmp_path / "cut.png", lambda image: image)
    assert room._free == 5000


def test_a_large_jpeg_that_is_shrunk_anyway_is_not_decoded_whole(tmp_path):
    sizes = {}
    for width, height in ((4200, 4100), (4200, 4000)):
        Image.new("RGB", (width, height), "red").save(tmp_path / "a.jpg")
        sizes[width, height] = read_image(tmp_path / "a.jpg", lambda image: image.size)
    assert sizes == {(4200, 4100): (2100, 2050), (4200, 4000): (4200, 4000)}
    assert load_image(tmp_path / "a.jpg").size == (4200, 4000)


class Shrinks:
    """Says what side it makes of an image, as encoders do."""

    side = 32

    def preprocess(self, image):
        return image.size, image.tobytes()


def test_a_large_jpeg_is_decoded_at_the_size_that_is_needed(tmp_path):
    for width, height, decoded in (
        (2040, 1030, (255, 129)), (1030, 516, (258, 129)), (600, 300, (300, 150)), (511, 255, (511, 255)),
        (4000, 100, (4000, 100)),
    ):  # fmt: skip
        noise(width, height).convert("RGB").save(tmp_path / "a.jpg")
        size, pixels = read_image(tmp_path / "a.jpg", Shrinks().preprocess)
        assert size == decoded
        if decoded == (width, height):  # as ever
            assert pixels == load_image(tmp_path / "a.jpg").tobytes()
    noise(1030, 516).convert("RGB").save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", Shrinks().preprocess)[0] == (1030, 516)


def test_encoders_say_what_side_they_need():
    image = ImageEncoder.create(ImageEncoderConfig("tiny", frozen=False))
    assert image.side == image.preprocess(noise()).shape[-1]


def test_a_large_jpeg_is_shrunk_while_decoding_for_what_makes_little_of_it(tmp_path):
    class Sized:
        side = 224 // DRAFT_SIDES

        def size(self, image):
            return image.size

    Image.new("RGB", (1600, 800), "red").save(tmp_path / "a.jpg")
    assert read_image(tmp_path / "a.jpg", Sized().size) == (800, 400)
    assert load_image(tmp_path / "a.jpg").size == (1600, 800)
    Image.new("RGB", (1600, 800), "red").save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", Sized().size) == (1600, 800)
