"""suisei add-images: a folder like any other that looks at images, and scores captions as before."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from suisei.__main__ import main
from suisei.commands import add_images
from suisei.commands.add_images import _table
from suisei.data.sample import CaptionSample, Rating
from suisei.encoders.efficientnet_lite import LITE, EfficientNetLite
from suisei.encoders.weights import save_weights
from suisei.metaeval.agreement import AgreementData, agree
from suisei.metrics.loading import load
from suisei.models.compaction import IMAGE_SIDE
from suisei.models.folder import save_model
from suisei.training.small_card import card_with_images

CAPTIONS = ("a red ball", "two dogs run", "a cat on a mat", "犬が走る")
CARD = """# A SuiSei model

```python
metric.score(["a caption"], references=[["what a person wrote"]])
```

```json
{
  "image": null,
  "head": {
    "start": "cosine"
  }
}
```

- It does not look at the image.
- Measure it.

## Storage

- In 8 bits.
- Scores of this folder are signed `suisei|text:old|0000`.
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    made = EfficientNetLite().train()
    with torch.no_grad():
        made(torch.rand(8, 3, 64, 64))
    path = tmp_path_factory.mktemp("tower") / "lite0.safetensors"
    save_weights({key.removeprefix("trunk."): value for key, value in made.state_dict().items()}, path)
    return path


@pytest.fixture(scope="module")
def reader(build_regressor, tmp_path_factory):
    """A model that reads captions alone, which starts from the cosine."""
    folder = tmp_path_factory.mktemp("reader") / "model"
    model = build_regressor(
        text={"layers": "last"}, head={"start": "cosine"}, image=False, poolings=["mean"], blocks=[],
        similarity=True,
    )  # fmt: skip
    save_model(folder, model, card=CARD)
    return folder


@pytest.fixture
def data(tmp_path, pictures):
    rows, pairs = [], []
    for number, (caption, picture) in enumerate(zip(CAPTIONS, pictures, strict=True)):
        references = [CAPTIONS[(number + 1) % 4]]
        row = {"candidate": caption, "references": references, "image": str(picture)}
        rows.append({**row, "rating": 0.2 + 0.2 * number, "group": str(number)})
        pairs.append({"image": str(picture), "captions": [caption]})
    for name, own in (("rated", rows), ("pairs", pairs)):
        text = "".join(json.dumps(row) + "\n" for row in own)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(reader, weights, data, pictures):
    def add(output, *options):
        return main([
            "add-images", str(reader), "--tower", f"timm:{LITE}", "--weights", str(weights),
            "--pairs", str(data / "pairs.jsonl"), "--data", str(data / "rated.jsonl"),
            "--images", str(pictures[0].parent), "--epochs", "2", "--output", str(output), *options,
        ])  # fmt: skip

    return add


def test_the_new_model_looks_at_images_and_reads_as_before(run, reader, data, pictures, tmp_path, capsys):
    report = tmp_path / "report.json"
    assert run(tmp_path / "seeing", "--json", str(report)) == 0
    shown = capsys.readouterr().out
    assert "the lines of the image were fitted to these ratings" in shown
    before, after = (load(folder, device="cpu", precision="fp32") for folder in (reader, tmp_path / "seeing"))
    candidates, references = list(CAPTIONS), [[CAPTIONS[0]]] * 4
    assert before.score(candidates, references).tolist() == after.score(candidates, references).tolist()
    alone = after.score(candidates, images=pictures)
    assert len(set(alone.tolist())) == 4
    assert after.reads == {"references", "image"}
    seen = after.score(candidates, references, images=pictures)
    assert seen.tolist() == before.score(candidates, references).tolist()
    rows = json.loads(report.read_text(encoding="utf-8"))["table"]["sections"][0]["rows"]
    assert [row["label"] for row in rows] == ["references", "image"]
    card = (tmp_path / "seeing" / "README.md").read_text(encoding="utf-8")
    assert "learned with `suisei add-images` from pairs.jsonl, rated.jsonl" in card
    assert f"- Scores of this folder are signed `{after.signature}`." in card


def test_a_folder_is_there_once_it_is_measured(run, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(add_images, "_table", stopped)
    assert run(tmp_path / "new" / "seeing") == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_the_image_side_is_stored_in_half_precision_and_the_rest_as_it_was(run, reader, tmp_path):
    run(tmp_path / "seeing", "--captions", str(tmp_path / "rated.jsonl"))
    old, new = (load_file(folder / "model.safetensors") for folder in (reader, tmp_path / "seeing"))
    kept = {name for name in old if not name.startswith(IMAGE_SIDE)}
    assert kept == {name for name in new if not name.startswith(IMAGE_SIDE)}
    assert all(torch.equal(old[name], new[name]) for name in kept)
    large = [weight for name, weight in new.items() if name.startswith("image.") and weight.numel() >= 1024]
    assert large
    assert {weight.dtype for weight in large} == {torch.float16}


def test_ratings_that_the_model_did_not_learn_from_say_how_much_the_image_counts(
    run, reader, data, pictures, tmp_path, capsys
):
    """Scores and one picture decide these ratings: for better in one file, for worse in the other."""
    captions = [f"{own} {number}" for own in CAPTIONS for number in range(6)]
    shown = [pictures[number % 2] for number in range(len(captions))]
    others = [f"{own} now" for own in captions]
    scores = load(reader, device="cpu").score(captions, references=[[CAPTIONS[0]]] * len(captions))
    rank = scores.argsort().argsort() / len(captions)
    for name, sign in (("level", 0), ("better", 1), ("worse", -1)):
        ratings = 0.5 + 0.3 * (rank - 0.5) + 0.25 * sign * np.resize([1, -1], len(rank))
        rows = [
            {"candidate": own, "references": [CAPTIONS[0]], "image": str(picture), "rating": float(rating)}
            for own, picture, rating in zip(captions if sign else others, shown, ratings, strict=True)
        ]
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    found = {}
    for name in ("better", "worse"):
        run(tmp_path / name, "--data", str(data / "level.jsonl"), "--unseen", str(data / f"{name}.jsonl"))
        assert "references and image" in capsys.readouterr().out
        found[name] = load(tmp_path / name, device="cpu").regressor.start
    assert len({float(start.image.slope) for start in found.values()}) == 1
    assert len({float(start.beside.line.centre) for start in found.values()}) == 1
    weights = [float(start.beside.line.slope / start.beside.kept) for start in found.values()]
    assert abs(weights[0] - weights[1]) > 0.1


def test_the_same_seed_gives_the_same_folder(run, tmp_path):
    for name, seed in (("one", "1"), ("two", "1"), ("three", "2")):
        run(tmp_path / name, "--seed", seed)
    one, two, three = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two", "three"))
    assert one == two
    assert one != three


def test_bad_input_is_refused_before_anything_is_learned(run, reader, data, pictures, tmp_path, capsys):
    assert run(reader) == 2
    assert "exists; name a new folder" in capsys.readouterr().err
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({"candidate": "a", "references": ["b"], "rating": 0.5}) + "\n")
    assert run(tmp_path / "seeing", "--unseen", str(path)) == 2
    assert "without the samples of --data: 0 samples with a rating" in capsys.readouterr().err
    rated = (data / "rated.jsonl").read_text(encoding="utf-8")
    folder = pictures[0].parent.name
    (data / "same.jsonl").write_text(rated.replace(f"{folder}/", f"{folder}/../{folder}/"), encoding="utf-8")
    for name in ("rated", "same"):
        assert run(tmp_path / "seeing", "--unseen", str(data / f"{name}.jsonl")) == 2
        assert "without the samples of --data: 0 samples with a rating" in capsys.readouterr().err
    assert not (tmp_path / "seeing").exists()


def test_equal_means_of_raters_are_ties_in_the_table():
    rng = np.random.default_rng(0)
    given = np.clip(rng.integers(1, 5, (200, 1)) + rng.integers(-1, 2, (200, 3)), 1, 4).tolist()
    samples = [CaptionSample("a dog", ("a cat",), rating=Rating(tuple(own), 1, 4)) for own in given]
    scores = rng.integers(0, 4, 200) + np.mean(given, axis=1).round(6)
    regressor = SimpleNamespace(looks=lambda compared: False)
    shown = _table(SimpleNamespace(score=lambda *_, **__: scores, regressor=regressor), samples)
    expected = agree(AgreementData.from_samples(scores, samples).rows("mean"), "tau-b").value
    assert shown.row("references").cells["tau-b"].value == pytest.approx(expected)


def test_the_card_says_what_the_model_looks_at():
    settings = {"image": {"name": "timm:x", "tiny": {"width": 16}}, "head": {"start": "cosines"}}
    card = card_with_images(CARD, f"timm:{LITE}", ["a", "b"], settings)
    assert 'references=[["what a person wrote"]], images=["image.jpg"])' in card
    assert "- It looks at the image, beside references and without.\n- Measure it." in card
    alone = card_with_images(card, "ViT-B-16", ["c"], {"image": None, "head": {"start": "cosine"}})
    assert "- It looks at the image only where there are no references; beside" in alone
    assert '"start": "cosine"' in alone
    assert json.loads(card.split("```json\n")[1].split("```")[0])["image"] == settings["image"]
    assert '"start": "cosines"' in card
    assert card.index("## Image tower") < card.index("## Storage")
    assert "licence Apache-2.0" in card
    again = card_with_images(card, "ViT-B-16", ["c"], settings | {"image": {"name": "ViT-B-16", "tiny": {}}})
    assert again.count("## Image tower") == 1
    assert "timm:" not in again
    np.testing.assert_equal(again.count("images="), 1)


def test_ratings_that_do_not_differ_have_no_correlation_and_lose_no_model(run, data, tmp_path, capsys):
    rows = [json.loads(line) for line in (data / "rated.jsonl").read_text(encoding="utf-8").splitlines()]
    text = "".join(json.dumps({**row, "rating": 0.5}) + "\n" for row in rows)
    (data / "equal.jsonl").write_text(text, encoding="utf-8")
    assert run(tmp_path / "seeing", "--data", str(data / "equal.jsonl")) == 0
    assert "–" in capsys.readouterr().out
    assert 0 < load(tmp_path / "seeing", device="cpu").score(["a dog"], references=[["a dog"]])[0] < 1
