"""Text-to-image pipelines of diffusers: from a name or a folder, with no code and no pickle of theirs."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from suisei.encoders.hub_errors import hub_guard, no_bars
from suisei.encoders.locks import Lock
from suisei.encoders.precision import choose_device
from suisei.encoders.weights import file_hash
from suisei.errors import ModelError, UnavailableError

if TYPE_CHECKING:
    from PIL.Image import Image

INDEX = "model_index.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LOADING_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)
_CHECKED = (".safetensors", ".bin", ".json", ".txt", ".model")
_LIBRARIES = ("diffusers", "transformers")

_LOG = logging.getLogger(__name__)
_CUT = ("was truncated because", "sequence length is longer than")
"""In what diffusers, of every image, and its tokenizers say of a caption that is cut."""

_loading = Lock()
"""While diffusers loads, it changes how all modules of the process are made: one thread does so at a time."""


@dataclass(frozen=True, slots=True)
class PipelineKind:
    """What a pipeline is, as far as its index says, before anything of it is loaded.

    Attributes:
        name: of the model on the hub, or of its folder.
        revision: commit of the hub, or a checksum of the folder's files.
        pipeline: name of its class in diffusers.
        scheduler: likewise.
    """

    name: str
    revision: str
    pipeline: str
    scheduler: str


def read_pipeline(model: str, revision: str | None = None) -> PipelineKind:
    """Read what a pipeline is, and refuse one that would run code of its own.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model.

    Raises:
        UnavailableError: diffusers is not installed, or the model is neither here nor to be had.
        ModelError: no text-to-image pipeline, or one with components or code of its own.
    """
    pipelines = _import_pipelines()
    folder = Path(model)
    if folder.is_dir():
        path = folder / INDEX
    else:
        from huggingface_hub import hf_hub_download

        with hub_guard(model):
            path = Path(hf_hub_download(model, INDEX, revision=revision))
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{model} is no text-to-image model in the layout of diffusers: {INDEX} cannot be read ({error})"
        ) from None
    kind = index.get("_class_name") if isinstance(index, dict) else None
    if not isinstance(kind, str):
        raise ModelError(f"{model}: its {INDEX} names no pipeline of diffusers, but {kind!r:.80}")
    for component, value in index.items():
        if isinstance(value, list):
            _check_component(model, component, value, pipelines)
    own = next(folder.rglob("*.py"), None) if folder.is_dir() else None
    if own is not None:
        raise ModelError(
            f"{model}: holds {own.relative_to(folder)}, code of its own, which suisei never runs; remove it"
        )
    name, found = model_identity(model, revision, INDEX)
    scheduler = index.get("scheduler")
    return PipelineKind(name, found, kind, str(scheduler[1]) if isinstance(scheduler, list) else "none")


def _import_pipelines() -> Any:
    try:
        from diffusers import pipelines
    except ImportError as error:
        raise UnavailableError(
            f"generating images needs diffusers: pip install 'suisei[recap]' ({error})"
        ) from None
    return pipelines


def _check_component(model: str, component: str, value: list[Any], pipelines: Any) -> None:
    """Refuse what is neither a class of diffusers or transformers, nor absent ([null, null])."""
    library, kind = [*value, None, None][:2]
    if library is None and kind is None:
        return
    plain = all(isinstance(part, str) and part.isidentifier() for part in (library, kind))
    if not plain or (library not in _LIBRARIES and not hasattr(pipelines, library)):
        raise ModelError(
            f"{model}: {component} in its {INDEX} is {value!r:.80}; suisei loads classes of diffusers and "
            "transformers alone, and never runs a model's own code"
        )


class Illustrator:
    """A text-to-image pipeline of diffusers.

    Weights are read from safetensors alone, and no code that comes with a model is run.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model.
        device: a torch device, or "auto".
        steps: denoising steps.
        guidance: strength of the classifier-free guidance.
        size: width and height in pixels; None for the model's own.

    Raises:
        UnavailableError: diffusers is not installed, or the model is neither here nor to be had.
        ModelError: it is no text-to-image model, would run code of its own, or has no safetensors.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        device: str = "auto",
        steps: int = 50,
        guidance: float = 7.5,
        size: int | None = None,
    ) -> None:
        self.kind = read_pipeline(model, revision)
        self.device, self.dtype = generator_device(device)
        if not Path(model).is_dir() and self.kind.revision != "unknown":
            revision = self.kind.revision  # the very version whose index was checked
        with loading(model, "a text-to-image model"), _loading, _quiet():
            from diffusers import AutoPipelineForText2Image  # warns itself, of what torch will not have

            self._pipeline: Any = AutoPipelineForText2Image.from_pretrained(
                model, revision=revision, torch_dtype=self.dtype, use_safetensors=True
            )
        self._pipeline.to(self.device)
        self._pipeline.set_progress_bar_config(disable=True)
        self.name, self.revision = self.kind.name, self.kind.revision
        self._options = drawing_options(steps, guidance, size)
        self._cuts = _SaidOnce(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides an image, apart from model and seed."""
        pipeline = type(self._pipeline).__name__
        scheduler = type(self._pipeline.scheduler).__name__
        dtype = str(self.dtype).removeprefix("torch.")
        return {**self._options, "pipeline": pipeline, "scheduler": scheduler, "dtype": dtype}

    def generate(self, captions: Sequence[str], seeds: Sequence[int]) -> list[Image | None]:
        """Return an image per caption, each from its own seed.

        None stands for an image that the safety checker declines, which pipelines paint black, and for one
        that is black throughout without their saying why (numbers that overflowed, say).
        """
        # Noise is drawn on the CPU, so that it is the same on every device and in every batch.
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        with self._cuts.instead_of(type(self._pipeline).__module__, "transformers.tokenization_utils_base"):
            output = self._pipeline(list(captions), generator=generators, **self._options)
        flagged = getattr(output, "nsfw_content_detected", None) or getattr(output, "nsfw_detected", None)
        declined = flagged or [False] * len(captions)
        return [
            None if no or not any(top for _, top in _extrema(image)) else image
            for image, no in zip(output.images, declined, strict=True)
        ]


class _SaidOnce(logging.Filter):
    """Says once that a model cuts captions, where its libraries do so of each.

    Args:
        model: the model's name.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model, self._said = model, False

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a message back if it is one of those."""
        message = record.getMessage()
        if not any(part in message for part in _CUT):
            return True
        if not self._said:
            self._said = True
            _LOG.warning(
                "%s: a caption is longer than its text encoder reads and is drawn from its beginning; later "
                "ones are cut without another warning",
                self._model,
            )
        return False

    @contextmanager
    def instead_of(self, *loggers: str) -> Iterator[None]:
        """Keep those messages of loggers back."""
        own = [logging.getLogger(name) for name in loggers]
        for logger in own:
            logger.addFilter(self)
        try:
            yield
        finally:
            for logger in own:
                logger.removeFilter(self)


@contextmanager
def loading(model: str, kind: str) -> Iterator[None]:
    """Load a model inside this: no bar of transformers, and one line for what goes wrong.

    Args:
        model: a model on the hub, or a folder.
        kind: what it is to be: "a text-to-image model".

    Raises:
        UnavailableError: it is neither here nor to be had.
        ModelError: it is something else.
    """
    try:
        with no_bars(), hub_guard(model):
            yield
    except UnavailableError:
        raise
    except _LOADING_ERRORS as error:
        raise ModelError(f"{model} cannot be loaded as {kind}: {error}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep diffusers from reporting what it loads, and what it will one day call otherwise."""
    from diffusers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()


def _extrema(image: Image) -> Sequence[tuple[int, int]]:
    found: Any = image.convert("RGB").getextrema()
    return found


def drawing_options(steps: int, guidance: float, size: int | None) -> dict[str, Any]:
    """Return what a pipeline is called with, apart from captions and seeds."""
    options: dict[str, Any] = {"num_inference_steps": steps, "guidance_scale": guidance}
    return options if size is None else options | {"height": size, "width": size}


def generator_device(device: str) -> tuple[torch.device, torch.dtype]:
    """Return a torch device by its name or "auto", and what generators compute in on it."""
    chosen = torch.device(choose_device(device))
    return chosen, torch.float16 if chosen.type == "cuda" else torch.float32


def model_identity(model: str, revision: str | None, index: str) -> tuple[str, str]:
    """Return a model's name and what says which version of it was used.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model.
        index: a file that every version of the hub's model has.
    """
    folder = Path(model)
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in _CHECKED)
        parts = [f"{path.relative_to(folder).as_posix()} {file_hash(path)}" for path in files]
        return (
            folder.resolve().name,
            f"sha256-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}",
        )
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, index, revision=revision)
    return model, Path(cached).parent.name if isinstance(cached, str) else revision or "unknown"


def known_revision(model: str, revision: str | None) -> str | None:
    """Return what says which version of a model is meant, as manifests have it, without asking the hub.

    Args:
        model: a model on the hub, or a folder.
        revision: of the hub's model; None for the one that is the main one, which may change.

    Returns:
        None where it is not known, for a name of a version that is not in the cache.
    """
    if Path(model).is_dir():
        return model_identity(model, None, INDEX)[1]
    for index in ("config.json", INDEX) if revision is not None else ():
        found = model_identity(model, revision, index)[1]
        if _COMMIT.fullmatch(found):
            return found
    return None
