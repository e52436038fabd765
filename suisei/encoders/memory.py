"""The features of a dual encoder: images, captions and the frames of videos, kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from suisei.encoders.feature_cache import Encode, FeatureCache
from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.encoders.locks import Lock

MEMORY_BYTES = 128 * 1024**2
"""Features of images, and of captions, are kept in memory up to this size each."""
CLIP_BYTES = 256 * 1024**2
"""The same for the frames of videos; with 10 frames in 512 dimensions that is 13,000 clips."""


class FeatureMemory:
    """The features of a dual encoder whose weights no longer change.

    Args:
        model: its open_clip model.
        tokenize: texts -> token ids int64 [N, L].
        precision: what it computes in, which decides its features.
        disk: where features are kept between runs, None for nowhere.
    """

    def __init__(
        self, model: Any, tokenize: Callable[[Sequence[str]], Tensor], precision: str, disk: DiskCache | None
    ) -> None:
        self._kept = {"images": FeatureCache(MEMORY_BYTES), "texts": FeatureCache(MEMORY_BYTES)}
        self._clips: dict[Hashable, np.ndarray] = {}
        self._clip_bytes = 0
        self._lock = Lock()
        self._tokenize = tokenize
        self._disk = {"images": DiskFeatures(), "texts": DiskFeatures()}
        if disk is not None:
            preprocessing = sorted(getattr(model.visual, "preprocess_cfg", {}).items())
            texts = getattr(model, "text", model)
            self._disk["images"] = disk.features_of(model.visual, "images", precision, preprocessing)
            self._disk["texts"] = disk.features_of(texts, "texts", precision)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_clips": {}, "_clip_bytes": 0}

    def look_up(self, kind: str, keys: Sequence[str], items: Sequence[Any], encode: Encode) -> Tensor:
        """Return float32 [len(items), d] of different items that are known by their keys.

        Args:
            kind: "images" or "texts".
            keys: the hash of each image's content, or each text with its prompt.
            items: what ``encode`` takes.
            encode: encodes those that are not known.
        """
        pairs = list(zip(keys, items, strict=True))
        disk = self._disk[kind]

        def encode_pairs(some: list[tuple[str, Any]]) -> Tensor:
            names = [key for key, _ in some]
            if kind == "texts" and disk.cache is not None:
                names = self._token_keys(names)
            return disk.look_up(names, [item for _, item in some], encode)

        return self._kept[kind].look_up(keys, pairs, encode_pairs)

    def make_room(self, kind: str, items: int) -> None:
        """Keep so many items of a kind in memory at once at least, whatever they take."""
        self._kept[kind].make_room(items)

    def keep(self, kind: str, keys: Sequence[str], features: Tensor) -> None:
        """Keep float32 [len(keys), d] that this encoder said in another process, in memory alone."""
        self._kept[kind].look_up(keys, range(len(keys)), lambda rows: features[rows])

    def clip(self, key: Hashable, encode: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the features of a clip's frames, float32 [F, d], which are dear because of the decoding.

        Metrics of one command go through the same videos in the same order, so what no longer fits is
        not kept, instead of dropping what the next metric reads first.

        Args:
            key: what decides the frames: the file, its size and time, the segment, how many.
            encode: decodes and encodes them, where they are not known.
        """
        known = self._clips.get(key)
        if known is not None:
            return known
        features = encode()
        with self._lock:
            if key not in self._clips and self._clip_bytes + features.nbytes <= CLIP_BYTES:
                self._clips[key] = features
                self._clip_bytes += features.nbytes
        return features

    def _token_keys(self, texts: Sequence[str]) -> list[str]:
        """Return the token ids of texts: on disk these stand for a text, so no tokenizer can mislead."""
        return [row.tobytes().hex() for row in self._tokenize(texts).numpy()]
