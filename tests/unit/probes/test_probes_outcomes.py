"""Outcomes of changes: ties, intervals, shares of what another image's caption costs, examples."""

from dataclasses import replace

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.metaeval.tables import Cell
from suisei.probes.originals import good_samples
from suisei.probes.outcomes import ChangeOutcome, Scored, change_outcomes, mean_cell
from suisei.probes.probe_tables import change_table, example_lines
from tests.unit.rated_captions import captions

LENGTH = Scored("length", lambda samples: np.array([float(len(s.candidate)) for s in samples]))


@pytest.mark.parametrize(
    ("step", "lower", "higher"), [(1e-9, 0, 0), (1e-3, 1, 0), (-1e-9, 0, 0), (-1e-3, 0, 1)]
)
def test_scores_that_differ_by_rounding_alone_are_a_tie(step, lower, higher):
    words = Scored("words", lambda samples: np.array([step * len(s.candidate.split()) for s in samples]))
    good = [CaptionSample(f"a dog runs on the grass {n}", language="en", group=str(n)) for n in range(4)]
    (found,) = change_outcomes([words], good, ["half"], n_resamples=0)
    assert (found.lower.value, found.higher.value) == (lower, higher)


def test_intervals_are_of_means_over_captions_of_images_that_have_different_numbers():
    values, groups = np.ones(10), np.array(["a"] * 8 + ["b", "c"])
    cell = mean_cell(values, groups, 50, 0)  # however often the image of eight is drawn
    assert (cell.value, cell.low, cell.high) == pytest.approx((1, 1, 1))


def test_two_images_have_an_interval_and_one_has_none():
    two = mean_cell(np.array([0.0, 1.0, 1.0]), np.array(["a", "b", "b"]), 50, 0)
    assert (two.low, two.high) == (0, 1)
    one = mean_cell(np.array([0.0, 1.0]), np.array(["a", "a"]), 50, 0)
    assert (one.value, one.low, one.high) == (0.5, None, None)


def test_drops_that_differ_by_rounding_alone_have_a_histogram():
    one = 1.0 + np.arange(4) * 2.0**-52
    nothing = Cell(0.0)
    outcome = ChangeOutcome("m", "en", "half", one, np.zeros(4), one, nothing, nothing, nothing)
    assert sum(outcome.distribution()["histogram"]["counts"]) == 4
    large = replace(outcome, before=1e9 * one)
    assert sum(large.distribution()["histogram"]["counts"]) == 4


def test_a_drop_is_related_to_that_of_another_images_caption():
    good = good_samples(captions(), "rated")
    words = Scored(
        "words",
        lambda s: np.array([len({*x.candidate} & {*"".join(x.references)}) / 9 for x in s], dtype=float),
    )
    found = change_outcomes([words], good, ["half", "other-image", "mark"], n_resamples=0)
    by_name = {(o.language, o.change): o for o in found}
    for language in ("ja", "en"):
        other = by_name[language, "other-image"].drop.value
        half = by_name[language, "half"]
        if half.relative.reason is None:
            assert half.relative.value == pytest.approx(half.drop.value / other)
        else:
            assert half.relative.value is None
    assert by_name["ja", "mark"].relative is not None


@pytest.mark.parametrize("n_resamples", [0, 200])
def test_a_share_is_of_what_another_images_caption_costs_the_same_captions(n_resamples):
    """Captions with a number score higher, and so have more to lose than others."""
    good = [
        CaptionSample(f"{'two' if n < 6 else 'some'} dogs run{'!' * n}", ("a",), group=f"g{n}", language="en")
        for n in range(30)
    ]
    own = {(sample.group, sample.candidate) for sample in good}

    def score(samples):
        full = [0.9 if int(sample.group[1:]) < 6 else 0.3 for sample in samples]
        return np.array(full) * [(sample.group, sample.candidate) in own for sample in samples]

    names = ["digits", "other-image"]
    digits, other = change_outcomes([Scored("m", score)], good, names, n_resamples=n_resamples)
    assert (len(digits.before), other.drop.value) == (6, pytest.approx(0.42))
    assert digits.relative.value == pytest.approx(1)  # not .9 / .42
    assert other.relative.value == 1

    def refuse(samples):  # one of those with a number beside another image's caption, where it falls by half
        scores, last = score(samples), samples[0].group
        halved = [(s.group, s.candidate) not in own and s.candidate.startswith("2") for s in samples]
        scores[[n for n, half in enumerate(halved) if half and samples[n].group == last]] = 0.45
        scores[[n for n, s in enumerate(samples) if n >= 36 and s.group == last]] = np.nan
        return scores

    one, _ = change_outcomes([Scored("m", refuse)], good, names, n_resamples=n_resamples)
    assert (len(one.before), one.drop.value) == (6, pytest.approx((5 * 0.9 + 0.45) / 6))
    assert one.relative.value == pytest.approx(1)  # of the five others
    few, _ = change_outcomes([Scored("m", score)], good[2:], names, n_resamples=n_resamples)
    assert few.relative.reason == "no share: of fewer than 5 images"


@pytest.mark.parametrize("n_resamples", [0, 200])
def test_no_share_is_taken_of_a_drop_that_may_be_chance(n_resamples):
    """The originals score 0 and all else by chance, a little lower; what is of another image or much."""
    good = [
        CaptionSample(f"a brown dog {n} is on the sofa", ("a dog",), group=f"g{n}", language="en")
        for n in range(40)
    ]

    def outcomes(cost):
        def score(samples):
            place = np.arange(len(samples))
            noise = np.random.default_rng(2).normal(size=len(samples))
            return np.where(place < 40, 0, -noise - np.where(place < len(samples) - 40, 0.3, cost))

        names = ["synonym", "other-image"]  # in this order behind the originals
        return change_outcomes([Scored("m", score)], good, names, n_resamples=n_resamples)

    for cost, shared in ((0.2, False), (4.0, True)):
        found = outcomes(cost)
        worse, same = (change_table(found, kind) for kind in ("lower", "same"))
        assert worse.row("other-image").value("drop") > 0.05
        assert worse.row("other-image").value("relative") == (1 if shared else None)
        assert (same.row("synonym").value("relative") is not None) is shared
        assert any("may be chance" in note for note in worse.all_notes()) is not shared
    assert not any("costs more" in note for note in change_table(outcomes(0.2), "same").notes)


def test_outcomes_have_values_distributions_and_readable_examples():
    good = good_samples(captions(), "rated")
    (japanese, english) = change_outcomes([LENGTH], good, ["half"], n_resamples=0)
    assert (japanese.language, english.language) == ("ja", "en")
    drops = english.before - english.after
    spread = english.distribution()
    assert sum(spread["histogram"]["counts"]) == len(drops) == 8
    assert spread["quantiles"]["0.5"] == np.median(drops)
    example = english.examples["typical"]
    assert example.original.startswith(example.changed.rstrip("."))
    assert example.before - example.after == pytest.approx(np.sort(drops)[4])
    assert english.examples["missed"].before - english.examples["missed"].after == drops.min()
    lines = "\n".join(example_lines([japanese, english]))
    assert f"**half** (English): {example.original}\n  → {example.changed} (length" in lines
    assert example_lines([]) == []
    marked = {"typical": replace(example, original="a <unk>", changed="*a*")}
    named = [replace(japanese, metric="a*b*", examples=marked)]
    assert r"(Japanese): a \<unk>" in example_lines(named)[2]
    assert r"→ \*a\* (a\*b\* " in example_lines(named)[3]
    plain = "\n".join(example_lines(named, markdown=False))
    assert "a <unk>" in plain
    assert "→ *a* (a*b* " in plain


def test_the_example_of_a_change_that_should_not_matter_is_the_one_that_costs_most():
    costs = [0.3, 0.1, 0.9, -0.5, 0.2]
    good = [CaptionSample(f"a grey cat sits {n} times", language="en", group=str(n)) for n in range(5)]
    spelling = Scored(
        "s", lambda samples: np.array([costs[int(s.group)] * ("grey" in s.candidate) for s in samples])
    )
    (found,) = change_outcomes([spelling], good, ["script"], n_resamples=0)
    assert found.drop.value == pytest.approx(0.2)
    assert [found.examples[name].group for name in ("typical", "missed")] == ["4", "2"]
