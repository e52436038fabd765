"""Splits keep groups whole, forget row order, and come back from their file."""

import json
import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from suisei.data.sample import CaptionSample
from suisei.data.splits import (
    PARTS,
    Split,
    fold_by_group,
    group_of,
    portable_names,
    references_by_image,
    split_by_group,
)
from suisei.data.video import VideoSample
from suisei.errors import ConfigError, DataError


def samples_of(groups):
    return [CaptionSample(f"caption {number}", group=group) for number, group in enumerate(groups)]


def parts_of(split, samples):
    return {part: {group_of(samples[p]) for p in getattr(split, part)} for part in PARTS}


def check(split, samples):
    """Every position once, no group on two sides."""
    assert sorted((*split.train, *split.validation, *split.test)) == list(range(len(samples)))
    parts = parts_of(split, samples)
    assert sum(map(len, parts.values())) == len(set().union(*parts.values()))
    assert {part: tuple(sorted(names)) for part, names in parts.items()} == dict(split.groups)


group_lists = st.lists(
    st.sampled_from([str(n) for n in range(15)]) | st.text(max_size=3), min_size=20
).filter(lambda groups: len(set(groups)) >= 6)


@settings(deadline=None)
@given(group_lists, st.integers(0, 5), st.floats(0, 0.45), st.floats(0, 0.45))
def test_no_group_is_on_two_sides(groups, seed, validation, test):
    samples = samples_of(groups)
    split = split_by_group(samples, (1 - validation - test, validation, test), seed)
    check(split, samples)
    assert split.train
    assert bool(split.validation) == (validation > 0)
    assert bool(split.test) == (test > 0)


@settings(deadline=None)
@given(group_lists, st.integers(0, 5), st.integers(2, 4))
def test_folds_test_every_group_once(groups, seed, folds):
    samples = samples_of(groups)
    tested = []
    for fold in range(folds):
        split = fold_by_group(samples, fold, folds, seed)
        check(split, samples)
        assert split.train
        assert split.validation
        tested += split.test
    assert sorted(tested) == list(range(len(samples)))


@settings(deadline=None)
@given(group_lists, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(groups, shuffler):
    samples = samples_of(groups)
    shuffled = samples[:]
    shuffler.shuffle(shuffled)
    for make in (split_by_group, lambda rows: fold_by_group(rows, 1, 3)):
        assert parts_of(make(samples), samples) == parts_of(make(shuffled), shuffled)


def test_fractions_are_of_groups():
    groups = [str(number) for number in range(100) for _ in range(1 + number % 7)]
    split = split_by_group(samples_of(groups), (0.7, 0.1, 0.2))
    assert {part: len(names) for part, names in split.groups.items()} == {
        "train": 70,
        "validation": 10,
        "test": 20,
    }


def test_the_split_is_the_same_everywhere_and_another_seed_gives_another():
    samples = samples_of(map(str, range(20)))
    first = split_by_group(samples, seed=0)
    assert first == split_by_group(samples, seed=0)
    assert first.groups["test"] == ("17", "8")  # must never change: published splits rely on it
    assert len({split_by_group(samples, (0.5, 0.25, 0.25), seed).test for seed in range(5)}) == 5


def test_zero_shares_leave_a_part_empty():
    samples = samples_of(map(str, range(10)))
    split = split_by_group(samples, (0.9, 0.1, 0.0))
    assert (len(split.train), len(split.validation), split.test) == (9, 1, ())
    assert fold_by_group(samples, 0, 5, validation=0).validation == ()


@pytest.mark.parametrize("fractions", [(0.1, 0.45, 0.45), (0.1, 0.3, 0.6), (0.1, 0.6, 0.3)])
@pytest.mark.parametrize("count", [3, 4, 5])
def test_few_groups_still_fill_every_part(count, fractions):
    split = split_by_group(samples_of(map(str, range(count))), fractions)
    assert min(len(split.train), len(split.validation), len(split.test)) >= 1


@pytest.mark.parametrize(
    "fractions", [(0.5, 0.5), (0.8, 0.1, 0.2), (0, 0.5, 0.5), (1.2, -0.1, -0.1), (float("nan"),) * 3]
)
def test_impossible_fractions(fractions):
    with pytest.raises(ConfigError, match="three shares of 1"):
        split_by_group(samples_of(map(str, range(10))), fractions)


def test_too_few_groups():
    with pytest.raises(DataError, match="form 2 groups, too few for 3 parts"):
        split_by_group(samples_of("aabb"))
    with pytest.raises(DataError, match="form 1 group, too few for 2 parts"):
        split_by_group(samples_of("aaa"), (0.5, 0, 0.5))
    with pytest.raises(DataError, match="form 0 groups"):
        split_by_group([])
    with pytest.raises(DataError, match="form 3 groups, too few for 4 folds"):
        fold_by_group(samples_of("abc"), 0, 4)
    with pytest.raises(DataError, match="too few for 2 folds and a validation part"):
        fold_by_group(samples_of("ab"), 0, 2)


@pytest.mark.parametrize(("fold", "folds"), [(3, 3), (-1, 3), (0, 1)])
def test_folds_that_do_not_exist(fold, folds):
    with pytest.raises(ConfigError, match="fold must be 0 to folds - 1"):
        fold_by_group(samples_of(map(str, range(9))), fold, folds)


def test_what_stands_in_for_a_missing_group():
    image = Image.new("RGB", (2, 2))
    full = {"references": ("a", "b"), "image": "x/./i.png", "id": "7"}
    assert group_of(CaptionSample("c", group="g", **full)) == "g"
    assert group_of(CaptionSample("c", **full)) == f"image:{Path.cwd() / 'x/i.png'}"
    assert group_of(CaptionSample("c", image=Path("x/i.png"))) == group_of(
        CaptionSample("d", image=str(Path.cwd() / "y/../x/i.png"))
    )
    assert group_of(CaptionSample("c", image=image)) == group_of(CaptionSample("d", image=image.copy()))
    by_references = [
        group_of(CaptionSample("c", references))
        for references in (("a", "b"), ("b", "a"), ("ab",), ("a", "bb"))
    ]
    assert by_references[0] == by_references[1]
    assert len(set(by_references)) == 3
    assert group_of(CaptionSample("c", id="7")) == "id:7"
    assert group_of(CaptionSample("c")) == group_of(CaptionSample("c")) != group_of(CaptionSample("d"))


@pytest.mark.parametrize("names", [("a", "a ", "\ta"), ("画像ガ", "画像カ\u3099 "), ("é", "e\u0301")])
def test_groups_and_systems_whose_names_look_alike_are_one(names):
    samples = [CaptionSample("a dog", group=name, system=name) for name in names]
    assert len({group_of(sample) for sample in samples}) == 1
    assert len({sample.system for sample in samples}) == 1
    assert group_of(CaptionSample("a dog", group="b")) != group_of(samples[0])


file_names = st.text(st.sampled_from("a/.é画カがe \t\u3000\u0301\u3099"), min_size=1).map(
    lambda name: f"x{name}"
)


@given(file_names, st.sampled_from(["NFC", "NFD"]), st.sampled_from(["image", "id", "group", "references"]))
def test_a_sample_that_is_given_its_group_keeps_it(name, form, field):
    written = unicodedata.normalize(form, name)
    sample = CaptionSample("c", **{field: (written,) if field == "references" else written})
    assert group_of(replace(sample, group=group_of(sample))) == group_of(sample)


def test_a_video_that_is_given_its_group_keeps_it():
    sample = VideoSample("c", video="clips/カ\u3099.mp4 ")
    assert group_of(sample).endswith("clips/ガ.mp4")
    assert group_of(replace(sample, group=group_of(sample))) == group_of(sample)


def test_a_split_saved_with_names_as_they_are_written_is_still_read(tmp_path):
    samples = [CaptionSample("c", image=f"カ\u3099{number}.png") for number in range(3)]
    split = split_by_group(samples, (0.4, 0.3, 0.3))
    split.save(tmp_path / "split.json", samples)
    content = json.loads((tmp_path / "split.json").read_text())
    groups = {
        part: [unicodedata.normalize("NFD", name) for name in names]
        for part, names in content["groups"].items()
    }
    (tmp_path / "split.json").write_text(json.dumps({**content, "groups": groups}))
    assert Split.load(tmp_path / "split.json", samples) == split


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["image:/a/b/c.png", "image:/a/d.png", "e"], ["image:b/c.png", "image:d.png", "e"]),
        (["image:x.png", "image:y/z.png"], ["image:x.png", "image:y/z.png"]),
        (["video:/a/b.mp4", "image:/c/d.png"], ["video:b.mp4", "image:d.png"]),
        (
            ["image:/a/b.png", "image:file-0", "image:/c.png"],
            ["image:a/b.png", "image:file-0", "image:c.png"],
        ),
        ([], []),
    ],
)
def test_groups_of_files_are_called_the_same_in_any_folder(groups, expected):
    assert portable_names(groups) == dict(zip(groups, expected, strict=True))


def test_save_and_load_for_reordered_samples(tmp_path):
    samples = samples_of([str(number % 30) for number in range(100)])
    split = split_by_group(samples, seed=3)
    split.save(tmp_path / "split.json", samples)
    assert Split.load(tmp_path / "split.json", samples) == split
    shuffled = samples[:]
    random.Random(1).shuffle(shuffled)
    restored = Split.load(tmp_path / "split.json", shuffled)
    assert {shuffled[p].candidate for p in restored.test} == {samples[p].candidate for p in split.test}
    content = json.loads((tmp_path / "split.json").read_text())
    assert (content["seed"], content["method"]) == (3, "by group, 0.8 / 0.1 / 0.1")
    assert content["counts"]["test"] == {"groups": 3, "samples": len(split.test)}
    assert content["groups"]["validation"] == list(split.groups["validation"])


def test_a_split_that_does_not_fit_is_refused(tmp_path):
    path, samples = tmp_path / "split.json", samples_of("abc")
    Split((0,), (1,), (2,)).save(path, samples)
    with pytest.raises(DataError, match="lacks 1 of these samples' 4 groups, such as 'd'"):
        Split.load(path, samples_of("abcd"))
    with pytest.raises(DataError, match="group 'a' is in two parts, train and test"):
        Split((0,), (), (1,)).save(path, samples_of("aa"))
    assert Split.load(path, samples).test == (2,)  # the refused one did not overwrite it


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a saved split"),
        ("[]", "'groups' with train, validation, test is missing"),
        ('{"groups": {"train": []}}', "'groups' with"),
        ('{"groups": {"train": [1], "validation": [], "test": []}}', "groups of train are not a list"),
        ('{"groups": {"train": ["a"], "validation": ["a"], "test": []}}', "in two parts"),
    ],
)
def test_a_damaged_split_file(tmp_path, content, message):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(DataError, match=message):
        Split.load(tmp_path / "s.json", samples_of("a"))
    with pytest.raises(DataError, match="cannot be read"):
        Split.load(tmp_path / "gone.json", samples_of("a"))


def test_an_images_references_are_told_apart_by_language_and_stand_once():
    samples = [
        CaptionSample("a dog", ("b", "a"), group="one"),
        CaptionSample("a dog", ("a", "c"), group="two"),
        CaptionSample("犬", ("猫",), group="one"),
        CaptionSample("a cat", ("c", "b"), group="one"),
    ]
    assert references_by_image(samples) == {
        ("one", "en"): ["b", "a", "c"],
        ("two", "en"): ["a", "c"],
        ("one", "ja"): ["猫"],
    }
