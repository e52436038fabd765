"""What a model was trained on, as its card says."""

import json
import shutil

import pytest

from suisei.metrics.extras import ExtraInputs
from suisei.metrics.training_data import encoder_learned, seen_notes, trained_on
from suisei.models.folder import save_model
from suisei.training.card import describe_data
from suisei.training.small_card import card_with_second


def card(folder, text):
    (folder / "README.md").write_text(text, encoding="utf-8")
    return f"suisei:{folder}"


@pytest.mark.parametrize("count", [1, 1200])
def test_the_card_of_a_training_is_understood(tmp_path, count):
    counts = {"train": count, "validation": 30, "test": 40}
    data = {"sources": ["my data, rated.csv", "shichimi"], "samples": counts, "groups": counts}
    spec = card(tmp_path, f"# A SuiSei model\n\n## Data\n\n{describe_data(data)}\n\n## Test split\n")
    assert trained_on(spec)[-1] == "shichimi"
    assert trained_on(card(tmp_path, f"## Data\r\n\r\n{describe_data(data)}"))[-1] == "shichimi"


def test_the_model_in_the_package():
    assert trained_on("suisei") == ("shichimi", "flickr8k-expert")


def test_the_same_ratings_read_in_another_way_are_named_too():
    for data in ("flickr8k-expert", "flickr8k-expert-all"):
        assert "names flickr8k-expert among" in seen_notes({"mine": "suisei"}, data)["mine"]
    assert seen_notes({"mine": "suisei"}, "flickr8k-cf") == {}


@pytest.mark.parametrize(
    "text", ["", "# A model\n", "## Data\n\nOf many kinds.\n\nx: 3 training samples", "\ud83d"]
)
def test_a_card_that_does_not_say(tmp_path, text):
    (tmp_path / "README.md").write_text(text, encoding="utf-8", errors="surrogatepass")
    assert trained_on(f"suisei:{tmp_path}") == ()


def test_what_has_no_card(tmp_path):
    for spec in (f"suisei:{tmp_path}", f"suisei:{tmp_path}/none", "suisei:org/name", "suisei:\0", "bleu-4"):
        assert trained_on(spec) == ()


@pytest.fixture
def trained(build_regressor, tmp_path):
    """Write a model of three layers as a training on shichimi would; returns its folder."""

    def write(**text):
        model = build_regressor(text={"layers": "last", **text}, layers=3, image=False)
        counts = {"train": 9, "validation": 3, "test": 3}
        data = {
            "sources": ["shichimi"],
            "samples": counts,
            "groups": counts,
            "learned_before": ["a.csv", "jsts"],
        }
        save_model(
            tmp_path / "model",
            model,
            extras=ExtraInputs([]).state(),
            card=f"## Data\n\n{describe_data(data)}",
        )
        return tmp_path / "model"

    return write


def test_what_the_encoder_and_a_second_model_had_learned_from_counts_too(trained):
    folder = trained()
    assert trained_on(f"suisei:{folder}") == trained_on(f"cosine:{folder}") == ("shichimi", "a.csv", "jsts")
    text = (folder / "README.md").read_text(encoding="utf-8")
    both = card_with_second(text, "other", ["en"], "flickr8k-cf", ratings=["flickr8k-expert", "b, c.csv"])
    spec = card(folder, card_with_second(both, "third", ["ja"], "", ratings=["polaris"]))
    assert trained_on(spec)[3:] == ("flickr8k-expert", "b, c.csv", "polaris")
    assert "mine: its card names flickr8k-expert" in seen_notes({"mine": spec}, "flickr8k-expert-all")["mine"]
    assert trained_on(f"cosine:{folder}") == ("shichimi", "a.csv", "jsts")  # which the second's no part of


@pytest.mark.parametrize(
    ("text", "layers", "left"),
    [
        ({}, "last", False),
        ({}, 1, False),
        ({"frozen": True}, "last", True),
        ({"trained_layers": 2}, "mix", False),
        ({"trained_layers": 2}, 2, False),
        ({"trained_layers": 2}, 1, True),
    ],
)
def test_layers_that_a_training_left_have_learned_nothing_in_it(trained, text, layers, left):
    expected = ("a.csv", "jsts") if left else ("shichimi", "a.csv", "jsts")
    assert encoder_learned(str(trained(**text)), layers) == expected


def test_an_encoder_that_is_no_trained_model(tmp_path):
    card(tmp_path, "## Data\n\nshichimi: 3 training samples")
    for name in (str(tmp_path), "tiny", "org/name", "\0", "x" * 5000):
        assert encoder_learned(name) == ()
    (tmp_path / "idf.json").write_text("{}")
    assert encoder_learned(str(tmp_path)) == ()  # no config, which loading it refuses


@pytest.mark.parametrize(
    "changed", [{"settings": None}, {"settings": {"text": []}}, {"text_architecture": None}]
)
def test_a_config_that_loading_refuses_is_no_traceback_before(trained, changed):
    folder = trained(trained_layers=2)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changed), encoding="utf-8")
    assert encoder_learned(str(folder), 1) == ()


def test_the_second_model_within_a_folder_has_its_ratings_on_the_card_of_both(trained):
    folder = trained()
    second = folder / "second"
    second.mkdir()
    for name in ("config.json", "idf.json"):
        shutil.copy(folder / name, second)
    text = (folder / "README.md").read_text(encoding="utf-8")
    card(folder, card_with_second(text, "other", ["en"], "", ratings=["polaris"]))
    assert encoder_learned(str(second)) == ("polaris",)
