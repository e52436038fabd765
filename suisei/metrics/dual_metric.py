"""What every metric that scores with a dual encoder shares: the encoder's options and its loading."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suisei.encoders.locks import Lock
from suisei.metrics.base import Metric
from suisei.metrics.long_captions import LengthWarning

if TYPE_CHECKING:
    from suisei.encoders.dual import DualEncoder

MODEL = "ViT-B-32"
"""The backbone of the papers."""


class EncoderMetric(Metric):
    """A metric with a dual encoder, which is loaded on first use. A subclass calls :meth:`_load_later`."""

    def _load_later(
        self, encoder: DualEncoder | None, model: str | Path, pretrained: str | None, **options: Any
    ) -> None:
        """Say what is loaded; options are those of :func:`suisei.encoders.sharing.scoring_encoder`."""
        name, tag = split_tag(model)
        self._encoder = encoder
        self._loading: dict[str, Any] = {"name": name, "pretrained": tag or pretrained, **options}
        self._lock = Lock()

    @property
    def uses_encoder(self) -> bool:
        """Whether it scores with the encoder at all."""
        return True

    @property
    def encoder(self) -> DualEncoder:
        """The dual encoder, loaded on first use."""
        from suisei.encoders.sharing import scoring_encoder

        with self._lock:
            if self._encoder is None:
                self._encoder = scoring_encoder(**self._loading)
            return self._encoder


class DualMetric(EncoderMetric):
    """A metric with a dual encoder, which is loaded on first use.

    A subclass sets ``name``, then hands the options that it does not name itself on to this class; its own
    signature lists them all, for ``--metric-option``.

    Args:
        encoder: the dual encoder, or None to load one on first use with what follows (see
            :func:`suisei.encoders.sharing.scoring_encoder`).
        model: the open_clip model, which may carry its tag (``ViT-L-14@laion2b_s32b_b82k``), or a folder.
        pretrained: the tag where ``model`` has none.
        checkpoint: a file of weights.
        seed: random weights, for tests.
        precision: see :func:`suisei.encoders.dual_loading.load_dual_encoder`.
        device: a torch device, or "auto".
        cache: where features are on disk, see :func:`suisei.encoders.cache_place.disk_cache`.
    """

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__signature__ = _whole_signature(cls)

    def __init__(
        self,
        *,
        encoder: DualEncoder | None = None,
        model: str | Path = MODEL,
        pretrained: str | None = "openai",
        checkpoint: str | Path | None = None,
        seed: int | None = None,
        precision: str = "auto",
        device: str = "auto",
        cache: str | Path | None = None,
    ) -> None:
        self._load_later(
            encoder,
            model,
            pretrained,
            checkpoint=checkpoint,
            seed=seed,
            precision=precision,
            device=device,
            cache=cache,
        )
        self._length_warning = LengthWarning(self.name)


def split_tag(model: str | Path) -> tuple[str, str]:
    """Return the name of a model and its tag, "" where it has none.

    >>> split_tag("ViT-L-14@laion2b_s32b_b82k")
    ('ViT-L-14', 'laion2b_s32b_b82k')
    """
    model = str(model)
    name, _, tag = model.rpartition("@")
    return (model, "") if not name or Path(model).is_dir() else (name, tag)


def folder_as_model(model: str | Path, checkpoint: str | Path | None) -> tuple[str | Path, str | Path | None]:
    """Return model and checkpoint, the checkpoint as the model where it is a model folder."""
    if checkpoint is not None and Path(checkpoint).is_dir():
        return checkpoint, None
    return model, checkpoint


def weights_given(checkpoint: str | Path | None, untrained: bool, options: Mapping[str, Any]) -> bool:
    """Return whether a metric that needs weights of its own has them, or is told to do without.

    Args:
        checkpoint: the weights.
        untrained: told to do without.
        options: those of the encoder; one that is made already, or a seed, will do.
    """
    made = any(options.get(name) is not None for name in ("encoder", "seed"))
    return checkpoint is not None or untrained or made


def _whole_signature(kind: type[DualMetric]) -> inspect.Signature:
    """Return the signature of a class, with what its ``**options`` hand on to its base in their place."""
    own = list(inspect.signature(kind.__init__).parameters.values())[1:]
    if not own or own[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        return inspect.Signature(own)
    named = own[:-1]
    base = inspect.signature(kind.__mro__[1]).parameters
    taken = {parameter.name for parameter in named}
    return inspect.Signature([*named, *(p for name, p in base.items() if name not in taken)])
