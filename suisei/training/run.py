"""One training run, from ratings to a model folder and a report."""

from __future__ import annotations

import logging
import math
import random
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from suisei.cli import safe_console, say
from suisei.data.raters import rating_facts
from suisei.data.splits import Split
from suisei.errors import ConfigError
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.registry import REGISTRY, canonical
from suisei.models.folder import save_model
from suisei.models.table import SampleTable
from suisei.progress import reported
from suisei.training.card import describe_left_out
from suisei.training.checkpoints import best_checkpoint_of, restore_best, resumed_data
from suisei.training.command_line import settings_of
from suisei.training.data_digest import check_same_as_folds, check_same_data, data_digests, encoder_digests
from suisei.training.kept_pretrainings import KeptPretrainings
from suisei.training.learned_before import describe_tested_before, facts_before
from suisei.training.learning_curve import plot_curves, read_curves
from suisei.training.losses import require_finite_weights
from suisei.training.module import SuiSei
from suisei.training.pass_states import StatesOf, no_states
from suisei.training.progress_lines import minutes_since
from suisei.training.run_facts import facts_of, kept_step
from suisei.training.run_fit import fit
from suisei.training.run_folder import (
    find_checkpoint,
    interruptible,
    record,
    staged,
    started_run,
    tell_of_run,
)
from suisei.training.run_lock import alone_in
from suisei.training.run_report import write_report
from suisei.training.support import CaptionCorpus
from suisei.training.synthetic import synthetic_samples
from suisei.training.text_idf import check_references

logger = logging.getLogger(__name__)

DEFAULT_BASELINES = ("unigram-f1", "length")
MOST_PAIRS = 4096
"""Rated pairs of captions of the support that training draws from."""


def run_training(cli: Any, whole: Path | None = None) -> None:
    """Train as a parsed command line says, and write the run's folder.

    Args:
        cli: the training command line, with ``config``, ``model``, ``datamodule`` and ``trainer``.
        whole: the folder of the cross-validation that this run is a fold of; None for a run by itself.

    Raises:
        ConfigError: another training is at work in the folder, or what :func:`find_checkpoint` raises.
    """
    first = bool(cli.trainer.is_global_zero)
    with alone_in(Path(cli.config.output), fresh=cli.config.ckpt_path is None, first=first):
        _run_training(cli, whole)


def _run_training(cli: Any, whole: Path | None) -> None:
    folder, data, model, trainer = Path(cli.config.output), cli.datamodule, cli.model, cli.trainer
    first = bool(trainer.is_global_zero)  # of several processes, each of which builds the same
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path, settings_of(cli))
    data.load(pictured=_looks_at_images(model.config), told=first)
    split = data.split
    model.data_digests = data_digests(data)
    if checkpoint is not None:
        check_same_data(resumed_data(Path(checkpoint)), model.data_digests)
    encoders = encoder_digests(model.config)
    if whole is not None:
        check_same_as_folds(whole, model.data_digests, encoders)
    if first:
        _announce(split)
        _warn_of_tested_before(data, model.config.text)
    made = data.add_training(
        synthetic_samples(data.part("train"), data.synthetic, cli.config.seed_everything)
    )
    model.mixed = "bf16" in str(trainer.precision)
    steps = cli.config.checkpoint_steps
    pretrainings = KeptPretrainings(folder, settings_of(cli), model.data_digests, steps, first=first)
    with started_run(cli, folder, split, whole) if first and checkpoint is None else nullcontext():
        with interruptible(folder, whole) if first else nullcontext():
            device = trainer.strategy.root_device
            seed, states = cli.config.seed_everything, pretrainings.of
            extras = _build(seed, data, model, device, told=first, states=states)
        if trainer.world_size > 1:
            model.keep_random_states(trainer.strategy.root_device)
        started = time.perf_counter()
        fit(trainer, model, data, checkpoint, whole)
    if not first:
        return
    data.split = split  # what is reported and recorded is the rated data
    if checkpoint is not None:
        record(cli, folder, split)  # not before: a checkpoint of other data is refused, and the run stays
    minutes = minutes_since(started, trainer)
    validation = _restore_best(model, trainer)
    model.to("cpu")
    model.regressor.text.keep_all()
    facts = facts_of(cli, minutes, validation)
    facts.update(synthetic_samples=made, data_digests=model.data_digests, encoders=encoders)
    with staged(folder) as stage:
        curves = read_curves(folder / "logs")
        kept = kept_step(trainer)
        facts["learning_curve"] = plot_curves(stage / "curve.png", curves, kept)
        ratings = rating_facts(data.part("train"))
        save_model(stage / "model", model.regressor, extras=extras.state(), ratings=ratings)
        write_report(folder, stage, data, cli.config, facts)
    pretrainings.forget()
    tell_of_run(folder, kept)


def _looks_at_images(config: Any) -> bool:
    """Return whether the image encoder or an extra input is to look at images."""
    extras = (REGISTRY.get(canonical(name).partition(":")[0]) for name in config.fusion.extra_inputs)
    return config.image is not None or any(entry and "image" in entry.needs for entry in extras)


def _announce(split: Split) -> None:
    """Say what the split leaves out, before the time of a training is spent on it."""
    if split.disjoint != "group":
        text = describe_left_out({part: len(rows) for part, rows in split.left_out.items()})
        say(safe_console(stderr=True), text)


def _warn_of_tested_before(data: Any, text: Any) -> None:
    """Say as early that the text encoder may have learned from what is to be tested."""
    said = describe_tested_before(facts_before(text, data)["tested_before"])
    if said:
        logger.warning("%s", said)


def _build(
    seed: int,
    data: Any,
    model: SuiSei,
    device: torch.device,
    *,
    told: bool = True,
    states: StatesOf = no_states,
) -> ExtraInputs:
    """Build the model from the training split and hand the data module what makes batches."""
    rated = data.rated_training()
    extras = ExtraInputs(model.config.fusion.extra_inputs)  # first: it refuses what no model folder can hold
    check_references(data, model, extras.learners())
    if model.config.image is not None and not _pictured(data, model):
        logger.warning("no training sample has an image: the model reads none (--model.image null says so)")
        model.config.image = None  # else it would have an encoder from which it learned nothing
    with reported(told=told) as progress:
        model.build(
            data.part("train"),
            data.support_data,
            rated=[data.samples[position] for position in rated],
            seed=seed,
            progress=progress,
            states=states,
        )
        table = SampleTable(
            data.samples,
            extras.fit_compute(data.samples, data.split.train, data.support_data.rated, rated),
            with_images=model.config.image is not None,
            pairs=_rated_pairs(data, model, seed),
        )
        table.target = model.regressor.targets(data.samples)
        table.source, table.original = data.set_numbers(), data.originals()
        model.needs = extras.needs()
        collate = model.prepare(table, data.split.train, progress, device)
        data.attach(collate, seed, collate.lengths, len(table.pairs))
    return extras


def _pictured(data: Any, model: SuiSei) -> bool:
    """Return whether training shows any image to the model's image encoder."""
    taught = model.pretraining is not None and model.pretraining.image_epochs > 0
    return taught or any(sample.image is not None for sample in data.part("train"))


def _rated_pairs(data: Any, model: SuiSei, seed: int) -> list[tuple[str, str, float]]:
    """Return the rated pairs of captions that training draws from, at random where there are more.

    Raises:
        ConfigError: a weight in the loss that these data or batches have no use for.
    """
    weights = model.objective.config
    if weights.pair_weight and not (data.synthetic and data.batching in ("group", "balanced")):
        raise ConfigError(
            "model.loss.pair_weight compares degraded captions with what they were made of: set "
            "data.synthetic above 0 and data.batching to balanced or group, or the weight to 0"
        )
    if not weights.support_weight:
        return []
    pairs = CaptionCorpus.of([], data.support_data).rated
    if not pairs or data.batching != "balanced":
        raise ConfigError(
            "model.loss.support_weight learns from rated pairs of captions in every step: set data.support, "
            "such as jsts, and data.batching to balanced, or the weight to 0"
        )
    return random.Random(seed).sample(pairs, min(len(pairs), MOST_PAIRS))


def _restore_best(model: SuiSei, trainer: Any) -> dict[str, float | None]:
    """Load the weights that validation chose; returns the validation figures of that checkpoint.

    Where there was no figure, or it was never defined, the weights stay those of the last step.

    Raises:
        ModelError: the weights are no numbers.
    """
    figures = _load_best(model, trainer)
    require_finite_weights(model, "model.optimizer.head_lr and its like")
    return figures


def _load_best(model: SuiSei, trainer: Any) -> dict[str, float | None]:
    callback = best_checkpoint_of(trainer)
    if not callback.best_model_path:
        logger.warning("the weights are those of the last step: no validation came in time to choose them")
        return {}
    if not math.isfinite(float(callback.best_model_score)):
        logger.warning("%s", _undefined(str(callback.monitor), trainer))
        return {str(callback.monitor): None}
    restore_best(model, trainer)
    return {str(callback.monitor): float(callback.best_model_score)}


def _undefined(monitor: str, trainer: Any) -> str:
    """Return what follows from a figure that no validation could compute."""
    text = f"{monitor} was never defined (all scores or all ratings equal): the last weights are kept"
    stopping = trainer.early_stopping_callback
    if stopping is None or stopping.wait_count < stopping.patience:
        return text
    return (
        f"{text}; training ended early, at step {trainer.global_step:,}, since an undefined figure is no "
        "better than none: set --monitor val_loss or --early_stopping null"
    )
