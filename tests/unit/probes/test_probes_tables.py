"""Tables of probes and calibration, on metrics whose behaviour is known."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval.agreement import AgreementData
from suisei.metaeval.calibration import (
    calibrate_by_language,
)
from suisei.metaeval.plots import plot_dots, plot_reliability
from suisei.metaeval.tables import Cell
from suisei.probes.originals import good_samples
from suisei.probes.outcomes import Scored, change_outcomes
from suisei.probes.probe_tables import change_notes, change_table
from suisei.probes.sample_tables import _change, language_table, reference_table, spread_table
from tests.unit.rated_captions import captions

LENGTH = Scored("length", lambda samples: np.array([float(len(s.candidate)) for s in samples]))
CONSTANT = Scored("constant", lambda samples: np.full(len(samples), 0.5))
REFERENCES = Scored(
    "references", lambda samples: np.array([len(s.references) or np.nan for s in samples], dtype=float)
)


def degraded(metrics, originals, names, **settings):
    settings["seed"] = 0
    outcomes = change_outcomes(metrics, originals, names, **settings)
    return change_table(outcomes, "lower", change_notes(len(originals), **settings))


def test_shares_drops_and_ties():
    good = good_samples(captions(), "rated")
    table = degraded([LENGTH, CONSTANT], good, ["half", "repeat", "shuffle"], n_resamples=50)
    assert [s.title for s in table.sections] == [
        "length, Japanese", "length, English", "constant, Japanese", "constant, English",
    ]  # fmt: skip
    half = table.row("half", "length, English")
    assert half.cells["lower"].value == 1
    assert half.cells["drop"].value > 5
    assert half.cells["n"].value == 8
    assert table.row("repeat", "length, English").cells["lower"].value == 0
    assert table.row("repeat", "length, English").cells["drop"].value < 0
    assert table.row("half", "constant, English").cells["lower"].value == 0  # a tie is not lower
    assert any("length, English" in note and "repeat 0.0%" in note for note in table.notes)
    assert not any("length, English" in note and "half" in note for note in table.notes)


@pytest.mark.parametrize("resamples", [0, 50])
def test_resamples_are_said_where_there_are_any(resamples):
    good = good_samples(captions(), "rated")
    tables = [
        degraded([LENGTH], good, ["half"], n_resamples=resamples),
        reference_table([LENGTH], captions(), n_resamples=resamples, seed=0),
        language_table([LENGTH], captions(), n_resamples=resamples),
    ]
    said = [any("bootstrap over images" in note for note in table.notes) for table in tables]
    assert said == [bool(resamples)] * 3


@pytest.mark.parametrize(
    ("change", "expects", "share", "told"),
    [
        ("half", "lower", 197 / 219, []),  # .8995
        ("half", "lower", 0.8994, ["English: scores lower in less than 90%: half 89.9%"]),
        ("digits", "same", 0.1004, []),
        ("digits", "same", 0.1006, ["English: costs more than 10% of another image's drop: digits 10.1%"]),
    ],
)
def test_a_note_never_names_a_share_that_it_prints_as_the_threshold(change, expects, share, told):
    (outcome,) = change_outcomes([LENGTH], captions()[:1], ["half"], n_resamples=0)
    outcome = replace(outcome, change=change, lower=Cell(share), relative=Cell(share))
    assert list(change_table([outcome], expects).notes) == told


def test_a_degradation_that_applies_to_nothing_says_so():
    good = [CaptionSample("dog", rating=1.0, group=str(n)) for n in range(3)]
    table = degraded([LENGTH], good, ["half"], n_resamples=0)
    assert table.row("half").cells["lower"].reason == "no caption to which it applies"


def test_a_metric_without_scores_of_what_was_changed_says_that():
    """It is no fault of the captions that the metric needs references, or an image, that they do not have."""
    good = [CaptionSample("a dog runs on the grass", rating=1.0, group=str(n)) for n in range(3)]
    blind = Scored("blind", lambda samples: np.full(len(samples), np.nan))
    table = degraded([blind], [*good, CaptionSample("犬", group="j")], ["half"], n_resamples=0)
    assert table.row("half", "English").cells["lower"].reason == "no caption to which it applies has a score"
    assert table.row("half", "Japanese").cells["lower"].reason == "no caption to which it applies"


def test_more_references_row_by_row():
    table = reference_table([REFERENCES, CONSTANT], captions(), n_resamples=20)
    english = [row for s in table.sections if s.title == "references, English" for row in s.rows]
    japanese = [row for s in table.sections if s.title == "references, Japanese" for row in s.rows]
    assert [row.label for row in english] == ["0", "1", "2", "3"]
    assert [row.label for row in japanese] == ["0", "1", "2"]
    assert english[0].cells["pearson"].reason == "needs a reference"
    assert [row.cells["mean"].value for row in english[1:]] == [1, 2, 3]
    with pytest.raises(DataError, match="have no reference"):
        reference_table([LENGTH], [CaptionSample("a dog", rating=0.5)] * 3)


def test_more_references_take_each_rating_as_a_row_and_say_so():
    ratings = [(1, 2, 5), (2, 4, 4), (3, 3, 1), (5, 4, 5)]
    rows = [
        CaptionSample("a dog" + "s" * n, ("a",), rating=Rating(values, 1, 5), group=str(n))
        for n, values in enumerate(ratings)
    ]
    table = reference_table([LENGTH], rows, n_resamples=0)
    cells = table.row("1").cells
    expected = np.corrcoef(np.repeat(np.arange(4), 3), np.ravel(ratings))[0, 1]
    assert (cells["pearson"].value, cells["n"].value) == (pytest.approx(expected), 4)
    row = "all rows are correlated at once; each rating is a row of its own beside its sample's score"
    assert f"{row}; n counts samples" in table.notes


def test_captions_of_one_image_lose_the_interval_and_no_correlation():
    rows = [replace(sample, group="one") for sample in captions() if sample.language == "en"]
    scores = np.random.default_rng(0).random(4 * len(rows))
    [section] = reference_table([Scored("m", lambda _: scores)], rows, n_resamples=20).sections
    for number, row in enumerate(section.rows):
        assert isinstance(row.cells["pearson"].value, float)
        if number:
            before = section.rows[number - 1].cells["pearson"].value
            assert row.cells["change"].value == pytest.approx(row.cells["pearson"].value - before)
            assert row.cells["change"].reason == "no interval: one group: resampling needs at least two"


def test_captions_that_a_metric_has_no_score_of_are_left_out_of_its_rows():
    def score(samples):
        return np.array([np.nan if s.group == "0" or not s.references else len(s.candidate) for s in samples])

    rows = [
        CaptionSample("a dog" + "s" * n, ("a", "b"), rating=n / 9, group=str(n), language="en")
        for n in range(9)
    ]
    [section] = reference_table([Scored("m", score)], rows, n_resamples=0).sections
    assert section.rows[0].cells["pearson"].reason == "needs a reference"
    assert [row.cells["n"].value for row in section.rows[1:]] == [8, 8]
    assert section.rows[1].cells["pearson"].value == pytest.approx(1)
    absent = Scored("absent", lambda samples: np.full(len(samples), np.nan))
    [section] = reference_table([absent], rows, n_resamples=0).sections
    assert [(row.label, row.cells["pearson"].reason) for row in section.rows] == [("2", "no score")]


def test_more_references_can_help_and_the_change_is_shown():
    rng = np.random.default_rng(0)
    rows = []
    for n in range(120):
        quality = rng.random()
        refs = tuple(f"{quality + rng.normal():.6f}" for _ in range(4))
        rows.append(CaptionSample("a dog", refs, rating=quality, group=str(n)))
    mean = Scored(
        "mean", lambda s: np.array([np.mean([float(r) for r in x.references] or [np.nan]) for x in s])
    )
    table = reference_table([mean], rows, n_resamples=100)
    values = [row.cells["pearson"].value for row in table.sections[0].rows[1:]]
    assert values[3] > values[0] + 0.1
    change = table.row("2").cells["change"]
    assert change.value == pytest.approx(values[1] - values[0])
    assert change.low < change.value < change.high


def test_spread_has_metrics_and_people():
    rows = captions()
    table = spread_table([LENGTH], [LENGTH.score(rows)], rows)
    assert [section.title for section in table.sections] == ["Japanese", "English"]
    human = table.row("human", "English")
    assert (human.cells["q0"].value, human.cells["q0.5"].value, human.cells["q1"].value) == (0, 0.5, 1)


def test_japanese_against_english():
    rows = captions()
    shifted = Scored(
        "shifted", lambda s: np.array([x.rating.mean + 0.1 * (x.language != "en") for x in s], dtype=float)
    )
    table = language_table([shifted], rows, n_resamples=50)
    row = table.row("shifted")
    assert row.cells["difference"].value == pytest.approx(0.1)
    assert row.cells["pearson"].value == pytest.approx(1)
    assert row.cells["n"].value == 10
    assert table.row("human").cells["difference"].value == pytest.approx(0)
    assert language_table([shifted], [row for row in rows if row.language == "en"]) is None


def test_systems_that_write_one_language_each_are_compared_by_image():
    rows = [
        CaptionSample("a", system=f"in {language}", group=str(image), language=language, rating=0.5)
        for image in range(3)
        for language in ("ja", "en")
    ]
    constant = Scored("constant", lambda s: np.array([float(x.language == "ja") for x in s]))
    table = language_table([constant], rows, n_resamples=0)
    assert (table.row("constant").cells["n"].value, table.row("constant").cells["difference"].value) == (3, 1)
    assert (
        "3 pairs of a Japanese and an English caption of one image (and one system, or two" in table.notes[0]
    )
    assert "if named" in language_table([constant], [replace(row, system="s") for row in rows]).notes[0]


def test_captions_of_both_languages_beside_the_same_references():
    rows = [
        CaptionSample(text, references, group=str(image), language=language)
        for image in range(4)
        for text, references, language in (("犬", ("犬", "子犬", "猫"), "ja"), ("a dog", ("dogs",), "en"))
    ]
    counting = Scored("counting", lambda s: np.array([len(x.references) for x in s], dtype=float))
    unlike = Scored("unlike", lambda s: np.array([x.references[0] != x.candidate for x in s], dtype=float))
    table = language_table([counting, unlike], rows, n_resamples=0)
    titles = ["overall", "all beside Japanese references", "all beside English references"]
    assert [section.title for section in table.sections] == titles
    found = [table.row("counting", title).cells for title in titles]
    assert [(cells["ja"].value, cells["en"].value) for cells in found] == [(3, 1), (3, 3), (1, 1)]
    found = [table.row("unlike", title).cells["difference"].value for title in titles]
    assert found == [-1, -1, 0]
    alone = [row if row.language == "ja" else replace(row, references=()) for row in rows]
    assert [section.title for section in language_table([counting], alone, n_resamples=0).sections] == titles[
        :2
    ]


def test_plots(tmp_path):
    rows = captions()
    table = degraded([LENGTH], good_samples(rows, "rated"), ["half", "repeat"], n_resamples=20)
    plot_dots(tmp_path / "dots.png", table, "lower", line=0.5, limits=(0, 1))
    named = calibrate_by_language(np.array([s.rating.mean for s in rows]), rows, n_resamples=20)
    plot_reliability(tmp_path / "reliability.png", named, title="x")
    for name in ("dots.png", "reliability.png"):
        assert np.asarray(Image.open(tmp_path / name).convert("L")).std() > 10
    with pytest.raises(DataError, match="no row has a nothing"):
        plot_dots(tmp_path / "none.png", table, "nothing")


def test_what_should_not_matter_has_a_table_of_its_own():
    rows = [
        CaptionSample(
            f"two dogs and {n} grey cats sit on a sofa", ("two dogs",), language="en", group=f"g{n}"
        )
        for n in range(6)
    ]
    digits = Scored("digits", lambda samples: np.array([float("two" in s.candidate) for s in samples]))
    found = change_outcomes(
        [digits, CONSTANT], rows, ["digits", "synonym", "politeness", "other-image"], n_resamples=20
    )
    assert {outcome.change for outcome in found} == {
        "digits",
        "synonym",
        "other-image",
    }  # no politeness in English
    table = change_table(found, "same")
    row = table.row("digits", "digits, English")
    assert row.cells["lower"].value > 0.5  # else one of the other numbers is written as a word
    assert row.cells["higher"].value == 0
    assert table.row("synonym", "constant, English").cells["lower"].value == 0
    assert table.row("synonym", "constant, English").cells["higher"].value == 0
    assert change_table(found, "lower").row("other-image", "constant, English").cells["lower"].value == 0
    assert change_table([o for o in found if o.change == "other-image"], "same") is None


def test_a_change_says_which_resamples_its_interval_leaves_out():
    """Without the one image that is rated otherwise, all ratings are equal."""
    samples = [
        CaptionSample(f"c{n}", ("a", "b"), rating=Rating((2 if n == 0 else 1,), 1, 4), group=f"g{n}")
        for n in range(12)
    ]
    rows, previous = (
        AgreementData.from_samples(np.random.default_rng(seed).random(12), samples).rows("rows")
        for seed in (0, 1)
    )
    cell = _change(rows, previous, 100, 0)
    assert "of 100 resamples left out of the interval" in cell.reason
