"""English captions of the bundled sample: a small grammar over tables of words.

A caption is made as a list of tokens, so that a fault of grammar can be put in afterwards;
:func:`join` makes text of them.
"""

from __future__ import annotations

from suisei.data.scenes.world import Dice, Mention, Message

DROPPABLE = frozenset(("a", "an", "the", "is", "are", "to", "of"))

# singular/plural
NOUNS = {
    "cat": "cat/cats cat/cats kitty/kitties",
    "dog": "dog/dogs dog/dogs dog/dogs doggie/doggies",
    "fish": "fish/fish",
    "ball": "ball/balls",
    "house": "house/houses house/houses cottage/cottages",
    "tree": "tree/trees",
    "car": "car/cars car/cars automobile/automobiles",
    "boat": "boat/boats sailboat/sailboats boat/boats",
    "cup": "cup/cups mug/mugs",
    "chair": "chair/chairs",
    "hat": "hat/hats hat/hats top_hat/top_hats",
    "umbrella": "umbrella/umbrellas umbrella/umbrellas parasol/parasols",
    "star": "star/stars",
    "flower": "flower/flowers flower/flowers blossom/blossoms",
}
YOUNG = {"cat": "kitten/kittens", "dog": "puppy/puppies pup/pups"}

NUMBERS = {1: "one single", 2: "two two 2", 3: "three three 3", 4: "four four 4"}
COLOURS = {
    "red": "red red bright_red",
    "blue": "blue",
    "yellow": "yellow",
    "green": "green green dark_green",
    "white": "white",
    "black": "black",
    "pink": "pink",
    "purple": "purple purple violet",
}
SIZES = {"small": "small small little tiny", "normal": "medium-sized", "large": "large big big"}

LINKS = {
    "left": "to_the_left_of to_the_left_of on_the_left_side_of on_the_left_of",
    "right": "to_the_right_of to_the_right_of on_the_right_side_of on_the_right_of",
    "above": "above above over directly_above",
    "below": "below below under beneath underneath",
    "beside": "next_to next_to beside alongside",
}
PLACES = {
    "left": "on_the_left on_the_left_side to_the_left",
    "right": "on_the_right on_the_right_side to_the_right",
    "centre": "in_the_middle in_the_center in_the_centre",
    "top": "at_the_top in_the_upper_part",
    "bottom": "at_the_bottom in_the_lower_part",
}
GROUNDS = {
    "grass": "on_the_grass in_a_field on_a_lawn in_a_grassy_field in_a_meadow",
    "sea": "at_sea in_the_sea on_the_water in_the_ocean",
    "room": "in_a_room indoors inside_a_room in_the_room",
    "night": "at_night under_the_night_sky in_the_dark",
    "snow": "in_the_snow on_the_snow on_snowy_ground",
    "plain": "on_a_plain_background against_a_grey_background on_a_gray_background",
}
MIDDLE_OF = {"grass": "the_field", "sea": "the_sea", "room": "the_room", "snow": "the_snow"}

# singular/plural verb, and the background it needs
ACTIONS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "fish": (("is_swimming/are_swimming", "sea"), ("swims/swim", "sea")),
    "star": (("is_shining/are_shining", None), ("shines/shine", None)),
    "boat": (("is_floating/are_floating", "sea"), ("is_sailing/are_sailing", "sea")),
    "car": (("is_parked/are_parked", None),),
    "flower": (("is_growing/are_growing", "grass"), ("blooms/bloom", "grass")),
    "tree": (("stands/stand", None), ("is_standing/are_standing", None)),
    "house": (("stands/stand", None),),
    "dog": (("is_standing/are_standing", None), ("stands/stand", None)),
    "ball": (("is_lying/are_lying", "grass"),),
}
USUAL = 25
"""In how many of 100 cases a writer takes the usual word, which stands first in each table."""

SEEN = "can_be_seen is_shown/are_shown"


def caption(message: Message, dice: Dice) -> list[str]:
    """Return the tokens of one English caption of the message, its full stop included if any."""
    if len(message.mentions) == 1:
        text, sentence = _single(message, dice)
    elif message.link is None:
        text, sentence = _listing(message, dice)
    else:
        text, sentence = _linked(message, dice)
    tokens = text.replace("_", " ").split()
    style = dice.below(10)
    if style < 7 or "." in tokens:
        tokens[0] = tokens[0][0].upper() + tokens[0][1:]
    if dice.chance(80 if sentence else 40) or "." in tokens:
        tokens.append(".")
    return tokens


def join(tokens: list[str]) -> str:
    """Return the tokens as running text."""
    return " ".join(tokens).replace(" .", ".").replace(" ,", ",")


def _word(words: str, dice: Dice) -> str:
    options = words.split()
    return options[0] if dice.chance(USUAL) else dice.choice(options)


def _form(pair: str, many: bool) -> str:
    singular, _, plural = pair.partition("/")
    return plural if many and plural else singular


def _bare(mention: Mention, dice: Dice) -> str:
    """Adjectives and noun."""
    noun, size = _word(NOUNS[mention.kind], dice), mention.size
    if size == "small" and mention.kind in YOUNG and dice.chance(50):
        noun, size = _word(YOUNG[mention.kind], dice), None
    parts = [_word(SIZES[size], dice)] if size else []
    if mention.colour:
        parts.append(_word(COLOURS[mention.colour], dice))
    return " ".join([*parts, _form(noun, mention.count > 1)])


def _phrase(mention: Mention, dice: Dice) -> str:
    """Noun phrase with its article or number."""
    bare = _bare(mention, dice)
    if mention.count == 1:
        article = "an" if bare[0] in "aeiou" else "a"
        return (
            f"{_word(NUMBERS[1], dice).replace('single', 'a_single') if dice.chance(8) else article} {bare}"
        )
    if mention.count == 2 and dice.chance(15):
        return f"{dice.choice(('a_pair_of', 'a_couple_of'))} {bare}"
    return f"{_word(NUMBERS[mention.count], dice)} {bare}"


def _be(mention: Mention) -> str:
    return "are" if mention.count > 1 else "is"


def _verb(mention: Mention, background: str | None, dice: Dice) -> str:
    actions = [
        pair for pair, ground in ACTIONS.get(mention.kind, ()) if ground is None or ground == background
    ]
    if actions and dice.chance(40):
        return _form(dice.choice(actions), mention.count > 1)
    # Nothing "is at night": where only the time of day would follow, it is seen.
    return "can_be_seen" if background == "night" else _be(mention)


def _picture(dice: Dice) -> str:
    return dice.choice(("a_picture_of", "a_drawing_of", "an_image_of", "an_illustration_of"))


def _ground(message: Message, dice: Dice) -> str:
    return _word(GROUNDS[message.background], dice) if message.background else ""


def _single(message: Message, dice: Dice) -> tuple[str, bool]:
    mention = message.mentions[0]
    phrase, ground = _phrase(mention, dice), _ground(message, dice)
    place = _word(PLACES[message.place], dice) if message.place else ""
    where = f"{place} {ground}".strip() if dice.chance(60) else f"{ground} {place}".strip()
    if message.place == "centre" and message.background in MIDDLE_OF:
        where = f"{place}_of_{MIDDLE_OF[message.background]}"
    front = ground or place
    back = place if ground else ""
    if not where:
        forms = [f"there {_be(mention)} {phrase}", f"{_picture(dice)} {phrase}", phrase]
        form = dice.below(3)
        return forms[form], form == 0
    forms = [
        f"there {_be(mention)} {phrase} {where}",
        f"{phrase} {_verb(mention, message.background, dice)} {where}",
        f"{front} , there {_be(mention)} {phrase} {back}",
        f"{phrase} {_form(_word(SEEN, dice), mention.count > 1)} {where}",
        f"{phrase} {where}",
        f"{_picture(dice)} {phrase} {where}",
    ]
    form = dice.below(len(forms))
    return forms[form], form < 4


def _listing(message: Message, dice: Dice) -> tuple[str, bool]:
    """Several mentions without a relation between them."""
    phrases = [_phrase(mention, dice) for mention in message.mentions]
    names = " , ".join(phrases[:-1]) + f" and {phrases[-1]}"
    ground = _ground(message, dice)
    forms = [
        f"there {_be(message.mentions[0])} {names} {ground}",
        f"{names} can_be_seen {ground}",
        f"{ground} , there {_be(message.mentions[0])} {names}" if ground else f"the picture shows {names}",
        f"{names} {ground}",
        f"{phrases[0]} with {' and '.join(phrases[1:])} {ground}",
        f"{_picture(dice)} {names} {ground}",
    ]
    form = dice.below(len(forms))
    return forms[form], form < 3


def _linked(message: Message, dice: Dice) -> tuple[str, bool]:
    """Figure and base with their relation, and perhaps a third mention."""
    rest = message.mentions[2:]
    text, sentence = _compared(message, dice) if message.link == "larger" else _placed(message, dice)
    for mention in rest:
        phrase = _phrase(mention, dice)
        if sentence:
            also = (
                f"there {_be(mention)} also {phrase}",
                f"there {_be(mention)} {phrase} too",
                f"{phrase} {_be(mention)} there as_well",
            )
            text += f" . {_capital(dice.choice(also))}"
        else:
            text += f" , {dice.choice(('and', 'with', 'and also'))} {phrase}"
    return text, sentence


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _compared(message: Message, dice: Dice) -> tuple[str, bool]:
    figure, base = (_phrase(mention, dice) for mention in message.mentions[:2])
    bigger, ground = dice.choice(("larger than", "bigger than")), _ground(message, dice)
    be = _be(message.mentions[0])
    if dice.chance(60):
        lead = f"{ground} , " if ground else ""
        return f"{lead}{figure} {be} {bigger} {base}", True
    return f"{figure} that {be} {bigger} {base} {ground}", False


def _placed(message: Message, dice: Dice) -> tuple[str, bool]:
    figure, base = message.mentions[:2]
    link, ground = _word(LINKS[message.link or "beside"], dice), _ground(message, dice)
    first, second = _phrase(figure, dice), _phrase(base, dice)
    lead = f"{ground} , " if ground else ""
    forms = [
        f"there {_be(figure)} {first} {link} {second} {ground}",
        f"{first} {_verb(figure, message.background, dice)} {link} {second} {ground}",
        f"{lead}there {_be(figure)} {first} {link} {second}",
        f"{link} {second} {_be(figure)} {first}" + (f" {ground}" if ground else ""),
        f"{lead}{first} {_be(figure)} {link} {second}",
        f"{first} {link} {second} {ground}",
        f"{_picture(dice)} {first} {link} {second} {ground}",
    ]
    form = dice.below(len(forms))
    return forms[form], form < 5
