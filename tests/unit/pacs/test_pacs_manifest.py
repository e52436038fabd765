"""The manifest of positives: append-only, locked, checked."""

import json

import numpy as np
import pytest
from PIL import Image

from suisei.data.images import content_key
from suisei.data.item_seeds import item_seed, text_key
from suisei.data.pairs import ImageCaptions, load_pairs
from suisei.errors import ConfigError, DataError
from suisei.pacs.manifest import join_positives, read_positives, write_pairs
from suisei.pacs.positive_writer import PositiveWriter, Recipe
from tests.unit.pacs.pacs_models import picture

RECIPE = Recipe("model", "abc", 7, {"steps": 2})


def write(folder, kind, items, recipe=RECIPE):
    with PositiveWriter(folder, kind) as writer:
        writer.begin(recipe)
        for number, caption in enumerate(items):
            if kind == "captions":
                writer.add_caption(f"file-{caption}", caption, id=caption)
            else:
                writer.add_image(text_key(caption), picture(number), caption=caption)


def test_what_is_written_is_read(tmp_path):
    write(tmp_path, "captions", ["a", "b"])
    write(tmp_path, "images", ["x y", "犬"])
    found = read_positives(tmp_path)
    assert set(found) == {"file-a", "file-b", text_key("x y"), text_key("犬")}
    image = found[text_key("犬")]
    assert (image.kind, image.caption, image.model, image.revision) == ("images", "犬", "model", "abc")
    assert image.seed == item_seed(7, image.source)
    assert image.settings == {"steps": 2}
    np.testing.assert_array_equal(np.asarray(Image.open(image.file)), np.asarray(picture(1)))
    assert found["file-a"].file is None
    assert set(read_positives(tmp_path / "captions.jsonl")) == {"file-a", "file-b"}


@pytest.mark.parametrize("last", ["\r", "\n", ""])
@pytest.mark.parametrize("items", [["a"], ["a", "b"]])
def test_items_whose_lines_end_in_a_carriage_return_alone_are_not_left_out(tmp_path, items, last):
    write(tmp_path, "captions", [*items, "c"])
    path = tmp_path / "captions.jsonl"
    path.write_bytes(path.read_bytes()[:-1].replace(b"\n", b"\r") + last.encode())
    before = path.read_bytes()
    message = r"captions\.jsonl, line 1: a carriage return \(CR\) .*; save the file with LF line ends$"
    with pytest.raises(DataError, match=message):
        read_positives(tmp_path)
    with pytest.raises(DataError, match=message):
        write(tmp_path, "captions", ["d"])
    assert path.read_bytes() == before


def test_one_item_that_ends_in_a_carriage_return_alone_is_not_left_out(tmp_path):
    write(tmp_path, "captions", ["a"])
    path = tmp_path / "captions.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    with pytest.raises(DataError, match="line 1: a carriage return"):
        read_positives(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\r", b"\r\n"))
    assert list(read_positives(tmp_path)) == ["file-a"]


def test_seeds_depend_on_the_item_and_the_run_alone():
    seeds = {item_seed(run, source) for run in (0, 1) for source in ("a", "b")}
    assert len(seeds) == 4
    assert item_seed(0, "a") == item_seed(0, "a")
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_second_writer_is_refused_and_the_lock_is_released(tmp_path):
    with PositiveWriter(tmp_path, "captions"):
        with pytest.raises(ConfigError, match="another process"), PositiveWriter(tmp_path, "captions"):
            pass
        with PositiveWriter(tmp_path, "images"):
            pass
    write(tmp_path, "captions", ["a"])


def test_going_on_appends_and_keeps_what_is_there(tmp_path):
    write(tmp_path, "captions", ["a"])
    before = (tmp_path / "captions.jsonl").read_bytes()
    with PositiveWriter(tmp_path, "captions") as writer:
        assert writer.done == {"file-a"}
        writer.begin(RECIPE)
        writer.add_caption("file-b", "b")
        with pytest.raises(RuntimeError, match="already"):
            writer.add_caption("file-b", "b")
    after = (tmp_path / "captions.jsonl").read_bytes()
    assert after.startswith(before)
    assert len(after.splitlines()) == 2


def test_an_interrupted_line_is_made_again(tmp_path):
    write(tmp_path, "captions", ["a", "b"])
    path = tmp_path / "captions.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert set(read_positives(tmp_path)) == {"file-a"}
    with PositiveWriter(tmp_path, "captions") as writer:
        assert writer.done == {"file-a"}
        writer.begin(RECIPE)
        writer.add_caption("file-b", "b")
    assert set(read_positives(tmp_path)) == {"file-a", "file-b"}


def test_a_line_that_was_cut_within_a_character_is_made_again(tmp_path):
    write(tmp_path, "captions", ["a", "犬"])
    path = tmp_path / "captions.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex("犬".encode()) + 1])
    assert set(read_positives(tmp_path)) == {"file-a"}
    write(tmp_path, "captions", ["犬"])
    assert set(read_positives(tmp_path)) == {"file-a", "file-犬"}
    assert path.read_bytes() == content


def test_a_first_line_of_which_one_byte_was_written_is_made_again(tmp_path):
    (tmp_path / "captions.jsonl").write_bytes(b"{")
    write(tmp_path, "captions", ["a"])
    assert set(read_positives(tmp_path)) == {"file-a"}


def test_a_saved_image_without_its_line_is_made_again(tmp_path):
    write(tmp_path, "images", ["x"])
    (tmp_path / "images.jsonl").unlink()
    write(tmp_path, "images", ["y", "x"], Recipe("other", "abc", 7, {"steps": 2}))
    found = read_positives(tmp_path)[text_key("x")]
    assert found.model == "other"
    np.testing.assert_array_equal(np.asarray(Image.open(found.file)), np.asarray(picture(1)))
    assert [path.name for path in found.file.parent.iterdir()] == [found.file.name]


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (Recipe("other", "abc", 7, {"steps": 2}), "model"),
        (Recipe("model", "abd", 7, {"steps": 2}), "revision"),
        (Recipe("model", "abc", 0, {"steps": 2}), "run_seed"),
        (Recipe("model", "abc", 7, {"steps": 3}), "steps"),
        (Recipe("model", "abc", 7, {}), "settings"),
    ],
)
def test_one_manifest_has_one_recipe(tmp_path, recipe, name):
    write(tmp_path, "captions", ["a"])
    with pytest.raises(ConfigError, match=f"was made with {name}"):
        write(tmp_path, "captions", ["b"], recipe)


def test_missing_and_altered_images_are_named(tmp_path):
    write(tmp_path, "images", ["x", "y"])
    first, second = (read_positives(tmp_path)[text_key(text)].file for text in "xy")
    picture(9).save(first)
    with pytest.raises(DataError, match=r"line 1: .* is not the image that was generated"):
        read_positives(tmp_path)
    first.unlink()
    with pytest.raises(DataError, match=r"1 generated images are missing: .*line 1"):
        read_positives(tmp_path)
    second.unlink()
    with pytest.raises(DataError, match=r"2 generated images are missing: .*line 1.*line 2"):
        read_positives(tmp_path)


def test_duplicates_and_broken_lines_are_named(tmp_path):
    write(tmp_path, "captions", ["a"])
    path = tmp_path / "captions.jsonl"
    line = path.read_text()
    path.write_text(line * 2)
    with pytest.raises(DataError, match="line 2: source file-a occurs twice"):
        read_positives(tmp_path)
    with pytest.raises(DataError, match="occurs twice"), PositiveWriter(tmp_path, "captions"):
        pass
    for broken, message in (
        ("{\n", "not valid JSON"),
        ("[]\n", "no 'kind'"),
        ("3\n", "no 'kind'"),
        (json.dumps({**json.loads(line), "source": "b", "caption": 3}) + "\n", "an item needs a caption"),
        (json.dumps({**json.loads(line), "source": "b", "file": "b.png"}) + "\n", "and an image its file"),
        ('{"kind": "captions"}\n', "no 'source'"),
    ):
        path.write_text(line + broken)
        with pytest.raises(DataError, match=f"line 2: .*{message}"):
            read_positives(tmp_path)
    with pytest.raises(DataError, match="no manifest of positives"):
        read_positives(tmp_path / "absent")


def test_a_file_outside_the_folder_is_refused(tmp_path):
    write(tmp_path, "images", ["x"])
    path = tmp_path / "images.jsonl"
    record = json.loads(path.read_text())
    for name in ("/etc/hosts", "../x.png"):
        path.write_text(json.dumps({**record, "file": name}) + "\n")
        with pytest.raises(DataError, match="outside the manifest's folder"):
            read_positives(tmp_path)


def test_joined_pairs_are_training_data(tmp_path):
    picture(5).save(tmp_path / "a.png")
    with PositiveWriter(tmp_path / "p", "captions") as writer:
        writer.begin(RECIPE)
        writer.add_caption(content_key(tmp_path / "a.png"), "generated")
    write(tmp_path / "p", "images", ["one", "three"])
    joined = join_positives(
        [ImageCaptions(tmp_path / "a.png", ("one", "two"))], read_positives(tmp_path / "p")
    )
    write_pairs(tmp_path / "train.jsonl", joined)
    (found,) = load_pairs(str(tmp_path / "train.jsonl"))
    assert (found.captions, found.generated_captions) == (("one", "two"), ("generated",))
    assert len(found.generated_images) == 1
    assert found.generated_from == ("one",)
    assert found.image == tmp_path / "a.png"


def test_copies_of_an_image_keep_all_that_was_made_of_each(tmp_path):
    for name in ("a", "copy", "other"):
        picture(name == "other").save(tmp_path / f"{name}.png")
    made = [tmp_path / f"{number}.png" for number in range(4)]
    pairs = [
        ImageCaptions(tmp_path / "a.png", ("one",), (made[0],), ("first",), ("one",)),
        ImageCaptions(tmp_path / "other.png", ("three",), (made[3],), ("last",)),
        ImageCaptions(tmp_path / "copy.png", ("two", "one"), (made[1], made[2]), ("second",)),
    ]
    first, other = join_positives(pairs, {})
    assert (first.image, first.captions) == (tmp_path / "a.png", ("one", "two"))
    assert list(zip(first.generated_images, first.origins, strict=True)) == [
        (made[0], "one"), (made[1], None), (made[2], None),
    ]  # fmt: skip
    assert first.generated_captions == ("first", "second")
    assert (other.captions, other.generated_images) == (("three",), (made[3],))
