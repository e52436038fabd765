"""What is omitted of a caption: a phrase with all that belongs to it, and nothing else."""

import pytest

from tests.unit.probes.changed import every


@pytest.mark.parametrize(
    ("caption", "among"),
    [
        ("A girl, in a green field, plays soccer.", {"A girl plays soccer."}),
        ("A girl, in a green field, is here.", {"A girl is here."}),
        ("a man , in a field , and a dog", {"a man , and a dog"}),
        ("A dog runs, with a ball.", {"A dog runs."}),
        ("A dog runs, with a ball near a lake.", {"A dog runs, near a lake.", "A dog runs, with a ball."}),
        ("A girl in a blue and yellow coat is on a sledge .", {"A girl is on a sledge ."}),
        ("a cat in a small, red and white box waits", {"a cat waits"}),
        ("a man in red and a woman", {"a man and a woman"}),
        ("big , brown dogs", {"big dogs"}),
        ("a red , white , and blue flag", {"a red , white flag"}),
        ("a man with a red , white , and blue flag", {"a man"}),
        ("a red and white hat", {"a red hat"}),
        ("A seal slides off of a rock and into the waves .", {"A seal slides off of a rock ."}),
        (
            "A clown holds a parrot and with four acrobats and a juggler",
            {"A clown holds a parrot and a juggler"},
        ),
        (
            "A diver in mud , with goggles and a rubber hood .",
            {"A diver , with goggles and a rubber hood ."},
        ),
    ],
)
def test_nothing_is_left_of_an_english_phrase_that_is_omitted(caption, among):
    made = every(caption, "omit", "en")
    assert among <= made
    left = (",,", ", ,", "and shirt", ",.", "and .", "and and", ", and a cap")
    assert not {text for text in made if any(each in text for each in left)}


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a cat peers from behind the tree", {"a cat peers"}),
        ("a dog runs outside in the grass", {"a dog runs outside"}),
        ("an owl sits in front of a painted moon", {"an owl sits"}),
        ("A dog runs through a snow covered field .", {"A dog runs ."}),
        ("A boy in his swim shorts smiles", {"A boy smiles"}),
        (
            "A nurse in a rain coat stands by a well .",
            {"A nurse stands by a well .", "A nurse in a rain coat stands ."},
        ),
        ("A dog runs in a garden surrounded by a fence .", {"A dog runs ."}),
        ("a girl walks over a bridge covered in snow and surrounded by trees", set()),
        ("a boy covered in suds", set()),
        ("a man puts on his shirt", set()),
        ("a man lays on a bench to which a dog is tied", set()),
        ("A man jumps with his shoes on .", {"A man jumps ."}),
        ("a cat sits between a dog and a bird", set()),
        ("a man sits in a car between a bus and a truck", {"a man sits"}),
        ("A sailor in a green scarf and white boots is here .", {"A sailor is here ."}),
        ("A woman in shorts and a white shirt is here .", {"A woman is here ."}),
        ("a man sits on a bench and a woman is here", {"a man sits and a woman is here"}),
        ("dogs stand in the grass and birds fly", {"dogs stand and birds fly"}),
        ("A dog runs through the grass and flowers .", {"A dog runs ."}),
    ],
)
def test_what_belongs_together_is_omitted_together(caption, expected):
    assert every(caption, "omit", "en") == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("Two men in uniform ride horses .", {"Two men ride horses ."}),
        ("The dog on the beach chased birds .", {"The dog chased birds ."}),
        (
            "A bear finds a tree in the valley and tries to pull himself up .",
            {"A bear finds a tree and tries to pull himself up ."},
        ),
        (
            "A monkey stands on the edge of a shelf and knocks over a vase .",
            {
                "A monkey stands and knocks over a vase .",
                "A monkey stands on the edge of a shelf and knocks .",
            },
        ),
        (
            "The two guys in jeans and winter hats hand out flyers .",
            {"The two guys and winter hats hand out flyers ."},
        ),
        ("A man stands on a ledge and casts his rod .", {"A man stands and casts his rod ."}),
        (
            "A person sits in the shade and drinks from a cup .",
            {"A person sits and drinks from a cup .", "A person sits in the shade and drinks ."},
        ),
    ],
)
def test_what_is_done_is_not_omitted_with_a_phrase(caption, expected):
    assert every(caption, "omit", "en") == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A clown with a painted nose and something in his hat is here .", "A clown is here ."),
        ("The nun with a grey cloak and slippers on is here .", "The nun is here ."),
        ("A nurse with flour on her nose and jam on her apron .", "A nurse ."),
        ("A dog runs with trees in the background .", "A dog runs ."),
        ("A nurse with a parrot on her hat walks away .", "A nurse walks away ."),
        (
            "A dog runs through water with trees and branches around .",
            "A dog runs with trees and branches around .",
        ),
    ],
)
def test_things_that_somebody_is_with_are_omitted_with_their_places(caption, expected):
    assert expected in every(caption, "omit", "en")
    assert not any(
        text.startswith(("A clown in his", "The nun on", "A nurse on"))
        for text in every(caption, "omit", "en")
    )


@pytest.mark.parametrize(
    ("caption", "swallowed"),
    [
        ("A fox with a stick in its mouth eyes the hunter .", "A fox ."),
        ("A cook with flour on his sleeves protects a cake from others .", "A cook from others ."),
    ],
)
def test_what_somebody_does_is_not_omitted_with_the_place_of_a_thing(caption, swallowed):
    assert swallowed not in every(caption, "omit", "en")


def test_a_pair_without_end_is_omitted_as_far_as_it_goes():
    caption = "a man with a hat and " + " and ".join(["hat"] * 1100)
    assert every(caption, "omit", "en") == {"a man"}


@pytest.mark.parametrize(
    "caption",
    [
        "鳥が庭の隅にある実をついばんでいます。",
        "屋根に居る鳥が鳴く",
        "猫が庭にいた犬を見る",
        "海に面した一室が見える",
        "木々に沿ってバスが走る",
        "海に向けて、子供が旗を振っている",
        "溝に合わせて人が進む",
    ],
)
def test_what_a_japanese_verb_needs_is_not_omitted(caption):
    assert every(caption, "omit", "ja") == set()


def test_there_is_may_stand_before_a_view_or_at_the_end():
    assert every("小屋が丘の上にある風景です。", "omit", "ja") == {"小屋がある風景です。"}
    assert every("猫が庭にいるところ", "omit", "ja") == {"猫がいるところ"}
    assert every("男性が、店の前にいる", "omit", "ja") == {"男性が、いる"}


def test_there_is_alone_does_not_stand_before_a_japanese_noun():
    assert every("2匹の猫の上にある家", "omit", "ja") == set()
    assert every("海で、ボールと、その上にある赤い星", "omit", "ja") == {"海で、ボールと、その上にある星"}
    assert every("家が猫の上にある", "omit", "ja") == {"家がある"}
