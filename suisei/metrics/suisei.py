"""The learned metric, loaded from a model folder."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suisei.data.plain_writing import plainly_written
from suisei.data.sample import CaptionSample
from suisei.data.spoken import with_own_references
from suisei.encoders.cache_place import disk_cache
from suisei.encoders.precision import (
    choose_device,
    choose_precision,
    encoders_to,
)
from suisei.encoders.timm_tower import PREFIX
from suisei.errors import ConfigError
from suisei.explain.interfaces import COSINES, METRICS, InputColumn, SecondOpinion
from suisei.metrics.base import Metric
from suisei.metrics.extras import ExtraInputs, check_names
from suisei.metrics.forward import Forward
from suisei.metrics.kept_features import KeptFeatures
from suisei.metrics.second_models import SecondModels
from suisei.metrics.windows import windows
from suisei.models.blocks import BLOCKS
from suisei.models.folder import LoadedModel, load_second
from suisei.models.lower_layers import LowerStates
from suisei.models.regressor import Regressor
from suisei.models.second import Second
from suisei.progress import progress_bar

WINDOW = 4096
"""Samples whose captions are in memory at once."""

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
        image = self.regressor.image
        encoders_to(self.precision, self.regressor.text.backbone, None if image is None else image.tower)
        self.extras = ExtraInputs(model.regressor.config.fusion.extra_inputs, model.extras)
        kept_by = self.precision + ("-compiled" if compile else "")
        features = KeptFeatures(self.regressor, disk_cache(cache), kept_by)
        self._forward = Forward(features, self.device, self.precision)
        # not one of its own methods: the metric would keep itself alive, and its gigabytes with it
        read = partial(_read_second, model, device, self.precision, compile, cache)
        self._seconds = SecondModels(model.seconds, read)
        self._compile()

    def _compile(self) -> None:
        if self.compiled:
            self.regressor.text.backbone.compile(dynamic=True)

    def __getstate__(self) -> dict[str, Any]:
        if not any(HOOKED in vars(module) for module in self.regressor.modules()):
            return self.__dict__
        regressor = _without_hooks(self.regressor)
        model, forward = replace(self.model, regressor=regressor), self._forward.of_copy(regressor)
        return {**self.__dict__, "regressor": regressor, "model": model, "_forward": forward}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()  # what was compiled is not pickled

    def settings(self) -> dict[str, str]:
        """Return model hash, encoders, reference aggregation, languages of a second model, and precision."""
        config, image = self.regressor.config, self.regressor.config.image
        asked = self._seconds.languages
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
            METRICS: columns.measured,
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
        """Score samples with extra inputs replaced, see :class:`suisei.explain.interfaces.ReadsInputs`."""
        values = torch.from_numpy(np.asarray(replaced, dtype=np.float32))
        samples, across = self._as_read(samples)
        extras = self.extras.compute(samples)
        scores, inputs = self._forward.compute(
            samples, extras, across, replaced=values, batch_size=batch_size
        )
        scores[list(self.missing(samples))] = np.nan
        columns = self.input_columns()
        metrics = {own.name: replaced[:, place] for place, own in enumerate(columns) if own.kind == METRICS}
        for second in self._seconds.asked(samples, across, sharing=False):
            second.weigh(scores, extras, list(self.extras.metrics), batch_size, replaced=metrics)
        return scores, inputs

    def tokens_left(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens would still be read, see :class:`suisei.explain.interfaces.ReadsTokens`."""
        encoder = self.regressor.text
        return [encoder.max_tokens - count for count in encoder.token_counts(texts)]

    @property
    def reads_ends(self) -> bool:
        """Whether long texts lose their beginning, see :class:`suisei.explain.interfaces.ReadsTokens`."""
        return bool(self.regressor.text.tokenizer.truncation_side == "left")

    def second_opinion(self, sample: CaptionSample) -> SecondOpinion | None:
        """Return what both models say of a sample, see :class:`suisei.explain.interfaces.AsksSecond`."""
        samples, across = self._as_read([sample])
        for asked in self._seconds.asked(samples, across, sharing=False):  # one at most: languages differ
            own, _ = self._forward.compute(samples, self.extras.compute(samples), across, batch_size=1)
            second = float(asked.said(1)[0])
            return None if np.isnan(second) else SecondOpinion(float(own[0]), second, asked.share)
        return None

    def score_known(
        self, samples: Sequence[CaptionSample], extras: np.ndarray, known: LowerStates, *, batch_size: int
    ) -> np.ndarray:
        """Score samples of which another model has computed what this one reads, float64 [N].

        Args:
            samples: samples with references and without images.
            extras: raw extra inputs, [N, E].
            known: what this model's layers say of the captions.
            batch_size: samples at once.
        """
        return self._forward.compute(samples, extras, None, batch_size=batch_size, known=known)[0]

    @property
    def takes_over(self) -> bool:
        """Whether as a second model it can read what the first has computed of its samples without images."""
        bridged = self.regressor.start is not None and self.regressor.start.bridge is not None
        looks = "image" in frozenset().union(*self.extras.needs().values())
        plain = self.regressor.config.fusion.plain_writing
        return bool(self.regressor.columns.aligned) and not (bridged or looks or plain)

    def reference_cosines(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the middle of the largest and the mean cosine over references, float64 [N]; NaN without."""
        return self._forward.reference_cosines(self._plain(samples))

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        if self.regressor.start is None:  # another model has no score of such samples, see missing()
            self._warn_blind(samples)
        samples, across = self._as_read(samples)
        scores = np.empty(len(samples))
        with progress_bar("scoring", len(samples), shown=progress, unit="samples") as advance:
            for rows in windows(samples, WINDOW):
                own = [samples[row] for row in rows]
                told = None if across is None else [across[row] for row in rows]
                scores[rows] = self._score_window(own, told, batch_size, advance)
        return scores

    def _score_window(
        self,
        samples: Sequence[CaptionSample],
        across: Sequence[bool] | None,
        batch_size: int,
        advance: Callable[[int], Any],
    ) -> np.ndarray:
        """Return the scores [N] of samples whose captions are held in memory together."""
        extras = self.extras.compute(samples)
        sharing = bool(self.regressor.columns.aligned) and not self.compiled
        asked = list(self._seconds.asked(samples, across, sharing=sharing))
        lower = [second.lower for second in asked if second.lower is not None]
        scores, _ = self._forward.compute(
            samples, extras, across, batch_size=batch_size, advance=advance, lower=lower
        )
        for second in asked:
            second.weigh(scores, extras, list(self.extras.metrics), batch_size)
        return scores

    def _as_read(self, samples: Sequence[CaptionSample]) -> tuple[Sequence[CaptionSample], list[bool] | None]:
        """Return samples as the model reads them, and which have no reference in their own language.

        The latter is None for a model that does not tell languages apart.
        """
        start = self.regressor.start
        samples = self._plain(samples)
        return (samples, None) if start is None or start.bridge is None else with_own_references(samples)

    def _plain(self, samples: Sequence[CaptionSample]) -> Sequence[CaptionSample]:
        """Return samples whose captions are written as the model is to read them."""
        plain = self.regressor.config.fusion.plain_writing
        return [plainly_written(sample, plain) for sample in samples] if plain else samples

    @property
    def reads(self) -> frozenset[str]:
        """What decides the score beside the candidate: any of "references" and "image"."""
        model = self.regressor
        blocks = {BLOCKS[name].reads for name in model.fusion.blocks}
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

    def opens_image(self, sample: CaptionSample) -> bool:
        """Return whether the image of a sample that has one is opened for its score."""
        asked = frozenset[str]().union(*self.extras.needs().values())
        return "image" in asked or self.regressor.looks(compared=bool(sample.references))

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


def _read_second(
    first: LoadedModel,
    device: str,
    precision: str,
    compiled: bool,
    cache: str | Path | None,
    second: Second,
) -> SuiSeiMetric:
    scoring = precision if torch.device(device).type == "cpu" and not compiled else None
    found = load_second(second, check_names, first, scoring=scoring)
    return SuiSeiMetric(found, device, precision, compile=compiled, cache=cache)


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
