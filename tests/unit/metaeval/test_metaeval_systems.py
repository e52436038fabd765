"""Systems compared by resampling images: against plain loops, ties, distances, failures."""

from itertools import product

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metaeval import systems
from suisei.metaeval.resampling import group_weights
from suisei.metaeval.settings import Resampling
from suisei.metaeval.system_tables import as_dict, example_markdown, pair_table, score_table, system_table
from suisei.metaeval.systems import compare_systems, most_different
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_metric
from suisei.scoring.columns import ScoreColumn, score_column
from suisei.scoring.corpus import summands
from suisei.scoring.plan import plan_metrics

WORDS = [
    "a",
    "red",
    "dog",
    "runs",
    "over",
    "the",
    "green",
    "grass",
    "while",
    "two",
    "cats",
    "sleep",
    "犬",
    "走る",
]


def system(seed, images=40, noise=0.3):
    """Captions that keep most words of one reference."""
    rng = np.random.default_rng(seed)
    samples = []
    for image in range(images):
        reference = np.random.default_rng(1000 + image).choice(WORDS, 8).tolist()
        kept = [word if rng.random() > noise else str(rng.choice(WORDS)) for word in reference]
        samples.append(CaptionSample(" ".join(kept), (" ".join(reference), "a dog"), id=str(image)))
    return samples


def column(name, *systems):
    samples = [sample for each in systems for sample in each]
    return score_column(plan_metrics([name])[0], samples, shared=systems[0])


def fake(scores, label="fake", higher=True):
    """A column of a metric whose corpus score is the mean."""
    scores = np.array(scores, dtype=np.float64)

    class Mean(Metric):
        name = label

        def _score(self, samples, *, batch_size, progress):
            raise AssertionError

    parts = summands(Mean(), [CaptionSample("x")] * scores.size, scores.ravel())
    return ScoreColumn(label, scores.ravel(), f"{label}|v", higher_is_better=higher, summands=parts)


@pytest.mark.parametrize("name", ["bleu-4", "sacrebleu", "chrf", "cider", "unigram-f1"])
def test_intervals_and_p_values_are_those_of_corpus_scores_on_resampled_images(name):
    systems = [system(1, noise=0.3), system(2, noise=0.35)]
    settings = Resampling(n_resamples=25, seed=3)
    outcome = compare_systems([column(name, *systems)], ["good", "bad"], settings)[0]
    metric = get_metric(name)
    metric.fit(systems[0])
    drawn_scores = {}
    for each, samples in zip(("good", "bad"), systems, strict=True):
        expected = metric.corpus_score(samples, metric.score(samples))
        assert outcome.systems[each].value == pytest.approx(expected, rel=1e-12)
        resampled = drawn_scores[each] = []
        for weights in group_weights(len(samples), 25, 3):
            drawn = [sample for sample, times in zip(samples, weights, strict=True) for _ in range(times)]
            resampled.append(metric.corpus_score(drawn, metric.score(drawn)))
        interval = outcome.systems[each].interval
        assert (interval.low, interval.high) == pytest.approx(
            np.quantile(resampled, [0.025, 0.975]).tolist(), rel=1e-9
        )
    (pair,) = outcome.pairs
    off = np.subtract(drawn_scores["good"], drawn_scores["bad"]) - pair.difference
    assert pair.p_bootstrap == (1 + (np.abs(off) >= abs(pair.difference)).sum()) / 26


def test_the_order_of_the_images_changes_no_interval_and_no_p_value():
    both = [system(1, noise=0.2), system(2, noise=0.3)]
    order = np.random.default_rng(0).permutation(40)
    shuffled = [[own[place] for place in order] for own in both]
    first, second = (
        compare_systems([column("bleu-4", *each)], "ab", Resampling(50), images=[s.id for s in each[0]])[0]
        for each in (both, shuffled)
    )
    assert first.systems == second.systems
    assert first.pairs == second.pairs


@pytest.mark.parametrize("name", ["bleu-4", "chrf", "unigram-f1"])
def test_every_caption_said_again_makes_no_figure_surer(name):
    once = [system(1, noise=0.2), system(2, noise=0.3)]
    places = [*range(40), *np.random.default_rng(0).permutation(np.repeat(np.arange(40), 2))]
    again = [[each[place] for place in places] for each in once]
    settings = Resampling(300)
    alone, repeated = (
        compare_systems([column(name, *each)], ["a", "b"], settings, images=[s.id for s in each[0]])[0]
        for each in (once, again)
    )
    assert (alone.n, alone.images, repeated.n, repeated.images) == (40, 40, 120, 40)
    for each in "ab":
        first, second = alone.systems[each].interval, repeated.systems[each].interval
        assert (second.low, second.high) == pytest.approx((first.low, first.high), rel=1e-9)
        assert alone.systems[each].rank == repeated.systems[each].rank
    (pair,), (same,) = alone.pairs, repeated.pairs
    assert (same.p_bootstrap, same.p_permutation) == (pair.p_bootstrap, pair.p_permutation)
    assert 0.005 < pair.p_permutation < 1
    assert (same.interval.low, same.interval.high) == pytest.approx((pair.interval.low, pair.interval.high))
    assert same.wins == 3 * pair.wins
    assert "wins, ties and losses count captions" in " ".join(pair_table([repeated], settings).notes)
    assert "wins, ties and losses count images" in " ".join(pair_table([alone], settings).notes)
    assert (as_dict(repeated)["images"], as_dict(repeated)["captions"]) == (40, 120)


def test_one_image_is_too_few_however_many_captions_it_has():
    scores = [[1.0, 2.0, 3.0, np.nan], [0.0, 1.0, 2.0, 3.0]]
    (outcome,) = compare_systems([fake(scores)], ["a", "b"], Resampling(10), images=["x", "x", "x", "y"])
    assert outcome.error.startswith("1 image with a score of every system, and it takes two")


def uneven(seed, share):
    """Captions' scores of two systems that are as good, and their images, one of which has many."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, 60)
    counts[0] = int(share / (1 - share) * counts[1:].sum())
    images = np.repeat(np.arange(60), counts)
    scores = rng.normal(0, 0.7, (2, 60))[:, images] + rng.normal(0, 0.7, (2, len(images)))
    return scores, [str(image) for image in images]


def test_the_bootstrap_is_no_surer_than_its_interval_where_one_image_has_half_of_the_captions():
    refused = both = 0
    for seed in range(120):
        scores, images = uneven(seed, 0.5)
        (outcome,) = compare_systems([fake(scores)], ["a", "b"], Resampling(200, seed), images=images)
        (pair,) = outcome.pairs
        refused += pair.p_bootstrap <= 0.05
        both += pair.p_bootstrap <= 0.05 and pair.interval.low <= 0 <= pair.interval.high
    assert refused / 120 < 0.22  # .37 about the resamples' own mean, which the image moves along
    assert both / 120 < 0.1


def test_few_images_and_one_with_a_large_share_are_told():
    def notes(scores, images):
        outcomes = compare_systems([fake(scores)], ["a", "b"], Resampling(50), images=images)
        return " ".join(pair_table(outcomes, Resampling(50)).notes)

    said = "intervals and p (bootstrap) are then surer than they should be"
    scores, images = uneven(0, 0.5)
    assert f"one image has 50% of the captions: {said}" in notes(scores, images)
    scores, images = uneven(0, 0.05)
    assert said not in notes(scores, images)
    few = np.random.default_rng(0).random((2, 20))
    assert f"there are 19 images: {said}" in notes(few[:, :19], None)
    assert said not in notes(few, None)


def test_permutation_agrees_with_all_swaps():
    rng = np.random.default_rng(0)
    a, b = rng.random(9) + 0.25, rng.random(9)
    observed = a.mean() - b.mean()
    swaps = np.array(list(product((1, -1), repeat=9)))
    exact = (np.abs(swaps @ (a - b) / 9) >= abs(observed) - 1e-12).mean()
    outcome = compare_systems([fake([a, b])], ["a", "b"], Resampling(20_000))[0]
    assert outcome.pairs[0].p_permutation == pytest.approx(exact, abs=0.01)
    assert outcome.pairs[0].difference == pytest.approx(observed)


def test_corpus_statistics_are_swapped_not_scores():
    """BLEU of a swapped corpus, against a loop over samples."""
    systems = [system(1, images=12, noise=0.2), system(2, images=12, noise=0.3)]
    settings = Resampling(n_resamples=30, seed=5)
    pair = compare_systems([column("bleu-2", *systems)], ["a", "b"], settings)[0].pairs[0]
    metric = get_metric("bleu-2")

    def corpus(samples):
        return metric.corpus_score(samples, metric.score(samples))

    a, b = systems if pair.better == "a" else systems[::-1]
    extreme = 0
    for swaps in np.random.default_rng(5).integers(0, 2, size=(30, 12)):
        first = [(y if swap else x) for x, y, swap in zip(a, b, swaps, strict=True)]
        second = [(x if swap else y) for x, y, swap in zip(a, b, swaps, strict=True)]
        extreme += abs(corpus(first) - corpus(second)) >= pair.difference - 1e-10
    assert pair.p_permutation == (1 + extreme) / 31


@pytest.mark.parametrize(("repeating", "least"), [(1, 1.0), (2, 0.5), (5, 1 / 16)])
def test_few_images_with_different_scores_make_nothing_significant_by_the_lengths_of_the_others(
    repeating, least
):
    short = [CaptionSample(" ".join(WORDS[:8]), ("a dog",), id=str(image)) for image in range(30)]
    for image in range(repeating):
        short[image] = CaptionSample("a dog " * 5, ("a dog",), id=str(image))
    long = [CaptionSample(" ".join(WORDS), ("a dog",), id=str(image)) for image in range(30)]
    outcome = compare_systems([column("repetition-4", short, long)], ["a", "b"], Resampling(400))[0]
    (pair,) = outcome.pairs
    assert (pair.better, pair.wins, pair.ties) == ("b", repeating, 30 - repeating)
    assert pair.p_permutation == pair.p_holm == least


def test_images_and_not_their_captions_say_how_sure_swapping_can_be():
    short = [CaptionSample(" ".join(WORDS[:8]), ("a dog",), id=str(caption)) for caption in range(30)]
    long = [CaptionSample(" ".join(WORDS), ("a dog",), id=str(caption)) for caption in range(30)]
    for caption in range(6):  # of two images
        short[caption] = CaptionSample("a dog " * 5, ("a dog",), id=str(caption))
    images = [str(caption // 3) for caption in range(30)]
    given = column("repetition-4", short, long)
    (pair,) = compare_systems([given], ["a", "b"], Resampling(400), images=images)[0].pairs
    assert (pair.wins, pair.p_permutation) == (6, 0.5)


def test_traces_that_count_as_ties_can_be_swapped_all_the_same():
    scores = np.random.default_rng(0).random(40)
    (pair,) = compare_systems([fake([scores + 1e-5, scores])], ["a", "b"], Resampling(400))[0].pairs
    assert (pair.ties, pair.p_permutation) == (40, 1 / 401)


def test_systems_that_say_the_same_share_a_rank():
    same = system(1)
    outcome = compare_systems(
        [column("bleu-4", same, same, system(2, noise=0.8))], ["a", "b", "c"], Resampling(200)
    )[0]
    assert {name: score.rank for name, score in outcome.systems.items()} == {"a": 1, "b": 1, "c": 2}
    tie = outcome.pairs[0]
    assert (tie.p_permutation, tie.p_bootstrap, tie.p_holm) == (1, 1, 1)
    assert (tie.wins, tie.ties, tie.losses) == (0, 40, 0)
    for pair in outcome.pairs[1:]:
        assert pair.worse == "c"
        assert pair.p_permutation == pytest.approx(1 / 201)
        assert pair.p_holm == pytest.approx(3 / 201)
        assert pair.wins + pair.ties + pair.losses == 40


def test_traces_of_a_score_are_no_difference():
    scores = np.array([[0.5, 6e-5, 9e-9, 0.4, 2e-4], [0.3, 2e-12, 1e-5, 0.6, 0.0]])
    for factor in (1.0, 100.0):
        (outcome,) = compare_systems([fake(scores * factor)], ["a", "b"], Resampling(20))
        (pair,) = outcome.pairs
        assert (pair.better, pair.wins, pair.ties, pair.losses) == ("a", 1, 3, 1)
        samples = {name: [CaptionSample("x", id=str(n)) for n in range(5)] for name in "ab"}
        assert [each.name for each in most_different(outcome, samples, ("a", "b"), 5)] == ["0", "3"]


def test_of_a_distance_the_lower_is_better():
    scores = [[0.1, 0.2, 0.3, 0.1, 0.2, 0.1], [0.9, 0.1, 0.8, 0.7, 0.8, 0.9]]
    outcome = compare_systems([fake(scores, higher=False)], ["near", "far"], Resampling(100))[0]
    pair = outcome.pairs[0]
    assert (pair.better, pair.worse) == ("near", "far")
    assert pair.difference < 0
    assert (pair.wins, pair.ties, pair.losses) == (5, 0, 1)
    title = f"{outcome.label} (lower is better)"
    assert system_table([outcome], ["near", "far"], "T", ()).columns[outcome.label] == title
    pairs = pair_table([outcome], Resampling(100))
    assert pairs.sections[0].title == score_table([outcome], "T").sections[0].title == title
    assert any("below 0 where lower is better" in note for note in pairs.notes)


def test_images_without_a_score_of_every_system_are_left_out():
    scores = [[1.0, 2.0, np.nan, 4.0], [1.0, 1.0, 1.0, np.nan]]
    outcome = compare_systems([fake(scores)], ["a", "b"], Resampling(10))[0]
    assert outcome.n == 2
    assert outcome.systems["a"].value == 1.5
    few = compare_systems([fake([[1.0, np.nan], [np.nan, 1.0]])], ["a", "b"], Resampling(10))[0]
    assert "0 images with a score of every system" in few.error


def test_one_metric_that_fails_leaves_the_others():
    def breaks(totals):
        raise OSError("the child process went away")

    broken = fake([[1.0, 2.0], [0.0, 1.0]], "broken")
    broken = ScoreColumn(
        "broken", broken.scores, summands=type(broken.summands)(broken.summands.rows, breaks)
    )
    dead = ScoreColumn("dead", None, error="no Java")
    columns = [dead, broken, fake([[1.0, 2.0], [0.0, 1.0]])]
    told = []
    outcomes = compare_systems(columns, ["a", "b"], Resampling(10), told.append)
    assert [outcome.error for outcome in outcomes] == [
        "no Java",
        "OSError: the child process went away",
        None,
    ]
    assert told == [1, 1, 1]
    table = system_table(outcomes, ["a", "b"], "Title", ["a note"])
    assert table.row("a").cells["fake"].value == 1.5
    text = table.to_markdown()
    assert "a, b: dead failed: no Java" in text
    assert "- a note" in text
    assert [section.title for section in score_table(outcomes, "Title").sections] == ["fake"]


def test_without_resamples_there_are_scores_and_wins_alone():
    outcome = compare_systems([fake([[1.0, 2.0], [0.0, 2.0]])], ["a", "b"], Resampling(0))[0]
    score, pair = outcome.systems["a"], outcome.pairs[0]
    assert (score.value, score.interval.low, score.rank) == (1.5, None, None)
    assert (pair.p_bootstrap, pair.p_permutation, pair.p_holm) == (None, None, None)
    assert (pair.wins, pair.ties) == (1, 1)
    assert "| a > b | 0.500 | – | – | – | 1 | 1 | 0 |" in pair_table([outcome], Resampling(0)).to_markdown()


def test_permutations_are_counted_over_all_parts_and_by_their_own_number(monkeypatch):
    """Of systems that say the same, every permutation is as extreme."""
    parts = [slice(start, start + 10) for start in range(0, 50, 10)]
    monkeypatch.setattr(systems, "weight_chunks", lambda count, _: parts[: count // 10])
    settings = Resampling(20, n_permutations=50)
    outcome = compare_systems([fake([[1.0, 2.0], [1.0, 2.0]])], ["a", "b"], settings)[0]
    assert outcome.pairs[0].p_permutation == 1


def test_too_few_permutations_are_said():
    outcomes = compare_systems([fake([[1.0, 2.0], [0.0, 1.0]])], ["a", "b"], Resampling(10))
    assert "10 permutations are too few for 1 pair:" in pair_table(outcomes, Resampling(10)).to_markdown()


def test_no_image_stands_out_among_few_that_have_a_caption_each():
    outcomes = compare_systems([fake([np.ones(9), np.zeros(9)])], ["a", "b"], Resampling(100))
    text = pair_table(outcomes, Resampling(100)).to_markdown()
    assert "there are 9 images: intervals" in text


@pytest.mark.parametrize(("images", "told"), [(5, True), (6, False)])
def test_so_few_images_that_nothing_can_be_significant_are_said(images, told):
    outcomes = compare_systems([fake([np.ones(images), np.zeros(images)])], ["a", "b"], Resampling(2000))
    text = pair_table(outcomes, Resampling(2000)).to_markdown()
    assert ("5 images can be swapped in 32 ways" in text) == told
    assert (outcomes[0].systems["b"].rank == 1) == told


def test_figures_are_printed_times_100_where_papers_do_so_and_kept_whole():
    outcome = compare_systems([fake([[1.46, 1.461], [0.5, 0.25]], "cider")], ["a", "b"], Resampling(50))[0]
    table = system_table([outcome], ["a", "b"], "Title", [])
    assert table.columns == {"cider": "cider x100", "cider rank": "rank"}
    assert table.row("a").cells["cider"].text() == "146.1 [146.0, 146.1]"
    content = as_dict(outcome)
    assert content["systems"]["a"]["score"] == pytest.approx(1.4605, rel=1e-15)
    assert content["pairs"][0]["difference"] == pytest.approx(1.0855, rel=1e-15)
    latex = table.to_latex()
    assert "cider x100 & rank" in latex
    assert "a & 146.1 & 1" in latex


def test_the_examples_are_the_largest_differences():
    samples = {name: [CaptionSample(f"{name} {i}", ("r",), id=f"i{i}") for i in range(4)] for name in "ab"}
    scores = [[0.5, 0.9, np.nan, 0.3], [0.5, 0.1, 0.0, 0.4]]
    outcome = compare_systems([fake(scores)], ["a", "b"], Resampling(0))[0]
    found = most_different(outcome, samples, ("b", "a"), 5)
    assert [example.name for example in found] == ["i1", "i3"]  # equal and missing ones are none
    assert found[0].captions == {"b": "b 1", "a": "a 1"}
    assert found[0].scores == {"b": 0.1, "a": 0.9}
    assert most_different(outcome, samples, ("a", "b"), 1) == [
        type(found[0])("i1", "image", {"a": 0.9, "b": 0.1}, {"a": "a 1", "b": "b 1"}, ("r",))
    ]
    text = example_markdown({"fake": found, "none": []})
    assert "## fake: where b and a differ most" in text
    assert "  - **a** 0.900: a 1" in text
    assert "none" not in text


def test_a_corpus_score_that_does_not_add_up_is_refused():
    class Odd(Metric):
        name = "odd"

        def _score(self, samples, *, batch_size, progress):
            raise AssertionError

        def corpus_score(self, samples, scores):
            return 0.0

    with pytest.raises(ConfigError, match="odd: its corpus score does not come from sums"):
        summands(Odd(), [CaptionSample("x")], np.array([1.0]))
