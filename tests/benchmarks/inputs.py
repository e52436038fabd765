"""Data and random-weight models of the benchmarks; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from suisei.data.idf import IdfTable
from suisei.data.load import load_data
from suisei.data.sample import CaptionSample
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyImageConfig, image_architecture, train_tokenizer
from suisei.metrics.default_model import default_model, default_model_reason
from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
from suisei.models.folder import LoadedModel
from suisei.models.regressor import Regressor
from tests.benchmarks.harness import Options

VOCABULARY = {"base": 8000, "tiny": 300}
"""Pieces that the tokenizer learns from the captions; a caption of Flickr8k then has about 13."""
XLMR = {
    "base": {"vocab_size": 8192, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
             "intermediate_size": 3072, "max_position_embeddings": 514},
    "tiny": {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 64, "max_position_embeddings": 514},
}  # fmt: skip
"""XLM-R base, but for the rows of its embeddings that this tokenizer never asks for: they are frozen in
training, and cost nothing but 0.7 GB a model."""
HIDDEN = {"base": (2304, 1152), "tiny": (16,)}


@cache
def samples(root: Path | None, count: int) -> tuple[CaptionSample, ...]:
    """Return the first ``count`` rated captions with two references or more and an image."""
    read = load_data("flickr8k-expert", root=root) if root is not None else load_data("scenes")
    full = [sample for sample in read if len(sample.references) >= 2 and sample.image is not None]
    return tuple(full[:count])


def with_references(rows: Sequence[CaptionSample], count: int, *, image: bool) -> list[CaptionSample]:
    """Return the samples with ``count`` references at most, and with or without their image."""
    return [
        CaptionSample(
            row.candidate,
            row.references[:count],
            row.image if image else None,
            row.rating,
            row.language,
            row.system,
            row.group,
        )
        for row in rows
    ]


def captions_of(rows: Sequence[CaptionSample]) -> list[str]:
    """Return every caption once."""
    return list(dict.fromkeys(text for row in rows for text in (row.candidate, *row.references)))


@cache
def tokenizer(root: Path | None, size: str) -> Any:
    """Return a tokenizer of the whole data set's captions."""
    return train_tokenizer(captions_of(samples(root, 10**9)), VOCABULARY[size])


def backbone(size: str) -> Any:
    """Return XLM-R with random weights, always the same."""
    from transformers import XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    config = XLMRobertaConfig(
        **XLMR[size], type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0, pad_token_id=1, eos_token_id=2
    )
    return XLMRobertaModel(config, add_pooling_layer=False).eval()


def vision(size: str) -> ImageEncoder:
    """Return ViT-B/16 as in CLIP with random weights."""
    import open_clip

    if size == "tiny":
        return ImageEncoder.from_architecture(image_architecture(TinyImageConfig(width=4, features=8)))
    config = open_clip.get_model_config("ViT-B-16")
    return ImageEncoder.from_architecture(
        {"embed_dim": config["embed_dim"], "vision_cfg": config["vision_cfg"], "quick_gelu": True}
    )


def regressor(options: Options, *, image: bool, references: str) -> Regressor:
    """Return the paper's regressor with random weights."""
    text = TextEncoder(backbone(options.size), tokenizer(options.root, options.size))
    config = RegressorConfig(
        TextEncoderConfig(name="random", trained_layers=12),
        ImageEncoderConfig(name="random") if image else None,
        FusionConfig(references=references),
        HeadConfig(hidden=HIDDEN[options.size]),
    )
    known = samples(options.root, options.rows)
    idf = IdfTable.fit(text.tokenize([text for row in known for text in row.references]))
    return Regressor(config, text, vision(options.size) if image else None, idf).eval()


def loaded(options: Options, *, image: bool, references: str) -> LoadedModel:
    """Return the same as a loaded model."""
    model = regressor(options, image=image, references=references)
    return LoadedModel(model, {}, "random weights", Path())


def shipped(options: Options) -> Path | None:
    """Return the folder of the model in the package, or the one asked for; None where there is none."""
    if options.model is not None:
        return options.model
    return None if default_model_reason() else default_model()


def matrix_operations(model: TextEncoder, lengths: Sequence[int]) -> float:
    """Return the operations of the matrix products that captions of these lengths need, without padding."""
    layers = sum(p.numel() for name, p in model.named_parameters() if "embed" not in name and p.ndim == 2)
    depth = model.backbone.config.num_hidden_layers
    return sum(2.0 * layers * length + 4.0 * depth * model.width * length**2 for length in lengths)
