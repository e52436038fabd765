"""References in files of their own, and images called after an id, beside the rows of a file."""

import io
import json
import unicodedata

import pytest

from suisei.data.coco import read_references
from suisei.data.formats import Row, iter_rows, read_samples
from suisei.data.joins import References, joined
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from tests.unit.data.row_files import lines, save

ANNOTATIONS = {
    "images": [{"id": 7, "file_name": "seven.jpg"}, {"id": 8, "file_name": "eight.jpg"}],
    "annotations": [
        {"image_id": 7, "caption": "a dog is running"},
        {"image_id": 8, "caption": "a cat"},
        {"image_id": 7, "caption": "the dog runs"},
    ],
}
RESULTS = [{"image_id": 7, "caption": "a dog runs"}, {"image_id": 8, "caption": "a cat sits"}]


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
    with pytest.raises(DataError, match=r"none of its first 1 row .* ids such as '7'; .*group such as '70'"):
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


def test_a_line_of_references_that_is_too_long_costs_its_row(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", *({"candidate": f"caption {n}"} for n in (1, 2, 3)))
    references = save(tmp_path / "r.txt", "a dog\n" + "a cat " * 2000 + "\na cow\n")
    first, second, third = iter_rows(rows, references=[references], note=str)
    assert [row.sample.references for row in (first, third)] == [("a dog",), ("a cow",)]
    assert second.sample is None
    assert "rows.jsonl, row 2: reference 1 has 12,000 characters" in str(second.error)


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


@pytest.mark.parametrize("text", ["prediction\na dog\n", "id\tmt\n1\ta dog\n"])
def test_what_is_wrong_with_a_file_is_said_before_the_number_of_its_lines(tmp_path, text):
    captions, references = save(tmp_path / "hyp.txt", text), save(tmp_path / "refs.txt", "the dog\n")
    with pytest.raises(DataError, match=r"hyp\.txt: (its first line, .*, is a header|it is a table)"):
        read_samples(captions, references=[references], note=str)


def test_references_by_line_in_json_lines(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a"}, {"candidate": "b"})
    references = lines(tmp_path / "refs.jsonl", {"refs": ["x", "y"]}, {"refs": "z"})
    samples = read_samples(rows, references=[references], note=str)
    assert [sample.references for sample in samples] == [("x", "y"), ("z",)]


@pytest.mark.parametrize("field", ["caption", "captions", "refs", "Reference"])
def test_references_by_line_in_a_list_of_rows(tmp_path, field):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a"}, {"candidate": "b"})
    references = save(tmp_path / "refs.json", [{field: ["x", "y"]}, {field: ["z"]}])
    notes = []
    samples = read_samples(rows, references=[references], note=notes.append)
    assert [sample.references for sample in samples] == [("x", "y"), ("z",)]
    assert notes[-1].endswith("is joined with entry n of " + str(references))
    for content, message in (
        ([{field: "x"}], r"refs\.json has 1 entries, and .*rows\.jsonl more rows; it must have one per row"),
        ([{field: "x"}] * 3, r"refs\.json has more than the 2 entries that .*rows\.jsonl has rows"),
    ):
        save(references, content)
        with pytest.raises(DataError, match=message):
            read_samples(rows, references=[references], note=str)


def test_rows_before_a_damage_come_out_with_their_references(tmp_path, annotations):
    broken = save(tmp_path / "r.json", json.dumps(RESULTS)[:-1] + ", {")
    rows, found = iter_rows(broken, references=[annotations], note=str), []
    with pytest.raises(DataError, match="not valid JSON in item 3"):
        found.extend(rows)
    assert [row.sample.references for row in found] == [ANNOTATIONS_OF_7, ("a cat",)]


@pytest.mark.parametrize("joins", ["references", "lines", "images"])
def test_what_rows_before_a_damage_lack_is_said(tmp_path, annotations, joins):
    results = [{"image_id": 7, "caption": "a dog"}, {"image_id": 70, "caption": "a cat"}]
    broken = save(tmp_path / "r.json", json.dumps(results)[:-1] + ", {")
    (tmp_path / "7.jpg").touch()
    beside = {
        "references": {"references": [annotations]},
        "lines": {"references": [save(tmp_path / "r.txt", "a dog\n\n")]},
        "images": {"images": tmp_path},
    }
    notes, found = [], []
    with pytest.raises(DataError, match="not valid JSON in item 3"):
        found.extend(iter_rows(broken, note=notes.append, **beside[joins]))
    assert len(found) == 2
    what = "image" if joins == "images" else "references"
    assert notes[-1].endswith(f" has no {what} for 1 row (the first: row 2, '70')")


def test_references_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json: no such file"):
        References([tmp_path / "gone.json"])
    with pytest.raises(DataError, match="is a folder"):
        References([tmp_path])
    with pytest.raises(ConfigError, match="a list of one file or more"):
        References(str(tmp_path))
    table = References([save(tmp_path / "r.xlsx", "PK")])
    with pytest.raises(DataError, match=r"r\.xlsx: a spreadsheet; save it as CSV"):
        table.loaded()


def test_an_image_that_is_not_there_is_said_with_how_to_do_without(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", {"candidate": "a dog", "image": "absent.jpg"})
    with pytest.raises(DataError, match=r"\(--images DIR\), or do without: --column image="):
        read_samples(rows, note=str)
    assert read_samples(rows, columns={"image": ""}, note=str)[0].image is None


@pytest.mark.parametrize("name", ["refs", "references", "captions"])
def test_several_references_of_a_row_as_one_text_are_refused(tmp_path, name):
    rows = ({"id": 1, name: ["a one", "a two"]}, {"id": 2, name: "b one|b two"})
    with pytest.raises(DataError, match=rf"row 2: {name} may hold several captions, got 'b one\|b two'"):
        read_references([lines(tmp_path / "refs.jsonl", *rows)])


@pytest.mark.parametrize("name", ["reference", "caption"])
def test_one_reference_of_a_row_may_hold_any_text(tmp_path, name):
    found = read_references([lines(tmp_path / "refs.jsonl", {"id": 1, name: "a sign says A|B"})])
    assert found.captions == {"1": ("a sign says A|B",)}


def test_rows_that_come_as_they_are_made_are_joined_one_by_one(tmp_path):
    made = []

    def rows():
        for number in (1, 2):
            made.append(number)
            yield Row(number, None, CaptionSample("x", id=str(number)), None)

    given = References([save(tmp_path / "refs.json", {"1": ["one"], "2": ["two"]})])
    first = next(joined(rows(), given, None, "rows", str, waits=True))
    assert first.sample.references == ("one",)
    assert made == [1]
