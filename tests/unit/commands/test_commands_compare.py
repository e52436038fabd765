"""The compare command on small files, and on published outputs of captioning systems."""

import json
import unicodedata
from functools import partial

import pytest
from PIL import Image

from suisei.__main__ import main as suisei
from suisei.commands.compare import main
from tests.unit import runs

REFERENCES = {
    "1": ["a red dog runs on the grass", "a dog on the green grass"],
    "2": ["two cats sleep on a sofa", "cats on a sofa"],
    "3": ["犬が公園を走っている", "公園を走る犬"],
    "4": ["a man rides a bicycle through the town", "a man on a bicycle"],
    "5": ["赤いボールが机の上にある", "机の上の赤いボール"],
}
GOOD = {image: captions[0] for image, captions in REFERENCES.items()}
BAD = {"1": "a cat", "2": "a sofa in a room", "3": "猫が寝ている", "4": "a bus", "5": "机がある"}


@pytest.fixture
def files(tmp_path):
    """Two systems and references."""
    paths = {}
    results = [{"image_id": int(image), "caption": caption} for image, caption in BAD.items()]
    for name, content in (("good", GOOD), ("bad", results), ("refs", REFERENCES)):
        paths[name] = tmp_path / f"{name}.json"
        paths[name].write_text(json.dumps(content), encoding="utf-8")
    return paths


run = partial(runs.run, main)


def compare(files, *arguments):
    out = files["refs"].with_name("out.json")
    code = run(
        files["bad"],
        files["good"],
        "--references",
        files["refs"],
        "--bootstrap",
        60,
        "--json",
        out,
        *arguments,
    )
    return code, json.loads(out.read_text()) if out.exists() else None


def test_everything_that_is_written(files, tmp_path, capsys):
    outputs = ["--markdown", tmp_path / "a.md", "--latex", tmp_path / "a.tex", "--plot", tmp_path / "a.png"]
    saved = ["--save-scores", tmp_path / "scores.jsonl"]
    code, report = compare(files, "--metrics", "cider,bleu-1", "--examples", 2, *outputs, *saved)
    assert code == 0
    assert report["systems"] == ["bad", "good"]
    assert report["images"] == 5
    cider, bleu = report["metrics"]
    assert bleu["systems"]["good"]["score"] == pytest.approx(1.0, abs=1e-6)
    assert cider["signature"].endswith("|idf:5-documents|suisei:0.1.0|fit:references-of-5-samples")
    assert (cider["pairs"][0]["better"], cider["pairs"][0]["wins"]) == ("good", 5)
    assert len(cider["examples"]) == 2
    assert set(cider["examples"][0]["captions"]) == {"bad", "good"}
    shown = capsys.readouterr()
    assert "good > bad" in shown.out
    assert "cider x100: where bad and good differ most" in shown.out
    assert "bad.json: taken for a COCO result file, 5 images" in shown.err
    markdown = (tmp_path / "a.md").read_text()
    assert "| System | cider x100 | rank | bleu-1 x100 | rank |" in markdown
    assert "## Pairs of systems" in markdown
    assert "  - reference: " in markdown
    assert "cider x100 & rank & bleu-1 x100 & rank" in (tmp_path / "a.tex").read_text()
    assert Image.open(tmp_path / "a.png").width > 800
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == list(BAD)
    assert set(rows[0]) == {"id", "cider/bad", "cider/good", "bleu-1/bad", "bleu-1/good"}


def test_a_metric_that_fails_leaves_the_others(files, tmp_path, capsys):
    code, report = compare(
        files, "--metrics", "bleu-1,pac-s,jaspice:http://localhost:1", "--plot", tmp_path / "a.png"
    )
    assert code == 1
    bleu, *failed = report["metrics"]
    assert bleu["error"] is None
    assert all(metric["error"] and not metric["systems"] for metric in failed)
    assert "failed" in capsys.readouterr().err


def test_the_default_metrics(files, capsys):
    code, report = compare(files)
    assert code == 0
    assert [metric["metric"] for metric in report["metrics"]] == ["suisei", "cider", "bleu-4"]
    assert all(metric["pairs"][0]["better"] == "good" for metric in report["metrics"])


def test_a_seed_gives_the_same_answer_twice_and_another_seed_another(files, capsys):
    first = compare(files, "--metrics", "chrf", "--seed", 4)
    assert compare(files, "--metrics", "chrf", "--seed", 4) == first
    assert compare(files, "--metrics", "chrf", "--seed", 0)[1]["metrics"] != first[1]["metrics"]


def test_scores_do_not_depend_on_which_system_is_named_first(files, capsys):
    """Not even where an image has captions in two languages, by which its references are cut into words."""
    files["bad"].write_text(json.dumps({**BAD, "3": "a dog", "5": "RED BALL 机"}), encoding="utf-8")
    found = []
    for names in (("bad", "good"), ("good", "bad")):
        out = files["refs"].with_name("out.json")
        metrics = ["--metrics", "cider", "--bootstrap", 0, "--json", out]
        assert run(*(files[name] for name in names), "--references", files["refs"], *metrics) == 0
        [metric] = json.loads(out.read_text())["metrics"]
        found.append({name: own["score"] for name, own in metric["systems"].items()})
    assert found[0] == found[1]


def test_a_system_that_lacks_images(files, capsys):
    files["bad"].write_text(json.dumps({image: BAD[image] for image in "135"}))
    code, report = compare(files, "--metrics", "bleu-1,cider")
    assert code == 0
    assert report["images"] == 3
    assert "bad has no caption for 2 of 5 images (2, 4): left out for all systems" in report["notes"]
    assert "idf:3-documents" in report["metrics"][1]["signature"]


def test_several_captions_of_an_image_are_said_and_make_nothing_surer(tmp_path, capsys):
    reports = []
    for times in (1, 3):
        rows = [
            {"candidate": captions[image], "image_id": image, "system": name}
            | {"references": REFERENCES[image]}
            for name, captions in (("one", GOOD), ("two", BAD))
            for image in REFERENCES
            for _ in range(times)
        ]
        path, out = tmp_path / "all.jsonl", tmp_path / "out.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        markdown = tmp_path / f"{times}.md"
        shown = ["--json", out, "--markdown", markdown]
        assert run(path, "--metrics", "chrf", "--bootstrap", 50, *shown) == 0
        reports.append(json.loads(out.read_text()))
    once, again = reports
    assert (once["images"], again["images"], again["captions"]) == (5, 5, 15)
    assert again["tables"]["systems"]["title"] == "Captioning systems on 15 captions of 5 images"
    said = capsys.readouterr()
    assert "2 systems on 15 captions of 5 images" in said.err
    (pair,), (same,) = once["metrics"][0]["pairs"], again["metrics"][0]["pairs"]
    assert [same[each] for each in ("p_bootstrap", "p_permutation")] == [
        pair[each] for each in ("p_bootstrap", "p_permutation")
    ]
    assert (same["low"], same["high"]) == pytest.approx((pair["low"], pair["high"]))
    image, caption = (each["metrics"][0]["examples"][0] for each in reports)
    assert f"- image `{image['image']}`" in (tmp_path / "1.md").read_text()
    assert f"- caption `{caption['caption']}`" in (tmp_path / "3.md").read_text()
    assert f"  caption {caption['caption']}\n" in said.out
    assert "image" not in caption


def test_one_file_with_a_system_column(tmp_path, capsys):
    rows = [
        {"candidate": captions[image], "system": name, "group": image, "references": REFERENCES[image]}
        for name, captions in (("one", GOOD), ("two", BAD))
        for image in REFERENCES
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out.json"
    assert run(path, "--metrics", "chrf", "--bootstrap", 0, "--json", out, "--examples", 0) == 0
    report = json.loads(out.read_text())
    assert report["metrics"][0]["systems"]["one"]["rank"] is None
    assert report["metrics"][0]["pairs"][0]["better"] == "one"
    assert report["metrics"][0]["examples"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "absent/out.json"], "--json absent/out.json: its folder does not exist"),
        (["--save-scores", "scores.txt"], "must end in .jsonl or .csv"),
        (["--images", "absent"], "--images absent: no such folder"),
        (["--examples-of", "good,best"], "--examples-of good,best: give two of bad, good as A,B"),
        (["--examples-of", "good"], "give two of bad, good"),
        (["--metrics", "no-such"], "no metric 'no-such'"),
    ],
)
def test_refused_before_scoring(files, arguments, message, capsys):
    code = run(files["bad"], files["good"], "--references", files["refs"], *arguments)
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("joined", [False, True])
def test_a_file_behind_that_of_references_is_refused_where_it_may_be_either(files, tmp_path, joined, capsys):
    more = tmp_path / "more.json"
    more.write_bytes(files["refs"].read_bytes())
    given = [f"--references={files['refs']}"] if joined else ["--references", files["refs"]]
    assert run(files["bad"], files["good"], *given, more) == 2
    assert f"{more} stands behind the file of --references" in capsys.readouterr().err
    few = ["--metrics", "chrf", "--bootstrap", 0]
    assert run(*given, files["bad"], files["good"], *few) == 0
    assert run(files["bad"], *few, files["good"], *given) == 0


def test_it_is_a_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        suisei(["compare", "--help", "all"])
    assert stopped.value.code == 0
    assert "--examples-of" in capsys.readouterr().out


# survey 2503.14604, images/result.jpg of its repository; the briefly file is not that of its table
PUBLISHED = {"blip2": (146.0, 43.8), "m2": (131.2, 39.1), "long": (0.3, 8.3)}


def test_twelve_systems_have_permutations_enough_unless_fewer_are_asked_for(files, tmp_path, capsys):
    words = list("abcdefghijkl")
    refs = {str(n): [" ".join(words)] for n in range(12)}
    files["refs"].write_text(json.dumps(refs))
    systems = []
    for kept in range(1, 13):
        systems.append(tmp_path / f"s{kept}.json")
        systems[-1].write_text(json.dumps({image: " ".join(words[:kept]) for image in refs}))
    given = [*systems, "--references", files["refs"], "--metrics", "unigram-f1", "--examples", 0]
    out = tmp_path / "out.json"
    found = {}
    for bootstrap in ([], ["--bootstrap", 1000]):
        assert run(*given, "--json", out, *bootstrap) == 0
        report = json.loads(out.read_text())
        ranks = {each["rank"] for each in report["metrics"][0]["systems"].values()}
        found[tuple(bootstrap)] = (
            report["resampling"]["resamples"],
            report["resampling"]["permutations"],
            ranks,
        )
        shown = capsys.readouterr()
        told = "1000 permutations are too few for 66 pairs"
        assert [told in shown.err, told in shown.out] == [bool(bootstrap), bool(bootstrap)]
        assert ("(--bootstrap 2640)" in shown.err) == bool(bootstrap)
    assert found[()] == (1000, 2640, set(range(1, 13)))
    assert found["--bootstrap", 1000] == (1000, 1000, {1})


@pytest.mark.realdata
@pytest.mark.slow
def test_published_scores_of_systems_on_coco(shared, tmp_path, capsys):
    folder = shared / "data/benchmarks/coco-karpathy-systems"
    names = {
        "blip2": "blip2_results_xe",
        "m2": "m2_transformer",
        "brief": "llava-1.5-7b_briefly",
        "long": "llava-1.5-7b_default",
    }
    systems = [f"{name}={folder / stem}.json" for name, stem in names.items()]
    references = ["--references", folder / "reference_captions.json"]
    out = tmp_path / "out.json"
    metrics = ["--metrics", "cider,bleu-4", "--bootstrap", 500]
    assert run(*systems, *references, *metrics, "--json", out, "--latex", tmp_path / "a.tex") == 0
    report = json.loads(out.read_text())
    assert report["images"] == 5000
    cider, bleu = report["metrics"]
    for name, (cider_printed, bleu_printed) in PUBLISHED.items():
        assert round(100 * cider["systems"][name]["score"], 1) == cider_printed
        assert round(100 * bleu["systems"][name]["score"], 1) == bleu_printed
    for metric in (cider, bleu):
        assert {name: each["rank"] for name, each in metric["systems"].items()} == {
            "blip2": 1, "m2": 2, "brief": 3, "long": 4,
        }  # fmt: skip
        for each in metric["systems"].values():
            assert each["low"] < each["score"] < each["high"]
    latex = (tmp_path / "a.tex").read_text()
    assert "blip2 & 146.0 & 1 & 43.8 & 1" in latex
    assert "long & 0.3 & 4 & 8.3 & 4" in latex


def test_metrics_are_correlated_with_peoples_scores_of_the_systems(files, tmp_path, capsys):
    middling = {**BAD, "1": GOOD["1"], "2": GOOD["2"]}
    third = tmp_path / "middling.json"
    third.write_text(json.dumps(middling))
    human = tmp_path / "human.json"
    human.write_text(json.dumps({"good": 4.1, "bad": 1.3, "middling": 2.0, "other": 9}))
    chosen = ["--references", files["refs"], "--metrics", "bleu-1", "--bootstrap", 9, "--human", human]
    assert run(files["bad"], files["good"], third, *chosen, "--json", tmp_path / "a.json") == 0
    report = json.loads((tmp_path / "a.json").read_text())
    cells = report["human"]["sections"][0]["rows"][0]["cells"]
    assert (cells["spearman"]["value"], cells["n"]["value"]) == (pytest.approx(1), 3)
    shown = capsys.readouterr()
    assert "3 systems: one order in 6 is right by chance alone" in shown.out
    assert "--human: people's scores of no system here: other" in shown.err
    assert "--human: people's scores of no system here: other" in report["notes"]
    assert run(files["bad"], files["good"], *chosen) == 2
    assert "a correlation takes three" in capsys.readouterr().err
    human.write_text('{"good": 4, "bad": 1, "good": 1, "middling": 2}')
    assert run(files["bad"], files["good"], third, *chosen) == 2
    assert "human.json: not valid JSON: the field 'good' is given twice" in capsys.readouterr().err
    human.write_text("system,score\ngood,4\nbad,1\nmiddling,2\n")
    assert run(files["bad"], files["good"], third, *chosen) == 2
    assert '--human takes JSON of {"system": score}: ' in capsys.readouterr().err


def test_systems_whose_names_look_alike_are_one_and_any_bytes_may_be_a_files_name(files, tmp_path, capsys):
    sjis = "モデル".encode("cp932").decode("utf-8", "surrogateescape")  # unpacked on another machine
    apart = [unicodedata.normalize("NFD", "ゴールド"), unicodedata.normalize("NFD", "ベース"), sjis]  # macOS
    paths = [tmp_path / f"{name}.json" for name in apart]
    for path, captions in zip(paths, (GOOD, BAD, {**BAD, "1": GOOD["1"]}), strict=True):
        path.write_text(json.dumps(captions), encoding="utf-8")
    human = tmp_path / "human.json"
    escaped = r"\udc83\udc82\udc83f\udc83\udc8b"
    human.write_text(json.dumps({"ゴールド": 4, "ベース": 1, escaped: 2}), encoding="utf-8")
    outputs = ["--plot", tmp_path / "a.svg", "--save-scores", tmp_path / "a.csv"]
    chosen = ["--references", files["refs"], "--metrics", "bleu-1", "--bootstrap", 9, "--human", human]
    outputs += ["--json", tmp_path / "a.json", "--examples-of", "ゴールド,ベース"]
    assert run(*paths, *chosen, *outputs) == 0
    report = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert report["systems"] == ["ゴールド", "ベース", escaped]
    assert report["human"]["sections"][0]["rows"][0]["cells"]["n"]["value"] == 3
    assert not any("--human" in note for note in report["notes"])
    assert f"bleu-1/{escaped}" in (tmp_path / "a.csv").read_text(encoding="utf-8")
    human.write_text(json.dumps({"ゴールド": 4, apart[0]: 3, "ベース": 1, escaped: 2}), encoding="utf-8")
    assert run(*paths, *chosen) == 2
    assert "has two scores, of names that look alike; keep one" in capsys.readouterr().err


def test_captions_in_another_language_than_their_references_are_said(files):
    files["bad"].write_text(json.dumps(BAD | {"1": "猫がいる", "4": "バスが走る"}), encoding="utf-8")
    _, report = compare(files, "--metrics", "bleu-1")
    across = [note for note in report["notes"] if "no reference in the candidate's language" in note]
    assert [note.partition(" no reference")[0] for note in across] == ["bad: of its captions 2 have"]


def test_without_references_the_default_metrics_are_those_that_do_without(files, tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, image in enumerate(GOOD):
        Image.new("RGB", (32, 32), (40 * number, 90, 20)).save(folder / f"{image}.png")
    given = [files["bad"], files["good"], "--images", folder, "--bootstrap", 20]
    assert run(*given, "--json", tmp_path / "out.json") == 0
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [metric["metric"] for metric in report["metrics"]] == ["suisei"]
    assert "failed" not in capsys.readouterr().err
    assert run(*given, "--metrics", "suisei,cider,bleu-4") == 1
    assert "cider failed" in capsys.readouterr().err
