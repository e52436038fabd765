import pytest

from suisei.resources import resource_path
from suisei.training.card import describe_data, describe_training, model_card
from suisei.training.small_card import (
    Storage,
    card_with_bridge,
    card_with_images,
    card_with_second,
    measured_card,
    small_card,
)

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
    assert "Caution" not in card
    assert "simulated" not in card


def test_one_sample_and_one_group_are_no_plural():
    data = {
        "sources": ["mine.jsonl"],
        "samples": {"train": 1, "validation": 2, "test": 1},
        "groups": {"train": 1, "validation": 1, "test": 1},
        "left_out": {"train": 2, "validation": 1},
        "images": 1,
        "reads": ["image"],
    }
    card = model_card({**REPORT, "data": data}, "", {"image": None})
    assert "1 training sample in 1 group, 2 validation samples in 1 group, 1 test sample in 1 group." in card
    assert "left out are 2 training and 1 validation sample whose candidate is" in card
    assert "1 of its 1 rated training sample had one" in card


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"scales": [[1, 7]], "raters": [5, 5]},
            "from 1 to 7, 5 for each caption; a score of 0.5 stands for 4:",
        ),
        (
            {"scales": [[1, 5], [1, 4]], "raters": [1, 3]},
            "from 1 to 5 and from 1 to 4, 1 to 3 for each caption:",
        ),
        ({}, "The test split was read once, at the end."),
    ],
)
def test_card_says_what_a_score_stands_for(facts, said):
    text = describe_data({**REPORT["data"], "ratings": facts})
    assert said in text
    assert ("to be expected" in text) == bool(facts)


def test_card_names_the_files_that_were_given_for_validation_and_test():
    data = {**REPORT["data"], "given": {"validation": "flickr8k-cf", "test": "theirs.jsonl"}}
    said = describe_data(data)
    assert "mine.jsonl: 1,920 training samples in 240 groups" in said
    assert "240 validation samples of flickr8k-cf in 30 groups, 12 test samples of theirs.jsonl in" in said
    made_small = small_card(
        model_card({**REPORT, "data": data}, "", {"image": None}), Storage("e5", None, 4, None)
    )
    assert "| `flickr8k-cf` | crowd ratings" in made_small


def test_a_small_card_says_what_the_folder_holds_of_captions_as_that_of_the_package_does():
    small = small_card("# M\n\nTrained on scenes.\n", Storage("e5", None, 4, None))
    said = small.rstrip().rsplit("\n", 1)[-1]
    assert "n-grams of up to four words of training references, some of which are whole" in said
    assert said in (resource_path("suisei/small") / "README.md").read_text("utf-8")


def test_a_card_of_a_model_that_was_made_small_twice_says_what_is_true_now():
    whole = "# M\n\nTrained on scenes.\n\n- signature: `suisei|model:a`"
    first = measured_card(small_card(whole, Storage("e5", 1500, 8, None)), "agreement .9", "suisei|model:b")
    first = card_with_bridge(first, "jsts")
    for pieces, cut in ((None, "1,500"), (900, "900")):
        card = small_card(first, Storage("e5", pieces, 4, None), figures={"how": "So.", "sets": []})
        card = measured_card(card, "agreement .8", "suisei|model:c")
        storage = card.partition("## Storage\n")[2].partition("\n## ")[0]
        for line in (
            "- It was made small before, and of its scores that changed: agreement .9.",
            "- Of its scores that changes: agreement .8.",
            "- Scores of this folder are signed `suisei|model:c`.",
            "- The encoder's matrices are in 4 bits, with a scale for 32 weights.",
        ):
            assert storage.splitlines().count(line) == 1
        assert storage.count("vocabulary is cut to") == storage.count(f"is cut to {cut} pieces") == 1
        assert "in 8 bits" not in card
        assert "model:b" not in card
        headings = (
            "Across languages",
            "Text encoder",
            "Storage",
            "Terms of the data",
            "Beside other metrics",
        )
        assert [line[3:] for line in card.splitlines() if line.startswith("## ")] == list(headings)
        assert all(card.count(f"| `{name}` |") == 1 for name in ("scenes", "jsts"))
        third = measured_card(
            small_card(card, Storage("e5", None, 4, None), figures={"how": "", "sets": []}), "none", "d"
        )
        assert third.count("It was made small before") == 2
        assert third.count("## Beside other metrics") == 1


def test_card_names_no_folder_of_the_one_who_trained():
    files = {
        "sources": ["/home/me/mine.jsonl", "scenes"],
        "support": ["../my/pairs.jsonl", "jsts"],
        "given": {"validation": "flickr8k-cf", "test": "/home/me/theirs.jsonl"},
    }
    settings = {"image": None, "fusion": {"extra_inputs": ["pac-s:/home/me/pacs.safetensors"]}}
    card = model_card({**REPORT, "data": {**REPORT["data"], **files}}, "", settings)
    assert "mine.jsonl, scenes: 1,920 training samples" in card
    assert "pairs.jsonl, jsts." in card
    assert "samples of flickr8k-cf in 30 groups, 12 test samples of theirs.jsonl in" in card
    assert '"pac-s:pacs.safetensors"' in card
    assert "/me" not in card
    assert "my/" not in card


@pytest.mark.parametrize(
    ("best", "said"),
    [
        ({"val_pearson": 0.54321}, "- weights: the best on validation, pearson 0.543"),
        (
            {"val_pearson": None},
            "- weights: those of the last step, since validation's pearson was never defined",
        ),
        ({}, "- weights: those of the last step, which no validation came in time to choose"),
    ],
)
def test_what_chose_the_weights_is_said(best, said):
    card = model_card(
        {**REPORT, "training": {**REPORT["training"], "best_validation": best}}, "", {"image": None}
    )
    assert said in card.splitlines()
    assert "Validation chose" not in card


@pytest.mark.parametrize(
    ("facts", "said", "unsaid"),
    [
        (
            {"reads": ["image", "references"], "images": 960, "languages": {"ja": 1920}},
            (
                "reads an image where one is given; 960 of its 1,920",
                "1,920 Japanese captions, and from none in English",
            ),
            ("does not look",),
        ),
        (
            {"reads": ["image"], "images": 0, "languages": {"ja": 20, "en": 1900}},
            ("no rated training sample had one", "ratings of 20 Japanese and 1,900 English captions."),
            ("reads an image", "from none"),
        ),
        (
            {"reads": ["references"], "images": 1920, "languages": {"en": 1920}},
            ("does not look at the image", "from none in Japanese: measure it there first"),
            ("reads an image", "images="),
        ),
    ],
)
def test_card_says_what_was_learned_and_no_more(facts, said, unsaid):
    # an image encoder in the settings is not yet an image that was seen
    card = model_card({**REPORT, "data": {**REPORT["data"], **facts}}, "", {"image": {"name": "tiny"}})
    assert all(text in card for text in said)
    assert not any(text in card for text in unsaid)


@pytest.mark.parametrize(
    ("facts", "start", "said", "unsaid"),
    [
        ({"reads": ["references"], "references": 9}, None, "- References may be missing", "has no score"),
        ({"reads": ["references", "image"]}, None, "- References and image may be missing", "had references"),
        (
            {"reads": ["references", "image"], "references": 0},
            None,
            "No rated training sample had references: measure it beside them first.",
            "references=",
        ),
        ({"reads": ["references"], "references": 9}, "cosine", "or image, has no score.", "may be missing"),
    ],
)
def test_card_says_what_becomes_of_captions_that_lack_something(facts, start, said, unsaid):
    report = {**REPORT, "data": {**REPORT["data"], **facts}}
    card = model_card(report, "", {"image": {"name": "tiny"}, "head": {"start": start}})
    assert said in card
    assert unsaid not in card
    assert ('references=[["what' in card) == (facts.get("references") != 0)


def test_card_warns():
    card = model_card({**REPORT, "cautions": ["Tested on 3 samples."]}, "## Test split\n", {"image": None})
    assert card.index("> **Caution.** Tested on 3 samples.") < card.index("## Test split")


def test_card_says_when_an_image_counts_and_what_else_was_learned_from():
    facts = {"reads": ["image"], "images": 960, "support": ["jsts", "flickr8k-train"]}
    report = {**REPORT, "data": {**REPORT["data"], **facts}}
    card = model_card(report, "", {"image": {"name": "tiny"}, "head": {"start": "cosine"}})
    assert "looks at the image only where there are no references" in card
    assert "not as ratings of captions: jsts, flickr8k-train." in card
    assert "reads an image where one is given" not in card
    plain = model_card(report, "", {"image": {"name": "tiny"}, "head": {"start": None}})
    assert "only where there are no references" not in plain


def test_card_says_that_an_image_counts_beside_references_where_it_does():
    facts = {"reads": ["image"], "images": 960, "image_beside_references": True}
    report = {**REPORT, "data": {**REPORT["data"], **facts}}
    card = model_card(report, "", {"image": {"name": "tiny"}, "head": {"start": "cosine"}})
    assert "only where there are no references" not in card
    assert "reads an image where one is given" in card


def test_card_says_what_the_validation_was_against():
    training = {**REPORT["training"], "ranks": True}
    assert "pearson 0.543, against ratings mixed with their ranks" in describe_training(training)
    assert "ranks" not in describe_training(REPORT["training"])


def test_card_says_how_many_degraded_captions_were_trained_on():
    training = {**REPORT["training"], "synthetic_samples": 1234}
    assert "degraded captions, rated by rule, trained on besides: 1,234" in describe_training(training)
    assert "degraded" not in describe_training({**training, "synthetic_samples": 0})


@pytest.mark.parametrize(
    "changed",
    [
        lambda card: small_card(card, Storage("e5", None, 4, None)),
        lambda card: card_with_images(card, "ViT-B-32", [], {"head": {"start": "cosines"}, "image": {}}),
        lambda card: card_with_second(card, "e5", ["en"], ""),
        lambda card: card_with_bridge(card, "scenes"),
    ],
)
@pytest.mark.parametrize("start", ["cosine", None])
def test_an_earlier_card_s_word_on_what_may_be_missing_is_mended_where_it_is_wrong(changed, start):
    old = "References may be missing, at some loss of agreement; a candidate alone says little."
    new = "- A caption without all that the model compares it with, references or image, has no score.\n"
    now = model_card(REPORT, "", {"image": None, "head": {"start": start}})
    card = changed(now.replace(new, f"- {old}\n"))
    assert (new in card, old in card) == ((True, False) if start else (False, True))


def test_a_training_by_several_processes_says_so():
    training = REPORT["training"]
    assert ", processes 2\n" in describe_training({**training, "processes": 2})
    for one in (training, {**training, "processes": 1}):
        assert "processes" not in describe_training(one)
