"""Benchmarks of rated captions in tables: CSV of their authors, Parquet of the hub, images inside it."""

from pathlib import Path

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.hub import caption_list
from suisei.errors import DataError
from tests.unit.data.row_files import write_csv, write_parquet

HEADER = ("imgid", "mt", "refs", "score")


@pytest.mark.parametrize("name", ["../../secret.jpg", "/etc/hosts"])
def test_an_image_name_does_not_lead_out_of_the_folder(tmp_path, name):
    write_csv(tmp_path / "polaris_test.csv", HEADER, (name, "a dog", "['x']", "1"))
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError, match=r"row 1: the image name .* leads out of the image folder"):
        BENCHMARKS["polaris"].read(tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "score"),
    [
        ("composite", "en_test_composite_da2.csv", 3.5),
        ("polaris", "polaris_test.csv", 0.75),
        ("nebula", "nebula_test.csv", 0.75),
        ("capeval1k", "capeval1k.csv", 4.0),
        ("pfn-pic-gen", "pfn_pic_gen.csv", 4.0),
    ],
)
def test_tables_of_authors(tmp_path, name, file, score):
    references = """['a "b" ref', "the dog's"]"""
    write_csv(tmp_path / file, HEADER, ("a.jpg", "a dog", references, score), ("12", "x", "[]", score))
    first, second = BENCHMARKS[name].read(tmp_path)
    assert (first.candidate, first.references) == ("a dog", ('a "b" ref', "the dog's"))
    assert first.rating.values == (score,)
    assert (first.group, second.group, second.references) == ("a.jpg", "12", ())
    assert first.language == ("ja" if name == "pfn-pic-gen" else "en")
    assert BENCHMARKS[name].read(tmp_path / file) == [first, second]  # the file itself
    (tmp_path / "images").mkdir()
    for image in ("a.jpg", "12.jpg"):
        (tmp_path / "images" / image).write_bytes(b"x")
    assert [sample.image.name for sample in BENCHMARKS[name].read(tmp_path)] == ["a.jpg", "12.jpg"]


@pytest.mark.parametrize("file", ["12", "12.jpg", "12.jpeg", "12.png", "12.webp"])
def test_an_image_that_a_table_names_without_its_ending(tmp_path, file):
    write_csv(tmp_path / "polaris_test.csv", HEADER, ("12", "a dog", "['x']", "1"))
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError) as caught:
        BENCHMARKS["polaris"].read(tmp_path)
    assert "images/12, alone or with .jpg, .jpeg, .png, .webp; call the files so" in str(caught.value)
    assert "unpack" not in str(caught.value)
    (tmp_path / "images" / file).write_bytes(b"x")
    (sample,) = BENCHMARKS["polaris"].read(tmp_path)
    assert (sample.image, sample.group) == (tmp_path / "images" / file, "12")


def test_an_image_of_just_that_name_comes_first(tmp_path):
    write_csv(tmp_path / "polaris_test.csv", HEADER, *((name, "a", "['x']", "1") for name in ("12", "a.jpg")))
    (tmp_path / "images").mkdir()
    for file in ("12", "12.jpg", "a.jpg.png"):
        (tmp_path / "images" / file).write_bytes(b"x")
    with pytest.raises(DataError, match=r"row 2: the image file .*/a.jpg is not there; unpack"):
        BENCHMARKS["polaris"].read(tmp_path)
    (sample,) = BENCHMARKS["polaris"].read(tmp_path, on_error="skip")
    assert sample.image.name == "12"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a.jpg", "a dog", "['x']", "good"), "the rating .* must be a number, got 'good'"),
        (("a.jpg", "a dog", "['x']", "7"), "rating 7 is outside the scale 0 to 1"),
        (("a.jpg", "a dog", "['x']", "nan"), "rating is nan"),
        (("a.jpg", "a dog", "['x'", "1"), "refs must be a list of captions"),
        (("a.jpg", "a dog", "[1]", "1"), "refs must be a list of captions"),
        (("a.jpg", "", "['x']", "1"), "mt without a value"),
        (("a.jpg", "a dog", "['x']", ""), "score without a value"),
        (("", "a dog", "['x']", "1"), "it has no image name in imgid or file_name"),
        (("a.jpg", "a dog", "1"), "3 fields where the header has 4"),
    ],
)
def test_rows_of_tables_that_are_wrong_are_named(tmp_path, row, message):
    write_csv(tmp_path / "polaris_test.csv", HEADER, ("a.jpg", "a dog", "['x']", "1"), row)
    with pytest.raises(DataError, match=rf"polaris_test.csv, row 2: {message}"):
        BENCHMARKS["polaris"].read(tmp_path)
    assert len(BENCHMARKS["polaris"].read(tmp_path, on_error="skip")) == 1


def test_lists_are_parsed_and_never_run(tmp_path):
    marker = tmp_path / "run"
    with pytest.raises(DataError, match="refs must be a list"):
        caption_list(f"[open({str(marker)!r}, 'w').name]")
    assert not marker.exists()
    assert caption_list('["a\\u00e9", "b"]') == ("aé", "b")
    assert caption_list(["a"]) == ("a",)
    assert caption_list('  [\'a "dog" [1]\', "the dog\'s"]') == ('a "dog" [1]', "the dog's")
    for glued in ("['a dog' 'two dogs']", "['a dog'\n \"a dog's\"]", "['a' 'b', 'c']"):
        with pytest.raises(DataError, match=r"no comma between them, as NumPy prints arrays.*map\(list\)"):
            caption_list(glued)
    for wrong in ("'text'", "{'a': 1}", None, 3, "[[[[" * 5000):
        with pytest.raises(DataError, match="refs must be a list"):
            caption_list(wrong)


def test_parquet_of_the_hub_and_images_inside_it(tmp_path):
    image = {"bytes": b"an image", "path": None}
    write_parquet(
        tmp_path / "data" / "test-00000-of-00002.parquet",
        refs=[["a", "b"], ["c"]],
        cand=["x", "y"],
        img=[image, {"bytes": b"another", "path": None}],
        human_score=[0.5, 1.0],
    )
    write_parquet(
        tmp_path / "data" / "test-00001-of-00002.parquet",
        refs=[["a"]],
        cand=["z"],
        img=[image],
        human_score=[0.0],
    )
    samples = BENCHMARKS["polaris"].read(tmp_path)
    assert [sample.candidate for sample in samples] == ["x", "y", "z"]
    assert samples[0].group == samples[2].group != samples[1].group  # known by what the image holds
    assert {sample.image for sample in samples} == {None}
    folder = tmp_path / "unpacked"
    folder.mkdir()
    samples = BENCHMARKS["polaris"].read(tmp_path, images=folder)
    assert samples[0].image == samples[2].image
    assert [sample.image.read_bytes() for sample in samples[:2]] == [b"an image", b"another"]
    assert len(list(folder.iterdir())) == 2


def write_shards(folder, numbers, total=3):
    for number in numbers:
        path = folder / f"test-{number:05d}-of-{total:05d}.parquet"
        write_parquet(path, refs=[["a"]], cand=["x"], file_name=["a.jpg"], human_score=[1.0])


def write_pictures(path, *pictures, name="image.png"):
    write_parquet(
        path,
        refs=[["a"] for _ in pictures],
        cand=[f"caption {number}" for number in range(len(pictures))],
        img=[{"bytes": picture, "path": name} for picture in pictures],
        human_score=[1.0 for _ in pictures],
    )


@pytest.mark.parametrize("unpacks", [True, False])
def test_pictures_that_parquet_calls_the_same_are_not_the_same(tmp_path, unpacks):
    folder = tmp_path / "unpacked" if unpacks else None
    if folder:
        folder.mkdir()
    write_pictures(tmp_path / "test-00000-of-00002.parquet", b"one", b"two", b"one")
    write_pictures(tmp_path / "test-00001-of-00002.parquet", b"six", b"two")
    samples = BENCHMARKS["polaris"].read(tmp_path, images=folder)
    groups = [sample.group for sample in samples]
    assert [groups.index(group) for group in groups] == [0, 1, 0, 3, 1]
    assert groups[0] == "image.png"
    assert {Path(group).suffix for group in groups} == {".png"}
    assert BENCHMARKS["polaris"].read(tmp_path, images=folder) == samples
    if folder:
        held = [sample.image.read_bytes() for sample in samples]
        assert held == [b"one", b"two", b"one", b"six", b"two"]
        assert len(list(folder.iterdir())) == 3


def test_a_file_of_another_set_is_not_taken_for_the_picture_and_is_kept(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "image.png").write_bytes(b"six")
    write_pictures(tmp_path / "test-1.parquet", b"one", b"six", b"longer")
    samples = BENCHMARKS["nebula"].read(tmp_path, images=folder)
    assert [sample.image.read_bytes() for sample in samples] == [b"one", b"six", b"longer"]
    assert len({sample.group for sample in samples}) == 3
    assert (folder / "image.png").read_bytes() == b"six"
    files = {path.name for path in folder.iterdir()}
    BENCHMARKS["nebula"].read(tmp_path, images=folder)
    assert {path.name for path in folder.iterdir()} == files


def test_pictures_unpacked_before_are_used_again(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    write_pictures(tmp_path / "test-1.parquet", b"one", name="COCO_1.jpg")
    (folder / "COCO_1.jpg").write_bytes(b"one")
    (sample,) = BENCHMARKS["polaris"].read(tmp_path, images=folder)
    assert (sample.image, sample.group) == (folder / "COCO_1.jpg", "COCO_1.jpg")
    assert [path.name for path in folder.iterdir()] == ["COCO_1.jpg"]


@pytest.mark.parametrize("name", ["polaris", "nebula", "composite"])
@pytest.mark.parametrize(
    ("there", "absent"),
    [
        ([0, 2], r"1 of them would not be read \(test-00001-of-00003.parquet\)"),
        ([1], r"2 of them .*\(test-00000-of-00003.parquet, test-00002-of-00003.parquet\)"),
    ],
)
def test_a_part_of_the_shards_does_not_pass_for_the_whole(tmp_path, name, there, absent):
    write_shards(tmp_path / "data", there)
    with pytest.raises(DataError, match=rf"/data: test-0000\d-of-00003.parquet is one of 3 .*{absent}"):
        BENCHMARKS[name].read(tmp_path)


@pytest.mark.parametrize("folder", ["data", "."])
def test_composite_in_shards(tmp_path, folder):
    write_shards(tmp_path / folder, [0, 1])
    with pytest.raises(DataError, match="is one of 3 shards"):
        BENCHMARKS["composite"].read(tmp_path)
    write_shards(tmp_path / folder, [2])
    samples = BENCHMARKS["composite"].read(tmp_path)
    assert [sample.rating.values for sample in samples] == [(1.0,)] * 3
    assert (samples[0].rating.low, samples[0].rating.high, samples[0].references) == (1, 5, ("a",))


@pytest.mark.parametrize("name", ["polaris", "nebula", "capeval1k", "composite"])
def test_a_single_shard_does_not_pass_for_the_whole(tmp_path, name):
    write_shards(tmp_path, [0, 1, 2])
    with pytest.raises(DataError, match=r"2 of them .*00000-of-00003.*00002-of.*the folder, not a shard"):
        BENCHMARKS[name].read(tmp_path / "test-00001-of-00003.parquet")
    write_shards(tmp_path, [0], 1)
    assert len(BENCHMARKS[name].read(tmp_path / "test-00000-of-00001.parquet")) == 1


def test_nebula_names_its_images(tmp_path):
    write_parquet(
        tmp_path / "data" / "test-00000-of-00001.parquet",
        file_name=["COCO_1.jpg"],
        image=[{"bytes": b"an image", "path": "other.jpg"}],
        refs=[["a"]],
        mt=["x"],
        human_score=[0.25],
    )
    (sample,) = BENCHMARKS["nebula"].read(tmp_path, images=tmp_path)
    assert (sample.group, sample.rating.mean, sample.image) == ("COCO_1.jpg", 0.25, tmp_path / "COCO_1.jpg")


def test_tables_that_are_not_there_or_empty(tmp_path):
    with pytest.raises(DataError, match=r"has no nebula_test.csv or .*Ka2ukiMatsuda/Nebula"):
        BENCHMARKS["nebula"].read(tmp_path)
    with pytest.raises(DataError, match="there is no such folder"):
        BENCHMARKS["nebula"].read(tmp_path / "absent")
    write_csv(tmp_path / "nebula_test.csv", HEADER)
    with pytest.raises(DataError, match="has no rows"):
        BENCHMARKS["nebula"].read(tmp_path)
    (tmp_path / "test-1.parquet").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        BENCHMARKS["nebula"].read(tmp_path / "test-1.parquet")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(DataError, match=r"expected a .csv or .parquet"):
        BENCHMARKS["nebula"].read(tmp_path / "x.json")
