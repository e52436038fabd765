"""Bad rows, absent files and damaged images of images with captions: refused, or left out and named."""

import json
import time

import pytest
from PIL import Image

from suisei.captioning.caption_sources import load_captioned
from suisei.data import decodable
from suisei.data.pairs import load_different_pairs, load_pairs
from suisei.errors import DataError
from suisei.training.support import read_support

LEFT_OUT = [
    r"pairs\.jsonl, row 2: not valid JSON",
    r"pairs\.jsonl, row 5: captions is empty",
    r"pairs\.jsonl: there is no file .*gone\.png",
    r"pairs\.jsonl: .*cut\.jpg: the image cannot be decoded",
    r"pairs\.jsonl: .*made\.jpg: the image cannot be decoded",
]
"""What is wrong with five of the eight rows, in the order in which it is found."""


@pytest.fixture
def source(tmp_path):
    """Eight rows, of which the first, the seventh and the last can be used."""
    for number, name in enumerate(("a.png", "b.png", "c.png", "d.png", "cut.jpg", "made.jpg")):
        Image.effect_noise((40, 40 + number), 50).convert("RGB").save(tmp_path / name)
    for name in ("cut.jpg", "made.jpg"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-300])
    rows = [
        {"image": "a.png", "captions": ["a dog"]},
        "{",
        {"image": "gone.png", "captions": ["a cat"]},
        {"image": "cut.jpg", "captions": ["a tree"]},
        {"image": "b.png", "captions": []},
        {"image": "d.png", "captions": ["a house"], "generated_images": ["made.jpg"]},
        {"image": "b.png", "captions": ["a bird"]},
        {"image": "c.png", "captions": ["a fish"]},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def assert_left_out(skipped, expected):
    assert len(skipped) == len(expected)
    for row, pattern in zip(skipped, expected, strict=True):
        with pytest.raises(DataError, match=pattern):
            raise row.error


def test_pairs_are_left_out_with_their_reason(source, capsys):
    skipped = []
    pairs = load_different_pairs(str(source), "train", on_error="skip", skipped=skipped)
    assert [pair.captions for pair in pairs] == [("a dog",), ("a bird",), ("a fish",)]
    assert_left_out(skipped, LEFT_OUT)
    assert "pairs.jsonl: decoding images: 6" in capsys.readouterr().err
    skipped = []
    assert len(load_pairs(str(source), on_error="skip", skipped=skipped)) == 5  # nothing is decoded
    assert_left_out(skipped, LEFT_OUT[:3])


def test_captioned_images_are_left_out_with_their_reason(source, capsys):
    skipped = []
    found = load_captioned(str(source), on_error="skip", skipped=skipped, told=False)
    assert [image.captions for image in found] == [("a dog",), ("a house",), ("a bird",), ("a fish",)]
    assert_left_out(skipped, LEFT_OUT[:4])  # images that were generated are not looked at
    assert capsys.readouterr().err == ""


def test_images_of_annotations_are_left_out_too(source):
    annotations = source.with_name("captions.json")
    names = ["a.png", "cut.jpg", "gone.png", "b.png"]
    annotations.write_text(
        json.dumps(
            {
                "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
                "annotations": [{"image_id": n, "caption": f"a dog {n}"} for n in range(4)],
            }
        )
    )
    skipped = []
    found = load_captioned(str(annotations), on_error="skip", skipped=skipped)
    assert [image.id for image in found] == ["0", "3"]
    assert_left_out(
        skipped, [r"captions\.json: there is no file .*gone\.png", r"captions\.json: .*cut\.jpg: "]
    )


def test_annotations_whose_images_all_lie_elsewhere_are_refused(source):
    annotations = source.with_name("captions.json")
    content = {
        "images": [{"id": 1, "file_name": "x.png"}],
        "annotations": [{"image_id": 1, "caption": "a dog"}],
    }
    annotations.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"1 of 1 image files are not there.*; say where images are"):
        load_captioned(str(annotations), on_error="skip")


def test_rows_of_samples_are_left_out_too(source):
    rows = source.with_name("rows.jsonl")
    samples = [
        {"candidate": "a dog", "image": "a.png"},
        {"candidate": "a tree", "image": "cut.jpg"},
        {"candidate": "a cat", "image": "gone.png"},
    ]
    rows.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    skipped = []
    found = load_captioned(str(rows), on_error="skip", skipped=skipped)
    assert [image.captions for image in found] == [("a dog",)]
    assert_left_out(skipped, [r"rows\.jsonl, row 3: .*gone\.png", r"rows\.jsonl: .*cut\.jpg: "])


@pytest.mark.parametrize("read", [load_pairs, load_captioned])
def test_the_first_bad_row_is_refused_unless_it_may_be_left_out(source, read):
    with pytest.raises(DataError, match="row 2: not valid JSON"):
        read(str(source))
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join(line for line in lines if line != "{\n" and '"captions": []' not in line))
    with pytest.raises(DataError, match=r"gone\.png"):
        read(str(source))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "a.png", "captions": []}, "none of the 2 rows is usable; the first problem: .*row 1"),
        ({"image": "gone.png", "captions": ["a dog"]}, r"gone\.png; (give the folder|say where)"),
        ({"image": "cut.jpg", "captions": ["a dog"]}, r"none of the 1 row is usable.*cut\.jpg"),
    ],
)
def test_data_without_any_usable_row_are_refused(source, row, message):
    bad = "{\n" if not row["captions"] else ""
    source.write_text(json.dumps(row) + "\n" + bad)
    with pytest.raises(DataError, match=message):
        load_different_pairs(str(source), "train", on_error="skip")
    with pytest.raises(DataError, match=message):
        load_captioned(str(source), on_error="skip")


@pytest.mark.parametrize(("pictured", "images", "left_out"), [(True, 3, LEFT_OUT), (False, 5, LEFT_OUT[:3])])
def test_captions_that_support_a_training_are_left_out_with_images_that_it_looks_at(
    source, pictured, images, left_out
):
    skipped = []
    found = read_support(str(source), on_error="skip", skipped=skipped, pictured=pictured, told=False)
    assert len(found.images) == len(found.groups) == images
    assert_left_out(skipped, left_out)


def test_an_interrupted_search_for_damaged_images_does_not_go_on_to_the_last(monkeypatch):
    begun = []

    def slow(image, _):
        begun.append(image)
        time.sleep(0.005)

    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(decodable, "read_image", slow)
    with pytest.raises(KeyboardInterrupt):
        decodable.decoding_problems([Image.new("RGB", (1, 1)) for _ in range(200)], stop)
    assert len(begun) < 100
