"""A text-to-image model of 64 px that is trained in minutes on a CPU, in the layout of diffusers.

python -m tests.benchmarks.tiny_diffusion --root FLICKR8K --encoder MINILM --output DIR --minutes 15

It exists so that RECAP (suisei/metrics/recap.py) can be run from end to end where no text-to-image model can
be had. It learns which colours stand where in a photograph with such a caption, and no more: its images are
blurred blobs, 16 x 16 numbers a channel, enlarged by 4. Figures made with it say that the programs work; they
say nothing about RECAP, whose paper draws with Stable Diffusion 2.1.

DIR is a StableDiffusionPipeline: a UNet trained here; the first layers of a BERT-like encoder, frozen; and,
in place of a trained autoencoder, one with weights set by hand that averages 4 x 4 pixels and interpolates
(its edges come out dark, for beyond them it takes zeros).
--start DIR goes on from the UNet of an earlier run. Only Flickr8k's training images are seen.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import AutoTokenizer, BertModel

from suisei.data.benchmarks.flickr8k import read_captions, read_image_list
from suisei.data.images import load_image

SIDE, FACTOR, TOKENS, LAYERS = 64, 4, 24, 2
LATENT = SIDE // FACTOR
SPREAD = 4.0
"""Scale of the latents: pixels have a standard deviation of about 1/4."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and write the pipeline."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tiny_diffusion", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="Flickr8k: texts and images")
    parser.add_argument("--encoder", required=True, help="folder of a BERT-like encoder of captions")
    parser.add_argument("--output", type=Path, required=True, help="the pipeline's folder")
    parser.add_argument("--start", type=Path, help="a pipeline's folder whose UNet is trained further")
    parser.add_argument("--minutes", type=float, default=15.0, help="of training, on the clock")
    parser.add_argument("--images", type=int, default=6000, help="training images at most")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    names = read_image_list(options.root, "train")[: options.images]
    captions = read_captions(options.root)
    latents = torch.stack([latent(options.root / "Flicker8k_Dataset" / name) for name in names])
    _say(f"{len(latents)} images; standard deviation of the latents {latents.std():.3f}")
    tokenizer = AutoTokenizer.from_pretrained(options.encoder, trust_remote_code=False)
    tokenizer.model_max_length = TOKENS
    encoder = BertModel.from_pretrained(options.encoder, num_hidden_layers=LAYERS, add_pooling_layer=False)
    texts = [captions[name][number] for name in names for number in (0, 1)]  # two of five: time
    states = encoded(["", *texts], tokenizer, encoder.eval())
    _say(f"{len(texts)} captions encoded")
    unet = small_unet(states.shape[-1])
    if options.start:
        unet = diffusers.UNet2DConditionModel.from_pretrained(options.start / "unet")
    scheduler = diffusers.DDIMScheduler(
        beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction", clip_sample=False, steps_offset=1
    )
    train(unet, scheduler, latents, states, options)
    vae = bilinear_autoencoder()
    pipeline = diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(options.output)
    _say(f"written to {options.output}")
    return 0


def latent(path: Path) -> Tensor:
    """Return a photograph's middle square as latents [3, 16, 16]."""
    image = load_image(path, target_size=SIDE)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    small = np.asarray(square.resize((LATENT, LATENT), Image.Resampling.BOX))
    pixels = torch.from_numpy(small.copy()).permute(2, 0, 1)
    return (pixels / 255 - 0.5) * SPREAD


def bilinear_autoencoder() -> diffusers.AutoencoderTiny:
    """Return an autoencoder that averages 4 x 4 pixels, and interpolates; nothing of it is trained."""
    vae = diffusers.AutoencoderTiny(
        encoder_block_out_channels=(3, 3, 3),
        decoder_block_out_channels=(3, 3, 3),
        num_encoder_blocks=(0, 0, 0),
        num_decoder_blocks=(0, 0, 0),
        latent_channels=3,
        scaling_factor=SPREAD,
    )
    smooth = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    point = torch.zeros(3, 3)
    point[1, 1] = 1
    encoder = [layer for layer in vae.encoder.layers if isinstance(layer, torch.nn.Conv2d)]
    decoder = [layer for layer in vae.decoder.layers if isinstance(layer, torch.nn.Conv2d)]
    with torch.no_grad():
        for layer, kernel, bias in (
            (encoder[0], point, 0),
            (encoder[1], smooth, None),
            (encoder[2], smooth, None),
            (encoder[3], point, -0.5),
            (decoder[0], point, 0.5),
            (decoder[1], smooth, None),
            (decoder[2], smooth, None),
            (decoder[3], point, 0),
        ):
            layer.weight.zero_()
            for channel in range(3):
                layer.weight[channel, channel] = kernel
            if bias is not None:
                layer.bias.fill_(bias)
    return vae


def small_unet(width: int) -> diffusers.UNet2DConditionModel:
    """Return a UNet of 16 x 16 with random weights; it attends to captions at 8 x 8 and 4 x 4."""
    return diffusers.UNet2DConditionModel(
        sample_size=LATENT,
        in_channels=3,
        out_channels=3,
        block_out_channels=(32, 64, 96),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=width,
        attention_head_dim=32,
        norm_num_groups=16,
    )


@torch.inference_mode()
def encoded(texts: Sequence[str], tokenizer: Any, encoder: BertModel) -> Tensor:
    """Return the states of captions, float16 [N, TOKENS, width], as the pipeline computes them: unmasked."""
    states = torch.empty(len(texts), TOKENS, encoder.config.hidden_size, dtype=torch.float16)
    for start in range(0, len(texts), 128):
        some = list(texts[start : start + 128])
        ids = tokenizer(
            some, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"
        ).input_ids
        states[start : start + 128] = encoder(ids)[0].half()
    return states.clone()


def train(unet: Any, scheduler: Any, latents: Tensor, states: Tensor, options: argparse.Namespace) -> None:
    """Train until the time is over; the UNet then has the moving average of its weights."""
    draw = torch.Generator().manual_seed(options.seed)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=options.lr, weight_decay=0.01)
    average = [weights.detach().clone() for weights in unet.parameters()]
    begin, step, losses = time.monotonic(), 0, []
    while (spent := (time.monotonic() - begin) / 60 / options.minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.lr * min(1.0, (step + 1) / 50, 2 * (1 - spent) + 0.02)
        rows = torch.randint(len(latents), (options.batch_size,), generator=draw)
        which = 1 + 2 * rows + torch.randint(2, rows.shape, generator=draw)
        which[torch.rand(len(rows), generator=draw) < 0.1] = 0  # no caption, for the guidance
        clean = latents[rows]
        flip = torch.rand(len(rows), 1, 1, 1, generator=draw) < 0.5
        clean = torch.where(flip, clean.flip(-1), clean)
        noise = torch.randn(clean.shape, generator=draw)
        times = torch.randint(scheduler.config.num_train_timesteps, (len(rows),), generator=draw)
        target = scheduler.get_velocity(clean, noise, times)
        found = unet(scheduler.add_noise(clean, noise, times), times, states[which].float()).sample
        loss = (found - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        torch._foreach_lerp_(
            average, [weights.detach() for weights in unet.parameters()], max(0.01, 1 / (step + 1))
        )
        step += 1
        losses.append(loss.item())
        if step % 50 == 0:
            _say(f"step {step}, {spent:.0%} of the time: loss {np.mean(losses[-50:]):.4f}")
    with torch.no_grad():
        for weights, mean in zip(unet.parameters(), average, strict=True):
            weights.copy_(mean)
    _say(f"{step} steps of {options.batch_size}; loss {np.mean(losses[-100:]):.4f}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
