"""What is said of a model that is not to be relied on."""

import pytest

from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.training.cautions import as_markdown, cautions


def table(**rows):
    """Rows of (Pearson, tau-c)."""
    made = tuple(
        Row(label.replace("_", "-"), {"pearson": Cell(pearson), "tau-c": Cell(tau)})
        for label, (pearson, tau) in rows.items()
    )
    return Table("t", {"pearson": "Pearson", "tau-c": "Kendall tau-c"}, (Section("overall", made),))


GOOD = table(suisei=(0.6, 0.5), unigram_f1=(0.5, 0.4), length=(None, None), human=(0.8, 0.7))


@pytest.mark.parametrize("tested", ["split", "fold", "folds"])
def test_a_better_model_on_enough_samples_needs_none(tested):
    assert cautions(GOOD, 50, tested) == []
    assert as_markdown([]) == ""


@pytest.mark.parametrize(
    ("tested", "advice"),
    [("split", "--data.folds 5 tests on"), ("fold", "all folds together"), ("folds", "rate more captions")],
)
def test_few_tested_samples(tested, advice):
    (said,) = cautions(GOOD, 49, tested)
    assert said.startswith("Tested on 49 samples; figures of fewer than 50 say little")
    assert advice in said


def test_a_baseline_ahead_is_named_with_its_figures_and_what_to_do():
    worse = table(suisei=(0.4, 0.5), unigram_f1=(0.5, 0.4), length=(0.45, 0.6), human=(0.8, 0.7))
    (said,) = cautions(worse, 500, "split")
    assert "unigram-f1 has Pearson 0.500 against 0.400; length has" in said
    assert "Pearson 0.450 against 0.400, Kendall tau-c 0.600 against 0.500" in said
    assert "--data.folds 5" in said
    assert "human" not in said
    assert "--data.folds" not in cautions(worse, 500, "folds")[0]


def test_a_model_without_any_agreement():
    found = cautions(table(suisei=(None, None), length=(0.1, 0.1)), 3, "split")
    assert found[1] == "No agreement of the model with people could be measured."
    assert as_markdown(found).count("> **Caution.** ") == 2
