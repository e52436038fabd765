"""CLIP-S and RefCLIP-S (Hessel et al., 2021), and what every score of their kind shares."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.errors import ConfigError
from suisei.metrics.dual_metric import DualMetric

PROMPT = "A photo depicts "
"""What stands before every caption, in training of the dual encoder as well."""
CLIPSCORE_W = 2.5


class ContrastiveScore(DualMetric):
    """The scaled cosine of an image and a caption, with or without references.

    Without references the score of image v and caption c is ``w * max(cos(v, c), 0)``; its range is
    [0, w]. With references R it is the harmonic mean of that number, already scaled, and the highest
    cosine between the caption and a reference (Hessel et al., 2021, equations 1 and 2).

    The papers clip the second number at 0 and the authors' programs do not; here ``clip_reference``
    decides, and the signature says which. Clipped, or where no best cosine is negative, the range is
    [0, 2w / (w + 1)]. Otherwise it has no limits: of a number above 0 and one below there is no harmonic
    mean, and what the formula gives, any number of either sign, is said once to mean nothing. Where the two
    numbers sum to 0 (both are 0, say) the programs return NaN or infinity; the score is then 0, the limit
    of the mean as both approach 0 from above.

    A subclass sets ``name`` first.

    Args:
        w: the scale of the image-caption cosine.
        references: whether the reference term enters.
        prompt: put before every caption and reference.
        clip_reference: whether the highest reference cosine is clipped at 0.
        compile: whether the encoder's towers are compiled: slow at first, then faster.
        options: the encoder's, see :class:`suisei.metrics.dual_metric.DualMetric`.
    """

    def __init__(
        self,
        *,
        w: float,
        references: bool,
        prompt: str = PROMPT,
        clip_reference: bool = False,
        compile: bool = False,  # noqa: A002 - the word users know
        **options: Any,
    ) -> None:
        if not w > 0:
            raise ConfigError(f"w must be positive, got {w}")
        super().__init__(**options)
        self._loading["compile"] = compile
        self.needs = frozenset({"image", "references"} if references else {"image"})
        self.w = w
        self.prompt = prompt
        self.references = references
        self.clip_reference = clip_reference
        self._warned = False
        self._warned_of_negative = False

    def settings(self) -> dict[str, str]:
        """Return model, weights, preprocessing, precision, prompt, w and the reference term."""
        own = {**self.encoder.settings(), "prompt": repr(self.prompt), "w": f"{self.w:g}"}
        if self.references:
            own["ref"] = "max-clipped" if self.clip_reference else "max"
        return own

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        from suisei.encoders.dual import normalised

        self._warn_about_language(samples)
        encoder = self.encoder
        images = encoder.encode_images(
            [sample.image for sample in samples if sample.image is not None],
            batch_size=batch_size,
            progress=progress,
        )
        references = [sample.references if self.references else () for sample in samples]
        texts = [sample.candidate for sample in samples] + list(itertools.chain.from_iterable(references))
        self._length_warning(encoder, set(texts), self.prompt, self.model_shown)
        features = normalised(
            encoder.encode_texts(texts, prompt=self.prompt, batch_size=4 * batch_size, progress=progress)
        )
        captions = features[: len(samples)]
        scores = self.w * np.clip(_row_dot(normalised(images), captions), 0, None)
        if not self.references:
            return scores
        counts = [len(own) for own in references]
        owners = np.repeat(np.arange(len(samples)), counts)
        cosines = _row_dot(features[len(samples) :], captions[owners])
        best = np.maximum.reduceat(cosines, np.cumsum([0, *counts[:-1]]))
        if self.clip_reference:
            return harmonic_mean(scores, np.clip(best, 0, None))
        self._warn_about_negative(scores, best)
        return harmonic_mean(scores, best)

    def _warn_about_language(self, samples: Sequence[CaptionSample]) -> None:
        if self._warned or self.encoder.reads_japanese:
            return
        if any(language_of(sample) == "ja" for sample in samples):
            self._warned = True
            warnings.warn(
                f"{self.name}: {self.model_shown} has an English tokenizer, so its scores of Japanese "
                "captions say little; use a multilingual model such as "
                "model='xlm-roberta-base-ViT-B-32', pretrained='laion5b_s13b_b90k'",
                stacklevel=3,
            )

    def _warn_about_negative(self, scores: np.ndarray, best: np.ndarray) -> None:
        """Say once that scores mean nothing where the best reference cosine alone is below 0."""
        count = int(((scores > 0) & (best < 0)).sum())
        if self._warned_of_negative or not count:
            return
        self._warned_of_negative = True
        have = "has" if count == 1 else "have"
        warnings.warn(
            f"{self.name}: {count} of {len(best)} captions {have} a negative cosine with every reference and "
            "a positive one with the image: their harmonic mean means nothing and may be any number; "
            f"clip_reference=True (--metric-option {self.name}.clip_reference=true) clips the former at 0 as "
            "the papers do; later ones are scored without another warning",
            stacklevel=4,
        )


class ClipScore(ContrastiveScore):
    """CLIP-S or RefCLIP-S: w = 2.5 and the prompt "A photo depicts ".

    Args:
        references: False for CLIP-S, True for RefCLIP-S.
        w: the scale.
        options: those of :class:`ContrastiveScore`.
    """

    def __init__(self, *, references: bool = False, w: float = CLIPSCORE_W, **options: Any) -> None:
        self.name = "ref-clip-s" if references else "clip-s"
        super().__init__(w=w, references=references, **options)


def harmonic_mean(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return ``2ab / (a + b)`` of arrays [N], and 0 where a + b is 0.

    It is a mean where neither is negative; where one is, it has no limits as the sum approaches 0.

    >>> harmonic_mean(np.array([1.0, 0.0]), np.array([0.5, 0.0])).tolist()
    [0.6666666666666666, 0.0]
    """
    total = first + second
    return 2 * first * second / np.where(total == 0, 1, total) * (total != 0)


def _row_dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the dot products of the rows of two float arrays [N, d], float64 [N]."""
    return np.einsum("nd,nd->n", left, right, dtype=np.float64)
