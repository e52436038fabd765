"""Which of the names of a row joins it with references: its id, its image, its group or a number."""

import pytest

from suisei.data.coco import read_results
from suisei.data.formats import iter_rows, read_samples
from suisei.errors import DataError
from tests.unit.data.row_files import lines, save


def test_row_numbers_as_ids_do_not_take_the_place_of_images(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", *({"id": n, "image_id": 3 - n, "caption": "a"} for n in (1, 2)))
    references = lines(
        tmp_path / "refs.jsonl", {"image_id": 1, "refs": ["one"]}, {"image_id": 2, "refs": ["two"]}
    )
    samples = read_samples(rows, references=[references], note=str)
    assert [sample.references for sample in samples] == [("two",), ("one",)]


def test_row_numbers_in_both_files_do_not_take_the_place_of_image_files(tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / name).touch()

    def rows(name, *images, **more):
        return lines(tmp_path / name, *({"id": n, "image": each, **more} for n, each in enumerate(images, 1)))

    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": n, "image": f"x/{name}.png", "captions": [name]} for n, name in enumerate("abc", 1)),
    )
    samples = read_samples(
        rows("r.jsonl", "c.png", "a.png", candidate="x"), references=[references], note=str
    )
    assert [sample.references for sample in samples] == [("c",), ("a",)]
    wrong = lines(
        tmp_path / "wrong.jsonl",
        {"id": 1, "candidate": "x"},
        {"id": 2, "candidate": "x", "image": "c.png"},
        {"id": 3, "candidate": "x"},
    )
    first, second, third = iter_rows(wrong, references=[references], note=str)
    assert [row.sample and row.sample.references for row in (first, second, third)] == [("a",), None, ("c",)]
    assert "'c.png' is said to be image '2', and" in str(second.error)


def test_ids_that_pandas_wrote_as_floats_are_those_numbers(tmp_path):
    found = read_results(save(tmp_path / "r.json", [{"image_id": 42.0, "caption": "a dog"}]))
    assert list(found.captions) == ["42"]
    with pytest.raises(DataError, match=r"must be a number or text, got 42\.5"):
        read_results(save(tmp_path / "r.json", [{"image_id": 42.5, "caption": "a dog"}]))


@pytest.mark.parametrize("name", ["group", "image", "file_name"])
@pytest.mark.parametrize("form", ["a list a row", "a caption a row"])
def test_rows_are_joined_by_what_names_the_image_where_ids_number_the_rows(tmp_path, name, form):
    for image in "abcdef":
        (tmp_path / image).touch()
    own = "group" if name == "group" else "image"
    said = [(image, text) for image in "abcdef" for text in (f"one {image}", f"two {image}")]
    if form == "a list a row":
        said = [(image, [f"one {image}", f"two {image}"]) for image in "fedcba"]
    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": n, name: image, "captions": text} for n, (image, text) in enumerate(said)),
    )
    rows = [{"id": n, own: image, "candidate": "x"} for n, image in enumerate("abcdef")]
    notes = []
    samples = read_samples(lines(tmp_path / "r.jsonl", *rows), references=[references], note=notes.append)
    assert [sample.references for sample in samples] == [(f"one {x}", f"two {x}") for x in "abcdef"]
    assert "6 images; " in notes[-1]
    assert notes[-1].endswith(f"joined with it by {own}")


@pytest.mark.parametrize("name", ["image", "group"])
def test_ids_that_number_rows_join_none_with_another_image_where_references_lack_theirs(tmp_path, name):
    for image in "abcde":
        (tmp_path / image).touch()
    said = [(image, f"{text} {image}") for image in "ab" for text in ("one", "two")]
    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": n, name: image, "captions": text} for n, (image, text) in enumerate(said)),
    )
    rows = [{"id": n, name: image, "candidate": "x"} for n, image in enumerate("abcde")]
    notes = []
    samples = read_samples(lines(tmp_path / "r.jsonl", *rows), references=[references], note=notes.append)
    assert [s.references for s in samples] == [("one a", "two a"), ("one b", "two b"), (), (), ()]
    assert "has no references for 3 rows" in notes[-1]


def test_ids_join_images_whose_files_are_called_otherwise_in_the_references(tmp_path):
    for image in "ab":
        (tmp_path / image).touch()
    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": n, "image": f"copy-{image}", "captions": image} for n, image in enumerate("ab")),
    )
    rows = [{"id": n, "image": image, "candidate": "x"} for n, image in enumerate("ab")]
    samples = read_samples(lines(tmp_path / "r.jsonl", *rows), references=[references], note=str)
    assert [sample.references for sample in samples] == [("a",), ("b",)]


@pytest.mark.parametrize(("swapped", "kind"), [(0, "id"), (2, "id"), (6, "group")])
def test_rows_that_ids_and_groups_join_with_different_images_are_told(tmp_path, swapped, kind):
    groups = "aabbccdd"
    said = ({"id": n, "group": group, "captions": f"{n} of {group}"} for n, group in enumerate(groups))
    references = lines(tmp_path / "refs.jsonl", *said)
    others = groups[: 8 - swapped] + "".join("abcd"["dabc".index(group)] for group in groups[8 - swapped :])
    rows = [{"id": n, "group": group, "candidate": "x"} for n, group in enumerate(others)]
    path, notes = lines(tmp_path / "r.jsonl", *rows), []
    read_samples(path, references=[references], note=notes.append, on_error="skip")
    told = f"by id {swapped} of 8 rows looked at are of other images than by group; " if swapped else ""
    assert notes[0].endswith(f" images; {told}rows of {path} are joined with it by {kind}")


@pytest.mark.parametrize(("numbers", "count"), [([0, 1, 2], 2), ([0, 4, 5], 0), ([0], 0)])
def test_numbers_that_may_be_ids_or_groups_of_the_references_are_told(tmp_path, numbers, count):
    said = ({"id": n, "group": n // 2, "captions": f"of {n}"} for n in range(6))
    references, notes = lines(tmp_path / "refs.jsonl", *said), []
    path = lines(tmp_path / "r.jsonl", *({"image_id": n, "candidate": "x"} for n in numbers))
    read_samples(path, references=[references], note=notes.append, on_error="skip")
    share = f"as an id the group of {count} of {len(numbers)} rows looked at is of other images than"
    told = f"{share} as a group or file; taken as group or file; " if count else ""
    assert notes[-1].endswith(f" images; {told}rows of {path} are joined with it by group")


@pytest.mark.parametrize("name", ["imageId", "Image ID", "image_id", "ImgId"])
@pytest.mark.parametrize("form", ["under a key", "a row a line"])
def test_fields_of_references_are_known_by_the_names_that_columns_are(tmp_path, name, form):
    rows = [
        {"Caption" if form == "a row a line" else "caption": text, name: n, "ID": 1 - n}
        for n, text in [(1, "one"), (0, "zero")]
    ]
    if form == "under a key":
        path = save(tmp_path / "r.json", {str(key): row for key, row in enumerate(rows)})
    else:
        path = lines(tmp_path / "r.jsonl", *rows)
    samples = read_samples(path, references=[path], note=str)
    assert [(sample.candidate, *sample.references) for sample in samples] == [
        ("one", "one"),
        ("zero", "zero"),
    ]


@pytest.mark.parametrize("keyed", [False, True])
def test_a_group_of_several_images_does_not_stand_for_the_image_that_rows_name(tmp_path, keyed):
    rows = [{"caption": f"of {n}", "image_id": n + 7, "group": f"g{n // 2}"} for n in range(4)]
    if keyed:
        path = save(tmp_path / "r.json", {str(key): row for key, row in enumerate(rows)})
    else:
        path = lines(tmp_path / "r.jsonl", *rows)
    with pytest.raises(DataError, match="none of its first 4 rows has an image"):
        read_samples(path, references=[path], note=str)


def test_rows_joined_otherwise_are_told_of_those_looked_at(tmp_path):
    said = ({"id": n, "group": f"g{n // 2}", "captions": f"of {n}"} for n in range(1100))
    references = lines(tmp_path / "refs.jsonl", *said)
    rows = (
        {"id": n, "group": f"g{(n // 2 + 1) % 550 if n % 4 else n // 2}", "candidate": "x"}
        for n in range(1100)
    )
    path, notes = lines(tmp_path / "r.jsonl", *rows), []
    read_samples(path, references=[references], note=notes.append, on_error="skip")
    assert "by id 750 of 1,000 rows looked at are of other images than by group; " in notes[0]


def test_ids_that_agree_join_rows_of_one_group(tmp_path):
    """As do segments of a video, whose captions differ."""
    parts = [("s1", "v1"), ("s2", "v1"), ("s3", "v2")]
    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": part, "group": video, "refs": [f"of {part}"]} for part, video in parts),
    )
    rows = [{"id": part, "group": video, "candidate": "x"} for part, video in parts]
    samples = read_samples(lines(tmp_path / "r.jsonl", *rows), references=[references], note=str)
    assert [sample.references for sample in samples] == [("of s1",), ("of s2",), ("of s3",)]
    rows[1]["group"] = "v2"
    _, second, _ = iter_rows(lines(tmp_path / "w.jsonl", *rows), references=[references], note=str)
    assert "'v2' is said to be image 's2', and" in str(second.error)


def test_lists_of_references_that_rows_of_an_image_repeat_are_one(tmp_path):
    said = [("a", ["x", "y"]), ("a", ["x", "y"]), ("b", ["z", "w"])]
    references = lines(
        tmp_path / "refs.jsonl",
        *({"id": f"r{n}", "group": group, "references": texts} for n, (group, texts) in enumerate(said)),
    )
    rows = lines(
        tmp_path / "r.jsonl", *({"id": n, "group": group, "candidate": "x"} for n, group in enumerate("ba"))
    )
    samples = read_samples(rows, references=[references], note=str)
    assert [sample.references for sample in samples] == [("z", "w"), ("x", "y")]


@pytest.mark.parametrize("column", ["imgid", "cocoid", "image_id"])
def test_a_karpathy_split_is_joined_by_its_own_numbers_where_rows_have_those(tmp_path, column):
    """Numbers of the split are ids of COCO, too: of other images."""
    numbered = [(n, n + 2, f"{'abcdefgh'[n]}.jpg") for n in range(8)]
    images = [
        {"imgid": n, "cocoid": coco, "filename": file, "sentences": [{"raw": f"of {file}"}]}
        for n, coco, file in numbered
    ]
    split = save(tmp_path / "dataset_coco.json", {"images": images})
    by_number = column == "imgid"
    said = [(n if by_number else coco, file) for n, coco, file in numbered[1:]]
    rows = lines(
        tmp_path / "rows.jsonl", *({"id": k, column: n, "candidate": "x"} for k, (n, _) in enumerate(said))
    )
    for _, file in said:
        (tmp_path / file).touch()
    notes = []
    samples = read_samples(rows, references=[split], images=tmp_path, note=notes.append)
    assert [sample.references for sample in samples] == [(f"of {file}",) for _, file in said]
    assert [sample.image for sample in samples] == [tmp_path / file for _, file in said]
    assert any("Karpathy's splits, by imgid, 8 images" in note for note in notes) == by_number


def test_numbers_of_a_karpathy_split_are_no_numbers_of_rows(tmp_path):
    images = [
        {"imgid": n, "cocoid": n + 100, "filename": f"{n}.jpg", "sentences": [{"raw": f"of {n}"}]}
        for n in range(8)
    ]
    images[5]["sentences"] = []
    split = save(tmp_path / "dataset_coco.json", {"images": images})
    rows = lines(tmp_path / "rows.jsonl", *({"id": n, "cocoid": 107 - n, "candidate": "x"} for n in range(5)))
    samples = read_samples(rows, references=[split], note=str)
    assert [sample.references for sample in samples] == [("of 7",), ("of 6",), (), ("of 4",), ("of 3",)]


@pytest.mark.parametrize("numbers", [(1, 1, 2), (1, None, 2)])
def test_numbers_of_a_karpathy_split_that_do_not_tell_its_images_apart_join_nothing(tmp_path, numbers):
    images = [
        {"imgid": n, "cocoid": coco, "filename": f"{coco}.jpg", "sentences": [{"raw": f"of {coco}"}]}
        for n, coco in zip(numbers, (7, 8, 9), strict=True)
    ]
    split = save(tmp_path / "dataset_coco.json", {"images": images})
    rows = lines(tmp_path / "rows.jsonl", *({"imgid": n, "candidate": "x"} for n in (1, 2)))
    with pytest.raises(DataError, match=r"none of its first 2 rows has an image of .* ids such as '7'"):
        read_samples(rows, references=[split], note=str)
