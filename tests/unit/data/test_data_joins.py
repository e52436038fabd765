"""References in files of their own, and images called after an id, beside the rows of a file."""

import io
import json
import unicodedata

import pytest

from suisei.data.coco import read_references, read_results
from suisei.data.formats import iter_rows, read_samples
from suisei.data.joins import References
from suisei.errors import ConfigError, DataError

ANNOTATIONS = {
    "images": [{"id": 7, "file_name": "seven.jpg"}, {"id": 8, "file_name": "eight.jpg"}],
    "annotations": [
        {"image_id": 7, "caption": "a dog is running"},
        {"image_id": 8, "caption": "a cat"},
        {"image_id": 7, "caption": "the dog runs"},
    ],
}
RESULTS = [{"image_id": 7, "caption": "a dog runs"}, {"image_id": 8, "caption": "a cat sits"}]


def save(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def lines(path, *rows):
    return save(path, "".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def annotations(tmp_path):
    return save(tmp_path / "annotations.json", ANNOTATIONS)


def test_coco_results_with_annotations_and_the_images_they_list(tmp_path, annotations):
    notes = []
    (tmp_path / "seven.jpg").write_bytes(b"x")
    samples = read_samples(
        save(tmp_path / "results.json", RESULTS), references=[annotations], images=tmp_path, note=notes.append
    )
    assert [sample.references for sample in samples] == [("a dog is running", "the dog runs"), ("a cat",)]
    assert [sample.image for sample in samples] == [tmp_path / "seven.jpg", None]
    assert [(sample.id, sample.group) for sample in samples] == [("7", "7"), ("8", "8")]
    assert "results.json: taken for a COCO result file" in notes[0]
    assert "COCO annotations, 2 images; rows of" in notes[1]
    assert notes[1].endswith("by group")
    assert "has no image for 1 row (the first: row 2, '8')" in notes[-1]


@pytest.mark.parametrize("form", ["annotations", "captions by image"])
@pytest.mark.parametrize(("there", "here"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_of_images_are_the_same_composed_or_not(tmp_path, form, there, here):
    """macOS takes the mark off a kana in the name of a file."""
    names = ["が.jpg", "か.jpg", "é.jpg"]
    said = [unicodedata.normalize(there, name) for name in names]
    content = {name: [f"caption {row}"] for row, name in enumerate(said)}
    if form == "annotations":
        content = {
            "images": [{"id": row, "file_name": name} for row, name in enumerate(said)],
            "annotations": [{"image_id": row, "caption": f"caption {row}"} for row in range(3)],
        }
    rows = [{"candidate": "a", "group": unicodedata.normalize(here, name)} for name in names]
    samples = read_samples(
        lines(tmp_path / "rows.jsonl", *rows), references=[save(tmp_path / "references.json", content)]
    )
    assert [sample.references for sample in samples] == [(f"caption {row}",) for row in range(3)]


def test_a_name_that_is_there_twice_composed_and_not_is_that_which_was_written(tmp_path):
    both = [unicodedata.normalize(form, "が.jpg") for form in ("NFC", "NFD")]
    content = {name: [f"caption {row}"] for row, name in enumerate(both)}
    source = lines(tmp_path / "rows.jsonl", *({"candidate": "a", "group": name} for name in both))
    samples = read_samples(source, references=[save(tmp_path / "references.json", content)])
    assert [sample.references for sample in samples] == [("caption 0",), ("caption 1",)]


@pytest.mark.parametrize("form", ["annotations", "captions by image"])
def test_the_folder_of_an_image_is_no_part_of_its_name(tmp_path, form):
    files = ["val/a.jpg", "val/b.jpg", "val/c.jpg", "test/c.jpg"]
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    content = {file: [f"of {file}"] for file in files}
    if form == "annotations":
        images = [{"id": number, "file_name": file} for number, file in enumerate(files)]
        captions = [{"image_id": number, "caption": f"of {file}"} for number, file in enumerate(files)]
        content = {"images": images, "annotations": captions}
    references = save(tmp_path / "refs.json", content)
    rows = lines(tmp_path / "rows.jsonl", *[{"candidate": "x", "image": file} for file in files])
    samples = read_samples(rows, references=[references], note=str)
    found = [sample.references for sample in samples]
    assert found == [("of val/a.jpg",), ("of val/b.jpg",), (), ()]  # which c.jpg is not known


@pytest.mark.parametrize("first", [1, 1200])
def test_images_are_found_by_group_whatever_the_rows_before_name(tmp_path, first):
    (tmp_path / "7.jpg").touch()
    rows = [{"candidate": "a dog", "image_id": 7, "image": "7.jpg"}] * first
    source = lines(tmp_path / "rows.jsonl", *rows, {"candidate": "a cat", "image_id": 7})
    for given in (source, io.StringIO(source.read_text())):
        assert read_samples(given, images=tmp_path, note=str)[-1].image == tmp_path / "7.jpg"


@pytest.mark.parametrize(
    ("image", "file"),
    [
        ("7", "7.JPG"),
        ("8", "8.JPEG"),
        ("ガ", "カ\u3099.png"),
        ("カ\u3099", "ガ.PNG"),
        ("ガ.png", "カ\u3099.png"),
    ],
)
def test_images_are_found_by_id_in_capitals_and_composed_or_not(tmp_path, image, file):
    save(tmp_path / file, "x")
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a", "group": image})
    assert read_samples(rows, images=tmp_path, note=str)[0].image == tmp_path / file


@pytest.mark.parametrize(
    "row", [{"image_id": 7}, {"group": "7"}, {"id": 7}, {"id": "x7", "image_id": "seven.jpg"}]
)
def test_rows_are_joined_by_what_has_references(tmp_path, annotations, row):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a", **row})
    assert read_samples(rows, references=[annotations], note=str)[0].references == ANNOTATIONS_OF_7


ANNOTATIONS_OF_7 = ("a dog is running", "the dog runs")


def test_bad_rows_at_the_beginning_keep_no_row_from_its_references(tmp_path, annotations):
    rows = lines(tmp_path / "r.jsonl", {"candidate": ""}, {"candidate": "a dog", "image_id": 7})
    for given in (rows, io.StringIO(rows.read_text())):
        bad, good = iter_rows(given, references=[annotations], note=str)
        assert (bad.sample, good.sample.references) == (None, ("a dog is running", "the dog runs"))


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


def test_references_in_rows_give_way_and_absent_ones_are_counted(tmp_path, annotations):
    notes = []
    rows = lines(
        tmp_path / "rows.jsonl",
        {"image_id": 7, "candidate": "a", "references": ["mine"]},
        {"image_id": 9, "candidate": "b", "references": ["mine"]},
        {"image_id": 9, "candidate": ""},
    )
    found = list(iter_rows(rows, references=[annotations], note=notes.append))
    assert [row.sample and row.sample.references for row in found] == [ANNOTATIONS_OF_7, (), None]
    assert any("references in its rows are not used" in note for note in notes)
    assert notes[-1].endswith("has no references for 1 row (the first: row 2, '9')")


def test_no_row_that_the_references_know_is_an_error(tmp_path, annotations):
    rows = lines(tmp_path / "rows.jsonl", {"image_id": 70, "candidate": "a"})
    with pytest.raises(DataError, match=r"none of its first 1 rows .* ids such as '7'; .*group such as '70'"):
        read_samples(rows, references=[annotations], note=str)


def test_text_beside_text_line_by_line(tmp_path):
    notes = []
    captions = save(tmp_path / "hyp.txt", "a dog\n\na cat")
    first, second = (
        save(tmp_path / "r1.txt", "the dog\nx\nthe cat\n"),
        save(tmp_path / "r2.txt", "dog\r\ny\r\n\n"),
    )
    rows = list(iter_rows(captions, references=[first, second], note=notes.append))
    assert [row.sample and row.sample.references for row in rows] == [("the dog", "dog"), None, ("the cat",)]
    assert "candidate is empty" in str(rows[1].error)
    assert "taken for plain text, a caption a line" in notes[0]
    assert "is joined with line n of" in notes[1]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("a\n",), r"r0.txt has 1 lines, and .*hyp.txt more rows"),
        (("a\nb\nc\n",), "has more than the 2 lines that .*hyp.txt has rows"),
        (("a\nb\n", "a\n"), r"r1.txt has 1 lines, and another file of references more"),
        ((b"a\n\xff\n",), r"r0.txt: line 2 is not valid UTF-8"),
        (("None\n['a dog', 'dog']\n",), r"r0.txt: line 2 is a list or a dict as text, got "),
        (('{"refs": ["a"]}\n',), r"r0.txt: its lines are JSON objects, not references; name it .jsonl"),
    ],
)
def test_text_of_another_length_is_refused(tmp_path, texts, message):
    paths = [tmp_path / f"r{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message):
        read_samples(save(tmp_path / "hyp.txt", "x\ny\n"), references=paths, note=str)


def test_references_by_line_in_json_lines(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a"}, {"candidate": "b"})
    references = lines(tmp_path / "refs.jsonl", {"refs": ["x", "y"]}, {"refs": "z"})
    samples = read_samples(rows, references=[references], note=str)
    assert [sample.references for sample in samples] == [("x", "y"), ("z",)]


def test_rows_before_a_damage_come_out_with_their_references(tmp_path, annotations):
    broken = save(tmp_path / "r.json", json.dumps(RESULTS)[:-1] + ", {")
    rows, found = iter_rows(broken, references=[annotations], note=str), []
    with pytest.raises(DataError, match="not valid JSON in item 3"):
        found.extend(rows)
    assert [row.sample.references for row in found] == [ANNOTATIONS_OF_7, ("a cat",)]


def test_references_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json: no such file"):
        References([tmp_path / "gone.json"])
    with pytest.raises(DataError, match="is a folder"):
        References([tmp_path])
    with pytest.raises(ConfigError, match="a list of one file or more"):
        References(str(tmp_path))
    table = References([save(tmp_path / "r.csv", "id,references\n")])
    with pytest.raises(DataError, match="of a table, name the column: --column references=NAME"):
        table.loaded()


def test_an_image_that_is_not_there_is_said_with_how_to_do_without(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a dog", "image": "absent.jpg"})
    with pytest.raises(DataError, match=r"\(--images DIR\), or do without: --column image="):
        read_samples(rows, note=str)
    assert read_samples(rows, columns={"image": ""}, note=str)[0].image is None


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


@pytest.mark.parametrize("name", ["refs", "references", "captions"])
def test_several_references_of_a_row_as_one_text_are_refused(tmp_path, name):
    rows = ({"id": 1, name: ["a one", "a two"]}, {"id": 2, name: "b one|b two"})
    with pytest.raises(DataError, match=rf"row 2: {name} may hold several captions, got 'b one\|b two'"):
        read_references([lines(tmp_path / "refs.jsonl", *rows)])


@pytest.mark.parametrize("name", ["reference", "caption"])
def test_one_reference_of_a_row_may_hold_any_text(tmp_path, name):
    found = read_references([lines(tmp_path / "refs.jsonl", {"id": 1, name: "a sign says A|B"})])
    assert found.captions == {"1": ("a sign says A|B",)}
