"""What the report of a training says of it: how long, how fast, on what, and which step was kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from suisei.runlog.events import memory
from suisei.training.checkpoints import best_checkpoint_of, read_checkpoint
from suisei.training.progress_lines import lines_of


def facts_of(cli: Any, minutes: float, validation: Mapping[str, float | None]) -> dict[str, Any]:
    """Return what the report says of a training that has ended.

    Args:
        cli: its command line, with ``config``, ``model``, ``datamodule`` and ``trainer``.
        minutes: of all its starts.
        validation: {figure: value} of the epoch that was kept.
    """
    data, model, trainer = cli.datamodule, cli.model, cli.trainer
    return {
        "seed": cli.config.seed_everything,
        "minutes": round(minutes, 2),
        "processes": trainer.world_size,
        "epochs": epochs_of(trainer),
        "steps": trainer.global_step,
        "precision": str(trainer.precision),
        "trainable_parameters": trainable_parameters(model.regressor),
        "best_validation": validation,
        "ranks": model.config.head.rank_share > 0,
        **data.skipped_facts,
        **_pace(trainer),
    }


def task_facts(cli: Any, minutes: float) -> dict[str, Any]:
    """Return what every report of a task of its own says; arguments as for :func:`facts_of`."""
    return {
        "seed": cli.config.seed_everything,
        "minutes": round(minutes, 2),
        "steps": cli.trainer.global_step,
        "kept": kept_step(cli.trainer),
    }


def epochs_of(trainer: Any) -> int:
    """Return how many epochs a training began, as its steps say.

    The trainer's own count lacks the last one where a training went on after all of its steps.
    """
    batches, share = float(trainer.num_training_batches), trainer.accumulate_grad_batches
    if not 0 < batches < math.inf:
        return int(trainer.current_epoch)
    return max(int(trainer.current_epoch), math.ceil(trainer.global_step / math.ceil(batches / share)))


def _pace(trainer: Any) -> dict[str, Any]:
    """Return the throughput of the last start, and the peak of the memory."""
    lines = lines_of(trainer)
    pace = lines.per_second if lines is not None else None
    peaks = {name: value for name, value in memory().items() if "peak" in name}
    return {"samples_per_second": None if pace is None else round(pace, 2), **peaks}


def trainable_parameters(module: nn.Module) -> int:
    """Return how many numbers of a module are trained."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def kept_step(trainer: Any) -> int | None:
    """Return the step whose weights validation chose; None where the figure was never defined."""
    callback = best_checkpoint_of(trainer)
    path = Path(callback.best_model_path or "")
    score = callback.best_model_score
    if not path.is_file() or score is None or not math.isfinite(float(score)):
        return None
    return int(read_checkpoint(path)["global_step"])
