"""The learned metric, loaded from a model folder."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.sample import CaptionSample
from suisei.data.spoken import with_own_references
from suisei.encoders.cache_place import disk_cache
from suisei.encoders.feature_cache import FeatureCache
from suisei.encoders.locks import Lock
from suisei.encoders.precision import (
    choose_device,
    choose_precision,
    matrix_products,
    of_images,
    to_precision,
)
from suisei.encoders.timm_tower import PREFIX
from suisei.errors import ConfigError
from suisei.explain.leave_out import COSINES, InputColumn
from suisei.metrics.base import Metric
from suisei.metrics.default_model import default_model
from suisei.metrics.extras import ExtraInputs, check_names
from suisei.models.alignment import alignment_inputs
from suisei.models.batch import Batch
from suisei.models.blocks import BLOCKS
from suisei.models.cosine_start import reference_cosine
from suisei.models.features import ModelFeatures
from suisei.models.folder import LoadedModel, load_model, load_second
from suisei.models.regressor import Regressor, similarities
from suisei.models.second import Second
from suisei.models.table import Collator, SampleTable
from suisei.progress import progress_bar

CACHE_BYTES = 128 * 1024**2
"""Features of captions, and of images, are kept between calls up to this size each."""

READ = ("candidate", "references", "reference_mask", "image", "image_mask", "extras")
"""What of a batch the regressor reads beside features."""

COMPARED = 4096
"""Samples whose cosines are computed at once."""

HOOKED = "_output_capturing_hooks_installed"
"""How transformers marks an encoder in which it catches hidden states."""

logger = logging.getLogger(__name__)


class SuiSeiMetric(Metric):
    """Scores captions in [0, 1] with a trained regressor.

    References and image are each optional, sample by sample. Of a sample with neither, a model that starts
    from cosines (``head.start``) has nothing to say: its score is NaN. Others score it from the candidate
    alone, which says little; such samples are counted in a warning. Threads may share it. A second model in
    the folder (:mod:`suisei.models.second`) is read when a caption of its languages is first scored.

    Args:
        model: the loaded model.
        device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1", ...
        precision: what the encoders compute in, "auto", "fp32", "tf32", "bf16", "fp16" or "int8"; "auto"
            is bf16 where the device multiplies it in hardware, else fp32. "int8" is for text encoders on a
            CPU; images are then encoded in fp32. What follows the encoders is fp32. The model's encoders are
            converted in place.
        compile: whether the text encoder is compiled: minutes once, faster from then on.
        cache: where features are kept on disk, see :func:`suisei.encoders.cache_place.disk_cache`.
    """

    name = "suisei"
    needs: frozenset[str] = frozenset()

    def __init__(
        self,
        model: LoadedModel,
        device: str = "auto",
        precision: str = "auto",
        *,
        compile: bool = False,  # noqa: A002 - the word users know
        cache: str | Path | None = None,
    ) -> None:
        device = choose_device(device)
        self.precision = choose_precision(precision, device)
        self.model = model
        self.device = torch.device(device)
        self.compiled = compile
        if compile and self.precision == "int8":
            raise ConfigError("an encoder in int8 cannot be compiled; leave out one of the two")
        self.regressor = model.regressor.to(self.device)
        to_precision(self.regressor.text.backbone, self.precision)
        if self.regressor.image is not None:
            to_precision(self.regressor.image.tower, of_images(self.precision))
        self.extras = ExtraInputs(model.regressor.config.fusion.extra_inputs, model.extras)
        self._features = ModelFeatures(
            self.regressor,
            disk_cache(cache),
            mixed=True,
            precision=self.precision + ("-compiled" if compile else ""),
        )
        self._captions = FeatureCache(CACHE_BYTES)
        self._images = FeatureCache(CACHE_BYTES)
        self._cache = cache
        self._seconds: dict[Path, SuiSeiMetric] = {}
        self._opening = Lock()
        self._compile()

    def _compile(self) -> None:
        if self.compiled:
            self.regressor.text.backbone.compile(dynamic=True)

    def __getstate__(self) -> dict[str, Any]:
        for second in self.model.seconds:
            self._open_second(second)  # whose folder may not be where it is unpickled
        if not any(HOOKED in vars(module) for module in self.regressor.modules()):
            return self.__dict__
        regressor, features = _without_hooks(self.regressor), copy.copy(self._features)
        features.model = regressor
        model = replace(self.model, regressor=regressor)
        return {**self.__dict__, "regressor": regressor, "model": model, "_features": features}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()  # what was compiled is not pickled

    def settings(self) -> dict[str, str]:
        """Return model hash, encoders, reference aggregation, languages of a second model, and precision."""
        config, image = self.regressor.config, self.regressor.config.image
        asked = sorted(language for own in self.model.seconds for language in own.weighing.languages)
        return {
            "model": self.model.checksum[:12],
            "text": Path(config.text.name).name,
            "image": "none" if image is None else Path(image.name.removeprefix(PREFIX)).name,
            "refs": config.fusion.references,
            **({"second": "+".join(asked)} if asked else {}),
            "dtype": self.precision + ("-compiled" if self.compiled else ""),
        }

    def input_columns(self) -> list[InputColumn]:
        """Return the numbers that the model reads beside captions and image, with what is typical of each."""
        columns = self.regressor.columns
        kinds = {
            "metrics": columns.measured,
            "alignment": columns.aligned,
            COSINES: columns.similar,
            "cosines with the image": columns.seen,
        }
        named = [(kind, name) for kind, names in kinds.items() for name in names]
        typical = self.regressor.extra_mean.tolist()
        return [InputColumn(name, kind, mean) for (kind, name), mean in zip(named, typical, strict=True)]

    def score_replaced(
        self, samples: Sequence[CaptionSample], replaced: np.ndarray, *, batch_size: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        """Score samples with extra inputs replaced, see :class:`suisei.explain.leave_out.ReadsInputs`."""
        values = torch.from_numpy(np.asarray(replaced, dtype=np.float32))
        samples, across = self._told_apart(samples)
        scores, inputs = self._compute(samples, values, across, batch_size=batch_size)
        scores[list(self.missing(samples))] = np.nan
        return self._with_second(samples, scores, batch_size=batch_size), inputs

    def reference_cosines(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the middle of the largest and the mean cosine over references, float64 [N]; NaN without."""
        table = SampleTable(samples, with_images=False)
        collate, found = Collator(table), np.full(len(table), np.nan)
        with torch.inference_mode(), matrix_products(self.precision):
            vectors = self._caption_features(table, {}, progress=True)
            for start in range(0, len(table), COMPARED):
                rows = range(start, min(start + COMPARED, len(table)))
                batch = collate(rows)
                captions = vectors[batch.caption_rows]
                references = captions[batch.references]
                similar = similarities(captions[batch.candidate], references, batch.reference_mask)
                found[rows.start : rows.stop] = reference_cosine(similar).numpy()
        return found

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        if self.regressor.start is None:  # another model has no score of such samples, see missing()
            self._warn_blind(samples)
        samples, across = self._told_apart(samples)
        scores = self._compute(samples, None, across, batch_size=batch_size, progress=progress)[0]
        return self._with_second(samples, scores, batch_size=batch_size, progress=progress)

    def _told_apart(
        self, samples: Sequence[CaptionSample]
    ) -> tuple[Sequence[CaptionSample], list[bool] | None]:
        """Return samples as the model reads their references, and which have none in their own language.

        The latter is None for a model that does not tell languages apart.
        """
        start = self.regressor.start
        return (samples, None) if start is None or start.bridge is None else with_own_references(samples)

    def _with_second(
        self, samples: Sequence[CaptionSample], scores: np.ndarray, *, batch_size: int, progress: bool = False
    ) -> np.ndarray:
        """Return scores [N] weighed against second models', where there is one to be asked."""
        for second in self.model.seconds:  # each of other captions
            asked = second.weighing.asked(samples)
            if asked:
                shown = [replace(samples[position], image=None) for position in asked]
                said = self._open_second(second).score(shown, batch_size=batch_size, progress=progress)
                scores[asked] = second.weighing.combined(scores[asked], said)
        return scores

    def _open_second(self, second: Second) -> SuiSeiMetric:
        """Return a second model, which is read when it is first asked."""
        with self._opening:
            if second.folder not in self._seconds:
                packed = self.device.type == "cpu" and not self.compiled
                found = load_second(second, check_names, self.model, packed=packed)
                made = SuiSeiMetric(
                    found, str(self.device), self.precision, compile=self.compiled, cache=self._cache
                )
                self._seconds[second.folder] = made
            return self._seconds[second.folder]

    def _compute(
        self,
        samples: Sequence[CaptionSample],
        replaced: Tensor | None,
        across: Sequence[bool] | None = None,
        *,
        batch_size: int,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores, and the extra inputs where some are replaced (as they were), else none."""
        table = SampleTable(
            samples,
            self.extras.compute(samples),
            with_images=[self.regressor.looks(compared=bool(sample.references)) for sample in samples],
            across=across,
        )
        pooled: dict[int, Tensor] = {}
        with torch.inference_mode(), matrix_products(self.precision):
            if self.regressor.columns.aligned:
                matched = alignment_inputs(self.regressor, table, pooled=pooled)
                table.extras = self.regressor.columns.with_aligned(table.extras, matched)
            captions = self._caption_features(table, pooled, progress)
            images = self._image_features(table, progress)
            return self._fuse(table, captions, images, replaced, batch_size)

    def _fuse(
        self,
        table: SampleTable,
        captions: Tensor,
        images: Tensor | None,
        replaced: Tensor | None,
        batch_size: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        collate = Collator(table)
        scores, inputs = (
            np.empty(len(table)),
            np.empty((len(table), 0 if replaced is None else len(self.regressor.columns.names))),
        )
        for start in range(0, len(table), batch_size):
            batch = collate(range(start, min(start + batch_size, len(table))))
            features = captions[batch.caption_rows].to(self.device)
            looks = None if images is None else images[batch.image_rows].to(self.device)
            for name in READ:
                setattr(batch, name, getattr(batch, name).to(self.device))
            if batch.across is not None:
                batch.across = batch.across.to(self.device)
            if replaced is not None:
                inputs[start : start + batch_size] = self._inputs(batch, features, looks)
                batch.replaced = replaced[start : start + batch_size].to(self.device)
            values = self.regressor(batch, features, looks)
            scores[start : start + batch_size] = values.double().cpu().numpy()
        return scores, inputs

    def _inputs(self, batch: Batch, captions: Tensor, images: Tensor | None) -> np.ndarray:
        """Return the extra inputs as they are, float64 [B, E]."""
        extras: np.ndarray = self.regressor.outputs(batch, captions, images).extras.double().cpu().numpy()
        return extras

    def _caption_features(self, table: SampleTable, pooled: dict[int, Tensor], progress: bool) -> Tensor:
        """Return the vectors [T, P, d] of a table's captions, of which some are known by their row."""
        if len(pooled) == len(table.captions):
            return torch.stack([pooled[row] for row in range(len(pooled))])
        known = {table.captions[row]: vector for row, vector in pooled.items()}

        def encode(captions: list[str]) -> Tensor:
            rest = [caption for caption in captions if caption not in known]
            if rest:
                with progress_bar("encoding captions", len(rest), shown=progress) as advance:
                    known.update(zip(rest, self._features.of_captions(rest, advance), strict=True))
            return torch.stack([known[caption] for caption in captions])

        return self._captions.look_up(table.captions, table.captions, encode)

    def _image_features(self, table: SampleTable, progress: bool) -> Tensor | None:
        if self.regressor.image is None or not table.images:
            return None

        def encode(images: list[tuple[str, Any]]) -> Tensor:
            with progress_bar("encoding images", len(images), shown=progress) as advance:
                return self._features.of_images(images, advance)

        pairs = list(zip(table.image_keys, table.images, strict=True))
        return self._images.look_up(table.image_keys, pairs, encode)

    @property
    def reads(self) -> frozenset[str]:
        """What decides the score beside the candidate: any of "references" and "image"."""
        model, fusion = self.regressor, self.regressor.config.fusion
        blocks = {BLOCKS[name].reads for name in (BLOCKS if fusion.blocks is None else fusion.blocks)}
        cosines = model.start is not None
        found = set().union(*self.extras.needs().values())
        if cosines or model.columns.similar or model.columns.aligned or "reference" in blocks:
            found.add("references")
        if model.looks(compared=False):
            found.add("image")
        return frozenset(found & {"references", "image"})

    def missing(self, samples: Sequence[CaptionSample]) -> dict[int, str]:
        """Return {position: reason} of the samples that lack all that the candidate could be compared with.

        There are none where the model judges a candidate without.
        """
        if self.regressor.start is None:
            return {}
        return dict.fromkeys(self._blind(samples), _lacking(self.reads))

    def _blind(self, samples: Sequence[CaptionSample]) -> list[int]:
        """Return the positions of samples with nothing but a candidate to read."""
        reads = self.reads
        return [
            position
            for position, sample in enumerate(samples)
            if not ("references" in reads and sample.references)
            and not ("image" in reads and sample.image is not None)
        ]

    def _warn_blind(self, samples: Sequence[CaptionSample]) -> None:
        blind = len(self._blind(samples))
        if blind:
            logger.warning(
                "%d of %d samples are scored from the candidate alone: %s",
                blind, len(samples), _lacking(self.reads),
            )  # fmt: skip


def _lacking(reads: frozenset[str]) -> str:
    """Return what samples lack that have nothing but a candidate to read."""
    if not reads:
        return "this model reads neither references nor image"
    if "image" not in reads:
        return "no references (this model reads no image)"
    return (
        "no references and no image" if "references" in reads else "no image (this model reads no references)"
    )


def _without_hooks(regressor: Regressor) -> Regressor:
    """Return a copy without what transformers puts into an encoder in use, which cannot be pickled."""
    copied = copy.deepcopy(regressor)
    for module in copied.modules():
        if vars(module).pop(HOOKED, False):
            for part in module.modules():
                part._forward_hooks.clear()
    return copied


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
        ConfigError: an unknown precision, int8 compiled or on a GPU, a cache folder that cannot be made, or a
            revision of a folder.
        UnavailableError: a model on the hub that is neither in the hub's cache nor within reach; or no
            path, and this installation has no model.
    """
    device = choose_device(device)
    path = default_model() if path is None else path  # an empty name is no wish for that
    model = _found(path, revision, packed=device == "cpu" and not compile)
    return SuiSeiMetric(model, device, precision, compile=compile, cache=cache)


def _found(path: str | Path, revision: str | None, packed: bool) -> LoadedModel:
    from suisei.models.hub_folder import cache_of, fetch_model, is_hub_name

    if is_hub_name(path):
        folder = fetch_model(str(path), revision)
        return load_model(folder, check_names, within=cache_of(folder), packed=packed)
    if revision is not None:
        raise ConfigError(f"revision {revision!r} is for a model on the hub, and {path} is a folder's name")
    return load_model(path, check_names, packed=packed)
