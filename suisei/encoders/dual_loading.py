"""Dual encoders by open_clip's names, from checkpoints and from folders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from suisei.encoders.dual import DualEncoder
from suisei.encoders.dual_parts import check_dual_folder, model_of_folder, tokenizer_of_folder
from suisei.encoders.dual_weights import load_weights
from suisei.encoders.hub_errors import hub_guard, no_hub
from suisei.encoders.pixels import model_transform
from suisei.encoders.precision import choose_device, choose_precision
from suisei.encoders.seeded import seeded
from suisei.errors import ConfigError


def load_dual_encoder(
    name: str = "ViT-B-32",
    pretrained: str | None = "openai",
    *,
    checkpoint: str | Path | None = None,
    seed: int | None = None,
    precision: str = "auto",
    device: str = "auto",
) -> DualEncoder:
    """Load an open_clip model.

    Args:
        name: an open_clip model name (``ViT-B-32``, ``xlm-roberta-base-ViT-B-32``), or a folder
            with ``open_clip_config.json``, its weights and, where it has one, its tokenizer.
        pretrained: an open_clip pretraining tag. With a checkpoint it says only which weights that
            one was trained from, which decides the activation function and the preprocessing.
        checkpoint: a local file with weights of the whole model, read without running any code;
            LoRA factors as published with PAC-S++ are merged.
        seed: random weights from this seed instead, for tests.
        precision: "fp32", "tf32", "bf16", "fp16", or "auto": what SUISEI_PRECISION says, else fp16 on a GPU
            as the reference code of CLIPScore, bf16 on a CPU that multiplies it in hardware, fp32 elsewhere.
        device: a torch device, or "auto".

    Raises:
        ConfigError: an unknown model, tag or precision.
        ModelError: a checkpoint that is unsafe or does not fit.
        UnavailableError: weights that are neither here nor to be had from the hub.
    """
    device = choose_device(device)
    if precision == "auto":
        precision = choose_precision("auto", device, on_gpu="fp16")
    if Path(name).is_dir():
        return _load_folder(Path(name), checkpoint, seed, precision=precision, device=device)
    architecture = name.replace("/", "-")
    tag = _tag_settings(name, pretrained)
    if not (tag or checkpoint is not None or seed is not None):
        raise ConfigError("no weights: give `pretrained`, `checkpoint`, or a `seed` for random ones")
    with hub_guard(name):
        described = _describe(architecture, tag)
        model = _build(architecture, described, tag, seed)
        tokenizer = _tokenizer(architecture)
    weights = load_weights(model, None, tag, pretrained, checkpoint, seed)
    return DualEncoder(
        model,
        tokenizer,
        image_transform(model),
        name=architecture,
        weights=weights,
        precision=precision,
        device=device,
        architecture=described,
    )


def _load_folder(
    folder: Path, checkpoint: str | Path | None, seed: int | None, *, precision: str, device: str
) -> DualEncoder:
    """Load a dual encoder from its folder, and from nowhere else."""
    described, preprocess = check_dual_folder(folder, weighed=checkpoint is None and seed is None)
    with seeded(0 if seed is None else seed), no_hub():
        model = model_of_folder(folder, described, preprocess)
        tokenizer = tokenizer_of_folder(folder, described["text_cfg"])
    weights = load_weights(model, folder, None, None, checkpoint, seed)
    return DualEncoder(
        model,
        tokenizer,
        image_transform(model),
        name=folder.resolve().name,
        weights=weights,
        precision=precision,
        device=device,
        architecture=described,
    )


def _tag_settings(name: str, pretrained: str | None) -> dict[str, Any]:
    import open_clip

    architecture = name.replace("/", "-")
    if architecture not in open_clip.list_models():
        raise ConfigError(
            f"open_clip has no model {name!r}, and there is no such folder; it has: "
            f"{', '.join(open_clip.list_models())}"
        )
    if pretrained is None:
        return {}
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if pretrained not in tags:
        raise ConfigError(
            f"model {architecture!r} has no weights {pretrained!r}; it has: {', '.join(tags) or 'none'}; "
            "a local file goes into `checkpoint`"
        )
    return dict(open_clip.get_pretrained_cfg(architecture, pretrained))


def _describe(architecture: str, tag: dict[str, Any]) -> dict[str, Any]:
    """Return open_clip's description of a model, with the activation that its weights expect."""
    import open_clip

    described = dict(open_clip.get_model_config(architecture))
    text = dict(described["text_cfg"])
    if "hf_model_name" in text:
        text["hf_model_pretrained"] = False
    described["text_cfg"] = text
    if tag.get("quick_gelu"):
        described["quick_gelu"] = True
    return described


def _build(architecture: str, described: dict[str, Any], tag: dict[str, Any], seed: int | None) -> nn.Module:
    """Build the model with random weights, with the activation and preprocessing its weights expect."""
    import open_clip

    keys = ("mean", "std", "interpolation", "resize_mode")
    with seeded(0 if seed is None else seed), _quiet_logging():
        return open_clip.create_model(
            architecture,
            pretrained=None,
            load_weights=False,
            pretrained_text=False,
            force_preprocess_cfg={key: tag[key] for key in keys if tag.get(key)},
            **{key: value for key, value in described.items() if key != "custom_text"},
        )


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keep open_clip from logging that weights are missing (they come next) to a root handler it adds."""
    root, before, quiet = logging.getLogger(), logging.root.manager.disable, logging.NullHandler()
    root.addHandler(quiet)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(quiet)


def _tokenizer(architecture: str) -> Callable[[list[str]], Tensor]:
    import open_clip

    config = open_clip.get_model_config(architecture) or {}
    remote = "hf_tokenizer_name" in config.get("text_cfg", {})  # one of transformers, which would ask
    return open_clip.get_tokenizer(architecture, **({"trust_remote_code": False} if remote else {}))


def image_transform(model: Any) -> Callable[[Any], Tensor]:
    """Return the preprocessing of an open_clip model: PIL image -> float32 [3, s, s]."""
    settings = model.visual.preprocess_cfg
    transform: Any = model_transform(settings)
    size = settings["size"]
    transform.side = size if isinstance(size, int) else max(size)
    return transform
