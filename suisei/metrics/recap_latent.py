"""RECAP, latent (Chang et al., 2023): how far a caption's guess at its image is from the image.

Shape letters: N samples, I images, f width of their features, P positions of a target, d width of the
language model.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.encoders.locks import Lock
from suisei.encoders.precision_words import PRECISION
from suisei.errors import UnavailableError
from suisei.metrics.base import Metric
from suisei.progress import progress_bar
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from torch import Tensor

    from suisei.models.latent import LatentModel

DISTANCES = ("mean", "l2")
SAMPLES_AT_ONCE = 2048
"""Captions that are tokenised and sorted by length at one time."""


class RecapLatent(Metric):
    """Distance between a caption's guess and its image, in a language model's space; lower is better.

    Args:
        path: a folder that ``suisei train --config recap_latent`` wrote.
        distance: "mean" for the mean squared difference (the paper's Latent (Mean)), "l2" for the length of
            the difference (Latent (L2)), which puts captions in the same order.
        device: a torch device, or "auto".
        precision: what the image tower computes in, see :func:`suisei.encoders.precision.choose_precision`;
            the rest computes in fp32.
        cache: where image features are on disk, see :func:`suisei.encoders.cache_place.disk_cache`.
    """

    name = "recap-latent"
    needs = frozenset({"image"})
    higher_is_better: ClassVar[bool] = False

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        distance: str = "mean",
        device: str = "auto",
        precision: str = "auto",
        cache: str | Path | None = None,
    ) -> None:
        if path is None:
            raise UnavailableError(
                "metric 'recap-latent' needs a trained folder: recap-latent:DIR; "
                "`suisei train --config recap_latent` makes one"
            )
        check("distance", distance, Word(DISTANCES))
        check("precision", precision, PRECISION)
        self.path, self.distance, self.device = Path(path), distance, device
        self._precision, self._cache = precision, cache
        self._lock = Lock()
        self._said = False
        self._parts: tuple[LatentModel, str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": None}  # a model in use is not pickled; it is loaded again

    @property
    def precision(self) -> str:
        """What the image tower computes in on its device."""
        from suisei.encoders.precision import choose_device, choose_precision

        return choose_precision(self._precision, choose_device(self.device))

    def settings(self) -> dict[str, str]:
        """Return the model's checksum, which stands for all of its parts, the distance and the precision."""
        return {"model": self._loaded()[1][:12], "distance": self.distance, "dtype": self.precision}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        with progress_bar("recap-latent: images", len(samples), shown=progress) as advance:
            rows, features = self._loaded()[2].of([sample.image for sample in samples], advance)
        scores = np.empty(len(samples))
        with progress_bar("recap-latent: captions", len(samples), shown=progress) as advance:
            for start in range(0, len(samples), SAMPLES_AT_ONCE):
                part = slice(start, start + SAMPLES_AT_ONCE)
                different, images = rows[part].unique(return_inverse=True)
                targets = self._targets(features[different])
                captions = [sample.candidate for sample in samples[part]]
                scores[part] = self._distances(captions, images, targets, batch_size)
                advance(len(captions))
        return scores

    def _targets(self, features: Tensor) -> Tensor:
        """Return what image features float32 [I, f] are mapped to, float32 [I, P, d] on the CPU."""
        import torch

        model, device = self._loaded()[0], self._device()
        with torch.inference_mode():
            return torch.cat([model.targets(part.to(device)).cpu() for part in features.split(64)])

    def _distances(
        self, captions: Sequence[str], images: Tensor, targets: Tensor, batch_size: int
    ) -> np.ndarray:
        """Return the distances of captions from the targets float32 [I, P, d] of their images, float64 [N].

        Args:
            captions: N captions; the longest are computed first.
            images: row of each one's target, int64 [N].
            targets: of the different images.
            batch_size: captions at one time, at most.
        """
        import torch

        from suisei.encoders.batch_sizes import tokens_per_batch
        from suisei.models.features import token_batches
        from suisei.models.latent import padded, squared_distances

        model, device = self._loaded()[0], self._device()
        shape = model.captions.shape
        ids = model.tokenize(captions)
        full = [text for text, own in zip(captions, ids, strict=True) if len(own) == shape.max_tokens]
        self._tell_of_cut(model.tokenizer.longer_than(full, shape.max_tokens))
        lengths = [len(own) + shape.prefix for own in ids]
        budget = min(tokens_per_batch(shape.width, device), batch_size * max(lengths))
        found = torch.empty(len(ids), dtype=torch.float64)
        for rows in token_batches(lengths, budget):
            batch, mask = (part.to(device) for part in padded([ids[row] for row in rows]))
            with torch.inference_mode():
                guesses = model.captions(batch, mask).cpu()
                found[rows] = squared_distances(guesses.double(), targets[images[rows]].double())
        if self.distance == "l2":
            found = (found * shape.prefix * shape.width).sqrt()
        return found.numpy()

    def _tell_of_cut(self, cut: set[str]) -> None:
        """Warn once that captions are cut."""
        if cut and not self._said:
            self._said = True
            warnings.warn(
                f"{self.name}: {counted(len(cut), 'caption')} with more tokens than {self.path} reads: cut "
                f"to its limit, such as {min(cut)[:60]!r}; later ones are cut without another warning",
                stacklevel=5,
            )

    def _device(self) -> str:
        from suisei.encoders.precision import choose_device

        return choose_device(self.device)

    def _loaded(self) -> tuple[LatentModel, str, Any]:
        """Return model, checksum and image features, loaded on first use."""
        from suisei.encoders.cache_place import disk_cache
        from suisei.encoders.precision import choose_device, to_precision
        from suisei.encoders.tower_features import TowerFeatures
        from suisei.models.latent_folder import load_latent

        with self._lock:
            if self._parts is None:
                model, checksum = load_latent(self.path)
                to_precision(model.image.tower, self.precision)
                model.to(choose_device(self.device))
                features = TowerFeatures(model.image, disk_cache(self._cache), self.precision)
                self._parts = model, checksum, features
            return self._parts
