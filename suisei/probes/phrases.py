"""Phrases that a caption can do without: where they begin and end, and what belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from suisei.probes.lexicon import (
    CLAUSE_WORDS,
    CLOTHES,
    MORE_VERBS,
    PREPOSITIONS,
    SOMEBODY,
    WRONG,
)
from suisei.probes.segments import Segmented, joins_looks
from suisei.probes.spans import Span, find_spans, texts
from suisei.probes.words import ABOUT_PICTURES, ARTICLES, AUXILIARIES, VERBS, word_set

_PARTICLES = word_set("が は を に で へ から まで も と")
_ADJUNCTS = word_set("に で へ から")
_JOINING = ("て", "ながら", "たり", "だり", "ば", "つつ")
"""Endings of a verb after which another clause begins."""
_ANDS = ("and", "or", "&")
_NEVER_LAST = word_set("from into onto toward towards during against at with")
"""Prepositions that want something after them; others, such as "outside", may end a caption."""
_UNFINISHED_ALONE = word_set("surrounded covered filled dressed clad made tucked lined topped")
_BEFORE_NOUNS = word_set("swim ride climb dance race skate surf")
_AFTER_VERBS = word_set(
    """trunks shorts cap caps suit suits goggles car cars park parks floor floors outfit outfits
    course courses board boards track tracks dog"""
)
"""Verbs that stand before nouns as they are, and these nouns: swim shorts, where "ride bikes" says more."""
_DONE = frozenset(
    form
    for verb in VERBS.values()
    for form in (f"{verb}ed", f"{verb.removesuffix('e')}ed", f"{verb}{verb[-1]}ed")
)
"""Past forms: "the dog chased birds" says what it did, "a snow covered hill" what the hill is like."""
_PUT_ON = word_set("put puts putting try tries trying pull pulls pulling")
_PARTS = ("top", "tops", "back")
"""Words that are no nouns elsewhere, and after which a verb says what is done: a tank top, on her back."""
_POSSESSIVES = word_set("his her its their")
_OF_A_VERB = ARTICLES | _POSSESSIVES | word_set("each to him them himself herself itself themselves")
_PARTICLES_EN = word_set("up down out off")
_WHERE_TO = word_set("over around into onto through from")
"""What stands after an English verb and hardly after the noun of a pair."""
_FAR = word_set("background foreground distance")
"""Where a picture shows things that somebody is "with"."""
_ONE = word_set("a an the one")
BOUND_AFTER_NI = (
    *("つい", "よっ", "対し", "とっ", "関し", "向かっ", "なる", "なっ", "し"),
    *("向け", "沿っ", "面し", "合わせ"),
)
"""Verbs that a phrase on に is part of, or without which it says nothing."""
_THERE_IS = ("ある", "いる", "居る")
_THERE_WAS = ("あっ", "い", "居")
"""Verbs that say nothing by themselves before a noun, the second before た: ある木, いた猫."""
_NO_NOUNS = ABOUT_PICTURES | word_set("、 ところ 様子")
"""What may follow such a verb where somebody is said before it: 猫がいる様子."""


def phrases(caption: Segmented) -> list[Span]:
    """Return the phrases that say where or with what, each with what belongs to it."""
    return _phrases_ja(caption) if caption.language == "ja" else _phrases_en(caption)


def with_joints(caption: Segmented, span: Span) -> Span:
    """Return an English span with the commas, or the "and", that would be left over without it."""
    words, start, stop = [text.lower() for text in texts(caption)], span.start, span.stop
    while joins_looks(words, start - 1):
        start -= 1
    ends = stop == len(words) or words[stop] == ","
    if start and words[start - 1] in _ANDS and (ends or words[stop] in _ANDS):
        start -= 1  # A man jumps off a dock and into the water
    if start and words[start - 1] == "," and ends:
        said = stop + 1 < len(words) and (caption.words[stop + 1].verb or words[stop + 1] in AUXILIARIES)
        start, stop = start - 1, stop + said  # A girl, in a field, plays
    return replace(span, start=start, stop=stop)


def attributes_of(caption: Segmented) -> list[Span]:
    """Return words of the list of attributes that stand before a noun."""
    spans = find_spans(caption, WRONG["attribute"][caption.language])
    following = [caption.words[s.stop] if s.stop < len(caption.words) else None for s in spans]
    return [  # ピンク of ピンク色 is no word of its own
        span
        for span, word in zip(spans, following, strict=True)
        if word is not None and word.noun and word.text != "色"
    ]


def _phrases_en(caption: Segmented) -> list[Span]:
    """Return prepositional phrases with something said before them."""
    lowered = [text.lower() for text in texts(caption)]
    found = []
    for first, word in enumerate(lowered):
        start = first
        while word in PREPOSITIONS and start and lowered[start - 1] in _NEVER_LAST:
            start -= 1  # from behind the tree
        stands_alone = start and lowered[start - 1] in AUXILIARIES  # "is in the park" says that alone
        if word not in PREPOSITIONS or stands_alone or not _says_something(caption, 0, start):
            continue
        if lowered[start - 1] in _ANDS and lowered[start - 2] in PREPOSITIONS:
            continue  # "in and around the pool" would leave "in"
        if _bound_en(lowered, start):
            continue
        plain = stop = phrase_end(caption, lowered, first)
        while stop + 1 < len(lowered) and lowered[stop] in _UNFINISHED_ALONE and not _ends(lowered, stop + 1):
            stop = phrase_end(caption, lowered, stop + 1)  # in a garden surrounded by a fence
        if stop > plain and lowered[stop : stop + 1] and lowered[stop] in _ANDS:
            continue  # which is also something else
        stop = _with_second(caption, lowered, start, stop)
        if lowered[stop : stop + 2] == ["to", "which"]:
            continue  # on the bench to which a dog is tied
        if word == "with":
            stop = _with_places(caption, lowered, start, stop)
        # A girl in water, with goggles and a cap
        goes_on = lowered[start - 1] == "," and stop < len(lowered) and lowered[stop] in _ANDS
        if _says_something(caption, first, stop) and not goes_on:
            found.append(Span(start, stop, " ".join(lowered[start:stop])))
    return found


def _bound_en(lowered: Sequence[str], start: int) -> bool:
    """Return whether an English phrase belongs to what is before it: covered in snow, puts on a shirt."""
    before = lowered[start - 1]
    return before in _UNFINISHED_ALONE or (lowered[start] == "on" and before in _PUT_ON)


def _ends(lowered: Sequence[str], place: int) -> bool:
    return place >= len(lowered) or lowered[place] in CLAUSE_WORDS


def _with_places(caption: Segmented, lowered: Sequence[str], start: int, stop: int) -> int:
    """Return where a phrase on "with" ends with where its things are: with mud on his face and hands."""
    end = _with_second(caption, lowered, start, _with_its_place(caption, lowered, stop))
    while end > stop:
        stop = end
        end = _with_second(caption, lowered, start, _with_its_place(caption, lowered, stop))
    return stop


def _with_its_place(caption: Segmented, lowered: Sequence[str], stop: int) -> int:
    """Return where the place of the thing before it ends: with shoes on, with a hat on his head."""
    word, *after = (*lowered[stop : stop + 3], "", "", "")[:3]
    if word == "on" and (_ends(lowered, stop + 1) or after[0] in AUXILIARIES | PREPOSITIONS):
        return stop + 1
    if word in ("in", "on", "around") and (after[0] in _POSSESSIVES or _FAR & {*after}):
        end = phrase_end(caption, lowered, stop)
        return stop if _does(caption, lowered, stop + 2, end) else end  # in its mouth eyes the camera
    return stop


def _with_second(caption: Segmented, lowered: Sequence[str], start: int, stop: int) -> int:
    """Return where a phrase ends with the second thing that belongs to it: in a jacket and black pants."""
    if stop + 1 >= len(lowered) or lowered[stop] not in _ANDS:
        return stop
    if caption.words[stop + 1].verb and "-" not in lowered[stop + 1]:  # snow-covered
        return stop
    end = phrase_end(caption, lowered, stop)
    if not _says_something(caption, stop, end) or _does(caption, lowered, stop + 1, end):
        return stop
    following = caption.words[end] if end < len(lowered) else None
    says = following is not None and (following.verb or lowered[end] in AUXILIARIES)
    if says and not lowered[end].endswith("ing"):  # of a girl alone says "is": with a hat and a bag is
        begun = any(word.verb or word.text.lower() in AUXILIARIES for word in caption.words[:start])
        return end if lowered[end].endswith("s") and lowered[0] in _ONE and not begun else stop
    bare = caption.words[stop + 1].content and not {*lowered[stop:end]} & SOMEBODY
    return end if bare and not says else stop


def _does(caption: Segmented, lowered: Sequence[str], start: int, end: int) -> bool:
    """Return whether English words say what is done, with a verb of no list: knocks over a vase."""
    words = lowered[start : end + 1]
    if MORE_VERBS & {*words}:
        return True
    if len(words) > 1 and end == start + 1 and words[1] in _WHERE_TO and not _ends(lowered, end + 1):
        return words[0] not in CLOTHES and words[0] not in WRONG["object"]["en"]
    return any(
        (word in _OF_A_VERB and caption.words[place - 1].content)  # writes a letter, but not deck of a boat
        or (word in _PARTICLES_EN and not _ends(lowered, place + 1))
        for place, word in enumerate(words[1:], start + 1)
    )


def phrase_end(caption: Segmented, lowered: Sequence[str], start: int) -> int:
    """Return where the English phrase that begins with a preposition ends."""
    stop = start + 1
    while stop < len(lowered):
        word = lowered[stop]
        ends = word in PREPOSITIONS or word in AUXILIARIES
        ends = ends or (word in CLAUSE_WORDS and not joins_looks(lowered, stop))
        said = lowered[start:stop]
        if word in _ANDS and "between" in said and not {*_ANDS} & {*said}:
            ends = False
        if ends or _says_what_it_does(caption, lowered, stop):
            break
        stop += 1
    return stop


def _says_what_it_does(caption: Segmented, lowered: Sequence[str], place: int) -> bool:
    """Return whether a verb stands there that is no part of a noun: not that of a snow covered hill."""
    word, before = lowered[place], lowered[place - 1]
    if not caption.words[place].verb or not (caption.words[place - 1].noun or before in _PARTS):
        return False  # "in a striped shirt" goes on
    after = caption.words[place + 1] if place + 1 < len(lowered) else None
    if after is None or not after.content or after.verb:
        return True
    if word in _BEFORE_NOUNS:
        return lowered[place + 1] not in _AFTER_VERBS
    return not word.endswith("ed") or word in _DONE  # chased birds


def _says_something(caption: Segmented, start: int, stop: int) -> bool:
    return any(word.noun for word in caption.words[start:stop])


def _phrases_ja(caption: Segmented) -> list[Span]:
    """Return phrases on に, で, へ and から, as in 公園の椅子に."""
    words = texts(caption)
    found = []
    for place, word in enumerate(words[:-1]):
        if word in _ADJUNCTS and not caption.words[place].verb:
            start = phrase_start(caption, words, place)
            bound = word == "に" and words[place + 1].startswith(BOUND_AFTER_NI)
            if (
                not (bound or _says_of_a_noun(words, start, place + 1) or _hangs_on(caption, words, start))
                and words[place + 1] not in ("は", "も", "の")
                and _says_something(caption, start, place)
            ):
                found.append(Span(start, place + 1, "".join(words[start : place + 1])))
    return found


def _says_of_a_noun(words: Sequence[str], start: int, place: int) -> bool:
    """Return whether a Japanese verb only says that there is what follows, as in 机の上にある水."""
    was = words[place] in _THERE_WAS and list(words[place + 1 : place + 2]) == ["た"]
    if not (was or words[place] in _THERE_IS):
        return False
    following = words[place + 1 + was] if place + 1 + was < len(words) else None
    if not start or (words[start - 1] == "、" and following is not None):
        return True  # 沼にいる、大きな象
    return not (following is None or following in _NO_NOUNS)


def _hangs_on(caption: Segmented, words: Sequence[str], start: int) -> bool:
    """Return whether what stands before a Japanese phrase needs its noun, as 車道と of 車道と歩道の間に."""
    if not start:
        return False
    before = words[start - 1]
    return before in ("と", "も") or (caption.words[start - 1].verb and before not in _JOINING)


def phrase_start(caption: Segmented, words: Sequence[str], place: int) -> int:
    """Return where the Japanese phrase that ends with the particle at ``place`` begins."""
    start = place
    while start and words[start - 1] not in _PARTICLES and words[start - 1] not in ("、", *_JOINING):
        if caption.words[start - 1].verb:
            break
        start -= 1
    return start
