"""Degradation curves: the ideal line, what notices nothing, counts that add up, and what has no curve."""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image
from scipy.integrate import trapezoid

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.base import SummableCorpus
from suisei.metrics.registry import get_metric
from suisei.probes.curves import SHARES, UNNOTICED, _area, curves
from suisei.probes.degradation_plots import plot_degradation
from suisei.probes.outcomes import Scored
from suisei.probes.probe_tables import curve_table
from suisei.scoring.corpus import summands


def originals(count=200):
    return [
        CaptionSample(f"a w{n} x{n} y{n} z{n}", (f"a w{n} x{n} y{n} z{n}",), language="en", group=f"g{n}")
        for n in range(count)
    ]


EXACT = Scored("exact", lambda samples: np.array([float(s.candidate in s.references) for s in samples]))
CONSTANT = Scored("constant", lambda samples: np.full(len(samples), 0.3))


def by_kind(found):
    return {curve.kind: curve for curve in found}


def test_a_metric_that_falls_to_nothing_stands_on_the_ideal_line():
    swapped = by_kind(curves([EXACT], originals(), "en", n_resamples=50))["swapped"]
    assert [cell.value for cell in swapped.values] == pytest.approx([1 - share for share in SHARES])
    assert swapped.area.value == pytest.approx(0, abs=1e-9)
    assert swapped.values[2].low < 0.5 < swapped.values[2].high
    assert (swapped.original, swapped.n) == (1, 200)


def test_a_metric_that_notices_nothing_keeps_the_whole_area():
    found = by_kind(curves([CONSTANT], originals(), "en", n_resamples=0))
    assert found["shuffled"].area.value == pytest.approx(UNNOTICED)
    assert pytest.approx(0.405) == UNNOTICED
    assert found["shuffled"].values[-1].value == pytest.approx(1)


def test_counts_are_added_up_before_the_corpus_score():
    bleu = get_metric("bleu-2")
    counted = Scored("bleu-2", bleu.score, summands=lambda s, scores: summands(bleu, s, scores))
    swapped = by_kind(curves([counted], originals(40), "en", n_resamples=0))["swapped"]
    plain = by_kind(curves([Scored("bleu-2", bleu.score)], originals(40), "en", n_resamples=0))["swapped"]
    assert swapped.original == pytest.approx(1)
    assert swapped.values[2].value != pytest.approx(plain.values[2].value, abs=1e-3)


def test_images_in_another_folder_have_the_same_curve():
    uneven = Scored("uneven", lambda samples: np.array([float(hash_of(s.candidate)) for s in samples]))

    def hash_of(text):
        return sum(ord(character) * place for place, character in enumerate(text)) % 97

    def drawn(folder):
        placed = [replace(s, group=None, image=f"{folder}/{s.group}.png") for s in originals(60)]
        return [
            cell.value for cell in by_kind(curves([uneven], placed, "en", n_resamples=0))["swapped"].values
        ]

    assert drawn("/here") == drawn("/far/away") != drawn("/here")[::-1]


def test_what_scores_nothing_has_no_curve_and_says_why():
    zero = Scored("zero", lambda samples: np.zeros(len(samples)))
    none = Scored("none", lambda samples: np.full(len(samples), np.nan))
    found = curves([zero, none], originals(5), "en")
    assert found[0].startswith("zero, swapped, English: the untouched captions score 0")
    assert found[2].startswith("none, swapped, English: 0 captions with a score")
    assert curve_table([]) is None


def test_the_area_is_that_of_straight_segments():
    rng = np.random.default_rng(0)
    values = rng.random((5, len(SHARES)))
    places = np.linspace(0, 0.9, 200_001)
    for row, area in zip(values, _area(values), strict=True):
        gaps = np.abs(np.interp(places, SHARES, row) - (1 - places))
        assert area == pytest.approx(trapezoid(gaps, places), abs=1e-6)


def test_the_table_and_the_figure(tmp_path):
    found = curves([EXACT, CONSTANT], originals(), "en", n_resamples=0)
    table = curve_table(found)
    assert [section.title for section in table.sections] == ["shuffled, English", "swapped, English"]
    row = table.row("exact", "swapped, English")
    assert row.cells["at0.5"].value == pytest.approx(0.5)
    points = row.as_dict()["curve"]["points"]
    assert [point["ideal"] for point in points] == pytest.approx([1 - share for share in SHARES])
    panels = {
        "swapped": {c.metric: (SHARES, [v.value for v in c.values]) for c in found if c.kind == "swapped"}
    }
    plot_degradation(tmp_path / "curves.png", panels, title="x")
    assert np.asarray(Image.open(tmp_path / "curves.png").convert("L")).std() > 10
    with pytest.raises(DataError, match="no curve to show"):
        plot_degradation(tmp_path / "none.png", {}, title="x")


def test_a_distance_falls_as_the_untouched_ones_share_of_it():
    def turned(samples):  # distance 1 of the right caption, 4 of a wrong one
        return np.array([-1.0 if s.candidate in s.references else -4.0 for s in samples])

    found = by_kind(curves([Scored("d", turned, distance=True)], originals(), "en", n_resamples=20))
    swapped = found["swapped"]
    assert swapped.original == 1
    expected = [1 / (1 - share + 4 * share) for share in SHARES]
    assert [cell.value for cell in swapped.values] == pytest.approx(expected)
    assert swapped.values[3].low < expected[3] < swapped.values[3].high
    shown = curves([Scored("d", turned)], originals(), "en", n_resamples=0)
    assert "the untouched captions score -1" in shown[0]  # a score below 0 that is no distance has no share


@pytest.mark.parametrize("name", ["hallucinated-nouns", "repetition-1", "incomplete-ending"])
def test_a_distance_that_is_counted_has_the_curve_of_its_corpus_score(name):
    """What adds up to it is not turned, whatever is done with the scores of single captions."""
    metric = get_metric(name)

    def score(samples):
        return -metric.score(samples)

    samples = [
        CaptionSample(
            f"a dog and a dog and a spoon{' with' * (number % 2)}", ("a dog runs",), group=str(number)
        )
        for number in range(12)
    ]
    counts = partial(summands, metric) if isinstance(metric, SummableCorpus) else None
    found = curves([Scored(name, score, summands=counts, distance=True)], samples, "en", n_resamples=20)
    assert found[0].original == pytest.approx(metric.corpus_score(samples, metric.score(samples)))
    assert found[0].original > 0
    assert found[0].values[0].value == 1


def test_resamples_without_a_distance_are_left_out_and_a_share_of_none_is_said():
    """Few captions have the fault that is counted: a resample, or what a change leaves, may have none."""

    def turned(samples):
        return np.array([-1.0 if s.candidate.endswith("with") else 0.0 for s in samples])

    samples = [
        CaptionSample(
            f"a dog {number} runs{' with' * (number % 6 == 0)}", (f"dog {number}",), group=str(number)
        )
        for number in range(30)
    ]
    drawn = curves([Scored("d", turned, distance=True)], samples, "en", n_resamples=200)
    found = by_kind(curve for curve in drawn if not isinstance(curve, str))
    cells = [cell for curve in found.values() for cell in (*curve.values, curve.area)]
    assert all(
        math.isfinite(number) for cell in cells for number in (cell.value, cell.low or 0, cell.high or 0)
    )
    json.dumps([curve.as_dict() for curve in found.values()], allow_nan=False)
    assert found["swapped"].values[3].high is not None

    good = {sample.candidate for sample in samples}

    def forgiving(samples):
        return np.array([-1.0 if s.candidate in good else 0.0 for s in samples])

    said = curves([Scored("f", forgiving, distance=True)], samples[3:5], "en", n_resamples=0)
    assert (
        said[1]
        == "f, shuffled, English: so many changed captions have distance 0: no share of that can be given"
    )
