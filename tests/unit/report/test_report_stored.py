"""Results on the disk: folders of trainings, JSON of commands, and what is neither."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from suisei.data.paths import ANYWHERE
from suisei.data.writers import write_samples
from suisei.errors import ConfigError, DataError
from suisei.metaeval.settings import Resampling
from suisei.metaeval.table_reading import read_table
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.report.contents import part_of
from suisei.report.html import render
from suisei.report.stored import facts_of, read_result
from suisei.scoring.run_scores import write_scores as write_run_scores
from suisei.scoring.scorefile import write_scores
from suisei.training.learning_curve import read_curves

SIGNED = Row("a", {"x": Cell(0.5, 0.25, 0.75, signature="x|n:7"), "n": Cell(7)}, "sig")
TABLE = Table(
    "A table",
    {"x": "X", "n": "n"},
    (
        Section("overall", (SIGNED, Row("b", error="no"))),
        Section(
            "language: ja", (Row("a", {"x": Cell(1e-9, is_p_value=True), "n": Cell(None, reason="none")}),)
        ),
    ),
    ("a note",),
    digits=2,
    row_heading="System",
)


def test_a_table_comes_back_as_it_was():
    read = read_table(json.loads(json.dumps(TABLE.as_dict(), allow_nan=False)))
    assert read.to_markdown() == TABLE.to_markdown()
    assert read.to_latex() == TABLE.to_latex()
    for own, section in zip(read.sections, TABLE.sections, strict=True):
        assert [row.cells for row in own.rows] == [row.cells for row in section.rows]


def test_a_table_without_headings_gets_them_from_its_cells():
    value = TABLE.as_dict()
    for name in ("columns", "digits", "row_heading"):
        del value[name]
    assert list(read_table(value).columns) == ["x", "n"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value["sections"].append(None),
        lambda value: value["sections"][0].pop("rows"),
        lambda value: value["sections"][0]["rows"][0]["cells"].update(x={"value": "high"}),
        lambda value: value["sections"][0]["rows"][0].pop("label"),
        lambda value: value.update(columns=[1]),
        lambda value: value.update(digits="many"),
        lambda value: value.update(digits=float("inf")),
        lambda value: value["sections"][0]["rows"][0]["cells"].update(x={"value": 1, "low": 10**400}),
    ],
)
def test_a_malformed_table_is_one_clear_error(tmp_path, spoil):
    value = TABLE.as_dict()
    spoil(value)
    (tmp_path / "r.json").write_text(json.dumps(value))
    with pytest.raises(DataError, match=r"r\.json: a table in it is malformed .*; write it again"):
        read_result(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "holds no object"), ("{", "not valid JSON"), ('{"title": 1}', "holds no table")],
)
def test_json_of_something_else_is_refused(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_result(tmp_path / "r.json")


def test_what_is_nested_too_deeply_is_refused(tmp_path):
    nested = '{"training": {"a": ' + "[" * 400 + "]" * 400 + "}}"
    (tmp_path / "report.json").write_text(nested)
    (tmp_path / "r.json").write_text(json.dumps(TABLE.as_dict())[:-1] + ", " + nested[1:])
    for path in (tmp_path, tmp_path / "r.json"):
        with pytest.raises(DataError, match="nested too deeply to be shown"):
            read_result(path)


def test_what_is_neither_run_nor_json_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ConfigError, match="give the folder of a training, or a JSON file"):
        read_result(tmp_path / "a.txt")
    with pytest.raises(ConfigError, match=r"has no report\.json"):
        read_result(tmp_path)


def test_all_tables_of_a_json_are_found(tmp_path):
    content = {
        **TABLE.as_dict(),
        "published": TABLE.as_dict(),
        "tables": {"systems": TABLE.as_dict()},
        "n": 1,
    }
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert list(read_result(tmp_path / "r.json").tables) == ["results", "published", "systems"]


def test_an_examination_has_the_figures_of_its_probes_in_each_language(tmp_path):
    def table(title, column, section="chrf"):
        typical = {"original": "a", "changed": "b", "before": 1.0, "after": 0.5}
        row = Row("chrf", {column: Cell(0.9)}, info={"examples": {"typical": typical}})
        sections = (Section(section, (row,)),)
        return Table(title, {column: column}, sections).as_dict()

    tables = {"overview": TABLE.as_dict(), "pascal-50s/results": table("Preferences: pascal-50s", "mean")}
    tables["pascal-50s/published"] = table("Beside: pascal-50s", "mean")
    tables["vatex-eval/results"] = table("Protocol of VATEX-EVAL", "mean")
    tables |= {f"probes, {name}/degradations": table("Degraded", "lower") for name in ("English", "Japanese")}
    tables["probes, English/replacing"] = table("Replacing", "rho", "English")
    (tmp_path / "r.json").write_text(json.dumps({"tables": tables}))
    blocks = {block.title: block for block in part_of(read_result(tmp_path / "r.json")).blocks}
    titles = {name: [each.title for each in block.tables] for name, block in blocks.items()}
    shown = ["A table", "Preferences: pascal-50s", "Beside: pascal-50s", "Protocol of VATEX-EVAL"]
    assert titles["Results"] == shown
    assert titles["Probes"] == ["Degraded: English", "Degraded: Japanese", "Replacing: English"]
    assert [each.title for each in blocks["Results"].figures] == [
        "Preferences: pascal-50s, chrf, mean",
        "Protocol of VATEX-EVAL, chrf, mean",
    ]
    figures = ["Degraded: English: chrf", "Degraded: Japanese: chrf", "Replacing: English"]
    assert [each.title for each in blocks["Probes"].figures] == figures
    assert len({each.name for each in blocks["Probes"].figures}) == 3  # files are called so
    assert blocks["Probes"].texts[0][0] == "Examples of degraded: English: chrf"


def test_the_reliability_of_a_model_in_a_folder_called_as_a_probe_is_shown_once(tmp_path):
    name = "reliability suisei:runs/probes"
    tables = {name: Table(name, {"human": "mean rating"}, (Section("all", ()),)).as_dict()}
    (tmp_path / "r.json").write_text(json.dumps({"tables": tables}))
    blocks = part_of(read_result(tmp_path / "r.json")).blocks
    assert [(block.title, len(block.tables)) for block in blocks] == [("Calibration", 1)]


@pytest.fixture
def run(tmp_path, rated):
    """The folder of a training, with two starts of which the second went on."""
    folder = tmp_path / "my-run"
    (folder / "model").mkdir(parents=True)
    samples = [replace(sample, image=None) for sample in rated.samples]
    write_samples(folder / "test.jsonl", samples)
    write_scores(folder / "test_scores.jsonl", samples, {"suisei": rated.scores["suisei"]})
    content = {"training": {"epochs": 3, "seed": 0, "skipped": []}, "results": TABLE.as_dict()}
    (folder / "report.json").write_text(json.dumps(content))
    (folder / "config.yaml").write_text("trainer:\n  max_epochs: 3\n")
    log = folder / "logs" / "version_0"
    log.mkdir(parents=True)
    (log / "metrics.csv").write_text(
        "epoch,step,train_loss,val_pearson\n0,9,0.5,\n0,19,,0.25\n1,29,nan,\n,x,1,1\n"
    )
    return folder


def test_a_training_has_samples_scores_curves_and_config(run, rated):
    result = read_result(run)
    assert result.title == "Training: my-run"
    assert list(result.tables) == ["results"]
    assert np.allclose(result.rated.scores["suisei"], rated.scores["suisei"])
    assert result.curves == {"train_loss": {10: 0.5}, "val_pearson": {20: 0.25}}
    assert result.curves == read_curves(run / "logs")  # which the run's own picture is drawn of
    facts = dict(result.facts)
    assert facts["config.yaml"] == "trainer:\n  max_epochs: 3\n"
    assert facts["Signatures"] == "a: sig"
    assert facts["Training"] == "epochs: 3\nseed: 0\n"


@pytest.mark.parametrize("line", [b'{"suisei": "\xff"}', b'{"suisei": 1' + b"0" * 400 + b"}", b"[]"])
def test_scores_that_no_training_writes_are_refused_with_their_line(run, line):
    with (run / "test_scores.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(DataError, match=r"test_scores\.jsonl, line \d+: not the scores of a training"):
        read_result(run)


def test_samples_of_several_sources_of_which_some_have_ids_are_joined_in_their_order(run, rated):
    samples = [
        replace(sample, id=str(number) if number % 2 else None, image=None)
        for number, sample in enumerate(rated.samples)
    ]
    write_samples(run / "test.jsonl", samples)
    write_run_scores(run / "test_scores.jsonl", samples, {"suisei": rated.scores["suisei"]})
    assert np.allclose(read_result(run).rated.scores["suisei"], rated.scores["suisei"], equal_nan=True)


def test_a_cross_validation_shows_the_samples_of_all_folds(run, rated):
    samples = [replace(sample, image=None) for sample in rated.samples]
    half = len(samples) // 2
    (run / "test.jsonl").unlink()
    for fold, own in enumerate((samples[:half], samples[half:])):
        (run / f"fold-{fold}").mkdir()
        write_samples(run / f"fold-{fold}" / "test.jsonl", own)
    report = json.loads((run / "report.json").read_text())
    (run / "report.json").write_text(json.dumps({**report, "folds": [{}, {}]}))
    result = read_result(run)
    assert [sample.candidate for sample in result.rated.samples] == [s.candidate for s in samples]
    assert np.allclose(result.rated.scores["suisei"], rated.scores["suisei"])
    assert any("learning curves are in the folders of the folds" in note for note in result.notes)
    write_samples(run / "fold-1" / "test.jsonl", samples[half + 1 :])
    with pytest.raises(DataError, match=r"test_scores\.jsonl: .* scores of .* test samples"):
        read_result(run)


def test_what_is_to_be_said_of_a_training_stands_on_its_page(run):
    report = run / "report.json"
    assert read_result(run).notes == []
    report.write_text(json.dumps({**json.loads(report.read_text()), "cautions": ["Tested on 3 samples."]}))
    result = read_result(run)
    assert result.notes == ["Caution: Tested on 3 samples."]
    page = render("page", [part_of(result)])
    assert '<li class="caution"><bdi>Caution: Tested on 3 samples.</bdi></li>' in page
    sentence = replace(result, notes=["run `suisei score --input <x>`"])
    page = render("page", [part_of(sentence)])
    assert "<li><bdi>run <code>suisei score --input &lt;x&gt;</code></bdi></li>" in page


@pytest.mark.parametrize(
    ("notes", "shown"),
    [
        (["a note", "x: lower is better"], ["x: lower is better"]),
        (
            {"scenes": ["a note"], "jsts": ["3 rows are bad", 1], "x": None},
            ["jsts: 3 rows are bad"],
        ),
        ("text", []),
    ],
)
def test_notes_beside_the_tables_of_a_json_are_shown(notes, shown, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"tables": {"overview": TABLE.as_dict()}, "notes": notes}))
    assert read_result(tmp_path / "a.json").notes == shown


def test_the_logs_of_all_starts_make_one_curve_whenever_they_were_copied(run):
    for start, text in ((2, "1,29,0.3\n2,39,0.2\n"), (10, "2,39,0.25\n3,49,0.1\n")):
        log = run / "logs" / f"version_{start}" / "metrics.csv"
        log.parent.mkdir()
        log.write_text("epoch,step,train_loss\n" + text)
        os.utime(log, (1_000_000 - start, 1_000_000 - start))
    assert read_result(run).curves["train_loss"] == {10: 0.5, 30: 0.3, 40: 0.25, 50: 0.1}


def test_a_training_without_samples_or_log_is_shown_without(run):
    (run / "test_scores.jsonl").unlink()
    (run / "logs" / "version_0" / "metrics.csv").unlink()
    result = read_result(run)
    assert result.rated is None
    assert result.curves == {}


@pytest.fixture
def captioner_run(tmp_path):
    """The folder of a captioner's training without test data."""
    folder = tmp_path / "cap"
    log = folder / "logs" / "version_0" / "metrics.csv"
    log.parent.mkdir(parents=True)
    log.write_text("epoch,step,train_loss,val_cider,val_loss\n0,4,,0.5,5.25\n1,9,4.5,,\n1,9,,0.75,4.75\n")
    figures = {"steps": 10, "languages": ["en"], "validation": {"en": {"cider": 0.75}}}
    (folder / "report.json").write_text(json.dumps(figures))
    return folder


def test_a_training_without_a_table_is_shown_by_its_curves_and_figures(captioner_run):
    result = read_result(captioner_run)
    assert result.tables == {}
    assert result.curves["val_cider"] == {5: 0.5, 10: 0.75}
    assert dict(result.facts) == {
        "report.json": "steps: 10\nlanguages:\n- en\nvalidation:\n  en:\n    cider: 0.75\n"
    }
    page = render("page", [part_of(result)])
    assert "Learning curves: validation" in page
    assert "val_cider ends at 0.75" in page


def test_a_figure_of_a_single_curve_names_it(captioner_run):
    (curves,) = (b for b in part_of(read_result(captioner_run)).blocks if b.title == "Learning curves")
    loss, validation = (figure.draw.keywords for figure in curves.figures)
    assert loss["headings"] == ("step", "loss")  # of two, which the legend names
    assert validation["headings"] == ("step", "val_cider")


def test_the_comparison_of_a_tuned_captioner_and_its_start_is_shown(captioner_run):
    tables = {"systems": TABLE.as_dict(), "pairs": TABLE.as_dict()}
    content = {"training": {"steps": 10}, "curve": [], "comparison": {"tables": tables, "notes": []}}
    (captioner_run / "report.json").write_text(json.dumps(content))
    log = captioner_run / "logs" / "version_0" / "metrics.csv"
    log.write_text("step,reward,val_length,val_reward\n4,0.5,,\n4,,9,0.25\n")
    result = read_result(captioner_run)
    assert list(result.tables) == ["systems", "pairs"]
    assert dict(result.facts) == {"Training": "steps: 10\n"}
    (curves,) = (block for block in part_of(result).blocks if block.title == "Learning curves")
    assert [(figure.title, figure.text) for figure in curves.figures] == [
        ("Learning curves: reward", "val_reward ends at 0.25"),
        ("Learning curves: validation", "val_length ends at 9"),
    ]


def test_scores_kept_beside_a_json_bring_predictions(tmp_path, rated):
    samples = [replace(sample, image=None) for sample in rated.samples]
    write_samples(tmp_path / "d.jsonl", samples)
    write_scores(tmp_path / "s.jsonl", samples, rated.scores)
    command = {
        "data": str(tmp_path / "d.jsonl"),
        "save_scores": str(tmp_path / "s.jsonl"),
        "rating_scale": None,
    }
    (tmp_path / "r.json").write_text(json.dumps({**TABLE.as_dict(), "command": command}))
    assert set(read_result(tmp_path / "r.json").rated.scores) == set(rated.scores)
    (tmp_path / "s.jsonl").unlink()
    without = read_result(tmp_path / "r.json")
    assert without.rated is None
    assert "--save-scores" in without.notes[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": "a\0b.jsonl"},
        {"rating_scale": [1, 2, 3]},
        {"rating_scale": 7},
        {"columns": ["rating"]},
        {"columns": {"rating": 7}},
        {"references": 7},
        {"data": "x" * 5000 + ".jsonl"},
    ],
)
def test_a_json_whose_command_cannot_have_run_shows_its_table_without_predictions(tmp_path, rated, wrong):
    samples = [replace(sample, image=None) for sample in rated.samples]
    write_samples(tmp_path / "d.jsonl", samples)
    write_scores(tmp_path / "s.jsonl", samples, rated.scores)
    command = {"data": str(tmp_path / "d.jsonl"), "save_scores": str(tmp_path / "s.jsonl"), **wrong}
    (tmp_path / "r.json").write_text(json.dumps({**TABLE.as_dict(), "command": command}))
    result = read_result(tmp_path / "r.json")
    assert result.rated is None
    assert result.tables
    assert result.notes[0].startswith("single predictions are not shown: ")
    assert "\n" not in result.notes[0]


def test_pictures_of_a_json_come_from_the_folder_of_its_data_unless_allowed(tmp_path, rated):
    picture = tmp_path / "elsewhere.png"
    picture.write_bytes(b"x")
    (tmp_path / "data").mkdir()
    samples = [replace(sample, image=picture) for sample in rated.samples]
    write_samples(tmp_path / "data" / "d.jsonl", samples)
    write_scores(tmp_path / "s.jsonl", samples, rated.scores)
    command = {"data": str(tmp_path / "data" / "d.jsonl"), "save_scores": str(tmp_path / "s.jsonl")}
    (tmp_path / "r.json").write_text(json.dumps({**TABLE.as_dict(), "command": command}))
    result = read_result(tmp_path / "r.json")
    assert result.rated is None
    assert "leads out of the folder" in result.notes[0]
    assert read_result(tmp_path / "r.json", ANYWHERE).rated.samples[0].image == picture


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"n_resamples": 0, "seed": 3}, Resampling(0, 3)),
        ({"n_resamples": -1, "seed": 3}, Resampling()),
        ({"seed": 3}, Resampling()),
        ("none", Resampling()),
    ],
)
def test_figures_are_resampled_as_those_of_the_json_were(tmp_path, settings, expected):
    (tmp_path / "r.json").write_text(json.dumps({**TABLE.as_dict(), "settings": settings}))
    assert read_result(tmp_path / "r.json").resampling == expected


def test_an_examination_says_where_its_figures_come_from():
    tables = {"overview": TABLE.as_dict(), "x/published": {**TABLE.as_dict(), "settings": {"averaging": "c"}}}
    for name, averaging in (("x/results", "a"), ("y/results", "b")):
        meta = {"settings": {"averaging": averaging, "seed": 3}, "versions": {"suisei": "1"}}
        tables[name] = replace(TABLE, meta=meta).as_dict()
    assert facts_of({"tables": tables}) == [
        ("Signatures", "a: sig"),
        ("Settings", "seed: 3\n"),
        ("Versions of what computed the figures", "suisei: '1'\n"),
    ]
