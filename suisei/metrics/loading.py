"""A trained metric from its model folder, from the hub, or out of the package."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from suisei.encoders.precision import choose_device, choose_precision, own_formats
from suisei.errors import ConfigError, ModelError
from suisei.metrics.default_model import NAME, default_model
from suisei.metrics.extras import check_names
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models.folder import LoadedModel, load_model


def load(
    path: str | Path | None = None,
    *,
    device: str = "auto",
    precision: str = "auto",
    compile: bool = False,  # noqa: A002 - the word users know
    cache: str | Path | None = None,
    revision: str | None = None,
) -> SuiSeiMetric:
    """Load a trained metric from its model folder, or from the Hugging Face hub.

    Args:
        path: the folder that holds config.json; or, where there is no such folder, ``org/name`` on the hub;
            None for the model in the package.
        device: "auto", "cpu", "cuda", ...
        precision: "auto", "fp32", "tf32", "bf16", "fp16" or "int8", see :class:`SuiSeiMetric`.
        compile: whether the text encoder is compiled.
        cache: a folder that keeps features between runs, "off", or None for SUISEI_CACHE or the default.
        revision: of a model on the hub: a branch, a tag or a commit.

    Raises:
        ModelError: a part of the folder is missing, altered, or does not fit.
        ConfigError: an unknown precision, int8 compiled or on a GPU, a cache folder that cannot be made, a
            revision of a folder, or a path that is neither text nor a Path.
        UnavailableError: a model on the hub that is neither in the hub's cache nor within reach; or no
            path, and this installation has no model.
    """
    if not isinstance(path, str | PathLike | None):
        raise ConfigError(f"path must be a folder's name, or org/name on the hub, got {path!r:.60}")
    device = choose_device(device)
    path = default_model() if path is None else path  # an empty name is no wish for that
    precision = choose_precision(precision, device)
    with own_formats():
        model = _found(path, revision, precision if device == "cpu" and not compile else None)
        return SuiSeiMetric(model, device, precision, compile=compile, cache=cache)


def _found(path: str | Path, revision: str | None, scoring: str | None) -> LoadedModel:
    from suisei.models.hub_folder import cache_of, fetch_model, is_hub_name

    if is_hub_name(path):
        folder = fetch_model(str(path), revision)
        return load_model(folder, check_names, within=cache_of(folder), scoring=scoring)
    if str(path) == NAME and not Path(path).exists():
        raise ModelError(
            f"no model folder at {path}; to use the model in the package, which has that name, name none"
        )
    if revision is not None:
        raise ConfigError(f"revision {revision!r} is for a model on the hub, and {path} is a folder's name")
    return load_model(path, check_names, scoring=scoring)
