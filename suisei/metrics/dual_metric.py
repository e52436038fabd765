"""What every metric that scores with a dual encoder shares: the encoder's options and its loading."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suisei.encoders.locks import Lock
from suisei.metrics.base import Metric
from suisei.metrics.long_captions import LengthWarning

if TYPE_CHECKING:
    from suisei.encoders.dual import DualEncoder

MODEL = "ViT-B-32"
"""The backbone of the papers."""
BACKBONES = (MODEL, "ViT-B-16", "ViT-L-14")
"""Backbones that papers print figures of, ..."""
PRETRAINING = ("openai", "laion2b")
"""... and how the tags of their weights begin."""
OTHER_BACKBONE = "other"


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
    trained = False
    """Whether its weights were trained from those of the backbone, rather than being the backbone's own."""

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

    @property
    def model_shown(self) -> str:
        """What the encoder is called in messages: a folder as it was given: every run has a model."""
        given = str(self._loading["name"])
        return given if Path(given).is_dir() else self.encoder.name

    @property
    def backbone(self) -> str:
        """Architecture and pre-training, such as "ViT-L-14@laion2b"; "other" for what no paper has.

        A folder's architecture counts and not its name.
        """
        encoder = self.encoder
        has_tag = not encoder.weights.startswith(("sha256-", "seed-"))
        if has_tag == self.trained or encoder.weights.startswith("seed-"):
            return OTHER_BACKBONE
        name = like(encoder.architecture, BACKBONES)
        tag = encoder.weights if has_tag else self._trained_from(encoder.architecture or {})
        pretraining = next((own for own in PRETRAINING if tag.startswith(own)), None)
        return OTHER_BACKBONE if name is None or pretraining is None else f"{name}@{pretraining}"

    def _trained_from(self, described: Mapping[str, Any]) -> str:
        """Return the tag that weights were trained from; of a folder as far as the description tells."""
        if Path(self._loading["name"]).is_dir():
            return PRETRAINING[0] if described.get("quick_gelu") else ""
        return self._loading["pretrained"] or ""


def split_tag(model: str | Path) -> tuple[str, str]:
    """Return the name of a model and its tag, "" where it has none.

    >>> split_tag("ViT-L-14@laion2b_s32b_b82k")
    ('ViT-L-14', 'laion2b_s32b_b82k')
    """
    model = str(model)
    name, _, tag = model.rpartition("@")
    return (model, "") if not name or Path(model).is_dir() else (name, tag)


def like(described: Mapping[str, Any] | None, names: Iterable[str]) -> str | None:
    """Return which of open_clip's models has the architecture of a description; None for none."""
    import open_clip

    if described is None:
        return None
    parts = ("embed_dim", "vision_cfg", "text_cfg")
    wanted = [described.get(part) for part in parts]
    configs = {name: open_clip.get_model_config(name) or {} for name in names}
    return next((name for name, own in configs.items() if [own.get(part) for part in parts] == wanted), None)


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
