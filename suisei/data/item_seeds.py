"""Seeds of generated items: by what an item is made of, never by its place in a run."""

from __future__ import annotations

import hashlib


def text_key(caption: str) -> str:
    """Return a key that stands for a caption; that of an image is its ``content_key``."""
    return f"text-{hashlib.sha256(caption.encode()).hexdigest()[:40]}"


def item_seed(run_seed: int, source: str) -> int:
    """Return a seed in [0, 2^63) that depends on the run's seed and the item alone, not on the order."""
    digest = hashlib.sha256(f"{run_seed}\0{source}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
