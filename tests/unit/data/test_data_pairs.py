import gzip
import json

import pytest

from suisei.data.pairs import ImageCaptions, hold_out_captions, is_pairs, load_pairs
from suisei.errors import ConfigError, DataError


@pytest.fixture
def write(tmp_path):
    for name in ("a.jpg", "b.jpg", "a2.png"):
        (tmp_path / name).write_bytes(b"x")

    def write(*rows):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
        return str(path)

    return write


def test_a_manifest_is_read(write, tmp_path):
    source = write(
        {
            "image": "a.jpg",
            "captions": ["x", "y"],
            "generated_images": ["a2.png"],
            "generated_captions": ["z"],
            "generated_from": ["y"],
        },
        "",
        {"image": "b.jpg", "captions": ["w"]},
    )
    assert load_pairs(source) == [
        ImageCaptions(tmp_path / "a.jpg", ("x", "y"), (tmp_path / "a2.png",), ("z",), ("y",)),
        ImageCaptions(tmp_path / "b.jpg", ("w",)),
    ]


def test_captions_are_learned_as_they_are_scored(write, tmp_path):
    unseen = {
        "image": "a.jpg",
        "captions": [" two\u200b dogs", "cafe\u0301"],
        "generated_images": ["a2.png", "a3.png"],
        "generated_captions": ["a\u00ad dog "],
        "generated_from": ["two dogs\u200b", None],
    }
    files = (tmp_path / "a2.png", tmp_path / "a3.png")
    files[1].touch()
    expected = ImageCaptions(
        tmp_path / "a.jpg", ("two dogs", "caf\u00e9"), files, ("a dog",), ("two dogs", None)
    )
    assert load_pairs(write(unseen)) == [expected]


def test_a_mark_of_byte_order_is_no_part_of_the_first_row(write, tmp_path):
    found = load_pairs(write({"image": "a.jpg", "captions": ["x"]}))
    (tmp_path / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "pairs.jsonl").read_bytes())
    assert is_pairs(str(tmp_path / "marked.jsonl"))
    assert load_pairs(str(tmp_path / "marked.jsonl")) == found


def test_rows_without_captions_or_candidate_do_not_say_what_a_file_holds(write, tmp_path):
    good = {"image": "b.jpg", "captions": ["a dog"]}
    for bad in ({"image": "a.jpg"}, "{"):
        source = write(bad, good)
        assert is_pairs(source)
        assert [pair.image.name for pair in load_pairs(source, on_error="skip")] == ["b.jpg"]
    assert not is_pairs(write({"image": "a.jpg"}, {"image": "b.jpg", "caption": "a dog"}))


def test_captions_beside_a_candidate_are_its_references(write):
    rated = {"image": "b.jpg", "candidate": "a dog", "captions": ["dogs"], "rating": 3}
    assert not is_pairs(write(rated))
    assert not is_pairs(write({"image": "b.jpg"}, rated, {"image": "b.jpg", "captions": ["a dog"]}))


def test_a_compressed_manifest_is_read(write, tmp_path):
    found = load_pairs(write({"image": "a.jpg", "captions": ["犬"]}, {"image": "b.jpg", "captions": ["w"]}))
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "pairs.jsonl").read_bytes()))
    assert is_pairs(str(packed))
    assert load_pairs(str(packed)) == found
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"packed\.jsonl\.gz: cannot be read: the compressed file is cut off"):
        load_pairs(str(packed))
    packed.write_text("{}")
    assert not is_pairs(str(packed))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{"], "row 1: not valid JSON"),
        ([[1]], "row 1: expected a JSON object"),
        ([{"image": "a.jpg", "captions": []}], "captions is empty"),
        ([{"image": "a.jpg", "captions": ["x", " "]}], "not blank"),
        (
            [{"image": "a.jpg", "captions": ["x", "a \ud83d"]}],
            "row 1: captions 2 holds a broken char",
        ),
        ([{"image": "a.jpg", "captions": ["\u200b"]}], "row 1: captions 1 is empty"),
        ([{"image": "a.jpg", "captions": ["x" * 10_001]}], "row 1: captions 1 has 10,001 characters"),
        (
            [{"image": "a.jpg", "captions": ["x"], "generated_captions": ["\ud83d"]}],
            "row 1: generated_captions 1 holds a broken character",
        ),
        ([{"image": "a.jpg", "caption": ["x"]}], "unknown field 'caption'"),
        ([{"image": "a.jpg", "captions": ["x"]}] * 2, "row 2: image 'a.jpg' was in row 1"),
        ([{"image": name, "captions": ["x"]} for name in ("a.jpg", "x/../a.jpg")], "a.jpg' was in row 1"),
        ([{"image": "no.jpg", "captions": ["x"]}], r"there is no file of 1 image: .*no\.jpg"),
        ([{"image": "a.jpg", "captions": ["x"], "generated_images": ["no.png"]}], r"of 1 image: .*no\.png"),
        ([], "no rows"),
    ],
)
def test_bad_manifests_are_named(write, rows, message):
    with pytest.raises(DataError, match=message):
        load_pairs(write(*rows))


@pytest.mark.parametrize(
    ("origins", "message"),
    [
        ("x", "row 1: generated_from must be a list of 1 caption, one of each"),
        (["x", None], "row 1: generated_from must be a list of 1 caption, one of each"),
        (["z"], "row 1: generated_from has 'z', which is none of the image's captions"),
        ([0], "row 1: generated_from has 0"),
    ],
)
def test_generated_images_are_made_from_captions_of_their_image(write, origins, message):
    row = {"image": "a.jpg", "captions": ["x"], "generated_images": ["a2.png"], "generated_from": origins}
    with pytest.raises(DataError, match=message):
        load_pairs(write(row))


def test_unknown_sources(tmp_path):
    with pytest.raises(ConfigError, match="flickr8k-train"):
        load_pairs("coco")
    with pytest.raises(ConfigError, match="needs root"):
        load_pairs("flickr8k-dev")
    with pytest.raises(DataError, match="cannot be read"):
        load_pairs(str(tmp_path / "absent.jsonl"))


def test_held_out_captions_change_sides(tmp_path):
    pairs = [ImageCaptions(tmp_path, ("1", "2", "3")), ImageCaptions(tmp_path, ("1",), (), ("g",))]
    first, second = hold_out_captions(pairs, 1)
    assert (first.captions, first.generated_captions) == (("1", "2"), ("3",))
    assert second == pairs[1]
    assert hold_out_captions(pairs, 0) == pairs
    with pytest.raises(ConfigError, match="at least 0"):
        hold_out_captions(pairs, -1)


@pytest.fixture
def split(tmp_path):
    """A Karpathy split of four images, two of which lie in the folders that it names."""
    rows = [("train", "a.jpg"), ("restval", "val2014/b.jpg"), ("val", "c.jpg"), ("test", "d.jpg")]
    images = []
    for part, name in rows:
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
        sentences = [{"raw": f"one {file.stem}"}, {"raw": f"two {file.stem}"}]
        images.append({"filename": file.name, "filepath": "val2014", "split": part, "sentences": sentences})
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"images": images}))
    return path


def test_a_karpathy_split_gives_pairs_of_the_parts_asked_for(split, tmp_path):
    folder = tmp_path / "images"
    source = f"{split}:train+restval"
    assert is_pairs(source)
    assert load_pairs(source, root=folder) == [
        ImageCaptions(folder / "a.jpg", ("one a", "two a")),
        ImageCaptions(folder / "val2014" / "b.jpg", ("one b", "two b")),
    ]
    with pytest.raises(DataError, match=r"there is no file of 1 image: .*c\.jpg; give the folder"):
        load_pairs(f"{split}:val")
    with pytest.raises(ConfigError, match="name its parts"):
        load_pairs(str(split), root=folder)
    with pytest.raises(ConfigError, match="no part 'dev'; there are train, restval, val, test"):
        load_pairs(f"{split}:dev", root=folder)


def test_what_is_no_karpathy_split_is_no_training_pairs(split, tmp_path):
    (tmp_path / "annotations.json").write_text('{"images": [{"id": 1, "file_name": "a.jpg"}]}')
    with pytest.raises(ConfigError, match=r"unknown training pairs .* a Karpathy split with its parts"):
        load_pairs(str(tmp_path / "annotations.json"))
    twice = json.loads(split.read_text())["images"][:1] * 2
    split.write_text(json.dumps({"images": twice}))
    with pytest.raises(DataError, match=r"image 'a\.jpg' occurs twice"):
        load_pairs(f"{split}:train", root=tmp_path / "images")


@pytest.mark.realdata
def test_flickr8k_training_data(shared):
    pairs = load_pairs("flickr8k-train", root=shared / "data/flickr8k")
    assert len(pairs) == 5999  # the list as it is distributed lacks one of the 6,000
    assert all(len(pair.captions) == 5 for pair in pairs)
