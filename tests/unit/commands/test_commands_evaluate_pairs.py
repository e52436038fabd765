"""The protocols of pairs, hallucinations, scales and pairs of references on the command line."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from suisei import get_metric
from suisei.cli import run_command
from suisei.commands.evaluate import main
from suisei.commands.examine import main as examine
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.benchmark import Benchmark
from suisei.data.benchmarks.vatex import limit_references
from suisei.data.formats import Row
from suisei.data.judged import PairCaption
from suisei.data.load import load_data
from suisei.metrics.rouge import RougeL
from suisei.report.stored import read_result

WORDS = ["dog", "cat", "man", "box", "runs", "sleeps", "cooks", "eggs", "green", "red", "ball", "water"]


def captions(count, seed, length=5):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, length)) for _ in range(count)]


def evaluate(data, root, *options, metrics="rouge-l,length-ratio"):
    report = root.parent / f"{root.name}-report.json"  # what is in the data's folder is not written over
    report.unlink(missing_ok=True)
    arguments = ["--data", data, "--root", str(root), "--json", str(report), "--bootstrap", "20"]
    named = ["--metrics", metrics] if metrics else []
    code = run_command(main, [*arguments, *named, *options])
    return code, json.loads(report.read_text()) if report.exists() else None


def cells_of(report, label, section="overall"):
    rows = next(part["rows"] for part in report["sections"] if part["title"] == section)
    cells = next(row["cells"] for row in rows if row["label"] == label)
    return {name: cell["value"] for name, cell in cells.items()}


@pytest.fixture
def nocaps(tmp_path):
    first, second, references = captions(12, 0), captions(12, 1), captions(24, 2)
    records = [
        {
            "image_path": f"{n}.jpg",
            "references": references[2 * n : 2 * n + 2],
            "baseline": first[n],
            "foil": second[n],
            "domain": ("in-domain", "out-domain")[n % 2],
        }
        for n in range(12)
    ]
    (tmp_path / "nocaps-val-foil.json").write_text(json.dumps(records))
    return tmp_path


@pytest.fixture
def unrated(monkeypatch, tmp_path):
    """The root of a benchmark of pairs without ratings."""
    right, wrong, references = captions(12, 0), captions(12, 1), captions(12, 2)

    def rows(root, images):
        for number in range(24):
            pair, second = divmod(number, 2)
            sample = PairCaption(
                (wrong if second else right)[pair],
                (references[pair],),
                group=str(pair),
                id=str(number),
                pair=str(pair),
                preferred=(("order", 1.0 - second),),
            )
            yield Row(number + 1, sample.id, sample, None)

    mine = Benchmark("mine", rows, "en", (0.0, 1.0), "pairs", "Root is any folder.", protocol="pairs")
    monkeypatch.setitem(BENCHMARKS, "mine", mine)
    root = tmp_path / "data" / "mine"
    root.mkdir(parents=True)
    return root


def test_a_benchmark_without_ratings_is_evaluated_examined_and_reported(unrated, tmp_path):
    scores, page = tmp_path / "scores.jsonl", tmp_path / "page.html"
    code, report = evaluate("mine", unrated, "--save-scores", str(scores), "--html", str(page))
    assert code == 0
    assert cells_of(report, "rouge-l")["n"] == 12
    assert not any("rated" in note or "no rating" in note for note in report["notes"])
    assert len(scores.read_text().splitlines()) == 24
    assert page.is_file()
    found = read_result(unrated.parent / "mine-report.json")
    assert len(found.rated.samples) == 24
    examined = ["--metrics", "rouge-l", "--root", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    assert examine([*examined, "--benchmarks", "mine", "--bootstrap", "0"]) == 0
    tables = json.loads((tmp_path / "out" / "examination.json").read_text())["tables"]
    assert cells_of(tables["mine/results"], "rouge-l")["n"] == 12


def test_captions_to_find_are_those_of_bad_ratings_alone(unrated, monkeypatch, capsys):
    for protocol in ("detection", "pairs-and-detection"):
        monkeypatch.setitem(BENCHMARKS, "mine", replace(BENCHMARKS["mine"], protocol=protocol))
        assert evaluate("mine", unrated)[0] == 2
        assert "mine: none of its 24 samples is rated" in capsys.readouterr().err


def test_pairs_are_measured_per_kind_and_found(nocaps):
    markdown, plot = nocaps / "t.md", nocaps / "p.png"
    code, report = evaluate("nocaps-foil", nocaps, "--markdown", str(markdown), "--plot", str(plot))
    assert code == 0
    cells = cells_of(report, "rouge-l")
    assert list(cells) == ["in-domain", "out-domain", "mean", "all", "ties", "n"]
    assert cells["n"] == 12
    assert cells["mean"] == pytest.approx((cells["in-domain"] + cells["out-domain"]) / 2)
    found = cells_of(report["detection"], "rouge-l")
    assert (found["bad"], found["n"]) == (12, 24)
    assert cells_of(report["detection"], "rouge-l", "in-domain")["n"] == 12
    assert "Finding hallucinated captions: nocaps-foil" in markdown.read_text()
    assert plot.read_bytes()[1:4] == b"PNG"


def test_scores_of_pairs_are_saved_and_join_again(nocaps):
    saved = nocaps / "saved.csv"
    assert evaluate("nocaps-foil", nocaps, "--save-scores", str(saved), metrics="rouge-l")[0] == 0
    _, report = evaluate("nocaps-foil", nocaps, "--scores", str(saved))
    again = cells_of(report, "rouge-l (saved.csv)")
    assert again == cells_of(report, "rouge-l")


@pytest.mark.parametrize("option", [["--compare"], ["--averaging", "item"], ["--raters", "mean"]])
@pytest.mark.parametrize("data", ["nocaps-foil", "hat"])
def test_options_for_ratings_are_refused(nocaps, capsys, data, option):
    assert evaluate(data, nocaps, *option) == (2, None)
    assert f"no ratings to correlate with; leave out {option[0]}" in capsys.readouterr().err


@pytest.fixture
def foil(tmp_path):
    annotations, references = [], []
    right, wrong = captions(10, 3), captions(10, 4)
    for n in range(10):
        annotations += [
            {"id": n, "image_id": n, "caption": right[n], "foil": False},
            {"id": n, "image_id": n, "caption": wrong[n], "foil": True},
        ]
        references += [{"image_id": n, "caption": text} for text in [right[n], *captions(4, 100 + n)]]
    images = [{"id": n, "file_name": f"COCO_val2014_{n:012}.jpg"} for n in range(10)]
    content = {"images": images, "annotations": annotations}
    (tmp_path / "foilv1.0_test_2017.json").write_text(json.dumps(content))
    (tmp_path / "captions_val2014.json").write_text(json.dumps({"annotations": references}))
    return tmp_path


def test_foil_has_a_column_for_one_reference_and_one_for_four(foil):
    code, report = evaluate("foil", foil, metrics="rouge-l")
    assert code == 0
    cells = cells_of(report, "rouge-l")
    assert list(cells) == ["mean", "ties", "n", "one-reference"]
    samples = load_data("foil", root=foil)
    for name, count in (("one-reference", 1), ("mean", 4)):
        scores = get_metric("rouge-l").score(limit_references(samples, count))
        right = [(a > b) + (a == b) / 2 for a, b in zip(scores[::2], scores[1::2], strict=True)]
        assert cells[name] == pytest.approx(np.mean(right))
    published = cells_of(report["published"], "rouge-l")
    assert published["one-reference-published"] == pytest.approx(0.717)
    assert published["mean-published"] == pytest.approx(0.793)


def test_foil_without_the_captions_of_coco_says_so(foil):
    (foil / "captions_val2014.json").unlink()
    code, report = evaluate("foil", foil, metrics="rouge-l")
    assert code == 0
    assert cells_of(report, "rouge-l") == {"mean": None}
    assert any("captions of COCO are absent" in note for note in report["notes"])


@pytest.fixture
def fails_with_fewer_references(monkeypatch):
    """ROUGE-L as a metric whose server goes away after the first scores."""
    whole = RougeL._score

    def score(self, samples, **settings):
        if len(samples[0].references) < 3:
            raise OSError("the server went away")
        return whole(self, samples, **settings)

    monkeypatch.setattr(RougeL, "_score", score)


@pytest.mark.usefixtures("fails_with_fewer_references")
def test_a_metric_that_fails_with_one_reference_has_the_reason_and_the_status(foil):
    code, report = evaluate("foil", foil, metrics="rouge-l")
    assert code == 1
    cells = report["sections"][0]["rows"][0]["cells"]
    assert cells["mean"]["value"] is not None
    assert cells["one-reference"] == {
        "value": None,
        "reason": "with one reference: OSError: the server went away",
    }


def test_hallucinations_are_found(tmp_path):
    records = [
        {
            "sample_id": f"s{n}",
            "caption": text,
            "contains_hallucination": n % 3 == 0,
            "image_path": f"{n}.jpg",
            "references": [text if n % 3 else "nothing alike"],
        }
        for n, text in enumerate(captions(12, 5))
    ]
    (tmp_path / "hat-trainval.json").write_text(json.dumps(records))
    code, report = evaluate("hat", tmp_path)
    assert code == 0
    assert cells_of(report, "rouge-l") == {"average-precision": 1.0, "bad": 4, "n": 12}


def test_thumb_has_a_table_by_scale_and_part(tmp_path):
    generator = np.random.default_rng(0)
    lines, references = [], []
    for n in range(12):
        for system, text in zip(("Up-Down", "Human"), captions(2, 10 + n), strict=True):
            p, r = generator.integers(1, 6, 2)
            line = {"SYS": system, "seg_id": str(n), "hyp": text, "image": f"COCO_val2014_{n:012}.jpg"}
            lines.append({**line, "P": float(p), "R": float(r), "human_score": (p + r) / 2})
        references += [{"image_id": n, "caption": text} for text in captions(3, 50 + n)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "mscoco_THumB-1.0.jsonl").write_text(text)
    (tmp_path / "captions_val2014.json").write_text(json.dumps({"annotations": references}))
    code, report = evaluate("thumb", tmp_path, "--compare")
    assert code == 0
    assert cells_of(report["scales"], "rouge-l", "total, with human captions") == {
        name: value for name, value in cells_of(report, "rouge-l").items() if name != "rank"
    }
    assert cells_of(report["scales"], "rouge-l", "precision, without human captions")["n"] == 12
    assert len(report["scales"]["sections"]) == 6


@pytest.mark.usefixtures("fails_with_fewer_references")
def test_a_metric_that_fails_with_pairs_of_references_has_the_reason_and_the_status(tmp_path):
    root = tmp_path / "pfn-pic-gen"
    root.mkdir()
    with (root / "pfn_pic_gen.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["imgid", "mt", "refs", "score"])
        for n, text in enumerate(captions(15, 7)):
            writer.writerow([n, text, repr(captions(3, 200 + n)), 1 + n % 5])
    code, report = evaluate("pfn-pic-gen", root, metrics="rouge-l")
    assert code == 1
    assert report["reference_pairs"]["sections"][0]["rows"][0]["error"] == "OSError: the server went away"
    examined = ["--metrics", "rouge-l", "--root", str(tmp_path), "--output", str(tmp_path / "out")]
    examined += ["--benchmarks", "pfn-pic-gen", "--probe-captions", "0", "--bootstrap", "0"]
    for _ in range(2):  # what failed is not kept
        assert examine(examined) == 1


def test_pfn_pic_gen_has_a_table_by_ordered_pairs_of_references(tmp_path):
    with (tmp_path / "pfn_pic_gen.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["imgid", "mt", "refs", "score"])
        for n, text in enumerate(captions(15, 7)):
            writer.writerow([n, text, repr(captions(3, 200 + n)), 1 + n % 5])
    code, report = evaluate("pfn-pic-gen", tmp_path, metrics="rouge-l")
    assert code == 0
    cells = cells_of(report["reference_pairs"], "rouge-l")
    assert cells["pearson-best"] >= cells["pearson"]
    assert cells["pearson"] != cells_of(report, "rouge-l")["pearson"]  # two references, not three
    assert report["reference_pairs"]["sections"][0]["rows"][0]["pairs"] == 6
    assert cells_of(report["published"], "suisei")["spearman-published"] == 0.59
    with (tmp_path / "pfn_pic_gen.csv").open("a") as stream:
        stream.write("99,red box,['one'],3\n")
    _, report = evaluate("pfn-pic-gen", tmp_path, metrics="rouge-l")
    assert "reference_pairs" not in report
    assert any("a sample has 1, not 3" in note for note in report["notes"])


PUBLISHED_COMPOSITE = {
    "bleu-1": (29.0, 31.3),
    "bleu-4": (28.3, 30.6),
    "rouge-l": (30.0, 32.4),
    "cider": (34.9, 37.7),
}


@pytest.mark.realdata
@pytest.mark.slow
def test_real_composite_gives_the_published_figures(shared, tmp_path):
    folder = shared / "data" / "benchmarks"
    fleur = folder / "judge-scores-fleur" / "fleur_composite.txt"
    report = real("composite", folder / "composite", tmp_path, fleur)
    for metric, (tau_b, tau_c) in PUBLISHED_COMPOSITE.items():
        cells = cells_of(report, metric)
        far = 0.09 if metric == "rouge-l" else 0.06  # printed to one decimal
        assert (100 * cells["tau-b"], 100 * cells["tau-c"]) == pytest.approx((tau_b, tau_c), abs=far)
    assert 100 * cells_of(report, "FLEUR")["tau-c"] == pytest.approx(63.5, abs=0.06)


MEASURED_PASCAL = {
    "bleu-1": (63.6, 95.0, 92.4, 61.1, 78.0),
    "bleu-4": (61.3, 93.6, 84.9, 59.2, 74.8),
    "rouge-l": (63.5, 96.1, 91.8, 61.3, 78.2),
    "cider": (65.4, 98.6, 90.2, 65.2, 79.9),
}
"""With the one draw of references that the file holds."""


@pytest.mark.realdata
@pytest.mark.slow
def test_real_pascal_50s_gives_the_figures_of_its_draw_of_references(shared, tmp_path):
    folder = shared / "data" / "benchmarks"
    files = sorted((folder / "judge-scores-fleur").glob("fleur_pascal_*.txt"))
    fleur = tmp_path / "fleur.txt"
    fleur.write_text("".join(path.read_text() for path in files))
    report = real("pascal-50s", folder / "pascal-50s", tmp_path, fleur)
    for metric, expected in MEASURED_PASCAL.items():
        cells = cells_of(report, metric)
        found = [100 * cells[name] for name in ("HC", "HI", "HM", "MM", "mean")]
        assert found == pytest.approx(expected, abs=0.051)  # rounded to one decimal
    assert 100 * cells_of(report, "FLEUR")["mean"] == pytest.approx(83.3, abs=0.3)  # 3 pairs are not in it


@pytest.mark.realdata
@pytest.mark.slow
def test_real_flickr8k_expert_has_the_published_figure_of_a_large_model(shared, tmp_path):
    fleur = shared / "data" / "benchmarks" / "judge-scores-fleur" / "fleur_flickr8k_expert.txt"
    report = real("flickr8k-expert", shared / "data" / "flickr8k", tmp_path, fleur, metrics="")
    assert 100 * cells_of(report, "FLEUR")["tau-c"] == pytest.approx(53.0, abs=0.06)


def real(data, root, tmp_path, scores, metrics="bleu-1,bleu-4,rouge-l,cider"):
    report = tmp_path / "report.json"
    named = ["--metrics", metrics] if metrics else []
    options = ["--scores", str(scores), "--bootstrap", "0", "--json", str(report), *named]
    assert run_command(main, ["--data", data, "--root", str(root), *options]) == 0
    return json.loads(report.read_text())
