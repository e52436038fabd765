"""Rows in documents as people have them: a list, an object of lists, results, packed or plain text."""

import json
import tracemalloc

import pytest

from suisei.data.coco import read_references
from suisei.data.formats import iter_rows, read_samples
from suisei.data.splits import group_of
from suisei.data.system_outputs import load_systems
from suisei.errors import DataError
from tests.unit.data.row_files import jsonl, problem, write

FORMS = {
    "r.jsonl": '{"image_id": 7, "caption": "a dog"}\n{"image_id": 8, "caption": "犬"}\n',
    "r.csv": "image_id,caption\n7,a dog\n8,犬\n",
    "r.json": '[{"image_id": 7, "caption": "a dog"},\n {"image_id": 8, "caption": "犬"}]',
    "by_image.json": '{"7": "a dog", "8": ["犬"]}',
    "list.json": '[{"7": "a dog"}, {"8": "犬"}]',
    "rows.json": '[{"group": 7, "candidate": "a dog", "rating": 1}, {"group": 8, "hyp": "犬"}]',
    "lines.json": '{"image_id": 7, "prediction": "a dog"}\n\n{"image_id": 8, "prediction": "犬"}\n',
    "objects.json": '{"7": {"group": 7, "caption": "a dog"}, "8": {"group": 8, "caption": "犬"}}',
    "pycocoevalcap.json": '{"7": [{"caption": "a dog"}], "8": [{"image_id": 8, "id": 3, "caption": "犬"}]}',
    "semicolon.csv": "image_id;caption\r\n7;a dog\r\n8;犬\r\n",
    "tabs.csv": "image_id\tcaption\n7\ta dog\n8\t犬\n",
    "commas.tsv": "image_id,caption\n7,a dog\n8,犬\n",
}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order-mark"])
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
@pytest.mark.parametrize("name", FORMS)
def test_the_forms_that_people_have_say_the_same(tmp_path, name, packed, mark):
    import gzip

    notes, content = [], mark + FORMS[name].encode()
    path = write(tmp_path, name + ".gz" * packed, gzip.compress(content) if packed else content)
    samples = read_samples(path, note=notes.append)
    assert [(sample.group, sample.candidate) for sample in samples] == [("7", "a dog"), ("8", "犬")]
    assert 1 <= len(notes) <= 2
    assert all(note.startswith(f"{path}: ") and "\n" not in note for note in notes)


def test_one_row_as_a_document_is_a_row(tmp_path):
    path = write(tmp_path, "r.json", '{\n "caption": "a dog",\n "references": ["the dog", "dog"]\n}')
    (sample,) = read_samples(path, note=str)
    assert (sample.candidate, sample.references) == ("a dog", ("the dog", "dog"))


def test_plain_text_is_a_caption_a_line(tmp_path):
    path = write(tmp_path, "r.txt", 'a dog\r\n"quoted", 猫\n')
    assert [sample.candidate for sample in read_samples(path, note=str)] == ["a dog", '"quoted", 猫']


def test_columns_that_differ_by_row_are_noted_a_few_times(tmp_path):
    notes = []
    rows = [{"candidate": "a", f"extra{number // 2}": 1} for number in range(100)]
    assert len(read_samples(jsonl(tmp_path, *rows), note=notes.append)) == 100
    assert 1 <= len(notes) <= 3
    assert "ignored: 'extra0'" in notes[0]


def test_a_repeated_image_of_a_result_file_is_refused_or_kept_without_ids(tmp_path):
    path = write(tmp_path, "r.json", json.dumps([{"image_id": 1, "caption": text} for text in "ab"]))
    with pytest.raises(DataError, match=r"row 2: id '1' is used by an earlier row.*--column id="):
        read_samples(path, note=str)
    samples = read_samples(path, columns={"id": None}, note=str)
    assert [(sample.id, sample.group, sample.candidate) for sample in samples] == [
        (None, "1", "a"),
        (None, "1", "b"),
    ]


def test_an_item_of_a_result_file_without_a_caption_costs_one_row(tmp_path):
    items = [{"image_id": 1, "caption": "a"}, {"image_id": 2}, {"image_id": 3, "caption": "b"}]
    rows = list(iter_rows(write(tmp_path, "r.json", json.dumps(items)), note=str))
    assert [row.sample and row.sample.group for row in rows] == ["1", None, "3"]
    assert "row 2: no column 'candidate'; the columns are image_id" in problem(rows[1])


def test_bad_items_of_a_json_list_cost_a_row_each(tmp_path):
    content = b'[{"image_id": 1, "caption": "a"}, 3, {"image_id": 2, "caption": "\x83"}'
    content += b', {"image_id": 4, "caption": "b"}]'
    rows = list(iter_rows(write(tmp_path, "r.json", content), note=str))
    assert [row.sample and row.sample.candidate for row in rows] == ["a", None, None, "b"]
    assert "got 3" in problem(rows[1])
    assert "not valid UTF-8" in problem(rows[2])
    rows = list(iter_rows(write(tmp_path, "r.json", '{"1": ["a", "b"], "2": "c", "3": 4}'), note=str))
    assert "2 captions for image '1'" in problem(rows[0])
    assert "candidate must be text" in problem(rows[2])


@pytest.mark.parametrize("form", ["results", "joined"])
def test_memory_does_not_grow_with_a_json_list_or_files_of_references(tmp_path, form):
    caption, count = "a caption of some length, as long as captions usually are " * 5, 20_000
    items = ({"image_id": number, "caption": caption} for number in range(count))
    path = write(tmp_path, "r.json", "[" + ",\n".join(map(json.dumps, items)) + "]")
    references = None
    if form == "joined":
        path = write(tmp_path, "r.txt", f"{caption}\n" * count)
        references = [write(tmp_path, f"ref{n}.txt", f"{caption}\n" * count) for n in range(2)]
    tracemalloc.start()
    found = sum(row.sample is not None for row in iter_rows(path, references=references, note=str))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    assert peak < 4_000_000  # the captions alone are 6 MB, three times where there are references


@pytest.mark.parametrize("first", ["[]", '[{"candidate": "a"}]', '[{"image_id": 1, "caption": "a"}]'])
@pytest.mark.parametrize("more", ["[]", '[{"candidate": "b"}]', "]", "x"])
def test_nothing_after_a_list_is_lost(tmp_path, first, more):
    path = tmp_path / "appended.json"
    path.write_text(f"{first}\n{more}\n")
    with pytest.raises(DataError, match=r"its list ends after item [01], and then comes"):
        read_samples(path, note=str)


@pytest.mark.parametrize("columns", [{"candidate": "caption"}, {"id": "image_id"}, {"group": "image_id"}])
def test_the_fields_of_a_result_file_can_be_named(tmp_path, columns):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"image_id": number, "caption": f"c{number}"} for number in (139, 285)]))
    samples = read_samples(path, columns=columns, note=str)
    assert [sample.candidate for sample in samples] == ["c139", "c285"]
    names = [sample.id if "id" in columns else sample.group for sample in samples]
    assert names == ["139", "285"]


def test_objects_by_image_id_name_their_image(tmp_path):
    (tmp_path / "1.jpg").touch()
    path = tmp_path / "captions.json"
    path.write_text(json.dumps({"1": {"caption": "a dog"}}))
    (sample,) = read_samples(path, images=tmp_path, note=str)
    assert (sample.group, sample.image) == ("1", tmp_path / "1.jpg")


@pytest.mark.parametrize("column", ["group", "image_id", "image", "video"])
def test_rows_by_number_keep_the_image_that_they_name(tmp_path, column):
    """As pandas writes with orient="index"."""
    (tmp_path / "p7.jpg").touch()
    content = {str(n): {"candidate": text, column: "p7.jpg"} for n, text in enumerate("ab")}
    notes = []
    samples = read_samples(write(tmp_path, "r.json", json.dumps(content)), note=notes.append)
    assert [(sample.id, group_of(sample)) for sample in samples] == [
        ("0", group_of(samples[0])),
        ("1", group_of(samples[0])),
    ]
    assert {sample.group for sample in samples} == {None if column in ("image", "video") else "p7.jpg"}
    assert notes[0].endswith("taken for rows by their id")


@pytest.mark.parametrize("column", ["image_id", "cocoid", "image", "group"])
def test_rows_by_number_are_joined_by_their_image(tmp_path, column):
    for image in "ab":
        (tmp_path / image).touch()

    def saved(name, text, order):
        rows = {str(n): {column: image, "caption": f"{text} {image}"} for n, image in enumerate(order)}
        return str(write(tmp_path, name, json.dumps(rows)))

    x, y, references = saved("x.json", "x", "ab"), saved("y.json", "y", "ba"), saved("r.json", "of", "ba")
    systems = load_systems([x, y], references=[references])
    found = {name: [sample.candidate for sample in samples] for name, samples in systems.samples.items()}
    assert found == {"x": ["x a", "x b"], "y": ["y a", "y b"]}
    assert [sample.references for sample in systems.samples["x"]] == [("of a",), ("of b",)]


@pytest.mark.parametrize("listed", [False, True])
def test_a_null_in_the_place_of_an_image_says_nothing_where_keys_may_be_images(tmp_path, listed):
    def found(**rows):
        content = [{key: row} for key, row in rows.items()] if listed else rows
        return read_references([write(tmp_path, "r.json", json.dumps(content))]).captions

    null, other = {"caption": "a", "image_id": None}, {"caption": "b", "image_id": 4}
    assert found(x=null, y=null) == {"x": ("a",), "y": ("a",)}
    assert found(x={**null, "cocoid": 3}, y=other) == {"3": ("a",), "4": ("b",)}
    assert found(x={"caption": "a"}, y=other) == {"x": ("a",), "4": ("b",)}
    with pytest.raises(DataError, match="the image's id must be a number or text, got None"):
        found(x=null, y=other)
