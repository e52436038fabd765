"""What positives are made of: rows, splits and files of captions with images."""

import gzip
import json
import unicodedata

import pytest

from suisei.errors import ConfigError, DataError
from suisei.pacs.sources import Source, read_sources
from tests.unit.pacs.pacs_models import picture


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


def test_a_caption_is_the_same_text_in_every_form_of_file(tmp_path):
    picture().save(tmp_path / "a.png")
    said = ["A dog runs.\n", " two \ufeffcats", unicodedata.normalize("NFD", "ガラス")]
    image = {"filename": "a.png", "split": "train", "sentences": [{"raw": text} for text in said]}
    (tmp_path / "split.json").write_text(json.dumps({"images": [image]}))
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"image": "a.png", "captions": said}) + "\n")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"caption": text}) + "\n" for text in said))
    for name in ("split.json:train", "pairs.jsonl", "rows.jsonl"):
        found = [text for source in read_sources(str(tmp_path / name)) for text in source.captions]
        assert found == ["A dog runs.", "two cats", "ガラス"]
