"""Captions cut into words that can be moved and put together again, in Japanese and English.

No model is needed. Japanese is cut by MeCab, or where that cannot be loaded at changes of script
(kanji, katakana, hiragana). What an English noun is, is guessed from its neighbours and from lists
of function words and of verbs that captions use; that is enough to choose words to degrade a caption by.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from typing import Any, NamedTuple

from suisei.metrics.tokenizers import mecab_missing, tagger
from suisei.probes.words import ABOUT_PICTURES, ING_NOUNS, LOOKS, NOT_THINGS, STOP_WORDS, SYMMETRIC, VERBS

_TAIL = re.compile(r"\s*[.。．｡!?！？…]*\s*$")
_CONTRACTION = re.compile(r".*(?:n't|'(?:re|m|ll|ve|d))|(?:it|that|there|he|she|what|who|here)'s")
_ENGLISH = re.compile(r"['’]?[^\W_]+(?:(?:['’\-]|(?<=\d)[.,:](?=\d))[^\W_]+)*|[^\w\s]+|_+")
_SPACED = (
    (re.compile(r"\s(?=[,;:.!?%)\]}”]+[\"']?(?:\s|$))"), ""),
    (re.compile(r"(?<=[(\[{“$£€#])\s"), ""),
    (re.compile(r'"\s([^"]*?)\s"'), r'"\1"'),
    (re.compile(r"(?<=s)\s(['’])(?=\s)"), r"\1"),
    (re.compile(r"(?<=\w)\s/\s(?=\w)"), "/"),
)
"""Spaces beside marks that stand alone in tokenized text, and what takes their place in other text."""
_QUOTES, _ALONE = 2, re.compile(r'(?:^|\s)"\s')
"""Which of them are quotes, and by what such text is known: what lies between two quotes need not be one."""
_JOINING = frozenset(("で", "に", "な"))
"""Forms of だ that join what is before to what follows: 静かで, 猫のように, きれいな."""
_CLOSING = frozenset(("など", "だけ", "のみ", "ばかり", "ほど", "くらい", "ぐらい", "か"))
"""Particles with which a caption may end: 犬と猫など."""
_JOINTS = frozenset(("and", "or", "&", ","))
_SCRIPTS = re.compile(
    r"[\u3005\u3400-\u9fff\uf900-\ufaff]+|[\u30a0-\u30ff\uff66-\uff9f]+|[\u3040-\u309f]+"
    r"|[A-Za-z]+|[0-9０-９]+|\s+|."
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One word.

    Attributes:
        text: as it stands in the caption.
        content: whether it says what is there, rather than how words belong together.
        noun: whether it names a thing.
        verb: whether it is a verb, auxiliaries included.
    """

    text: str
    content: bool = False
    noun: bool = False
    verb: bool = False


@dataclass(frozen=True, slots=True)
class Segmented:
    """A caption's words, and what they are put together with.

    Attributes:
        words: the segments, without final punctuation.
        tail: final punctuation with the space before it, kept where it is.
        language: "ja" or "en".
        capital: whether the caption began with a capital that its place gave it.
        spaced: which marks, by the number of their rule, stand alone as in tokenized text ("a man , who").
    """

    words: tuple[Segment, ...]
    tail: str
    language: str
    capital: bool = False
    spaced: tuple[int, ...] = ()

    def join(self, words: Sequence[str]) -> str:
        """Return a caption of these words in this caption's style."""
        if self.language == "ja":
            return "".join(words) + self.tail
        text = " ".join(words)
        for number, (marks, glued) in enumerate(_SPACED):
            if number not in self.spaced:
                text = marks.sub(glued, text)
        if self.capital and text:
            text = text[0].upper() + text[1:]
        return text + self.tail


@lru_cache(maxsize=4096)
def segment(caption: str, language: str) -> Segmented:
    """Cut a caption into words.

    Args:
        caption: the text.
        language: "ja" or "en".
    """
    found = _TAIL.search(caption)
    cut = found.start() if found else len(caption)
    body, tail = caption[:cut].strip(), caption[cut:]
    if language == "ja":
        return Segmented(tuple(_japanese(body)), tail, "ja")
    texts = _ENGLISH.findall(body)
    capital = bool(texts) and texts[0].istitle() and (texts[0].lower() in STOP_WORDS or len(texts) > 1)
    if capital and texts[0] != "I":
        texts[0] = texts[0][0].lower() + texts[0][1:]
    told = [_ALONE if number == _QUOTES else marks for number, (marks, _) in enumerate(_SPACED)]
    spaced = tuple(number for number, marks in enumerate(told) if marks.search(body))
    return Segmented(tuple(_english(texts)), tail, "en", capital, spaced)


def segmenter() -> dict[str, str]:
    """Return what cuts Japanese captions here, for signatures: without MeCab, changes of script."""
    return {"ja": "script" if mecab_missing() else f"mecab-unidic-lite-{version('unidic-lite')}"}


def final_particle(caption: str) -> bool:
    """Return whether a Japanese caption ends in a particle that joins it to a word that is not there.

    Particles that end sentences (よ, ね) or a list (など) are none of these. Without MeCab only を, が and は
    count, which end hardly any word.
    """
    body = _TAIL.sub("", caption).rstrip("、, \u3000")
    if not body:
        return False
    if mecab_missing():
        return body.endswith(("を", "が", "は"))
    last = _cut(body)[-1]
    kind, detail = last.feature[:2]
    if kind == "助動詞":  # MeCab takes the で of 公園で, where nothing follows, for a form of だ
        return last.surface in _JOINING
    return kind == "助詞" and detail != "終助詞" and last.surface not in _CLOSING


def swappable(caption: Segmented) -> list[tuple[int, int]]:
    """Return pairs of positions whose words, exchanged, say something else.

    Two different nouns that are not merely listed ("a man and a woman" stays as true the other way
    round), nor colours that are ("a brown and white dog"); where there is no such pair, two different
    content words.
    """
    lowered = [word.text.lower() for word in caption.words]
    for wanted in ("noun", "content"):
        places = [n for n, word in enumerate(caption.words) if getattr(word, wanted)]
        if wanted == "noun":
            places = [n for n in places if not (lowered[n] in LOOKS and joins_looks(lowered, n + 1))]
        pairs = [(a, b) for a, b in combinations(places, 2) if _matters(caption, a, b)]
        if pairs:
            return pairs
    return []


def _matters(caption: Segmented, first: int, second: int) -> bool:
    a, b = (caption.words[place].text.lower() for place in (first, second))
    between = {word.text.lower() for word in caption.words[first + 1 : second]}
    return a != b and (not between or not between <= SYMMETRIC[caption.language])


def _english(texts: Sequence[str]) -> list[Segment]:
    lowered = [text.lower() for text in texts]
    content = [
        _is_content(word) and (before, word) != ("as", "well")
        for before, word in zip(("", *lowered), lowered, strict=False)
    ]
    segments = []
    for place, (text, word) in enumerate(zip(texts, lowered, strict=True)):
        verb = content[place] and _is_verb(word, lowered[place - 1] if place else "")
        following = place + 1 < len(texts) and content[place + 1]
        described = following and not _is_verb(lowered[place + 1], word)
        thing = not (verb or described or word.endswith("ly") or word in ABOUT_PICTURES)
        noun = content[place] and thing
        segments.append(Segment(text, content[place], noun, verb))
    return segments


def joins_looks(lowered: Sequence[str], place: int) -> bool:
    """Return whether an English "and" or comma stands between words for looks: red , white and blue."""
    if not 0 < place < len(lowered) or lowered[place] not in _JOINTS:
        return False
    before = next((word for word in reversed(lowered[:place]) if word not in _JOINTS), "")
    after = next((word for word in lowered[place + 1 :] if word not in _JOINTS), "")
    return before in LOOKS and after in LOOKS


def _is_content(word: str) -> bool:
    plain = word.replace("’", "'")
    return word[0].isalpha() and word not in STOP_WORDS and not _CONTRACTION.fullmatch(plain)


def _is_verb(word: str, before: str) -> bool:
    """Guess by list and ending ("runs", "running", "dressed", "is shown"); after an article it is none."""
    if before in ("a", "an", "the"):
        return False
    if word in ING_NOUNS:
        return False
    after_be = before in ("is", "are", "was", "were", "be", "being", "not")
    ending = word.endswith("ing") or (word.endswith("ed") and len(word) > 4)
    return word in VERBS or ending or (after_be and word.endswith("n"))


def _japanese(text: str) -> list[Segment]:
    if mecab_missing():
        return _by_script(text)
    segments: list[Segment] = []
    for node in _cut(text):
        kind, detail, usage = node.feature[:3]
        named = kind == "名詞" and detail in ("普通名詞", "固有名詞")
        noun = named and usage != "副詞可能" and node.surface not in NOT_THINGS
        verb = kind in ("動詞", "助動詞")
        content = named or kind in ("形容詞", "形状詞") or (kind == "動詞" and detail == "一般")
        suffix = kind == "接尾辞" and detail == "名詞的"
        if (noun or suffix) and segments and segments[-1].noun and not node.white_space:  # ノート + パソコン
            segments[-1] = Segment(segments[-1].text + node.surface, content=True, noun=True)
            continue
        segments.append(Segment(node.white_space + node.surface, content, noun, verb))
    return segments


class _Node(NamedTuple):
    """A word as MeCab tells it: its text, the space before it, and the first fields of its feature."""

    surface: str
    white_space: str
    feature: tuple[str, ...]


def _cut(text: str) -> list[_Node]:
    """Return a text's words, copied: the nodes of MeCab live in its memory until the next call."""
    tagger, lock = _tagger()
    with lock:
        return [_Node(node.surface, node.white_space, tuple(node.feature[:3])) for node in tagger(text)]


@lru_cache(maxsize=1)
def _tagger() -> tuple[Any, threading.Lock]:
    return tagger(), threading.Lock()


def _by_script(text: str) -> list[Segment]:
    """Cut where the script changes; long runs of hiragana are cut in twos, like words of a text of kana."""
    segments: list[Segment] = []
    for run in _SCRIPTS.findall(text):
        hiragana = "\u3040" <= run[0] <= "\u309f"
        content = not hiragana and (run[0].isalpha() or run[0] == "々") and run not in NOT_THINGS
        pieces = [run[n : n + 2] for n in range(0, len(run), 2)] if hiragana else [run]
        segments += [Segment(piece, content, noun=content, verb=hiragana) for piece in pieces]
    if sum(word.content for word in segments) >= 2:
        return segments
    # Little but kana: any two pieces may change places.
    return [Segment(word.text, word.text[0].isalpha(), word.noun, word.verb) for word in segments]
