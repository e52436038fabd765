"""Images drawn from captions: each once, whatever the batch, the order, the process or the run."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("diffusers", reason="needs the extra recap")

from suisei.encoders import drawings as module
from suisei.encoders.drawings import Drawings
from suisei.encoders.sharing import shared_drawings, shared_encoders
from suisei.encoders.text_to_image import Illustrator
from suisei.errors import ConfigError, UnavailableError
from suisei.scoring.summary import general_reason

CAPTIONS = ["two dogs run", "赤いボール", "a cat"]


@pytest.fixture
def make(tiny_diffusion, tmp_path):
    def made(**options):
        given = {"steps": 2, "images": 2, "device": "cpu", "cache": tmp_path / "cache", **options}
        return Drawings(str(tiny_diffusion), **given)

    return made


@pytest.fixture
def never(monkeypatch):
    """Let any further drawing fail the test."""

    def forbid():
        monkeypatch.setattr(Illustrator, "generate", lambda *_: pytest.fail("drawn again"))

    return forbid


def pixels(files):
    return [np.asarray(Image.open(file), dtype=int) for file in files]


def test_images_depend_on_caption_seed_and_number_alone(make, tmp_path):
    together = make().of(CAPTIONS, batch_size=4)
    alone = make(cache=tmp_path / "other")
    apart = {caption: alone.of([caption], batch_size=1)[caption] for caption in reversed(CAPTIONS)}
    for caption in CAPTIONS:
        for one, other in zip(pixels(together[caption]), pixels(apart[caption]), strict=True):
            assert np.abs(one - other).max() <= 1  # rounding between batches
        assert [file.name for file in together[caption]] == [file.name for file in apart[caption]]
    every = [file.read_bytes() for files in together.values() for file in files]
    assert len(set(every)) == 6
    more = make(images=3).of(CAPTIONS[:1])[CAPTIONS[0]]
    assert more[:2] == together[CAPTIONS[0]]  # the first images stay
    assert not set(make(seed=1).of(CAPTIONS[:1])[CAPTIONS[0]]) & set(more)


def test_nothing_is_drawn_twice(make, never):
    first = make().of([*CAPTIONS, CAPTIONS[0]])
    never()
    assert make().of(CAPTIONS) == first
    again = make()
    assert pickle.loads(pickle.dumps(again)).of(CAPTIONS) == first
    assert again._illustrator is None  # not even loaded


def test_a_run_that_was_cut_off_goes_on(make, monkeypatch):
    real, drawn = Illustrator.generate, []

    def failing(self, captions, seeds):
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.extend(captions)
        return real(self, captions, seeds)

    monkeypatch.setattr(Illustrator, "generate", failing)
    with pytest.raises(KeyboardInterrupt):
        make().of(CAPTIONS, batch_size=1)

    def going(self, captions, seeds):
        drawn.extend(captions)
        return real(self, captions, seeds)

    monkeypatch.setattr(Illustrator, "generate", going)
    make().of(CAPTIONS)
    assert sorted(drawn) == sorted(CAPTIONS * 2)


@pytest.mark.parametrize("damage", ["cut off", "another's", "empty"])
def test_a_damaged_file_is_drawn_again(make, damage):
    files = [file for files in make().of(CAPTIONS[:2]).values() for file in files]
    before = files[0].read_bytes()
    wrong = {"cut off": before[:-40], "another's": files[2].read_bytes(), "empty": b""}[damage]
    files[0].write_bytes(wrong)
    make().of(CAPTIONS[:2])
    assert np.array_equal(*pixels([files[0], files[0]]))
    assert files[0].read_bytes() == before


def test_a_declined_image_is_a_reason_and_is_not_tried_again(make, monkeypatch, never):
    real = Illustrator.generate

    def declining(self, captions, seeds):
        made = real(self, captions, seeds)
        return [None if caption == "a cat" else image for caption, image in zip(captions, made, strict=True)]

    monkeypatch.setattr(Illustrator, "generate", declining)
    found = make().of(CAPTIONS)
    assert found["a cat"] == f"{module.DECLINED}; image 1 of 2"
    assert "declined" in general_reason(found["a cat"])
    assert len(found["two dogs run"]) == 2
    never()
    assert make().of(CAPTIONS) == found


def test_a_failure_costs_its_own_caption_and_is_tried_again(make, monkeypatch):
    real = Illustrator.generate

    def failing(self, captions, seeds):
        if "a cat" in captions:
            raise ValueError("no cats")
        return real(self, captions, seeds)

    monkeypatch.setattr(Illustrator, "generate", failing)
    found = make().of(CAPTIONS, batch_size=4)
    assert found["a cat"] == "the model failed with ValueError, no cats; image 1 of 2"
    assert general_reason(found["a cat"]) == "the model failed with ValueError, no cats"
    assert all(len(found[caption]) == 2 for caption in CAPTIONS[:2])
    monkeypatch.setattr(Illustrator, "generate", real)
    assert len(make().of(CAPTIONS)["a cat"]) == 2


def test_batches_shrink_where_memory_is_short(make, monkeypatch):
    real, sizes = Illustrator.generate, []

    def little(self, captions, seeds):
        sizes.append(len(captions))
        if len(captions) > limit:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")
        return real(self, captions, seeds)

    limit = 1
    monkeypatch.setattr(Illustrator, "generate", little)
    assert all(len(files) == 2 for files in make().of(CAPTIONS).values())
    assert sizes == [4, 2, 1, 1, 1, 1, 1, 1]
    limit = 0
    with pytest.raises(UnavailableError, match="out of memory with one item"):
        make(seed=5).of(CAPTIONS)


def test_a_folder_that_cannot_be_written_to_is_said(make, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"cannot be kept in .*--cache DIR"):
        make(cache=tmp_path / "file").of(["x"])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_save", full)
    with pytest.raises(UnavailableError, match="No space left on device"):
        make().of(["x"])
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_off_keeps_images_for_the_objects_life(make, monkeypatch):
    monkeypatch.setenv("SUISEI_CACHE", "off")
    made = make(cache=None)
    files = made.of(["x"])["x"]
    assert all(file.is_file() for file in files)
    assert made.of(["x"])["x"] == files
    del made
    assert not any(file.exists() for file in files)


def test_the_folder_is_that_of_the_caches(make, tmp_path, monkeypatch):
    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path / "mine"))
    assert make(cache=None).of(["x"])["x"][0].is_relative_to(tmp_path / "mine" / "drawings")


def test_two_writers_of_the_same_images_do_no_harm(make):
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda made: made.of(CAPTIONS), [make(), make()])
    assert one == other
    assert all(np.asarray(Image.open(file)).shape == (16, 16, 3) for files in one.values() for file in files)
    folder = one[CAPTIONS[0]][0].parents[1]
    assert sum(path.is_file() for path in folder.rglob("*")) == 6  # no temporary file is left


def test_drawings_are_shared_within_a_command(tiny_diffusion):
    with shared_encoders():
        one, same = (shared_drawings(str(tiny_diffusion), seed=1) for _ in range(2))
        assert one is same
        assert shared_drawings(str(tiny_diffusion), seed=2) is not one
    assert shared_drawings(str(tiny_diffusion), seed=1) is not one


@pytest.mark.parametrize(
    "options",
    [
        {"images": 0},
        {"seed": -1},
        {"steps": 1.5},
        {"guidance": -1},
        {"draw_size": 4},
        {"draw_size": 300},
        {"images": True},
    ],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        Drawings("x", **options)
