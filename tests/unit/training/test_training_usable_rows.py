"""Rows that a training leaves out: without a rating, or with an image that cannot be decoded."""

import json

import pytest
from PIL import Image

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.models.config import RegressorConfig
from suisei.training.datamodule import CaptionDataModule
from suisei.training.run import _looks_at_images
from suisei.training.usable_rows import decodable_rows, rated_rows


@pytest.fixture
def pictured(tmp_path):
    """A file of 20 rated rows over ten images, of which the third is cut off, as rows 3 and 13 say."""
    for number in range(10):
        Image.effect_noise((40, 40), 50).convert("RGB").save(tmp_path / f"{number}.jpg")
    broken = tmp_path / "2.jpg"
    broken.write_bytes(broken.read_bytes()[:-300])
    rows = [{"candidate": f"a dog {n}", "image": f"{n % 10}.jpg", "rating": n / 20} for n in range(20)]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def loaded(path, *, pictured, **options):
    module = CaptionDataModule(str(path), fractions=(0.6, 0.2, 0.2), **options)
    module.load(pictured=pictured)
    return module


def test_rows_without_a_rating_are_left_out_by_their_numbers_in_the_file():
    first, second, third = (CaptionSample(text, rating=rating) for text, rating in
                            (("a", Rating((0.5,))), ("b", None), ("c", Rating((0.7,)))))  # fmt: skip
    rows, left_out = rated_rows("r.jsonl", [first, second, third], {1, 3}, "skip")
    assert rows == [(2, first), (5, third)]
    assert [row.number for row in left_out] == [4]
    assert "r.jsonl, row 4: no rating" in str(left_out[0].error)
    with pytest.raises(DataError, match=r"1 of 3 samples have no rating, the first is row 4;"):
        rated_rows("r.jsonl", [first, second, third], {1, 3}, "raise")


def test_ratings_in_columns_of_other_names_are_named(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("caption,worker,r1,r2\na dog,w,1,\na cat,w,0.5,0\n")
    with pytest.raises(DataError, match=r"'rating', or .*fill nothing: 'r1', 'r2'\)$"):
        loaded(path, pictured=False)


def test_rows_of_a_damaged_image_are_left_out_and_named(pictured, caplog, capsys):
    module = loaded(pictured, pictured=True, on_error="skip")
    assert len(module.samples) == 18
    assert not any(str(sample.image).endswith("2.jpg") for sample in module.samples)
    assert [row.number for row in module.skipped] == [3, 13]
    first = f"{pictured}, row 3: {pictured.parent / '2.jpg'}: the image cannot be decoded"
    assert str(module.skipped[0].error).startswith(first)
    assert f"2 bad rows skipped, the first: {first}" in caplog.text
    assert "decoding images: 10" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"pictured": False, "on_error": "skip"}, {"pictured": True}])
def test_images_are_opened_where_they_are_looked_at_and_rows_may_go_alone(pictured, options, capsys):
    module = loaded(pictured, **options)
    assert len(module.samples) == 20
    assert not module.skipped
    assert "decoding" not in capsys.readouterr().err


def test_rows_without_images_and_images_in_memory_stay(capsys):
    picture = Image.new("RGB", (8, 8))
    rows = [(1, CaptionSample("a")), (4, CaptionSample("b", image=picture)), (5, CaptionSample("c"))]
    assert decodable_rows("data", rows, told=False) == (rows, [])
    assert capsys.readouterr().err == ""


def test_images_that_go_away_meanwhile_cost_no_rows(pictured):
    rows = [(number, CaptionSample("a", image=pictured.parent / f"{number}.jpg")) for number in (0, 1, 3, 4)]
    (pictured.parent / "3.jpg").unlink()
    with pytest.raises(DataError, match=r"3\.jpg is not there any more; start again"):
        decodable_rows("data", rows, told=False)


def test_a_set_of_damaged_images_alone_is_refused(pictured):
    for path in pictured.parent.glob("*.jpg"):
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match="samples"):
        loaded(pictured, pictured=True, on_error="skip")


@pytest.mark.parametrize(
    ("extra", "looked"), [("ridge", False), ("cider", False), ("PAC-S:folder", True), ("ref-clip-s", True)]
)
def test_who_looks_at_images(extra, looked):
    config = RegressorConfig()
    assert config.image is not None
    assert _looks_at_images(config)
    config.image = None
    assert not _looks_at_images(config)
    config.fusion.extra_inputs = [extra]
    assert _looks_at_images(config) is looked


@pytest.mark.parametrize(("looked", "images"), [(True, 9), (False, 10)])
def test_captions_that_support_are_left_out_where_their_images_are_looked_at(pictured, looked, images):
    rows = [{"image": f"{number}.jpg", "captions": [f"a cat {number}"]} for number in range(10)]
    support = pictured.with_name("support.jsonl")
    support.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    texts = pictured.with_name("texts.jsonl")
    texts.write_text(
        "".join(json.dumps({"candidate": f"a dog {n}", "rating": n / 9}) + "\n" for n in range(9))
    )
    module = loaded(texts, pictured=looked, support=str(support), on_error="skip")
    assert len(module.support_data.images) == images
    assert len(module.skipped) == 10 - images
