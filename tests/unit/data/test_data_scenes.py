"""The bundled sample: the same bytes from the same seed, valid, balanced, and rated as written."""

import io
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import pearsonr, spearmanr

from suisei.data.sample import CaptionSample, Rating, detect_language
from suisei.data.scenes import __main__ as scenes
from suisei.data.scenes import captions_en, captions_ja
from suisei.data.scenes.faults import FAULTS, Unsaid, break_grammar, rate, repeat, rubric
from suisei.data.scenes.render import INDEX, SIDE, encode_png, render
from suisei.data.scenes.world import (
    KIND_WEIGHTS,
    Dice,
    Entity,
    Mention,
    Message,
    Scene,
    describe,
    make_scene,
    overlook,
    true_links,
)

SHIPPED = Path(__file__).parents[3] / "data" / "scenes"
CAT, CAR = Entity("cat", "red", "large", 1, "left"), Entity("car", "blue", "small", 2, "right")
PAIR = Scene((CAT, CAR), "grass")
TRUE = Message((Mention("cat", "red", "large", 1), Mention("car", "blue", "small", 2)), "left", None, "grass")


@pytest.fixture(scope="module")
def rows():
    return [
        json.loads(line) for line in (SHIPPED / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def mean_rating(row):
    return sum(row["rating"]) / len(row["rating"])


def test_regenerating_gives_every_shipped_byte(tmp_path):
    scenes.write(tmp_path, seed=0)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shipped = {path.relative_to(SHIPPED): path.read_bytes() for path in SHIPPED.rglob("*") if path.is_file()}
    del shipped[Path("README.md")]
    assert made == shipped


def test_another_seed_gives_another_sample():
    assert scenes.generate(1)[0][0] != scenes.generate(0)[0][0]


def test_shipped_folder_is_at_most_two_megabytes():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) <= 2_000_000


def test_every_row_is_a_rated_sample(rows):
    for row in rows:
        rating = Rating(tuple(row["rating"]), *row["rating_scale"])
        assert len(rating.values) == 3
        assert all(isinstance(value, int) and 1 <= value <= 5 for value in row["rating"])
        sample = CaptionSample(
            row["candidate"], row["references"], SHIPPED / row["image"], rating, row["language"],
            row["system"], row["group"], row["id"],
        )  # fmt: skip
        assert detect_language(sample.candidate) == row["language"]
        assert len({row["candidate"], *row["references"]}) == 3
        assert (SHIPPED / row["image"]).is_file()


def test_ids_are_unique_and_rows_stand_in_their_order(rows):
    ids = [row["id"] for row in rows]
    assert ids == sorted(set(ids))


def test_a_group_is_one_image(rows):
    images = defaultdict(set)
    groups = defaultdict(set)
    for row in rows:
        images[row["group"]].add(row["image"])
        groups[row["image"]].add(row["group"])
    assert {len(found) for found in [*images.values(), *groups.values()]} == {1}
    assert len(images) == scenes.SCENES


def test_no_two_images_are_the_same(rows):
    drawn = [(SHIPPED / name).read_bytes() for name in {row["image"] for row in rows}]
    assert len(set(drawn)) > 0.97 * len(drawn)


def test_languages_are_balanced_in_number_and_rating(rows):
    ratings = defaultdict(list)
    for row in rows:
        ratings[row["language"]].append(mean_rating(row))
    assert len(ratings["ja"]) == len(ratings["en"]) == len(rows) / 2
    assert abs(np.mean(ratings["ja"]) - np.mean(ratings["en"])) < 0.1


def test_faithful_is_rated_above_every_fault(rows):
    ratings = defaultdict(list)
    for row in rows:
        ratings[row["system"]].append(mean_rating(row))
    means = {system: np.mean(values) for system, values in ratings.items()}
    assert set(means) == set(scenes.SYSTEM_WEIGHTS)
    assert max(means, key=means.get) == "faithful"
    assert min(means, key=means.get) == "other-scene"
    assert all(means["partial"] > means[system] for system in means if system not in ("faithful", "partial"))


def test_order_says_nothing_of_the_rating(rows):
    ratings = [mean_rating(row) for row in rows]
    assert abs(spearmanr(range(len(rows)), ratings).statistic) < 0.06
    scene_numbers = [int(row["group"].split("-")[1]) for row in rows]
    assert abs(spearmanr(scene_numbers, ratings).statistic) < 0.06


def test_length_says_little_of_the_rating(rows):
    for language in ("ja", "en"):
        chosen = [row for row in rows if row["language"] == language]
        lengths = [len(row["candidate"]) for row in chosen]
        assert abs(pearsonr(lengths, [mean_rating(row) for row in chosen]).statistic) < 0.15


def test_raters_agree_about_as_people_do(rows):
    ratings = np.array([row["rating"] for row in rows], dtype=float)
    agreement = [pearsonr(ratings[:, n], np.delete(ratings, n, axis=1).mean(1)).statistic for n in range(3)]
    assert 0.70 < np.mean(agreement) < 0.80


def test_word_overlap_helps_but_does_not_suffice(rows):
    chosen = [row for row in rows if row["language"] == "en"]
    overlaps = [
        max(overlap(row["candidate"], reference) for reference in row["references"]) for row in chosen
    ]
    assert 0.40 < pearsonr(overlaps, [mean_rating(row) for row in chosen]).statistic < 0.65


def overlap(candidate, reference):
    first, second = (Counter(re.findall(r"\w+", text.lower())) for text in (candidate, reference))
    return 2 * sum((first & second).values()) / (sum(first.values()) + sum(second.values()))


def test_images_decode_at_the_stated_size(rows):
    for name in {row["image"] for row in rows}:
        with Image.open(SHIPPED / name) as image:
            assert image.size == (SIDE, SIDE)
            assert image.mode == "P"
            image.load()


def test_png_decodes_to_the_drawn_pixels():
    pixels = render(PAIR)
    decoded = np.asarray(Image.open(io.BytesIO(encode_png(pixels))))
    np.testing.assert_array_equal(decoded, pixels)


def test_objects_are_drawn_in_their_colour_and_place():
    pixels = render(PAIR)
    half = SIDE // 2
    assert (pixels[:, :half] == INDEX["red"]).sum() > 100
    assert (pixels[:, half:] == INDEX["blue"]).sum() > 50
    assert not (pixels[:, half:] == INDEX["red"]).any()


@pytest.mark.parametrize("kind", KIND_WEIGHTS)
def test_each_kind_looks_different(kind):
    images = {
        k: render(Scene((Entity(k, "red", "large", 1, "centre"),), "plain")).tobytes() for k in KIND_WEIGHTS
    }
    assert sum(image == images[kind] for image in images.values()) == 1


def test_dice_follow_the_seed_and_stay_in_range():
    first, second = Dice(3), Dice(3)
    values = [first.below(7) for _ in range(700)]
    assert values == [second.below(7) for _ in range(700)]
    assert set(values) == set(range(7))
    assert {Dice(0).below(1)} == {0}
    assert sorted(first.shuffled("abcdef")) == list("abcdef")


def test_bell_has_about_the_asked_deviation():
    dice = Dice(0)
    values = [dice.bell(60) for _ in range(4000)]
    assert abs(np.mean(values)) < 4
    assert 55 < np.std(values) < 65


def test_relations_are_read_off_the_scene():
    assert set(true_links(CAT, CAR)) == {"left", "beside"}
    assert set(true_links(CAR, CAT)) == {"right", "beside"}
    top = replace(CAR, region="top", count=1)
    assert set(true_links(top, CAT)) == {"above"}
    assert set(true_links(CAT, top)) == {"below", "larger"}


def facts(message):
    colours = {(mention.kind, mention.colour) for mention in message.mentions}
    return {message.background, "where" if message.link or message.place else "nowhere", *colours}


def test_one_thing_is_overlooked_in_every_description():
    dice = Dice(6)
    for _ in range(60):
        scene = make_scene(dice)
        remove = overlook(scene, dice)
        full = [describe(scene, dice) for _ in range(6)]
        missed = [facts(message) - facts(remove(message)) for message in full]
        assert set.intersection(*missed)


def test_main_object_comes_first():
    dice = Dice(5)
    for _ in range(50):
        areas = [entity.area for entity in make_scene(dice).entities]
        assert areas == sorted(areas, reverse=True)


@pytest.mark.parametrize(
    ("message", "cost"),
    [
        (TRUE, 0),
        (replace(TRUE, link="beside"), 0),
        (replace(TRUE, background=None), 10),
        (replace(TRUE, background="sea"), 100),
        (replace(TRUE, link="right"), 110),
        (replace(TRUE, mentions=(Mention("dog", "red", None, 1), TRUE.mentions[1])), 240),
        (replace(TRUE, mentions=(TRUE.mentions[0], Mention("dog", "blue", None, 2))), 170),
        (replace(TRUE, mentions=(*TRUE.mentions, Mention("dog", None, None, 1))), 140),
        (replace(TRUE, mentions=(Mention("cat", "blue", None, 1), TRUE.mentions[1])), 130),
        (replace(TRUE, mentions=(Mention("cat", None, "small", 1), TRUE.mentions[1])), 60),
        (replace(TRUE, mentions=(TRUE.mentions[0], Mention("car", "red", None, 3))), 200),
        (replace(TRUE, mentions=TRUE.mentions[1:], link=None), 170),
        (replace(TRUE, mentions=TRUE.mentions[:1], link=None), 55),
    ],
)
def test_rubric_takes_off_what_is_written(message, cost):
    assert rubric(PAIR, message) == 490 - cost


def test_rubric_stays_on_the_scale():
    nonsense = Message(
        tuple(Mention(kind, "pink", None, 4) for kind in ("hat", "cup", "dog")), "above", None, "sea"
    )
    assert rubric(PAIR, nonsense, repeated=True, broken=True) == 100


def test_every_fault_lowers_the_rubric():
    dice = Dice(9)
    for _ in range(60):
        scene = make_scene(dice)
        message = describe(scene, dice)
        for name, fault in FAULTS.items():
            false = fault(scene, message, Unsaid([message]), dice)
            assert false is None or rubric(scene, false) < rubric(scene, message), (name, scene, false)


def test_ratings_follow_the_rubric():
    dice = Dice(2)
    low, high = ([rate(value, [0] * 12, dice) for _ in range(200)] for value in (150, 450))
    assert np.mean(low) < 2.1 < 4 < np.mean(high)
    assert {value for ratings in low + high for value in ratings} <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize(("language", "grammar"), [("ja", captions_ja), ("en", captions_en)])
def test_a_caption_of_all_names_every_object_and_colour(language, grammar):
    for seed in range(40):
        text = grammar.join(grammar.caption(TRUE, Dice(seed))).lower()
        words = {
            "ja": ("猫|ネコ|ねこ", "車|クルマ|くるま", "赤", "青|ブルー", "2|２|二"),
            "en": ("cat|kitty", "car|automobile", "red", "blue", "two|2|pair|couple"),
        }[language]
        assert all(re.search(word, text) for word in words), text
        assert not re.search(r"[|_{}]|None|  | [.,]", text), text


def test_captions_vary():
    for grammar in (captions_ja, captions_en):
        assert len({grammar.join(grammar.caption(TRUE, Dice(seed))) for seed in range(100)}) > 80


def test_english_agrees_in_number():
    two = Message((Mention("boat", None, None, 2),))
    texts = [captions_en.join(captions_en.caption(two, Dice(seed))) for seed in range(60)]
    assert all(re.search(r"boats", text) and " is " not in text for text in texts)
    one = Message((Mention("umbrella", None, None, 1),))
    texts = [captions_en.join(captions_en.caption(one, Dice(seed))) for seed in range(60)]
    assert not any(re.search(r"\ba umbrella", text) for text in texts)


def test_japanese_verb_fits_the_subject():
    for kind, wrong in (("cat", "ある|あります"), ("cup", "いる。|います。")):
        message = Message((Mention(kind, None, None, 1),), background="grass")
        plain = [captions_ja.join(captions_ja.caption(message, Dice(seed))) for seed in range(60)]
        assert not [text for text in plain if re.search(f"(が|個|つ|匹)({wrong})$", text)]


def test_broken_grammar_and_repetition_change_the_caption():
    tokens = ["猫", "が", "車", "の", "左", "に", "いる", "。"]
    assert set("がのに") - set(break_grammar(tokens, "ja", Dice(0)))
    repeated = repeat(tokens, "ja", Dice(0))
    assert len(repeated) > len(tokens)
    assert repeated[-1] == "。"


def test_command_writes_the_sample(tmp_path, capsys):
    assert scenes.main(["--out", str(tmp_path), "--seed", "4"]) == 0
    assert len(list((tmp_path / "images").iterdir())) == scenes.SCENES
    assert str(tmp_path) in capsys.readouterr().out
