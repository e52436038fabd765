"""What goes wrong in the candidates of the bundled sample, what that costs, and who rates it.

The rubric, in hundredths of a point on the scale from 1 to 5. A caption starts at 490.

====================================================  =====
main object called something else                      -240
other object called something else                     -170
main object not mentioned                              -160
other object not mentioned                              -45
an object that is not there                            -140
wrong colour of the main object, of another        -130, -100
wrong number                                           -100
wrong size                                              -50
wrong relation or place                                -110
wrong background                                       -100
colour, relation or background left unsaid, each        -10
a phrase repeated                                      -130
broken grammar                                         -120
====================================================  =====

The result is kept within 100 to 500. Each row is rated by three of twelve simulated raters. A rater
adds a bias of their own and noise to the rubric's value and gives the nearest of 1, 2, 3, 4, 5. A part
of the noise is common to the three, as people agree on more than any rubric says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from suisei.data.scenes import captions_en, captions_ja
from suisei.data.scenes.world import (
    BACKGROUND_WEIGHTS,
    COLOUR_WEIGHTS,
    KIND_WEIGHTS,
    OPPOSITE,
    SIZES,
    Dice,
    Mention,
    Message,
    Scene,
    describe,
    leave_out,
    new_kind,
    true_links,
    without,
)

START = 490
MAIN_RENAMED, OTHER_RENAMED, MAIN_MISSING, OTHER_MISSING = 240, 170, 160, 45
INVENTED, MAIN_COLOUR, OTHER_COLOUR, WRONG_COUNT, WRONG_SIZE = 140, 130, 100, 100, 50
WRONG_RELATION, WRONG_BACKGROUND, UNSAID, REPEATED, BROKEN = 110, 100, 10, 130, 120

RATERS = 12
BIAS, COMMON_NOISE, OWN_NOISE = 18, 32, 72
"""Standard deviations in hundredths of a point."""

GRAMMARS = {"ja": captions_ja, "en": captions_en}


def rubric(scene: Scene, message: Message, repeated: bool = False, broken: bool = False) -> int:
    """Return the rubric's value of a caption, in hundredths from 100 to 500."""
    value = START - _object_faults(scene, message) - REPEATED * repeated - BROKEN * broken
    value -= sum(_property_faults(scene, mention) for mention in message.mentions)
    value -= _relation_faults(scene, message)
    if message.background is None:
        value -= UNSAID * (scene.background != "plain")
    elif message.background != scene.background:
        value -= WRONG_BACKGROUND
    return min(500, max(100, value))


def _object_faults(scene: Scene, message: Message) -> int:
    """Objects called something else, not mentioned, or invented; the main object weighs most."""
    said = {mention.kind for mention in message.mentions}
    missing = [entity.kind for entity in scene.entities if entity.kind not in said]
    strange = sum(scene.find(kind) is None for kind in said)
    cost = 0
    for kind in missing:
        main = kind == scene.entities[0].kind
        if strange:
            cost += MAIN_RENAMED if main else OTHER_RENAMED
            strange -= 1
        else:
            cost += MAIN_MISSING if main else OTHER_MISSING
    return cost + strange * INVENTED


def _property_faults(scene: Scene, mention: Mention) -> int:
    entity = scene.find(mention.kind)
    if entity is None:
        return 0
    cost = WRONG_COUNT * (mention.count != entity.count)
    if mention.colour is None:
        cost += UNSAID
    elif mention.colour != entity.colour:
        cost += MAIN_COLOUR if entity == scene.entities[0] else OTHER_COLOUR
    return cost + WRONG_SIZE * (mention.size is not None and mention.size != entity.size)


def _relation_faults(scene: Scene, message: Message) -> int:
    figure = scene.find(message.mentions[0].kind)
    if message.place is not None:
        return WRONG_RELATION * (figure is not None and figure.region != message.place)
    if message.link is None:
        return UNSAID
    base = scene.find(message.mentions[1].kind)
    if figure is None or base is None:
        return 0
    return WRONG_RELATION * (message.link not in true_links(figure, base))


def raters(dice: Dice) -> list[int]:
    """Return the biases of the raters, in hundredths of a point."""
    return [dice.bell(BIAS) for _ in range(RATERS)]


def rate(value: int, biases: list[int], dice: Dice) -> list[int]:
    """Return three raters' integers from 1 to 5 for a caption of the given rubric value."""
    common = dice.bell(COMMON_NOISE)
    felt = (value + common + bias + dice.bell(OWN_NOISE) for bias in dice.shuffled(biases)[:3])
    return [min(5, max(1, (hundredths + 50) // 100)) for hundredths in felt]


# Each fault takes the scene, the true message, what the references do not say, and dice; it returns
# the false message, or None where the scene does not allow the fault.
Fault = Callable[[Scene, Message, "Unsaid", Dice], "Message | None"]


class Unsaid:
    """What a row's references leave out, so that only the image can tell."""

    def __init__(self, references: list[Message]) -> None:
        mentions = [mention for message in references for mention in message.mentions]
        self.kinds = {mention.kind for mention in mentions}
        self.coloured = {mention.kind for mention in mentions if mention.colour}
        self.background = all(message.background is None for message in references)

    def pick(self, message: Message, said: set[str], dice: Dice) -> int:
        """Return the position of a mention, most often of a kind that is not in ``said``."""
        positions = range(len(message.mentions))
        hidden = [n for n in positions if message.mentions[n].kind not in said]
        return dice.choice(hidden if hidden and dice.chance(85) else positions)


def _changed(message: Message, which: int, mention: Mention) -> Message:
    mentions = list(message.mentions)
    mentions[which] = mention
    return replace(message, mentions=tuple(mentions))


def _strange_kind(scene: Scene, dice: Dice) -> str:
    """A kind that is not in the scene; in three of ten cases any, else one that fits the background."""
    taken = {entity.kind for entity in scene.entities}
    if dice.chance(30):
        return dice.choice([kind for kind in KIND_WEIGHTS if kind not in taken])
    return new_kind(dice, scene.background, taken)


def wrong_object(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message:
    """Call one object something else."""
    which = unsaid.pick(message, unsaid.kinds, dice)
    return _changed(message, which, replace(message.mentions[which], kind=_strange_kind(scene, dice)))


def wrong_colour(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message:
    """Give one object another colour."""
    which = unsaid.pick(message, unsaid.coloured, dice)
    mention = message.mentions[which]
    entity = scene.find(mention.kind)
    others = {c: w for c, w in COLOUR_WEIGHTS.items() if entity is None or c != entity.colour}
    colour = dice.weighted(others) if dice.chance(70) else dice.choice(list(others))
    return _changed(message, which, replace(mention, colour=colour))


def wrong_count(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message:
    """Say another number, from 1 to 4."""
    which = unsaid.pick(message, unsaid.kinds, dice)
    mention = message.mentions[which]
    count = dice.choice([n for n in (1, 2, 3, 4) if 0 < abs(n - mention.count) <= 2])
    return _changed(message, which, replace(mention, count=count))


def wrong_size(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message | None:
    """Call something small large, or the reverse."""
    which = unsaid.pick(message, unsaid.kinds, dice)
    entity = scene.find(message.mentions[which].kind)
    if entity is None or entity.size == "normal":
        return None
    size = "large" if entity.size == "small" else "small"
    return _changed(message, which, replace(message.mentions[which], size=size))


def wrong_relation(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message | None:
    """Say a relation or place that does not hold, most often the opposite of the true one."""
    if len(message.mentions) == 1:
        place = message.place or scene.entities[0].region
        places = [p for p in ("left", "right", "centre", "top", "bottom") if p != place]
        opposite = OPPOSITE.get(place)
        return replace(message, place=opposite if opposite and dice.chance(70) else dice.choice(places))
    figure, base = (scene.find(mention.kind) for mention in message.mentions[:2])
    if figure is None or base is None:
        return None
    true = true_links(figure, base)
    if dice.chance(70):
        return replace(message, link=OPPOSITE[true[0]])
    false = [link for link in ("left", "right", "above", "below") if link not in true]
    larger = figure.count == base.count == 1 and SIZES[figure.size] < SIZES[base.size]
    return replace(message, link="larger" if larger else dice.choice(false))


def wrong_background(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message:
    """Name another background."""
    others = {name: weight for name, weight in BACKGROUND_WEIGHTS.items() if name != scene.background}
    return replace(message, background=dice.weighted(others))


def hallucinated_object(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message:
    """Mention one object more, which is not there."""
    colour = dice.weighted(COLOUR_WEIGHTS) if dice.chance(70) else None
    extra = Mention(_strange_kind(scene, dice), colour, None, dice.choice((1, 1, 1, 2)))
    if len(message.mentions) == 3:
        message = replace(message, mentions=message.mentions[:2])
    if len(message.mentions) == 1:
        link = dice.choice((None, "left", "right", "beside", "above"))
        return replace(message, mentions=(*message.mentions, extra), place=None, link=link)
    return replace(message, mentions=(*message.mentions, extra))


def missing_object(scene: Scene, message: Message, unsaid: Unsaid, dice: Dice) -> Message | None:
    """Leave out the main object."""
    kinds = [mention.kind for mention in message.mentions]
    main = scene.entities[0].kind
    return without(message, kinds.index(main)) if len(kinds) > 1 and main in kinds else None


FAULTS: dict[str, Fault] = {
    "wrong-object": wrong_object,
    "wrong-colour": wrong_colour,
    "wrong-count": wrong_count,
    "wrong-size": wrong_size,
    "wrong-relation": wrong_relation,
    "wrong-background": wrong_background,
    "hallucinated-object": hallucinated_object,
    "missing-object": missing_object,
}


def break_grammar(tokens: list[str], language: str, dice: Dice) -> list[str]:
    """Drop particles (or articles and forms of "be"), and swap neighbouring words twice."""
    dropped = captions_ja.PARTICLES if language == "ja" else captions_en.DROPPABLE
    kept = [token for token in tokens if token.lower() not in dropped or dice.chance(15)]
    end = len(kept) - (kept[-1] in ".。")
    pairs = dice.shuffled(range(max(end - 1, 0)))
    # The second pair stays clear of the first, or it could undo the swap.
    for at in [*pairs[:1], *[pair for pair in pairs[1:] if abs(pair - pairs[0]) > 1][:1]]:
        kept[at], kept[at + 1] = kept[at + 1], kept[at]
    return kept


def repeat(tokens: list[str], language: str, dice: Dice) -> list[str]:
    """Say a stretch of the caption two or three times in a row."""
    end = len(tokens) - (tokens[-1] in ".。")
    start = dice.below(max(end - 1, 1))
    stop = min(end, start + 2 + dice.below(4))
    return tokens[:start] + tokens[start:stop] * dice.choice((2, 2, 3)) + tokens[stop:]


def true_message(scene: Scene, dice: Dice, things: int) -> Message:
    """Return a true message that leaves about ``things`` facts out, but never the main object."""
    return leave_out(describe(scene, dice), dice, things, scene.entities[0].kind)
