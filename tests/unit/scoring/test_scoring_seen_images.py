"""Images that went away while a run was at work, and those that never were there."""

import pytest

from suisei.data.file_rows import Row
from suisei.data.paths import FetchedImage
from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample
from suisei.errors import DataError
from suisei.scoring import seen_images
from suisei.scoring.seen_images import SeenImages, files_of, topmost_missing


def found(path):
    return Row(1, None, CaptionSample("a dog", image=path), None)


def absent(path):
    return Row(2, None, None, DataError("bad"), absent=str(path))


@pytest.fixture
def images(tmp_path):
    """Three folders with an image each, one of which has a name that begins as another's does."""
    paths = []
    for name in ("a", "ab", "c"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "1.png")
        paths[-1].touch()
    return paths


def seen(*paths, root=None):
    seen = SeenImages(root)
    assert len(list(seen.watch(map(found, paths)))) == len(paths)
    return seen


def test_a_remembered_image_that_is_gone_tells_of_its_folder(images):
    one, _, _ = images
    watched = seen(*images)
    missing = one.with_name("2.png")
    assert watched.gone([absent(missing)]) is None  # never was there
    one.unlink()
    assert watched.gone([absent(missing)]) == str(one)
    one.parent.rmdir()
    assert watched.gone([absent(missing)]) == str(one.parent)


def test_a_folder_whose_name_begins_alike_is_another(images):
    one, other, _ = images
    watched = seen(one, other)
    other.unlink()
    assert watched.gone([absent(one.with_name("2.png"))]) is None
    assert watched.gone([absent(other.with_name("2.png"))]) == str(other)


def test_a_row_that_is_wrong_otherwise_hides_no_image_that_went_away(images):
    watched = seen(*images)
    images[2].unlink()
    other = Row(3, None, None, DataError("no caption"))
    assert watched.gone([other, absent(images[2].with_name("2.png"))]) == str(images[2])
    assert watched.gone([other, found(images[2])]) == str(images[2])
    assert watched.gone([other, found(images[0])]) is None


def test_images_are_remembered_by_names_from_the_working_folder_too(images, monkeypatch):
    monkeypatch.chdir(images[0].parent.parent)
    watched = seen("a/1.png")
    images[0].unlink()
    assert watched.gone([absent("a/2.png")]) == str(images[0])


def test_a_video_is_remembered(images):
    watched = SeenImages()
    watched.remember(Row(1, None, VideoSample("a dog", video=images[0]), None))
    images[0].unlink()
    assert watched.gone([absent(images[0].with_name("2.png"))]) == str(images[0])


def test_the_folder_that_the_caller_named_is_looked_for_first(images):
    watched = seen(images[1], root=images[0].parent)
    assert watched.gone([]) is None
    images[0].unlink()
    images[0].parent.rmdir()
    assert watched.gone([]) == str(images[0].parent)


def test_the_latest_folders_are_remembered(images, monkeypatch):
    monkeypatch.setattr(seen_images, "MOST_FOLDERS", 2)
    one, other, last = images
    watched = seen(one, other, other.with_name("2.png"))
    other.with_name("2.png").touch()
    one.unlink()
    lacking = [absent(path.with_name("3.png")) for path in images]
    assert watched.gone(lacking[:1]) == str(one)
    watched.remember(found(last))
    assert watched.gone(lacking[:1]) is None  # forgotten, as a third folder came
    other.with_name("2.png").unlink()
    assert watched.gone(lacking) == str(other.with_name("2.png"))


def test_addresses_and_what_was_fetched_are_no_files_of_a_sample(tmp_path):
    assert files_of(CaptionSample("a dog", image="https://example.org/1.png")) == []
    assert files_of(CaptionSample("a dog", image=FetchedImage(tmp_path / "1.png"))) == []
    assert files_of(VideoSample("a dog", image="1.png", video="1.mp4")) == ["1.png", "1.mp4"]


def test_the_first_part_of_a_path_that_is_not_there(tmp_path):
    assert topmost_missing(str(tmp_path / "a" / "b" / "1.png")) == str(tmp_path / "a")
    (tmp_path / "a").mkdir()
    assert topmost_missing(str(tmp_path / "a" / "1.png")) == str(tmp_path / "a" / "1.png")
