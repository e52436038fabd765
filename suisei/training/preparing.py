"""What is computed of a training's samples once, ahead of its first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from lightning.fabric.utilities import move_data_to_device

from suisei.encoders.cache_place import disk_cache
from suisei.models.batch import Batch
from suisei.models.features import ModelFeatures
from suisei.models.pixel_store import PixelStore
from suisei.models.regressor import Outputs, Regressor
from suisei.models.table import Collator, SampleTable
from suisei.training.cosine_fit import fit_start
from suisei.training.cross_fitting import PartEncoder, align_samples, caption_features, separate_parts
from suisei.training.devices import moved
from suisei.training.feature_table import FeatureTable
from suisei.training.lower_states import LowerStates
from suisei.training.objective import Objective
from suisei.training.pretraining_loop import Progress


@dataclass
class Ahead:
    """What encoders said of a table's captions and images before the training; None for what they did not.

    Attributes:
        captions: vectors of captions, by a frozen text encoder.
        images: vectors of images, by a frozen image encoder.
        below: states of captions after the layers that are not trained.
    """

    captions: FeatureTable | None = None
    images: FeatureTable | None = None
    below: LowerStates | None = None

    def outputs(self, regressor: Regressor, batch: Batch) -> Outputs:
        """Return what the model says of a batch; what was computed ahead is looked up."""
        captions = images = below = None
        if self.below is not None:
            below = self.below.of(batch.caption_rows)
        if self.captions is not None:
            captions = self.captions.look_up(batch.caption_rows, batch.candidate.device)
        if self.images is not None:
            images = self.images.look_up(batch.image_rows, batch.candidate.device)
        return regressor.outputs(batch, captions, images, below)


@dataclass(frozen=True)
class Preparation:
    """Tokenises and decodes a table once, computes what frozen encoders say of it, fits the extra inputs.

    Attributes:
        regressor: the model before its first step.
        objective: what the training lowers.
        progress: reports long work.
        parts: the text encoders of cross-fitting.
        taught: whether the text encoder has been taught words of captions that are not in the table.
        mixed: whether encoders compute in bf16.
    """

    regressor: Regressor
    objective: Objective
    progress: Progress
    parts: Sequence[PartEncoder]
    taught: bool
    mixed: bool

    def of(
        self, table: SampleTable, training: Sequence[int], device: torch.device | str | None
    ) -> tuple[Collator, Ahead]:
        """Return what makes a table's batches, and what was computed ahead of them.

        Args:
            table: all samples of the run.
            training: positions of the training samples.
            device: where encoders compute; None for where the model is, to which it returns.
        """
        model, config = self.regressor, self.regressor.config
        frozen_image = config.image is not None and config.image.frozen
        parted = model.text.parted and config.text.trained_layers is not None
        ahead = config.text.frozen or frozen_image or parted or model.start is not None
        with moved(model, device if ahead else None):
            known = self._encode(table, training)
            if table.extras.shape[1]:
                model.fit_extras(torch.from_numpy(table.extras[list(training)]))
            collate = self._collator(table, known)
            if parted and not config.text.frozen:
                known.below = self._encode_below(collate.token_ids or [])
            if model.start is not None:
                self._fit_start(collate, known, training)
        return collate, known

    def _encode(self, table: SampleTable, training: Sequence[int]) -> Ahead:
        """Compute what frozen encoders say of captions and images, and how captions align."""
        model, config, known = self.regressor, self.regressor.config, Ahead()
        parts = separate_parts(table, training, self.parts)
        if model.columns.aligned and config.text.frozen:
            advance = self.progress("aligning captions", len(table.captions))
            matched = align_samples(model, table, parts, advance)
            table.extras = model.columns.with_aligned(table.extras, matched)
        if config.text.frozen:
            advance = self.progress("encoding captions", len(table.captions))
            known.captions = FeatureTable(caption_features(model, table, parts, advance))
        if config.image is not None and config.image.frozen and table.images:
            sources = list(zip(table.image_keys, table.images, strict=True))
            advance = self.progress("encoding images", len(sources))
            features = ModelFeatures(model, disk_cache(), mixed=False)
            known.images = FeatureTable(features.of_images(sources, advance))
        return known

    def _collator(self, table: SampleTable, known: Ahead) -> Collator:
        model, config = self.regressor, self.regressor.config
        pixels = None
        if config.image is not None and model.image is not None and table.images and not config.image.frozen:
            advance = self.progress("reading images", len(table.images))
            pixels = PixelStore(table.images, model.image.preprocess, progress=advance)
        if known.captions is not None:
            return Collator(table, pixels=pixels)
        token_ids = model.text.tokenize(table.captions)
        if config.text.trained_layers is None and not self.taught:
            model.text.keep_used(token_ids)
        return Collator(table, token_ids, model.text.pad, pixels, overhead=model.text.call_overhead())

    def _encode_below(self, token_ids: Sequence[Sequence[int]]) -> LowerStates:
        """Compute what the layers that are not trained say of every caption."""
        model, trained = self.regressor, self.regressor.config.text.trained_layers or 0
        device = model.idf_weights.device
        advance = self.progress("encoding captions, lower layers", len(token_ids))
        model.eval()
        with self._half(device):
            states = LowerStates(model.text, token_ids, trained, device, advance)
        model.train()
        return states

    def _fit_start(self, collate: Collator, known: Ahead, training: Sequence[int]) -> None:
        """Fit what the score starts from to some training samples, with the encoders as they are."""
        model = self.regressor
        device = model.idf_weights.device

        def said(positions: list[int]) -> tuple[Batch, Outputs]:
            batch: Batch = move_data_to_device(collate(positions), device)
            return batch, known.outputs(model, batch)

        model.eval()
        with torch.no_grad(), self._half(device):
            fit_start(model, self.objective, collate.table, training, said)
        model.train()

    def _half(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, torch.bfloat16, enabled=self.mixed)
