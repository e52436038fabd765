"""Shards as img2dataset writes them, or somebody who means harm: every sample is right, or named with why."""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from suisei.data import shards as shards_module
from suisei.data.image_bytes import ImageBytes
from suisei.data.images import content_key, load_image
from suisei.data.sample import CaptionSample
from suisei.data.shards import shard_rows
from suisei.data.tar_members import tar_members
from suisei.errors import DataError
from tests.unit.data.tar_files import add

CAPTIONS = ["a red ball", "赤いボール", "two dogs run"]


def picture(colour="red"):
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(stream, "PNG")
    return stream.getvalue()


def add_sample(tar, key, caption, **more):
    add(tar, f"{key}.png", picture())
    add(tar, f"{key}.txt", caption.encode())
    add(tar, f"{key}.json", json.dumps({"key": key, "caption": caption, "url": "http://x", **more}).encode())


def archive(path, fill, **settings):
    with tarfile.open(path, "w", **settings) as tar:
        fill(tar)
    return path


def add_all(tar):
    for number, caption in enumerate(CAPTIONS):
        add_sample(tar, str(number), caption)


def rows(path, columns=None, **settings):
    return list(shard_rows(path, columns or {}, **settings))


def refused(path, **settings):
    """Return the rows of a shard that breaks off, and why it does."""
    found = []
    with pytest.raises(DataError) as error:
        found.extend(shard_rows(path, {}, **settings))
    assert str(error.value).startswith(str(path))
    return found, str(error.value)


@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_of_an_archive_in_order_with_image_caption_and_uid(tmp_path, layout):
    long = "x" * 90 + "/" + "y" * 60  # a name that needs more than a plain header

    def fill(tar):
        for number, caption in enumerate(CAPTIONS):
            add_sample(tar, f"{long}{number}", caption, uid=f"{number:032x}")

    found = rows(archive(tmp_path / "00000.tar", fill, format=layout))
    assert [one.row.sample.candidate for one in found] == CAPTIONS
    assert [one.row.id for one in found] == [f"{long}{number}" for number in range(3)]
    assert [one.uid for one in found] == [f"{number:032x}" for number in range(3)]
    assert load_image(found[0].row.sample.image).getpixel((0, 0)) == (255, 0, 0)
    assert found[0].size == len(picture())


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("folder", ["画像", "x" * 120])
def test_the_name_of_a_folder_is_not_given_to_the_next_member(tmp_path, layout, folder):
    def fill(tar):
        add(tar, folder, type=tarfile.DIRTYPE)
        add_all(tar)

    found = rows(archive(tmp_path / "0.tar", fill, format=layout))
    assert [(one.row.id, one.row.sample.candidate) for one in found] == list(
        zip("012", CAPTIONS, strict=True)
    )
    assert all(one.row.sample.image is not None for one in found)


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_long_name_is_kept_until_the_link_that_it_is_of(tmp_path, layout):
    def fill(tar):
        add(tar, "y" * 120 + ".png", type=tarfile.SYMTYPE, linkname="z" * 120)
        add_sample(tar, "a", "a ball")

    with archive(tmp_path / "0.tar", fill, format=layout).open("rb") as stream:
        names = [one.name for one in tar_members(stream, lambda _: 1 << 20)]
    assert names == ["y" * 120 + ".png", "a.png", "a.txt", "a.json"]


def test_an_image_in_memory_is_that_of_the_file(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(picture("blue"))
    image = ImageBytes("x.tar/a.png", picture("blue"))
    assert content_key(image) == content_key(path)
    assert load_image(image).tobytes() == load_image(path).tobytes()
    assert CaptionSample("a ball", image=image).image is image
    for content, reason in ((b"", "empty"), (picture()[:60], "x.tar/a.png"), (b"MZ no image", "x.tar/a.png")):
        with pytest.raises(DataError, match=reason) as error:
            load_image(ImageBytes("x.tar/a.png", content))
        assert " object at 0x" not in str(error.value)


def test_of_several_images_of_one_key_the_first_is_taken(tmp_path):
    def fill(tar):
        add(tar, "0.png", picture("blue"))
        add_sample(tar, "0", "a ball")
        add(tar, "0.webp", b"damaged")

    (found,) = rows(archive(tmp_path / "0.tar", fill))
    assert load_image(found.row.sample.image).getpixel((0, 0)) == (0, 0, 255)


@pytest.mark.parametrize(("most", "content"), [(5, b"12345"), (4, None)])
def test_a_member_of_exactly_the_largest_size_is_read(tmp_path, most, content):
    with archive(tmp_path / "0.tar", lambda tar: add(tar, "0.txt", b"12345")).open("rb") as stream:
        (found,) = tar_members(stream, lambda _: most)
    assert (found.content, bool(found.problem)) == (content, content is None)


def test_images_that_nobody_looks_at_are_not_read(tmp_path):
    path = archive(tmp_path / "0.tar", lambda tar: add_sample(tar, "a", "a ball"))
    assert rows(path, pictured=False)[0].row.sample.image is None


def test_the_caption_is_that_of_the_text_or_of_a_column_asked_for(tmp_path):
    path = archive(tmp_path / "0.tar", lambda tar: add_sample(tar, "a", "the text", recaption="the other"))
    assert rows(path)[0].row.sample.candidate == "the text"
    assert rows(path, {"candidate": ["recaption"]})[0].row.sample.candidate == "the other"

    def without_text(tar):
        add(tar, "a.json", json.dumps({"caption": "of the json", "references": ["r"]}).encode())

    sample = rows(archive(tmp_path / "1.tar", without_text))[0].row.sample
    assert (sample.candidate, sample.references) == ("of the json", ("r",))


def test_a_column_asked_for_that_a_sample_lacks_is_said_by_its_name(tmp_path):
    path = archive(tmp_path / "0.tar", lambda tar: add_sample(tar, "a", "the text", recaption="the other"))
    (found,) = rows(path, {"candidate": ["absent"]})
    assert "no column 'absent'" in str(found.row.error)
    assert "no .txt" not in str(found.row.error)


def test_members_may_begin_with_a_byte_order_mark(tmp_path):
    def fill(tar):
        add(tar, "a.txt", "\ufeffa ball".encode())
        add(tar, "a.json", "\ufeff".encode() + json.dumps({"uid": "u", "references": ["r"]}).encode())
        add(tar, "b.json", "\ufeff".encode() + json.dumps({"caption": "a dog"}).encode())
        add(tar, "c.json", "\ufeff\ufeff{}".encode())

    first, second, third = rows(archive(tmp_path / "0.tar", fill))
    assert (first.uid, first.row.sample.candidate, first.row.sample.references) == ("u", "a ball", ("r",))
    assert second.row.sample.candidate == "a dog"
    assert ".json is not valid JSON" in str(third.row.error)


def test_nothing_in_an_archive_names_a_file_of_this_machine(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture())

    def fill(tar):
        add(tar, "../../etc/passwd.txt", b"a caption")
        add(tar, "a.txt", b"a caption")
        add(tar, "a.json", json.dumps({"image": str(secret), "video": "v.mp4", "segment": [0, 1]}).encode())
        add(tar, "b.txt", b"a caption")
        add(tar, "b.png", type=tarfile.SYMTYPE, linkname=str(secret))
        add(tar, "c.txt", b"a caption")
        add(tar, "c.png", type=tarfile.LNKTYPE, linkname="a.txt")
        add(tar, "d.txt", type=tarfile.CHRTYPE)

    before = set(tmp_path.iterdir())
    found = rows(archive(tmp_path / "0.tar", fill), {"image": ["image"]})
    assert [one.row.id for one in found] == ["../../etc/passwd", "a", "b", "c", "d"]
    assert [one.row.sample.image for one in found[:2]] == [None, None]
    assert ["link" in str(one.row.error) for one in found[2:]] == [True, True, False]
    assert "a device" in str(found[4].row.error)
    assert set(tmp_path.iterdir()) == before | {tmp_path / "0.tar"}


def test_a_broken_sample_costs_itself_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "MOST_TEXT_BYTES", 200)

    def fill(tar):
        add_sample(tar, "good", "a ball")
        add(tar, "image alone.png", picture())
        add(tar, "no utf-8.txt", b"\xff\xfe")
        add(tar, "no json.json", b"{")
        add(tar, "a list.json", b"[1]")
        add(tar, "json alone.json", b'{"uid": "1"}')
        add(tar, "deep.json", b"[" * 150)
        add(tar, "too large.txt", b"x" * 201)
        add(tar, "blank.txt", b" \n")
        add_sample(tar, "good", "again")
        add(tar, "no extension", b"")
        add(tar, "._hidden.txt", b"x")
        add_sample(tar, "last", "a dog")

    found = rows(archive(tmp_path / "0.tar", fill))
    good = [one.row.id for one in found if one.row.sample is not None]
    assert good == ["good", "last"]
    reasons = {one.row.id: str(one.row.error) for one in found if one.row.error is not None}
    for key, reason in {
        "image alone": "no caption, since there is neither", "no json": "JSON", "a list": "list",
        "no utf-8": "no caption, since .txt is not valid UTF-8", "deep": "JSON", "too large": "201 bytes",
        "blank": "empty", "good": "earlier sample",
        "json alone": "no caption, since there is no .txt, and in its .json no column 'candidate'",
    }.items():  # fmt: skip
        assert reason in reasons[key]
        assert f"{tmp_path / '0.tar'}, row " in reasons[key]
    assert [one.row.number for one in found] == list(range(1, len(found) + 1))


def test_an_archive_that_breaks_off_gives_what_comes_before(tmp_path):
    path = archive(tmp_path / "0.tar", add_all)
    content = path.read_bytes()
    ends = range(0, len(content), 512)
    whole = [one.row.id for one in rows(path)]
    for end in [*ends, 700, 513, 1]:
        path.write_bytes(content[:end])
        if content[end : end + 512] == bytes(512) and content[end - 512 : end] == bytes(512):
            continue  # one block of zeros says that it is whole
        found, reason = refused(path)
        assert [one.row.id for one in found] == whole[: len(found)]
        assert "cut off" in reason or "empty" in reason


def test_a_sample_that_may_lack_what_comes_after_the_break_is_not_given(tmp_path):
    path = archive(tmp_path / "0.tar", add_all)
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"2.json")])  # its image and its text are there
    assert [one.row.id for one in refused(path)[0]] == ["0", "1"]


@pytest.mark.parametrize("zeros", [512, 1024, 20_000, 3 << 20])
def test_what_follows_the_end_mark_is_said_and_costs_no_sample(tmp_path, zeros):
    path = archive(tmp_path / "0.tar", add_all)
    whole = path.read_bytes().rstrip(b"\0")
    whole += bytes(-len(whole) % 512)
    path.write_bytes(whole + bytes(zeros))
    assert len(rows(path)) == 3
    path.write_bytes(whole + bytes(zeros) + b"more")
    found, reason = refused(path)
    assert [one.row.sample.candidate for one in found] == CAPTIONS
    assert f"after its end mark, from byte {len(whole) + zeros:,} of {len(whole) + zeros + 4:,} on" in reason


@pytest.mark.parametrize("size", [b"77777777777\0", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"-1" + bytes(10)])
def test_a_size_that_cannot_be_is_refused_at_once(tmp_path, size):
    path = archive(tmp_path / "0.tar", lambda tar: add_sample(tar, "a", "a ball"))
    content = bytearray(path.read_bytes())
    content[124:136] = size
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    path.write_bytes(content)
    found, reason = refused(path)
    assert not found
    assert "cut off" in reason or "no number" in reason or "no tar" in reason


def test_bytes_that_are_changed_at_random_end_in_rows_or_one_line(tmp_path):
    path = archive(tmp_path / "0.tar", add_all)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    generator = np.random.default_rng(0)
    outcomes = set()
    for _ in range(300):
        changed = content.copy()
        places = generator.integers(0, len(content) // 2, size=generator.integers(1, 8))
        changed[places] = generator.integers(0, 256, len(places))
        path.write_bytes(changed.tobytes())
        try:
            outcomes.add(len(list(shard_rows(path, {}))))
        except DataError:
            outcomes.add("refused")
    assert {3, "refused"} <= outcomes


@pytest.mark.parametrize("content", [b"", b"no archive at all" * 40, b"PK\3\4" + bytes(600), bytes(1024)])
def test_what_is_no_archive_is_said_so(tmp_path, content):
    path = tmp_path / "0.tar"
    path.write_bytes(content)
    found, reason = refused(path)
    assert not found
    assert "empty" in reason or "no tar archive" in reason or "no sample" in reason


def test_a_long_header_is_not_read(tmp_path):
    path = tmp_path / "0.tar"
    archive(path, lambda tar: add(tar, "x" * 100_000 + ".txt", b"caption"), format=tarfile.PAX_FORMAT)
    assert "header of" in refused(path)[1]


def test_members_that_are_not_wanted_are_passed_over(tmp_path):
    path = archive(tmp_path / "0.tar", lambda tar: add_sample(tar, "a", "a ball"))
    with path.open("rb") as stream:
        found = list(tar_members(stream, lambda name: 100 if name.endswith(".txt") else 0))
    wanted = {one.name: one.content for one in found}
    assert wanted == {"a.png": None, "a.txt": b"a ball", "a.json": None}


def test_uids_stand_in_the_parquet_beside_the_archive(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")

    def fill(tar):
        for number, caption in enumerate(CAPTIONS):
            add(tar, f"k{number}.txt", caption.encode())
        add(tar, "k9.json", b"no JSON")

    path = archive(tmp_path / "0.tar", fill)
    table = pyarrow.table({"key": ["k2", "k0", "k9"], "uid": ["two", "zero", "nine"], "url": [""] * 3})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    *_, last = found = rows(path)
    assert [one.uid for one in found] == ["zero", None, "two", "nine"]
    assert "JSON" in str(last.row.error)
    beside = rows(tmp_path / "0.parquet", {"candidate": ["url"]})
    assert [one.row.error is None for one in beside] == [False, False, False]
    (tmp_path / "0.parquet").write_bytes(b"no parquet")
    notes = []
    found = rows(path, uids_note=notes.append)
    *found, _ = found
    assert [(one.uid, one.row.sample.candidate) for one in found] == [(None, text) for text in CAPTIONS]
    assert len(notes) == 1
    assert notes[0].startswith(f"the uids of {tmp_path / '0.parquet'} cannot be read")


def test_rows_of_files_have_key_and_uid(tmp_path):
    path = tmp_path / "0.jsonl"
    row = {"key": "k", "uid": "u", "caption": "a ball", "score": "not a rating"}
    path.write_text(json.dumps(row) + "\n" + json.dumps({"key": "l", "caption": ""}) + "\n")
    notes = []
    found = list(shard_rows(path, {}, note=notes.append))
    assert [(one.row.id, one.uid) for one in found] == [("k", "u"), ("l", None)]
    assert [one.row.sample is None for one in found] == [False, True]
    assert "caption" in notes[0]
    assert "uid" not in notes[0]  # which is read, and ignored by nobody
    path.write_text(json.dumps({"key": "l", "caption": "a"}) + "\n" + json.dumps(row) + "\n")
    assert [one.uid for one in rows(path)] == [None, "u"]  # whichever row is the first
    (tmp_path / "1.csv").write_text("id,candidate\nx,a ball\n")
    assert rows(tmp_path / "1.csv")[0].row.id == "x"


def test_images_are_found_by_their_ids_beside_uids(tmp_path):
    (tmp_path / "7.jpg").touch()
    path = tmp_path / "0.jsonl"
    path.write_text(json.dumps({"uid": "u", "image_id": 7, "caption": "a ball"}) + "\n")
    (found,) = shard_rows(path, {}, images=tmp_path)
    assert (found.uid, found.row.sample.image) == ("u", tmp_path / "7.jpg")


@pytest.mark.parametrize("header", ['"key","uid","candidate"', "key;uid;candidate", "key, uid ,candidate"])
def test_key_and_uid_are_found_in_headers_as_rows_are(tmp_path, header):
    path = tmp_path / "0.csv"
    path.write_text(f"{header}\n{header.replace('key', 'k').replace('uid', 'u')}\n")
    (found,) = rows(path)
    assert (found.row.id, found.uid.strip()) == ("k", "u")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("0.csv", "key,id,caption\nk,i,a ball\n"),
        ("0.jsonl", '{"key": "k", "id": "i", "caption": "a ball"}\n'),
    ],
)
def test_the_id_of_a_row_goes_before_its_key(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    (found,) = rows(path)
    assert found.row.id == "i"


def test_a_sample_whose_names_have_dots_before_their_endings_is_told(tmp_path):
    def fill(tar):
        add_sample(tar, "a", "a red ball")
        add(tar, "img.001.png", picture())
        add(tar, "img.001.txt", b"a dog")
        add_sample(tar, "b", "two dogs")
        add(tar, "b.mask.png", picture())
        add(tar, "notes.old.yaml", b"-")
        add(tar, ".hidden.txt", b"-")

    found = [row.row for row in rows(archive(tmp_path / "0.tar", fill))]
    assert [(row.number, row.id) for row in found] == [(1, "a"), (2, "img"), (3, "b")]
    assert [row.sample and row.sample.candidate for row in found] == ["a red ball", None, "two dogs"]
    said = (
        "0.tar, row 2: no caption: 'img.001.png' has a dot before its ending, and keys end at the first dot"
    )
    assert said in str(found[1].error)
