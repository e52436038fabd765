"""Images come out upright, in true colours and whole, or not at all."""

import io
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from suisei.data.images import check_unchanged, content_key, load_image
from suisei.errors import DataError
from tests.unit.data.noisy import noise


def palette(first, second):
    image = Image.new("P", (2, 1))
    image.putpalette([*first, *second])
    image.putpixel((1, 0), 1)
    return image


def colour(image, position=(0, 0)):
    assert image.mode == "RGB"
    return image.getpixel(position)


def test_a_plain_image_comes_back_as_it_is(tmp_path):
    noise().save(tmp_path / "a.png")
    for source in (tmp_path / "a.png", str(tmp_path / "a.png"), noise()):
        assert np.array_equal(np.asarray(load_image(source)), np.asarray(noise()))


def test_cmyk(tmp_path):
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "red.jpg", quality=100)
    red, green, blue = colour(load_image(tmp_path / "red.jpg"))
    assert red > 240
    assert max(green, blue) < 15


def test_palette_with_and_without_transparency(tmp_path):
    image = palette((250, 0, 0), (0, 250, 0))
    image.save(tmp_path / "plain.png")
    image.save(tmp_path / "clear.png", transparency=1)
    plain, clear = load_image(tmp_path / "plain.png"), load_image(tmp_path / "clear.png")
    assert (colour(plain), colour(plain, (1, 0))) == ((250, 0, 0), (0, 250, 0))
    assert (colour(clear), colour(clear, (1, 0))) == ((250, 0, 0), (255, 255, 255))


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("L", 90, (90, 90, 90)),
        ("1", 1, (255, 255, 255)),
        ("LA", (40, 0), (255, 255, 255)),
        ("LA", (40, 255), (40, 40, 40)),
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 51), (255, 204, 204)),
    ],
)
def test_modes(tmp_path, mode, value, expected):
    Image.new(mode, (3, 3), value).save(tmp_path / "a.png")
    assert colour(load_image(tmp_path / "a.png")) == expected
    assert colour(load_image(Image.new(mode, (3, 3), value))) == expected


@pytest.mark.parametrize(
    ("mode", "plain", "value"), [("La", "LA", (200, 128)), ("RGBa", "RGBA", (200, 90, 0, 128))]
)
def test_transparency_that_is_multiplied_in_is_that_beside_it(mode, plain, value):
    beside = Image.new(plain, (3, 3), value)
    expected = colour(load_image(beside))
    assert np.abs(np.subtract(colour(load_image(beside.convert(mode))), expected)).max() <= 1


def test_a_transparent_colour_of_an_rgb_image_is_white(tmp_path):
    Image.new("RGB", (2, 2), (9, 8, 7)).save(tmp_path / "a.png", transparency=(9, 8, 7))
    assert colour(load_image(tmp_path / "a.png")) == (255, 255, 255)


def test_16_bit_grey_is_scaled_and_not_cut_off(tmp_path):
    grey = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    Image.fromarray(grey).save(tmp_path / "a.png")
    image = load_image(tmp_path / "a.png")
    assert [colour(image, (x, 0))[0] for x in range(3)] == [0, 100, 255]


def tiff(bits, photometric, values, orientation=1):
    """A little-endian TIFF of one row of grey, of 12 bits packed or of 16."""
    pixels = (
        b"".join(value.to_bytes(2, "little") for value in values)
        if bits == 16
        else int("".join(f"{value:012b}" for value in values), 2).to_bytes(3 * len(values) // 2, "big")
    )
    tags = {256: len(values), 257: 1, 258: bits, 259: 1, 262: photometric, 273: 0, 274: orientation, 277: 1,
            278: 1, 279: len(pixels)}  # fmt: skip
    tags[273] = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + pixels


@pytest.mark.parametrize(("bits", "white_is_zero"), [(12, False), (16, True), (16, False)])
@pytest.mark.parametrize("orientation", [1, 2])
def test_grey_of_tiff_is_scaled_by_its_bits_and_zero_may_be_white(tmp_path, bits, white_is_zero, orientation):
    most = 2**bits - 1
    values = [0, round(most * 100 / 255), most, most]
    content = tiff(bits, 0 if white_is_zero else 1, values, orientation)
    (tmp_path / "a.tif").write_bytes(content)
    expected = [255, 155, 0, 0] if white_is_zero else [0, 100, 255, 255]
    expected = expected[:: -1 if orientation == 2 else 1]  # 2 is mirrored
    with Image.open(io.BytesIO(content)) as opened:
        for image in (load_image(tmp_path / "a.tif"), load_image(opened)):
            assert [colour(image, (x, 0))[0] for x in range(4)] == expected


@pytest.mark.parametrize("mode", ["F", "I"])
def test_pixels_of_unknown_range_are_refused(tmp_path, mode):
    Image.new(mode, (2, 2), 1).save(tmp_path / "a.tiff")
    with pytest.raises(DataError, match="unknown range; save the image with 8 bits"):
        load_image(tmp_path / "a.tiff")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_rotation_is_applied(tmp_path, orientation):
    # Red at the top left of the upright picture, blue at the bottom right, wherever the file has them.
    upright = Image.new("RGB", (64, 32), "white")
    upright.paste("red", (0, 0, 16, 16))
    upright.paste("blue", (48, 16, 64, 32))
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # exif orientation -> Pillow transposition
    stored = upright.transpose(Image.Transpose(undo[orientation])) if orientation > 1 else upright
    exif = Image.Exif()
    exif[274] = orientation
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95)
    image = load_image(tmp_path / "a.jpg")
    assert image.size == (64, 32)
    assert np.abs(np.asarray(image, int) - np.asarray(upright, int)).mean() < 6


def test_of_an_animation_the_first_frame(tmp_path):
    frames = [Image.new("RGB", (4, 4), name) for name in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert colour(load_image(tmp_path / "a.gif")) == (255, 0, 0)


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "webp", "tiff"])
def test_a_truncated_file_is_refused_and_a_whole_one_is_not(tmp_path, monkeypatch, suffix, tolerant):
    # Another library may have told Pillow to let truncated files pass.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
    whole = tmp_path / f"whole.{suffix}"
    noise().save(whole)
    assert load_image(whole).size == (60, 40)
    data = whole.read_bytes()
    for share in (0.1, 0.5, 0.9):
        part = tmp_path / f"part.{suffix}"
        part.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(DataError, match=f"part.{suffix}: "):
            load_image(part)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is tolerant


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.jpg", b"this is not an image at all", "not an image that can be read"),
        ("empty.png", b"", r"empty \(0 bytes\)"),
        ("gone.png", None, "no such image file"),
        ("x" * 5000, None, "x+'?: "),
        (".", None, "no such image file"),
    ],
)
def test_what_is_no_image_is_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for read in (load_image, content_key):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "name",
    [
        "https://example.org/a.png",
        Path("http://example.org/a.png"),
        "file:///a.png",
        *("data:image/png;base64," + "iVBORw0/" * times for times in (1, 100, 10_000)),
    ],
    ids=["web", "path", "file", "short", "name", "long"],
)
def test_an_address_is_said_to_be_one_and_its_start_is_shown(name):
    message = "': no such image file; addresses are not fetched, give the path of a file$"
    for read in (load_image, content_key):
        with pytest.raises(DataError, match=message) as error:
            read(name)
        assert str(error.value).startswith(repr(str(name)[:5])[:-1])
        assert len(str(error.value)) < 300


def test_a_file_that_is_called_as_an_address_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:").mkdir()
    noise().save("http:/a.png")
    assert load_image("http:/a.png").size == noise().size


@pytest.mark.parametrize("read", [load_image, content_key])
def test_other_formats_stay_closed_whatever_a_file_is_called(tmp_path, monkeypatch, read):
    started = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: started.append(1))
    noise().save(tmp_path / "page.eps")
    (tmp_path / "page.eps").rename(tmp_path / "page.png")
    noise().save(tmp_path / "icon.ico")
    for name in ("page.png", "icon.ico"):
        with pytest.raises(DataError, match="convert it to one of JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM"):
            read(tmp_path / name)
    assert not started


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tiff", "ppm"])
def test_every_open_format_is_read(tmp_path, suffix):
    noise().save(tmp_path / f"a.{suffix}")
    image = load_image(tmp_path / f"a.{suffix}")
    again = image.resize((30, 20)).convert("RGB")
    assert (image.mode, image.size, again.size) == ("RGB", (60, 40), (30, 20))
    assert np.abs(np.asarray(image, int) - np.asarray(noise(), int)).mean() < 60
    assert np.asarray(image).std() > 40


@pytest.mark.parametrize("most", [65535, 4095])
def test_grey_of_ppm_with_more_than_8_bits_is_scaled(tmp_path, most):
    grey = np.arange(0, most + 1, most // 15, dtype=">u2")[:16]
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 %d\n" % most + grey.tobytes())
    found = np.asarray(load_image(tmp_path / "a.pgm"))
    assert np.abs(found - (np.arange(16) * 17).reshape(4, 4, 1)).max() <= 1


def test_conversion_in_strips_changes_no_pixel(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    rgba = Image.fromarray(generator.integers(0, 256, (40, 60, 4), dtype=np.uint8))
    grey = Image.fromarray(generator.integers(0, 65536, (40, 60), dtype=np.uint16))
    whole = [load_image(rgba), load_image(grey)]
    keys = [content_key(rgba), content_key(noise())]
    monkeypatch.setattr("suisei.data.pixel_modes._STRIP", 7 * 60)
    for image, expected in zip((rgba, grey), whole, strict=True):
        assert np.array_equal(np.asarray(load_image(image)), np.asarray(expected))
    assert keys == [content_key(rgba), content_key(noise())]
    white = Image.new("RGBA", rgba.size, "white")
    direct = np.asarray(Image.alpha_composite(white, rgba).convert("RGB"))
    assert np.array_equal(np.asarray(whole[0]), direct)


def test_threads_may_decode_one_image_in_memory():
    buffer = io.BytesIO()
    noise(600, 400).save(buffer, "PNG")
    expected = np.asarray(noise(600, 400))
    for _ in range(5):
        image = Image.open(io.BytesIO(buffer.getvalue()))  # decoded on first use
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(load_image, [image] * 8))
        assert all(np.array_equal(np.asarray(one), expected) for one in found)


def test_a_closed_image_is_refused(tmp_path):
    noise().save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        pass
    with pytest.raises(DataError, match="in memory"):
        load_image(image)


def test_a_file_that_changes_between_hashing_and_decoding_is_refused(tmp_path):
    noise().save(tmp_path / "a.png")
    key = content_key(tmp_path / "a.png")
    check_unchanged([key, "any"], [tmp_path / "a.png", noise()])
    noise(61).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: the image file changed while it was being read"):
        check_unchanged([key], [tmp_path / "a.png"])


def test_a_file_that_was_not_changed_is_hashed_again_but_not_opened_as_an_image(tmp_path, monkeypatch):
    noise().save(tmp_path / "a.png")
    key = content_key(tmp_path / "a.png")
    monkeypatch.setattr(Image, "open", None)
    check_unchanged([key], [tmp_path / "a.png"])


def test_a_file_that_became_a_pipe_or_is_gone_is_refused_and_nothing_waits(tmp_path):
    noise().save(tmp_path / "a.png")
    key = content_key(tmp_path / "a.png")
    (tmp_path / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png: no such image file"):
        check_unchanged([key], [tmp_path / "a.png"])
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match="a pipe, a device or a socket"):
        check_unchanged([key], [tmp_path / "a.png"])


def test_the_callers_image_is_not_changed():
    image = palette((250, 0, 0), (0, 250, 0))
    load_image(image)
    assert image.mode == "P"


def test_content_keys_tell_contents_apart_and_nothing_else(tmp_path):
    noise().save(tmp_path / "a.png")
    noise().save(tmp_path / "b.png")
    noise(61).save(tmp_path / "c.png")
    assert content_key(tmp_path / "a.png") == content_key(str(tmp_path / "b.png"))
    assert content_key(tmp_path / "a.png") != content_key(tmp_path / "c.png")
    assert content_key(noise()) == content_key(noise())
    # The same bytes in another shape, and the same indices into another palette.
    flat = bytes(range(240))
    keys = {
        content_key(Image.frombytes("L", (24, 10), flat)),
        content_key(Image.frombytes("L", (10, 24), flat)),
        content_key(palette((250, 0, 0), (0, 250, 0))),
        content_key(palette((250, 0, 0), (0, 0, 250))),
    }
    assert len(keys) == 4


def test_a_damaged_image_in_memory_is_refused_too():
    buffer = io.BytesIO()
    noise().save(buffer, "JPEG")
    image = Image.open(io.BytesIO(buffer.getvalue()[:-200]))
    with pytest.raises(DataError, match="the image in memory: the image cannot be decoded"):
        load_image(image)


def test_an_image_in_memory_is_called_by_its_file_if_it_has_one(tmp_path):
    path = tmp_path / "a.png"
    noise().save(path)
    with Image.open(path) as image:
        pass
    with pytest.raises(DataError) as caught:  # closed before it was read
        load_image(image)
    assert str(caught.value).startswith(f"the image in memory, of {path}: the image cannot be decoded")
    assert str(caught.value).endswith("its file is damaged, or was closed too early: open it again")


@pytest.mark.realdata
def test_real_photographs(shared):
    folder = shared / "data" / "flickr8k" / "Flicker8k_Dataset"
    photographs = sorted(folder.glob("*.jpg"))[:40]
    assert len(photographs) == 40
    for path in photographs:
        image = load_image(path)
        assert image.size == (224, 224)
        assert np.asarray(image).std() > 5
