"""What the processes of one training say to each other, beside the gradients that the trainer averages."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from suisei.errors import ConfigError

_RANKS = ("RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
"""Variables that number a process among all of them: torchrun's, SLURM's and jsrun's."""
_PLACES = ("NODE_RANK", "GROUP_RANK", "LOCAL_RANK")
"""Variables that number a machine, or a process on its machine, where nothing numbers all of them."""

_GONE = ("closed by peer", "reset by peer", "broken pipe", "remote process exited", "timed out waiting")
"""What gloo and NCCL say, in lower case, where another process ended or does not answer."""


def world_size() -> int:
    """Return how many processes train together; 1 outside of training."""
    return distributed.get_world_size() if _together() else 1


def process_number() -> int:
    """Return which of the processes that train together this is; 0 outside of training."""
    return distributed.get_rank() if _together() else 0


def is_first_process() -> bool:
    """Say, before the trainer is made, whether this process is the one that writes folders and reports."""
    for name in _RANKS:
        if name in os.environ and (name != "SLURM_PROCID" or _in_slurm_step()):
            return os.environ[name] == "0"
    return all(os.environ.get(name, "0") == "0" for name in _PLACES)


def lost_another(error: BaseException) -> bool:
    """Say whether an error of a training is that another of its processes ended, or cannot be reached."""
    return world_size() > 1 and any(sign in str(error).lower() for sign in _GONE)


def total(values: Tensor) -> Tensor:
    """Return the sum over all processes of a tensor of one shape."""
    if world_size() == 1:
        return values
    summed = values.clone()
    distributed.all_reduce(summed)
    return summed


def token_weight(count: int, device: torch.device) -> float:
    """Return the weight of this process's mean over tokens in the mean of all processes: that of all tokens.

    Of captions, or whatever else a mean is over, likewise.

    Args:
        count: its tokens, and 0.
        device: where processes speak to each other.
    """
    world = world_size()
    if world == 1:
        return 1.0
    return count * world / max(1, int(total(torch.tensor(count, device=device))))


def gather_rows(rows: Tensor) -> Tensor:
    """Return the rows of all processes, in the order of the processes.

    Args:
        rows: [n, ...], where n may be another in every process, and 0.

    Returns:
        [N, ...], without gradient; the rows themselves where there is one process.
    """
    world = world_size()
    if world == 1:
        return rows
    rows = rows.detach()
    counts = [torch.zeros(1, dtype=torch.long, device=rows.device) for _ in range(world)]
    distributed.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    most = max(int(count) for count in counts)
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(parts, padded)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts, strict=True)])


def gather_texts(texts: Sequence[str], device: torch.device) -> list[str]:
    """Return the texts of all processes, in the order of the processes.

    Args:
        texts: any number, and 0.
        device: where processes speak to each other.
    """
    content = torch.frombuffer(bytearray(json.dumps(list(texts)).encode() + b"\n"), dtype=torch.uint8)
    lines = bytes(gather_rows(content.to(device)).cpu().numpy()).splitlines()
    return [text for line in lines for text in json.loads(line)]


def average_norms(module: nn.Module) -> None:
    """Let batch statistics of what is trained with them be the mean of those of all processes."""
    if world_size() == 1:
        return
    for norm in module.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            for statistic in (norm.running_mean, norm.running_var):
                if statistic is not None:
                    statistic.copy_(total(statistic) / world_size())


def several_processes(trainer: Any) -> bool:
    """Say whether a trainer's settings ask for more than one process."""
    devices = trainer.devices
    if isinstance(devices, str) and "," in devices:
        devices = [part for part in devices.split(",") if part.strip()]
    one = len(devices) == 1 if isinstance(devices, list) else str(devices) in ("1", "auto")
    return trainer.num_nodes > 1 or not one


def check_processes(config: Any) -> None:
    """Refuse what cannot be trained in several processes, and choose how they work together.

    Args:
        config: the parsed settings; ``auto`` as the number of devices becomes 1.

    Raises:
        ConfigError: a run without a folder of its own, a cross-validation, or a pre-training alone.
    """
    trainer = config.trainer
    if trainer.devices == "auto":
        trainer.devices = 1
    trainer.use_distributed_sampler = False  # batches are shared out by suisei.training.shares
    if not several_processes(trainer):
        return
    named = f"trainer.devices is {trainer.devices!r} and trainer.num_nodes {trainer.num_nodes}"
    if config.output is None:
        raise ConfigError(f"{named}: several processes need one folder; name it with --output DIR")
    if config.data.folds and config.data.fold is None:
        raise ConfigError(
            f"{named}: a cross-validation takes one; or train each fold by itself: --data.fold N"
        )
    if config.task == "pretrain":
        raise ConfigError(f"{named}: task: pretrain takes one of each")


def check_started(trainer: Any) -> None:
    """Refuse a number of processes that the settings do not ask for.

    Each would train by itself, all of them into one folder, or wait for others that never come.

    Args:
        trainer: of this process; made, and not at work.

    Raises:
        ConfigError: torchrun or SLURM started more or fewer.
    """
    started, asked = _started() or trainer.world_size, trainer.num_devices * trainer.num_nodes
    if started == asked:
        return
    each = _number("LOCAL_WORLD_SIZE" if "RANK" in os.environ else "SLURM_NTASKS_PER_NODE") or started
    nodes = f" --trainer.num_nodes {started // each}" if started > each else ""
    raise ConfigError(
        f"torchrun or SLURM started {started} process(es), and the settings ask for {asked}: give "
        f"--trainer.devices {each}{nodes}, or start {asked}"
    )


def _started() -> int | None:
    """Return how many processes torchrun or srun started together; None where neither did."""
    if "RANK" in os.environ:
        return _number("WORLD_SIZE")
    # Not SLURM_NTASKS, which a shell or script has too that is to run one process of a job for several.
    return _number("SLURM_STEP_NUM_TASKS") if _in_slurm_step() else None


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() and int(text) else None


def _in_slurm_step() -> bool:
    """Say whether SLURM started this process as one of several, and not a shell that someone works in."""
    return os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()
