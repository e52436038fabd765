"""The SuiSei regressor: encoders, pooling, fusion and the feed-forward head, in plain PyTorch.

Shape letters: B samples, T captions, I images, S encoder states, P poolings, E extra inputs, d text
width, d_img image width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.data.batch import Batch, Span
from suisei.data.idf import IdfTable
from suisei.encoders.image import ImageEncoder
from suisei.encoders.text import TextEncoder
from suisei.models.config import RegressorConfig
from suisei.models.feedforward import FeedForward
from suisei.models.fusion import Fusion
from suisei.models.pooling import LayerMix, pool_layers

SIMILARITIES = 3
"""Largest, mean and smallest cosine."""
SIMILARITY_SCALE = 0.25
"""About the standard deviation of cosines between captions."""


def similarities(candidate: Tensor, references: Tensor, mask: Tensor) -> Tensor:
    """Return the largest, mean and smallest cosine over references, float32 [B, 3 * P].

    Args:
        candidate: [B, P, d].
        references: [B, R, P, d].
        mask: True where there is a reference, bool [B, R]; rows without one are NaN.
    """
    cosines = F.cosine_similarity(candidate[:, None].float(), references.float(), dim=-1)  # [B, R, P]
    outside, count = ~mask[..., None], mask.sum(dim=1).clamp(min=1)[:, None]
    if not mask.shape[1]:
        return cosines.new_full((len(mask), SIMILARITIES * candidate.shape[1]), torch.nan)
    parts = [
        cosines.masked_fill(outside, -2.0).amax(dim=1),
        cosines.masked_fill(outside, 0.0).sum(dim=1) / count,
        cosines.masked_fill(outside, 2.0).amin(dim=1),
    ]
    return torch.cat(parts, dim=1).masked_fill(~mask.any(dim=1)[:, None], torch.nan)


class Regressor(nn.Module):
    """Scores a candidate caption against references and image.

    Args:
        config: the settings.
        text: the text encoder.
        image: the image encoder, or None for a model without image.
        idf: document frequencies fitted on the training references.
    """

    idf_weights: Tensor
    extra_mean: Tensor
    extra_scale: Tensor

    def __init__(
        self, config: RegressorConfig, text: TextEncoder, image: ImageEncoder | None, idf: IdfTable
    ) -> None:
        super().__init__()
        self.config = config
        self.text = text
        self.image = image
        self.idf = idf
        weights = idf.weights(text.vocabulary_size, text.special_ids)
        self.register_buffer("idf_weights", torch.from_numpy(weights), persistent=False)
        fusion = config.fusion
        self.mix = LayerMix(text.states, fusion.layer_dropout) if text.states > 1 else None
        self.fusion = Fusion(
            text.width,
            len(fusion.poolings),
            fusion.references,
            image.width if image is not None else None,
            fusion.blocks,
        )
        extras = len(fusion.extra_inputs) + (SIMILARITIES * len(fusion.poolings) if fusion.similarity else 0)
        self.register_buffer("extra_mean", torch.zeros(extras))
        self.register_buffer("extra_scale", torch.ones(extras))
        self.extra_scale[len(fusion.extra_inputs) :] = SIMILARITY_SCALE
        self.missing_extra = nn.Parameter(torch.zeros(extras)) if extras else None
        head = config.head
        beside = bool(extras and head.extra_hidden)
        self.extra_head = FeedForward(extras, [head.extra_hidden], head.activation, 0.0) if beside else None
        self.head = FeedForward(
            self.fusion.out_features + (0 if beside else extras),
            head.hidden,
            head.activation,
            head.dropout,
            head.input_dropout,
            head.input_norm,
        )
        text.set_trainable(not config.text.frozen, embeddings=not config.text.frozen_embeddings)
        if image is not None and config.image is not None:
            image.requires_grad_(not config.image.frozen)

    def train(self, mode: bool = True) -> Regressor:
        """Set training mode; frozen encoders stay in evaluation mode."""
        super().train(mode)
        if self.config.text.frozen:
            self.text.eval()
        if self.image is not None and self.config.image is not None and self.config.image.frozen:
            self.image.eval()
        return self

    def encode_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode captions int64 [T, L] to pooled states [T, S, P, d]."""
        states = self.text(ids, mask)
        fusion = self.config.fusion
        return pool_layers(states, mask, self.idf_weights[ids], fusion.poolings, normalise=fusion.layer_norm)

    def _encode_spans(self, ids: Tensor, mask: Tensor, spans: Sequence[Span]) -> Tensor:
        """Encode captions part by part, each without the columns that are padding in all its rows."""
        if len(spans) < 2:
            return self.encode_text(ids, mask)
        return torch.cat(
            [self.encode_text(ids[start:end, :width], mask[start:end, :width]) for start, end, width in spans]
        )

    def encode_image(self, pixels: Tensor) -> Tensor:
        """Encode images [I, 3, s, s] to [I, d_img]."""
        assert self.image is not None
        features: Tensor = self.image(pixels)
        return features

    def mix_layers(self, captions: Tensor) -> Tensor:
        """Mix pooled states [T, S, P, d] to [T, P, d]; what is mixed already stays as it is."""
        if captions.dim() == 3:
            return captions
        mixed: Tensor = self.mix(captions) if self.mix is not None else captions[:, 0]
        return mixed

    def forward(self, batch: Batch, captions: Tensor | None = None, images: Tensor | None = None) -> Tensor:
        """Return scores in (0, 1), float32 [B].

        Args:
            batch: the samples.
            captions: pooled states of the batch's captions where they are known already, [T, S, P, d], or
                [T, P, d] with mixed layers.
            images: features of the batch's images [I, d_img] where they are known already.
        """
        if captions is None:
            assert batch.ids is not None
            assert batch.mask is not None
            captions = self._encode_spans(batch.ids, batch.mask, batch.spans)
        if images is None and batch.pixels is not None:
            images = self.encode_image(batch.pixels)
        vectors = self.mix_layers(captions)
        image = images[batch.image] if images is not None and len(images) else None
        fused = self.fusion(
            vectors[batch.candidate],
            vectors[batch.references],
            batch.reference_mask,
            image,
            batch.image_mask,
        )
        extras = batch.extras
        if self.config.fusion.similarity:
            cosines = similarities(vectors[batch.candidate], vectors[batch.references], batch.reference_mask)
            extras = torch.cat([extras, cosines], dim=1)
        return torch.sigmoid(self._logits(fused, extras))

    def _logits(self, fused: Tensor, extras: Tensor) -> Tensor:
        """Add what the extra inputs say, on their own path or through the head."""
        if self.missing_extra is not None:
            standard = (extras - self.extra_mean) / self.extra_scale
            filled = torch.where(extras.isnan(), self.missing_extra, standard)
            if self.extra_head is not None:
                beside: Tensor = self.head(fused) + self.extra_head(filled)
                return beside
            fused = torch.cat([fused, filled.to(fused.dtype)], dim=-1)
        logits: Tensor = self.head(fused)
        return logits

    def fit_extras(self, extras: Tensor) -> None:
        """Take mean and standard deviation of the training set's extra inputs [N, E], NaN left out.

        Similarities come after them and are scaled by SIMILARITY_SCALE alone.
        """
        for column in range(extras.shape[1]):
            values = extras[:, column]
            values = values[~values.isnan()].double()
            if len(values) > 1:
                self.extra_mean[column] = values.mean()
                self.extra_scale[column] = values.std().clamp(min=1e-6)

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter, int | None]]:
        """Yield (name, parameter, depth from the top) of both encoders; depth is None for the image's."""
        depths = self.text.layer_depths()
        for name, parameter in self.text.named_parameters():
            yield f"text.{name}", parameter, depths[name]
        if self.image is not None:
            for name, parameter in self.image.named_parameters():
                yield f"image.{name}", parameter, None
