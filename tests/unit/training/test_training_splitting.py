"""How data sets are split: each by its groups, given files whole, and no group in two parts."""

import dataclasses

import pytest

from suisei.data.sample import CaptionSample
from suisei.data.topics import topics_of
from suisei.errors import ConfigError, DataError
from suisei.training import splitting as module
from suisei.training.splitting import Splitting

SETTINGS = Splitting(("data.jsonl",), (0.8, 0.1, 0.1), 0, None, 0, "group", None, None)


def source(groups, name="g", per_group=2):
    return [CaptionSample(f"{name}{n}", group=f"{name}{n}") for n in range(groups) for _ in range(per_group)]


def splitting(**changes):
    return dataclasses.replace(SETTINGS, **changes)


def test_rows_of_several_sources_have_positions_of_their_own():
    sources = [source(11, "a"), source(20, "b", 3), source(14, "c", 1)]
    parts, _ = splitting(sources=("a", "b", "c")).parts(sources)
    samples = [sample for own in sources for sample in own]
    assert sorted(position for part in parts for position in part) == list(range(len(samples)))
    groups = [{samples[position].group for position in part} for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 45


@pytest.mark.parametrize(
    ("given", "shared", "other"),
    [("validation", 0, "train"), ("test", 0, "train"), ("validation", 2, "test"), ("test", 1, "validation")],
)
def test_a_given_file_shares_no_group_with_another_part(given, shared, other):
    names = ["a", "b", "c"]
    settings = splitting(**{given: "given.jsonl"})
    samples = [CaptionSample(name, group=name) for name in names]
    assert settings.checked(samples, names, [[0], [1], [2]], "by group").test == (2,)
    names[("train", "validation", "test").index(given)] = names[shared]
    with pytest.raises(DataError, match=rf"given\.jsonl: 1 of its groups .* are in the {other} split too"):
        settings.checked(samples, names, [[0], [1], [2]], "by group")


@pytest.mark.parametrize(
    ("given", "method", "seed"),
    [
        ((), "by group", 7),
        (("validation",), "by group, validation given", 7),
        (("test",), "by group, test given", 7),
        (("validation", "test"), "given", None),
    ],
)
def test_a_split_has_its_parts_and_says_how_it_was_made(given, method, seed):
    settings = splitting(seed=7, **dict.fromkeys(given, "given.jsonl"))
    samples = [CaptionSample(name, group=name) for name in "abcd"]
    split = settings.checked(samples, list("abcd"), [[1, 2], [3], [0]], "by group")
    assert (split.train, split.validation, split.test) == ((1, 2), (3,), (0,))
    assert (split.method, split.seed) == (method, seed)


def test_what_is_not_given_has_its_share_of_the_rest():
    parts, _ = splitting(fractions=(0.5, 0.25, 0.25), validation="given.jsonl").parts([source(100)])
    assert [len(part) / 2 for part in parts] == [67, 0, 33]
    parts, _ = splitting(fractions=(0.5, 0.25, 0.25), test="given.jsonl").parts([source(100)])
    assert [len(part) / 2 for part in parts] == [67, 33, 0]


@pytest.mark.parametrize("fractions", [(0.5, 0.1, 0.1), (0.9, 0.1, 0.1), (0.0, 0.5, 0.5)])
def test_fractions_are_three_shares_of_one_with_something_to_train_on(fractions):
    with pytest.raises(ConfigError, match=r"data\.fractions is .* sums to .*the first above 0"):
        splitting(fractions=fractions)


@pytest.mark.parametrize("fold", [-1, 5])
def test_a_fold_is_one_of_the_folds(fold):
    splitting(folds=5, fold=4)
    with pytest.raises(ConfigError, match=rf"data\.fold.*{fold}"):
        splitting(folds=5, fold=fold)


@pytest.mark.parametrize("given", ["validation", "test"])
def test_folds_take_no_given_file(given):
    with pytest.raises(ConfigError, match=r"folds split the training data; leave data\.validation"):
        splitting(folds=5, fold=0, **{given: "given.jsonl"})


def test_topics_are_sorted_with_the_seed_of_the_split(monkeypatch):
    seeds = []

    def noted(samples, topics, seed):
        seeds.append(seed)
        return topics_of(samples, topics, seed)

    monkeypatch.setattr(module, "topics_of", noted)
    words = ("dog cat", "ball goal", "rice soup")
    samples = [CaptionSample(words[n % 3], group=str(n)) for n in range(12)]
    splitting(folds=3, fold=0, seed=7, disjoint="topics").parts([samples])
    assert seeds == [7]
