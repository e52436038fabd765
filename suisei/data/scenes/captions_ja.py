"""Japanese captions of the bundled sample: a small grammar over tables of words.

A caption is made as a list of tokens, particles apart, so that a fault of grammar can be put in
afterwards; :func:`join` makes text of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from suisei.data.scenes.world import Dice, Mention, Message

PARTICLES = frozenset("がのにとをでは")

NOUNS = {
    "cat": "猫 猫 ネコ ねこ",
    "dog": "犬 犬 イヌ いぬ",
    "fish": "魚 魚 さかな",
    "ball": "ボール ボール 球 まり",
    "house": "家 家 家屋 おうち",
    "tree": "木 木 樹木 樹",
    "car": "車 車 自動車 くるま クルマ",
    "boat": "船 ヨット ボート 帆船",
    "cup": "カップ コップ マグカップ",
    "chair": "椅子 いす イス",
    "hat": "帽子 帽子 ハット シルクハット",
    "umbrella": "傘 傘 かさ",
    "star": "星 星 お星さま",
    "flower": "花 花 お花",
}
YOUNG = {
    "cat": "子猫 子ネコ 仔猫",
    "dog": "子犬 子イヌ 仔犬",
    "fish": "小魚",
    "boat": "小舟 小船",
}

COUNTERS = {
    "cat": "匹",
    "dog": "匹",
    "fish": "匹",
    "ball": "個 つ",
    "house": "軒",
    "tree": "本",
    "car": "台",
    "boat": "隻 艘",
    "cup": "個 つ",
    "chair": "脚 つ",
    "hat": "個 つ",
    "umbrella": "本",
    "star": "個 つ",
    "flower": "本 輪",
}
DIGITS = {1: "1 一 １", 2: "2 二 ２", 3: "3 三 ３", 4: "4 四 ４"}
NATIVE = {1: "1つ 一つ ひとつ", 2: "2つ 二つ ふたつ", 3: "3つ 三つ みっつ", 4: "4つ 四つ よっつ"}

COLOURS = {
    "red": "赤い 赤い 赤色|の 真っ赤な",
    "blue": "青い 青い 青色|の ブルー|の",
    "yellow": "黄色い 黄色い 黄色|の",
    "green": "緑|の 緑色|の グリーン|の",
    "white": "白い 白い 白色|の 真っ白な",
    "black": "黒い 黒い 真っ黒な 黒色|の",
    "pink": "ピンク|の ピンク色|の 桃色|の",
    "purple": "紫|の 紫色|の 紫色|の",
}
SIZES = {"small": "小さな 小さい 小さめの", "normal": "中くらいの", "large": "大きな 大きい 大きめの"}

LINKS = {
    "left": "左 左 左側 左隣 すぐ|左",
    "right": "右 右 右側 右隣 すぐ|右",
    "above": "上 上 上|の|方 上側 真上",
    "below": "下 下 下|の|方 下側 真下",
    "beside": "隣 横 となり そば すぐ|横",
}
PLACES = {
    "left": "左 左側 左|の|方 画面|の|左側",
    "right": "右 右側 右|の|方 画面|の|右側",
    "centre": "中央 真ん中 まんなか 画面|の|中央",
    "top": "上 上|の|方 画面|の|上側",
    "bottom": "下 下|の|方 画面|の|下側",
}

# Where things are (followed by に), what sets the scene (before a comma), and the name of the scenery.
GROUNDS = {
    "grass": "草原 野原 芝生|の|上 原っぱ",
    "sea": "海 海|の|上 海上 うみ",
    "room": "部屋 部屋|の|中 室内 へや",
    "night": "夜空|の|下 夜|の|景色|の|中 暗闇|の|中",
    "snow": "雪|の|上 雪原 雪景色|の|中",
    "plain": "灰色|の|背景 無地|の|背景 グレー|の|背景",
}
SETTINGS = {
    "grass": "草原|で 野原|で 芝生|の|上|で",
    "sea": "海|で 海|の|上|で",
    "room": "部屋|の|中|で 室内|で 部屋|で",
    "night": "夜|の|景色|の|中|で 夜空|の|下|で 夜",
    "snow": "雪|の|中|で 雪景色|の|中|で",
    "plain": "灰色|の|背景|の|前|で 無地|の|背景|の|前|で",
}
SCENERIES = {
    "grass": "草原 野原",
    "sea": "海 海|の|風景",
    "room": "部屋 室内",
    "night": "夜 夜|の|景色",
    "snow": "雪景色 雪原",
    "plain": "",
}

ANIMATE = frozenset({"cat", "dog", "fish"})

# te-forms that take いる: kind to forms, with the particle of the place and where it may be said.
ACTIONS: dict[str, tuple[tuple[str, str, str | None], ...]] = {
    "fish": (("泳いで", "で", "sea"),),
    "star": (("輝いて", "に", None), ("光って", "に", None)),
    "boat": (("浮かんで", "に", "sea"),),
    "car": (("止まって", "に", None), ("停まって", "に", None)),
    "flower": (("咲いて", "に", "grass"),),
    "tree": (("立って", "に", None), ("生えて", "に", "grass")),
    "house": (("建って", "に", None),),
    "cup": (("置かれて", "に", None), ("置いて", "に", None)),
    "chair": (("置かれて", "に", None),),
    "ball": (("置かれて", "に", "room"), ("転がって", "に", "grass")),
    "hat": (("置かれて", "に", "room"),),
}


USUAL = 70
"""In how many of 100 cases a writer takes the usual word, which stands first in each table."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A predicate in the forms that the grammar needs."""

    plain: str
    polite: str
    te: str
    particle: str = "に"


SEEN = (
    Verb("描かれている", "描かれています", "描かれていて"),
    Verb("見える", "見えます", "見え"),
    Verb("写っている", "写っています", "写っていて"),
)
BE = {True: Verb("いる", "います", "いて"), False: Verb("ある", "あります", "あり")}


def caption(message: Message, dice: Dice) -> list[str]:
    """Return the tokens of one Japanese caption of the message, its full stop included if any."""
    polite = dice.chance(30)
    if len(message.mentions) == 1:
        tokens, verbal = _single(message, dice, polite)
    elif message.link is None:
        tokens, verbal = _listing(message, dice, polite)
    else:
        tokens, verbal = _linked(message, dice, polite)
    stop = "。" in tokens or dice.chance(80 if verbal else 40)
    return [*tokens, "。"] if stop else tokens


def join(tokens: list[str]) -> str:
    """Return the tokens as running text; Japanese has no spaces."""
    return "".join(tokens)


def _word(words: str, dice: Dice) -> str:
    """Choose one of the words; ``|`` separates the tokens within a word and becomes a space."""
    options = words.split()
    return (options[0] if dice.chance(USUAL) else dice.choice(options)).replace("|", " ")


def _numeral(mention: Mention, dice: Dice) -> str:
    counter = _word(COUNTERS[mention.kind], dice)
    if counter == "つ":
        return _word(NATIVE[mention.count], dice)
    return _word(DIGITS[mention.count], dice) + counter


def _noun(mention: Mention, dice: Dice) -> str:
    """Adjectives and noun, without the number."""
    noun, size = _word(NOUNS[mention.kind], dice), mention.size
    if size == "small" and mention.kind in YOUNG and dice.chance(40):
        noun, size = _word(YOUNG[mention.kind], dice), None
    parts = [_word(SIZES[size], dice)] if size else []
    if mention.colour:
        parts.append(_word(COLOURS[mention.colour], dice))
    return " ".join([*(parts if dice.chance(75) else parts[::-1]), noun])


def _phrase(mention: Mention, dice: Dice) -> str:
    """Noun phrase with the number in front where there is more than one."""
    if mention.count > 1 or dice.chance(8):
        return f"{_numeral(mention, dice)} の {_noun(mention, dice)}"
    return _noun(mention, dice)


def _subject(mention: Mention, dice: Dice, particle: str = "が") -> str:
    """Subject of a clause; the number may float behind the particle, as Japanese prefers."""
    floats = dice.chance(65) if mention.count > 1 else dice.chance(25)
    if floats:
        return f"{_noun(mention, dice)} {particle} {_numeral(mention, dice)}"
    return f"{_phrase(mention, dice)} {particle}"


def _verb(mention: Mention, background: str | None, dice: Dice) -> Verb:
    actions = [a for a in ACTIONS.get(mention.kind, ()) if a[2] is None or a[2] == background]
    if actions and dice.chance(30):
        te, particle, _ = dice.choice(actions)
        return _progressive(te, particle)
    return BE[mention.kind in ANIMATE] if dice.chance(80) else dice.choice(SEEN)


def _progressive(te: str, particle: str) -> Verb:
    be = BE[te != "置いて"]  # 置いて takes ある
    return Verb(te + be.plain, te + be.polite, te + be.te, particle)


def _end(verb: Verb, polite: bool) -> str:
    return verb.polite if polite else verb.plain


def _picture(polite: bool, dice: Dice) -> str:
    """Tail of a caption that ends in a noun."""
    noun = dice.choice(("絵", "絵", "イラスト", "画像", "様子"))
    return f"{noun} です" if polite else dice.choice((noun, noun, f"{noun} だ"))


def _single(message: Message, dice: Dice, polite: bool) -> tuple[list[str], bool]:
    mention, ground = message.mentions[0], message.background
    verb = _verb(mention, ground, dice)
    subject, phrase = _subject(mention, dice), _phrase(mention, dice)
    # A floating number before a place reads badly, and so does a scene set in mid-sentence.
    where = _where(message, dice)
    end = _end(verb, polite)
    first = subject if "、" in where else f"{phrase} が"
    if not where:
        forms = [f"{subject} {end}", f"{phrase} の {_picture(polite, dice)}", phrase]
    else:
        forms = [
            f"{where} {verb.particle} {subject} {end}",
            f"{where} {verb.particle} {subject} {end}",
            f"{where} {verb.particle} {first} {end}"
            if "、" in where
            else f"{first} {where} {verb.particle} {end}",
            f"{where} {verb.particle} {verb.plain} {phrase}",
            f"{where} {verb.particle} {subject} {verb.plain} {_picture(polite, dice)}",
        ]
    form = dice.below(len(forms))
    return forms[form].split(), form == 0 or (bool(where) and form < 3)


def _where(message: Message, dice: Dice) -> str:
    """Background and place of a single mention, without the final particle; may be empty."""
    place = _word(PLACES[message.place], dice) if message.place else ""
    if not message.background:
        return place
    if not place:
        return _word(GROUNDS[message.background], dice)
    sideways = message.place in ("left", "right", "centre") and not place.startswith("画面")
    if sideways and message.background in ("grass", "sea", "room"):
        return f"{_word(GROUNDS[message.background], dice).split()[0]} の {place}"
    return f"{_word(SETTINGS[message.background], dice)} 、 {place}"


def _listing(message: Message, dice: Dice, polite: bool) -> tuple[list[str], bool]:
    """Several mentions without a relation between them."""
    phrases = [_phrase(mention, dice) for mention in message.mentions]
    names = dice.choice((" と ", " と ", " 、 ")).join(phrases[:-1]) + " と " + phrases[-1]
    alive = {mention.kind in ANIMATE for mention in message.mentions}
    verb = BE[alive.pop()] if len(alive) == 1 and dice.chance(60) else dice.choice(SEEN)
    ground = f"{_word(GROUNDS[message.background], dice)} に" if message.background else ""
    end = _end(verb, polite)
    form = dice.below(4)
    if form == 0 and not ground:
        return names.split(), False
    if form == 1:
        scenery = (
            _word(SCENERIES[message.background], dice) if message.background not in (None, "plain") else ""
        )
        tail = f"{scenery} の {_picture(polite, dice)}" if scenery else _picture(polite, dice)
        lead = f"{ground} " if ground and not scenery else ""
        return f"{lead}{names} が {verb.plain} {tail}".split(), False
    if form == 2 and ground:
        return f"{names} が {ground} {end}".split(), True
    return f"{ground} {names} が {end}".split(), True


def _linked(message: Message, dice: Dice, polite: bool) -> tuple[list[str], bool]:
    """Figure and base with their relation, and perhaps a third mention."""
    figure, base = message.mentions[:2]
    rest = message.mentions[2:]
    if message.link == "larger":
        clause, verbal = _compared(figure, base, message.background, polite, dice)
    else:
        clause, verbal = _placed(message, dice, polite, single=not rest)
    for mention in rest:
        verb = BE[mention.kind in ANIMATE] if dice.chance(85) else dice.choice(SEEN)
        clause += f" 。 {_also(mention, dice)} {_end(verb, polite)}"
        verbal = True
    return clause.split(), verbal


def _also(mention: Mention, dice: Dice) -> str:
    lead = dice.choice(("", "", "他に ", "ほかに ", "さらに "))
    return lead + _subject(mention, dice, "も")


def _compared(
    figure: Mention, base: Mention, ground: str | None, polite: bool, dice: Dice
) -> tuple[str, bool]:
    big = dice.choice(("大きい", "大きな"))
    lead = f"{_word(SETTINGS[ground], dice)} 、 " if ground else ""
    first, second = _phrase(figure, dice), _phrase(base, dice)
    if dice.chance(50):
        return f"{lead}{first} は {second} より 大きい{' です' if polite else ''}", True
    verb = BE[figure.kind in ANIMATE]
    return f"{lead}{second} より {big} {_subject(figure, dice)} {_end(verb, polite)}", True


def _placed(message: Message, dice: Dice, polite: bool, single: bool) -> tuple[str, bool]:
    figure, base = message.mentions[:2]
    ground = message.background
    link = _word(LINKS[message.link or "beside"], dice)
    verb = _verb(figure, ground, dice)
    end, at = _end(verb, polite), f"{link} {verb.particle}"
    lead = f"{_word(SETTINGS[ground], dice)} 、 " if ground else ""
    first = BE[base.kind in ANIMATE]
    site = f"{_word(GROUNDS[ground], dice)} に " if ground else ""
    scenery = _word(SCENERIES[ground], dice) if ground not in (None, "plain") else ""
    verbal = [
        f"{lead}{_phrase(base, dice)} の {at} {_subject(figure, dice)} {end}",
        f"{lead}{_phrase(figure, dice)} が {_phrase(base, dice)} の {at} {end}",
        f"{site}{_subject(base, dice)} {first.te} 、 その {at} {_subject(figure, dice)} {end}",
    ]
    nominal = [
        f"{lead}{_phrase(base, dice)} の {at} {verb.plain} {_phrase(figure, dice)}",
        f"{lead}{_phrase(base, dice)} と 、 その {at} {verb.plain} {_phrase(figure, dice)}",
    ]
    if scenery:
        tail = f"{scenery} の {_picture(polite, dice)}"
        nominal.append(f"{_phrase(base, dice)} の {at} {_subject(figure, dice)} {verb.plain} {tail}")
    if single and dice.chance(35):
        return dice.choice(nominal), False
    return dice.choice(verbal), True
