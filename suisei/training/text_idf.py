"""What a text encoder and its idf table are made of: the training data alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.encoders.text import TextEncoder, TextEncoderConfig
from suisei.training.support import Support


def text_and_idf(
    config: TextEncoderConfig, training: Sequence[CaptionSample], support: Support
) -> tuple[TextEncoder, IdfTable]:
    """Make a text encoder and the idf table of its tokens.

    Args:
        config: which encoder; one that learns its vocabulary sees candidates, references and support.
        training: the training samples, whose references the idf table counts.
        support: captions beside them.
    """
    references = [reference for sample in training for reference in sample.references]
    captions = [sample.candidate for sample in training] + references + support.captions()
    text = TextEncoder.create(config, captions)
    return text, IdfTable.fit(text.tokenize(references))


def idf_weights(text: TextEncoder, idf: IdfTable) -> Tensor:
    """Return the idf weight of every token id, float32 [vocabulary]."""
    return torch.from_numpy(idf.weights(text.vocabulary_size, text.special_ids))
