"""The evaluate command on files, with small metrics put into the registry."""

import json
import sys

import numpy as np
import pytest
import scipy.stats

from suisei.cli import run_command
from suisei.commands.evaluate import main
from suisei.errors import ConfigError
from suisei.metrics.registry import REGISTRY
from suisei.report.stored import read_result
from suisei.scoring.plan import plan_metrics
from tests.unit.commands.evaluate_runs import evaluate, rows_of, run

pytestmark = pytest.mark.usefixtures("fakes")


def test_figures_by_language_and_system(ratings, tmp_path, capsys):
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain")
    assert code == 0
    data = [json.loads(line) for line in ratings.read_text().splitlines()]
    x = np.repeat([float(row["candidate"].split()[-1]) for row in data], 2)
    y = np.ravel([row["rating"] for row in data])
    row = rows_of(report)["fake-plain"]
    assert row["cells"]["tau-c"]["value"] == pytest.approx(scipy.stats.kendalltau(x, y, variant="c")[0])
    assert row["cells"]["pearson"]["value"] == pytest.approx(scipy.stats.pearsonr(x, y)[0])
    assert row["cells"]["tau-c"]["low"] < row["cells"]["tau-c"]["value"] < row["cells"]["tau-c"]["high"]
    assert row["signature"].startswith("fake|tok:plain|suisei:")
    titles = [section["title"] for section in report["sections"]]
    assert titles == ["overall", "language: en", "language: ja", "system: s", "system: t"]
    assert rows_of(report)["human"]["cells"]["n"]["value"] == 80
    assert report["settings"]["raters"] == "rows"
    assert report["rated_samples"] == 40
    across = "of the samples 20 have no reference in the candidate's language"
    assert sum(note.startswith(across) for note in report["notes"]) == 1
    assert "fake-plain" in capsys.readouterr().out


def test_one_failed_metric_loses_no_other(ratings, tmp_path, capsys):
    scores = tmp_path / "s.jsonl"
    code, report = evaluate(
        ratings,
        tmp_path,
        "--metrics",
        "fake-dies,fake-absent",
        "--metrics",
        "fake-plain",
        "--save-scores",
        scores,
    )
    assert code == 1
    rows = rows_of(report)
    assert list(rows) == ["fake-dies", "fake-absent", "fake-plain", "human"]
    assert rows["fake-dies"]["error"] == "OSError: the child process went away"
    assert "no_such_module" in rows["fake-absent"]["error"]
    assert rows["fake-plain"]["cells"]["tau-c"]["value"] > 0.5
    assert list(json.loads(scores.read_text().splitlines()[0])) == ["id", "fake-plain"]
    captured = capsys.readouterr()
    assert "the child process went away" in captured.out
    assert "fake-dies failed" in captured.err


def test_scores_that_are_no_finite_numbers_are_counted_and_lose_no_other_metric(ratings, tmp_path):
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-infinite,fake-plain", "--compare")
    assert code == 0
    rows = rows_of(report)
    assert rows["fake-infinite"]["cells"]["n"]["value"] == 74
    assert rows["fake-plain"]["cells"]["n"]["value"] == 80
    assert "fake-infinite: 3 samples without score (no score), left out of its row" in report["notes"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "needs a Java runtime"),
        ("for n in range(3): sys.stdin.readline(); print('1 ' * 23, flush=True)\nsys.exit('heap')", "heap"),
    ],
)
def test_java_that_is_absent_or_dies_half_way_loses_one_column(
    ratings, tmp_path, monkeypatch, capsys, body, message
):
    pytest.importorskip("pycocoevalcap")
    if body is None:
        monkeypatch.setattr("suisei.metrics.java.java_command", lambda: None)
    else:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, report = evaluate(ratings, tmp_path, "--metrics", "meteor,fake-plain", "--tokenizer", "whitespace")
    assert code == 1
    rows = rows_of(report)
    assert message in rows["meteor"]["error"]
    assert rows["meteor"]["cells"] == {}
    assert rows["fake-plain"]["cells"]["tau-c"]["value"] > 0.5
    assert message in capsys.readouterr().out


def test_a_constant_metric_and_a_single_rater_have_reasons_and_no_zero(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    rows = [{"candidate": "dog 1", "rating": 1 + i % 5, "group": f"g{i}"} for i in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, report = evaluate(path, tmp_path, "--metrics", "fake-plain")
    assert code == 0
    found = rows_of(report)
    assert all(found["fake-plain"]["cells"][kind]["value"] is None for kind in ("pearson", "tau-b", "tau-c"))
    assert found["fake-plain"]["cells"]["tau-c"]["reason"] == "undefined: all 20 scores are 1"
    assert "one rater" in found["human"]["cells"]["tau-c"]["reason"]
    assert "undefined: all 20 scores are 1" in capsys.readouterr().out


def test_all_metrics_failing_still_shows_the_table(ratings, tmp_path):
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-dies")
    assert code == 1
    assert rows_of(report)["human"]["cells"]["pearson"]["value"] > 0


def test_fit_and_orientation_are_in_the_signature(ratings, tmp_path):
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-fit,fake-distance")
    rows = rows_of(report)
    assert code == 0
    assert rows["fake-fit"]["signature"].endswith("|fit:references-of-40-samples")
    assert rows["fake-distance"]["signature"].endswith("|negated-for-correlation")
    assert rows["fake-distance"]["cells"]["tau-c"]["value"] == rows["fake-fit"]["cells"]["tau-c"]["value"]
    assert "fake-distance: lower is better, so scores count with their sign turned" in report["notes"]
    assert report["plotted"] == "tau-c"


def test_saved_scores_join_again(ratings, tmp_path):
    scores = tmp_path / "s.csv"
    _, first = evaluate(ratings, tmp_path, "--metrics", "fake-plain,fake-references", "--save-scores", scores)
    text = scores.read_text().splitlines()
    scores.write_text("\n".join([text[0], *text[:0:-1]]) + "\n")  # another row order, same ids
    code, second = evaluate(ratings, tmp_path, "--scores", scores, "--metrics", "fake-plain")
    assert code == 0
    rows = rows_of(second)
    assert list(rows) == ["fake-plain", "fake-plain (s.csv)", "fake-references", "human"]
    for name in ("fake-plain", "fake-references"):
        assert rows[name]["cells"] == rows_of(first)[name]["cells"]
    assert rows["fake-references"]["skipped"] == 10
    assert any("joined by id, 40 of 40" in note for note in second["notes"])


@pytest.mark.parametrize("ids", [False, True])
def test_a_row_per_rater_is_measured_as_a_column_per_rater_is(ratings, tmp_path, ids):
    """Scores of every row, or of every caption, join either way."""
    data = [json.loads(line) for line in ratings.read_text().splitlines()]
    long = [
        {**row, "id": f"{row['id']}-{rater}", "rating": row["rating"][rater]}
        for rater in (0, 1)
        for row in data
    ]
    for rows in (data, long):
        for row in rows if not ids else ():
            del row["id"]
    wide_file, long_file = tmp_path / "wide.jsonl", tmp_path / "long.jsonl"
    for path, rows in ((wide_file, data), (long_file, long)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    saved, every = tmp_path / "saved.csv", tmp_path / "every.csv"
    _, wide = evaluate(wide_file, tmp_path, "--metrics", "fake-plain")
    _, first = evaluate(long_file, tmp_path, "--metrics", "fake-plain", "--save-scores", saved)
    shown = read_result(tmp_path / "out.json")
    assert (len(shown.rated.samples), shown.notes) == (40, [])
    names = [f"{row.get('id', number)}" for number, row in enumerate(long, 1)]
    scores = [f"{name},{row['candidate'].split()[-1]}\n" for name, row in zip(names, long, strict=True)]
    every.write_text("id,mine\n" + "".join(reversed(scores)))
    code, joined = evaluate(
        long_file, tmp_path, "--scores", saved, "--scores", every, "--metrics", "fake-plain"
    )
    assert code == 0
    assert any("80 rows rate 40 samples, a row per rater" in note for note in first["notes"])
    for label in ("fake-plain", "human"):
        assert rows_of(first)[label]["cells"] == rows_of(wide)[label]["cells"]
    for label in ("fake-plain (saved.csv)", "mine"):
        assert rows_of(joined)[label]["cells"] == rows_of(wide)["fake-plain"]["cells"]
        assert not rows_of(joined)[label]["skipped"]


def test_scores_of_the_rated_rows_join_where_some_of_a_row_per_rater_are_not_rated(ratings, tmp_path):
    data = [json.loads(line) for line in ratings.read_text().splitlines()]
    long = [{**row, "rating": rating} for row in data for rating in (*row["rating"], None)]
    for row in long:
        del row["id"]
    path, scores = tmp_path / "long.jsonl", tmp_path / "mine.csv"
    path.write_text("".join(json.dumps(row) + "\n" for row in long))
    rated = [row["candidate"].split()[-1] for row in long if row["rating"] is not None]
    scores.write_text("mine\n" + "".join(f"{score}\n" for score in rated))
    code, found = evaluate(path, tmp_path, "--scores", scores, "--metrics", "fake-plain")
    assert (code, found["rated_samples"]) == (0, 40)
    assert "mine.csv: no ids, joined by row order (80 rows, 40 measured)" in found["notes"]
    assert rows_of(found)["mine"]["cells"] == rows_of(found)["fake-plain"]["cells"]
    saved = tmp_path / "saved.csv"
    evaluate(path, tmp_path, "--metrics", "fake-plain", "--save-scores", saved)
    before = read_result(tmp_path / "out.json").rated.scores["fake-plain"]
    saved.write_text("fake-plain\n" + "".join(f"{score}\n" for score in rated))  # a row per rater, as once
    assert read_result(tmp_path / "out.json").rated.scores["fake-plain"].tolist() == before.tolist()


def test_a_column_of_scores_called_human_is_not_taken_for_the_raters(ratings, tmp_path):
    scores = tmp_path / "s.csv"
    data = [json.loads(line) for line in ratings.read_text().splitlines()]
    scores.write_text("\n".join(["id,human", *(f"{row['id']},{n % 7}" for n, row in enumerate(data))]) + "\n")
    code, report = evaluate(
        ratings, tmp_path, "--scores", scores, "--metrics", "fake-dies,fake-plain", "--compare"
    )
    assert code == 1
    rows = report["sections"][0]["rows"]
    assert [row["label"] for row in rows] == ["fake-dies", "fake-plain", "human (s.csv)", "human"]
    assert "rank" in rows[2]["cells"]
    assert "rank" not in rows[3]["cells"]
    assert rows[2]["cells"]["n"]["value"] == rows[3]["cells"]["n"]["value"] == 80


def test_samples_without_what_a_metric_needs_are_counted(ratings, tmp_path):
    _, report = evaluate(ratings, tmp_path, "--metrics", "fake-references")
    assert any("10 samples without score (no references)" in note for note in report["notes"])
    assert rows_of(report)["fake-references"]["cells"]["n"]["value"] == 60


def test_unrated_and_bad_rows_are_counted(ratings, tmp_path):
    with ratings.open("a") as stream:
        stream.write('{"id": "u", "candidate": "dog 0.5"}\n{"id": "bad", "candidate": ""}\n')
    code, _ = evaluate(ratings, tmp_path, "--metrics", "fake-plain")
    assert code == 2
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain", "--on-error", "skip")
    assert code == 0
    assert any(note.startswith("1 bad row skipped, the first:") for note in report["notes"])
    assert "1 sample skipped: no rating" in report["notes"]


def test_scores_without_ids_are_of_the_rows_behind_bad_ones(ratings, tmp_path):
    """The file of scores has a row for each of the data, good or bad, rated or not."""
    lines = ratings.read_text().splitlines()
    numbers = [json.loads(line)["candidate"].split()[-1] for line in lines]
    bad, unrated = '{"id": "bad", "candidate": ""}', '{"id": "u", "candidate": "dog 0.5"}'
    ratings.write_text("\n".join([*lines[:3], bad, *lines[3:], unrated]))
    (tmp_path / "s.csv").write_text("\n".join(["m", *numbers[:3], "0.9", *numbers[3:], "0.1"]))
    options = ("--metrics", "fake-plain", "--scores", tmp_path / "s.csv", "--on-error", "skip")
    code, report = evaluate(ratings, tmp_path, *options)
    assert code == 0
    rows = rows_of(report)
    assert rows["m"]["cells"] == rows["fake-plain"]["cells"]


def test_data_without_ratings_is_refused(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    path.write_text('{"candidate": "dog 1"}\n')
    assert run("--data", path, "--metrics", "fake-plain") == 2
    assert "none of its 1 sample is rated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("id,m\nq,1\n", "none of its 1 id is"),
        ("id,m\nr0,high\n", "not a finite number"),
    ],
)
def test_files_of_scores_are_read_before_anything_is_scored(ratings, tmp_path, capsys, text, message):
    path = tmp_path / "mine.csv"
    if text is not None:
        path.write_text(text)
    scale = ("--rating-scale", 1, 5)
    assert run("--data", ratings, *scale, "--metrics", "fake-plain", "--scores", path) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "scoring" not in said


def test_without_metrics_it_measures_what_score_takes_without_metrics(ratings, tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "suisei", REGISTRY["fake-plain"])
    code, report = evaluate(ratings, tmp_path)
    assert code == 0
    assert set(rows_of(report)) == {"suisei", "human"}


def test_references_and_columns_of_other_names(tmp_path, capsys):
    rows = [{"image_id": n, "what": f"a dog {n}", "mos": n % 5, "url": "x"} for n in range(1, 11)]
    source, references = tmp_path / "in.jsonl", tmp_path / "refs.json"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    references.write_text(json.dumps({str(n): [f"a dog {n}" if n % 3 else "cat"] for n in range(1, 11)}))
    more = ("--column", "candidate=what", "--references", references, "--rating-scale", 0, 4)
    code, report = evaluate(source, tmp_path, "--metrics", "rouge-l", *more)
    assert code == 0
    assert rows_of(report)["rouge-l"]["cells"]["pearson"]["value"] is not None
    told = capsys.readouterr().err
    assert "taken: 'mos' for the rating, 'image_id' for the group; ignored: 'url'; --column FIELD" in told
    assert "captions by image id, 10 images; rows of" in told


def test_model_is_short_for_suisei(ratings, tmp_path):
    code, report = evaluate(ratings, tmp_path, "--model", tmp_path / "absent", "--metrics", "fake-plain")
    assert code == 1
    assert rows_of(report)[f"suisei:{tmp_path / 'absent'}"]["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", "fake-plane"], "no metric 'fake-plane'; did you mean 'fake-plain'"),
        (["--metrics", "ridge"], "no metric 'ridge'"),  # it learns from ratings: an input of a model only
        (["--metrics", "fake-plain,fake-plain"], "given twice"),
        (["--metrics", "human=fake-plain"], "cannot be called 'human', as the row of the raters is"),
        (["--metrics", "fake-plain", "--compare", "--bootstrap", "0"], "--compare needs resamples"),
        (["--metrics", "fake-plain", "--json", "/no/such/folder/x.json"], "--json .* folder does not exist"),
        (["--metrics", "fake-plain", "--save-scores", "scores.txt"], "must end in .jsonl or .csv"),
        (["--metrics", "fake-plain", "--metric-option", "fake-plain.shape=2"], "no option 'shape'"),
        (
            ["--metrics", "fake-plain", "--metric-option", "fake-fit.shift=2"],
            "'fake-fit', which is not asked for",
        ),
        (["--metrics", "fake-plain", "--metric-option", "shift"], "NAME.KEY=VALUE"),
    ],
)
def test_usage_errors_come_before_any_work(ratings, capsys, arguments, message):
    import re

    assert run("--data", ratings, *arguments) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    "arguments", [["--bootstrap", "-1"], ["--batch-size", "0"], ["--averaging", "x"], []]
)
def test_argparse_errors_have_status_2(arguments):
    assert run_command(main, arguments) == 2


def test_options_and_tokenizer_reach_the_metric(ratings, tmp_path):
    option = ["--metric-option", "fake-plain.shift=2.5", "--tokenizer", "character"]
    scores = tmp_path / "s.jsonl"
    _, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain", "--save-scores", scores, *option)
    assert "tok:character" in rows_of(report)["fake-plain"]["signature"]
    assert json.loads(scores.read_text().splitlines()[0])["fake-plain"] > 2.5
    with pytest.raises(ConfigError, match="none of the metrics takes a tokenizer"):
        plan_metrics(["clip-s"], tokenizer="character")
