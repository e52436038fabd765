"""What a model was trained on, as its card says."""

import pytest

from suisei.metrics.training_data import seen_notes, trained_on
from suisei.training.card import describe_data


def card(folder, text):
    (folder / "README.md").write_text(text, encoding="utf-8")
    return f"suisei:{folder}"


def test_the_card_of_a_training_is_understood(tmp_path):
    counts = {"train": 1200, "validation": 30, "test": 40}
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
