"""Splits whose parts share no candidate caption: what is promised, what is left out, and where it is said."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.data.sample import CaptionSample
from suisei.data.splits import (
    PARTS,
    Split,
    caption_key,
    cross_candidates,
    fold_by_group,
    group_of,
    split_by_group,
    without_shared_candidates,
)
from suisei.errors import ConfigError, DataError
from suisei.training.card import describe_data
from suisei.training.datamodule import CaptionDataModule
from suisei.training.support import Support
from suisei.training.synthetic import Synthetic


def keys(samples, positions):
    return {caption_key(samples[position].candidate) for position in positions}


def assert_disjoint(samples, split):
    parts = [getattr(split, part) for part in PARTS]
    for number, part in enumerate(parts):
        for other in parts[:number]:
            assert keys(samples, part).isdisjoint(keys(samples, other))
            assert {group_of(samples[p]) for p in part}.isdisjoint(group_of(samples[p]) for p in other)


def rows_of(split, samples):
    return {part: Counter(samples[p].id for p in getattr(split, part)) for part in PARTS}


rated = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from([*"abcdefgh", "A", "b ", "c.", "D!", "。", "ガ", "ｶﾞ"])),
    min_size=12,
    max_size=60,
).filter(lambda rows: len({group for group, _ in rows}) >= 6)


def samples_of(rows):
    return [CaptionSample(text, group=str(group), id=str(n)) for n, (group, text) in enumerate(rows)]


@settings(deadline=None)
@given(rated, st.integers(0, 3), st.integers(2, 4))
def test_no_candidate_is_in_two_parts_and_no_more_is_left_out_than_must_be(rows, seed, folds):
    samples = samples_of(rows)
    for fold in range(folds):
        by_group = fold_by_group(samples, fold, folds, seed)
        split = without_shared_candidates(samples, by_group)
        assert_disjoint(samples, split)
        assert split.test == by_group.test
        assert set(split.left_out) == {"train", "validation"}
        for part in ("train", "validation"):
            both = (*getattr(split, part), *split.left_out[part])
            assert sorted(both) == list(getattr(by_group, part))
            held_out = keys(samples, split.test) | (
                keys(samples, split.validation) if part == "train" else set()
            )
            assert keys(samples, split.left_out[part]) <= held_out


@settings(deadline=None)
@given(rated, st.randoms(use_true_random=False))
def test_row_order_does_not_matter_and_a_saved_split_comes_back(tmp_path_factory, rows, shuffler):
    samples = samples_of(rows)
    shuffled = samples[:]
    shuffler.shuffle(shuffled)
    split = without_shared_candidates(samples, split_by_group(samples, (0.5, 0.25, 0.25)))
    again = without_shared_candidates(shuffled, split_by_group(shuffled, (0.5, 0.25, 0.25)))
    assert rows_of(split, samples) == rows_of(again, shuffled)
    path = tmp_path_factory.mktemp("split") / "split.json"
    split.save(path, samples)
    assert Split.load(path, samples) == split
    assert rows_of(Split.load(path, shuffled), shuffled) == rows_of(split, samples)


@settings(deadline=None)
@given(rated, st.integers(0, 3), st.integers(2, 4), st.randoms(use_true_random=False))
def test_crossed_folds_test_what_is_of_the_fold_by_both(tmp_path_factory, rows, seed, folds, shuffler):
    samples = samples_of(rows)
    shuffled = samples[:]
    shuffler.shuffle(shuffled)
    path = tmp_path_factory.mktemp("split") / "split.json"
    tested = Counter()
    for fold in range(folds):
        by_group = fold_by_group(samples, fold, folds, seed)
        split = cross_candidates(samples, by_group, fold, folds, seed)
        assert keys(samples, split.test).isdisjoint(keys(samples, (*split.train, *split.validation)))
        for part in PARTS:
            assert sorted((*getattr(split, part), *split.left_out[part])) == list(getattr(by_group, part))
        tested.update(keys(samples, split.test))
        fold_s = keys(samples, split.test) | keys(
            samples, (*split.left_out["train"], *split.left_out["validation"])
        )
        assert fold_s.isdisjoint(keys(samples, split.left_out["test"]))
        again = cross_candidates(shuffled, fold_by_group(shuffled, fold, folds, seed), fold, folds, seed)
        assert rows_of(split, samples) == rows_of(again, shuffled)
        split.save(path, samples)
        assert Split.load(path, samples) == split
    assert set(tested.values()) <= {1}  # a candidate is of one fold


def test_crossed_folds_need_folds_and_a_file_that_says_which(tmp_path):
    with pytest.raises(ConfigError, match=r"crossed puts candidates into folds; set data\.folds"):
        CaptionDataModule(disjoint="crossed")
    samples = samples_of((number, "abc"[number % 3]) for number in range(9))
    path = tmp_path / "split.json"
    cross_candidates(samples, fold_by_group(samples, 0, 3), 0, 3).save(path, samples)
    for wrong in (None, [0, 3], [3, 3, 0], [-1, 3, 0], ["0", 3, 0]):
        path.write_text(json.dumps({**json.loads(path.read_text()), "crossing": wrong}))
        with pytest.raises(DataError, match="'crossing' must be fold, number of folds and seed"):
            Split.load(path, samples)


def test_a_file_without_the_setting_is_of_groups_alone(tmp_path):
    samples = samples_of((number, "the same") for number in range(9))
    path = tmp_path / "split.json"
    split_by_group(samples, (0.4, 0.3, 0.3)).save(path, samples)
    content = json.loads(path.read_text())
    assert (content["disjoint"], content["left_out"]) == ("group", {"train": 0, "validation": 0, "test": 0})
    del content["disjoint"], content["left_out"]
    path.write_text(json.dumps(content))
    assert len(Split.load(path, samples).train) == 3
    path.write_text(json.dumps({**content, "disjoint": "words"}))
    with pytest.raises(DataError, match=r"'disjoint' is 'words', not of group, captions, crossed, topics"):
        Split.load(path, samples)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A dog runs .", "a dog runs", True),
        ("犬が　走る。", "犬が走る", True),
        ("ＡＢＣ", "abc", True),
        ("a dog", "a dogs", False),
        ("。", "。 ", True),
        ("。", "！", False),
    ],
)
def test_which_captions_are_the_same(one, other, same):
    assert (caption_key(one) == caption_key(other)) is same


# -- the data module ------------------------------------------------------------------------------


def write(path, images, captions, *, references=(), seed=0):
    """Rate every image with four of the captions."""
    dice = random.Random(seed)
    rows = [
        {
            "candidate": candidate, "references": [f"reference {path.stem} {image}", *references],
            "group": f"{path.stem}-{image}", "rating": number / 4, "id": f"{path.stem}-{image}-{number}",
        }
        for image in range(images)
        for number, candidate in enumerate(dice.sample(captions, 4))
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return str(path)


CAPTIONS = [f"caption {number}" for number in range(60)]


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "one.jsonl", 40, CAPTIONS)


def load(*args, **options):
    module = CaptionDataModule(*args, **options)
    module.load()
    return module


def test_folds_test_what_they_would_by_group(data):
    tested = []
    for fold in range(4):
        by_group, module = (load(data, folds=4, fold=fold, disjoint=d) for d in ("group", "captions"))
        assert not by_group.split.left_out
        assert module.part("test") == by_group.part("test")
        assert_disjoint(module.samples, module.split)
        assert 0 < len(module.split.train) < len(by_group.split.train)
        left_out = sum(len(rows) for rows in module.split.left_out.values())
        assert left_out + sum(len(module.part(part)) for part in PARTS) == 160
        tested += module.split.test
        assert load(data, folds=4, fold=fold, disjoint="captions").split == module.split
    assert sorted(tested) == list(range(160))


def test_crossed_folds_of_the_data_module_part_candidates_and_images(data):
    for fold in range(2):
        module = load(data, folds=2, fold=fold, disjoint="crossed", split_seed=3)
        by_group = fold_by_group(module.samples, fold, 2, seed=3)
        crossed = cross_candidates(module.samples, by_group, fold, 2, 3)
        assert all(getattr(module.split, part) == getattr(crossed, part) for part in PARTS)
        assert module.split.train != by_group.train
        trained = keys(module.samples, (*module.split.train, *module.split.validation))
        assert trained.isdisjoint(keys(module.samples, module.split.test))


def test_folds_by_topic_part_topics_of_all_sources_and_candidates(tmp_path):
    """A topic is out of training whichever source its images are of, and so are the candidates tested."""
    subjects = ("brown dog grass", "player red ball", "bowl rice soup")
    for source in ("one", "two"):
        rows = [
            {
                "candidate": f"{subject} {source} {number}", "references": [f"{subject} and {subject}"],
                "rating": number % 5 / 4, "group": f"{subject}/{number}",
                "id": f"{subject} {number}",
            }
            for subject in subjects
            for number in range(4 if source == "one" else 7)
        ]  # fmt: skip
        other = {"candidate": "brown dog grass one 1", "references": ["bowl rice soup"], "group": "odd"}
        rows.append({**other, "rating": 1, "id": "odd"})
        (tmp_path / f"{source}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    files = [str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")]
    tested = Counter()
    for fold in range(3):
        module = load(files, folds=3, fold=fold, disjoint="topics", fractions=(0.8, 0.1, 0.1))
        assert_disjoint(module.samples, module.split)
        topics = {part: {s.references[0].split()[0] for s in module.part(part)} for part in PARTS}
        assert len(topics["test"]) == 1
        assert topics["test"].isdisjoint(topics["train"] | topics["validation"])
        assert module.split.disjoint == "topics"
        tested.update(s.id for s in module.part("test"))
        if topics["test"] == {"brown"}:
            assert len(module.split.left_out["train"]) + len(module.split.left_out["validation"]) == 2
            module.split.save(tmp_path / "splits.json", module.samples)
            again = Split.load(tmp_path / "splits.json", module.samples)
            assert (again.train, again.test, again.disjoint) == (
                module.split.train,
                module.split.test,
                "topics",
            )
    assert len(tested) == sum(tested.values()) == 35


def test_topics_need_folds():
    with pytest.raises(ConfigError, match=r"topics puts topics into folds; set data\.folds"):
        CaptionDataModule(disjoint="topics")


def test_captions_that_sources_and_given_files_share(data, tmp_path):
    other = write(tmp_path / "two.jsonl", 30, [text.upper() + "." for text in CAPTIONS], seed=1)
    module = load([data, other], disjoint="captions", fractions=(0.8, 0.1, 0.1))
    assert_disjoint(module.samples, module.split)
    assert {sample.group.split("/")[-1][:3] for sample in module.part("train")} == {"one", "two"}
    test = write(tmp_path / "three.jsonl", 5, CAPTIONS, seed=2)
    module = load(data, test=test, disjoint="captions")
    assert len(module.part("test")) == 20
    assert module.split.left_out["train"]
    assert_disjoint(module.samples, module.split)


def test_added_samples_have_no_held_out_candidate(data):
    module = load(data, disjoint="captions")
    training, held_out = module.part("train"), module.part("test")[0]
    made = [
        CaptionSample(text, ("r",), rating=0.5, group=training[0].group)
        for text in ("made", held_out.candidate.upper(), module.part("validation")[0].candidate + " .")
    ]
    count = len(training)
    assert module.add_training(Synthetic(made, [0, 0, count])) == 1
    assert module.part("train") == [*training, made[0]]
    assert module.originals()[-1] == module.split.train[0]
    assert module.people_rated() == module.samples[:-1]
    assert_disjoint(module.samples, module.split)
    by_group = load(data)
    first, rated = len(by_group.samples), by_group.split.train
    assert by_group.add_training(Synthetic(made, [0, -1, len(rated) + 1])) == 3
    originals = by_group.originals().tolist()
    assert originals[first:] == [rated[0], -1, first + 1]
    assert set(originals[:first]) == {-1}


def test_the_support_holds_no_held_out_candidate(data, tmp_path):
    support = write(tmp_path / "support.jsonl", 20, [text + "!" for text in CAPTIONS], seed=3)
    module = load(data, support=support, disjoint="captions")
    held_out = {caption_key(s.candidate) for part in ("validation", "test") for s in module.part(part)}
    assert module.support_data.rated
    assert held_out.isdisjoint(map(caption_key, module.support_data.captions()))
    by_group = load(data, support=support)
    assert not held_out.isdisjoint(map(caption_key, by_group.support_data.captions()))
    assert Support([("A b",)]).without([CaptionSample("a B")], candidates=True).groups == []


def test_nothing_left_to_train_on(tmp_path):
    data = write(tmp_path / "few.jsonl", 12, CAPTIONS[:4])
    with pytest.raises(
        DataError, match=r"training split .* is empty; its samples share candidates.*data\.disjoint"
    ):
        load(data, disjoint="captions")


def test_the_report_says_what_is_left_out():
    data = {
        "sources": ["x"],
        "samples": dict.fromkeys(PARTS, 5),
        "groups": dict.fromkeys(PARTS, 2),
        "left_out": {"train": 1200, "validation": 3},
    }
    assert "left out are 1,200 training and 3 validation samples" in describe_data(data)
    assert "left out" not in describe_data({**data, "left_out": {}})


KEPT = [(775, 126), (739, 133), (817, 155), (803, 128), (828, 135)]
"""Training and validation samples of the five folds of Flickr8k-Expert."""


@pytest.mark.realdata
@pytest.mark.parametrize("fold", range(5))
def test_flickr8k_leaves_something_to_train_on(shared, fold):
    options = {"root": str(shared / "data" / "flickr8k"), "folds": 5, "fold": fold}
    module = load("flickr8k-expert", support="flickr8k-train", disjoint="captions", **options)
    assert_disjoint(module.samples, module.split)
    assert module.part("test") == load("flickr8k-expert", **options).part("test")
    assert (len(module.split.train), len(module.split.validation)) == KEPT[fold]
    held_out = {caption_key(s.candidate) for part in ("validation", "test") for s in module.part(part)}
    assert len(module.support_data.groups) > 5_900
    assert held_out.isdisjoint(map(caption_key, module.support_data.captions()))
