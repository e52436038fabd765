"""Models that generate positives: captions from images, and images from captions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from suisei.encoders.hub_errors import hub_guard
from suisei.encoders.precision import choose_device
from suisei.encoders.pretrained import check_config_file, check_pipeline_file
from suisei.encoders.weights import file_hash
from suisei.errors import ConfigError, ModelError, UnavailableError

if TYPE_CHECKING:
    from PIL.Image import Image

CAPTIONER = "Salesforce/blip-image-captioning-large"
ILLUSTRATOR = "stable-diffusion-v1-5/stable-diffusion-v1-5"
_CHECKED = (".safetensors", ".bin", ".json", ".txt", ".model")
_LOADING_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)


class Captioner:
    """A Hugging Face image-to-text model.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model.
        device: a torch device, or "auto".
        beams: beams of the search; with one and no ``top_p`` it is greedy.
        top_p: sample from the most likely words that hold this share of the probability, instead of
            searching; each image is then captioned on its own, with its own seed.
        max_tokens: longest caption, in new tokens.

    Raises:
        UnavailableError: the model is neither here nor to be had.
        ModelError: it is no image-to-text model.
    """

    def __init__(
        self,
        model: str = CAPTIONER,
        *,
        revision: str | None = None,
        device: str = "auto",
        beams: int = 3,
        top_p: float | None = None,
        max_tokens: int = 30,
    ) -> None:
        if top_p is not None and not 0 < top_p <= 1:
            raise ConfigError(f"top_p must be in (0, 1], got {top_p:g}")
        from transformers import AutoModelForImageTextToText, AutoProcessor

        check_config_file(Path(model))
        self.device, self.dtype = _device(device)
        self._sampled = top_p is not None
        try:
            with hub_guard(model):
                self._processor: Any = AutoProcessor.from_pretrained(
                    model, revision=revision, trust_remote_code=False
                )
                self._model: Any = AutoModelForImageTextToText.from_pretrained(
                    model, revision=revision, dtype=self.dtype, trust_remote_code=False
                )
        except UnavailableError:
            raise
        except _LOADING_ERRORS as error:
            raise ModelError(f"{model} cannot be loaded as an image-to-text model: {error}") from error
        self._model.eval().to(self.device)
        self.name, self.revision = _identity(model, revision, "config.json")
        self._options: dict[str, Any] = {
            "max_new_tokens": max_tokens,
            "num_beams": 1 if self._sampled else beams,
        }
        self._options |= {"do_sample": True, "top_p": top_p} if self._sampled else {"do_sample": False}

    @property
    def settings(self) -> dict[str, Any]:
        """What decides a caption, apart from model and seed."""
        return {**self._options, "dtype": str(self.dtype).removeprefix("torch.")}

    def generate(self, images: Sequence[Image], seeds: Sequence[int]) -> list[str]:
        """Return a caption per image; seeds matter only where captions are sampled."""
        if not self._sampled:
            return self._generate(images)
        captions = []
        for image, seed in zip(images, seeds, strict=True):
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(seed)
                captions += self._generate([image])
        return captions

    @torch.inference_mode()
    def _generate(self, images: Sequence[Image]) -> list[str]:
        inputs = self._processor(images=list(images), return_tensors="pt").to(self.device)
        pixels = inputs["pixel_values"].to(self.dtype)
        ids = self._model.generate(pixel_values=pixels, **self._options)
        texts = self._processor.batch_decode(ids, skip_special_tokens=True)
        return [" ".join(text.split()) for text in texts]


class Illustrator:
    """A text-to-image pipeline of diffusers.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model.
        device: a torch device, or "auto".
        steps: denoising steps.
        guidance: strength of the classifier-free guidance.
        size: width and height in pixels; None for the model's own.

    Raises:
        UnavailableError: diffusers is not installed, or the model is neither here nor to be had.
        ModelError: it is no text-to-image model.
    """

    def __init__(
        self,
        model: str = ILLUSTRATOR,
        *,
        revision: str | None = None,
        device: str = "auto",
        steps: int = 50,
        guidance: float = 7.5,
        size: int | None = None,
    ) -> None:
        check_pipeline_file(Path(model))
        try:
            from diffusers import AutoPipelineForText2Image
        except ImportError as error:
            raise UnavailableError(
                f"generating images needs diffusers: pip install 'suisei[recap]' ({error})"
            ) from None
        self.device, self.dtype = _device(device)
        try:
            with hub_guard(model):
                self._pipeline: Any = AutoPipelineForText2Image.from_pretrained(
                    model, revision=revision, torch_dtype=self.dtype, trust_remote_code=False
                )
        except UnavailableError:
            raise
        except _LOADING_ERRORS as error:
            raise ModelError(f"{model} cannot be loaded as a text-to-image model: {error}") from error
        self._pipeline.to(self.device)
        self._pipeline.set_progress_bar_config(disable=True)
        self.name, self.revision = _identity(model, revision, "model_index.json")
        self._options: dict[str, Any] = {"num_inference_steps": steps, "guidance_scale": guidance}
        if size is not None:
            self._options |= {"height": size, "width": size}

    @property
    def settings(self) -> dict[str, Any]:
        """What decides an image, apart from model and seed."""
        pipeline = type(self._pipeline).__name__
        scheduler = type(self._pipeline.scheduler).__name__
        dtype = str(self.dtype).removeprefix("torch.")
        return {**self._options, "pipeline": pipeline, "scheduler": scheduler, "dtype": dtype}

    def generate(self, captions: Sequence[str], seeds: Sequence[int]) -> list[Image | None]:
        """Return an image per caption, each from its own seed; None where the safety checker declines."""
        # Noise is drawn on the CPU, so that it is the same on every device and in every batch.
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        output = self._pipeline(list(captions), generator=generators, **self._options)
        flagged = getattr(output, "nsfw_content_detected", None) or [False] * len(captions)
        return [None if declined else image for image, declined in zip(output.images, flagged, strict=True)]


def _device(device: str) -> tuple[torch.device, torch.dtype]:
    chosen = torch.device(choose_device(device))
    return chosen, torch.float16 if chosen.type == "cuda" else torch.float32


def _identity(model: str, revision: str | None, index: str) -> tuple[str, str]:
    """Return a model's name and what says which version of it was used."""
    folder = Path(model)
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in _CHECKED)
        parts = [f"{path.relative_to(folder).as_posix()} {file_hash(path)}" for path in files]
        return (
            folder.resolve().name,
            f"sha256-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}",
        )
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, index, revision=revision)
    return model, Path(cached).parent.name if isinstance(cached, str) else revision or "unknown"
