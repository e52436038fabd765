"""What a text encoder and its idf table are made of: the training data alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from suisei.data.idf import IdfTable
from suisei.data.sample import CaptionSample
from suisei.encoders.layers import cut_layers
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.errors import ConfigError, DataError
from suisei.metrics.extras import check_names
from suisei.models.folder import is_model_folder, load_model
from suisei.training.support import Support


def text_and_idf(
    config: TextEncoderConfig,
    training: Sequence[CaptionSample],
    support: Support,
    rated: Sequence[CaptionSample],
) -> tuple[TextEncoder, IdfTable]:
    """Make a text encoder and the idf table of its tokens.

    Args:
        config: which encoder; one that learns its vocabulary sees candidates, references and support.
        training: the training samples.
        support: captions beside them.
        rated: those of the training samples that people rated, whose references the idf table counts; without
            any, and so for a model that reads no idf (:func:`check_references`), their candidates.
    """
    captions = [*_candidates(training), *_references(training), *support.captions()]
    text = _of_model(config) if is_model_folder(config.name) else TextEncoder.create(config, captions)
    return text, IdfTable.fit(text.tokenize(_references(rated) or _candidates(rated)))


def _candidates(samples: Sequence[CaptionSample]) -> list[str]:
    return [sample.candidate for sample in samples]


def _references(samples: Sequence[CaptionSample]) -> list[str]:
    return [reference for sample in samples for reference in sample.references]


def check_references(data: Any, model: Any, learners: Sequence[str] = ()) -> None:
    """Refuse training data without references for a model that learns from them.

    Args:
        data: the data module, loaded.
        model: the model that it trains, with ``config`` and ``pretraining``.
        learners: those of its extra inputs that are fitted on references.

    Raises:
        DataError: no training row has references, and the model counts idf in them or fits extra inputs.
    """
    fusion = model.config.fusion
    others = [name for name in fusion.extra_inputs if name not in learners]
    readers = {
        "model.fusion.poolings: [mean]": set(fusion.poolings) != {"mean"},
        "model.fusion.alignment: false": fusion.alignment,
        f"model.fusion.extra_inputs: [{', '.join(others)}]": learners,
        "model.pretraining: null": model.pretraining is not None and model.pretraining.epochs > 0,
    }
    wanted = [setting for setting, reads in readers.items() if reads]
    if wanted and not any(sample.references for sample in data.part("train")):
        raise DataError(
            f"{', '.join(data.sources)}: no training row has references, which the model counts idf in or "
            f"fits extra inputs to; add some, or set {' and '.join(wanted)} to do without"
        )


def _of_model(config: TextEncoderConfig) -> TextEncoder:
    """Return the text encoder of a trained model, as it was trained."""
    if config.checkpointing:
        raise ConfigError(f"text.checkpointing: {config.name} is a trained model's encoder; set it to false")
    found = load_model(config.name, check_names).regressor.text
    if config.depth is not None:
        cut_layers(found.backbone, config.depth, config.name)
    return TextEncoder(found.backbone, found.tokenizer, layers=config.states, max_tokens=found.max_tokens)


def idf_weights(text: TextEncoder, idf: IdfTable) -> Tensor:
    """Return the idf weight of every token id, float32 [vocabulary]."""
    return torch.from_numpy(idf.weights(text.vocabulary_size, text.special_ids))
