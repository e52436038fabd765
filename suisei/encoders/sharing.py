"""One dual encoder for all metrics of a command that score with it, and its features computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.encoders.locks import Lock

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from suisei.encoders.dual import DualEncoder
    from suisei.encoders.feature_cache import DiskCache, Encode

MEMORY_BYTES = 128 * 1024**2
"""Features of images, and of captions, are kept in memory up to this size each."""
CLIP_BYTES = 256 * 1024**2
"""The same for the frames of videos; with 10 frames in 512 dimensions that is 13,000 clips."""

_loading = Lock()
"""Building a model draws from PyTorch's global random numbers, which one thread does at a time."""

_open: ContextVar[dict[tuple[tuple[str, str], ...], DualEncoder] | None] = ContextVar("_open", default=None)


class FeatureMemory:
    """The features of a dual encoder whose weights no longer change.

    Args:
        encoder: the encoder.
        disk: where features are kept between runs, None for nowhere.
    """

    def __init__(self, encoder: DualEncoder, disk: DiskCache | None) -> None:
        from suisei.encoders.feature_cache import DiskFeatures, FeatureCache

        self._kept = {"images": FeatureCache(MEMORY_BYTES), "texts": FeatureCache(MEMORY_BYTES)}
        self._clips: dict[Hashable, np.ndarray] = {}
        self._clip_bytes = 0
        self._lock = Lock()
        self._tokenize = encoder.tokenize
        self._disk = {"images": DiskFeatures(), "texts": DiskFeatures()}
        if disk is not None:
            model, computing = encoder.model, encoder.settings()["precision"]
            preprocessing = sorted(getattr(model.visual, "preprocess_cfg", {}).items())
            texts = getattr(model, "text", model)
            self._disk["images"] = disk.features_of(model.visual, "images", computing, preprocessing)
            self._disk["texts"] = disk.features_of(texts, "texts", computing)

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


@contextmanager
def shared_encoders(*, within: bool = False) -> Iterator[None]:
    """Let metrics that load the same dual encoder inside this block have the same one.

    Args:
        within: whether a block that is open already goes on, instead of a new one.
    """
    if within and _open.get() is not None:
        yield
        return
    token = _open.set({})
    try:
        yield
    finally:
        _open.reset(token)


def scoring_encoder(
    *,
    compile: bool = False,  # noqa: A002 - the word users know
    cache: str | Path | None = None,
    **loading: Any,
) -> DualEncoder:
    """Load a dual encoder that remembers its features, or return the one that is shared already.

    Args:
        compile: whether its towers are compiled.
        cache: where features are on disk, see :func:`suisei.encoders.feature_cache.disk_cache`.
        loading: arguments of :func:`suisei.encoders.dual.load_dual_encoder`.
    """
    from suisei.encoders.dual import load_dual_encoder
    from suisei.encoders.feature_cache import disk_cache

    settings = {"compile": compile, "cache": cache, **loading}
    key = tuple(sorted((name, repr(value)) for name, value in settings.items()))
    with _loading:
        known = _open.get()
        if known is not None and key in known:
            return known[key]
        encoder = load_dual_encoder(**loading)
        if compile:
            encoder.compile()
        encoder.memory = FeatureMemory(encoder, disk_cache(cache))
        if known is not None:
            known[key] = encoder
        return encoder
