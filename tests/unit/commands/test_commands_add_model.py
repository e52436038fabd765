"""suisei add-model: two models in one folder, weighed by ratings that neither learned from."""

import json
import shutil

import numpy as np
import pytest
from scipy.special import logit

from suisei.__main__ import main
from suisei.commands.fitted_table import not_learned
from suisei.data.sample import make_samples
from suisei.metrics.loading import load
from suisei.models.folder import save_model
from suisei.training import small_card
from suisei.training.small_card import card_with_second

WORDS = ["red", "ball", "dog", "cat", "park", "table", "mat", "town", "rain", "people"]
CARD = "# First\n\n## Storage\n\n- In 8 bits.\n- Scores of this folder are signed `suisei|old|0000`.\n"


@pytest.fixture(scope="module")
def models(build_regressor, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    cosine = {"text": {"layers": "last"}, "image": False, "poolings": ["mean"], "blocks": []}
    for seed, name in enumerate(("first", "second")):
        model = build_regressor(seed, head={"start": "cosine"}, **cosine)
        model.start.references.slope.data.fill_(8.0)
        save_model(root / name, model, card=CARD)
    return root


@pytest.fixture
def data(models, tmp_path):
    """Ratings that follow both models alike, of captions in English and Japanese."""
    rng = np.random.default_rng(0)
    captions = [" ".join(rng.choice(WORDS, 4)) for _ in range(60)]
    references = [[" ".join(rng.choice(WORDS, 5))] for _ in captions]
    first, second = (
        load(models / name, device="cpu").score(captions, references) for name in ("first", "second")
    )
    both = logit(first) + logit(second)
    ratings = (both - both.min()) / np.ptp(both)
    rows = [
        {"candidate": own, "references": other, "rating": float(rating)}
        for own, other, rating in zip(captions, references, ratings, strict=True)
    ]
    rows += [{"candidate": "猫が寝ている", "references": ["犬が走る"], "rating": 0.5}]
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def run(models, data, tmp_path):
    def add(output, *options, first=None, second=None):
        folders = [str(first or models / "first"), str(second or models / "second")]
        return main(
            ["add-model", *folders, "--data", str(data), "--output", str(tmp_path / output), *options]
        )

    return add


def test_the_folder_of_both_agrees_with_ratings_that_follow_both(run, data, tmp_path, capsys):
    report = tmp_path / "report.json"
    assert run("both", "--languages", "en", "--json", str(report)) == 0
    shown = capsys.readouterr().out
    assert "was fitted to these ratings; evaluate with others" in shown
    content = json.loads(report.read_text(encoding="utf-8"))
    rows = {row["label"]: row["cells"] for row in content["table"]["sections"][0]["rows"]}
    assert [rows[name]["n"]["value"] for name in ("first", "second", "both")] == [60, 60, 60]
    taus = {name: cells["tau-b"]["value"] for name, cells in rows.items()}
    assert taus["both"] > max(taus["first"], taus["second"]) + 0.02
    weighing = content["weighing"]
    assert weighing["languages"] == ["en"]
    assert weighing["share"] == pytest.approx(0.5, abs=0.05)
    new = load(tmp_path / "both", device="cpu", precision="fp32")
    samples = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()[:-1]]
    scores = new.score([row["candidate"] for row in samples], [row["references"] for row in samples])
    assert scores.mean() == pytest.approx(rows["both"]["mean"]["value"], abs=1e-4)
    assert content["signature"] == new.signature
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert f"- Scores of this folder are signed `{new.signature}`." in card
    assert "## Second model\n\nOver `tiny`, under the terms of its authors. It is asked of English" in card
    assert "`suisei add-model` to rated.jsonl" in card
    assert card.index("## Second model") < card.index("## Storage")


def test_a_folder_is_there_once_its_card_is_signed(run, tmp_path, monkeypatch):
    """The card of the first, from which it is made, has the signature of other scores."""

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(small_card, "signed_card", stopped)
    assert run("new/both") == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_an_equal_share_takes_no_rating(run, data, tmp_path, capsys):
    found = []
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    for name in ("one", "two"):
        report = tmp_path / f"{name}.json"
        assert run(name, "--share", "equal", "--json", str(report)) == 0
        assert "these ratings did not decide how much the second counts" in capsys.readouterr().out
        found.append(json.loads(report.read_text(encoding="utf-8"))["weighing"]["share"])
        other = [{**row, "rating": 1 - row["rating"]} for row in rows]
        data.write_text("".join(json.dumps(row) + "\n" for row in other), encoding="utf-8")
    assert found[0] == found[1]
    new = load(tmp_path / "one", device="cpu", precision="fp32")
    candidates, references = [row["candidate"] for row in rows], [row["references"] for row in rows]
    samples = make_samples(candidates, references)
    first = logit(new._forward.compute(samples, new.extras.compute(samples), None, batch_size=64)[0])
    second = logit(new._seconds.open(new.model.seconds[0]).score(samples))
    assert found[0] * second.std() == pytest.approx((1 - found[0]) * first.std(), rel=1e-4)


@pytest.mark.parametrize(("share", "idle"), [("1", "first"), ("0", "second"), ("0.5", None)])
def test_a_model_that_decides_nothing_is_said_to(run, capsys, share, idle):
    assert run("both", "--share", share, "--languages", "en") == 0
    shown = capsys.readouterr().out
    assert ("decides nothing" in shown) == bool(idle)
    assert not idle or f"so the {idle} decides nothing of captions in en" in shown


def test_a_share_may_be_given(run, tmp_path, capsys):
    report = tmp_path / "report.json"
    assert run("both", "--share", "0.25", "--json", str(report)) == 0
    assert "these ratings did not decide how much the second counts" in capsys.readouterr().out
    assert json.loads(report.read_text(encoding="utf-8"))["weighing"]["share"] == 0.25
    assert [own.weighing.share for own in load(tmp_path / "both", device="cpu").model.seconds] == [0.25]
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert "How much it counts was given to it" in card


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan", "inf", "half", ""])
def test_a_share_that_cannot_be_is_refused(run, value, tmp_path, capsys):
    assert run("both", f"--share={value}") == 2
    assert "must be fitted, equal, or a number from 0 to 1" in capsys.readouterr().err
    assert not (tmp_path / "both").exists()


def test_the_terms_of_what_says_the_share_go_into_a_table_of_terms():
    table = "| data | what it is, and its terms |\n|---|---|\n| `shichimi` | ratings |\n\nThe weights.\n"
    for ratings in ([], ["flickr8k-cf", "flickr8k-cf"]):
        card = card_with_second(f"# M\n\n## Terms\n\n{table}", "e", ["en"], "flickr8k-cf", ratings=ratings)
        assert card.count("\n| `flickr8k-cf` | crowd ratings") == 1, ratings
        table = card.partition("## Terms\n\n")[2]
    assert "research use |\n\nThe weights." in card
    assert "flickr8k" not in card_with_second("# M\n", "e", ["en"], "mine.jsonl")


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ("fitted", "was fitted with `suisei add-model` to rated.jsonl,"),
        ("equal", "was set with `suisei add-model` so that both logits spread as far over rated.jsonl,"),
        ("0.3", "was given to it,"),
    ],
)
def test_the_card_says_where_the_share_is_from_and_which_model_signed_before(
    run, models, tmp_path, share, said
):
    shutil.copytree(models / "first", tmp_path / "first")
    signed = f"{CARD}\n- signature: `suisei|model:0000|text:e5`\n"
    (tmp_path / "first" / "README.md").write_text(signed, encoding="utf-8")
    assert run("both", "--share", share, first=tmp_path / "first") == 0
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert f"How much it counts {said} after all else" in card
    assert "- signature, before it had a second model: `suisei|model:0000|text:e5`" in card


def test_the_card_names_no_folder_of_this_machine(run, models, tmp_path, resign):
    shutil.copytree(models / "second", tmp_path / "second")
    resign(tmp_path / "second", lambda config: config["settings"]["text"].update(name="/home/me/minilm"))
    assert run("both", second=tmp_path / "second") == 0
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert "Over `minilm`, under the terms" in card
    assert "/home/me" not in card


def test_what_a_model_learned_from_is_left_out(run, data, tmp_path, capsys):
    lines = data.read_text(encoding="utf-8").splitlines()
    stars = [json.dumps({**json.loads(line), "rating": 4}) for line in lines]  # without a scale of theirs
    for name, learned in (("learned", lines[:15]), ("stars", stars[:15])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(learned) + "\n", encoding="utf-8")
        assert run(f"both of {name}", "--learned", str(tmp_path / f"{name}.jsonl")) == 0
        shown = capsys.readouterr().out
        assert "15 samples left out that --learned has" in shown
        assert " 46 " in shown  # the Japanese one among them


def test_one_caption_is_known_by_its_image_or_by_its_references():
    references = ["a dog runs", "犬が走る"]
    (plain,) = make_samples(["a dog"], [references])
    (pictured,) = make_samples(["a dog"], [references[::-1]], ["dog.jpg"])
    (bare,) = make_samples(["a dog"], images=["./dog.jpg"])
    (other,) = make_samples(["a dog"], [["a cat sleeps"]], ["cat.jpg"])
    everything = [plain, pictured, bare, other]
    assert not_learned(everything, [plain]) == [bare, other]
    assert not_learned(everything, [pictured]) == [other]
    assert not_learned(everything, [bare]) == [plain, other]
    (apart,) = make_samples(["a dog"], [["a cat sleeps"]])
    assert not_learned([apart], [plain]) == [apart]


def test_too_few_ratings_are_refused_before_anything_is_written(run, data, tmp_path, capsys):
    assert run("both", "--languages", "ja") == 2
    assert "1 sample in ja with references, a rating and scores of both models" in capsys.readouterr().err
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize("value", ["fr", "", "en;ja", "en,"])
def test_languages_are_known_ones(run, value, capsys):
    assert run("both", "--languages", value) == 2
    assert "must be of ja, en, with commas between them" in capsys.readouterr().err


def test_languages_may_come_before_the_models(models, data, tmp_path, capsys):
    output = tmp_path / "both"
    options = ["--languages", "en,ja,en", str(models / "first"), str(models / "second"), "--data", str(data)]
    assert main(["add-model", *options, "--output", str(output)]) == 0
    assert [own.weighing.languages for own in load(output, device="cpu").model.seconds] == [("en", "ja")]


def test_a_folder_that_is_there_is_not_touched(run, data, tmp_path, capsys):
    (tmp_path / "both").mkdir()
    assert run("both") == 2
    assert "exists; name a new folder" in capsys.readouterr().err
    assert list((tmp_path / "both").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_scored(run, data, monkeypatch, capsys):
    monkeypatch.setattr("suisei.metrics.suisei.SuiSeiMetric.score", None)
    assert run(data / "both") == 2
    assert f"{data / 'both'}: {data} is no folder; give the name of a folder" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever may write anywhere has no such folder
    assert run("both") == 2
    assert "both: cannot be written to" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["first", "second"])
def test_nothing_is_written_into_a_model(run, models, model, capsys):
    before = sorted(models.rglob("*"))
    assert run(models / model / "tokenizer" / "both") == 2
    assert "which it would make unreadable" in capsys.readouterr().err
    assert sorted(models.rglob("*")) == before


def test_a_second_with_a_second_is_refused(run, tmp_path, capsys):
    run("both")
    capsys.readouterr()
    both = tmp_path / "both"
    assert run("three", second=both) == 2
    assert "has a second model itself" in capsys.readouterr().err
    assert run("three", first=both) == 2
    assert "has a second model for ja and en; --languages must be others" in capsys.readouterr().err
    given = ["--tower", "ViT-B-32", "--pairs", "flickr8k-train", "--data", "flickr8k-cf"]
    assert main(["add-images", str(both), *given, "--output", str(tmp_path / "three")]) == 2
    assert "has a second model: add images to the first, then the second" in capsys.readouterr().err
    assert not (tmp_path / "three").exists()


def test_what_the_second_learned_from_is_said_and_goes_into_the_card(run, models, data, tmp_path, capsys):
    second = tmp_path / "learned"
    shutil.copytree(models / "second", second)
    (second / "README.md").write_text(
        "## Data\n\nrated.jsonl, shichimi: 9 training samples\n", encoding="utf-8"
    )
    assert run("both", "--languages", "en", second=second) == 0
    said = "its card names rated.jsonl among its training data"
    assert said in " ".join(capsys.readouterr().out.split())
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert "first model alone. The second had learned from ratings of `rated.jsonl`, `shichimi`.\n" in card
    other, row = tmp_path / "other.jsonl", {"candidate": "a", "references": ["b"], "rating": 0.1}
    for name, line, warned in (
        ("more", json.dumps(row), True),
        ("less", data.read_text(encoding="utf-8").splitlines()[0], False),
    ):
        other.write_text(line, encoding="utf-8")
        assert run(name, "--languages", "en", "--learned", str(other), second=second) == 0
        assert (said in " ".join(capsys.readouterr().out.split())) == warned


def test_a_second_that_looks_at_images_is_said_to_be_shown_none(run, build_regressor, tmp_path, capsys):
    save_model(tmp_path / "seeing", build_regressor(2), card=CARD)
    assert run("both", second=tmp_path / "seeing") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the second looks at images by itself; beside the first it is shown none, as here" in said
    assert run("blind") == 0
    assert "looks at images" not in capsys.readouterr().out
