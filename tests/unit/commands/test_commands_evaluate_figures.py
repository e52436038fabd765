"""Which figures the evaluate command shows, in which tables and formats, beside which published ones."""

import json

import numpy as np
import pytest

from suisei.cli import run_command
from suisei.commands.evaluate import _parser, _settings, main
from tests.unit.commands.evaluate_runs import evaluate, rows_of, run

pytestmark = pytest.mark.usefixtures("fakes")


def test_compare_writes_ranks_and_every_format(ratings, tmp_path, capsys):
    rng = np.random.default_rng(0)
    noise = tmp_path / "noise.jsonl"
    noise.write_text("".join(json.dumps({"id": f"r{i}", "score": rng.random()}) + "\n" for i in range(40)))
    paths = {"markdown": tmp_path / "a.md", "latex": tmp_path / "a.tex", "plot": tmp_path / "a.png"}
    options = [part for name, path in paths.items() for part in (f"--{name}", path)]
    code, report = evaluate(
        ratings,
        tmp_path,
        "--metrics",
        "fake-plain",
        "--scores",
        noise,
        "--compare",
        "--correlation",
        "tau-b",
        *options,
    )
    assert code == 0
    assert report["comparison"]["ranks"] == {"fake-plain": 1, "noise": 2}
    assert rows_of(report)["fake-plain"]["cells"]["rank"] == {"value": 1}
    pair = report["comparison"]["sections"][0]["rows"][0]
    assert pair["label"] == "fake-plain > noise"
    assert pair["cells"]["p"]["signature"] == "perm-both|tau-b|avg:pooled|unit:group|n:20|seed:0|greater"
    assert "## Paired comparison" in paths["markdown"].read_text()
    assert paths["latex"].read_text().count(r"\begin{tabular}") == 4  # overall, two languages, the pairs
    assert paths["plot"].read_bytes().startswith(b"\x89PNG")
    assert "Paired comparison" in capsys.readouterr().out


def test_names_and_sections_for_papers(ratings, tmp_path):
    latex, chart = tmp_path / "a.tex", tmp_path / "a.svg"
    options = ["--metrics", "ours=fake-plain,fake-fit", "--latex", latex, "--plot", chart]
    code, report = evaluate(
        ratings, tmp_path, *options, "--sections", "overall,system", "--averaging", "system"
    )
    assert code == 0
    assert list(rows_of(report)) == ["ours", "fake-fit", "human"]
    assert report["title"].endswith("ratings: ratings.jsonl")  # no path
    text = latex.read_text()
    assert text.count(r"\begin{table}") == 1  # means per system have no section by system
    assert r"rows & systems \\" in text
    assert "ours & " in text
    assert ">ours</text>" in chart.read_text()


def test_unknown_sections_are_refused(ratings, tmp_path, capsys):
    code, _ = evaluate(ratings, tmp_path, "--metrics", "fake-plain", "--sections", "overall,images")
    assert code == 2
    assert "'images' is none of overall, language, system" in capsys.readouterr().err


def test_averaging_and_raters_reach_the_figures(ratings, tmp_path):
    code, report = evaluate(
        ratings, tmp_path, "--metrics", "fake-plain", "--averaging", "item", "--raters", "mean"
    )
    assert code == 0
    cell = rows_of(report)["fake-plain"]["cells"]["tau-b"]
    assert "avg:item|raters:mean|n:40" in cell["signature"]


@pytest.mark.realdata
def test_flickr8k_expert_published_figures(shared, tmp_path):
    """Kendall tau-b and tau-c x100 of Hessel et al. (2021), table 1, and the PAC-S repository's table."""
    out = tmp_path / "out.json"
    code = run(
        "--data", "flickr8k-expert", "--root", shared / "data" / "flickr8k", "--bootstrap", 0,
        "--metrics", "bleu-1,bleu-4,rouge-l,cider", "--json", out,
    )  # fmt: skip
    assert code == 0
    report = json.loads(out.read_text())
    rows = rows_of(report)
    published = {
        "bleu-1": (32.18, 32.32),
        "bleu-4": (30.60, 30.78),
        "rouge-l": (32.14, 32.31),
        "cider": (43.60, 43.89),
    }
    beside = {row["label"]: row["cells"] for row in report["published"]["sections"][0]["rows"]}
    for name, (tau_b, tau_c) in published.items():
        cells = rows[name]["cells"]
        assert beside[name]["tau-c"]["value"] == cells["tau-c"]["value"]
        assert 100 * beside[name]["tau-c-published"]["value"] == pytest.approx(tau_c, abs=0.006)
        assert cells["n"]["value"] == 16_992
        assert 100 * cells["tau-b"]["value"] == pytest.approx(tau_b, abs=0.06)
        assert 100 * cells["tau-c"]["value"] == pytest.approx(tau_c, abs=0.06)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("tokenizer", "bleu", "rouge"), [("mecab", 0.299, 0.384), ("character", 0.421, 0.447)]
)
def test_shichimi_stands_beside_the_paper_with_the_differences(
    shared, tmp_path, capsys, tokenizer, bleu, rouge
):
    """The figures that explain the differences are those measured here; the paper's are its table 2."""
    paths = {name: tmp_path / f"out.{name}" for name in ("json", "markdown", "latex")}
    code = run(
        "--data", "shichimi", "--root", shared / "data" / "shichimi", "--bootstrap", 0,
        "--metrics", "bleu-4,rouge-l", "--tokenizer", tokenizer,
        *[part for name, path in paths.items() for part in (f"--{name}", path)],
    )  # fmt: skip
    assert code == 0
    report = json.loads(paths["json"].read_text())["published"]
    rows = {row["label"]: row["cells"] for row in report["sections"][0]["rows"]}
    assert rows["bleu-4"]["pearson"]["value"] == pytest.approx(bleu, abs=5e-4)
    assert rows["rouge-l"]["pearson"]["value"] == pytest.approx(rouge, abs=5e-4)
    assert rows["bleu-4"]["pearson-published"]["value"] == 0.296
    assert any(f"{bleu:.3f}" in note for note in report["notes"])
    for text in (paths["markdown"].read_text(), capsys.readouterr().out):
        assert "Beside published figures: shichimi" in text
        assert "the paper states no tokenizer" in text
    assert paths["latex"].read_text().count(r"\begin{tabular}") == 2  # overall, and beside the published


def test_published_figures_can_be_left_out_and_are_of_known_data_only(tmp_path, capsys):
    for arguments, shown in ((["--no-published"], False), ([], True)):
        root = tmp_path / "shichimi.csv"
        root.write_text(
            "imgid,src,mt,ref,score\n1,犬がいる,犬 0.1,犬,2\n2,猫,猫 0.7,猫だ,5\n3,鳥,鳥 0.2,鳥だ,1\n"
        )
        out = tmp_path / "out.json"
        code = run("--data", "shichimi", "--root", root, "--metrics", "fake-plain", "--bootstrap", 0,
                   "--json", out, *arguments)  # fmt: skip
        assert code == 0
        assert ("published" in json.loads(out.read_text())) is shown
        assert ("Beside published figures" in capsys.readouterr().out) is shown


def test_every_option_of_the_figures_reaches_the_protocol(tmp_path, monkeypatch):
    from suisei.metaeval.protocols import PROTOCOLS
    from suisei.metaeval.settings import EvaluationSettings

    rows = [{"candidate": "a dog " * n, "references": ["a dog"], "rating": n / 9} for n in range(1, 9)]
    data = tmp_path / "rated.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    seen = []
    measure = PROTOCOLS["ratings"].measure

    def noted(evaluation, settings, progress):
        seen.append((settings, evaluation.compare))
        return measure(evaluation, settings, progress)

    monkeypatch.setattr(PROTOCOLS["ratings"], "measure", noted)
    given = ["--data", str(data), "--metrics", "length,unigram-f1", "--compare", "--bootstrap", "7"]
    given += ["--seed", "3", "--swap-unit", "item", "--correlation", "pearson", "--raters", "mean"]
    assert run_command(main, [*given, "--averaging", "pooled", "--no-published"]) == 0
    expected = EvaluationSettings(
        raters="mean", n_resamples=7, seed=3, correlation="pearson", unit="item", published=False
    )
    assert seen == [(expected, True)]


@pytest.mark.parametrize("given", [[], ["--bootstrap", "20"]])
def test_twelve_metrics_have_permutations_enough_unless_fewer_are_asked_for(given, tmp_path, capsys):
    rows = [{"candidate": "a dog " * n, "rating": n / 9, "group": str(n)} for n in range(1, 9)]
    data, scores = tmp_path / "rated.jsonl", tmp_path / "scores.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rng = np.random.default_rng(0)
    drawn = [{f"m{n}": value for n, value in enumerate(row)} for row in rng.random((8, 11))]
    scores.write_text("".join(json.dumps(row) + "\n" for row in drawn), encoding="utf-8")
    arguments = ["--data", str(data), "--metrics", "length", "--scores", str(scores), "--compare"]
    assert run_command(main, [*arguments, "--correlation", "pearson", *given]) == 0
    shown = capsys.readouterr()
    for text in (shown.err, shown.out):
        words = " ".join(text.split())
        assert ("20 permutations are too few for 66 pairs" in words) == bool(given)
        assert ("use at least 2640 (--bootstrap 2640)" in words) == bool(given)
    assert ("PERM-BOTH, one-sided, 2640 permutations" in shown.out) == (not given)


@pytest.mark.parametrize(
    ("data", "given", "raters", "correlation"),
    [
        ("flickr8k-cf", [], "mean", "tau-b"),
        ("flickr8k-cf", ["--raters", "rows", "--correlation", "tau-c"], "rows", "tau-c"),
        ("jsts", [], "rows", "pearson"),
        ("flickr8k-expert", [], "rows", "tau-c"),
        ("ratings.jsonl", [], "rows", "tau-c"),
    ],
)
def test_raters_and_correlation_are_those_of_the_benchmark_unless_given(data, given, raters, correlation):
    settings = _settings(_parser().parse_args(["--data", data, *given]))
    assert (settings.raters, settings.correlation) == (raters, correlation)


def test_ratings_that_a_model_learned_from_are_said(ratings, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    seen = "## Data\n\nshichimi, ratings.jsonl: 40 training samples in 20 groups."
    (folder / "README.md").write_text(seen, encoding="utf-8")
    note = f"suisei:{folder}: its card names ratings.jsonl among its training data: figures on ratings that"
    code, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain", "--model", folder)
    assert code == 1  # the folder holds no model
    assert sum(each.startswith(note) for each in report["notes"]) == 1
    (folder / "README.md").write_text(seen.replace("ratings", "others"), encoding="utf-8")
    _, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain", "--model", folder)
    assert not any("among its training data" in each for each in report["notes"])


def test_few_ratings_are_said(ratings, tmp_path):
    few = "rated samples: 40; figures of fewer than 50 say little"
    assert few in evaluate(ratings, tmp_path, "--metrics", "fake-plain")[1]["notes"]
    lines = ratings.read_text().splitlines()
    more = [line.replace('"id": "r', f'"id": "{part}r') for part in "ab" for line in lines]
    ratings.write_text("\n".join(more))
    _, report = evaluate(ratings, tmp_path, "--metrics", "fake-plain")
    assert not any("say little" in note for note in report["notes"])
