from suisei.training.card import model_card

REPORT = {
    "data": {
        "sources": ["mine.jsonl"],
        "samples": {"train": 1920, "validation": 240, "test": 12},
        "groups": {"train": 240, "validation": 30, "test": 3},
    },
    "training": {
        "seed": 0,
        "minutes": 2.54,
        "epochs": 6,
        "steps": 1360,
        "precision": "32-true",
        "trainable_parameters": 4485917,
        "best_validation": {"val_pearson": 0.54321},
        "skipped_rows": 7,
        "unavailable_baselines": {"meteor": "needs Java"},
    },
}


def test_card_states_data_results_and_training():
    card = model_card(REPORT, "## Test split\n\n| x |\n", {"image": None})
    for fact in ("1,920 training samples in 240 groups", "12 test samples in 3 groups", "| x |", "seed 0"):
        assert fact in card
    assert "pearson 0.543" in card
    assert "bad rows left out: 7" in card
    assert "meteor: not compared, needs Java" in card
    assert "does not look at the image" in card
    assert "images=" not in card
    assert "simulated" not in card


def test_card_says_that_ratings_are_simulated():
    report = {**REPORT, "data": {**REPORT["data"], "sources": ["scenes"]}}
    assert "simulated" in model_card(report, "", {"image": {"name": "tiny"}})


def test_undefined_validation_is_said():
    report = {**REPORT, "training": {**REPORT["training"], "best_validation": {"val_pearson": None}}}
    assert "pearson undefined" in model_card(report, "", {"image": None})
