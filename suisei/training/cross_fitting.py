"""Text encoders that were pre-trained without some of the training images, for the samples of those.

Pre-training draws captions of one image together and those of other images apart. Of the images it was
trained on an encoder therefore says other things than of new ones, and a head that learned from them would
trust them too much. As with the out-of-fold ridge, what the head learns from is said by an encoder that has
not seen the sample's image.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.sample import CaptionSample
from suisei.data.splits import fold_by_group
from suisei.encoders.cache_place import disk_cache
from suisei.encoders.text import TextEncoder
from suisei.models.alignment import alignment_inputs
from suisei.models.features import ModelFeatures
from suisei.models.inputs import ALIGNMENTS
from suisei.models.regressor import Regressor
from suisei.models.table import SampleTable
from suisei.training.pass_states import StatesOf, no_states
from suisei.training.pretraining import PretrainingConfig, pretrain
from suisei.training.support import CaptionCorpus, Support


@dataclass(frozen=True)
class PartEncoder:
    """An encoder, and the training samples whose images it has not seen.

    Attributes:
        encoder: the encoder.
        samples: positions among the training samples, int64 [n].
    """

    encoder: TextEncoder
    samples: np.ndarray


def part_encoders(
    untrained: TextEncoder,
    idf_weights: Tensor,
    training: Sequence[CaptionSample],
    support: Support,
    config: PretrainingConfig,
    *,
    seed: int = 0,
    advance: Callable[[int], Any] = lambda _: None,
    states: StatesOf = no_states,
) -> list[PartEncoder]:
    """Pre-train one encoder for each of ``config.cross_fit`` parts of the training images, without that part.

    Args:
        untrained: where every encoder starts; it is left as it is.
        idf_weights: idf weight of every token id, float32 [vocabulary].
        training: the training samples.
        support: captions and rated pairs beside them; what holds a reference of the part is left out.
        config: the settings.
        seed: decides the parts, and what pre-training draws.
        advance: called with 1 after every epoch of every encoder.
        states: keeps the state of each, and gives it to go on from.

    Raises:
        DataError: fewer images than parts, or too few captions in the others.
    """
    parts = []
    for part in range(config.cross_fit):
        split = fold_by_group(training, part, config.cross_fit, seed, validation=0)
        unseen = [training[row] for row in split.test]
        corpus = CaptionCorpus.of([training[row] for row in split.train], support.without(unseen))
        encoder = copy.deepcopy(untrained, {id(untrained.tokenizer): untrained.tokenizer})
        own = states(f"text-without-{part}")
        pretrain(encoder, idf_weights, corpus, config, seed=seed, advance=advance, states=own)
        parts.append(PartEncoder(encoder.eval().requires_grad_(False), np.asarray(split.test)))
    return parts


@dataclass(frozen=True)
class PartRows:
    """What a part is in a table.

    Attributes:
        encoder: the encoder of the part.
        rows: its samples in the table.
        captions: where the captions of these samples stand, which no other sample points to.
    """

    encoder: TextEncoder
    rows: np.ndarray
    captions: range


def separate_parts(
    table: SampleTable, training: Sequence[int], parts: Sequence[PartEncoder]
) -> list[PartRows]:
    """Give the samples of every part captions of their own in the table.

    A sample whose image is looked at stays with the model's encoder: the image encoder was trained to
    agree with that one alone.

    Args:
        table: all samples of a run; its caption rows change.
        training: positions of the training samples in it.
        parts: encoders with positions among the training samples.
    """
    positions = np.asarray(training)
    separated = []
    for part in parts:
        rows = positions[part.samples]
        rows = rows[table.image[rows] < 0]
        separated.append(PartRows(part.encoder, rows, table.separate_captions(rows)))
    return separated


@contextmanager
def reading_with(model: Regressor, encoder: TextEncoder) -> Iterator[None]:
    """Have a model read captions with another encoder of the same vocabulary for a while."""
    own = model.text
    model.text = encoder.to(model.idf_weights.device)
    try:
        yield
    finally:
        model.text = own


def align_samples(
    model: Regressor, table: SampleTable, parts: Sequence[PartRows], advance: Callable[[int], Any]
) -> np.ndarray:
    """Return the alignment of every sample as the encoder that speaks of it sees it, float32 [N, A].

    Args:
        model: the regressor; its own encoder speaks of all samples that are in no part.
        table: the samples.
        parts: what :func:`separate_parts` returned.
        advance: called with the number of captions of each batch.
    """
    apart = {int(row) for part in parts for row in part.rows}
    rest = [row for row in range(len(table)) if row not in apart]
    values = np.empty((len(table), len(ALIGNMENTS)), dtype=np.float32)
    values[rest] = alignment_inputs(model, table, advance, rows=rest)
    for part in parts:
        with reading_with(model, part.encoder):
            values[part.rows] = alignment_inputs(model, table, advance, rows=part.rows)
    return values


def caption_features(
    model: Regressor, table: SampleTable, parts: Sequence[PartRows], advance: Callable[[int], Any]
) -> Tensor:
    """Return what the encoder that speaks of it says of every caption of the table, [T, S, P, d].

    Args:
        model: the regressor; its own encoder speaks of all captions that are of no part.
        table: the samples.
        parts: what :func:`separate_parts` returned.
        advance: called with the number of captions of each batch.
    """
    shared = len(table.captions) - sum(len(part.captions) for part in parts)
    own = ModelFeatures(model, disk_cache(), mixed=False)
    found = [own.of_captions(table.captions[:shared], advance)]
    for part in parts:
        with reading_with(model, part.encoder):  # never asked for again: not kept on disk
            passing = ModelFeatures(model, None, mixed=False)
            found.append(passing.of_captions([table.captions[row] for row in part.captions], advance))
    return torch.cat(found) if parts else found[0]
