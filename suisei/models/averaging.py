"""One model from several: the mean of their weights (Wortsman et al., "Model soups", ICML 2022).

Models that were tuned from the same start by the same recipe lie close together, and the mean of their
weights often predicts better than any of them, at the cost of one. What is not a weight (idf, vocabulary,
what the extra inputs were fitted to) is the first model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from suisei.errors import ModelError
from suisei.models.folder import LoadedModel
from suisei.models.regressor import Regressor


def average_models(models: Sequence[LoadedModel]) -> Regressor:
    """Return the first model's regressor with the mean of all models' weights, changed in place.

    Args:
        models: at least two, equal in settings, architecture and vocabulary.

    Raises:
        ModelError: they differ in what must be equal; the folder is named.
    """
    if len(models) < 2:
        raise ModelError("an average takes at least two models")
    first = models[0]
    states = [model.regressor.state_dict() for model in models]
    for model, state in zip(models[1:], states[1:], strict=True):
        _check_alike(first, model, states[0], state)
    mean = {name: _mean([state[name] for state in states]) for name in states[0]}
    first.regressor.load_state_dict(mean)
    return first.regressor


def _mean(weights: Sequence[Tensor]) -> Tensor:
    """Return the mean, summed in float64, so that what all have alike stays as it is to the last bit."""
    if not weights[0].is_floating_point():
        return weights[0]
    total = torch.zeros(weights[0].shape, dtype=torch.float64)
    for weight in weights:
        total += weight.double()
    return (total / len(weights)).to(weights[0].dtype)


def _check_alike(
    first: LoadedModel, other: LoadedModel, expected: dict[str, Tensor], state: dict[str, Tensor]
) -> None:
    shapes = [{name: tuple(weight.shape) for name, weight in s.items()} for s in (expected, state)]
    pairs: dict[str, tuple[Any, Any]] = {
        "settings": (first.regressor.config.to_dict(), other.regressor.config.to_dict()),
        "the text encoder's architecture": (
            first.regressor.text.architecture(),
            other.regressor.text.architecture(),
        ),
        "the vocabulary": (_vocabulary(first), _vocabulary(other)),
        "the shapes of the weights": (shapes[0], shapes[1]),
    }
    for what, (wanted, found) in pairs.items():
        if wanted != found:
            raise ModelError(
                f"{other.path}: {what} differ from those of {first.path}; average what one recipe made"
            )


def _vocabulary(model: LoadedModel) -> dict[str, int]:
    vocabulary: dict[str, int] = model.regressor.text.tokenizer.get_vocab()
    return vocabulary
