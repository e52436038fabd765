"""Accuracy over pairs per kind: by hand, by the published definition, and what is left out."""

import numpy as np
import pytest

from suisei.data.judged import PairCaption
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval.pair_tables import ALL, MEAN, pair_table, resampled_difference
from suisei.metaeval.pairwise import pair_credits
from suisei.metaeval.settings import EvaluationSettings
from suisei.scoring.columns import ScoreColumn


def pair(name, group, **kinds):
    """Two captions; the first is preferred by so much per kind."""
    return [
        PairCaption(
            "x",
            rating=Rating((0.5,)),
            group=group,
            id=f"{name}/{side}",
            pair=name,
            preferred=tuple((kind, share if side == 1 else 1 - share) for kind, share in kinds.items()),
        )
        for side in (1, 2)
    ]


def column(scores, label="m", **fields):
    return ScoreColumn(label, np.array(scores, dtype=float), **fields)


SAMPLES = [
    *pair("p1", "a", HC=1.0),
    *pair("p2", "a", HC=0.0),
    *pair("p3", "b", HC=1.0),
    *pair("p4", "c", HI=1.0),
]


def values(row):
    return {name: cell.value for name, cell in row.cells.items()}


def test_accuracy_per_kind_their_mean_and_that_of_all_pairs():
    table = pair_table([column([2, 1, 2, 1, 3, 3, 1, 0])], SAMPLES)
    assert values(table.row("m")) == {"HC": 0.5, "HI": 1.0, MEAN: 0.75, ALL: 0.625, "ties": 1, "n": 4}
    assert list(table.columns) == ["HC", "HI", MEAN, ALL, "ties", "n"]
    assert table.meta["kinds"] == {"HC": 3, "HI": 1}
    assert table.meta["groups"] == 3
    judged = {name: table.row("m").cells[name].signature for name in ("HC", "HI", MEAN, ALL)}
    counts = {"HC": 3, "HI": 1, MEAN: 4, ALL: 4}
    assert judged == {name: f"pairwise-accuracy|ties:half|n:{count}" for name, count in counts.items()}
    assert not any("left out" in note for note in table.notes)


def test_the_order_of_samples_does_not_matter_and_distances_are_turned_around():
    scores = np.array([2, 1, 2, 1, 3, 3, 1, 0], dtype=float)
    order = np.random.default_rng(0).permutation(len(SAMPLES))
    shuffled = pair_table([column(scores[order])], [SAMPLES[position] for position in order])
    distance = pair_table([column(-scores, higher_is_better=False)], SAMPLES)
    expected = values(pair_table([column(scores)], SAMPLES).row("m"))
    assert values(shuffled.row("m")) == expected
    assert values(distance.row("m")) == expected


def test_one_kind_has_one_column():
    table = pair_table([column([2, 1, 2, 1])], SAMPLES[:4])
    assert table.columns == {MEAN: "accuracy", "ties": "ties", "n": "pairs"}
    assert table.row("m").cells[MEAN].value == 0.5


def test_a_pair_of_several_respects_counts_in_each_and_neutral_in_none():
    samples = [*pair("p1", "a", Specificity=0.75, Hallucination=0.5), *pair("p2", "b", Hallucination=0.0)]
    table = pair_table([column([2, 1, 2, 1])], samples)
    assert values(table.row("m")) == {
        "Specificity": 1,
        "Hallucination": 0,
        MEAN: 0.5,
        ALL: 0.5,
        "ties": 0,
        "n": 2,
    }
    assert any("1 judgement without a preference" in note for note in table.notes)


def test_pairs_without_score_are_left_out_and_counted_and_a_metric_that_failed_says_why():
    columns = [
        column([np.nan, 1, 2, 1, 3, 2, 1, 0], "some"),
        column([np.nan] * 8, "none"),
        column([3, 2, 2, 1, 3, 2, np.nan, 0], "no HI"),
        ScoreColumn("failed", None, error="broken"),
    ]
    table = pair_table(columns, SAMPLES, EvaluationSettings(n_resamples=10))
    assert values(table.row("some"))["HC"] == 0.5
    assert values(table.row("some"))["n"] == 3
    assert table.row("none").cells[MEAN].reason == "no pair has a score for both captions"
    assert values(table.row("no HI"))[MEAN] is None
    assert values(table.row("no HI"))[ALL] == pytest.approx(2 / 3)
    assert table.row("failed").error == "broken"
    assert "some: 1 pair without score left out" in table.notes
    table.to_markdown()


def test_value_and_interval_are_those_of_a_plain_bootstrap_over_images():
    generator = np.random.default_rng(1)
    samples = [
        s for n in range(80) for s in pair(f"p{n}", f"g{n % 20}", **{"HC" if n % 3 else "HI": float(n % 2)})
    ]
    scores = generator.integers(0, 5, size=len(samples)).astype(float)
    settings = EvaluationSettings(n_resamples=300, seed=3)
    cells = pair_table([column(scores)], samples, settings).row("m").cells
    first, second = scores[::2], scores[1::2]
    kinds = np.array([n % 3 != 0 for n in range(80)])
    wanted = np.array([n % 2 - 0.5 for n in range(80)])
    expected = pair_credits(first[kinds], second[kinds], wanted[kinds]).mean()
    assert cells["HC"].value == pytest.approx(expected)
    weights = np.random.default_rng(3).multinomial(20, np.full(20, 1 / 20), size=300)
    resampled = []
    for row in weights:
        drawn = np.repeat(np.arange(80), row[np.arange(80) % 20])
        drawn = drawn[kinds[drawn]]
        resampled.append(pair_credits(first[drawn], second[drawn], wanted[drawn]).mean())
    assert (cells["HC"].low, cells["HC"].high) == pytest.approx(tuple(np.quantile(resampled, [0.025, 0.975])))
    assert cells[MEAN].low < cells[MEAN].value < cells[MEAN].high


def test_samples_that_are_no_pairs_are_refused():
    with pytest.raises(DataError, match=r"sample 0 .* is not a caption of a pair"):
        pair_table([], [CaptionSample("x")])
    with pytest.raises(DataError, match="pair p1 has 1 caption;"):
        pair_table([], SAMPLES[1:])


def test_kinds_of_a_single_image_each_cost_the_interval_of_the_mean_alone():
    """Most resamples lack one of them, and have no mean of kinds."""
    samples = [sample for n in range(20) for sample in pair(f"p{n}", f"g{n}", HC=1.0)]
    samples += [*pair("one", "g20", HI=1.0), *pair("two", "g21", HM=1.0)]
    scores = np.random.default_rng(0).random(len(samples))
    row = pair_table([column(scores)], samples, EvaluationSettings(n_resamples=200)).row("m")
    assert row.cells[MEAN].value is not None
    assert row.cells[MEAN].low is None
    assert row.cells[MEAN].reason.startswith("mean: no interval: undefined on ")
    assert row.cells["HC"].low < row.cells["HC"].value < row.cells["HC"].high
    assert row.cells[ALL].low is not None


def test_a_tie_between_captions_of_which_people_prefer_neither_is_not_counted():
    samples = [*SAMPLES, *pair("p5", "c", HC=0.5)]
    found = values(pair_table([column([2, 1, 2, 1, 3, 3, 1, 0, 4, 4])], samples).row("m"))
    assert (found["ties"], found["n"]) == (1, 4)


def test_the_mean_says_which_kinds_lack_a_figure():
    scores = [3, 2, 2, 1, 3, 2, np.nan, 0]
    row = pair_table([column(scores)], SAMPLES).row("m")
    assert row.cells[MEAN].reason == "mean: no pair with score and preference of HI"
    assert row.cells["HI"].reason == "HI: no pair with score and preference"
    none = [*pair("p1", "a", HC=0.5), *pair("p2", "b", HI=0.5)]
    row = pair_table([column([1, 2, 3, 4])], none).row("m")
    assert row.cells[MEAN].reason == "mean: no pair with score and preference"


def test_draws_of_the_references_of_a_pair_are_said():
    samples = [each for draw in (1, 2) for n in range(3) for each in pair(f"draw-{draw}/HC/{n}", "a", HC=1.0)]
    table = pair_table([column(np.arange(12))], samples)
    assert values(table.row("m"))["n"] == 6
    assert "a pair is counted once in each of 2 draws of its references" in table.notes
    assert not any("draws" in note for note in pair_table([column(np.arange(8))], SAMPLES).notes)


def test_resampled_differences_are_those_of_the_mean_of_kinds():
    samples = [*SAMPLES, *(each for n in range(4) for each in pair(f"q{n}", f"h{n}", HC=1.0))]
    right, wrong = np.tile([1.0, 0.0], 8), np.tile([0.0, 1.0], 8)
    right[2:4], wrong[2:4] = [0, 1], [1, 0]  # of p2 people prefer the second
    wrong[6:8] = [1, 0]  # both are right on HI, so the mean of kinds differs by half
    found = resampled_difference(right, wrong, samples, EvaluationSettings(n_resamples=40))
    defined = found[~np.isnan(found)]
    assert len(defined) > 20
    assert defined == pytest.approx(np.full(len(defined), 0.5))


@pytest.mark.parametrize("missing", [0, 1])
def test_resampled_differences_leave_out_pairs_of_which_either_caption_lacks_a_score(missing):
    samples = [each for n in range(6) for each in pair(f"p{n}", f"g{n}", HC=1.0)]
    right, wrong = np.tile([2.0, 1.0], 6), np.tile([1.0, 2.0], 6)
    wrong[6 + missing :: 2] = np.nan
    found = resampled_difference(right, wrong, samples, EvaluationSettings(n_resamples=40))
    assert found[~np.isnan(found)] == pytest.approx(1)
    right[6::2], right[7::2] = 1, 2  # where nothing is compared
    again = resampled_difference(right, wrong, samples, EvaluationSettings(n_resamples=40))
    np.testing.assert_array_equal(again, found)
