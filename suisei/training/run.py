"""One training run, from ratings to a model folder and a report."""

from __future__ import annotations

import logging
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from suisei.cli import safe_console, say
from suisei.data.splits import Split
from suisei.errors import ConfigError, DataError, ModelError, SuiseiError, UnavailableError
from suisei.metrics.extras import ExtraInputs
from suisei.models.folder import save_model
from suisei.models.table import SampleTable
from suisei.progress import progress_bar
from suisei.runlog.events import current
from suisei.training.card import describe_left_out
from suisei.training.checkpoints import (
    best_checkpoint_of,
    newest_whole,
    restore_best,
    resumed_data,
    resumed_settings,
    verify_checkpoint,
)
from suisei.training.command_line import settings_of
from suisei.training.data_digest import check_same_data, data_digests
from suisei.training.learning_curve import plot_curves, read_curves
from suisei.training.losses import require_finite_weights
from suisei.training.module import SuiSei
from suisei.training.run_facts import facts_of, kept_step
from suisei.training.run_lock import alone_in, remove_empty
from suisei.training.run_report import write_report
from suisei.training.run_settings import check_resumed
from suisei.training.support import CaptionCorpus
from suisei.training.synthetic import synthetic_samples

logger = logging.getLogger(__name__)

DEFAULT_BASELINES = ("unigram-f1", "length")
MOST_PAIRS = 4096
"""Rated pairs of captions of the support that training draws from."""
RECORDS = ("config.yaml", "splits.json")
"""What marks a run as started."""
LESS_MEMORY = (
    "lower data.batch_size (and raise trainer.accumulate_grad_batches as much), then --ckpt_path last"
)
OUT_OF_REACH = {
    "out of memory": LESS_MEMORY,
    "can't allocate memory": LESS_MEMORY,
    "DataLoader worker": "set data.num_workers to 0, then go on with --ckpt_path last",
}
"""Part of a runtime error's text, and what to do about it."""


def run_training(cli: Any) -> None:
    """Train as a parsed command line says, and write the run's folder.

    Args:
        cli: the training command line, with ``config``, ``model``, ``datamodule`` and ``trainer``.

    Raises:
        ConfigError: another training is at work in the folder, or what :func:`find_checkpoint` raises.
    """
    with alone_in(Path(cli.config.output), fresh=cli.config.ckpt_path is None):
        _run_training(cli)


def _run_training(cli: Any) -> None:
    folder, data, model, trainer = Path(cli.config.output), cli.datamodule, cli.model, cli.trainer
    first = bool(trainer.is_global_zero)  # of several processes, each of which builds the same
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path, settings_of(cli))
    data.load()
    split = data.split
    model.data_digests = data_digests(data)
    if checkpoint is not None:
        check_same_data(resumed_data(Path(checkpoint)), model.data_digests)
    if first:
        _announce(split)
    made = data.add_training(
        synthetic_samples(data.part("train"), data.synthetic, cli.config.seed_everything)
    )
    model.mixed = "bf16" in str(trainer.precision)
    extras = _build(cli.config.seed_everything, data, model, trainer.strategy.root_device, told=first)
    if trainer.world_size > 1:
        model.keep_random_states(trainer.strategy.root_device)
    started = time.perf_counter()
    if not first:
        fit(trainer, model, data, checkpoint)
        return
    if checkpoint is None:
        with started_run(cli, folder, split):
            fit(trainer, model, data, None)
        data.split = split  # what is reported and recorded is the rated data
    else:
        fit(trainer, model, data, checkpoint)
        data.split = split
        _record(cli, folder, split)  # not before: a checkpoint of other data is refused, and the run stays
    minutes = (time.perf_counter() - started) / 60
    validation = _restore_best(model, trainer)
    model.to("cpu")
    facts = {**facts_of(cli, minutes, validation), "synthetic_samples": made}
    with staged(folder) as stage:
        curves = read_curves(folder / "logs")
        facts["learning_curve"] = plot_curves(stage / "curve.png", curves, kept_step(trainer))
        save_model(stage / "model", model.regressor, extras=extras.state())
        write_report(folder, stage, data, cli.config, facts)
    say(safe_console(), f"run: {folder}   model: {folder / 'model'}")


def fit(trainer: Any, model: Any, data: Any, checkpoint: str | None) -> None:
    """Let the trainer train; what goes wrong outside this program's hands becomes one line.

    Raises:
        ConfigError: settings that do not go together.
        DataError: a file cannot be written.
        UnavailableError: the memory does not suffice, or a process that prepares batches ended.
    """
    try:
        trainer.fit(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except SuiseiError:
        raise
    except (KeyboardInterrupt, SystemExit):  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt(_interrupted(trainer)) from None
    except MisconfigurationException as error:
        raise ConfigError(f"trainer: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise DataError(
            f"training stopped: {error}; make room or mend access, then --ckpt_path last"
        ) from None
    except (MemoryError, RuntimeError) as error:
        advice = next((advice for sign, advice in OUT_OF_REACH.items() if sign in str(error)), None)
        if advice is None and not isinstance(error, MemoryError | torch.OutOfMemoryError):
            raise
        reason = " ".join(str(error).split())[:200] or "out of memory"
        raise UnavailableError(f"training stopped: {reason}; {advice or LESS_MEMORY}") from None


def _interrupted(trainer: Any) -> str:
    """Say how far a training came, and how it goes on."""
    folder = Path(trainer.default_root_dir)
    there = sorted(
        (folder / "checkpoints").glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns, reverse=True
    )
    go_on = f"suisei train --config {folder / 'config.yaml'} --ckpt_path last"
    place = f"epoch {trainer.current_epoch + 1}, step {trainer.global_step:,}"
    if not there:
        return f"{place}; there is no checkpoint yet: {go_on} starts over"
    return f"{place}; the newest checkpoint is {there[0]}: {go_on} goes on from it"


@contextmanager
def started_run(cli: Any, folder: Path, split: Split | None = None) -> Iterator[None]:
    """Mark a folder as that of a run while it runs, and after.

    A run that fails for a reason it can name, before it has anything to go on from, leaves the folder as it
    was, so that it can be started again.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        _record(cli, folder, split)
        yield
    except (SuiseiError, OSError) as error:
        if not any(folder.rglob("*.ckpt")) and not any(folder.rglob("report.json")):
            for name in RECORDS:
                (folder / name).unlink(missing_ok=True)
            for name in ("logs", "checkpoints"):
                if (folder / name).is_dir():
                    shutil.rmtree(folder / name, ignore_errors=True)
            remove_empty(made)
        if isinstance(error, OSError):
            raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from None
        raise


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a folder for results, which appear in ``folder`` once all of them are written.

    ``report.json``, which marks a finished run, comes last.

    Raises:
        DataError: they cannot be written, such as on a full disk.
    """
    try:
        for left in folder.glob(".results-*"):  # by a run that was killed while it wrote them
            shutil.rmtree(left, ignore_errors=True)
        for left in (folder / "checkpoints").glob(".*.ckpt.part"):  # or while it wrote a checkpoint
            left.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".results-") as name:
            stage = Path(name)
            yield stage
            old = stage / ".old"
            old.mkdir()
            results = [path for path in stage.iterdir() if path != old]
            for path in sorted(results, key=lambda path: path.name == "report.json"):
                place = folder / path.name
                if place.is_dir():
                    place.rename(old / path.name)
                path.replace(place)
    except OSError as error:
        raise DataError(
            f"{folder}: the results cannot be written: {error.strerror or error}; make room, then go on with "
            "--ckpt_path last"
        ) from None


def _record(cli: Any, folder: Path, split: Split | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if split is not None:
        split.save(folder / "splits.json", cli.datamodule.samples)
    save_config(cli, folder)


def save_config(cli: Any, folder: Path) -> None:
    """Write the resolved settings of a run into its folder; their being there marks a run as started.

    Settings that are null are written too (``image: null`` is not the default), and the file starts a run
    afresh even if this one was resumed.
    """
    config = cli.config.clone()
    config.ckpt_path = None
    cli.parser.save(config, folder / "config.yaml", overwrite=True, skip_validation=True, skip_unset=False)


def _announce(split: Split) -> None:
    """Say what the split leaves out, before the time of a training is spent on it."""
    if split.disjoint != "group":
        text = describe_left_out({part: len(rows) for part, rows in split.left_out.items()})
        say(safe_console(stderr=True), text)


def _build(seed: int, data: Any, model: SuiSei, device: torch.device, *, told: bool = True) -> ExtraInputs:
    """Build the model from the training split and hand the data module what makes batches."""
    training = data.part("train")
    extras = ExtraInputs(model.config.fusion.extra_inputs)  # first: it refuses what no model folder can hold
    if model.config.image is not None and not _pictured(data, model):
        logger.warning("no training sample has an image: the model reads none (--model.image null says so)")
        model.config.image = None  # else it would have an encoder from which it learned nothing
    with reported(told=told) as progress:
        model.build(training, data.support_data, seed=seed, progress=progress)
        table = SampleTable(
            data.samples,
            extras.fit_compute(data.samples, data.split.train, data.support_data.rated),
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


@contextmanager
def reported(*, told: bool = True) -> Iterator[Callable[[str, int], Callable[[int], Any]]]:
    """Give what reports long work: a bar each on a terminal, else a line when it begins; nothing untold."""
    with ExitStack() as stack:

        def progress(description: str, total: int) -> Callable[[int], Any]:
            if not told:
                return lambda _: None
            if not (sys.stderr.isatty() or current().quiet or current().replaces_messages):
                sys.stderr.write(f"{description}: {total:,}\n")
                sys.stderr.flush()
            return stack.enter_context(progress_bar(description, total))

        yield progress


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


def find_checkpoint(folder: Path, wanted: str | None, settings: Mapping[str, Any]) -> str | None:
    """Return the checkpoint to go on with, verified; None to start from the beginning.

    Args:
        folder: the run's.
        wanted: a checkpoint file, "last" for the run's newest that is whole, or None.
        settings: those of this start; a checkpoint of a run with others is refused.

    Raises:
        ConfigError: there is none, or it is of a run with other settings.
        ModelError: it is not whole.
    """
    if wanted is None:
        return None
    checkpoint: Path | None = Path(wanted)
    if wanted == "last":
        found = [folder / "checkpoints" / name for name in ("last.ckpt", "steps.ckpt", "best.ckpt")]
        found = [path for path in found if path.is_file()]
        if not found and (folder / "config.yaml").is_file():
            logger.warning("%s was interrupted before its first checkpoint; training starts over", folder)
            return None
        if not found:
            raise ConfigError(f"{folder} has no checkpoint to go on with; train without --ckpt_path")
        checkpoint = newest_whole(found, logger.warning)
        _warn_of_broken_best(folder / "checkpoints" / "best.ckpt")
    elif not Path(wanted).is_file():
        raise ConfigError(f"no checkpoint at {wanted}; 'last' takes the run's newest")
    assert checkpoint is not None
    note = check_resumed(resumed_settings(checkpoint), settings)
    if note:
        logger.warning("%s", note)
    return str(checkpoint)


def _restore_best(model: SuiSei, trainer: Any) -> dict[str, float | None]:
    """Load the weights that validation chose; returns the validation figures of that checkpoint.

    Where the figure was never defined, the weights stay those of the last epoch.

    Raises:
        ModelError: the weights are no numbers.
    """
    figures = _load_best(model, trainer)
    require_finite_weights(model, "model.optimizer.head_lr and its like")
    return figures


def _warn_of_broken_best(best: Path) -> None:
    """Say early that the weights which validation chose are lost, not at the end of the training."""
    try:
        if best.is_file():
            verify_checkpoint(best)
    except ModelError as error:
        problem = str(error).rpartition(";")[0]
        logger.warning("%s; unless a later epoch is better, the run will end without a model", problem)


def _load_best(model: SuiSei, trainer: Any) -> dict[str, float | None]:
    callback = best_checkpoint_of(trainer)
    if not callback.best_model_path:
        return {}
    if not math.isfinite(float(callback.best_model_score)):
        logger.warning(
            "%s was never defined (all scores or all ratings equal): the last epoch is kept", callback.monitor
        )
        return {str(callback.monitor): None}
    restore_best(model, trainer)
    return {str(callback.monitor): float(callback.best_model_score)}
