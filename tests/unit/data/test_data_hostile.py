"""Files of rows that mean harm: paths that lead elsewhere, bombs, and what a terminal would obey."""

import csv
import gzip
import io
import json
import os
import random
import warnings
from pathlib import Path

import pytest
from PIL import Image
from rich.table import Table
from rich.text import Text

import suisei
from suisei.__main__ import main
from suisei.captioning.caption_inputs import images_to_caption
from suisei.captioning.caption_sources import load_captioned
from suisei.cli import _one_line, printable, run_command, safe_console, say
from suisei.data import compressed
from suisei.data.coco import read_references
from suisei.data.formats import iter_rows, read_samples
from suisei.data.joins import image_file
from suisei.data.json_files import unique_keys
from suisei.data.pairs import load_pairs
from suisei.data.paths import ANY_PATH, ANYWHERE, Allowed, Root, is_address, is_inside
from suisei.errors import ConfigError, DataError
from suisei.pacs.manifest import read_positives
from suisei.pacs.sources import read_sources
from suisei.resources import resource_path


@pytest.fixture(autouse=True)
def only_in_the_folder(monkeypatch):
    monkeypatch.delenv(ANY_PATH, raising=False)


@pytest.fixture
def places(tmp_path):
    """A folder of a data file with its images, and a picture elsewhere."""
    (tmp_path / "data" / "images").mkdir(parents=True)
    for path in (tmp_path / "data" / "images" / "a.png", tmp_path / "secret.png"):
        Image.new("RGB", (4, 4)).save(path)
    (tmp_path / "data" / "link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "data" / "up").symlink_to(tmp_path)
    (tmp_path / "data" / "own.png").symlink_to("images/a.png")
    os.mkfifo(tmp_path / "data" / "pipe")
    return tmp_path


def rows_of(folder, image, name="rows.jsonl", **options):
    path = folder / name
    if name.endswith(".csv"):
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([["candidate", "image"], ["犬", image]])
    else:
        path.write_text(json.dumps({"candidate": "犬", "image": image}) + "\n", encoding="utf-8")
    return next(iter_rows(path, note=len, **options))


OUTSIDE = ["../secret.png", "images/../../secret.png", "link.png", "up/secret.png", "up/data/../secret.png"]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize("image", [*OUTSIDE, "{}/secret.png"])
def test_an_image_outside_the_folder_is_refused_unless_allowed(places, image, name, monkeypatch):
    image = image.format(places)
    error = str(rows_of(places / "data", image, name).error)
    assert error.startswith(f"{places / 'data' / name}, row 1: image {image!r} leads out of the folder")
    assert f"the folder '{places / 'data'}', to '{places / 'secret.png'}'; pass" in error
    assert "--images DIR" in error
    assert "pass --any-path" in error
    assert rows_of(places / "data", image, name, allowed=ANYWHERE).sample.image.exists()
    assert rows_of(places / "data", str(places / "secret.png"), name, images=places).sample is not None
    monkeypatch.setenv(ANY_PATH, "0")
    assert str(rows_of(places / "data", image, name).error) == error
    monkeypatch.setenv(ANY_PATH, "1")
    assert rows_of(places / "data", image, name).sample.image.exists()


@pytest.mark.parametrize(
    "image", ["images/a.png", "own.png", "images/../images/a.png", "{}/data/images/a.png"]
)
def test_what_ends_inside_the_folder_is_read(places, image):
    assert rows_of(places / "data", image.format(places)).sample is not None


@pytest.mark.parametrize("image", [r"\\host\share\a.png", "//host/share/a.png"])
def test_a_share_is_not_even_looked_for(places, image, monkeypatch):
    real = Path.is_file

    def is_file(path):
        assert "host" not in str(path), "Windows would log in there"
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert "leads out of the folder" in str(rows_of(places / "data", image).error)


@pytest.mark.parametrize("image", ["pipe", "/dev/zero", "/dev/stdin", "a\0b", "x" * 5000, "images"])
def test_what_is_no_file_is_refused(places, image):
    assert rows_of(places / "data", image, allowed=ANYWHERE).error is not None
    assert rows_of(places / "data", image).error is not None


ADDRESSES = [
    "http://127.0.0.1/a.png", "https://[::1]/a", "ftp://host/a", "file:///etc/passwd", "s3://bucket/a.png",
    "data:image/png;base64,iVBORw0KGgo=", "HTTP://2130706433/",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_refused_and_nothing_is_asked(places, address, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", None)
    monkeypatch.setattr("socket.getaddrinfo", None)
    for anywhere in (False, True):
        error = str(rows_of(places / "data", address, allowed=Allowed(anywhere=anywhere)).error)
        expected = "is an address, and nothing is fetched; download the images into a folder"
        if address.startswith("data:"):
            expected = "image holds the image itself (data:image/png;base64,iVBORw0K...); save it to a file"
        assert expected in error
    assert not is_address("C:/pictures/a.png")
    assert not is_address("a, b: c.png")


def test_the_switch_is_1_or_nothing(places, monkeypatch):
    monkeypatch.setenv(ANY_PATH, "yes")
    with pytest.raises(ConfigError, match="SUISEI_ANY_PATH is 'yes'; it must be 1"):
        rows_of(places / "data", "images/a.png")


def test_ids_do_not_lead_out_of_the_image_folder(places):
    folder = places / "data" / "images"
    assert image_file(Root(folder), "a.png", None) == folder / "a.png"
    assert image_file(Root(folder), "absent", "../../absent.png") is None
    for image, file in (("../../secret.png", None), ("1", "../link.png"), (str(places / "secret.png"), None)):
        with pytest.raises(DataError, match="leads out of the folder"):
            image_file(Root(folder), image, file)
    assert image_file(Root(folder, allowed=ANYWHERE), "../../secret.png", None) is not None
    row = {"candidate": "x", "image_id": "../../secret.png"}
    path = places / "data" / "ids.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "image_id": "a.png"}) + "\n")
    first, second = iter_rows(path, images=folder, note=len)
    assert "ids.jsonl, row 1: image '../../secret.png' leads out of the folder" in str(first.error)
    assert second.sample.image == folder / "a.png"


def test_the_folder_of_the_file_and_that_of_the_images_are_both_inside(places):
    other = places / "elsewhere"
    other.mkdir()
    Image.new("RGB", (4, 4)).save(other / "b.png")
    for image in (str(places / "data" / "own.png"), "b.png", str(other / "b.png"), "../elsewhere/b.png"):
        assert rows_of(places / "data", image, images=other).sample is not None
    assert "leads out" in str(rows_of(places / "data", "../secret.png", images=other).error)


def test_a_folder_whose_name_goes_on_after_that_of_the_data_is_another_one(places):
    other = places / "data-private"
    other.mkdir()
    Image.new("RGB", (4, 4)).save(other / "a.png")
    for image in ("../data-private/a.png", str(other / "a.png")):
        assert "leads out of the folder" in str(rows_of(places / "data", image).error)
    assert not Root(places / "data").holds(places / "data" / "images" / ".." / "..")


def test_images_of_the_bundled_sample_may_always_be_named(places):
    image = next(resource_path("data/scenes/images").iterdir())
    assert rows_of(places / "data", str(image)).sample.image == image
    assert "leads out" in str(rows_of(places / "data", f"{image.parent}/../../README.md").error)


def test_what_a_training_reads_stays_in_its_folder(places):
    kept = {"split": "train", "sentences": [{"raw": "x"}]}
    for name, rows in (
        ("pairs.jsonl", {"image": "../secret.png", "captions": ["x"]}),
        ("made.jsonl", {"image": "own.png", "captions": ["x"], "generated_images": ["link.png"]}),
        ("split.json", {"images": [{"filename": "../secret.png", **kept}]}),
        ("coco.json", {
            "images": [{"id": 1, "file_name": "../secret.png"}],
            "annotations": [{"image_id": 1, "caption": "x", "id": 1}],
        }),
    ):  # fmt: skip
        path = places / "data" / name
        path.write_text(json.dumps(rows) + "\n")
        source = f"{path}:train" if name == "split.json" else str(path)
        with pytest.raises(DataError, match=f"{name}.*leads out of the folder"):
            load_captioned(source)
        assert load_captioned(source, allowed=ANYWHERE)[0].captions == ("x",)
    (places / "data" / "list.txt").write_text("../secret.png\n")
    with pytest.raises(DataError, match=r"list.txt, line 1: image '.*' leads out"):
        images_to_caption(None, str(places / "data" / "list.txt"), None, None)


SECRETS = ["/etc/passwd", "../../secret.png"]


@pytest.mark.parametrize("image", SECRETS)
def test_commands_refuse_what_leads_out(places, image, capsys):
    path = places / "data" / "images" / "rows.jsonl"
    rated = {"candidate": "a dog", "references": ["a cat"], "image": image, "rating": 0.5}
    path.write_text(
        "".join(json.dumps({**rated, "id": str(n), "system": "ab"[n % 2]}) + "\n" for n in range(4))
    )
    for command in (
        ["score", "--input", str(path), "--metrics", "bleu-1", "--output", str(places / "out.jsonl")],
        ["evaluate", "--data", str(path), "--metrics", "bleu-1"],
        ["compare", str(path), "--metrics", "bleu-1"],
        ["train", "--data.train", str(path), "--output", str(places / "run")],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert f"{path}, row 1: image '{image}' leads out of the folder" in error
        trains = command[0] == "train"
        assert ("set SUISEI_ANY_PATH=1" if trains else "pass --any-path") in error
        assert ("--data.images DIR, of pairs --data.root DIR" if trains else "--images DIR") in error


def test_commands_read_anything_where_that_is_said(places, capsys):
    path = places / "data" / "images" / "rows.jsonl"
    path.write_text(
        json.dumps({"candidate": "a dog", "references": ["a dog"], "image": "../../secret.png"}) + "\n"
    )
    command = ["score", "--input", str(path), "--metrics", "bleu-1", "--output", str(places / "out.jsonl")]
    for more in (["--any-path"], ["--images", str(places / "data" / "images"), "--any-path"]):
        assert main([*command, *more]) == 0
    assert main(["evaluate", "--data", str(path), "--metrics", "bleu-1", "--any-path"]) == 2
    assert "leads out" not in capsys.readouterr().err


def test_sources_of_positives_stay_in_their_folder(places, monkeypatch):
    path = places / "data" / "rows.jsonl"
    path.write_text('{"image": "../secret.png", "caption": "x"}\n')
    with pytest.raises(DataError, match="leads out of"):
        read_sources(str(path))
    monkeypatch.setenv(ANY_PATH, "1")
    assert read_sources(str(path))[0].image.exists()


def test_a_link_in_a_manifest_does_not_lead_out(places):
    origin = {"model": "m", "revision": "r", "seed": 1, "run_seed": 0, "settings": {}}
    record = {"kind": "images", "source": "x", "caption": "a", "file": "link.png", "sha256": "", **origin}
    (places / "data" / "images.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(DataError, match="is outside the manifest's folder"):
        read_positives(places / "data")


def test_inside_is_what_links_say(places):
    data = places / "data"
    assert is_inside(data, data / "images" / "a.png")
    assert is_inside(data / "up" / "data", data / "images" / "a.png")
    assert not is_inside(data, places / "data-other" / "a.png")
    assert not is_inside(data, "a\0b")
    assert is_inside("/", places)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.txt.gz", "a.json.gz"])
def test_what_unpacks_to_far_more_than_text_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr(compressed, "ALWAYS_UNPACKED", 1 << 16)
    path = tmp_path / name
    head = b"candidate\nx\n" if "csv" in name else b""
    path.write_bytes(gzip.compress(head + b" " * 5_000_000 + b"x"))
    with pytest.raises(DataError, match="unpacks to over 200 times its size"):
        list(iter_rows(path, note=len))
    if "csv" not in name:
        with pytest.raises(DataError, match="unpacks to over 200 times its size"):
            read_references([path])
    path.write_bytes(gzip.compress(b"a\nb\n" * 10_000))  # repeats itself, and is short
    if name == "a.txt.gz":
        assert len(read_samples(path, note=len)) == 20_000
    rng = random.Random(0)
    rows = [f"a dog {rng.getrandbits(64):x}" for _ in range(10_000)]  # long, and no more than text
    path.write_bytes(gzip.compress(("candidate\n" * ("csv" in name) + "\n".join(rows)).encode()))
    if name in ("a.txt.gz", "a.csv.gz"):
        assert [sample.candidate for sample in read_samples(path, note=len)] == rows


def test_a_key_that_is_repeated_at_the_end_is_found_in_one_pass():
    class Counted(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    keys = [Counted(f"k{number}") for number in range(2000)]
    with pytest.raises(ValueError, match="'k1999' is given twice"):
        unique_keys([(key, 1) for key in [*keys, Counted("k1999")]])
    assert Counted.compared < 20_000


def test_a_caption_of_training_pairs_may_hold_other_ends_of_lines(places):
    path = places / "data" / "pairs.jsonl"
    row = {"image": "images/a.png", "captions": ["one\u2028two\x85three\x0bfour"]}
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_pairs(str(path))[0].captions == ("one\u2028two three four",)  # as scoring reads it


def test_a_column_whose_name_is_not_utf8_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"candidate": ["a"], "nameXname": ["b"]}), stream)
    path = tmp_path / "a.parquet"
    path.write_bytes(stream.getvalue().replace(b"nameXname", b"name\xe0name"))
    with pytest.raises(DataError, match="Parquet"):
        list(iter_rows(path, note=len))


EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eabc\u2066 \r猫\u200d\ud800"


def test_data_does_not_command_a_terminal(capsys):
    console = safe_console(file=io.StringIO(), force_terminal=True, width=300, color_system=None)
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(Text(EVIL))
    for shown in (table, Text(EVIL)):
        console.print(shown)
    say(console, EVIL)
    written = console.file.getvalue()
    assert "猫" in written
    for mark in "\x1b\x07\x9b\r\u202e\u2066\ud800":
        assert mark not in written
    assert r"\x9b2J \u202eabc" in written
    assert printable("犬\tと\n猫\u200d\u3000é") == "犬\tと\n猫\u200d\u3000é"


def test_errors_and_warnings_do_not_either(capsys):
    def command(argv):
        raise DataError(EVIL)

    assert run_command(command, []) == 2
    warning = _one_line(warnings.formatwarning)(EVIL, UserWarning, suisei.__file__, 1)
    for text in (capsys.readouterr().err, warning):
        assert text.startswith(r"suisei: \x1b[31mred")
        assert not any(mark in text for mark in "\x1b\x07\x9b\u202e\u2066")
