"""Whether the parts of a captioner of Hugging Face belong together: weights, tokenizer, image processor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from suisei.captioning.captioner_interface import CaptionModel
from suisei.encoders.pretrained import unused_positions
from suisei.errors import ModelError, one_line

_UNUSED = ("encoder.pooler.",)
"""Weights that no caption depends on; TrOCR's folders are without them."""
_SPARE = 1024
"""Most places that a vocabulary is padded by, or a tenth of it."""
_SHOWN = 3


def check_weights(name: str, info: Mapping[str, Any]) -> None:
    """Refuse a model whose weights are not all there: transformers makes up the others at random.

    Args:
        name: the model as the user named it.
        info: what ``from_pretrained`` says of its loading.

    Raises:
        ModelError: weights are missing or have other shapes.
    """
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(_UNUSED))
    mismatched = sorted(
        f"{key} is {list(found)} in place of {list(wanted)}" for key, found, wanted in info["mismatched_keys"]
    )
    for what, keys in (("has no weights for", missing), ("has weights of other shapes", mismatched)):
        if keys:
            more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
            raise ModelError(f"{name}: {what}: {', '.join(keys[:_SHOWN])}{more}; get the whole model again")


def check_ids(vocabulary: int, start: Any, end: Any, pad: Any) -> None:
    """Refuse ids of tokens that a decoder has not.

    Args:
        vocabulary: how many tokens it knows.
        start: what captions start from.
        end: their end.
        pad: padding, None for none.

    Raises:
        ModelError: one of them is absent, out of range or a choice of several.
    """
    for role, id_ in (("start", start), ("end", end), ("pad", pad)):
        if id_ is None and role == "pad":
            continue
        if isinstance(id_, list) and len(id_) > 1:  # an end that is not one would stand within captions
            raise ModelError(
                f"the {role} token of captions is any of {id_} in its config, and must be one; name that "
                "alone in generation_config.json"
            )
        if not isinstance(id_, int) or not 0 <= id_ < vocabulary:
            raise ModelError(
                f"the {role} token of captions is {id_!r} in its config, and must be from 0 to "
                f"{vocabulary - 1:,} (decoder_start_token_id, eos_token_id or sep_token_id, pad_token_id)"
            )


def check_tokenizer(tokenizer: Any, vocabulary: int, end: int) -> None:
    """Refuse a tokenizer that is another model's, as far as the numbers of tokens say it.

    Special tokens that only the tokenizer has, such as padding added later, are no part of captions.

    Args:
        tokenizer: of Hugging Face.
        vocabulary: how many tokens the decoder knows.
        end: the id that ends captions.

    Raises:
        ModelError: the decoder lacks tokens of the tokenizer, or the tokenizer those of the decoder.
    """
    fix = "take the tokenizer that the model learned with"
    ids = set(tokenizer.get_vocab().values())
    known = max(ids, default=-1) + 1
    if max(ids - set(tokenizer.all_special_ids), default=-1) >= vocabulary:
        raise ModelError(f"its tokenizer has {known:,} tokens and its decoder {vocabulary:,}; {fix}")
    if end >= known:
        raise ModelError(f"its tokenizer lacks the end of captions, id {end:,}; {fix}")
    if vocabulary - known > max(_SPARE, known // 10) or vocabulary >= 2 * known:  # padding takes less
        raise ModelError(
            f"its tokenizer has but {known:,} of the {vocabulary:,} tokens of its decoder; {fix}"
        )


def check_processor(model: CaptionModel, encoder: Any) -> None:
    """Refuse an image processor that gives pixels which the model cannot look at.

    Args:
        model: reads images by it.
        encoder: the part that looks at them, of Hugging Face.

    Raises:
        ModelError: it does.
    """
    from PIL import Image

    try:  # an image upright and one across
        wide, high = (model.read([Image.new("RGB", size)]) for size in ((96, 64), (64, 96)))
    except Exception as error:  # noqa: BLE001 - settings of a processor fail in ways of its own
        raise ModelError(f"its image processor cannot prepare an image: {one_line(error)}") from None
    size = " x ".join(map(str, wide.shape[2:]))
    if wide.shape != high.shape:
        raise ModelError(f"its image processor gives images of different sizes ({size} and others)")
    side = getattr(encoder.config, "image_size", None)
    if side is None or list(wide.shape[2:]) == ([side, side] if isinstance(side, int) else list(side)):
        return
    try:  # some towers take other sizes
        with torch.no_grad():
            encoder(pixel_values=wide)
    except (ValueError, RuntimeError) as error:
        raise ModelError(
            f"its image processor gives images of {size}, not those of the model ({side}): "
            f"{one_line(error)}; fix size in preprocessor_config.json"
        ) from None


def longest_caption(config: Any) -> int | None:
    """Return how many tokens a decoder has positions for, by its config; None where that is not said."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    return positions - unused_positions(config)
