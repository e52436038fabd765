"""suisei: a learned metric that rates image captions the way people do, in Japanese and English.

The public names are loaded on first use, so that ``import suisei`` stays fast:

>>> import suisei
>>> metric = suisei.load("runs/scenes/model")                   # doctest: +SKIP
>>> metric.score(["a red ball"], references=[["a ball"]])       # doctest: +SKIP
array([0.71])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from suisei.version import __version__

if TYPE_CHECKING:
    from suisei.data.sample import CaptionSample, Rating
    from suisei.errors import SuiseiError
    from suisei.metrics.base import Metric
    from suisei.metrics.loading import load
    from suisei.metrics.registry import get_metric, list_metrics

_EXPORTS = {
    "CaptionSample": "suisei.data.sample",
    "Rating": "suisei.data.sample",
    "SuiseiError": "suisei.errors",
    "Metric": "suisei.metrics.base",
    "get_metric": "suisei.metrics.registry",
    "list_metrics": "suisei.metrics.registry",
    "load": "suisei.metrics.loading",
}

__all__ = [
    "CaptionSample",
    "Metric",
    "Rating",
    "SuiseiError",
    "__version__",
    "get_metric",
    "list_metrics",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'suisei' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
