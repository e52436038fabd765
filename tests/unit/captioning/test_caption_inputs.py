"""Which images are captioned, by which ids."""

import json
import unicodedata

import pytest

from suisei.captioning.caption_inputs import images_to_caption
from suisei.errors import DataError


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", '{"image": "red.png", "id": "1"}\n{"image": "blue.png", "references": ["b"]}\n'),
        ("rows.csv", "id,image\n1,red.png\n,blue.png\n"),
        ("rows.txt", "red.png\n\nblue.png\n"),
    ],
)
def test_images_of_a_files_rows(tmp_path, pictures, name, content):
    (tmp_path / name).write_text(content)
    found = images_to_caption(None, str(tmp_path / name), None, None)
    assert [image.image for image in found] == [pictures[0], pictures[2]]
    assert [image.id for image in found] == ["red.png" if name == "rows.txt" else "1", "blue.png"]
    assert found[1].references_in("en") == (["b"] if name.endswith("l") else [])
    assert found[1].references_in("ja") == []


@pytest.mark.parametrize(("there", "here"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_an_image_is_found_whether_its_name_is_composed_or_not(tmp_path, pictures, there, here):
    name = unicodedata.normalize(here, "ガード.png")
    file = pictures[0].rename(tmp_path / unicodedata.normalize(there, name))
    (tmp_path / "rows.txt").write_text(f"{name}\n", encoding="utf-8")
    coco = {"images": [{"id": 1, "file_name": name}], "annotations": [{"image_id": 1, "caption": "one"}]}
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    for found in (
        images_to_caption(None, str(tmp_path / "rows.txt"), None, None),
        images_to_caption(None, None, str(tmp_path / "coco.json"), None),
    ):
        assert [image.image for image in found] == [file]


def test_images_of_folders_and_files_keep_their_order(tmp_path, pictures):
    (tmp_path / "notes.md").write_text("no image")
    found = images_to_caption([str(tmp_path)], None, None, None)
    assert [image.id for image in found] == sorted(picture.name for picture in pictures)
    found = images_to_caption([str(pictures[2]), str(pictures[0])], None, None, None)
    assert [image.id for image in found] == ["blue.png", "red.png"]
    with pytest.raises(DataError, match="no such image or folder"):
        images_to_caption([str(tmp_path / "absent")], None, None, None)
    with pytest.raises(DataError, match=r"--images 'http://127\.0\.0\.1/a\.png' is an address"):
        images_to_caption(["http://127.0.0.1/a.png"], None, None, None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no image"):
        images_to_caption([str(tmp_path / "empty")], None, None, None)


def test_an_image_that_is_named_twice_is_captioned_once(tmp_path, pictures):
    folder, one = str(tmp_path), str(pictures[2])
    names = sorted(picture.name for picture in pictures)
    found = images_to_caption([one, folder], None, None, None)
    assert [image.id for image in found] == ["blue.png", *(name for name in names if name != "blue.png")]
    found = images_to_caption([folder, one, folder], None, None, None)
    assert [image.id for image in found] == names
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"image": "red.png", "references": ["a", "b"]}\n{"image": "blue.png"}\n'
                    '{"image": "red.png", "references": ["b", "c"]}\n')  # fmt: skip
    found = images_to_caption(None, str(rows), None, None)
    assert [image.id for image in found] == ["red.png", "blue.png"]
    assert found[0].references_in("en") == ["a", "b", "c"]


def test_only_ids_that_images_share_give_way_to_their_paths(tmp_path, pictures, caplog):
    rows = tmp_path / "rows.csv"
    rows.write_text("id,image\n1,red.png\n1,blue.png\n2,red.png\n")
    found = images_to_caption(None, str(rows), None, None)
    assert [image.id for image in found] == [str(pictures[0]), str(pictures[2]), "2"]
    assert found[2].image == pictures[0]
    assert caplog.messages == ["id '1' is that of several images, whose paths are written instead"]


def test_images_that_several_shared_ids_name_are_written_once_and_counted(tmp_path, pictures, caplog):
    rows = tmp_path / "rows.csv"
    rows.write_text("id,image\n" + "".join(f"{n},{name}.png\n" for n in "12" for name in ("red", "blue")))
    found = images_to_caption(None, str(rows), None, None)
    assert [image.id for image in found] == [str(pictures[0]), str(pictures[2])]
    assert caplog.messages == [
        "2 ids, such as '1', are those of several images, whose paths are written instead; an image that has "
        "several such ids is written once: 2 fewer rows"
    ]


def test_a_path_that_is_the_id_of_another_image_gives_way_too(tmp_path, pictures):
    rows = tmp_path / "rows.csv"
    rows.write_text(f"id,image\n1,red.png\n1,blue.png\n{pictures[0]},black.png\n")
    found = images_to_caption(None, str(rows), None, None)
    assert [image.id for image in found] == [str(pictures[number]) for number in (0, 2, 4)]
    assert [image.image for image in found] == [pictures[number] for number in (0, 2, 4)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", "{", "line 1: not valid JSON"),
        ("rows.jsonl", '{"id": 1}', "line 1: no image"),
        ("rows.jsonl", '{"image": "a", "references": "b"}', "references must be a list"),
        ("rows.jsonl", '{"image": "a", "references": ["b", " "]}', "line 1: reference 2 is empty"),
        (
            "rows.jsonl",
            r'{"image": "a", "references": ["\ud83d"]}',
            "line 1: reference 1 holds a broken character",
        ),
        ("rows.csv", "id,picture\n1,a\n", "no column image"),
        ("rows.csv", "", "no column image"),
        (
            "rows.csv",
            "id,image\n1,a\n2," + "a" * 140_000 + "\n",
            "rows.csv: line 3: a field has over",
        ),
        ("rows.csv", 'id,image\n1,"a\n', "line 2: a quotation mark opens a field"),
        (
            "rows.csv",
            "id,image\n1,http://127.0.0.1/a.png\n",
            "line 2: image 'http://127.0.0.1/a.png'",
        ),
        ("rows.txt", "https://a.example/a.png\n", "is an address, and nothing is fetched"),
    ],
)
def test_rows_without_an_image_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        images_to_caption(None, str(tmp_path / name), None, None)
