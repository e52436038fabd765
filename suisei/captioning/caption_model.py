"""Captioners of all kinds, by folder or name: what every other part of the program asks for one."""

from __future__ import annotations

from pathlib import Path

from suisei.captioning.caption_folder import is_captioner_folder
from suisei.captioning.caption_search import DECODING, Decoding, DecodingState, Generated
from suisei.captioning.captioner_interface import CaptionModel

__all__ = ["DECODING", "CaptionModel", "Decoding", "DecodingState", "Generated", "load_caption_model"]


def load_caption_model(name_or_folder: str | Path) -> CaptionModel:
    """Return a captioner, ready to write: of our own folder, or of Hugging Face's by folder or name.

    Raises:
        ModelError: a folder that is none, or is damaged.
        UnavailableError: a name that is not on disk while the hub cannot be reached.
    """
    if is_captioner_folder(name_or_folder):
        from suisei.captioning.caption_loading import load_captioner

        return load_captioner(name_or_folder)
    from suisei.captioning.hf_captioner import load_hf_captioner

    return load_hf_captioner(str(name_or_folder))
