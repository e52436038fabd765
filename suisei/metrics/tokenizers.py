"""Tokenizers for the metrics that compare words, and the choice between them by language.

No public code fixes how Japanese captions are cut for n-gram metrics, and the choice moves every
figure, so the tokenizer, with its version, is part of each metric's signature.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics import java, ptb

Tokens = tuple[str, ...]


class Tokenizer(ABC):
    """Cuts captions into tokens; a token holds no white space.

    Attributes:
        name: what :func:`get_tokenizer` knows it by.
        signature: name and versions, for metric signatures.
    """

    name: str
    signature: str
    warning: str | None = None
    """Told once per process when the first Japanese caption is met, or None."""

    def __call__(self, text: str, language: str | None = None) -> list[str]:
        """Return the tokens of one caption; ``language`` is "ja", "en" or None (detected)."""
        return list(self.many([(text, language)])[0])

    @abstractmethod
    def many(self, captions: Sequence[tuple[str, str | None]]) -> list[Tokens]:
        """Return the tokens of each (text, language), in order."""

    def _warn_of_japanese(self, captions: Sequence[tuple[str, str | None]]) -> None:
        if self.warning and any((language or detect_language(text)) == "ja" for text, language in captions):
            _warn_once(self.warning)


MECAB_PACKAGES = "fugashi unidic-lite"
"""What pip installs for MeCab; a plain install of suisei brings them."""
KNOWN_CAPTIONS = 1 << 13
LONGEST_KNOWN = 1000
"""How many captions' tokens are remembered, and up to how many characters: references come again."""


_ENGLISH_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")


class _Plain(Tokenizer):
    """A tokenizer made of one function, the same for every language."""

    def __init__(self, name: str, signature: str, cut: Callable[[str], list[str]]) -> None:
        self.name = name
        self.signature = signature
        self._cut = cut
        self._remembered = lru_cache(maxsize=KNOWN_CAPTIONS)(self._tokens)

    def __reduce__(self) -> tuple[Callable[[str], Tokenizer], tuple[str]]:
        return get_tokenizer, (self.name,)

    def many(self, captions: Sequence[tuple[str, str | None]]) -> list[Tokens]:
        self._warn_of_japanese(captions)
        return [
            self._remembered(text) if len(text) <= LONGEST_KNOWN else self._tokens(text)
            for text, _ in captions
        ]

    def _tokens(self, text: str) -> Tokens:
        return tuple(self._cut(text))


class _JavaPtb(Tokenizer):
    """Stanford's tokenizer run by pycocoevalcap's jar: one process per call, all captions at once."""

    name = "ptb-java"

    def __init__(self) -> None:
        reason = java.pycocoevalcap_reason()
        if reason:
            raise UnavailableError(f"tokenizer 'ptb-java' {reason}")
        self.signature = "ptb-java-3.4.1"

    def many(self, captions: Sequence[tuple[str, str | None]]) -> list[Tokens]:
        self._warn_of_japanese(captions)
        return [
            tuple(token for token in line if token not in ptb.DROPPED)
            for line in java.java_ptb([text for text, _ in captions])
        ]


class ByLanguage(Tokenizer):
    """One tokenizer for Japanese captions and one for all others.

    Args:
        english: for captions of any other language.
        japanese: for captions whose language is "ja", given or detected.
        warning: told once per process when the first Japanese caption is met, or None.
    """

    def __init__(self, english: Tokenizer, japanese: Tokenizer, warning: str | None = None) -> None:
        self.name = f"{english.name}+{japanese.name}"
        self.signature = f"{english.signature}+{japanese.signature}"
        self._parts = {False: english, True: japanese}
        self.warning = warning

    def many(self, captions: Sequence[tuple[str, str | None]]) -> list[Tokens]:
        """Return the tokens of each (text, language), in order; an unknown language is detected."""
        languages = [language or detect_language(text) for text, language in captions]
        if self.warning and "ja" in languages:
            _warn_once(self.warning)
        tokens: list[Tokens] = [()] * len(captions)
        for japanese, part in self._parts.items():
            positions = [i for i, found in enumerate(languages) if (found == "ja") == japanese]
            if positions:
                cut = part.many([(captions[i][0], languages[i]) for i in positions])
                for position, caption_tokens in zip(positions, cut, strict=True):
                    tokens[position] = caption_tokens
        return tokens


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


_FOLDED = "nfkc-nopunct.2"
"""What is done to Japanese beside cutting it, for signatures; raised whenever that moves any token."""
_SPELLED = str.maketrans("\uff5e\u2212\u2225", "\u301c\uff0d\u2016", "\u200d")
"""Signs that Shift JIS has once and Unicode twice, one of them no punctuation; joiners of emoji go."""
_SILENT = frozenset(["Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Cf"])
_SELECTORS = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


def _characters() -> Tokenizer:
    return _Plain("character", f"char-{_FOLDED}", _split_characters)


def _split_characters(text: str) -> list[str]:
    return [character for character in _folded(text) if not character.isspace() and not _is_silent(character)]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_SPELLED)).lower()


def _is_silent(token: str) -> bool:
    """Whether a token has nothing in it but punctuation (Unicode category P) and what nobody sees."""
    return all(unicodedata.category(character) in _SILENT or character in _SELECTORS for character in token)


def _mecab() -> Tokenizer:
    reason = mecab_reason()
    if reason:
        raise UnavailableError(f"tokenizer 'mecab' {reason}")
    surfaces = _surfaces()

    def cut(text: str) -> list[str]:
        return surfaces(_folded(text))

    signature = f"mecab-unidic-lite-{version('unidic-lite')}-{_FOLDED}"
    return _Plain("mecab", signature, cut)


def tagger(options: str = "") -> Any:
    """Return a tagger of MeCab with the dictionary that is installed; one thread at a time may use it.

    Args:
        options: of MeCab's command line.
    """
    import fugashi
    import unidic_lite

    folder = unidic_lite.DICDIR
    return fugashi.GenericTagger(f'{options} -r "{folder}/mecabrc" -d "{folder}"'.strip())


@cache
def _surfaces() -> Callable[[str], list[str]]:
    """Return what cuts Japanese into words as they stand in the text, without punctuation and joiners."""
    mecab = tagger("-Owakati")
    lock = threading.Lock()  # a MeCab tagger keeps state between calls

    def cut(text: str) -> list[str]:
        with lock:
            found = mecab.parse(text.replace("\x00", " ")).split()
        return [surface for surface in found if not _is_silent(surface)]

    return cut


def caption_words(text: str, language: str) -> list[str]:
    """Return the words of a caption as they stand in it, without punctuation and joiners.

    Japanese is cut by MeCab, or by characters where it is not installed; other text at what is no letter or
    digit, with apostrophes and hyphens inside words.
    """
    if language != "ja":
        return _ENGLISH_WORD.findall(text)
    if mecab_missing():
        return [character for character in text if not (character.isspace() or _is_silent(character))]
    return _surfaces()(text)


def mecab_missing() -> str:
    """Return which modules MeCab lacks here, comma-separated; empty if it can run."""
    return ", ".join(module for module in ("fugashi", "unidic_lite") if find_spec(module) is None)


def mecab_reason() -> str | None:
    """Return why MeCab, which the model in the package was trained with, cannot run here; None if it can."""
    missing = mecab_missing()
    return f"needs {missing}: pip install {MECAB_PACKAGES}" if missing else None


_SINGLE: dict[str, Callable[[], Tokenizer]] = {
    "ptb": lambda: _Plain("ptb", f"ptb-regex.{ptb.VERSION}", ptb.tokenize),
    "ptb-java": _JavaPtb,
    "mecab": _mecab,
    "character": _characters,
    "whitespace": lambda: _Plain("whitespace", "whitespace", str.split),
}


_ENGLISH = ("ptb", "ptb-java")


@lru_cache(maxsize=32)
def get_tokenizer(name: str = "auto") -> Tokenizer:
    """Return a tokenizer by name.

    Names:
        auto: "ptb+mecab", or "ptb+character" with a warning where MeCab is not installed.
        ptb: English as the COCO evaluation cuts it (:mod:`suisei.metrics.ptb`).
        ptb-java: the same by Stanford's own program; needs Java and the extra ``java``. Alone, both warn of
            Japanese captions, which they cut at punctuation and spaces alone.
        mecab: MeCab with unidic-lite on NFKC-folded, lower-cased text, punctuation and joiners dropped.
        character: every character of the NFKC-folded, lower-cased text but space, punctuation and joiners.
        whitespace: for text that is tokenized already.
        EN+JA: any two of these, the first for English, the second for Japanese captions.

    Raises:
        ConfigError: no such name; the valid ones are listed.
        UnavailableError: what it needs is not installed.
    """
    if name == "auto":
        return _automatic()
    parts = name.split("+")
    unknown = [part for part in parts if part not in _SINGLE]
    if unknown or len(parts) > 2:
        known = ", ".join(["auto", *_SINGLE])
        raise ConfigError(f"no tokenizer {name!r}; choose one of {known}, or EN+JA such as 'ptb+character'")
    made = [_SINGLE[part]() for part in parts]
    if len(made) > 1:
        return ByLanguage(made[0], made[1])
    if name in _ENGLISH:
        made[0].warning = (
            f"tokenizer {name!r} is for English, and cuts Japanese captions at punctuation and spaces alone; "
            f"for both languages: {name}+mecab"
        )
    return made[0]


_BEFORE = ((r"\bptb-regex\.1\b", f"ptb-regex.{ptb.VERSION}"), (r"-nfkc-nopunct(?!\.)", f"-{_FOLDED}"))
"""What signatures of before said, by pattern, and what they say now."""


def signature_now(signature: str) -> str:
    """Return what a tokenizer's signature would be now, if it cut captions as the one of now does.

    That is but for emoji in English, joiners, and Japanese signs of two code points. What was fitted with it
    serves still; scores of both are not to be mixed.

    >>> signature_now("ptb-regex.1+char-nfkc-nopunct")
    'ptb-regex.2+char-nfkc-nopunct.2'
    """
    for pattern, now in _BEFORE:
        signature = re.sub(pattern, now, signature)
    return signature


_SIGNED = {"ptb-regex": "ptb", "ptb-java": "ptb-java", "mecab": "mecab", "char": "character"}


def tokenizer_of(signature: str) -> str | None:
    """Return the name of the tokenizer that has a signature, of whatever version; None if there is none.

    >>> tokenizer_of("ptb-regex.1+char-nfkc-nopunct")
    'ptb+character'
    """
    parts = [
        next((name for start, name in _SIGNED.items() if part.startswith(start)), None)
        for part in signature.split("+")
    ]
    return None if None in parts or len(parts) > 2 else "+".join(filter(None, parts))


def _automatic() -> Tokenizer:
    missing = mecab_missing()
    if not missing:
        return ByLanguage(_SINGLE["ptb"](), _mecab())
    return ByLanguage(
        _SINGLE["ptb"](),
        _characters(),
        f"Japanese captions are compared by characters, because {missing} is not installed; "
        f"for words: pip install {MECAB_PACKAGES}",
    )


@dataclass(frozen=True, slots=True)
class TokenizedSample:
    """A sample's tokens. Samples with equal captions share the same tuple objects."""

    candidate: Tokens
    references: tuple[Tokens, ...]


def tokenize_samples(samples: Sequence[CaptionSample], tokenizer: Tokenizer) -> list[TokenizedSample]:
    """Tokenize candidates and references, each distinct caption once.

    The references are read in the candidate's language, which is the sample's if it has one.
    """
    languages = [language_of(sample) for sample in samples]
    positions: dict[tuple[str, str | None], int] = {}
    for sample, language in zip(samples, languages, strict=True):
        for text in (sample.candidate, *sample.references):
            positions.setdefault((text, language), len(positions))
    tokens = tokenizer.many(list(positions))
    shared: dict[tuple[tuple[str, ...], str], tuple[Tokens, ...]] = {}
    tokenized = []
    for sample, language in zip(samples, languages, strict=True):
        key = (sample.references, language)
        references = shared.get(key)
        if references is None:
            references = tuple(tokens[positions[text, language]] for text in sample.references)
            shared[key] = references
        tokenized.append(TokenizedSample(tokens[positions[sample.candidate, language]], references))
    return tokenized
