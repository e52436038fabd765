"""The world of the bundled sample: what a scene is, what a caption says of it, and stable chance.

A :class:`Scene` is the truth; a :class:`Message` is what one caption claims, true or not. Grammar,
rendering and rating all read these two and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

Item = TypeVar("Item")

SIZES = {"small": 13, "normal": 18, "large": 28}
"""Side of an object's square, in pixels of the 72 x 72 image."""

OPPOSITE = {
    "left": "right",
    "right": "left",
    "top": "bottom",
    "bottom": "top",
    "above": "below",
    "below": "above",
}

KIND_WEIGHTS = {
    "cat": 12,
    "ball": 10,
    "house": 9,
    "tree": 9,
    "car": 9,
    "dog": 8,
    "star": 7,
    "fish": 6,
    "boat": 5,
    "cup": 4,
    "flower": 4,
    "chair": 3,
    "hat": 3,
    "umbrella": 2,
}
"""How often a kind is drawn. Skewed on purpose: some words of the captions are common, some rare."""

COLOUR_WEIGHTS = {
    "red": 9,
    "blue": 8,
    "yellow": 7,
    "white": 6,
    "black": 5,
    "green": 5,
    "pink": 3,
    "purple": 2,
}

BACKGROUND_WEIGHTS = {"grass": 6, "room": 5, "plain": 4, "sea": 3, "night": 3, "snow": 2}

KINDS_ON = {
    "grass": ("cat", "dog", "ball", "house", "tree", "car", "flower", "hat", "umbrella", "chair", "star"),
    "room": ("cat", "dog", "ball", "cup", "chair", "hat", "umbrella", "flower", "star"),
    "plain": tuple(KIND_WEIGHTS),
    "sea": ("fish", "boat", "ball", "umbrella", "star"),
    "night": ("house", "tree", "car", "star", "cat", "dog"),
    "snow": ("house", "tree", "dog", "cat", "car", "hat", "star", "ball"),
}

REGIONS = {
    1: (("left",), ("right",), ("centre",), ("top",), ("bottom",)),
    2: (("left", "right"), ("top", "bottom")),
}


class Dice:
    """Random choices that are the same on every platform and every Python version.

    Only ``getrandbits`` of the seeded Mersenne Twister is used; how the standard library builds
    ``choice`` or ``shuffle`` on top of it may change, and does not matter here.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        """Return an integer in [0, limit), each as likely."""
        bits = max(limit - 1, 1).bit_length()
        while (value := self._random.getrandbits(bits)) >= limit:
            pass
        return value

    def chance(self, percent: int) -> bool:
        """Return true in ``percent`` of 100 cases."""
        return self.below(100) < percent

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[self.below(len(items))]

    def weighted(self, weights: dict[str, int]) -> str:
        """Return a key, as often as its weight says."""
        rest = self.below(sum(weights.values()))
        for key, weight in weights.items():
            rest -= weight
            if rest < 0:
                return key
        raise AssertionError("weights are positive")

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in random order (Fisher and Yates)."""
        order = list(items)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order

    def bell(self, deviation: int) -> int:
        """Return a roughly normal integer around 0 with the given standard deviation, at least 2."""
        spread = deviation // 2  # each of 12 uniforms on [-d/2, d/2] has variance d*d/12
        return sum(self.below(2 * spread + 1) - spread for _ in range(12))


@dataclass(frozen=True, slots=True)
class Entity:
    """One group of like objects in a scene."""

    kind: str
    colour: str
    size: str
    count: int
    region: str

    @property
    def area(self) -> int:
        """Pixels covered by the squares of all its objects."""
        return self.count * SIZES[self.size] ** 2


@dataclass(frozen=True, slots=True)
class Scene:
    """What is in an image. ``entities[0]`` is the main object: the one that covers most pixels."""

    entities: tuple[Entity, ...]
    background: str

    def find(self, kind: str) -> Entity | None:
        """Return the entity of that kind, or None."""
        return next((entity for entity in self.entities if entity.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Mention:
    """What a caption says of one group of objects; None where it leaves the property unsaid."""

    kind: str
    colour: str | None
    size: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Message:
    """What a caption claims.

    Attributes:
        mentions: one to three; a link is between the first (the figure) and the second (the base).
        link: left, right, above, below, beside, larger, or None.
        place: where the first mention is in the image, or None.
        background: one of the backgrounds, or None.
    """

    mentions: tuple[Mention, ...]
    link: str | None = None
    place: str | None = None
    background: str | None = None


def make_scene(dice: Dice) -> Scene:
    """Draw a scene of one to three groups, together one to six objects."""
    background = dice.weighted(BACKGROUND_WEIGHTS)
    groups = dice.choice((1, 2, 2, 2, 3, 3))
    regions = ("left", "right", "top") if groups == 3 else dice.choice(REGIONS[groups])
    entities: list[Entity] = []
    for region in dice.shuffled(regions):
        kind = new_kind(dice, background, {entity.kind for entity in entities})
        count = dice.choice((1, 1, 1, 2, 2, 3, 4) if groups == 1 else (1, 1, 1, 2, 3))
        if groups == 3:
            count = min(count, 2)
        sizes = ("small", "normal", "large") if count == 1 else ("small", "normal")
        entities.append(Entity(kind, dice.weighted(COLOUR_WEIGHTS), dice.choice(sizes), count, region))
    return Scene(tuple(sorted(entities, key=lambda entity: -entity.area)), background)


def new_kind(dice: Dice, background: str, taken: set[str]) -> str:
    """Return a kind that fits the background and is not taken."""
    return dice.weighted({k: KIND_WEIGHTS[k] for k in KINDS_ON[background] if k not in taken})


def true_links(figure: Entity, base: Entity) -> list[str]:
    """Return every relation that holds of ``figure`` towards ``base``."""
    links = []
    if {figure.region, base.region} == {"left", "right"}:
        links += [figure.region, figure.region, "beside"]
    elif figure.region == "top" or base.region == "bottom":
        links.append("above")
    else:
        links.append("below")
    if figure.count == base.count == 1 and SIZES[figure.size] > SIZES[base.size]:
        links.append("larger")
    return links


def describe(scene: Scene, dice: Dice) -> Message:
    """Return a message that says all: every object, colour, unusual size, a relation, the background."""
    entities = list(scene.entities)
    if len(entities) > 1 and dice.chance(50):
        entities[0], entities[1] = entities[1], entities[0]
    mentions = tuple(_mention(entity) for entity in entities)
    if len(entities) == 1:
        return Message(mentions, None, entities[0].region, scene.background)
    link = dice.choice(true_links(*entities[:2]))
    if link == "larger":  # "a big ball is bigger than a small cat" says it twice
        mentions = (*(replace(mention, size=None) for mention in mentions[:2]), *mentions[2:])
    return Message(mentions, link, None, scene.background)


def _mention(entity: Entity) -> Mention:
    return Mention(entity.kind, entity.colour, None if entity.size == "normal" else entity.size, entity.count)


def leave_out(message: Message, dice: Dice, things: int, keep: str | None = None) -> Message:
    """Return the message with about ``things`` of its facts unsaid.

    At least one mention remains, and the mention of the kind ``keep`` if there is one.
    """
    for _ in range(things):
        less = dice.choice((_less_colour, _less_mentions, _less_relation, _less_background))(message, dice)
        if keep is None or any(mention.kind == keep for mention in less.mentions):
            message = less
    return message


def overlook(scene: Scene, dice: Dice) -> Callable[[Message], Message]:
    """Choose one thing of a scene, and return what removes it from any full message about the scene."""
    what = dice.weighted(
        {"object": 6 * (len(scene.entities) > 1), "colour": 5, "relation": 2, "background": 2}
    )
    # The main object is seldom overlooked, its colour as often as another's.
    kind = dice.choice(scene.entities[1:] if what == "object" and dice.chance(80) else scene.entities).kind

    def remove(message: Message) -> Message:
        which = [mention.kind for mention in message.mentions].index(kind)
        if what == "object":
            return without(message, which)
        if what == "colour":
            mentions = list(message.mentions)
            mentions[which] = replace(mentions[which], colour=None)
            return replace(message, mentions=tuple(mentions))
        if what == "relation":
            return replace(message, link=None, place=None)
        return replace(message, background=None)

    return remove


def _less_colour(message: Message, dice: Dice) -> Message:
    which = dice.below(len(message.mentions))
    mentions = list(message.mentions)
    mentions[which] = replace(mentions[which], colour=None, size=None)
    return replace(message, mentions=tuple(mentions))


def _less_mentions(message: Message, dice: Dice) -> Message:
    if len(message.mentions) == 1:
        return _less_colour(message, dice)
    return without(message, dice.below(len(message.mentions)))


def without(message: Message, which: int) -> Message:
    """Return the message without one mention, and without the link if that mention was part of it."""
    mentions = message.mentions[:which] + message.mentions[which + 1 :]
    return replace(message, mentions=mentions, link=None if which < 2 else message.link)


def _less_relation(message: Message, dice: Dice) -> Message:
    if message.link is None and message.place is None:
        return _less_colour(message, dice)
    return replace(message, link=None, place=None)


def _less_background(message: Message, dice: Dice) -> Message:
    if message.background is None:
        return _less_colour(message, dice)
    return replace(message, background=None)
