"""Captioning a few images with ``suisei positives``, by a model of a few thousand weights."""

import json

import numpy as np
import torch
from PIL import Image

from suisei.commands import positives
from suisei.pacs.manifest import read_positives

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "[ENC]",
    "a", "dog", "cat", "man", "runs", "sits", "red", "on", "the", "mat", "two",
]  # fmt: skip
SIZE = {"hidden_size": 16, "intermediate_size": 20, "projection_dim": 16, "num_hidden_layers": 1}


def tiny_blip(folder):
    """Save a BLIP of a few thousand weights; returns its folder."""
    from transformers import (
        BertTokenizer,
        BlipConfig,
        BlipForConditionalGeneration,
        BlipImageProcessor,
        BlipProcessor,
    )

    text = {"vocab_size": len(WORDS), "encoder_hidden_size": 16, "num_attention_heads": 2, **SIZE}
    text |= {"max_position_embeddings": 32, "bos_token_id": 5, "eos_token_id": 3, "pad_token_id": 0}
    vision = {"num_attention_heads": 2, "image_size": 32, "patch_size": 16, **SIZE}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BlipForConditionalGeneration(
            BlipConfig(text_config={**text, "sep_token_id": 3}, vision_config=vision, projection_dim=16)
        )
    model.save_pretrained(folder)
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)})
    BlipProcessor(BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer).save_pretrained(folder)
    return folder


def rows_of_images(folder):
    """Write five images and a file of six rows that name them; returns the file."""
    rows = []
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 255, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        rows.append({"id": str(number), "image": f"{number}.png", "caption": f"caption {number}"})
    rows.append({"id": "again", "image": "0.png", "caption": "caption 0"})
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def captions(data, blip, output, *options):
    """Run the command; returns its exit status."""
    shared = ["--model", str(blip), "--output", str(output), "--max-tokens", "8", "--device", "cpu"]
    return positives.main(["captions", str(data), *shared, *options])


def texts(folder):
    """Return {source: caption} of what was made."""
    return {source: found.caption for source, found in read_positives(folder).items()}
