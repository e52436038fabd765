"""Cutting a vocabulary of SentencePiece's unigram model, or of WordPiece, to the pieces that are needed.

XLM-RoBERTa's 250,002 pieces serve a hundred languages; their vectors are four fifths of a small encoder. A
caption whose pieces are all kept is cut into the same pieces as before: the best segmentation stays the best
among fewer, and the longest piece the longest. Single characters are always kept, so nothing becomes unknown
that was not.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suisei.errors import ConfigError

SPACE = "▁"
"""SentencePiece's sign for a space, with which the first piece of a word begins."""


def is_character(piece: str, sign: str = SPACE) -> bool:
    """Return whether a piece is a single character, with or without a sign before it.

    Args:
        piece: the piece.
        sign: SentencePiece's for a space, or WordPiece's for what continues a word.
    """
    return len(piece.removeprefix(sign)) <= 1


def language_pieces(vocabulary: Mapping[str, int]) -> set[int]:
    """Return the ids of the pieces of Japanese scripts, and of those without any letter.

    Han characters are kept whatever their language; of a piece with other letters none.
    """
    return {id_ for piece, id_ in vocabulary.items() if _is_japanese(_scripts(piece))}


def _is_japanese(scripts: set[str]) -> bool:
    own = scripts - {"sign", "letter"}
    return "other" not in own and (len(own) == 1 or "letter" not in scripts)


_RANGES = (
    ("kana", 0x3040, 0x30FF),
    ("han", 0x3400, 0x4DBF),
    ("han", 0x4E00, 0x9FFF),
    ("wide", 0x3000, 0x303F),
    ("wide", 0xFF00, 0xFFEF),
)


def _scripts(piece: str) -> set[str]:
    """Return what a piece is made of: kana, han, wide (forms, punctuation), ASCII letter or sign, other."""
    found = set()
    for character in piece.replace(SPACE, ""):
        code = ord(character)
        if code < 128:
            found.add("letter" if character.isalpha() else "sign")
        else:
            found.add(next((name for name, low, high in _RANGES if low <= code <= high), "other"))
    return found


def needed_pieces(tokenizer: Any, texts: Iterable[str], *, batch: int = 4096) -> set[int]:
    """Return the ids of the pieces that texts are cut into.

    Args:
        tokenizer: of the tokenizers library.
        texts: any number of them.
        batch: how many are cut at once.
    """
    found: set[int] = set()
    waiting: list[str] = []
    for text in texts:
        waiting.append(text)
        if len(waiting) == batch:
            found.update(id_ for encoded in tokenizer.encode_batch_fast(waiting) for id_ in encoded.ids)
            waiting.clear()
    if waiting:
        found.update(id_ for encoded in tokenizer.encode_batch_fast(waiting) for id_ in encoded.ids)
    return found


def cut_vocabulary(description: dict[str, Any], keep: Iterable[int]) -> tuple[dict[str, Any], list[int]]:
    """Return a tokenizer with fewer pieces, and the old id of each of its ids.

    Args:
        description: content of a ``tokenizer.json``, of SentencePiece's unigram model or of WordPiece.
        keep: ids of the pieces to keep; special tokens and single characters are kept besides.

    Raises:
        ConfigError: the tokenizer is of another kind, or an id or the piece for the unknown is not in it.
    """
    model = description.get("model") or {}
    kind = model.get("type")
    if kind not in ("Unigram", "WordPiece") or model.get("byte_fallback"):
        raise ConfigError(
            "only a vocabulary of WordPiece, or of a unigram model without byte fallback, can be cut, got "
            f"{kind!r}"
        )
    words = kind == "WordPiece"
    pieces: Sequence[str] = _in_order(model["vocab"]) if words else [piece for piece, _ in model["vocab"]]
    unknown = _unknown(model)
    wanted = set(keep)
    outside = sorted(id_ for id_ in wanted if not 0 <= id_ < len(pieces))
    if outside:
        raise ConfigError(f"the vocabulary has {len(pieces)} pieces, no piece {outside[0]}")
    special = {token["id"] for token in description.get("added_tokens", ())} | {unknown}
    sign = model["continuing_subword_prefix"] if words else SPACE
    kept = [
        id_
        for id_, piece in enumerate(pieces)
        if id_ in wanted or id_ in special or is_character(piece, sign)
    ]
    beyond = sorted(id_ for id_ in special if id_ >= len(pieces))  # added after the pieces
    new = {old: number for number, old in enumerate([*kept, *beyond])}
    cut = copy.deepcopy({key: value for key, value in description.items() if key != "model"})
    vocabulary: Any = {pieces[i]: new[i] for i in kept} if words else [model["vocab"][i] for i in kept]
    cut["model"] = {**model, "vocab": vocabulary, **({} if words else {"unk_id": new[unknown]})}
    for token in cut.get("added_tokens", ()):
        token["id"] = new[token["id"]]
    _renumber(cut.get("post_processor"), new)
    return cut, [*kept, *beyond]


def _unknown(model: Mapping[str, Any]) -> int:
    """Return the id of the piece that stands for what is unknown.

    Raises:
        ConfigError: there is none.
    """
    found = model["vocab"].get(model["unk_token"]) if model["type"] == "WordPiece" else model["unk_id"]
    if found is None:
        raise ConfigError("the vocabulary has no piece for what is unknown, and cannot be cut")
    return int(found)


def _in_order(vocabulary: Mapping[str, int]) -> list[str]:
    """Return the pieces of a vocabulary by their ids.

    Raises:
        ConfigError: ids are missing, so that a piece's place is not its id.
    """
    pieces = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise ConfigError("the vocabulary has gaps between its ids, and cannot be cut")
    return pieces


def _renumber(processor: Any, new: dict[int, int]) -> None:
    """Give the special tokens of a template their new ids, in place."""
    if not isinstance(processor, dict):
        return
    for part in processor.get("processors", ()):
        _renumber(part, new)
    for token in (processor.get("special_tokens") or {}).values():
        token["ids"] = [new[id_] for id_ in token["ids"]]
    for side in ("sep", "cls"):
        if isinstance(processor.get(side), list):
            processor[side] = [processor[side][0], new[processor[side][1]]]
