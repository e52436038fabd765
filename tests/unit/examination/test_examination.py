"""An examination: finds what is there, keeps what is finished, says what is not there."""

import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest

from suisei.commands.examine import _EPILOG, _result, main
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.sugarcrepe import KINDS as SUGARCREPE_KINDS
from suisei.data.load import load_data
from suisei.errors import ConfigError, DataError, UnavailableError
from suisei.examination.kept import Kept, samples_digest
from suisei.examination.kept_columns import candidate_of
from suisei.examination.measures import Means, Measure, lacking, measure_benchmark
from suisei.examination.overview import overview_table
from suisei.examination.places import Place, find_benchmark
from suisei.examination.probing import Probed, measure_probes
from suisei.metaeval.settings import EvaluationSettings, Resampling
from suisei.metaeval.tables import Cell
from suisei.metrics.overlap import UnigramF1
from suisei.scoring.columns import ScoreColumn
from suisei.scoring.fitting import Corpus
from suisei.scoring.plan import MetricPlan

SETTINGS = EvaluationSettings(n_resamples=50)


@pytest.fixture(scope="module")
def samples():
    return load_data("scenes")[:400]


@pytest.fixture
def jsts(tmp_path):
    """A root with one benchmark two folders deep, and a folder that has its name and nothing in it."""
    folder = tmp_path / "data" / "sets" / "jsts"
    folder.mkdir(parents=True)
    (tmp_path / "data" / "jsts").mkdir()
    rows = [
        {"sentence_pair_id": str(n), "yjcaptions_id": f"{n}_{n}-{n}", "sentence1": f"犬が{n}匹いる",
         "sentence2": "犬がいる", "label": float(n % 5)}
        for n in range(6)
    ]  # fmt: skip
    for part in ("train", "valid"):
        lines = [json.dumps(row | {"sentence_pair_id": f"{part}{n}"}) for n, row in enumerate(rows)]
        (folder / f"{part}-v1.3.json").write_text("\n".join(lines))
    return tmp_path / "data"


def test_a_benchmark_is_found_by_its_folder_in_spite_of_an_empty_one(jsts):
    place = find_benchmark("jsts", jsts)
    assert place.root == jsts / "sets" / "jsts"
    assert len(place.samples) == 12
    assert find_benchmark("scenes", jsts).root is None  # comes with the package


def test_what_is_not_there_says_what_was_looked_for(jsts):
    absent = find_benchmark("polaris", jsts)
    assert absent.samples is None
    assert "no folder called polaris under" in absent.note
    (jsts / "sets" / "jsts" / "valid-v1.3.json").unlink()
    assert "valid-v1.3.json" in find_benchmark("jsts", jsts).note


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("thumb", "THumB/mscoco/mscoco_THumB-1.0.jsonl", {"SYS": "a", "seg_id": "1", "hyp": "x",
         "image": "1.jpg", "P": 1, "R": 1, "human_score": 1}),
        ("hat", "aloha/data/hat-trainval.json", [{"sample_id": "1", "caption": "x", "references": ["y"],
         "image_path": "1.jpg", "contains_hallucination": True}]),
        ("valse", "VALSE/data/existence.json", {"1": {"dataset": "visual7w", "image_file": "1.jpg",
         "caption": "x", "foil": "y", "mturk": {"caption": 3}}}),
        *(
            ("sugarcrepe", f"{folder}/{{kind}}.json",
             {"0": {"filename": "1.jpg", "caption": "x", "negative_caption": "y"}})
            for folder in ("sugar-crepe/data", "sugarcrepe")
        ),
        ("jsts", "JGLUE/datasets/jsts-v1.3/{kind}-v1.3.json", {"sentence_pair_id": "1", "sentence1": "犬",
         "yjcaptions_id": "1_1-1", "sentence2": "猫", "label": 1}),
    ],
)  # fmt: skip
def test_a_benchmark_is_found_in_a_clone_of_its_own_repository(tmp_path, name, file, content):
    for kind in ("train", "valid") if name == "jsts" else SUGARCREPE_KINDS:
        path = tmp_path / file.format(kind=kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content).replace('pair_id": "1"', f'pair_id": "{kind}"'))
    place = find_benchmark(name, tmp_path)
    assert place.note == ""
    assert place.root.resolve() == path.parent
    assert place.samples
    path.write_text("")
    assert str(path) in find_benchmark(name, tmp_path).note


def test_bad_rows_are_left_out_and_counted(jsts):
    with (jsts / "sets" / "jsts" / "valid-v1.3.json").open("a") as file:
        file.write("\n{broken")
    place = find_benchmark("jsts", jsts)
    assert len(place.samples) == 12
    assert place.note == "1 bad row left out"


def test_the_digest_of_samples_sees_all_that_decides_a_figure(samples):
    one = samples[:2]
    digest = samples_digest(one)
    assert digest == samples_digest(list(one))
    for changed in (
        replace(one[0], candidate="x"), replace(one[0], references=()), replace(one[0], group="g"),
        replace(one[0], system="s"), replace(one[0], rating=None), replace(one[0], id="i"),
    ):  # fmt: skip
        assert samples_digest([changed, one[1]]) != digest
    assert samples_digest(one[::-1]) != digest


def test_a_second_measure_computes_nothing(tmp_path, samples, monkeypatch):
    place = Place("scenes", None, samples)
    candidates = [candidate_of(MetricPlan(name)) for name in ("unigram-f1", "length")]
    monkeypatch.setattr(UnigramF1, "backbone", "ViT-B-16@openai")
    first = measure_benchmark(place, candidates, Means(Kept(tmp_path), SETTINGS))

    def again(*_args, **_settings):
        raise AssertionError("computed again")

    monkeypatch.setattr("suisei.examination.kept_columns.score_column", again)
    monkeypatch.setattr("suisei.examination.measures._measured", again)
    kept = Kept(tmp_path)
    second = measure_benchmark(place, candidates, Means(kept, SETTINGS))
    assert kept.reused == 3
    assert second.figures == first.figures
    assert np.array_equal(second.columns[0].scores, first.columns[0].scores, equal_nan=True)
    assert second.columns[0].backbone == "ViT-B-16@openai"
    assert second.best == first.best == "unigram-f1"


def test_what_a_figure_shows_is_said_of_a_kept_measure_too(tmp_path, samples):
    place, candidates = Place("scenes", None, samples[:20]), [candidate_of(MetricPlan("length"))]
    measure_benchmark(place, candidates, Means(Kept(tmp_path), SETTINGS))
    (path,) = tmp_path.glob("scenes-measures*.json")
    content = json.loads(path.read_text())
    content["value"]["tables"]["results"].pop("plotted", None)  # as earlier versions kept it
    path.write_text(json.dumps(content))
    kept = Kept(tmp_path)
    measure = measure_benchmark(place, candidates, Means(kept, SETTINGS))
    assert kept.reused == 2
    assert measure.tables["results"].meta["plotted"] == SETTINGS.correlation


def test_scores_are_computed_anew_once_the_captions_of_the_idf_weights_have_changed(
    tmp_path, samples, monkeypatch
):
    corpora = [Corpus("train", None, "no file"), Corpus("train", ["a dog"]), Corpus("train", ["a cat"])]
    seen = []

    def scored(plan, some, *, corpus, **_settings):
        seen.append(corpus)
        return ScoreColumn(plan.label, np.arange(len(some)) % (3 + len(seen)), "signature")

    monkeypatch.setattr("suisei.examination.kept_columns.score_column", scored)
    figures = []
    for corpus in [*corpora, corpora[-1]]:
        monkeypatch.setattr("suisei.examination.measures.protocol_corpus", lambda *_, own=corpus: own)
        candidates, kept = [candidate_of(MetricPlan("length"))], Kept(tmp_path)
        measure = measure_benchmark(Place("scenes", None, samples), candidates, Means(kept, SETTINGS))
        figures.append(measure.figures["length"].value)
    assert seen == corpora
    assert len(set(figures)) == 3
    assert figures[3] == figures[2]


def test_a_benchmark_is_measured_as_its_papers_do(tmp_path, samples):
    candidates, some = [candidate_of(MetricPlan("unigram-f1"))], samples[:60]
    for name, heading, count in (
        ("flickr8k-cf", "Kendall tau-b", 60), ("flickr8k-expert", "Kendall tau-c", 180),
    ):  # fmt: skip
        means = Means(Kept(tmp_path), EvaluationSettings())
        measure = measure_benchmark(Place(name, None, some), candidates, means)
        assert measure.heading == f"{name}: {heading}"
        assert measure.tables["results"].row("unigram-f1").value("n") == count  # or 3 ratings each


def test_a_metric_that_needs_what_nobody_has_did_not_fail(tmp_path, samples):
    bare = [replace(sample, references=()) for sample in samples]
    assert lacking(MetricPlan("cider"), bare) == "needs references, of which there is nothing here"
    assert lacking(MetricPlan("cider"), samples) == ""
    candidates = [candidate_of(MetricPlan(name)) for name in ("cider", "length")]
    measure = measure_benchmark(Place("scenes", None, bare), candidates, Means(Kept(tmp_path), SETTINGS))
    assert measure.failed == []
    assert list(measure.figures) == ["length"]
    with pytest.raises(DataError, match="cider: needs references"):
        measure_benchmark(Place("scenes", None, bare), candidates[:1], Means(Kept(tmp_path), SETTINGS))


def test_a_metric_that_fails_everywhere_is_told_with_its_reason_and_the_status(
    tmp_path, jsts, monkeypatch, capsys
):
    """Also where it is the only one, on benchmarks and on probes."""

    def failing(*_, **__):
        raise DataError("an image cannot be read")

    monkeypatch.setattr(UnigramF1, "_score", failing)
    arguments = ["--metrics", "unigram-f1", "--root", str(jsts), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--benchmarks", "jsts", "--bootstrap", "20"]) == 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "unigram-f1: an image cannot be read" in page
    own = load_data("jsts", root=jsts / "sets" / "jsts")
    probed = Probed("ja", "Japanese", own, [], "jsts")
    means = Means(Kept(tmp_path / "kept"), SETTINGS)
    (measure, *_) = measure_probes(probed, [candidate_of(MetricPlan("unigram-f1"))], means)
    assert measure.failed == ["unigram-f1"]
    assert any("an image cannot be read" in note for note in measure.notes)
    blind = replace(candidate_of(MetricPlan("length")), plan=MetricPlan("clip-s"), problem="no image")
    (measure, *_) = measure_probes(probed, [blind], means)
    assert measure.failed == []  # it needs what nobody has
    assert any("no image" in note for note in measure.notes)


def test_a_benchmark_in_parquet_without_what_reads_it_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "polaris").mkdir()

    def absent(*_, **__):
        raise UnavailableError("Parquet needs pyarrow: pip install 'suisei[parquet]'")

    monkeypatch.setitem(BENCHMARKS, "polaris", replace(BENCHMARKS["polaris"], rows=absent))
    place = find_benchmark("polaris", tmp_path)
    assert place.samples is None
    assert "needs pyarrow" in place.note


def test_a_benchmark_says_of_a_distance_that_its_sign_is_turned(tmp_path, samples):
    candidates = [candidate_of(MetricPlan(name)) for name in ("length", "repetition-1")]
    measure = measure_benchmark(
        Place("scenes", None, samples[:20]), candidates, Means(Kept(tmp_path), SETTINGS)
    )
    said = [note for note in measure.notes if "sign turned" in note]
    assert said == ["repetition-1: lower is better, so scores count with their sign turned"]
    table = overview_table(
        ["length", "repetition-1"], [measure, replace(measure, name="other")], {}, {}, 1000
    )
    assert [note for note in table.notes if "sign turned" in note] == said


def test_probes_say_of_a_distance_that_its_sign_is_turned(tmp_path, samples):
    good = [s for s in samples if s.language == "en"][:6]
    candidates = [candidate_of(MetricPlan(name)) for name in ("length", "repetition-1")]
    probes, *_ = measure_probes(Probed("en", "English", good), candidates, Means(Kept(tmp_path), SETTINGS))
    said = [note for note in probes.tables["degradations"].notes if "sign turned" in note]
    assert len(said) == 1
    assert said[0].startswith("repetition-1: ")


def test_probes_have_a_section_per_metric(tmp_path, samples):
    good = [s for s in samples if s.rating.mean >= 0.75 and s.language == "en" and len(s.references) > 1][:20]
    humans = [replace(s, candidate=s.references[0], references=s.references[1:], rating=None) for s in good]
    candidates = [candidate_of(MetricPlan(name)) for name in ("unigram-f1", "length", "pac-s:/no/folder")]
    means = Means(Kept(tmp_path), SETTINGS)
    probes, *ladders = measure_probes(Probed("en", "English", good, humans), candidates, means)
    table = probes.tables["degradations"]
    assert [section.title for section in table.sections] == ["unigram-f1", "length"]
    on_sections = [note for note in table.notes if "scores lower in less than" in note]
    assert {note.split(", English: ")[0] for note in on_sections} == {"unigram-f1", "length"}
    shares = [row.cells["lower"].value for row in table.overall.rows if row.cells["lower"].value is not None]
    assert probes.figures["unigram-f1"].value == pytest.approx(np.mean(shares))
    assert {"invariances", "shuffling", "curves"} <= set(probes.tables)
    assert [row.label for row in probes.tables["curves"].overall.rows] == ["unigram-f1", "length"]
    assert "shuffling, English" in [each.name for each in ladders]
    assert probes.notes[0].startswith("pac-s:/no/folder: ")
    kept = Kept(tmp_path)
    told = Probed("en", "English", good, humans, "toys")
    again, *_ = measure_probes(told, candidates, Means(kept, SETTINGS))
    assert kept.reused == 2
    assert again.notes[0] == "the captions are of toys"
    assert again.tables["degradations"].to_markdown() == table.to_markdown()


def test_the_overview_marks_the_best_and_names_what_is_absent(tmp_path, samples):
    candidates = [candidate_of(MetricPlan(name)) for name in ("length", "unigram-f1")]
    measure = measure_benchmark(Place("scenes", None, samples), candidates, Means(Kept(tmp_path), SETTINGS))
    table = overview_table(
        ["length", "unigram-f1", "x"], [measure], {"polaris": "absent"}, {"x": "broken"}, 1000
    )
    assert table.columns == {"scenes": "scenes: Kendall tau-c"}
    assert table.row("unigram-f1").info["best"] == ["scenes"]
    assert table.row("length").info["best"] == []
    assert table.row("x").error == "broken"
    assert "polaris" in table.notes[1]


def test_the_overview_says_where_a_metric_has_no_figure_and_where_resamples_are_too_few():
    figures = {"a": Cell(0.5), "b": Cell(None, reason="all scores are 0.7")}
    measures = [Measure("one", "one", {}, figures), Measure("two", "two", {}, {"a": Cell(0.4)})]
    table = overview_table(["a", "b"], measures, {}, {}, 38)
    assert not any("too few" in note for note in table.notes)  # no metric is beside another
    cells = table.row("b").cells
    assert [cells[name].reason for name in ("one", "two")] == ["one: all scores are 0.7", "two: no figure"]
    measures.append(Measure("three", "three", {}, {"a": Cell(0.4), "b": Cell(0.5)}))
    assert (
        "38 resamples are too few for one of 2 metrics to be in bold; use at least --bootstrap 39"
        in overview_table(["a", "b", "c"], measures, {}, {}, 38).notes
    )
    assert not any("too few" in note for note in overview_table(["a", "b"], measures, {}, {}, 39).notes)


def test_a_model_that_learned_from_the_ratings_is_said_and_never_bold(tmp_path, samples, monkeypatch):
    monkeypatch.setattr(
        "suisei.metrics.training_data.trained_on", lambda spec: ("scenes",) if spec == "unigram-f1" else ()
    )
    candidates = [candidate_of(MetricPlan(name)) for name in ("length", "unigram-f1")]
    measure = measure_benchmark(Place("scenes", None, samples), candidates, Means(Kept(tmp_path), SETTINGS))
    assert any(note.startswith("unigram-f1: its card names scenes among its") for note in measure.notes)
    table = overview_table(["length", "unigram-f1"], [measure], {}, {}, 1000)
    assert table.row("unigram-f1").info["best"] == []
    assert "unigram-f1 learned from the ratings of scenes, where its figure is too good" in table.notes[1]


def test_the_command_writes_page_and_json_and_goes_on(tmp_path, jsts, capsys):
    arguments = ["--metrics", "unigram-f1,length", "--root", str(jsts), "--output", str(tmp_path / "out")]
    arguments += ["--benchmarks", "jsts,polaris", "--bootstrap", "20", "--examples", "1", "--drawn", "1"]
    assert main(arguments) == 0
    content = json.loads((tmp_path / "out" / "examination.json").read_text())
    assert list(content["skipped"]) == ["polaris"]
    written = [path.name for path in (tmp_path / "out").iterdir() if path.is_file()]
    assert all(name in _EPILOG for name in written)
    assert {"overview", "jsts/results"} <= set(content["tables"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "no folder called polaris" in page
    assert "suisei examine --metrics unigram-f1,length" in page
    assert ": 0 finished parts" in capsys.readouterr().err
    assert main(arguments) == 0
    assert ": 5 finished parts" in capsys.readouterr().err  # scores and probes of two metrics, and measures


def test_the_figures_of_the_page_are_resampled_as_the_options_say(samples):
    column = ScoreColumn("length", scores=np.zeros(len(samples)))
    measure = Measure("m", "m", {}, {}, samples=samples, columns=[column])
    options = Namespace(examples=1, drawn=1, bootstrap=20, seed=7)
    assert _result(measure, options).resampling == Resampling(20, 7)


def test_ratings_are_examined_once_unless_named(tmp_path, monkeypatch):
    looked_for = []

    def find(name, _root):
        looked_for.append(name)
        return Place(name, None, None, "absent")

    monkeypatch.setattr("suisei.examination.places.find_benchmark", find)
    given = ["--metrics", "length", "--root", str(tmp_path), "--output", str(tmp_path / "out")]
    with pytest.raises(DataError):  # there is nothing
        main(given)
    assert looked_for == [name for name in BENCHMARKS if name != "flickr8k-expert-all"]
    looked_for.clear()
    with pytest.raises(DataError):
        main([*given, "--benchmarks", "flickr8k-expert-all"])
    assert looked_for == ["flickr8k-expert-all"]


def test_the_command_refuses_before_it_works(tmp_path):
    with pytest.raises(ConfigError, match=r"--root .*: no such folder"):
        main(["--root", str(tmp_path / "gone")])
    with pytest.raises(ConfigError, match="--benchmarks 'jtsts': no such benchmark"):
        main(["--root", str(tmp_path), "--benchmarks", "jtsts"])
    with pytest.raises(DataError, match="no benchmark is there"):
        main(
            [
                "--metrics",
                "length",
                "--root",
                str(tmp_path),
                "--benchmarks",
                "jsts",
                "--output",
                str(tmp_path),
            ]
        )


def test_a_metric_is_called_as_the_user_names_it_also_where_its_scores_are_kept(jsts, tmp_path):
    common = ["--root", str(jsts), "--benchmarks", "jsts", "--bootstrap", "0", "--probe-captions", "0"]
    for called in ("chrf", "letters=chrf", "signs=chrf"):
        assert main(["--metrics", f"{called},length", *common, "--output", str(tmp_path / "out")]) == 0
        tables = json.loads((tmp_path / "out" / "examination.json").read_text())["tables"]
        for table in ("overview", "jsts/results"):
            rows = tables[table]["sections"][0]["rows"]
            assert [row["label"] for row in rows][:2] == [called.partition("=")[0], "length"]
            assert "value" in next(iter(rows[0]["cells"].values()))
