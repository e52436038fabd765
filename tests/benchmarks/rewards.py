"""What a reward costs in a step of self-critical training: its share of the step's time.

The captioner is the paper's (3 + 3 layers, width 512, 8 heads, five beams) with random weights and a small
tower that is frozen, so that a step holds no tower: with a larger or a trained one the shares only fall.
"""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from suisei.captioning.caption_sources import CaptionedImage, load_captioned
from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower, TowerConfig, create_image_encoder
from suisei.captioning.image_grids import ImageGrids
from suisei.captioning.pieces import Pieces
from suisei.captioning.rewarded_images import RewardedImages
from suisei.captioning.self_critical import SelfCritical
from suisei.captioning.transformer import TransformerConfig
from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder
from suisei.encoders.tiny import TinyImageConfig
from tests.benchmarks.harness import Options, Row

SECTION = "rewards"
BATCH, BEAMS, LENGTH = 16, 5, 20
STEPS = {"base": 6, "tiny": 2}
CLIP = {
    "base": {
        "embed_dim": 512,
        "vision_cfg": {"image_size": 224, "layers": 12, "width": 768, "patch_size": 32},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12},
    },
    "tiny": {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
}
"""CLIP ViT-B/32, the backbone of PAC-S, with random weights."""


def run(options: Options) -> Iterator[Row]:
    """Measure each reward, with images that it has not met before and again with known ones.

    A training knows all images at its first step, for the reward looks at them before; not so here.
    """
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = _pairs(options, folder)
        torch.manual_seed(0)
        _captioner(options, pairs).save(folder / "captioner")
        save_dual_encoder(new_dual_encoder(CLIP[options.size], seed=0), folder / "clip")
        suisei = "suisei" if options.model is None else f"suisei:{options.model}"
        for label, reward in (("SuiSei", suisei), ("PAC-S", f"pac-s:{folder / 'clip'}"), ("CIDEr", "cider")):
            yield from _rows(options, folder, label, reward)


def _rows(options: Options, folder: Path, label: str, reward: str) -> Iterator[Row]:
    steps = STEPS[options.size]
    data = RewardedImages(
        str(folder / "train.jsonl"),
        str(folder / "validation.jsonl"),
        images=None if options.root is None else str(options.root),
        batch_size=_batch(options),
        validation_images=1,
    )
    data.load()
    model = SelfCritical(str(folder / "captioner"), reward, captions=BEAMS, max_length=LENGTH)
    model.rewarder.fit(data.documents)
    model.rewarder.looked_at_ahead = lambda images: ()  # type: ignore[method-assign]
    model.prepare(data.pairs, ImageGrids(model.writer, [pair.image for pair in data.pairs]), 0)
    for met in ("new", "known"):
        model.seconds = {"step": 0.0, "reward": 0.0}
        trainer = Trainer(
            max_steps=steps,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            limit_val_batches=0,
            gradient_clip_val=1.0,
        )
        trainer.fit(model, datamodule=data)
        share = 100 * model.seconds["reward"] / model.seconds["step"]
        note = f"{model.seconds['step'] / steps:.2f} s a step of {_batch(options)} images, {BEAMS} beams"
        yield Row(SECTION, f"{label}, images {met} to it", share, "% of a step", note=note)


def _batch(options: Options) -> int:
    return BATCH if options.size == "base" else 2


def _pairs(options: Options, folder: Path) -> list[CaptionedImage]:
    """Return the images that are captioned, and write them as a file."""
    count = _batch(options) * STEPS[options.size]
    if options.root is not None:
        pairs = load_captioned("flickr8k-train", root=options.root)[: count + 1]
    else:
        pairs = load_captioned("scenes", language="en")[: count + 1]
    rows: Sequence[str] = [
        json.dumps({"image": str(pair.image.resolve()), "captions": list(pair.captions)}) for pair in pairs
    ]
    (folder / "train.jsonl").write_text("\n".join(rows[:-1]) + "\n", encoding="utf-8")
    (folder / "validation.jsonl").write_text(rows[-1] + "\n", encoding="utf-8")
    return pairs


def _captioner(options: Options, pairs: Sequence[CaptionedImage]) -> Captioner:
    base = options.size == "base"
    encoder = create_image_encoder(TowerConfig("tiny", tiny=TinyImageConfig(image_size=96 if base else 64)))
    pieces = Pieces.learned([text for pair in pairs for text in pair.captions], 4000 if base else 400)
    small = {"width": 32, "heads": 4, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 64}
    return Captioner(GridTower(encoder), TransformerConfig(**({} if base else small)), pieces, ["en"])
