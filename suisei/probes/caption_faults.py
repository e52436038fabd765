"""Faults that tuning by a reward brings about: captions that break off, and things that nobody mentions.

Both are told from the text alone, by lists and by the neighbours of a word (``segments.py``), so they are
estimates: what good captions of people score by them is the level to compare with.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.metrics.base import Metric
from suisei.metrics.share import ShareMetric
from suisei.probes.lexicon import ALIKE, plural
from suisei.probes.segments import final_particle, segment, segmenter
from suisei.probes.words import word_set

_UNFINISHED = word_set(
    """a an the and or but while as that which who whose with of at from for into onto to in on between
    his its their my your our is are was were be being has have very next"""
)
"""English words that no caption ends with. Others, such as "over", "by" or "her", may end one."""

_LOOKING = word_set("look looks looking looked")
_WORN_WITHIN = 5
"""So many words before "on" a "with" may stand: a dog with a hat on."""
_PEOPLE = {
    "en": word_set(
        """person man woman boy girl child kid baby toddler guy lady adult human someone somebody
        teenager teen youth player"""
    ),
    "ja": word_set("人 男性 女性 男の子 女の子 男 女 子供 子ども こども 少年 少女 赤ちゃん 大人 若者 人々"),
}
"""Words for somebody: of these any mentions any other, for whom one takes somebody for is no thing unseen."""
_IRREGULAR = {"men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot"}
_IRREGULAR |= {"teeth": "tooth", "geese": "goose", "mice": "mouse", "leaves": "leaf", "shelves": "shelf"}
_IRREGULAR |= {"scarves": "scarf", "headscarves": "headscarf", "wolves": "wolf", "halves": "half"}
_IRREGULAR |= {"knives": "knife", "bikes": "bike", "buses": "bus", "lens": "lens", "lenses": "lens"}
_IRREGULAR |= {"tomatoes": "tomato", "potatoes": "potato", "axes": "axe"}
_IRREGULAR |= {
    f"{noun}s": noun
    for noun in word_set(
        """ski waterski bikini sari taxi kiwi khaki corgi menu tutu emu cookie movie hoodie goalie collie
        ollie zombie brownie smoothie selfie moustache mustache"""
    )
}
"""English plurals whose ending says something else."""
_ONE_ENDING = {
    "ie": "y", "oe": "o", "use": "us", "che": "ch", "xe": "x", "sse": "ss", "ive": "ife", "lve": "lf",
    "rve": "rf", "eave": "eaf", "oave": "oaf", "oove": "oof", "ieve": "ief",
}  # fmt: skip
"""Endings that a plural does not tell apart: of rookies and puppies, wives and olives, heroes and canoes."""
_COLOURS = word_set("red blue black white brown green yellow pink purple gray grey tan blond blonde")
_AMOUNTS = word_set("group crowd bunch pair couple lot set piece number 数人 グループ 複数")

_LISTS = "words.2"
"""Of English words that are nouns and that are none; counted up where these change."""
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")


class IncompleteEnding(Metric):
    """1 for a caption that breaks off: it ends in an article, a conjunction, "with", ...; else 0.

    In Japanese, one that ends in a particle. The corpus score is the share of such captions.
    """

    name = "incomplete-ending"
    reads = frozenset()
    higher_is_better = False
    largest = 1.0

    def settings(self) -> dict[str, str]:
        """Return what cuts Japanese captions, for the signature."""
        return segmenter()

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return np.array([float(breaks_off(sample.candidate, language_of(sample))) for sample in samples])


class HallucinatedNouns(ShareMetric):
    """Share of the candidate's nouns that no reference mentions, in [0, 1]; 0 where it has no noun.

    A noun is mentioned where a reference has it, its singular or plural, or a word that says the same (the
    synonyms and spellings of ``lexicon.py``); a word for somebody, where a reference has any such word. More
    references mention more. The corpus score is the share among the nouns of all captions.
    """

    name = "hallucinated-nouns"
    needs = frozenset({"references"})
    higher_is_better = False
    largest = 1.0

    def settings(self) -> dict[str, str]:
        """Return which lists tell English nouns, and what cuts Japanese captions, for the signature."""
        return {"en": _LISTS, **segmenter()}

    def counts(self, samples: Sequence[CaptionSample]) -> Iterator[tuple[int, int]]:
        """Return the numbers of nouns that are not mentioned and of nouns of each sample."""
        for sample in samples:
            language = language_of(sample)
            nouns = nouns_of(sample.candidate, language)
            yield len(unmentioned(nouns, sample.references, language)), len(nouns)


def breaks_off(caption: str, language: str) -> bool:
    """Return whether a caption ends in a word that asks for another.

    >>> breaks_off("a dog with a", "en"), breaks_off("A dog runs by.", "en")
    (True, False)
    """
    if language == "ja":
        return final_particle(caption)
    words = _WORD.findall(caption.lower())
    before = words[-1 - _WORN_WITHIN : -1]
    stays_on = words[-1:] == ["on"] and bool(before) and (before[-1] in _LOOKING or "with" in before[:-1])
    return bool(words) and words[-1] in _UNFINISHED and not stays_on


def nouns_of(caption: str, language: str) -> tuple[str, ...]:
    """Return the different nouns of a caption in lower case, English ones singular, Japanese ones in NFKC."""
    words = segment(_folded(caption) if language == "ja" else caption.replace("’", "'"), language).words
    nouns = [word.text.strip().lower() for word in words if word.noun]
    if language != "ja":
        nouns = [_singular(_owner(noun)) for noun in nouns]
    named: dict[str, str] = {}
    for noun in filter(None, nouns):
        named.setdefault(noun if language == "ja" else _key(noun), noun)
    return tuple(noun for noun in named.values() if noun not in _AMOUNTS and noun not in _COLOURS)


def unmentioned(nouns: Sequence[str], references: Sequence[str], language: str) -> list[str]:
    """Return the nouns that no reference mentions.

    >>> unmentioned(["dog", "ball"], ["two dogs play"], "en")
    ['ball']
    """
    if language == "ja":
        text = _folded("\n".join(references))
        somebody = any(word in text for word in _PEOPLE["ja"])
        return [
            noun
            for noun in nouns
            if not (somebody and noun in _PEOPLE["ja"])
            and not any(_folded(word) in text for word in (noun, *_alike(noun, "ja")))
        ]
    said = {word for reference in references for word in _words(reference)}
    text = f" {' '.join(word for reference in references for word in _spelled(reference))} "
    return [
        noun
        for noun in nouns
        if _key(noun) not in said
        and not (noun in _PEOPLE["en"] and said & _PEOPLE["en"])
        and not any(f" {word} " in text for word in _alike(noun, "en"))
    ]


def _folded(text: str) -> str:
    """Return a Japanese text with Latin letters and kana of one width and case, for Tシャツ has several."""
    return unicodedata.normalize("NFKC", text).lower()


def _spelled(caption: str) -> list[str]:
    """Return an English caption's words in lower case, of "the dog's fur" the dog's owner too."""
    return [_owner(word) for word in _WORD.findall(caption.lower().replace("’", "'"))]


def _owner(word: str) -> str:
    return word.removesuffix("'s").removesuffix("'")


@lru_cache(maxsize=4096)
def _words(caption: str) -> frozenset[str]:
    return frozenset(_key(_singular(word)) for word in _spelled(caption))


def _alike(noun: str, language: str) -> tuple[str, ...]:
    """Return the words that say the same, plurals too."""
    found = [other for lists in ALIKE.values() for other in lists[language].get(noun, ())]
    return (*found, *(plural(other) for other in found)) if language == "en" else tuple(found)


@lru_cache(maxsize=4096)
def _singular(word: str) -> str:
    """Return an English noun's singular by its ending; other words only have to change alike.

    >>> [_singular(word) for word in ("dogs", "benches", "women", "dress", "puppies", "scarves")]
    ['dog', 'bench', 'woman', 'dress', 'puppy', 'scarf']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("men") and len(word) > 4:
        return f"{word[:-3]}man"
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    plural_s = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    return word[:-1] if plural_s else word


def _key(noun: str) -> str:
    """Return what an English noun's singular and that which is made of its plural have in common.

    >>> [_key(_singular(word)) for word in ("calf", "calves", "hero", "heroes", "rookie", "rookies")]
    ['calf', 'calf', 'hero', 'hero', 'rooky', 'rooky']
    """
    for ending, common in _ONE_ENDING.items():
        if len(noun) > 3 and noun.endswith(ending):  # a toe is no "to"
            return noun.removesuffix(ending) + common
    return noun
