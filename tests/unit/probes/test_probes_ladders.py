"""Replacing and shuffling: the published correlation, ties, the sets of captions, and Flickr8k."""

import numpy as np
import pytest

from suisei.data.load import load_data
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metaeval.correlation import spearman
from suisei.metrics.registry import get_metric
from suisei.probes.curves import curves
from suisei.probes.ladders import (
    PUBLISHED,
    Ladder,
    frequent_words,
    label_rho,
    ladder_outcomes,
    ladders_of,
    published_rho,
    replacing,
    shuffling,
)
from suisei.probes.originals import good_samples
from suisei.probes.outcomes import Scored
from suisei.probes.probe_tables import curve_table, ladder_table

WORDS = ("dog", "cat", "ball", "tree", "house", "car", "river", "bird")


def humans(count=30):
    rows = []
    for n in range(count):
        word, other = WORDS[n % 8], WORDS[(n + 3) % 8]
        references = (f"the {word} is near the {other}", f"a small {word} beside one {other}")
        rows.append(CaptionSample(f"a {word} and a {other} in picture {n}", references, group=f"g{n}"))
    return rows


def published_formula(labels):
    """1 - 6 sum d^2 / (n (K^2 - 1)) of the labels of K sets along the list."""
    right, sets = np.sort(labels), len(set(labels.tolist()))
    rho = 1 - 6 * ((labels - right) ** 2).sum() / (len(labels) * (sets**2 - 1))
    assert rho == pytest.approx(np.corrcoef(right, labels)[0, 1])
    return rho


def test_the_right_order_is_1_and_the_wrong_one_minus_1():
    scores = np.arange(12.0).reshape(4, 3)
    assert label_rho(scores) == pytest.approx(1)
    assert label_rho(-scores) == pytest.approx(-1)


def test_against_the_sum_of_squares_over_50000_of_the_paper():
    rng = np.random.default_rng(0)
    scores = rng.permutation(20_000).reshape(4, 5000) * 1e6  # far apart: no ties
    scores = np.argsort(np.argsort(scores.ravel())).reshape(4, 5000).astype(float)
    order = np.argsort(scores.ravel())
    labels = np.repeat([1, 2, 3, 4], 5000)
    expected = 1 - ((labels[order] - labels) ** 2).sum() / 50_000
    # a thousand steps over twenty thousand places: neighbours are tied, which moves the fourth digit
    assert label_rho(scores)[0] == pytest.approx(expected, abs=2e-3)


def test_ties_count_as_all_their_orders_do_on_average():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 6, (4, 50)).astype(float)
    labels = np.repeat(np.arange(4), 50)
    drawn = [published_formula(labels[np.lexsort((rng.random(200), scores.ravel()))]) for _ in range(2000)]
    assert label_rho(scores)[0] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(2000))
    assert label_rho(np.ones((4, 9))) == pytest.approx(0)  # a stable sort would say 1


def test_traces_of_a_score_are_no_difference():
    scores = np.zeros((2, 100))
    scores[:, 50:] = np.linspace(0.2, 0.9, 50)
    traced = scores.copy()
    traced[1, :50] = 1e-5
    assert label_rho(traced) == pytest.approx(label_rho(scores))


def test_weights_count_images_as_often_as_they_are_drawn():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(4, 25)) + np.arange(4)[:, None]
    drawn = rng.multinomial(25, np.full(25, 1 / 25))
    assert (drawn > 1).any()
    repeated = np.repeat(scores, drawn, axis=1)
    assert label_rho(scores, drawn[None])[0] == pytest.approx(label_rho(repeated)[0], abs=0.01)


def test_replacing_has_the_papers_sets():
    own = humans()
    ladder = replacing(own, frequent_words(own), seed=3)
    assert ladder.names == ("Random", "Replace 50 %", "Replace 25 %", "Human")
    group = {sample.candidate: sample.group for sample in own}
    for worst, half, quarter, human in zip(*ladder.sets, strict=True):
        assert group[worst.candidate] != human.group
        assert worst.references == half.references == human.references
        words = human.candidate.split()
        changed = [
            sum(a != b for a, b in zip(s.candidate.split(), words, strict=True)) for s in (half, quarter)
        ]
        assert changed == [4, 2]  # of eight words, exactly


def test_shuffling_keeps_the_words():
    ladder = shuffling(humans())
    assert ladder.names[-1] == "Human"
    for *worse, human in zip(*ladder.sets, strict=True):
        for sample in worse:
            assert sorted(sample.candidate.split()) == sorted(human.candidate.split())
            assert sample.candidate != human.candidate
        moved = [
            sum(a != b for a, b in zip(s.candidate.split(), human.candidate.split(), strict=True))
            for s in worse
        ]
        assert moved[1] <= 4
        assert moved[2] <= 2


def test_japanese_words_are_replaced_and_shuffled():
    animals = ("犬", "猫", "馬", "牛", "鳥")
    own = [
        CaptionSample(f"{a}が{b}を見ている", (f"{a}と{b}がいる", f"{b}のそばの{a}"), group=a + b)
        for a in animals for b in animals if a != b
    ]  # fmt: skip
    found = ladders_of(own)
    assert set(found) == {("replacing", "ja"), ("shuffling", "ja")}
    worst, *_, human = (each[0].candidate for each in found["shuffling", "ja"].sets)
    assert sorted(worst) == sorted(human)
    assert worst != human


def test_sets_do_not_depend_on_the_order_of_the_samples():
    own = humans()
    words = frequent_words(own)
    assert words == frequent_words(own[::-1])
    forward, backward = replacing(own, words), replacing(own[::-1], words)
    assert [s.candidate for s in forward.sets[1]] == [s.candidate for s in backward.sets[1]][::-1]


def test_words_count_from_four_occurrences_and_an_image_counts_once():
    sample = CaptionSample("a dog", ("The dog , dog",), language="en", group="1")
    others = [CaptionSample("a dog", (f"the dog {n}",), language="en", group=str(n)) for n in (2, 3)]
    assert frequent_words([sample, sample, *others]) == ["dog"]
    assert frequent_words([sample] * 4) == []


def test_what_cannot_be_made_says_why():
    one = [CaptionSample("a dog", ("a cat",), language="en")]
    assert ladders_of(one) == {
        ("replacing", "en"): "replacing: 0 words occur 4 times in the references",
        ("shuffling", "en"): "shuffling: it takes captions of at least two images",
    }
    with pytest.raises(DataError, match="of at least two images"):
        replacing(one, ["a", "b"])


def test_outcomes_and_their_table():
    length = Scored("length", lambda samples: np.array([float(len(s.candidate)) for s in samples]))
    sets = tuple(
        tuple(CaptionSample("x" * (k + 1) + "y" * n, ("z",), group=str(n), language="en") for n in range(1))
        for k in range(4)
    )
    wide = tuple(each * 1 + tuple(
        CaptionSample("x" * (10 * k + 1), ("z",), group=f"h{n}", language="en") for n in range(9)
    ) for k, each in enumerate(sets))  # fmt: skip
    ladder = Ladder("replacing", ("a", "b", "c", "d"), wide, (0, 0, 0))
    (outcome,) = ladder_outcomes([length], ladder, "en", n_resamples=50)
    assert outcome.rho.value == pytest.approx(0.9, abs=0.11)
    assert outcome.rho.low <= outcome.rho.value <= outcome.rho.high
    assert [cell.value for cell in outcome.steps] == [1, 1, 1]
    orders = outcome.orders(bins=4)
    np.testing.assert_allclose(orders.sum(axis=1), 10)
    np.testing.assert_allclose(orders.sum(axis=0), 10)
    assert [each[0] for each in outcome.example] == ["a", "b", "c", "d"]
    row = ladder_table([outcome]).row("length")
    assert row.cells["n"].value == 10
    assert "published" not in row.cells
    assert row.as_dict()["orders"]["a"][0] > 0


def test_scores_that_are_missing_leave_the_image_out_or_say_so():
    own = humans(6)
    ladder = shuffling(own)
    none = Scored("none", lambda samples: np.full(len(samples), np.nan))
    some = Scored("some", lambda samples: np.array([np.nan if s.group == "g0" else 1.0 for s in samples]))
    found = ladder_outcomes([none, some], ladder, "en", n_resamples=0)
    assert found[0] == "none, shuffling, English: 0 images with a score of every set, and it takes two"
    assert found[1].scores.shape == (4, 5)


def test_published_figures_are_multiples_of_what_labels_of_20000_captions_give():
    assert published_rho("bertscore:any/model", "shuffling") == 0.709639
    assert published_rho("chrf", "replacing") is None
    steps = np.array(list(PUBLISHED.values())) / 4e-5
    np.testing.assert_allclose(steps, np.round(steps), atol=0.03)


@pytest.mark.realdata
def test_metrics_stand_in_the_papers_order_on_flickr8k(shared):
    samples = load_data("flickr8k-expert", root=shared / "data" / "flickr8k")
    own = good_samples(samples, "references", limit=250)
    names = ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge-l", "cider", "sacrebleu")
    metrics = []
    for name in names:
        metric = get_metric(name)
        if metric.needs_fit:
            metric.fit(own)
        metrics.append(Scored(name, metric.score))
    for place, protocol in enumerate(("replacing", "shuffling")):
        ladder = ladders_of(own, 0, [protocol])[protocol, "en"]
        found = ladder_outcomes(metrics, ladder, "en", n_resamples=0)
        ours = [outcome.rho.value for outcome in found]
        published = [PUBLISHED[name][place] for name in names]
        assert spearman(ours, published) >= 0.8
        assert abs(ours[3] - published[3]) < 0.05  # BLEU-4, which ties decide


def test_captions_that_a_step_leaves_as_they_are_are_counted():
    """A metric is not to blame where no caption of one word can be shuffled."""
    words = [CaptionSample(WORDS[n], ("a dog",), language="en", group=f"g{n}") for n in range(4)]
    length = Scored("length", lambda samples: np.array([float(len(s.candidate)) for s in samples]))
    told = "captions too short or too alike for it, which stay as they are and count as changed"
    outcomes = ladder_outcomes([length, length], shuffling([*words, *humans(6)]), "en", n_resamples=0)
    sets = "Shuffle all 4, Shuffle 50 % 4, Shuffle 25 % 4"
    assert [note for note in ladder_table(outcomes).notes if told in note] == [f"English: {told}: {sets}"]
    outcomes = ladder_outcomes([length], shuffling(humans(6)), "en", n_resamples=0)
    assert not any(told in note for note in ladder_table(outcomes).notes)
    drawn = curve_table(curves([length], [*words, *humans(6)], "en", n_resamples=0))
    assert [note for note in drawn.notes if told in note] == [f"shuffled, English: {told}: 4"]
