"""The probe command on the bundled scenes and on files, with text metrics and a small model."""

import json
from functools import partial

import pytest
from rich.console import Console

from suisei.__main__ import main as suisei
from suisei.commands.probe import main
from suisei.commands.probe_metrics import fitted_on, probed_metrics
from suisei.data import figures
from suisei.data.formats import read_samples
from suisei.data.load import load_data
from suisei.errors import DataError
from suisei.metrics.overlap import UnigramF1
from suisei.probes.originals import good_samples, held_out
from suisei.scoring.plan import MetricPlan
from tests.unit import runs

QUICK = ("--limit", "30", "--bootstrap", "20")

run = partial(runs.run, main)


@pytest.fixture
def rated(tmp_path):
    rows = []
    for n in range(24):
        rows.append(
            {
                "candidate": f"a brown dog runs on the green grass number {n}",
                "references": [f"a dog runs on grass {n}", f"the brown dog number {n} is running"],
                "rating": 1 + n % 5, "rating_scale": [1, 5], "group": f"g{n // 2}", "id": str(n),
            }
        )  # fmt: skip
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_distance_is_said_to_be_shown_with_its_sign_turned(rated, tmp_path):
    arguments = ("--metrics", "chrf,repetition-1", "--data", rated, "--degradations", "repeat")
    assert run(*arguments, *QUICK, "--protocols", "none", "--json", tmp_path / "a.json") == 0
    content = json.loads((tmp_path / "a.json").read_text())
    said = [note for note in content["notes"] if "sign turned" in note]
    assert len(said) == 1
    assert said[0].startswith("repetition-1: lower is better")


def test_text_metrics_with_all_outputs(rated, tmp_path, capsys):
    status = run(
        "--metrics", "chrf,unigram-f1,cider", "--data", rated, *QUICK, "--json", tmp_path / "a.json",
        "--markdown", tmp_path / "a.md", "--latex", tmp_path / "a.tex", "--plots", tmp_path / "plots",
    )  # fmt: skip
    assert status == 0
    content = json.loads((tmp_path / "a.json").read_text())
    shares = {
        row["label"]: row["cells"]["lower"]["value"] for row in content["degradations"]["sections"][0]["rows"]
    }
    assert shares["mark"] == 1  # chrf of a full stop
    assert content["references"]["sections"][0]["rows"][2]["cells"]["n"]["value"] == 24
    assert content["languages"]["sections"][0]["rows"][0]["cells"]["n"]["value"] > 100  # the bundled scenes
    assert content["languages"]["title"] == "Japanese against English (bundled sample)"
    assert content["languages"]["notes"][0].startswith("of the bundled sample 'scenes'")
    assert {row["label"] for row in content["calibration"]["sections"][0]["rows"]} == {
        "chrf",
        "unigram-f1",
        "cider",
    }
    assert "reliability unigram-f1" in content
    assert "reliability chrf" not in content  # its scores are from 0 to 100
    assert content["metrics"]["chrf"].startswith("chrf|")
    assert (tmp_path / "a.md").read_text().startswith("# Probes")
    assert r"\begin{table}" in (tmp_path / "a.tex").read_text()
    made = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert made == [
        "chrf-degradations.png", "chrf-invariances.png", "cider-degradations.png", "cider-invariances.png",
        "curves.png", "unigram-f1-degradations.png", "unigram-f1-invariances.png",
        "unigram-f1-reliability.png",
    ]  # fmt: skip
    assert "Degraded captions" in capsys.readouterr().out


def test_a_model_on_the_bundled_scenes(model_folder, tmp_path):
    assert (
        run("--model", model_folder, *QUICK, "--degradations", "swap,mark", "--json", tmp_path / "a.json")
        == 0
    )
    content = json.loads((tmp_path / "a.json").read_text())
    assert [s["title"] for s in content["degradations"]["sections"]] == ["Japanese", "English"]
    assert [r["label"] for r in content["references"]["sections"][0]["rows"]] == ["0", "1", "2"]
    assert f"reliability suisei:{model_folder}" in content
    assert content["languages"]["title"] == "Japanese against English"  # it is of the data itself


def test_unrated_references_alone_will_do(rated, tmp_path):
    rows = [json.loads(line) for line in rated.read_text().splitlines()]
    path = tmp_path / "unrated.jsonl"
    path.write_text(
        "".join(json.dumps({k: v for k, v in row.items() if "rating" not in k}) + "\n" for row in rows)
    )
    assert run("--metrics", "chrf", "--data", path, *QUICK, "--json", tmp_path / "a.json") == 0
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["degradations"]["sections"][0]["rows"][0]["cells"]["n"]["value"] > 0
    assert "calibration" not in content
    assert "references" not in content


def test_captions_without_a_rating_keep_others_from_no_calibration(rated, tmp_path):
    with rated.open("a") as stream:
        stream.write('{"candidate": "a dog runs", "references": ["a dog"]}\n')
    assert run("--metrics", "chrf", "--data", rated, *QUICK, "--json", tmp_path / "a.json") == 0
    assert json.loads((tmp_path / "a.json").read_text())["calibration"]["sections"][0]["rows"]


def test_rows_of_several_raters_are_one_caption_with_its_mean_rating(tmp_path):
    captions = {"a red dog runs": (5, 5, 4), "a big cat sits": (5, 2, 1)}  # one rater likes the second
    rows = [
        {"candidate": f"{text} number {n}", "references": ["a dog", "a cat"], "group": f"i{n}",
         "rating": rating, "rating_scale": [1, 5]}
        for n in range(4) for text, ratings in captions.items() for rating in ratings
    ]  # fmt: skip
    data, output = tmp_path / "long.jsonl", tmp_path / "a.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = ("--degradations", "shuffle", "--protocols", "none")
    assert run("--metrics", "length", "--data", data, *changes, *QUICK, "--json", output) == 0
    content = json.loads(output.read_text())
    assert content["degradations"]["sections"][0]["rows"][0]["cells"]["n"]["value"] == 4
    assert any("24 rows rate 8 samples" in note for note in content["notes"])


def test_a_metric_that_fails_leaves_the_others(rated, tmp_path, capsys):
    absent = ("--model", tmp_path / "absent")
    status = run(*absent, "--metrics", "chrf", "--data", rated, *QUICK, "--json", tmp_path / "a.json")
    assert status == 1
    content = json.loads((tmp_path / "a.json").read_text())
    assert list(content["failed"]) == [f"suisei:{tmp_path / 'absent'}"]
    assert "failed" in capsys.readouterr().err


def test_protocols_are_chosen_and_references_held_out(rated, tmp_path):
    chosen = ("--protocols", "shuffling", "--degradations", "half", "--json", tmp_path / "a.json")
    assert run("--metrics", "unigram-f1,bleu-2", "--data", rated, *QUICK, *chosen) == 0
    content = json.loads((tmp_path / "a.json").read_text())
    assert "replacing" not in content
    assert "curves" not in content
    assert "invariances" not in content
    rows = {row["label"]: row for row in content["shuffling"]["sections"][0]["rows"]}
    assert rows["unigram-f1"]["cells"]["rho"]["value"] == 0  # it does not see the order of words
    assert rows["bleu-2"]["cells"]["published"]["value"] == 0.380119
    assert rows["bleu-2"]["cells"]["n"]["value"] == 12  # images, one reference each


@pytest.fixture
def people(tmp_path):
    """COCO annotations: three captions of each of twelve images."""
    captions = ("a brown dog runs on the grass {}", "the dog number {} is on green grass", "dog {} runs")
    content = {
        "images": [{"id": n, "file_name": f"{n:012}.jpg"} for n in range(12)],
        "annotations": [{"image_id": n, "caption": c.format(n)} for c in captions for n in range(12)],
    }
    path = tmp_path / "captions_val2017.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("layout", ["coco", "karpathy", "by id"])
def test_captions_of_people_alone_are_probed_one_against_the_others(people, layout, tmp_path):
    annotations = json.loads(people.read_text())["annotations"]
    own = {str(n): [a["caption"] for a in annotations if a["image_id"] == n] for n in range(12)}
    source = people
    if layout != "coco":
        source, images = tmp_path / "people.json", []
        for n, (image, texts) in enumerate(own.items()):
            sentences = [{"raw": text} for text in texts]
            part = "test" if n else "train"
            images.append({"filename": f"{image}.jpg", "split": part, "sentences": sentences})
        source.write_text(json.dumps({"images": images} if layout == "karpathy" else own))
    parts = ":test" if layout == "karpathy" else ""
    asked = ("--data", f"{source}{parts}", "--degradations", "half", "--json", tmp_path / "a.json")
    assert run("--metrics", "bleu-1,cider", *asked, *QUICK) == 0
    content = json.loads((tmp_path / "a.json").read_text())
    count = 11 if parts else 12
    assert f"{3 * count} captions of people; {count} of them" in content["notes"][0]
    (row, _) = content["replacing"]["sections"][0]["rows"]
    assert row["cells"]["n"]["value"] == count
    spread = {each["label"]: each["cells"] for each in content["spread"]["sections"][0]["rows"]}
    assert spread["bleu-1"]["n"]["value"] == count
    assert spread["bleu-1"]["q1"]["value"] < 1  # no caption is among its own references


def test_the_first_caption_of_each_image_can_stand_for_people(people, tmp_path):
    """As in the paper; of these captions the first is the longest."""
    asked = ("--data", people, "--held-out", "first", "--protocols", "shuffling", "--degradations", "half")
    assert run("--metrics", "bleu-1", *asked, *QUICK, "--json", tmp_path / "a.json") == 0
    content = json.loads((tmp_path / "a.json").read_text())
    shown = [each["caption"] for each in content["shuffling"]["sections"][0]["rows"][0]["example"]]
    assert shown[-1].startswith("a brown dog runs on the grass")
    example = content["degradations"]["sections"][0]["rows"][0]["examples"]["typical"]
    assert example["original"].startswith("a brown dog runs on the grass")


def test_systems_are_set_beside_people(tmp_path):
    """On the bundled scenes in both languages: one system repeats a reference, one speaks of other images."""
    humans = held_out(load_data("scenes"))
    said = {"parrot": [s.references[0] for s in humans], "lost": []}
    own = {name: [s.candidate for s in humans if s.language == name] for name in ("ja", "en")}
    said["lost"] = [own[s.language].pop() for s in humans]  # from the other end
    for name, captions in said.items():
        rows = [{"group": s.group, "candidate": c} for s, c in zip(humans, captions, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["--systems", f"echo={tmp_path / 'parrot.jsonl'}", tmp_path / "lost.jsonl"]
    asked += ["--degradations", "half", "--protocols", "none", "--json", tmp_path / "a.json"]
    asked += ["--metrics", "unigram-f1,cider", "--plots", tmp_path / "plots", *QUICK]
    assert run(*asked) == 0
    content = json.loads((tmp_path / "a.json").read_text())
    found = {
        section["title"]: {row["label"]: row for row in section["rows"]}
        for section in content["systems"]["sections"]
    }
    assert set(found) == {
        f"{name}, {language}" for name in ("echo", "lost") for language in ("Japanese", "English")
    }
    for title, rows in found.items():
        assert set(rows) == {"unigram-f1", "cider"}
        for row in rows.values():
            assert row["cells"]["n"]["value"] == 30
            rho = row["cells"]["rho"]
            assert rho["value"] < -0.3 if title.startswith("echo") else rho["value"] > 0.3
            assert rho["low"] <= rho["value"] <= rho["high"]
    drawn = sorted(path.name for path in (tmp_path / "plots").glob("*-systems.png"))
    assert drawn == ["cider-systems.png", "unigram-f1-systems.png"]


def test_systems_without_people_are_refused(rated, tmp_path, capsys):
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"other": "a dog"}))
    asked = ("--metrics", "chrf", "--degradations", "half", "--protocols", "none", *QUICK)
    assert run(*asked, "--data", rated, "--systems", own) == 2
    assert f"own: none of its 1 row has an image of {rated}" in (told := capsys.readouterr().err)
    assert "scoring" not in told
    assert run(*asked, "--data", rated, "--systems", own, "--json", own) == 2
    assert "is the input (--systems" in capsys.readouterr().err


def test_captions_of_people_alone_take_no_option_of_rows(people, tmp_path, capsys):
    assert run("--metrics", "chrf", "--data", people, "--references", people) == 2
    assert "holds captions of people and nothing else; leave out --references" in capsys.readouterr().err
    assert run("--metrics", "chrf", "--data", people, "--json", people) == 2
    assert "is the input" in capsys.readouterr().err
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps({"images": [], "annotations": [{"image_id": 1, "caption": "a dog"}]}))
    assert run("--metrics", "chrf", "--data", alone) == 2
    assert "none of its 1 image has two captions in one language" in capsys.readouterr().err
    alone.write_text(json.dumps([{"captions": ["a dog", "dogs"]}] * 2))
    system = tmp_path / "system.json"
    system.write_text(json.dumps([{"image_id": n, "caption": "a dog"} for n in (1, 2)]))
    assert run("--metrics", "chrf", "--data", alone, "--systems", system) == 2
    assert "its rows name no images, so that no system can be joined" in capsys.readouterr().err


def test_the_protocols_fit_idf_on_the_references_that_are_left(rated):
    """Not on the whole file, where an image counts as often as it has captions, and the held-out one too."""
    samples, plans = read_samples(rated), [MetricPlan("cider"), MetricPlan("chrf")]
    humans = good_samples(samples, "references")
    metrics, _, failed = probed_metrics(plans, samples, 64, Console(quiet=True))
    (own, same), lost = fitted_on(humans, plans, metrics, 64, failed, Console(quiet=True))
    assert not failed
    assert not lost
    assert "idf:24-documents" in metrics[0].signature
    assert metrics[0].signature.endswith("|fit:references-of-24-samples")
    assert "idf:12-documents" in own.signature
    assert same is metrics[1]  # it learns nothing


def test_a_metric_that_fails_later_on_leaves_the_others(rated, tmp_path, monkeypatch, capsys):
    """As one whose server goes away, or whose memory is out, after the first scores."""
    whole, calls = UnigramF1._score, []

    def score(self, samples, **settings):
        calls.append(len(samples))
        if len(calls) > 1:
            raise RuntimeError("out of memory")
        return whole(self, samples, **settings)

    monkeypatch.setattr(UnigramF1, "_score", score)
    written = ("--json", tmp_path / "a.json", "--plots", tmp_path / "plots")
    assert run("--metrics", "unigram-f1,chrf", "--data", rated, *QUICK, *written) == 1
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["failed"] == {"unigram-f1": "RuntimeError: out of memory"}
    assert [section["title"] for section in content["degradations"]["sections"]] == [
        "English"
    ]  # of chrf alone
    assert [row["label"] for row in content["shuffling"]["sections"][0]["rows"]] == ["chrf"]
    assert len(calls) == 2
    drawn = sorted(path.name for path in (tmp_path / "plots").glob("*-degradations.png"))
    assert drawn == ["chrf-degradations.png"]
    assert "unigram-f1 failed: RuntimeError: out of memory" in capsys.readouterr().out


def test_a_plot_that_no_font_can_draw_costs_no_other(rated, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "_FAMILIES", ("a family that nobody has",))
    figures.east_asian_font.cache_clear()
    try:
        written = ("--plots", tmp_path / "plots", "--degradations", "half", "--protocols", "none")
        assert run("--metrics", "犬=chrf,unigram-f1", "--data", rated, *QUICK, *written) == 2
    finally:
        figures.east_asian_font.cache_clear()
    drawn = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert drawn == ["unigram-f1-degradations.png", "unigram-f1-reliability.png"]
    told = capsys.readouterr().err
    assert f"{tmp_path / 'plots' / '犬-degradations.png'}: no font here" in told
    assert "--figures DIR" in told  # which --plots, of PNGs, does not write as SVG


def test_a_sample_that_a_metric_refuses_costs_the_others_nothing(rated, tmp_path, monkeypatch, capsys):
    """As one of an image that cannot be read."""
    whole = UnigramF1._score

    def score(self, samples, **settings):
        if any(sample.group == "g3" for sample in samples):
            raise DataError("g3.jpg cannot be read")
        return whole(self, samples, **settings)

    monkeypatch.setattr(UnigramF1, "_score", score)
    written = ("--json", tmp_path / "a.json", "--degradations", "half")
    assert run("--metrics", "unigram-f1,chrf", "--data", rated, *QUICK, *written) == 0
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["failed"] == {}
    counts = {
        name: {row["label"]: row["cells"]["n"]["value"] for row in content[name]["sections"][0]["rows"]}
        for name in ("shuffling", "spread")
    }
    assert counts["shuffling"] == {"unigram-f1": 11, "chrf": 12}
    assert counts["spread"] == {"unigram-f1": 22, "chrf": 24, "human": 24}
    assert (
        "unigram-f1: 10 captions, changed ones counted too, without score: g3.jpg cannot be read"
        in "\n".join(content["notes"])
    )


def test_without_two_references_the_protocols_are_left_out_and_it_is_said(tmp_path, capsys):
    rows = [
        {"candidate": f"a dog {n}", "references": ["a dog"], "rating": 1, "group": str(n)} for n in range(5)
    ]
    path = tmp_path / "one.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("--metrics", "unigram-f1", "--data", path, *QUICK, "--degradations", "half") == 0
    shown = capsys.readouterr().out
    assert "no replacing, shuffling, curves: " in shown
    assert "none of 5 samples has two references" in shown


def test_a_metric_that_cannot_learn_from_the_held_out_captions_is_left_out_of_the_protocols(tmp_path, capsys):
    """One image alone has two references, and CIDEr takes more: it is no reason to lose all else."""
    rows = [
        {"candidate": f"a dog {n} runs", "references": [f"dog {n}", *["a dog"] * (n == 2)], "group": str(n),
         "rating": 1}
        for n in range(5)
    ]  # fmt: skip
    path = tmp_path / "few.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    chosen = ("--degradations", "half", "--json", tmp_path / "a.json")
    assert run("--metrics", "cider,unigram-f1", "--data", path, *QUICK, *chosen) == 0
    titles = [
        section["title"]
        for section in json.loads((tmp_path / "a.json").read_text())["degradations"]["sections"]
    ]
    assert titles == ["cider, English", "unigram-f1, English"]
    assert "cider: not in the protocols of papers: CIDEr weighs n-grams" in capsys.readouterr().out


def test_the_old_name_works_and_says_the_new_one(rated, capsys):
    chosen = ["--data", str(rated), "--protocols", "none", "--degradations", "half", "--bootstrap", "0"]
    with pytest.warns(UserWarning, match="'suisei sanity' is called 'suisei probe' now"):
        assert suisei(["sanity", "--metrics", "length", *chosen]) == 0
    assert "Degraded captions" in capsys.readouterr().out
    assert suisei(["--help"]) == 0
    assert "sanity" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--metrics", "chrf", "--protocols", "recap"),
            "no protocol 'recap'; there are: replacing, shuffling",
        ),
        (("--metrics", "chrf", "--degradations", "flip"), "no degradation 'flip'"),
        (("--metrics", "chrf", "--good", "3"), "--good: must be a number from 0 to 1, got '3'"),
        (("--metrics", "chrf", "--json", "/absent/a.json"), "its folder does not exist"),
        (("--metrics", "nothing"), "no metric 'nothing'"),
    ],
)
def test_wrong_options(arguments, message, capsys):
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
