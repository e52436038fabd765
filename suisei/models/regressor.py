"""The SuiSei regressor: encoders, pooling, fusion and the feed-forward head, in plain PyTorch.

Shape letters: B samples, T captions, I images, S encoder states, P poolings, E extra inputs, d text
width, d_img image width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.encoders.image import ImageEncoder
from suisei.encoders.text import TextEncoder
from suisei.errors import ConfigError
from suisei.models.batch import Batch
from suisei.models.config import RegressorConfig
from suisei.models.cosine_start import CosineStart
from suisei.models.fusion import Fusion
from suisei.models.head import Head
from suisei.models.inputs import InputColumns
from suisei.models.pooling import LayerMix, pool_layers
from suisei.models.rating_scale import RatingScale
from suisei.models.similarities import similarities
from suisei.models.token_matches import batch_matches, ordinary_tokens

EXTRA_LIMIT, EXTRA_LIMIT_BESIDE_COSINE = 3.0, 4.0
"""Extra inputs are cut off at so many standard deviations."""
FOLLOWED = 0.05
"""Share of a training batch in mean and scale of what a trained encoder says."""
LEAST_SCALE = 1e-3
"""Added to the scale of what a trained encoder says, some of which differs little at first."""
UNVARIED, UNVARIED_SCALE = 1e-6, 1e6
"""An extra input whose standard deviation in training is no more than the first gets the second as its scale:
no weight has learned what it means, and what it is elsewhere leaves the score alone."""
SIMILARITY_MEAN, SIMILARITY_SCALE = 0.5, 0.25
"""About the mean and standard deviation of cosines between captions."""


def _autocast(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the model says of a batch.

    Attributes:
        logits: of every member, float32 [members, B].
        start: what the cosine alone says, float32 [B]; None for a model that starts from nothing.
        vectors: of the batch's captions, [T, P, d].
        extras: the extra inputs as they were before they were standardised, [B, E].
        similar: cosines with references, see :mod:`suisei.models.similarities`; None where they are not read.
        seen: cosines with the image, [B, P]; None where they are not read.
    """

    logits: Tensor
    start: Tensor | None
    vectors: Tensor
    extras: Tensor
    similar: Tensor | None
    seen: Tensor | None


class Regressor(nn.Module):
    """Scores a candidate caption against references and image.

    Args:
        config: the settings.
        text: the text encoder.
        image: the image encoder, or None for a model without image.
        idf: document frequencies fitted on the training references.

    Attributes:
        whole_batch: gives the rows of a batch that several processes share, [N, ...], of those of one.
    """

    idf_weights: Tensor
    extra_mean: Tensor
    extra_scale: Tensor
    whole_batch: Callable[[Tensor], Tensor]

    def __init__(
        self, config: RegressorConfig, text: TextEncoder, image: ImageEncoder | None, idf: IdfTable
    ) -> None:
        super().__init__()
        self.config = config
        self.whole_batch = _as_it_is
        self.text = text
        self.image = image
        self.idf = idf
        weights = idf.weights(text.vocabulary_size, text.special_ids)
        self.register_buffer("idf_weights", torch.from_numpy(weights), persistent=False)
        fusion = config.fusion
        self.mix = LayerMix(text.states) if text.states > 1 else None
        self.fusion = Fusion(
            text.width,
            len(fusion.poolings),
            fusion.references,
            image.width if image is not None else None,
            fusion.blocks,
        )
        self.columns = InputColumns.of(fusion, reads_images=image is not None)
        extras, cosines = len(self.columns.names), self.columns.computed
        self.register_buffer("extra_mean", torch.zeros(extras))
        self.register_buffer("extra_scale", torch.ones(extras))
        self.extra_mean[cosines], self.extra_scale[cosines] = SIMILARITY_MEAN, SIMILARITY_SCALE
        self.missing_extra = nn.Parameter(torch.zeros(extras)) if extras else None
        self.members = nn.ModuleList(
            Head(self.fusion.out_features, extras, config.head) for _ in range(config.head.members)
        )
        self.scale = RatingScale(config.head.rank_share) if config.head.rank_share else None
        self.start: CosineStart | None = None
        if config.head.start:
            self.start = CosineStart(both=config.head.start == "cosines", bridge=config.head.bridge)
            for member in self.members:
                assert isinstance(member, Head)
                member.start_at_zero()
        text.set_trainable(not config.text.frozen, layers=config.text.trained_layers)
        if image is not None and config.image is not None:
            image.requires_grad_(not config.image.frozen)

    def looks(self, *, compared: bool) -> bool:
        """Return whether an image counts in the score of a sample.

        Args:
            compared: whether the sample has references.
        """
        if self.image is None:
            return False
        if self.columns.seen or self.fusion.looks:
            return True
        return self.start is not None and (self.start.beside is not None or not compared)

    def train(self, mode: bool = True) -> Regressor:
        """Set training mode; frozen encoders and layers stay in evaluation mode."""
        super().train(mode)
        if self.config.text.frozen:
            self.text.eval()
        elif self.config.text.trained_layers is not None:
            self.text.keep_still(self.config.text.trained_layers)
        if self.image is not None and self.config.image is not None and self.config.image.frozen:
            self.image.eval()
        return self

    def encode_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode captions int64 [T, L] to pooled states [T, S, P, d]."""
        return self.pool(self.text(ids, mask), ids, mask)

    def pool(self, states: Sequence[Tensor], ids: Tensor, mask: Tensor) -> Tensor:
        """Pool the hidden states S x [T, L, d] of captions int64 [T, L] to [T, S, P, d]."""
        fusion = self.config.fusion
        return pool_layers(states, mask, self.idf_weights[ids], fusion.poolings, normalise=fusion.layer_norm)

    def _encode_spans(
        self, batch: Batch, below: Tensor | None, *, tokens: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Encode captions in parts, each without the columns that are padding in all its rows.

        Returns:
            Pooled states [T, S, P, d], and where they are wanted last hidden states [T, L, d].
        """
        assert batch.ids is not None
        assert batch.mask is not None
        longest = batch.ids.shape[1]
        spans = batch.spans or ((0, len(batch.ids), longest),)
        trained = self.config.text.trained_layers or 0
        pooled, last = [], []
        encoded = self.text.in_spans(batch.ids, batch.mask, spans, below, trained)
        for states, (start, end, width) in zip(encoded, spans, strict=True):
            ids, mask = batch.ids[start:end, :width], batch.mask[start:end, :width]
            pooled.append(self.pool(states, ids, mask))
            if tokens:
                last.append(F.pad(states[-1].float(), (0, 0, 0, longest - width)))
        return torch.cat(pooled), torch.cat(last) if tokens else None

    def _match_tokens(self, batch: Batch, hidden: Tensor | None) -> Tensor:
        """Return the alignment's numbers [B, A] of last hidden states [T, L, d]."""
        if hidden is None or batch.ids is None or batch.mask is None:
            raise ConfigError(
                "fusion.alignment needs the words of captions, where only pooled vectors are known"
            )
        ordinary = ordinary_tokens(self.text, batch.ids, batch.mask)
        weights = self.idf_weights[batch.ids].masked_fill(~ordinary, -1.0)
        return batch_matches(batch, hidden, weights)

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
        """Return scores in (0, 1) on the scale of the ratings, float [B]; arguments as ``member_scores``."""
        mean = self.member_scores(batch, captions, images).mean(dim=0)
        return mean if self.scale is None else self.scale(mean)

    def targets(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return what members learn of samples' ratings, in [0, 1], float32 [N]; NaN where unrated."""
        return (self.scale or RatingScale(0.0)).targets(samples)

    def member_scores(
        self, batch: Batch, captions: Tensor | None = None, images: Tensor | None = None
    ) -> Tensor:
        """Return the scores in (0, 1) of every member, as they are learned, float32 [members, B].

        Arguments as ``outputs``.
        """
        return torch.sigmoid(self.outputs(batch, captions, images).logits)

    def outputs(
        self,
        batch: Batch,
        captions: Tensor | None = None,
        images: Tensor | None = None,
        below: Tensor | None = None,
    ) -> Outputs:
        """Return what every member says, before the sigmoid, and what it started from.

        Args:
            batch: the samples; where their alignment is not among the extra inputs, it is computed.
            captions: pooled states of the batch's captions where they are known already, [T, S, P, d], or
                [T, P, d] with mixed layers.
            images: features of the batch's images [I, d_img] where they are known already.
            below: what lower layers say of the captions' tokens, one caption after the other, [N, d], where
                the upper ones alone are computed here.
        """
        hidden = None
        matching = batch.extras.shape[1] < self.columns.given.stop
        if captions is None:
            captions, hidden = self._encode_spans(batch, below, tokens=matching)
        if images is None and batch.pixels is not None:
            images = self.encode_image(batch.pixels)
        image = images[batch.image].float() if images is not None and len(images) else None
        # The line through the cosine is steep: half precision would show in its slope.
        with torch.autocast(captions.device.type, enabled=self.start is None and _autocast(captions)):
            vectors = self.mix_layers(captions)
            given = batch.extras
            if matching:
                given = self.columns.with_aligned(given, self._match_tokens(batch, hidden))
            return self._judged(batch, vectors, image, given)

    def _judged(self, batch: Batch, vectors: Tensor, image: Tensor | None, given: Tensor) -> Outputs:
        """Fuse vectors [T, P, d], images [B, d_img] and given columns [B, G], and ask every member."""
        fused = self.fusion(
            vectors[batch.candidate],
            vectors[batch.references],
            batch.reference_mask,
            image,
            batch.image_mask,
        )
        similar = seen = start = None
        if self.columns.similar or self.start is not None:
            similar = similarities(vectors[batch.candidate], vectors[batch.references], batch.reference_mask)
        if self.columns.seen or (self.start is not None and self.fusion.project is not None):
            seen = self.image_similarities(vectors[batch.candidate], image, batch.image_mask)
        extras = self.columns.complete(
            given, similar if self.columns.similar else None, seen if self.columns.seen else None
        )
        if batch.replaced is not None:
            extras = torch.where(batch.replaced.isnan() | extras.isnan(), extras, batch.replaced)
            similar, seen = self.columns.cosines(extras, similar, seen)
        if self.training and self.start is not None and not self.config.text.frozen:
            self.follow_extras(extras.detach()[: batch.counted], FOLLOWED)
        filled = self._standardised(extras)
        logits = torch.stack([member(fused, filled) for member in self.members])
        if self.start is not None:
            assert similar is not None
            start = self.start(similar, seen, batch.across)
            compared = batch.reference_mask.any(dim=1)  # without references there is nothing to correct
            corrected = compared if batch.across is None else compared & ~batch.across
            logits = logits * corrected + start
            if self.start.beside is not None and seen is not None:
                logits = self.start.beside(logits, seen, compared)
        return Outputs(logits, start, vectors, extras, similar, seen)

    def image_similarities(self, candidate: Tensor, image: Tensor | None, mask: Tensor) -> Tensor:
        """Return the cosine between candidate and projected image per pooling, [B, P]; NaN without image.

        Args:
            candidate: [B, P, d].
            image: features [B, d_img], any values where there is no image; None if there is none at all.
            mask: True where there is an image, bool [B].
        """
        if image is None or self.fusion.project is None:
            return candidate.new_full(candidate.shape[:2], torch.nan, dtype=torch.float32)
        projected = self.fusion.project(image)[:, None].float()
        cosines = F.cosine_similarity(candidate.float(), projected, dim=-1)
        return cosines.masked_fill(~mask[:, None], torch.nan)

    def _standardised(self, extras: Tensor) -> Tensor:
        """Return the extra inputs in standard deviations from the mean, a learned number where missing.

        What is further out than anything in training says no more than that it is far out.
        """
        if self.missing_extra is None:
            return extras
        limit = EXTRA_LIMIT if self.start is None else EXTRA_LIMIT_BESIDE_COSINE
        standard = ((extras - self.extra_mean) / self.extra_scale).clamp(-limit, limit)
        return torch.where(extras.isnan(), self.missing_extra, standard)

    def fit_extras(self, extras: Tensor) -> None:
        """Take mean and standard deviation of the training set's extra inputs [N, E], NaN left out.

        What is never there, or always the same, counts as nothing. Similarities come after them; their mean
        and scale are constants.
        """
        for column in range(extras.shape[1]):
            values = extras[:, column]
            values = values[~values.isnan()].double()
            spread = float(values.std()) if len(values) > 1 else 0.0
            self.extra_mean[column] = values.mean() if len(values) else 0.0
            self.extra_scale[column] = spread if spread > UNVARIED else UNVARIED_SCALE

    def follow_extras(self, extras: Tensor, share: float) -> None:
        """Move mean and scale of what the text encoder says towards those of a batch [B, E], NaN left out.

        An encoder that is being trained changes what it says; scores of other metrics stay what they are.
        What did not vary when all was taken counts as nothing until a batch in which it does.

        Args:
            extras: all columns.
            share: how far to move, 0 to 1; 1 takes all of it.
        """
        said = slice(len(self.columns.measured), extras.shape[1])
        values = self.whole_batch(extras[:, said].float())
        mean = values.nanmean(dim=0)
        spread = (values - mean).square().nanmean(dim=0).sqrt()
        same = spread <= UNVARIED
        nothing = self.extra_scale[said] == UNVARIED_SCALE
        for own, new in ((self.extra_mean, mean), (self.extra_scale, spread + LEAST_SCALE)):
            moved = torch.where(nothing, new, torch.lerp(own[said], new, share))
            own[said] = torch.where(new.isnan(), own[said], moved)
        unlearned = same if share == 1.0 else same & nothing
        self.extra_scale[said] = torch.where(unlearned, UNVARIED_SCALE, self.extra_scale[said])

    def beside_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the weights of the extra inputs' own paths."""
        for member in self.members:
            assert isinstance(member, Head)
            if member.beside is not None:
                yield from member.beside.parameters()

    def encoder_parameters(self) -> Iterator[tuple[str, nn.Parameter, int | None]]:
        """Yield (name, parameter, depth from the top) of both encoders; depth is None for the image's."""
        depths = self.text.layer_depths()
        for name, parameter in self.text.named_parameters():
            yield f"text.{name}", parameter, depths[name]
        if self.image is not None:
            for name, parameter in self.image.named_parameters():
                yield f"image.{name}", parameter, None


def _as_it_is(rows: Tensor) -> Tensor:
    """Return the rows of one process, which are all; no lambda, for a model is pickled into processes."""
    return rows
