"""Cutting a SentencePiece vocabulary to the pieces that some languages need.

XLM-RoBERTa's 250,002 pieces serve a hundred languages; their vectors are four fifths of a small encoder. A
caption whose pieces are all kept is cut into the same pieces as before, for the best segmentation stays the
best among fewer. Single characters are always kept, so nothing becomes unknown that was not.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suisei.errors import ConfigError

SPACE = "▁"
"""SentencePiece's sign for a space, with which the first piece of a word begins."""


def is_character(piece: str) -> bool:
    """Return whether a piece is a single character, with or without the sign of a space before it."""
    return len(piece.removeprefix(SPACE)) <= 1


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
        description: content of a ``tokenizer.json`` whose model is SentencePiece's unigram model.
        keep: ids of the pieces to keep; special tokens and single characters are kept besides.

    Raises:
        ConfigError: the tokenizer is of another kind, or an id is not in it.
    """
    model = description.get("model") or {}
    if model.get("type") != "Unigram" or model.get("byte_fallback"):
        raise ConfigError(
            f"only a unigram vocabulary without byte fallback can be cut, got {model.get('type')!r}"
        )
    pieces: Sequence[Sequence[Any]] = model["vocab"]
    wanted = set(keep)
    outside = sorted(id_ for id_ in wanted if not 0 <= id_ < len(pieces))
    if outside:
        raise ConfigError(f"the vocabulary has {len(pieces)} pieces, no piece {outside[0]}")
    special = {token["id"] for token in description.get("added_tokens", ())} | {model["unk_id"]}
    kept = [
        id_ for id_, (piece, _) in enumerate(pieces) if id_ in wanted or id_ in special or is_character(piece)
    ]
    beyond = sorted(id_ for id_ in special if id_ >= len(pieces))  # added after the pieces
    kept += beyond
    new = {old: number for number, old in enumerate(kept)}
    cut = copy.deepcopy({key: value for key, value in description.items() if key != "model"})
    cut["model"] = {
        **model,
        "unk_id": new[model["unk_id"]],
        "vocab": [pieces[i] for i in kept if i < len(pieces)],
    }
    for token in cut.get("added_tokens", ()):
        token["id"] = new[token["id"]]
    _renumber(cut.get("post_processor"), new)
    return cut, kept


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
