"""What the settings of the trainer may be: plain values, held against rules before anything is made."""

from __future__ import annotations

import os
import re
from typing import Any

from suisei.errors import ConfigError
from suisei.ranges import SWITCH, Range, Rule, Several, Word, at_least, check, check_settings

PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "32", 32, "16", 16, "bf16")
LEAST_PROCESSES = 8
"""So many processes on the CPU are allowed on the smallest machine too, for trying things out."""
COUNT_OR_SHARE = Range(0, 1, above=True)
BATCHES = (at_least(1), COUNT_OR_SHARE)
NULL = Word((), null=True)
TRAINER: dict[str, Rule] = {
    "accelerator": Word(("auto", "cpu", "gpu", "cuda", "mps")),
    "strategy": Word(("auto", "ddp", "ddp_find_unused_parameters_true")),
    "num_nodes": at_least(1, 10_000),
    "precision": Word(PRECISIONS, null=True),
    "callbacks": NULL,
    "plugins": NULL,
    "model_registry": NULL,
    "fast_dev_run": Word((False,)),
    "barebones": Word((False,)),
    "enable_checkpointing": Word((True,), null=True),
    "max_epochs": at_least(1, 10**9, also=(-1,), null=True),
    "min_epochs": at_least(0, 10**9, null=True),
    "max_steps": at_least(1, 10**12, also=(-1,)),
    "min_steps": at_least(0, 10**12, null=True),
    "overfit_batches": Word((0, 0.0)),  # a batch knows its place in an epoch, which this would take from it
    "check_val_every_n_epoch": at_least(1, null=True),
    "num_sanity_val_steps": at_least(-1, null=True),
    "log_every_n_steps": at_least(0, null=True),
    "accumulate_grad_batches": at_least(1, 100_000),
    "gradient_clip_val": Range(0, 1_000_000, null=True),
    "gradient_clip_algorithm": Word(("norm", "value"), null=True),
    "inference_mode": SWITCH,
    "detect_anomaly": SWITCH,
    "sync_batchnorm": SWITCH,
    "use_distributed_sampler": SWITCH,
    "deterministic": Word((True, False, "warn"), null=True),
    "reload_dataloaders_every_n_epochs": at_least(0),
}
"""What the trainer's settings may be; the types of the others say enough."""


def check_trainer(trainer: Any) -> None:
    """Check the settings of the trainer, as parsed.

    Raises:
        ConfigError: one that is not among what it may be, no number of steps, or more devices than there are.
    """
    check_settings("trainer", vars(trainer), TRAINER)
    for name in ("limit_train_batches", "limit_val_batches", "val_check_interval"):
        _check_batches(f"trainer.{name}", trainer.get(name))
    _check_time("trainer.max_time", trainer.max_time)
    _check_length(trainer)
    _check_devices(trainer)


def _check_batches(name: str, value: Any) -> None:
    """Check a number of batches, or a share of them.

    A time, which the trainer takes for val_check_interval, does not say at which batch a validation follows.
    """
    if value is None:
        return
    if not any(rule.holds(value) for rule in BATCHES):
        raise ConfigError(
            f"{name} is {value!r}; it must be an integer of at least 1 (batches), or a number above 0 and at "
            "most 1 (a share of them)"
        )


def _check_time(name: str, value: Any) -> None:
    if isinstance(value, str) and not re.fullmatch(r"\d+:\d{1,2}:\d{1,2}:\d{1,2}", value):
        raise ConfigError(f"{name} is {value[:60]!r}; it must be a time as DD:HH:MM:SS, such as 00:08:00:00")


def _check_length(trainer: Any) -> None:
    """Refuse a training without a number of steps, which learning rates and the time left are reckoned by."""
    timed = trainer.max_epochs is None and trainer.max_time is not None  # which is no limit to the trainer
    if (trainer.max_epochs == -1 or timed) and trainer.max_steps == -1:
        raise ConfigError(
            f"trainer.max_epochs is {'null' if timed else -1}, for no limit, and no trainer.max_steps is "
            "named: set one of them to the most that it may be; trainer.max_time may end the training before"
        )


def _check_devices(trainer: Any) -> None:
    """Refuse more devices than there are."""
    import torch

    devices = trainer.devices
    numbers = at_least(1, 4096, also=(-1, "auto"))
    listed = Several(at_least(0, 4096), 1, 4096)
    if isinstance(devices, str) and devices != "auto":  # such as "2" or "0,1"
        parts = devices.strip().rstrip(",").split(",")
        whole = all(part.strip().lstrip("-").isdigit() for part in parts)
        devices = [int(p) for p in parts] if whole and "," in devices else int(parts[0]) if whole else devices
    if isinstance(devices, list):
        check("trainer.devices", devices, listed)
    else:
        check("trainer.devices", devices, numbers)
    cuda = trainer.accelerator in ("gpu", "cuda") or (
        trainer.accelerator == "auto" and torch.cuda.is_available()
    )
    there = torch.cuda.device_count() if cuda else max(LEAST_PROCESSES, os.cpu_count() or 1)
    if cuda and not there:
        raise ConfigError(
            f"trainer.accelerator is {trainer.accelerator!r}; torch sees no GPU here: cpu or auto"
        )
    if trainer.accelerator == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("trainer.accelerator is 'mps', which this machine does not have; set cpu or auto")
    wanted = max(devices) + 1 if isinstance(devices, list) and cuda else devices
    if isinstance(wanted, int) and wanted > there:
        what = "GPUs that torch sees" if cuda else "processes that a machine like this has use for"
        raise ConfigError(f"trainer.devices is {trainer.devices!r}; it must be at most {there}, the {what}")
