"""English tokens as the COCO evaluation cuts them, without Java.

The evaluation code of COCO captions runs Stanford's Penn Treebank tokenizer, lower-cases, and drops a
fixed list of punctuation marks. This module gives the same tokens for caption-like English from one
regular expression. It follows the observable behaviour of that tokenizer, not its grammar: web
addresses, fractions inside words and sentence-final abbreviations are only approximated.
"""

from __future__ import annotations

import re

VERSION = "2"
"""Raised whenever a change moves any token, since it is part of every signature."""

DROPPED = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])
"""Marks that the COCO evaluation removes. Its list also has "-LRB-" and the like in upper case, which
never match because the text is lower-cased first, so brackets stay as "-lrb-"; this does the same."""

_ABBREVIATIONS = (
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tues?|wed|thu|thurs|fri|mt|ave|blvd|bldg|rd|st|ft|dr|"
    "messrs|mr|mrs|ms|mlle|mme|jr|sr|bros|vs|v|co|cos|inc|ltd|corp|dept|prof|gen|sgt|maj|adm|capt|lt|col|cpl|"
    "pvt|sens?|reps?|govs?|rev|hon|pres|det|insp|univ|assn|etc|est|tel|esq|calif|conn|penn|ala|ga|ind|ext|seq|"
    r"mfg|intl|natl|pp?|ph\.d|"
    r"(?-i:Fla|Tex|Ariz|Ark|Colo|Ill|Kan|Ky|Mass|Md|Mich|Minn|Miss|Mont|Neb|Nev|Okla|Ore|Tenn|Va|Wash)|"
    r"(?:no|nos|fig|art)(?=\.\s*\d)"
)
_WORD = r"[^\W_][^\W_\u0300-\u036f]*(?:[\u0300-\u036f]+[^\W_]*)*"
_LETTERS = r"[^\W\d_]+"
_APOSTROPHE_WORDS = (
    r"'n'|'(?:em|till?|cause|n)(?![^\W_])|'[2-9]0s(?![^\W_])|"
    r"(?:ol|dunkin|somethin)'(?![^\W_])|d'ye(?![^\W_])|o'clock|c'mon|e'er|ne'er|s'mores|ev'ry|li'l|nat'l|nor'easter|"
    r"(?<![^\W_])(?:[dlno]'[^\W\d_]{2,}|(?-i:[A-HJ-XZ])'[^\W\d_]{3,}|c'est)|[^\W\d_]+[aeiouy]'[aeiou][^\W\d_]*"
)

_PATTERN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<markup></?[a-z!?][a-z0-9-]*\s*/?>)
    | (?P<address>(?:https?://|www\.)[^\s"<>|(){{}}]*[^\s"<>|(){{}}.,!?;:'-]|[a-z0-9][\w.+-]{{0,63}}@[a-z0-9][\w.-]*\w)
    | (?P<tag>[@\#][a-z][a-z0-9]*)
    | (?P<split>(?:cannot|gonna|gotta|lemme|gimme|wanna|'tis|'twas|y'all)(?![^\W_]))
    | (?P<company>(?<![^\W_])(?:(?-i:[A-Z]+&[A-Z]+)|r&b)(?![^\W_]))
    | (?P<apostrophe>{_APOSTROPHE_WORDS})
    | (?P<clitic>'(?:s|re|ve|ll|m|d)(?![^\W_]))
    | (?P<negation>n't(?![^\W_]))
    | (?P<money>[a-z]{{1,2}}\$(?=\d))
    | (?P<abbreviation>(?<![^\W_])(?:{_ABBREVIATIONS})\.(?![^\W_]))
    | (?P<dotted>(?<![^\W_])[^\W\d_](?:\.[^\W\d_])+(?![^\W_])(?:\.(?![^\W_]))?(?:-{_WORD})*)
    | (?P<initial>(?<![^\W_])[^\W\d_]\.(?![\w.]))
    | (?P<fraction>{_WORD}(?:-{_LETTERS}){{0,2}}(?:/{_WORD}(?:-{_LETTERS}){{0,2}}){{1,2}})
    | (?P<unbroken>{_WORD}(?:-{_WORD})*[\u2010\u2011]{_WORD}(?:[-\u2010\u2011]{_WORD})*)
    | (?P<hyphened>(?:{_WORD}?(?=n't(?![^\W_]))|\d+(?:[.,]\d+)+|{_WORD})(?:-(?:\d+(?:[.,]\d+)+|{_WORD}))+)
    | (?P<decimal>(?:(?<![^\W_])[-+])?\d*(?:[.,:/]\d+)+|(?:(?<![^\W_])[-+])?\d+(?:[.,:]\d+)+)
    | (?P<signed>(?<![^\W_])[-+]\d+(?![^\W_]))
    | (?P<negated>{_LETTERS}?(?=n't(?![^\W_])))
    | (?P<joined>{_LETTERS}(?:[.!?_]{_LETTERS})+)
    | (?P<word>{_WORD})
    | (?P<smiley>[:;=]-?[()]|:[dp](?![^\W_]))
    | (?P<dots>\.{{3,}})
    | (?P<shout>[?!]+)
    | (?P<dashes>-{{2,}}|[\u2010\u2011])
    | (?P<stars>\*{{2,}}|\#{{2,}}|@{{2,}}|_{{2,}}|>>)
    | (?P<other>.)
    """,
    re.VERBOSE | re.IGNORECASE,
)

_SPLITS = {
    "cannot": ("can", "not"),
    "gonna": ("gon", "na"),
    "gotta": ("got", "ta"),
    "wanna": ("wan", "na"),
    "lemme": ("lem", "me"),
    "gimme": ("gim", "me"),
    "'tis": ("'t", "is"),
    "'twas": ("'t", "was"),
    "y'all": ("y'", "all"),
}
_UNKNOWN = re.compile(
    "[\u061c\u180b-\u180f\u200b-\u200f\u2012-\u2015\u2018-\u2019\u201b-\u201d\u2024-\u202e\u2039-\u203a"
    "\u203c-\u203d\u2043\u2045-\u206f\u20a1-\u20a3\u20a5-\u20ab\u20ad-\u20ff\u2150-\u2152"
    "\u215f-\u2182\u2185-\u218f\u2c2f\u2c5f\u2ce5-\u2cea\u2cef-\u2cf1\u2cf9-\u2cff\u2d70-\u2d7f"
    "\u2de0-\u2e2e\u2e30-\u2ffb\u3003-\u3004\u3007-\u3011\u3013-\u3030\u3036-\u303a\u303d-\u303f"
    "\u3099-\u309c\u30a0\u312e-\u312f\u3190-\u319f\u31bb-\u31e3\u3200-\u33ff\ue000-\uf8ff\ufb1e"
    "\ufb29\ufbb2-\ufbc2\ufd3e-\ufd4f\ufdcf\ufdfc-\ufe6b\ufeff\uffe2-\uffe4\uffe8-\ufffd"
    "\U00010000-\U0010ffff]"
)
"""What the program does not know: it drops such characters, and they end a word. All above U+FFFF are among
them, most emoji and some letters; of the others, those from U+2000 on that the program was seen to drop, and
marks that nobody sees."""
_NORMAL = str.maketrans(
    {
        "’": "'", "‘": "`", "“": '"', "”": '"', "«": '"', "»": '"', "‹": "`", "›": "'",
        "–": "--", "—": "--", "―": "--", "…": "...", "½": "1/2", "¼": "1/4", "¾": "3/4",
        "⅓": "1/3", "⅔": "2/3",
        "£": "#", "€": "$", "¤": "$", "₠": "$", "¢": " cents ", "\u00ad": "",
    }
)  # fmt: skip
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&nbsp;", " "), ("&amp;", "&"))
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", '"': "''"}
_REMOVED_KINDS = frozenset(["space", "dots", "dashes"])
_ESCAPED = str.maketrans({"(": "-lrb-", ")": "-rrb-"})


def tokenize(text: str) -> list[str]:
    """Return the lower-cased tokens of an English caption, punctuation dropped.

    >>> tokenize("The man's dog doesn't like (red) T-shirts, can't it?")
    ['the', 'man', "'s", 'dog', 'does', "n't", 'like', '-lrb-', 'red', '-rrb-', 't-shirts', 'ca', "n't", 'it']
    """
    text = text.translate(_NORMAL)
    if not text.isascii():
        text = _UNKNOWN.sub(" ", text)
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    plain = _plain_words(text)
    if plain is not None:
        return plain
    tokens: list[str] = []
    for match in _PATTERN.finditer(text):
        kind, token = match.lastgroup, match.group().lower()
        if kind == "split":
            tokens.extend(_SPLITS[token])
        elif kind == "smiley":
            tokens.append(token.translate(_ESCAPED))
        elif kind not in _REMOVED_KINDS and token:
            tokens.append(_BRACKETS.get(token, token))
    return [token for token in tokens if token not in DROPPED]


def _plain_words(text: str) -> list[str] | None:
    """Return the tokens of a caption of bare words and spaced marks, or None if it needs the rules.

    Most captions of the public data sets are of this kind, and this is several times as fast.
    """
    words = text.lower().split()
    if not text.isascii() or not _SPLITS.keys().isdisjoint(words):
        return None
    tokens = [word for word in words if word not in DROPPED]
    return tokens if all(map(str.isalpha, tokens)) else None
