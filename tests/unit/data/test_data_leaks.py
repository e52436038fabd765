"""Content that parts share under different group names is counted, and said once."""

import json
import logging

import numpy as np
import pytest
from PIL import Image

from suisei.data.copies import content_of, copies_among
from suisei.data.leaks import describe_shared, linked_groups, shared_contents, shared_image
from suisei.data.sample import CaptionSample
from suisei.training.datamodule import CaptionDataModule


def rows(count, *, prefix="g", images=None):
    return [
        {
            "candidate": f"caption {number}",
            "references": [f"reference {number}", "and another"],
            "rating": [number / count],
            "group": f"{prefix}{number}",
            **({} if images is None else {"image": str(images[number % len(images)])}),
        }
        for number in range(count)
    ]


def write(path, content):
    path.write_text("\n".join(json.dumps(row) for row in content) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def pictures(tmp_path):
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"{number}.png")
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(paths[-1])
    return paths


def test_training_rows_under_other_names_are_counted_by_row_and_references(tmp_path, caplog):
    train = write(tmp_path / "train.jsonl", rows(20))
    other = [{**row, "references": row["references"][::-1]} for row in rows(5, prefix="x")]
    other += [{**row, "candidate": "new"} for row in rows(7, prefix="y")[5:]]
    test = write(tmp_path / "test.jsonl", other)
    module = CaptionDataModule(train, test=test, fractions=(0.9, 0.1, 0.0))
    with caplog.at_level(logging.WARNING):
        module.load()
    held = {sample.group for sample in module.part("validation")}
    in_train = sum(f"g{number}" not in held for number in range(7))
    assert module.shared["test and train"]["references"] == in_train
    assert module.shared["test and train"]["images"] == 0
    assert module.shared["test and train"]["rows"] == sum(f"g{n}" not in held for n in range(5))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert f"{module.shared['test and train']['rows']} rows" in said[0]
    assert "\n" not in said[0]


def test_validation_is_looked_at_too(tmp_path, caplog):
    train = write(tmp_path / "train.jsonl", rows(20))
    validation = write(tmp_path / "validation.jsonl", rows(20, prefix="x"))
    module = CaptionDataModule(train, validation=validation)
    module.load()
    assert set(module.shared) == {"validation and train", "test and validation"}
    assert module.shared["validation and train"]["rows"] == len(module.part("train"))


def test_data_that_share_nothing_are_passed_without_a_word(tmp_path, caplog):
    train = write(tmp_path / "train.jsonl", rows(20))
    test = write(tmp_path / "test.jsonl", [{**row, "references": ["other"]} for row in rows(3, prefix="x")])
    module = CaptionDataModule(train, test=test)
    module.load()
    assert module.shared == {}
    assert caplog.records == []


def sample(image, number=0):
    return CaptionSample(f"caption {number}", (f"reference {number}",), image)


def test_an_image_is_the_same_under_another_name_and_as_a_copy(pictures, tmp_path):
    copy, link = tmp_path / "copy.png", tmp_path / "link.png"
    copy.write_bytes(pictures[0].read_bytes())
    link.symlink_to(pictures[1])
    training = [sample(path, number) for number, path in enumerate(pictures[:3])]
    held_out = [
        sample(path, 10 + number) for number, path in enumerate((copy, link, pictures[2], pictures[3]))
    ]
    assert shared_contents(held_out, training) == {"rows": 0, "images": 3, "references": 0}
    assert shared_contents(held_out[-1:], training) == {}
    assert shared_contents([sample(copy, 0)], training)["rows"] == 1


@pytest.mark.parametrize("differs", [b"b" * 100, b"b" + b"a" * 9_999, b"a" * 9_999 + b"b"])
def test_files_of_one_size_are_compared_by_content(tmp_path, differs):
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    one.write_bytes(b"a" * len(differs))
    other.write_bytes(differs)
    assert shared_contents([sample(one)], [sample(other, 1)]) == {}
    other.write_bytes(one.read_bytes())
    assert shared_contents([sample(one)], [sample(other, 1)])["images"] == 1


def test_a_copy_of_an_image_that_both_parts_have_is_found(pictures, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(pictures[0].read_bytes())
    training = [sample(pictures[0], 1), sample(pictures[1], 2)]
    assert shared_contents([sample(pictures[0], 3), sample(copy, 1)], training)["rows"] == 1
    assert shared_contents([sample(pictures[0], 3), sample(copy, 4)], training)["images"] == 1


def test_a_training_names_a_copy_and_the_image_that_it_is_of(pictures, tmp_path, caplog):
    copies = [tmp_path / f"copy{number}.png" for number in range(4)]
    for copy, picture in zip(copies, pictures, strict=True):
        copy.write_bytes(picture.read_bytes())
    train = write(tmp_path / "train.jsonl", rows(20, images=pictures))
    tested = [{**row, "references": ["other"]} for row in rows(1, prefix="x", images=copies)]
    module = CaptionDataModule(train, test=write(tmp_path / "test.jsonl", tested))
    module.load()
    assert module.shared["test and train"] == {"rows": 0, "images": 1, "references": 0}
    assert caplog.messages[-1].endswith(f"For instance, {copies[0]} is a copy of {pictures[0]}.")


def test_an_image_of_both_parts_is_no_copy_of_itself(pictures, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(pictures[0].read_bytes())
    assert copies_among([pictures[0], copy], pictures) == {str(copy): str(pictures[0])}


def test_files_are_one_by_all_of_their_content_alone(tmp_path):
    end = b"the same" * 1000  # longer than what is read of an end
    contents = {
        "a": b"1" + end,
        "copy": b"1" + end,
        "begins otherwise": b"2" + end,
        "ends otherwise": b"1" * 8001,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = content_of(tmp_path / name for name in (*contents, "link", "absent"))
    of = {path.name: key for path, key in found.items()}
    assert of["a"] == of["copy"]
    assert of["link"] == of["a"]
    assert len({of[name] for name in ("a", "begins otherwise", "ends otherwise", "absent")}) == 4


def test_a_copy_is_looked_for_in_parts_that_share_images_alone(pictures, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(pictures[0].read_bytes())
    parts = {"train": [sample(pictures[0], 1)], "test": [sample(copy, 2)], "support": []}
    counts = {"rows": 0, "images": 1, "references": 0}
    said = f"{copy} is a copy of {pictures[0]}"
    assert shared_image(parts, {"test and support": counts, "test and train": counts}) == said
    assert shared_image(parts, {"test and train": {**counts, "images": 0, "references": 1}}) == ""


def test_images_in_memory_and_missing_files_are_no_trouble(tmp_path):
    picture = Image.new("RGB", (4, 4), "red")
    held_out = [sample(picture, 1), sample(tmp_path / "absent.png", 2), sample(None, 3)]
    assert shared_contents(held_out, [sample(picture.copy(), 4)])["images"] == 1
    assert shared_contents(held_out[1:], [sample(tmp_path / "other.png", 4)]) == {}


def test_samples_without_references_or_image_are_the_same_by_candidate_alone():
    assert shared_contents([CaptionSample("a dog")], [CaptionSample("a cat")]) == {}
    assert shared_contents([CaptionSample("a dog")], [CaptionSample("a dog")])["rows"] == 1


def test_captions_are_the_same_in_another_case_and_without_their_punctuation():
    own = [CaptionSample("A dog.", ("Two dogs.", "犬が 走る。"))]
    others = [CaptionSample("a dog", ("two dogs", "犬が走る"))]
    assert shared_contents(own, others) == {"rows": 1, "images": 0, "references": 1}
    others = [CaptionSample("a cat", ("TWO DOGS!", "犬が走る"))]
    assert shared_contents(own, others) == {"rows": 0, "images": 0, "references": 1}


def test_rows_whose_references_are_written_otherwise_in_training_are_said(tmp_path, caplog):
    written = [{**row, "references": [text.title() + "." for text in row["references"]]} for row in rows(40)]
    content = [dict(row, group=None) for row in [*rows(40), *written]]
    module = CaptionDataModule(write(tmp_path / "both.jsonl", content))
    with caplog.at_level(logging.WARNING):
        module.load()
    assert module.shared["test and train"]["rows"] == module.shared["test and train"]["references"] > 0
    assert "what was trained on is tested again" in caplog.text


@pytest.mark.parametrize(
    ("held_out", "training", "shared"),
    [
        ("abcd", ["bcde", "xyz"], 1),  # each caption of an image was a candidate beside the rest
        ("abc", ["bcd"], 1),
        ("a", ["abcde"], 1),
        ("abcde", ["exyzw", "dvuts"], 0),  # a caption that fits two images
        ("ab", ["bc"], 0),
        ("", ["abc"], 0),
    ],
)
def test_references_are_shared_where_more_than_half_of_them_are(held_out, training, shared):
    own = [CaptionSample("a dog", tuple(held_out)), CaptionSample("a cat", tuple(held_out))]
    others = [CaptionSample(f"caption {row}", tuple(references)) for row, references in enumerate(training)]
    assert shared_contents(own, others).get("references", 0) == shared


def test_the_sentence_has_the_counts():
    text = describe_shared({"test and train": {"rows": 1200, "images": 3, "references": 4}})
    assert "test and training share 1,200 rows, 3 images and 4 sets of references: what was trained" in text
    assert describe_shared({}) == ""


@pytest.mark.parametrize(
    ("parts", "said", "unsaid"),
    [
        ("test and train", "what was trained on is tested again, and the figures are too good", "weights"),
        ("test and validation", "what chose the weights is tested again", "trained on"),
        ("validation and train", "the weights are chosen by what they learned from", "too good"),
        ("validation and support", "the weights are chosen by what they learned from", "too good"),
        ("test and support", "captions of what is tested were learned from", "trained on"),
    ],
)
def test_what_follows_is_that_of_the_parts_concerned(parts, said, unsaid):
    text = describe_shared({parts: {"rows": 0, "images": 1, "references": 0}})
    assert f"{parts.replace('train', 'training')} share 1 image: {said}" in text
    assert unsaid not in text


def test_counts_of_several_folds_are_added_up():
    folds = [{"test and train": {"rows": n, "images": 0, "references": 1}} for n in (2, 3)]
    text = describe_shared(*folds, {})
    assert "added up over 3 folds" in text
    assert "share 5 rows and 2 sets of references" in text
    assert "added up over 2 folds" in describe_shared(*folds)
    assert "folds" not in describe_shared(folds[0])
    assert describe_shared({}, {}) == ""


def test_groups_of_several_sources_are_linked_by_their_images():
    def source(name, *pairs):
        return [CaptionSample("a dog", image=image, group=f"{name}/{group}") for group, image in pairs]

    a = source("a", ("1", "x.png"), ("2", "y.png"), ("3", "z.png"), ("4", "z.png"))
    b = source("b", ("1", "w.png"), ("2", "sub/../x.png"), ("3", "v.png"), ("3", "y.png"), ("3", "x.png"))
    assert linked_groups([a, b]) == {"a/2": "a/1", "b/2": "a/1", "b/3": "a/1"}
    assert linked_groups([a]) == linked_groups([a, source("c", ("1", None))]) == {}
