"""Pre-training of the text encoder on captions, before any rating is seen.

Captions of one image say the same in other words: each is drawn to the other, away from captions of
other images (symmetric InfoNCE). Pairs of captions whose similarity people rated draw the cosine to it.
Both act on the idf-weighted pooled vector, so that the words that tell images apart count.

Shape letters: N pairs, L tokens (padded), d encoder width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.encoders.text import TextEncoder
from suisei.errors import DataError
from suisei.models.pooling import pooling_weights
from suisei.ranges import DROPOUT, LEARNING_RATE, Rule, at_least, check_settings
from suisei.training.contrastive import symmetric_info_nce
from suisei.training.pass_states import PassStates
from suisei.training.pretraining_loop import Passes, run_passes
from suisei.training.support import CaptionCorpus

LENGTH_PARTS = 6
"""A batch is encoded in so many parts of like length, which saves most of the padding."""
WEIGHT_DECAY = 0.02
"""Decoupled weight decay of the text encoder."""
WARMUP = 0.1
"""Share of the steps in which the rate rises."""
TEMPERATURE = 0.07
"""Where the learned temperatures start, CLIP's."""
SIMILARITY_WEIGHT = 20.0
"""Weight of the squared error on rated similarities, beside a contrastive loss of about 2 ln(batch)."""
SIMILARITY_BATCH = 128
"""Rated pairs per step."""
RULES: dict[str, Rule] = {
    "epochs": at_least(0, 10_000),
    "batch_size": at_least(1),
    "learning_rate": LEARNING_RATE,
    "word_dropout": DROPOUT,
    "image_epochs": at_least(0, 10_000),
    "cross_fit": at_least(2, 100, also=(0,)),
}


@dataclass
class PretrainingConfig:
    """How the text encoder is pre-trained.

    Attributes:
        epochs: passes over the captions of all images; 0 leaves the text encoder as it is.
        batch_size: images per step; one pair of captions is drawn from each.
        learning_rate: highest rate of a one-cycle schedule with AdamW.
        word_dropout: probability that a token is replaced by the mask token.
        image_epochs: passes over the images by which an image encoder from random weights is pre-trained
            after the text encoder (:mod:`suisei.training.image_pretraining`); 0 for none.
        cross_fit: parts of the training images. What the head learns from samples without an image is then
            said by an encoder that was pre-trained without their part
            (:mod:`suisei.training.cross_fitting`); 0 for one encoder alone.
    """

    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 1e-3
    word_dropout: float = 0.1
    image_epochs: int = 0
    cross_fit: int = 0

    def __post_init__(self) -> None:
        check_settings("model.pretraining", self, RULES)


class CaptionPretraining(nn.Module):
    """The pre-training objective around a text encoder.

    Args:
        encoder: the encoder that is trained, in place.
        idf_weights: idf weight of every token id, float32 [vocabulary].
        config: the settings.
    """

    idf_weights: Tensor

    def __init__(self, encoder: TextEncoder, idf_weights: Tensor, config: PretrainingConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config
        self.register_buffer("idf_weights", idf_weights)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE)))
        self.similarity_slope = nn.Parameter(torch.tensor(4.0))
        self.similarity_offset = nn.Parameter(torch.tensor(-2.0))

    def embed(self, token_ids: Sequence[Sequence[int]]) -> Tensor:
        """Return the pooled vectors of captions at unit length, [N, d]."""
        order = sorted(range(len(token_ids)), key=lambda row: len(token_ids[row]))
        size = math.ceil(len(order) / LENGTH_PARTS)
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        vectors = torch.cat([self._embed([token_ids[row] for row in part]) for part in parts])
        return vectors[torch.argsort(torch.tensor(order))]

    def _embed(self, token_ids: Sequence[Sequence[int]]) -> Tensor:
        ids, mask = self.encoder.pad(token_ids)
        idf = self.idf_weights[ids]
        hidden = self.encoder(self._drop_words(ids, mask), mask)[-1]
        weights = pooling_weights("idf-normalised", mask, idf)
        return F.normalize((weights[:, None] @ hidden).squeeze(1), dim=-1)

    def _drop_words(self, ids: Tensor, mask: Tensor) -> Tensor:
        dropped = self.encoder.tokenizer.mask_token_id
        if not self.training or not self.config.word_dropout or dropped is None:
            return ids
        drop = (torch.rand(ids.shape) < self.config.word_dropout) & mask.bool() & (self.idf_weights[ids] > 0)
        return ids.masked_fill(drop, dropped)

    def contrast(self, first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> Tensor:
        """Return the symmetric InfoNCE loss of pairs of captions of the same image."""
        vectors = self.embed([*first, *second])
        return symmetric_info_nce(vectors[: len(first)], vectors[len(first) :], self.log_scale.exp())

    def similarity(
        self, first: Sequence[Sequence[int]], second: Sequence[Sequence[int]], rated: Tensor
    ) -> Tensor:
        """Return the squared error of a logistic curve of the cosine against similarities in [0, 1]."""
        vectors = self.embed([*first, *second])
        cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(dim=1)
        return F.mse_loss(torch.sigmoid(self.similarity_offset + self.similarity_slope * cosines), rated)


def pretrain(
    encoder: TextEncoder,
    idf_weights: Tensor,
    corpus: CaptionCorpus,
    config: PretrainingConfig,
    *,
    seed: int = 0,
    advance: Callable[[int], Any] = lambda _: None,
    states: PassStates | None = None,
) -> list[float]:
    """Pre-train a text encoder in place.

    Args:
        encoder: the encoder.
        idf_weights: idf weight of every token id, float32 [vocabulary].
        corpus: captions by image, and rated pairs.
        config: the settings.
        seed: decides order, pairs and dropped words.
        advance: called with 1 after every epoch, and at once with those that were over before.
        states: keeps the state to go on from, and gives it; None where nobody goes on.

    Returns:
        The mean loss of every epoch.

    Raises:
        DataError: fewer than two images with two captions or more.
    """
    groups = [encoder.tokenize(captions) for captions in corpus.groups if len(captions) > 1]
    if len(groups) < 2:
        raise DataError(
            f"pre-training needs images with two captions or more; the training data has {len(groups)}; "
            "add captions with data.support, or set model.pretraining to null"
        )
    encoder.set_trainable(True)
    objective = CaptionPretraining(encoder, idf_weights, config)
    rated = _rated_pairs(encoder, corpus)

    def batch_loss(rows: np.ndarray, rng: np.random.Generator) -> Tensor:
        pairs = [rng.choice(len(groups[row]), 2, replace=False) for row in rows]
        first = [groups[row][pair[0]] for row, pair in zip(rows, pairs, strict=True)]
        second = [groups[row][pair[1]] for row, pair in zip(rows, pairs, strict=True)]
        loss = objective.contrast(first, second)
        if rated is None:
            return loss
        return loss + SIMILARITY_WEIGHT * objective.similarity(*_some_pairs(rated, rng))

    passes = Passes(
        "pre-training",
        config.epochs,
        config.batch_size,
        config.learning_rate,
        WEIGHT_DECAY,
        WARMUP,
        "model.pretraining.learning_rate",
        seed,
    )
    trained = [p for p in objective.parameters() if p.requires_grad]
    return run_passes(
        batch_loss, objective, len(groups), passes, parameters=trained, advance=advance, states=states
    )


RatedPairs = tuple[list[list[int]], list[list[int]], Tensor]


def _rated_pairs(encoder: TextEncoder, corpus: CaptionCorpus) -> RatedPairs | None:
    """Return the token ids of rated pairs and their similarity, float32 [N]; None where there are none."""
    if not corpus.rated:
        return None
    first = encoder.tokenize([pair[0] for pair in corpus.rated])
    second = encoder.tokenize([pair[1] for pair in corpus.rated])
    return first, second, torch.tensor([pair[2] for pair in corpus.rated], dtype=torch.float32)


def _some_pairs(rated: RatedPairs, rng: np.random.Generator) -> RatedPairs:
    """Draw the rated pairs of a step."""
    first, second, similarity = rated
    rows = rng.choice(len(first), min(SIMILARITY_BATCH, len(first)), replace=False)
    return [first[row] for row in rows], [second[row] for row in rows], similarity[torch.from_numpy(rows)]
