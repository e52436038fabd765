"""CaptionScore in torchmetrics: equal to the command, over batches and over processes."""

import pickle

import numpy as np
import pandas as pd
import pytest
from torchmetrics import MetricCollection
from torchmetrics.wrappers import MetricTracker, Running

import suisei
from suisei.adapters.torchmetrics import CaptionScore
from suisei.data.sample import make_samples
from suisei.errors import ConfigError, DataError
from tests.unit.two_processes import answers_of

ENGLISH = [
    ("a red ball lies on the table", ["a red ball on a table", "there is a ball"]),
    ("two dogs run", ["two dogs run in the park"]),
    ("a man rides", ["a man on a bicycle", "a man rides a bicycle"]),
]


def test_scores_equal_the_commands(given, command_scores, model_folder):
    spec = f"suisei:{model_folder}"
    metric = CaptionScore(spec, per_sample=True)
    for rows in (slice(0, 2), slice(2, 4), slice(4, 5)):
        metric.update(given.captions[rows], given.references[rows], given.images[rows])
    expected = command_scores(spec, window=2)
    assert metric.compute().tolist() == pytest.approx(expected, abs=1e-9)
    whole = CaptionScore(spec)
    whole.update(given.captions, given.references, given.images)
    assert float(whole.compute()) == pytest.approx(np.mean(command_scores(spec)), abs=1e-9)
    assert (whole.plot_lower_bound, whole.plot_upper_bound, whole.higher_is_better) == (0.0, 1.0, True)


def test_bleu_over_batches_is_that_of_the_corpus():
    metric = CaptionScore("bleu-2")
    for caption, references in ENGLISH:
        metric.update(caption, references)
    samples = make_samples(*zip(*ENGLISH, strict=True))
    bleu = suisei.get_metric("bleu-2")
    scores = bleu.score(samples)
    expected = bleu.corpus_score(samples, scores)
    assert abs(expected - scores.mean()) > 0.01
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-12)


def test_a_fitted_cider_is_a_corpus_score_with_its_signature():
    samples = make_samples(*zip(*ENGLISH, strict=True))
    cider = suisei.get_metric("cider")
    cider.fit(samples)
    metric = CaptionScore(cider)
    for caption, references in ENGLISH:
        metric.update(caption, references)
    assert float(metric.compute()) == pytest.approx(cider.score(samples).mean(), abs=1e-12)
    assert metric.signature == cider.signature
    assert "|idf:3-documents|" in metric.signature
    assert pickle.loads(pickle.dumps(metric)).signature == metric.signature


def test_rows_without_references_are_left_out_of_the_mean():
    metric = CaptionScore("chrf")
    metric.update(["a dog", "a cat"], [[], ["a cat"]])
    assert float(metric.compute()) == pytest.approx(
        suisei.get_metric("chrf").score(["a cat"], [["a cat"]])[0]
    )
    one_each = CaptionScore("chrf", per_sample=True)
    one_each.update(["a dog", "a cat"], ["a dog", "a cat"])
    one_each.update("a dog", "a dog")
    assert one_each.compute().tolist() == [100, 100, 100]
    only = CaptionScore("bleu-1")
    only.update(["a dog"], [[]])
    assert np.isnan(float(only.compute()))


@pytest.mark.parametrize("column", [tuple, np.array, iter, lambda texts: pd.Series(texts, index=[3, 4])])
def test_one_reference_each_may_come_in_any_column_that_captions_come_in(column):
    metric = CaptionScore("chrf", per_sample=True)
    metric.update(column(["a dog", "a cat"]), column(["a dog", "two cats"]))
    assert (
        metric.compute().tolist()
        == suisei.get_metric("chrf").score(["a dog", "a cat"], [["a dog"], ["two cats"]]).tolist()
    )


def test_reset_pickle_collection_and_tracker():
    metric = CaptionScore("rouge-l")
    assert float(metric(["a dog"], [["a dog"]])) == 1
    assert float(metric(["a cat"], [["two dogs"]])) == 0
    assert 0 < float(pickle.loads(pickle.dumps(metric)).compute()) < 1
    metric.reset()
    metric.update(["a dog"], [["a dog"]])
    assert float(metric.compute()) == 1
    both = MetricCollection({"one": CaptionScore("unigram-f1"), "two": CaptionScore("rouge-l")})
    both.update(["a dog"], [["a dog"]])
    assert {name: float(value) for name, value in both.compute().items()} == {"one": 1, "two": 1}
    tracker = MetricTracker(CaptionScore("rouge-l"))
    for caption in ("a dog", "a cat"):
        tracker.increment()
        tracker.update([caption], [["a dog"]])
    assert float(tracker.best_metric()) == 1


@pytest.mark.parametrize("call", ["forward", "update"])
@pytest.mark.parametrize("name", ["bleu-2", "rouge-l"])
@pytest.mark.parametrize("per_sample", [False, True])
def test_a_running_window_is_that_of_its_last_batches(name, per_sample, call):
    running = Running(CaptionScore(name, per_sample=per_sample), window=2)
    for end, (caption, references) in enumerate(ENGLISH, start=1):
        getattr(running, call)([caption], [references])
        window = CaptionScore(name, per_sample=per_sample)
        window.update(*map(list, zip(*ENGLISH[max(end - 2, 0) : end], strict=True)))
        found, expected = (np.sort(metric.compute().reshape(-1)).tolist() for metric in (running, window))
        assert found == pytest.approx(expected, abs=1e-12)
    running.reset()
    running.update(["a dog"], [["a dog"]])
    assert float(running.compute()) == pytest.approx(1, abs=1e-8)


def test_a_corpus_score_keeps_sums_however_many_batches_there_are():
    metric = CaptionScore("bleu-2")
    for caption, references in ENGLISH * 3:
        metric([caption], [references])
        metric.update([caption], [references])
    kept = pickle.dumps(metric.metric_state)
    metric(*map(list, zip(*ENGLISH, strict=True)))
    metric.update([ENGLISH[0][0]], [ENGLISH[0][1]])
    assert len(pickle.dumps(metric.metric_state)) == len(kept)


@pytest.mark.parametrize("per_sample", [False, True])
def test_metrics_that_score_a_first_batch_alike_stay_apart_in_a_collection(per_sample):
    names = ("rouge-l", "unigram-f1", "chrf")
    batches = [
        (["zzz zzz", "yyy"], [["a dog runs"], ["a cat sleeps"]]),
        (["a black dog on the lawn sleeps now"], [["the big black dog sleeps on a lawn"]]),
    ]
    collection = MetricCollection({name: CaptionScore(name, per_sample=per_sample) for name in names})
    alone = {name: CaptionScore(name, per_sample=per_sample) for name in names}
    for captions, references in batches:
        collection.update(captions, references)
        for metric in alone.values():
            metric.update(captions, references)
    found = collection.compute()
    assert {name: found[name].tolist() for name in names} == {
        name: metric.compute().tolist() for name, metric in alone.items()
    }


def test_plot_shows_the_value():
    metric = CaptionScore("rouge-l")
    metric.update(["a dog"], [["a dog"]])
    figure, axes = metric.plot()
    assert axes.get_title() or axes.get_ylabel() or axes.get_xlabel()
    assert [1.0] in [list(line.get_ydata()) for line in axes.get_lines()]
    figure.clear()


def test_what_cannot_be_scored_batch_by_batch_is_refused():
    with pytest.raises(ConfigError, match=r"cider learns weights from a corpus.*fit it"):
        CaptionScore("cider")
    fitted = suisei.get_metric("cider")
    samples = make_samples(*zip(*ENGLISH, strict=True))
    fitted.fit(samples)
    metric = CaptionScore(fitted)
    metric.update(samples)
    assert float(metric.compute()) == pytest.approx(
        fitted.corpus_score(samples, fitted.score(samples)), abs=1e-9
    )
    with pytest.raises(DataError, match="sample 1: candidate is empty"):
        CaptionScore("bleu-1").update(["a", " "], [["a"], ["b"]])
    with pytest.raises(ConfigError, match="metric must be a name"):
        CaptionScore(3)


SPLITS = (1, 3)
"""How many rows the first of two processes has: a share, and all of them."""


def _side(rank):
    found = {}
    for split in SPLITS:
        for name, settings in (("bleu-2", {}), ("rouge-l", {}), ("rouge-l", {"per_sample": True})):
            metric = CaptionScore(name, **settings)
            for caption, references in (ENGLISH[:split], ENGLISH[split:])[rank]:
                metric.update([caption], [references])
            found[split, name, len(settings)] = metric.compute().tolist()
    return found


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    samples = make_samples(*zip(*ENGLISH, strict=True))
    bleu, rouge = suisei.get_metric("bleu-2"), suisei.get_metric("rouge-l")
    for found in answers_of(_side, tmp_path):
        for split in SPLITS:
            expected = bleu.corpus_score(samples, bleu.score(samples))
            assert found[split, "bleu-2", 0] == pytest.approx(expected, abs=1e-12)
            assert found[split, "rouge-l", 0] == pytest.approx(rouge.score(samples).mean(), abs=1e-12)
            assert found[split, "rouge-l", 1] == pytest.approx(rouge.score(samples).tolist(), abs=1e-12)
