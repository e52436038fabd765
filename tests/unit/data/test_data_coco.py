"""Result files, annotation files and references in the forms that people have."""

import gzip
import json

import pytest

from suisei.data.coco import has_result_rows, read_references, read_results
from suisei.errors import DataError

CAPTIONS = {"7": ("a dog",), "12": ("犬が走る",)}


def save(path, content):
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.json", [{"image_id": 7, "caption": "a dog"}, {"image_id": 12, "caption": "犬が走る"}], "result"),
        ("a.json", {"7": "a dog", "12": "犬が走る"}, "by image id"),
        ("a.json", {"7": ["a dog"], "12": ["犬が走る"]}, "by image id"),
        ("a.json", [{"7": "a dog"}, {"12": ["犬が走る"]}], "a list of captions"),
        ("a.json", {"7": [{"caption": "a dog", "id": 3}], "12": [{"caption": "犬が走る"}]}, "by image id"),
        ("a.json.gz", {"7": "a dog", "12": "犬が走る"}, "by image id"),
        (
            "a.jsonl",
            '{"image_id": 7, "caption": "a dog"}\n\n{"image_id": "12", "caption": "犬が走る"}\n',
            "a JSON object a line",
        ),
    ],
)
def test_forms_of_a_systems_captions(tmp_path, name, content, form):
    path = save(tmp_path / name, content)
    found = read_results(path)
    assert found.captions == CAPTIONS
    assert not found.by_line
    assert has_result_rows(path)
    if not isinstance(content, str):
        assert has_result_rows(save(path, json.dumps(content, indent=1)))
    assert form in found.describe()
    assert "2 images" in found.describe()


def test_what_is_compressed_or_utf16_without_saying_so_is_named(tmp_path):
    (tmp_path / "a.json").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(DataError, match=r"a\.json: compressed by gzip; let the name end in \.gz"):
        read_results(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes('{"7": "a dog"}'.encode("utf-16"))
    with pytest.raises(DataError, match=r"a\.json: UTF-16; save it as UTF-8"):
        read_results(tmp_path / "a.json")


def test_plain_text_has_line_numbers(tmp_path):
    found = read_results(save(tmp_path / "a.txt", "a dog\r\na dog\n"))
    assert found.captions == {"1": ("a dog",), "2": ("a dog",)}
    assert found.by_line


@pytest.mark.parametrize("field", ["caption", "candidate", "Prediction", "text"])
def test_rows_of_captions_alone_name_no_images(tmp_path, field):
    """The name of the field was taken for the image of every row."""
    found = read_results(save(tmp_path / "a.json", [{field: "a dog"}, {field: "犬が走る"}]))
    assert found.captions == {"1": ("a dog",), "2": ("犬が走る",)}
    assert found.by_line
    assert "a list of rows, in the order of the captions" in found.describe()


def test_images_may_be_called_as_columns_are(tmp_path):
    found = read_results(save(tmp_path / "a.json", [{"ref_1": "a dog"}, {"ref_2": "犬が走る"}]))
    assert found.captions == {"ref_1": ("a dog",), "ref_2": ("犬が走る",)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", {"7": ["a dog", "a cat"]}, r"a.json, image '7': 2 captions for image '7'"),
        (
            "a.json",
            [{"image_id": 7, "caption": "a"}, {"image_id": "7", "caption": "b"}],
            r"row 2: image '7' has another caption in row 1 \('a'\).*keep one",
        ),
        (
            "a.json",
            [{"image_id": 7, "caption": 3}],
            r"row 1: the caption of image .* must be text, got int 3",
        ),
        ("a.json", [{"image_id": 7, "caption": "x"}, {"caption": "y"}], r"row 2: the image's id must be"),
        ("a.json", [{"image_id": True, "caption": "x"}], r"row 1: the image's id .* got True"),
        ("a.json", [{"image_id": 1, "caption": "x"}, "y"], r"row 2: the image's id .* beside 'y'"),
        ("a.json", {"7": "  "}, r"the caption of image '7' is empty"),
        ("a.json", {"7": "\u200b"}, r"the caption of image '7' is empty.*only invisible ones"),
        ("a.json", {"7": []}, r"image '7' has an empty list"),
        ("a.json", '{"7": "a", "7": "b"}', r"the field '7' is given twice"),
        ("a.json", '{"7": "\\ud800 x"}', r"broken character"),
        ("a.json", {"7": "x" * 10_001}, r"10,001 characters"),
        ("a.json", {}, r"has no captions"),
        ("a.json", ["a dog"], r'expected \[\{"image_id".*it begins \["a dog"\]'),
        ("a.json", "7", "expected"),
        ("a.json", '{"image_id": 1}\n{"image_id": 2}', r"not valid JSON: Extra data.*name the file .jsonl"),
        ("a.json", {"images": [], "annotations": []}, r"annotations hold references.*--references"),
        ("a.txt", "a dog\n\na cat\n", r"a.txt, line 2: the caption of image 2 is empty"),
        ("a.jsonl", '{"image_id": 1, "caption": "a"}\n[]\n', r"row 2: expected an object"),
        ("a.jsonl", '{"image_id": 1, "caption": "a"}\n{\n', r"row 2: not valid JSON"),
    ],
)
def test_refuses_by_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_results(save(tmp_path / name, content))


def test_bad_rows_can_be_skipped_and_are_kept_apart(tmp_path):
    rows = [{"image_id": 1, "caption": "a"}, {"image_id": 2, "caption": ""}, {"image_id": 1, "caption": "a"}]
    found = read_results(save(tmp_path / "a.json", rows), on_error="skip")
    assert found.captions == {"1": ("a",)}
    assert [str(error) for error in found.bad] == [
        f"{tmp_path}/a.json, row 2: the caption of image 2 is empty; every caption needs at least one "
        "visible character"
    ]
    assert found.repeated == 1
    assert "1 repeated row" in found.describe()
    with pytest.raises(DataError, match="none of the 1 row is usable"):
        read_results(save(tmp_path / "b.json", rows[1:2]), on_error="skip")


def test_references_as_pycocoevalcap_takes_them(tmp_path):
    content = {
        "7": [{"image_id": 7, "id": 1, "caption": "a dog"}, {"caption": "犬"}],
        "12": [{"caption": "cat"}],
    }
    found = read_references([save(tmp_path / "gts.json", content)])
    assert found.captions == {"7": ("a dog", "犬"), "12": ("cat",)}
    content["12"] = [{"text": "cat"}]
    with pytest.raises(DataError, match=r"the caption of image '12' must be text, got dict"):
        read_references([save(tmp_path / "gts.json", content)])


@pytest.mark.parametrize("field", ["caption", "Caption", "captions", "refs", "reference", "text"])
def test_rows_under_their_ids_name_captions_as_those_of_json_lines_do(tmp_path, field):
    content = {"0": {"imageId": 7, field: "a dog"}, "1": {"imageId": 7, field: "犬"}}
    lines = "".join(json.dumps(row) + "\n" for row in content.values())
    for name, text in (("gts.json", json.dumps(content)), ("gts.jsonl", lines)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_references([tmp_path / name]).captions == {"7": ("a dog", "犬")}
    content["1"][field] = ["犬", "the dog"]
    assert read_references([save(tmp_path / "b.json", content)]).captions == {"7": ("a dog", "犬", "the dog")}


def test_of_a_system_a_line_gives_the_caption_and_not_references_beside_it(tmp_path):
    lines = (
        '{"image_id": 1, "caption": "a dog"}\n{"image_id": 2, "caption": "a car", "references": ["a bus"]}\n'
    )
    lines += '{"image_id": 3, "text": "a pig", "gt": "a cow"}\n'
    found = read_results(save(tmp_path / "a.jsonl", lines))
    assert found.captions == {"1": ("a dog",), "2": ("a car",), "3": ("a pig",)}


@pytest.mark.parametrize("field", ["caption", "Caption", "prediction", "mt", "text"])
@pytest.mark.parametrize("beside", ["references", "reference", "refs", "gt", "ref"])
def test_of_a_system_a_row_under_an_id_gives_the_candidate_and_not_its_references(tmp_path, field, beside):
    results = {"7": {"id": 1, field: "a dog", beside: ["a cat"]}}
    assert read_results(save(tmp_path / "results.json", results)).captions == {"7": ("a dog",)}
    with pytest.raises(DataError, match=r"image '7': the caption .* must be text, got dict"):
        read_results(save(tmp_path / "results.json", {"7": {"id": 1, beside: ["a cat"]}}))


def test_several_captions_as_one_text_under_an_id_are_refused_as_elsewhere(tmp_path):
    with pytest.raises(DataError, match=r"image '7': refs may hold several captions, got 'a dog\|a cat'"):
        read_references([save(tmp_path / "gts.json", {"7": {"refs": "a dog|a cat"}})])


def test_annotations_name_their_images(tmp_path):
    content = {
        "images": [{"id": 7, "file_name": "seven.jpg"}, {"id": 12, "file_name": "twelve.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 7, "caption": "a dog"},
            {"id": 2, "image_id": 12, "caption": "犬"},
            {"id": 3, "image_id": 7, "caption": "a dog"},
        ],
    }
    found = read_references([save(tmp_path / "captions.json.gz", content)])
    assert found.captions == {"7": ("a dog", "a dog"), "12": ("犬",)}
    assert found.file_names == {"seven.jpg": "7", "twelve.jpg": "12"}
    assert "COCO annotations, 2 images" in found.describe()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"annotations": {}}, "'annotations' must be a list"),
        ({"annotations": [], "images": [3]}, "image 1: expected an object with an 'id'"),
        (
            {"annotations": [{"image_id": 1}]},
            "annotation 1: the caption of image 1 must be text, got NoneType",
        ),
    ],
)
def test_annotations_that_are_wrong(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_references([save(tmp_path / "a.json", content)])


def test_a_karpathy_split_holds_the_references_of_all_its_parts(tmp_path):
    def image(file, cocoid, *captions):
        named = {} if cocoid is None else {"cocoid": cocoid, "filepath": "val2014"}
        sentences = [{"raw": caption, "tokens": caption.split()} for caption in captions]
        return {"imgid": 0, "filename": file, "split": "test", "sentences": sentences, **named}

    coco = {"dataset": "coco", "images": [image("seven.jpg", 7, "a dog", "犬"), image("8.jpg", 8)]}
    found = read_references([save(tmp_path / "dataset_coco.json", coco)])
    assert found.captions == {"7": ("a dog", "犬")}
    assert found.find("seven.jpg") == found.find("7")
    assert "Karpathy's splits, 1 image" in found.describe()
    flickr = {"dataset": "flickr8k", "images": [image("1_a.jpg", None, "a cat")]}
    found = read_references([save(tmp_path / "dataset_flickr8k.json", flickr)])
    assert found.captions == {"1_a.jpg": ("a cat",)}
    with pytest.raises(DataError, match=r"Karpathy's splits hold references, not a system's captions"):
        read_results(tmp_path / "dataset_coco.json")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"filename": 7, "sentences": []}, "image 2: expected an object with a filename"),
        ({"filename": "b.jpg", "sentences": ["a dog"]}, "image 2: the caption of image 'b.jpg' must be text"),
        ({"filename": "b.jpg", "sentences": "a dog"}, "image 2: the caption of image 'b.jpg' must be text"),
        (
            {"filename": "b.jpg", "sentences": [{"raw": " "}]},
            "image 2: the caption of image 'b.jpg' is empty",
        ),
    ],
)
def test_a_karpathy_split_that_is_wrong_is_refused_by_its_image(tmp_path, image, message):
    images = [{"filename": "a.jpg", "sentences": [{"raw": "a dog"}]}, image]
    with pytest.raises(DataError, match=message):
        read_references([save(tmp_path / "a.json", {"images": images})])


def test_references_a_json_object_a_line(tmp_path):
    by_id = save(
        tmp_path / "a.jsonl", '{"id": 7, "references": ["a", "b"]}\n{"image_id": 7, "caption": "c"}\n'
    )
    assert read_references([by_id]).captions == {"7": ("a", "b", "c")}
    by_line = read_references(
        [save(tmp_path / "b.jsonl", '{"references": ["a"]}\n\n{"references": ["b"]}\n')]
    )
    assert by_line.captions == {"1": ("a",), "2": ("b",)}
    assert by_line.by_line


def test_a_text_file_per_reference(tmp_path):
    paths = [save(tmp_path / "a.txt", "one\ntwo\n"), save(tmp_path / "b.txt.gz", "ichi\n\n")]
    found = read_references(paths)
    assert found.captions == {"1": ("one", "ichi"), "2": ("two",)}
    assert found.by_line
    with pytest.raises(DataError, match=r"b.txt 3 lines"):
        read_references([paths[0], save(tmp_path / "b.txt", "x\ny\nz")])
    with pytest.raises(DataError, match=r"a.txt, line 1: none of the reference files"):
        read_references([save(tmp_path / "a.txt", "\n"), save(tmp_path / "b.txt", " \n")])
    with pytest.raises(DataError, match=r"give a JSON file or a table alone"):
        read_references([paths[0], tmp_path / "b.json"])
    with pytest.raises(DataError, match=r"give a JSON file or a table alone"):
        read_references([paths[0], tmp_path / "b.csv"])


@pytest.mark.parametrize(
    "second", [{"text": "b"}, {"Caption": "b"}, {"caption": "b", "score": 1}, {"captions": ["b"], "url": "x"}]
)
def test_rows_that_call_their_captions_otherwise_are_in_order_too(tmp_path, second):
    path = save(tmp_path / "a.json", [{"caption": "a"}, second])
    for found in (read_references([path]), read_results(path)):
        assert (found.by_line, found.captions) == (True, {"1": ("a",), "2": ("b",)})


def test_lists_by_image_id_are_not_taken_for_rows_in_order(tmp_path):
    for ids in (("caption", "7"), ("7", "caption"), ("ref_1", "ref_2")):
        found = read_references([save(tmp_path / "a.json", [{ids[0]: "a"}, {ids[1]: "b"}])])
        assert (found.by_line, found.captions) == (False, {ids[0]: ("a",), ids[1]: ("b",)})
    for name in ("image_id", "id", "file_name", "video", "group"):
        with pytest.raises(DataError, match="row 2: the image's id must be a number or text, got None"):
            read_references([save(tmp_path / "a.json", [{"caption": "a"}, {"caption": "b", name: "7"}])])


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_rows_without_captions_are_refused_with_their_fields(tmp_path, name):
    def refused(read, row, fields):
        path = save(tmp_path / name, [row] if name == "a.json" else json.dumps(row))
        message = rf"{name}, row 1: no field holds captions, as 'captions', .* would; its fields: {fields}$"
        with pytest.raises(DataError, match=message):
            read(path)

    refused(lambda path: read_references([path]), {"candidate": "a dog"}, "'candidate'")
    refused(read_results, {"ref_1": "a dog"}, "'ref_1'")
    if name == "a.jsonl":
        refused(read_results, {"a": 1, "": "b"}, "'a', ''")
        refused(read_results, {str(n): "a" for n in range(9)}, "'0', .*'7', ...")
        refused(read_results, {}, "none")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", "not compressed by gzip"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], "cut off or damaged"),
        (gzip.compress("é".encode("latin-1"), mtime=0), "not valid UTF-8 at byte 0"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    (tmp_path / "a.json.gz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path / "a.json.gz")
    with pytest.raises(DataError, match="cannot be read"):
        read_results(tmp_path / "absent.json")


LITERAL = "[{'generated_text': 'a dog'}]"
NO_CAPTIONS = {
    "None": "is 'None', which a table says .*; leave it out",
    LITERAL: "is a list or a dict as text",
}
FORMS = {
    "row": ("a.json", lambda text: [{"image_id": 7, "caption": "a"}, {"image_id": 12, "caption": text}]),
    "image '12'": ("a.json", lambda text: {"7": "a", "12": [{"caption": text}]}),
    "row 2": (
        "a.jsonl.gz",
        lambda text: f'{{"id": 7, "caption": "a"}}\n{json.dumps({"id": 12, "caption": text})}',
    ),
}


@pytest.mark.parametrize("text", NO_CAPTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_caption_in_rows_is_none_here(tmp_path, form, text):
    name, content = FORMS[form]
    path = save(tmp_path / name, content(text))
    message = rf"{name}, {form}.*: the caption of image '?12'? {NO_CAPTIONS[text]}"
    for read in (read_results, lambda path: read_references([path])):
        with pytest.raises(DataError, match=message):
            read(path)
    found = read_results(path, on_error="skip")
    assert (found.captions, len(found.bad)) == ({"7": ("a",)}, 1)


@pytest.mark.parametrize("text", NO_CAPTIONS)
def test_annotations_and_splits_have_no_such_caption_either(tmp_path, text):
    annotations = {"annotations": [{"id": 3, "image_id": 7, "caption": text}]}
    with pytest.raises(DataError, match=f"annotation 1: the caption of image 7 {NO_CAPTIONS[text]}"):
        read_references([save(tmp_path / "a.json", annotations)])
    split = {"images": [{"filename": "a.jpg", "sentences": [{"raw": "a dog"}, {"raw": text}]}]}
    with pytest.raises(DataError, match=f"image 1: the caption of image 'a.jpg' {NO_CAPTIONS[text]}"):
        read_references([save(tmp_path / "a.json", split)])


def test_a_line_of_text_may_say_none_and_is_no_list(tmp_path):
    said, path = save(tmp_path / "said.txt", "None\nnan\n"), save(tmp_path / "a.txt", f"a dog\n{LITERAL}\n")
    none = {"1": ("None",), "2": ("nan",)}
    assert read_results(said).captions == read_references([said]).captions == none
    for read in (
        read_results,
        lambda path: read_references([path]),
        lambda path: read_references([said, path]),
    ):
        with pytest.raises(
            DataError, match=r"a\.txt, line 2: the caption of image 2 is a list or a dict as text"
        ):
            read(path)
    assert read_results(path, on_error="skip").captions == {"1": ("a dog",)}
