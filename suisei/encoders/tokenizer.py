"""The tokenizer in a model folder, read without importing transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suisei.encoders.locks import Lock
from suisei.errors import ModelError, one_line

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FILES = ("tokenizer.json", "tokenizer_config.json")


@contextmanager
def no_panic() -> Iterator[None]:
    """Turn a panic of the tokenizers library, which no ``except Exception`` catches, into an error.

    Raises:
        ModelError: the library gave up.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"the tokenizer's parts do not go together: {one_line(error)}") from None


class FolderTokenizer:
    """A tokenizer of the tokenizers library with the special tokens that transformers names.

    Args:
        folder: holds ``tokenizer.json`` and ``tokenizer_config.json``.

    Attributes:
        pad_token_id: id of the padding token; None where there is none.
        unk_token_id: id of the token for what is not known; None where there is none.
        mask_token_id: id of the token that hides another; None where there is none.
        all_special_ids: ids of all special tokens.
        model_max_length: longest input in tokens that the tokenizer's config allows.
        truncation_side: where longer texts are cut, "left" (their beginning) or "right" (their end).

    Raises:
        ModelError: a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        try:
            self._files = {name: (folder / name).read_bytes() for name in _FILES}
            settings = json.loads(self._files["tokenizer_config.json"].decode("utf-8"))
            with no_panic():
                self._backend = Tokenizer.from_buffer(self._files["tokenizer.json"])
            self._backend.no_padding()
            ids = {name: self._id(settings.get(name)) for name in _SPECIAL}
            further = [self._id(token) for token in _listed(settings)]
            self.model_max_length = int(settings.get("model_max_length") or 10**30)
            self.truncation_side = "left" if settings.get("truncation_side") == "left" else "right"
        except Exception as error:  # noqa: BLE001 - the library raises Exception itself
            raise ModelError(f"{folder}: not a tokenizer that can be read ({one_line(error)})") from None
        if self.model_max_length < 1:
            raise ModelError(f"{folder}: model_max_length is {self.model_max_length}; it must be at least 1")
        self._max_tokens = 0
        self._lock = Lock()
        self.pad_token_id, self.unk_token_id = ids["pad_token"], ids["unk_token"]
        self.mask_token_id = ids["mask_token"]
        found = (*ids.values(), *further)
        self.all_special_ids = sorted({id_ for id_ in found if id_ is not None})

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether a folder has the files."""
        return all((folder / name).is_file() for name in _FILES)

    def encode(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Return the ids of every text, special tokens included, cut to ``max_tokens``.

        Raises:
            ModelError: the tokenizer's parts do not go together, as a template naming a token that it lacks.
        """
        with self._lock:  # where texts are cut is the tokenizer's own state
            if max_tokens != self._max_tokens:
                self._backend.enable_truncation(max_tokens, direction=self.truncation_side)
                self._max_tokens = max_tokens
            with no_panic():
                encoded = self._backend.encode_batch_fast(list(texts))
        return [encoding.ids for encoding in encoded]

    def longer_than(self, texts: Sequence[str], max_tokens: int) -> set[str]:
        """Return the texts that :meth:`encode` cuts to ``max_tokens``.

        Raises:
            ModelError: the tokenizer's parts do not go together.
        """
        ids = self.encode(texts, max_tokens + 1)
        return {text for text, own in zip(texts, ids, strict=True) if len(own) > max_tokens}

    def get_vocab(self) -> dict[str, int]:
        """Return {token: id}, added tokens included."""
        return self._backend.get_vocab()

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def description(self) -> dict[str, Any]:
        """Return the content of ``tokenizer.json``."""
        content: dict[str, Any] = json.loads(self._files["tokenizer.json"])
        return content

    def fresh(self) -> Any:
        """Return a tokenizer of the tokenizers library that cuts nothing off."""
        from tokenizers import Tokenizer

        made = Tokenizer.from_buffer(self._files["tokenizer.json"])
        made.no_padding()
        made.no_truncation()
        return made

    def save_pretrained(self, folder: Path) -> None:
        """Write the files as they were read."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (folder / name).write_bytes(content)

    def _id(self, token: Any) -> int | None:
        content = token.get("content") if isinstance(token, dict) else token
        return None if content is None else self._backend.token_to_id(str(content))


def _listed(settings: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for name in ("additional_special_tokens", "extra_special_tokens"):
        given = settings.get(name) or []
        found += given.values() if isinstance(given, dict) else given
    return found
