"""Models that generate positives: captions from images; images come from the pipelines of encoders/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from suisei.encoders.pretrained import check_config_file
from suisei.encoders.seeded import seeded
from suisei.encoders.text_parts import check_vocabulary, load_tokenizer
from suisei.encoders.text_to_image import Illustrator, generator_device, loading, model_identity
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from PIL.Image import Image

CAPTIONER = "Salesforce/blip-image-captioning-large"
ILLUSTRATOR = "stable-diffusion-v1-5/stable-diffusion-v1-5"

__all__ = ["CAPTIONER", "ILLUSTRATOR", "Captioner", "Illustrator"]


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
        from transformers import AutoModelForImageTextToText

        check_config_file(Path(model))
        self.device, self.dtype = generator_device(device)
        self._sampled = top_p is not None
        with loading(model, "an image-to-text model"):
            self._prepare, self._decode = _readers(model, revision)
            self._model: Any = AutoModelForImageTextToText.from_pretrained(
                model, revision=revision, dtype=self.dtype, trust_remote_code=False
            )
        self._model.eval().to(self.device)
        self.name, self.revision = model_identity(model, revision, "config.json")
        self._options: dict[str, Any] = {
            "max_new_tokens": max_tokens,
            "num_beams": 1 if self._sampled else beams,
        }
        # 0 because transformers draws from the likeliest 50 tokens where it is not told how many
        drawn = {"do_sample": True, "top_p": top_p, "top_k": 0}
        self._options |= drawn if self._sampled else {"do_sample": False}

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
            with seeded(seed, self.device):
                captions += self._generate([image])
        return captions

    @torch.inference_mode()
    def _generate(self, images: Sequence[Image]) -> list[str]:
        inputs = self._prepare(images=list(images), return_tensors="pt").to(self.device)
        pixels = inputs["pixel_values"].to(self.dtype)
        ids = self._model.generate(pixel_values=pixels, **self._options)
        texts = self._decode(ids, skip_special_tokens=True)
        return [" ".join(text.split()) for text in texts]


def _readers(model: str, revision: str | None) -> tuple[Any, Any]:
    """Return what prepares images, and what decodes texts, of a model.

    Vision-encoder-decoders (ViT with GPT-2) have no processor of both, and AutoProcessor gives the tokenizer.
    """
    from transformers import AutoImageProcessor, AutoProcessor

    given: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    processor: Any = AutoProcessor.from_pretrained(model, **given)
    if hasattr(processor, "image_processor"):
        if hasattr(processor, "tokenizer"):
            check_vocabulary(processor.tokenizer, model)
        return processor, processor.batch_decode
    tokenizer: Any = load_tokenizer(model, **given)
    images: Any = AutoImageProcessor.from_pretrained(model, **given)
    return images, tokenizer.batch_decode
