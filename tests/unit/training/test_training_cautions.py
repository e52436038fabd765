"""What is said of a model that is not to be relied on."""

import re
import shlex

import numpy as np
import pytest

from suisei.commands.evaluate import main as evaluate
from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.scoring.run_scores import write_scores
from suisei.training.cautions import ADVICE, as_markdown, cautions, data_cautions
from suisei.training.run_report import evaluated


def table(**rows):
    """Rows of (Pearson, tau-c)."""
    made = tuple(
        Row(label.replace("_", "-"), {"pearson": Cell(pearson), "tau-c": Cell(tau)})
        for label, (pearson, tau) in rows.items()
    )
    columns = {"pearson": "Pearson", "tau-c": "Kendall tau-c"}
    return Table("t", columns, (Section("overall", made),), meta={"settings": {"raters": "rows"}})


def said_of(made, samples, tested):
    """What is said where all score all samples."""
    scores = {row.label: np.zeros(samples) for row in made.overall.rows}
    return cautions(made, scores, [CaptionSample(f"dog {n}") for n in range(samples)], tested)


GOOD = table(suisei=(0.6, 0.5), unigram_f1=(0.5, 0.4), length=(None, None), human=(0.8, 0.7))
WORSE = table(suisei=(0.4, 0.5), unigram_f1=(0.5, 0.4), length=(0.45, 0.6), human=(0.8, 0.7))


@pytest.mark.parametrize("tested", list(ADVICE))
def test_a_better_model_on_enough_samples_needs_none(tested):
    assert said_of(GOOD, 50, tested) == []
    assert as_markdown([]) == ""


@pytest.mark.parametrize(
    ("tested", "advice"),
    [
        ("split", "--data.folds 5 tests on"),
        ("files", "give more rated captions as data.test"),
        ("fold", "all folds together"),
        ("folds", "rate more captions"),
    ],
)
def test_few_tested_samples(tested, advice):
    (said,) = said_of(GOOD, 49, tested)
    assert said.startswith("Tested on 49 samples; figures of fewer than 50 say little")
    assert advice in said


def test_few_captions_that_are_tested_often():
    samples = [CaptionSample(f"dog {n % 31}", system=f"{n}") for n in range(160)]
    (said,) = cautions(GOOD, {row.label: np.zeros(160) for row in GOOD.overall.rows}, samples, "folds")
    assert said.startswith("Tested on 160 samples of 31 captions; figures of fewer than 50 say little")


def test_a_baseline_ahead_is_named_with_its_figures_and_what_to_do():
    (said,) = said_of(WORSE, 500, "split")
    assert "unigram-f1 has Pearson 0.500 against 0.400; length has" in said
    assert "Pearson 0.450 against 0.400, Kendall tau-c 0.600 against 0.500" in said
    assert "--data.folds 5" in said
    assert "human" not in said
    assert "samples that both score" not in said
    assert "--data.folds" not in said_of(WORSE, 500, "folds")[0]


def test_a_model_without_any_agreement():
    found = said_of(table(suisei=(None, None), length=(0.1, 0.1)), 3, "split")
    assert found[1] == "No agreement of the model with people could be measured."
    assert as_markdown(found).count("> **Caution.** ") == 2


@pytest.fixture
def rated():
    """Samples with two ratings each, the first half of which the model finds hard."""
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, (80, 2))
    samples = [
        CaptionSample(f"dog {n}", ["a dog"], rating=Rating(tuple(map(float, pair)), 1, 5), id=f"{n}")
        for n, pair in enumerate(values.tolist())
    ]
    mean = values.mean(axis=1)
    model = np.where(np.arange(80) < 40, rng.normal(size=80), mean + rng.normal(size=80) / 10)
    return samples, mean, model


def test_a_baseline_with_fewer_scores_is_compared_on_the_samples_that_both_score(rated):
    samples, mean, model = rated
    easy = np.where(np.arange(80) < 40, np.nan, mean + np.random.default_rng(1).normal(size=80))
    scores = {"suisei": model, "clip-s": easy}
    made = evaluated(scores, samples, {}, "t")
    assert made.row("clip-s").value("pearson") > made.row("suisei").value("pearson")
    assert cautions(made, scores, samples, "split") == []  # on its own 40 the model is far ahead
    hard = np.where(np.arange(80) < 40, mean, np.nan)
    scores = {"suisei": model, "clip-s": hard}
    (said,) = cautions(evaluated(scores, samples, {}, "t"), scores, samples, "split")
    own = evaluated({"suisei": model[:40]}, samples[:40], {}, "t").row("suisei").value("pearson")
    assert f"against {own:.3f}" in said
    assert "on the 40 of 80 samples that both score" in said
    scores = {"suisei": np.where(np.arange(80) < 40, np.nan, model), "clip-s": hard}
    assert cautions(evaluated(scores, samples, {}, "t"), scores, samples, "split") == []


@pytest.mark.parametrize("raters", ["rows", "mean"])
def test_beside_given_files_the_command_that_tests_for_chance_runs(
    rated, raters, tmp_path, monkeypatch, capsys
):
    samples, mean, model = rated
    if raters == "mean":
        samples[0] = CaptionSample("a cat", rating=Rating((3.0,), 1, 5), id="0")
    (tmp_path / "elsewhere.png").write_bytes(b"x")
    samples[1] = CaptionSample("a cat", image=tmp_path / "elsewhere.png", rating=samples[1].rating, id="1")
    run = tmp_path / "run"
    run.mkdir()
    scores = {"suisei": model, "length": mean}
    (said,) = cautions(evaluated(scores, samples, {}, "t"), scores, samples, "files")
    assert "--data.folds" not in said
    command = re.search(r"`suisei evaluate (.*)`, in the run's folder, tests whether", said)[1]
    assert ("--raters mean" in command) == (raters == "mean")
    write_samples(run / "test.jsonl", samples)
    write_scores(run / "test_scores.jsonl", samples, scores)
    monkeypatch.chdir(run)
    assert evaluate([*shlex.split(command), "--bootstrap", "20"]) == 0
    assert "Paired comparison" in capsys.readouterr().out


def test_what_is_wrong_with_data_is_said_of_one_run_and_of_folds():
    shared = {"test and train": {"rows": 2, "images": 0, "references": 0}}
    assert data_cautions({}) == data_cautions({"sources": ["mine.jsonl"], "shared": {}}) == []
    leaked, simulated = data_cautions({"sources": ["mine.jsonl", "scenes"], "shared": shared})
    assert "test and training share 2 rows" in leaked
    assert "The ratings of `scenes` are simulated" in simulated
    leaked, simulated = data_cautions({"sources": ["scenes"], "shared": shared}, {"shared": shared})
    assert "share 4 rows" in leaked
    (simulated,) = data_cautions({"sources": ["mine.jsonl"], "given": {"test": "scenes"}})
    assert "simulated" in simulated


def test_a_single_tested_sample_is_one():
    assert said_of(GOOD, 1, "split")[0].startswith("Tested on 1 sample; figures")


def test_ratings_that_the_encoder_had_learned_from_and_are_tested_are_said_once_for_all_folds():
    folds = [{"tested_before": ["shichimi"]}, {"tested_before": ["shichimi", "a.csv"]}, {"tested_before": []}]
    (said,) = data_cautions(*folds)
    assert said.startswith(
        "The text encoder had learned from ratings of shichimi, a.csv, and data of that name"
    )
    assert data_cautions({"tested_before": []}, {}) == []
