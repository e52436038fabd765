"""The manifest of positives: append-only, locked, checked."""

import gzip
import json
import unicodedata

import numpy as np
import pytest
from PIL import Image

from suisei.data.images import content_key
from suisei.data.item_seeds import item_seed, text_key
from suisei.data.pairs import ImageCaptions, load_pairs
from suisei.errors import ConfigError, DataError
from suisei.pacs.manifest import join_positives, read_positives, write_pairs
from suisei.pacs.positive_writer import PositiveWriter, Recipe
from suisei.pacs.sources import Source, read_sources

RECIPE = Recipe("model", "abc", 7, {"steps": 2})


def picture(number=0):
    return Image.fromarray(np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8))


def write(folder, kind, items, recipe=RECIPE):
    with PositiveWriter(folder, kind) as writer:
        writer.begin(recipe)
        for number, caption in enumerate(items):
            if kind == "captions":
                writer.add_caption(f"file-{caption}", caption, id=caption)
            else:
                writer.add_image(text_key(caption), picture(number), caption=caption)


def test_the_scale_of_ratings_of_sources_is_not_read(tmp_path):
    (tmp_path / "rows.csv").write_text("caption,MOS,rating_scale\na dog,4,1-5\n")
    assert [source.captions for source in read_sources(str(tmp_path / "rows.csv"))] == [("a dog",)]


def test_sources_may_be_compressed(tmp_path):
    picture().save(tmp_path / "a.png")
    for row in ({"image": "a.png", "captions": ["x"]}, {"id": "1", "image": "a.png", "caption": "x"}):
        (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
        (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress((tmp_path / "rows.jsonl").read_bytes()))
        plain, packed = (read_sources(str(tmp_path / f"rows.jsonl{end}")) for end in ("", ".gz"))
        assert packed == plain
        assert packed[0].image == tmp_path / "a.png"


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


def test_fields_that_sources_do_not_know_are_ignored_with_a_warning(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"caption": "a", "url": "x"}\n{"caption": "b", "url": "y"}\n')
    with pytest.warns(UserWarning, match="fields ignored: 'url'; there are id, image, caption") as told:
        found = read_sources(str(tmp_path / "data.jsonl"))
    assert [source.captions for source in found] == [("a",), ("b",)]
    assert sum(issubclass(warning.category, UserWarning) for warning in told) == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1)])
def test_what_kind_of_rows_a_file_has_is_told_by_those_with_captions(tmp_path, order):
    rows = ['{"id": "0", "image": "0.png", "url": "x"}', '{"id": "1", "image": "1.png", "caption": "b"}']
    rows.append('{"id": "2", "image": "2.png"}')
    (tmp_path / "data.jsonl").write_text("".join(f"{rows[place]}\n" for place in order))
    with pytest.warns(UserWarning, match=f"line {order.index(0) + 1}: fields ignored: 'url'"):
        found = read_sources(str(tmp_path / "data.jsonl"))
    assert sorted((source.id, source.captions) for source in found) == [("0", ()), ("1", ("b",)), ("2", ())]


@pytest.mark.parametrize(
    "other",
    [
        '{"image": "1.png", "captions": ["a dog", "two dogs"], "generated_captions": ["kept?"]}',
        '{"image": "1.png", "candidate": "a dog", "references": ["two dogs"]}',
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (0, 1, 2), (0, 2, 1), (2, 1)])
def test_captions_of_rows_of_two_shapes_are_not_lost(tmp_path, other, order):
    rows = ['{"image": "0.png"}', other, '{"image": "2.png", "caption": "c"}']
    for name in ("0.png", "1.png", "2.png"):
        picture().save(tmp_path / name)
    (tmp_path / "data.jsonl").write_text("".join(f"{rows[place]}\n" for place in order))
    captioned = order.index(1) > order.index(2) if 2 in order else False  # by the first row with captions
    message = (
        f"line {order.index(1) + 1}: 'ca.* rows of two shapes" if captioned else "row 1: (captions|no col)"
    )
    with pytest.raises(DataError, match=message):
        read_sources(str(tmp_path / "data.jsonl"))


def test_ratings_of_any_scale_are_no_matter_to_sources(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"candidate": "a", "rating": 4}\n')
    assert [source.captions for source in read_sources(str(tmp_path / "data.jsonl"))] == [("a",)]


def test_sources_of_other_columns_and_references(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"caption": "a", "image_id": 7}\n')
    (tmp_path / "refs.json").write_text('{"7": ["one", "two"]}')
    name, references = str(tmp_path / "data.jsonl"), [tmp_path / "refs.json"]
    assert [source.captions for source in read_sources(name, references=references)] == [("one", "two")]
    (tmp_path / "other.jsonl").write_text('{"caption": "a", "what": "b"}\n')
    found = read_sources(str(tmp_path / "other.jsonl"), columns={"candidate": "what"})
    assert [source.captions for source in found] == [("b",)]


def test_sources_come_from_every_kind_of_data(tmp_path):
    picture().save(tmp_path / "a.png")
    image = tmp_path / "a.png"
    rows = {
        "own": '{"id": 3, "image": "a.png", "caption": "one"}\n{"caption": "two"}\n',
        "pairs": '{"image": "a.png", "captions": ["one", "two"]}\n',
        "rated": '{"candidate": "x", "references": ["one"], "image": "a.png"}\n{"candidate": "y"}\n',
    }
    for name, text in rows.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert read_sources(str(tmp_path / "own.jsonl")) == [
        Source(image, ("one",), "3"),
        Source(None, ("two",), "2"),
    ]
    assert read_sources(str(tmp_path / "pairs.jsonl")) == [Source(image, ("one", "two"))]
    assert [source.captions for source in read_sources(str(tmp_path / "rated.jsonl"))] == [("one",), ("y",)]


@pytest.mark.parametrize("captions", ['"caption": "one"', '"captions": ["one"]', '"candidate": "one"'])
def test_paths_of_rows_in_a_file_start_beside_it_or_in_the_folder_of_images(tmp_path, captions):
    for folder in ("photos", "root"):
        (tmp_path / folder).mkdir()
        picture().save(tmp_path / folder / "a.png")
    name = str(tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl").write_text(f'{{"image": "a.png", {captions}}}\n')
    [found] = read_sources(name, images=tmp_path / "photos")
    assert (found.image, found.captions) == (tmp_path / "photos" / "a.png", ("one",))
    with pytest.raises(ConfigError, match=r"rows.jsonl is a file and takes no root; .*\(--images\)"):
        read_sources(name, root=tmp_path / "root")


@pytest.mark.parametrize(("there", "here"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_an_image_of_a_source_is_found_whether_its_name_is_composed_or_not(tmp_path, there, here):
    name = unicodedata.normalize(here, "ガード.png")
    file = tmp_path / unicodedata.normalize(there, name)
    picture().save(file)
    split = {"images": [{"filename": name, "split": "train", "sentences": [{"raw": "one"}]}]}
    rows = {
        "own.jsonl": {"image": name, "caption": "one"},
        "pairs.jsonl": {"image": name, "captions": ["one"], "generated_images": [name]},
        "split.json": split,
    }
    for kind, row in rows.items():
        (tmp_path / kind).write_text(json.dumps(row) + "\n")
        [found] = read_sources(str(tmp_path / kind) + (":train" if kind == "split.json" else ""))
        assert [found.image, *found.generated_images] == [file, *([file] if kind == "pairs.jsonl" else [])]


@pytest.mark.parametrize("place", ["val2014", "."])
def test_an_image_of_a_karpathy_split_is_found_in_its_folder_or_without_however_it_is_composed(
    tmp_path, place
):
    file = tmp_path / place / unicodedata.normalize("NFC", "ガード.png")
    file.parent.mkdir(exist_ok=True)
    picture().save(file)
    name = unicodedata.normalize("NFD", file.name)
    image = {"filepath": "val2014", "filename": name, "split": "train", "sentences": [{"raw": "one"}]}
    (tmp_path / "split.json").write_text(json.dumps({"images": [image]}))
    assert [found.image for found in read_sources(f"{tmp_path / 'split.json'}:train")] == [file]


def test_sources_are_read_of_a_karpathy_split(tmp_path):
    (tmp_path / "images").mkdir()
    picture().save(tmp_path / "images" / "a.png")
    sentences = [{"raw": "one"}, {"raw": "two"}]
    images = [
        {"filename": name, "split": part, "sentences": sentences}
        for name, part in (("a.png", "train"), ("b.png", "val"))
    ]
    (tmp_path / "dataset.json").write_text(json.dumps({"images": images}))
    found = read_sources(f"{tmp_path / 'dataset.json'}:train", images=tmp_path / "images")
    assert found == [Source(tmp_path / "images" / "a.png", ("one", "two"), "a.png")]
    with pytest.raises(ConfigError, match="name its parts"):
        read_sources(str(tmp_path / "dataset.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"caption": "a"}\n{"caption": 3}\n', "line 2: image and caption must be text"),
        ('{"caption": "a", "id": 1}\n{"caption": "b", "id": 1}\n', "line 2: id '1' is used"),
        ('{"caption": "a"}\n{"caption": " "}\n', "line 2: neither"),
        ('{"caption": "a", "captoin": 1}\n{"caption": 3}\n', "line 2: image and caption must be text"),
        ("[]\n", "line 1: expected a JSON object"),
        ("", "no rows"),
    ],
)
def test_bad_rows_are_named(tmp_path, text, message):
    (tmp_path / "data.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_sources(str(tmp_path / "data.jsonl"))
