"""suisei add-bridge: captions score beside either language as beside their own."""

import json

import numpy as np
import pytest

from suisei.__main__ import main
from suisei.commands import add_bridge
from suisei.data.sample import CaptionSample
from suisei.metrics.loading import load
from suisei.models.folder import save_model
from suisei.training.small_card import card_with_bridge

ENGLISH = ["red", "ball", "dog", "cat", "park", "table", "mat", "town", "rain", "people"]
JAPANESE = ["赤い", "ボール", "犬", "猫", "公園", "机", "床", "町", "雨", "人"]
CARD = "# First\n\n## Storage\n\n- In 8 bits.\n- Scores of this folder are signed `suisei|old|0000`.\n"


@pytest.fixture(scope="module")
def model(build_regressor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    cosine = {"text": {"layers": "last"}, "image": False, "poolings": ["mean"], "blocks": []}
    regressor = build_regressor(head={"start": "cosine"}, **cosine)
    regressor.start.references.put(20.0, 0.95, 0.5)
    save_model(folder, regressor, card=CARD)
    return folder


def rows_of(images):
    """Captions whose numbers, which both languages write alike, are those of their references or not."""
    rng = np.random.default_rng(0)
    rows = []
    for image in range(images):
        number, others = " 7 7 7 7 7", rng.choice([" 7 7 7 7 7", " 3 5 3 5 3"])
        for words in (ENGLISH, JAPANESE):
            said, beside = rng.choice(words), list(rng.choice(words, 2))
            references = [f"{word}{others}" for word in beside]
            rows.append({"candidate": f"{said}{number}", "references": references, "group": str(image)})
    return rows


@pytest.fixture
def run(model, tmp_path):
    def add(rows, *options, output="new"):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return main(
            ["add-bridge", str(model), "--data", str(path), "--output", str(tmp_path / output), *options]
        )

    return add


def test_scores_across_languages_lie_where_those_within_one_do(run, model, tmp_path, capsys):
    report = tmp_path / "report.json"
    rows = rows_of(40)
    assert run(rows, "--json", str(report)) == 0
    assert "fitted to these captions, without their ratings" in capsys.readouterr().out
    content = json.loads(report.read_text(encoding="utf-8"))
    section, *spoken = content["table"]["sections"]
    parts = [(each["title"], each["rows"][0]["cells"]["n"]["value"]) for each in spoken]
    assert sorted(parts) == [("English captions", 40), ("Japanese captions", 40)]
    means = [row["cells"]["mean"]["value"] for row in section["rows"]]
    assert means[2] == pytest.approx(means[0], abs=0.005)
    assert abs(means[1] - means[0]) > 0.0075
    assert [row["cells"]["n"]["value"] for row in section["rows"]] == [80, 80, 80]
    new, old = (load(path, device="cpu", precision="fp32", cache="off") for path in (tmp_path / "new", model))
    assert list(new.regressor.config.head.bridge) == content["bridge"]
    english, japanese = rows[0], rows[1]
    found = new.score([japanese["candidate"]], [english["references"]])
    assert found != old.score([japanese["candidate"]], [english["references"]])
    args = ([english["candidate"]], [english["references"]])
    assert new.score(*args) == old.score(*args)
    card = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert content["signature"] == new.signature
    assert f"- Scores of this folder are signed `{new.signature}`." in card
    assert "`suisei add-bridge` to rows.jsonl" in card
    assert card.index("## Across languages") < card.index("## Storage")


def test_a_folder_is_there_once_it_is_measured(run, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(add_bridge, "_table", stopped)
    assert run(rows_of(40)) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_folder_whose_name_is_no_text_is_refused_before_anything_is_scored(run, monkeypatch, capsys):
    """Weights and tokenizers are written by libraries that take no such name."""
    monkeypatch.setattr("suisei.metrics.suisei.SuiSeiMetric.score", None)
    assert run(rows_of(40), output="n\udc83") == 2
    assert "n\\udc83: is not UTF-8, and no model can be written there" in capsys.readouterr().err


def test_a_bridge_of_a_model_that_learned_ranks_lies_on_its_own_scale(build_regressor, tmp_path):
    cosine = {"text": {"layers": "last"}, "image": False, "poolings": ["mean"], "blocks": []}
    regressor = build_regressor(head={"start": "cosine", "rank_share": 0.9}, **cosine)
    regressor.start.references.put(20.0, 0.95, 0.5)
    ratings = [0.9] * 8 + [0.95] * 8 + [0.1, 0.5]
    regressor.scale.fit([CaptionSample("a", rating=rating) for rating in ratings])
    save_model(tmp_path / "ranked", regressor, card=CARD)
    rows = "".join(json.dumps(row) + "\n" for row in rows_of(40))
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    options = ["--data", str(tmp_path / "rows.jsonl"), "--output", str(tmp_path / "new")]
    assert main(["add-bridge", str(tmp_path / "ranked"), *options, "--json", str(tmp_path / "r.json")]) == 0
    section = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["table"]["sections"][0]
    own, _, bridged = [row["cells"]["mean"]["value"] for row in section["rows"]]
    assert bridged == pytest.approx(own, abs=0.03)


def test_a_bridge_takes_no_rating(run, tmp_path):
    found = []
    for name, rating in (("one", 0.1), ("two", 0.9)):
        report = tmp_path / f"{name}.json"
        rows = [{**row, "rating": rating} for row in rows_of(20)]
        assert run(rows, "--json", str(report), output=name) == 0
        found.append(json.loads(report.read_text(encoding="utf-8"))["bridge"])
    assert found[0] == found[1]


def test_a_later_bridge_takes_the_place_of_the_first_in_the_card():
    once = card_with_bridge(CARD, "scenes")
    assert card_with_bridge(once, "scenes") == once
    assert card_with_bridge(card_with_bridge("# M\n", "a.jsonl"), "b.jsonl").count("## Across languages") == 1


def test_figures_and_signatures_of_a_card_are_said_to_be_of_the_model_before():
    card = card_with_bridge(f"{CARD}\n- signature: `suisei|model:0000|text:e5`\n", "scenes")
    assert "- signature, before it had a line across languages: `suisei|model:0000|text:e5`" in card
    assert "Figures above were taken before." in card


def test_what_cannot_be_fitted_is_refused(run, model, build_regressor, tmp_path, capsys):
    english = [row for row in rows_of(20) if row["candidate"].isascii()]
    assert run(english) == 2
    assert "0 captions with references in their own language, whose image has some" in capsys.readouterr().err
    same = {"candidate": "a dog", "references": ["the dog", "犬"]}
    assert run([{**same, "group": str(image)} for image in range(20)]) == 2
    assert "all captions have one score, or one cosine" in capsys.readouterr().err
    save_model(tmp_path / "other", build_regressor(image=False))
    path = tmp_path / "rows.jsonl"
    assert main(["add-bridge", str(tmp_path / "other"), "--data", str(path), "--output",
                 str(tmp_path / "never")]) == 2  # fmt: skip
    assert "does not start from the cosine" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()
