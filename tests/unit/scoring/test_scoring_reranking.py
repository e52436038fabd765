"""One of several captions of an image: expected scores against plain loops, and what counts as an image."""

import math

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_metric
from suisei.scoring import reranking
from suisei.scoring.reranking import rerank

CAPTIONS = {
    "a": ["a dog runs on grass", "a dog runs on the grass", "a cat sleeps", "a dog runs on grass"],
    "b": ["two men sit", "two men sit down", "two men sit"],
    "c": ["a red bus on a street"],
    "d": ["x", "y z", "x y"],
}


class Table(Metric):
    """Scores pairs as a table says; none where it says nothing."""

    name = "table"
    needs = frozenset({"references"})

    def __init__(self, scores, asked=None):
        self.table, self.asked = scores, [] if asked is None else asked

    def _score(self, samples, *, batch_size, progress):
        self.asked += [(sample.candidate, *sample.references) for sample in samples]
        return np.array(
            [self.table.get((sample.candidate, *sample.references), math.nan) for sample in samples]
        )


class Distance(Table):
    higher_is_better = False


def samples_of(captions=CAPTIONS, **fields):
    return [
        CaptionSample(text, ("not this one",), group=image, id=f"{image}#{number}", rating=0.1, **fields)
        for image, texts in captions.items()
        for number, text in enumerate(texts, 1)
    ]


@pytest.mark.parametrize("group", [None, "one"])
def test_segments_of_a_video_are_chosen_for_apart(group):
    places = [("a.mp4", None), ("a.mp4", (0, 1)), ("a.mp4", (1, 2)), ("b.mp4", (1, 2))]
    samples = [
        VideoSample(text, ("x",), group=group, id=f"{place}#{number}", video=video, segment=segment)
        for place, (video, segment) in enumerate(places)
        for number, text in enumerate(["a dog runs", "a cat", "the dog runs"])
    ]
    choices = rerank(get_metric("rouge-l"), samples).choices
    assert [choice.sample.id for choice in choices] == ["0#0", "1#0", "2#0", "3#0"]
    assert [choice.captions for choice in choices] == [3] * 4


@pytest.mark.parametrize("name", ["rouge-l", "chrf", "bleu-2", "cider", "unigram-f1"])
@pytest.mark.parametrize("block", [1, 10, 8192])
def test_expected_scores_are_means_beside_each_of_the_others(monkeypatch, name, block):
    monkeypatch.setattr(reranking, "_BLOCK", block)
    found = rerank(get_metric(name), samples_of())
    choices = found.choices
    metric = get_metric(name)
    if metric.needs_fit:
        metric.fit([CaptionSample("x", texts, group=image) for image, texts in CAPTIONS.items()])
        assert found.fitted == "|fit:references-of-4-samples"
    for choice, (image, texts) in zip(choices, CAPTIONS.items(), strict=True):
        expected = [
            np.mean([metric.score([text], [[other]])[0] for at, other in enumerate(texts) if at != place])
            if len(texts) > 1
            else math.nan
            for place, text in enumerate(texts)
        ]
        best = 0 if len(texts) == 1 else int(np.argmax(np.round(expected, 9)))
        assert choice.sample.id == f"{image}#{best + 1}"
        assert choice.score == pytest.approx(expected[best], nan_ok=True)
        assert choice.mean == pytest.approx(np.mean(expected), nan_ok=True)
        assert choice.captions == len(texts)
        assert choice.sample.references == ("not this one",)


def test_what_is_said_more_often_counts_more_and_is_asked_once():
    table = {("a", "b"): 0.2, ("a", "a"): 0.9, ("b", "a"): 0.3, ("b", "b"): 0.9}
    metric = Table(table)
    (choice,) = rerank(metric, samples_of({"i": ["a", "b", "b", "a", "a"]})).choices
    assert choice.score == pytest.approx((0.2 * 2 + 0.9 * 2) / 4)
    assert choice.sample.id == "i#1"
    assert choice.mean == pytest.approx((3 * 0.55 + 2 * (0.3 * 3 + 0.9) / 4) / 5)
    assert sorted(metric.asked) == [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]


def test_of_a_distance_the_lowest_is_chosen():
    table = {("a", "b"): 3.0, ("b", "a"): 1.0}
    assert rerank(Distance(table), samples_of({"i": ["a", "b"]})).choices[0].sample.candidate == "b"
    assert rerank(Table(table), samples_of({"i": ["a", "b"]})).choices[0].sample.candidate == "a"


def test_a_pair_without_a_score_costs_itself_alone():
    table = {("a", "b"): 0.4, ("b", "a"): 0.1, ("b", "c"): 0.2}
    choice, lost = rerank(Table(table), samples_of({"i": ["c", "b", "a"], "j": ["p", "q"]})).choices
    assert (choice.sample.candidate, choice.score) == ("a", 0.4)
    assert choice.mean == pytest.approx((0.4 + 0.15) / 2)
    assert lost.sample.candidate == "p"
    assert math.isnan(lost.score)
    assert math.isnan(lost.mean)


def test_by_itself_a_caption_is_scored_without_references():
    metric = Table({("a",): 0.1, ("b",): 0.7, ("c",): 0.3})
    metric.needs = frozenset()
    choices = rerank(metric, samples_of({"i": ["a", "b", "b"], "j": ["c"]}), by="itself").choices
    assert [choice.sample.candidate for choice in choices] == ["b", "c"]
    assert choices[0].mean == pytest.approx(0.5)
    assert sorted(metric.asked) == [("a",), ("b",)]


def test_rows_of_one_file_are_of_one_image_whatever_their_group(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.png").touch()
    rows = [
        CaptionSample("a b", image="one.png", group="x"),
        CaptionSample("c d", image="two.png", group="x"),
        CaptionSample("a", image=tmp_path / "one.png", group="y"),
        CaptionSample("二匹の犬", image="one.png"),
        CaptionSample("一匹の犬", image="one.png"),
    ]
    choices = rerank(get_metric("unigram-f1"), rows).choices
    assert [choice.captions for choice in choices] == [2, 1, 2]
    assert [choice.sample.candidate for choice in choices[1:]] == ["c d", "二匹の犬"]


def test_what_cannot_be_chosen_among_is_refused():
    with pytest.raises(ConfigError, match=r"length reads no references, .*; choose captions by themselves"):
        rerank(get_metric("length"), samples_of())
    with pytest.raises(DataError, match="no image has several captions to choose among"):
        rerank(get_metric("chrf"), samples_of({"i": ["a"], "j": ["b"]}))
