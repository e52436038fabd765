"""Pages that commands write: suisei report, and --html of the others."""

import json

import pytest

from suisei.commands import compare, evaluate, report
from suisei.data.load import load_data
from suisei.data.writers import write_samples
from suisei.errors import ConfigError
from suisei.metaeval.calibration import calibrate_metrics
from suisei.report import contents
from suisei.report.stored import read_result


@pytest.fixture
def rated(tmp_path):
    write_samples(tmp_path / "rated.jsonl", load_data("scenes")[:60])
    return tmp_path / "rated.jsonl"


def test_evaluate_writes_a_page_that_report_can_write_again(tmp_path, rated):
    html, figures = tmp_path / "page.html", tmp_path / "figures"
    kept = ["--json", str(tmp_path / "out.json"), "--save-scores", str(tmp_path / "scores.jsonl")]
    arguments = ["--metrics", "length", "--data", str(rated), "--bootstrap", "0", *kept]
    assert evaluate.main([*arguments, "--html", str(html), "--figures", str(figures)]) == 0
    page = html.read_text()
    assert "suisei evaluate --metrics length" in page
    assert "Farthest from people: length" in page
    assert page.count("data:image/jpeg") > 4
    assert {path.suffix for path in figures.iterdir()} == {".svg", ".pdf", ".png"}
    again = tmp_path / "again.html"
    assert report.main([str(tmp_path / "out.json"), "--output", str(again), "--title", "Twice <told>"]) == 0
    text = again.read_text()
    assert "<title>Twice &lt;told&gt;</title>" in text
    assert "Farthest from people: length" in text
    assert text.count("<svg") == page.count("<svg")


def test_what_a_page_says_of_calibration_is_in_the_json(tmp_path, rated):
    html, out, again = (tmp_path / name for name in ("page.html", "out.json", "again.html"))
    arguments = ["--metrics", "bleu-4,length", "--data", str(rated), "--bootstrap", "30", "--seed", "5"]
    assert evaluate.main([*arguments, "--json", str(out), "--html", str(html)]) == 0
    rows = json.loads(out.read_text())["calibration"]["sections"][0]["rows"]
    assert [row["label"] for row in rows] == ["bleu-4", "length"]
    assert "not on the human scale" in rows[1]["error"]
    error = rows[0]["cells"]["error"]
    assert report.main([str(out), "--output", str(again)]) == 0  # without the scores
    for page in (html, again):
        text = page.read_text()
        assert text.count("<h4><bdi>Calibration to the human scale</bdi></h4>") == 1
        assert f"[{error['low']:.3f}, {error['high']:.3f}]" in text


def test_figures_of_reliability_are_resampled_as_the_command_says(tmp_path, rated, monkeypatch):
    asked = []

    def calibrated(*given, **settings):
        asked.append((settings["n_resamples"], settings["seed"]))
        return calibrate_metrics(*given, **settings)

    monkeypatch.setattr(contents, "calibrate_metrics", calibrated)
    html, out = tmp_path / "page.html", tmp_path / "out.json"
    kept = ["--json", str(out), "--save-scores", str(tmp_path / "scores.jsonl"), "--html", str(html)]
    data = ["--metrics", "bleu-4", "--data", str(rated), "--bootstrap", "30", "--seed", "5"]
    assert evaluate.main([*data, *kept]) == 0
    assert report.main([str(out), "--output", str(tmp_path / "again.html")]) == 0
    assert asked == [(30, 5), (30, 5)]


def test_a_metric_that_the_user_named_is_explained_too(tmp_path, rated):
    html = tmp_path / "page.html"
    arguments = ["--metrics", "words=unigram-f1", "--data", str(rated), "--bootstrap", "0"]
    assert evaluate.main([*arguments, "--html", str(html)]) == 0
    assert "without it" in html.read_text()


def test_report_reads_the_columns_and_references_that_evaluate_read(tmp_path):
    """Else it shows the ratings of another column, which the file may well have."""
    rows = [{"id": str(n), "candidate": f"a {n}", "rating": 1 + n % 2, "mos": 1 + n % 5} for n in range(10)]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    references = tmp_path / "refs.json"
    references.write_text(json.dumps({str(n): ["a dog"] for n in range(10)}))
    chosen = ["--column", "rating=mos", "--rating-scale", "1", "5", "--references", str(references)]
    kept = ["--json", str(tmp_path / "out.json"), "--save-scores", str(tmp_path / "scores.jsonl")]
    data = ["--metrics", "length", "--data", str(tmp_path / "r.jsonl"), "--bootstrap", "0"]
    assert evaluate.main([*data, *chosen, *kept]) == 0
    samples = read_result(tmp_path / "out.json").rated.samples
    assert [sample.rating.values for sample in samples] == [(1.0 + n % 5,) for n in range(10)]
    assert {sample.references for sample in samples} == {("a dog",)}


def test_a_distance_is_turned_around_in_a_page_as_in_its_table(tmp_path, capsys):
    rows = [
        {"id": str(n), "candidate": "a cat " + "and a dog " * n, "rating": 1 - n / 5, "group": str(n)}
        for n in range(6)
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    kept = ["--json", str(tmp_path / "out.json"), "--save-scores", str(tmp_path / "scores.jsonl")]
    data = ["--metrics", "repetition-1", "--data", str(tmp_path / "r.jsonl"), "--bootstrap", "0"]
    assert evaluate.main([*data, *kept]) == 0
    assert "saved as the distance that it is" in " ".join(capsys.readouterr().out.split())
    result = read_result(tmp_path / "out.json")
    assert result.tables["results"].row("repetition-1").cells["spearman"].value > 0.9
    scores = result.rated.scores["repetition-1"]
    assert scores[0] > scores[-1]
    assert scores.max() == 0
    assert result.rated.distances == {"repetition-1"}


def test_a_distance_of_zeros_is_not_said_to_be_calibrated(tmp_path):
    rows = [
        {"id": str(n), "candidate": "a dog runs", "references": ["a dog"], "rating": n / 5, "group": str(n)}
        for n in range(6)
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    page, out = tmp_path / "out.html", tmp_path / "out.json"
    data = ["--metrics", "repetition-2,bleu-1", "--data", str(tmp_path / "r.jsonl"), "--bootstrap", "0"]
    assert evaluate.main([*data, "--json", str(out), "--html", str(page)]) == 0
    calibration = json.loads(out.read_text())["calibration"]["sections"][0]["rows"]
    assert "lower is better" in {row["label"]: row for row in calibration}["repetition-2"]["error"]
    assert "repetition-2: lower is better, shown without its sign turned" in page.read_text()


def test_compare_shows_where_systems_differ(tmp_path, rated):
    samples = load_data("scenes")[:6]
    for name in ("a", "b"):
        rows = [
            {
                "id": str(n),
                "candidate": f"{name} {n} <b>",
                "references": list(s.references),
                "image": str(s.image),
            }
            for n, s in enumerate(samples)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    files = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
    kept = ["--json", str(tmp_path / "out.json"), "--html", str(tmp_path / "page.html")]
    figures = ["--figures", str(tmp_path / "figures")]
    assert compare.main([*files, "--metrics", "bleu-1,length", "--bootstrap", "20", *kept, *figures]) == 0
    figures = ["--figures", str(tmp_path / "again")]
    assert report.main([str(tmp_path / "out.json"), "--output", str(tmp_path / "again.html"), *figures]) == 0
    first = json.loads((tmp_path / "out.json").read_text())["metrics"][0]["systems"]["a"]
    score, low, high = (first[name] * 100 for name in ("score", "low", "high"))
    said = f"bleu-1 x100: a {score:.1f} [{low:.1f}, {high:.1f}]; b "
    for page, folder in (("page.html", "figures"), ("again.html", "again")):
        text = (tmp_path / page).read_text()
        assert "Pairs of systems" in text
        assert said in text
        named = {path.name for path in (tmp_path / folder).iterdir()}
        stems = ("scores-1-bleu-1", "scores-2-length")
        assert named == {f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf", "png")}
        drawn = (tmp_path / folder / "scores-1-bleu-1.svg").read_text()
        assert "bleu-1 x100, corpus score<" in drawn
        assert "(95% bootstrap interval)" in drawn


def test_outputs_that_would_destroy_something_are_refused(tmp_path, rated):
    (tmp_path / "out.json").write_text("{}")
    with pytest.raises(ConfigError, match="is the input"):
        report.main([str(tmp_path / "out.json"), "--output", str(tmp_path / "out.json")])
    with pytest.raises(ConfigError, match=r"--html .* is the input"):
        evaluate.main(["--metrics", "length", "--data", str(rated), "--html", str(rated)])
    with pytest.raises(ConfigError, match=r"--figures .*is no folder"):
        evaluate.main(["--metrics", "length", "--data", str(rated), "--figures", str(rated)])


def test_training_takes_the_page_out_of_its_settings(tmp_path):
    from suisei.commands.train import main, without_page

    page, config = str(tmp_path / "page.html"), tmp_path / "pretrain.yaml"
    config.write_text("task: pretrain\n")
    assert without_page(["--a", "1", "--html", page, "--b=2"]) == (["--a", "1", "--b=2"], page)
    assert without_page([f"--html={page}"]) == ([], page)
    assert without_page(["--a"]) == (["--a"], None)
    with pytest.raises(ConfigError, match="--html needs the name of a file"):
        without_page(["--html"])
    with pytest.raises(ConfigError, match="its folder does not exist"):
        without_page(["--html", str(tmp_path / "gone" / "page.html")])
    with pytest.raises(ConfigError, match="only a training on ratings has a page; leave it out"):
        main(["--config", str(config), "--html", page])
