"""Files of people's captions alone: COCO annotations, Karpathy's splits, several captions by image id."""

import json

import pytest

from suisei.data.human_captions import human_captions
from suisei.data.system_files import Reading
from suisei.data.system_outputs import join_people, read_systems
from suisei.errors import ConfigError, DataError

COCO = {
    "images": [{"id": 7, "file_name": "seven.jpg"}, {"id": 12, "file_name": "twelve.jpg"}],
    "annotations": [
        {"image_id": 7, "caption": "a dog runs"},
        {"image_id": 12, "caption": "a cat"},
        {"image_id": 7, "caption": "the dog is running"},
    ],
}


def save(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    return str(path)


def read(source, **settings):
    return human_captions(source, note=settings.pop("told", []).append, **settings)


def test_annotations_are_a_sample_per_image_with_all_its_captions(tmp_path):
    told = []
    dog, cat = read(save(tmp_path / "a.json", COCO), told=told)
    assert (dog.candidate, dog.references) == ("a dog runs", ("a dog runs", "the dog is running"))
    assert (dog.group, dog.id, dog.image, dog.rating) == ("7", "seven.jpg", None, None)
    assert cat.references == ("a cat",)
    assert told == ["a.json: taken for COCO annotations, 2 images"]


def test_images_are_found_by_the_name_of_their_file(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "seven.jpg").write_bytes(b"")
    told = []
    dog, cat = read(save(tmp_path / "a.json", COCO), images=tmp_path / "pictures", told=told)
    assert dog.image == tmp_path / "pictures" / "seven.jpg"
    assert cat.image is None
    assert told[1].endswith("has no image for 1 of 2 ids (the first: twelve.jpg)")
    with pytest.raises(DataError, match="no such folder of images"):
        read(str(tmp_path / "a.json"), images=tmp_path / "elsewhere")


def test_a_karpathy_split_gives_the_parts_asked_for(tmp_path):
    images = [
        {"filename": f"{n}.jpg", "cocoid": n, "split": part, "sentences": [{"raw": f"a {part} picture"}]}
        for n, part in enumerate(("train", "test", "restval"))
    ]
    path = save(tmp_path / "dataset_coco.json", {"images": images, "dataset": "coco"})
    assert [s.candidate for s in read(f"{path}:test")] == ["a test picture"]
    assert [s.id for s in read(f"{path}:train+restval")] == ["0.jpg", "2.jpg"]
    with pytest.raises(ConfigError, match="name its parts"):
        read(path)
    with pytest.raises(ConfigError, match="no part 'dev'"):
        read(f"{path}:dev")
    with pytest.raises(DataError, match=r"dataset_coco\.json:val: no image with a caption"):
        read(f"{path}:val")
    with pytest.raises(ConfigError, match="no Karpathy split, which alone has parts"):
        read(save(tmp_path / "a.json", COCO) + ":test")


@pytest.mark.parametrize(
    "content", [{"1": ["a dog", "the dog"], "2": ["a cat"]}, [{"1": ["a dog", "the dog"]}, {"2": "a cat"}]]
)
def test_several_captions_by_image_id(tmp_path, content):
    dog, cat = read(save(tmp_path / "a.json", content))
    assert (dog.references, cat.references) == (("a dog", "the dog"), ("a cat",))
    assert (dog.group, dog.id) == ("1", "1")


@pytest.mark.parametrize(
    "content",
    [
        {"1": "a dog", "2": ["a cat"]},  # a system's captions
        [{"image_id": 1, "caption": "a dog"}],
        {"candidate": "a dog", "references": ["a cat", "a hat"]},
        {"data": [{"candidate": "a dog"}, {"candidate": "a cat"}]},
        '{"candidate": "a dog"}\n{"candidate": "a cat"}\n',
        "{",
        "[3]",
    ],
)
def test_other_documents_are_left_to_who_reads_rows(tmp_path, content):
    assert read(save(tmp_path / "a.json", content)) is None


def test_names_that_are_no_such_file_are_left_alone(tmp_path):
    assert read("scenes") is None
    assert read(str(tmp_path / "absent.json")) is None
    assert read(str(tmp_path / "a.jsonl")) is None


def test_a_caption_that_is_wrong_is_refused_by_its_place(tmp_path):
    wrong = {"images": [], "annotations": [{"image_id": 7, "caption": " "}]}
    with pytest.raises(DataError, match=r"annotation 1: the caption of image 7 is empty"):
        read(save(tmp_path / "a.json", wrong))


def test_rows_that_name_no_images_are_an_image_each_and_have_no_picture_or_system(tmp_path):
    rows = [{"captions": ["a dog", "dogs"]}, {"captions": ["a dog", "dogs"]}]
    path = save(tmp_path / "a.json", rows)
    samples = read(path)
    assert [(s.group, s.id, s.references) for s in samples] == [
        ("row 1", "row 1", ("a dog", "dogs")),
        ("row 2", "row 2", ("a dog", "dogs")),
    ]
    (tmp_path / "1.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.json: its rows name no images, so that no image can be found"):
        read(path, images=tmp_path)
    with pytest.raises(DataError, match=r"a\.json: its rows name no images, so that no system can be joined"):
        read(path, joined=True)
    said = save(tmp_path / "said.json", [{"image_id": n, "caption": "a dog"} for n in (1, 2)])
    systems = read_systems([said], Reading(None, None, "raise", None), alone=True)
    with pytest.raises(DataError, match=r"none of its 2 rows has an image of a\.json, .* such as 'row 1'"):
        join_people(samples, systems, "a.json")
