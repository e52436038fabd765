"""The vocabulary of a captioner: sentencepiece pieces, learned from the captions it is trained on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from suisei.encoders.tiny import MASK, SPECIAL_PIECES, train_tokenizer
from suisei.errors import ModelError, one_line

FILE = "tokenizer.json"
_STOPS = ".。．"


def plain_caption(text: str) -> str:
    """Return a caption as captioners learn it: NFKC, lower case, single spaces, no full stop at its end."""
    plain = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    return plain.rstrip(_STOPS + " ") or plain


class Pieces:
    """Turns captions into token ids and back.

    Args:
        description: the content of a ``tokenizer.json``.

    Attributes:
        pad_id: padding.
        end_id: the end of a caption.
        unknown_id: what stands for characters that are not in the vocabulary.
        banned: ids that no caption is made of, sorted.

    Raises:
        ModelError: it is no tokenizer, or lacks a special piece.
    """

    def __init__(self, description: str) -> None:
        from tokenizers import Tokenizer

        self._description = description
        try:
            self._backend: Any = Tokenizer.from_str(description)
            self._backend.no_padding()
            self._backend.no_truncation()
        except Exception as error:  # noqa: BLE001 - the library raises Exception itself
            raise ModelError(f"{FILE}: not a tokenizer that can be read ({one_line(error)})") from None
        ids = {piece: self._backend.token_to_id(piece) for piece in (*SPECIAL_PIECES, MASK)}
        lacking = [piece for piece in SPECIAL_PIECES if ids[piece] is None]
        if lacking:
            raise ModelError(f"{FILE}: lacks the pieces {', '.join(lacking)}")
        start, pad, end, unknown = (ids[piece] or 0 for piece in SPECIAL_PIECES)
        self.pad_id, self.end_id, self.unknown_id = pad, end, unknown
        never = (start, pad, unknown, ids[MASK])
        self.banned = sorted({id_ for id_ in never if id_ is not None})

    @classmethod
    def learned(cls, captions: Iterable[str], vocabulary: int) -> Pieces:
        """Learn at most so many pieces from captions of any language.

        Raises:
            DataError: there are none.
            ConfigError: fewer than there are characters.
        """
        plain = [plain_caption(text) for text in captions]
        tokenizer = train_tokenizer(plain, vocabulary, "model.vocabulary")
        return cls(tokenizer.backend_tokenizer.to_str())

    @classmethod
    def read(cls, folder: Path) -> Pieces:
        """Read those of a model folder.

        Raises:
            ModelError: the file is not there or damaged.
        """
        try:
            description = (folder / FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{folder / FILE}: cannot be read: {one_line(error)}") from None
        return cls(description)

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.json``."""
        (folder / FILE).write_text(self._description, encoding="utf-8")

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size())

    def encode(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the ids of captions, without a start, and with their end."""
        plain = [plain_caption(text) for text in captions]
        encoded = self._backend.encode_batch(plain, add_special_tokens=False)
        return [[*encoding.ids, self.end_id] for encoding in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the caption of ids, which ends at the first end or padding."""
        ends = [place for place, id_ in enumerate(ids) if id_ in (self.end_id, self.pad_id)]
        text: str = self._backend.decode(list(ids[: ends[0]] if ends else ids), skip_special_tokens=True)
        return " ".join(text.split())
