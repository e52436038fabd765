"""What every benchmark shares: options, alternating timings, the machine's description, the table."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

MATRIX = {"cpu": 2048, "cuda": 8192}
"""Side of the matrices whose product gives the machine's peak."""


@dataclass
class Options:
    """Sizes and peers of a run.

    Attributes:
        size: "base" for XLM-R base and ViT-B/16, "tiny" for a check of the harness itself.
        rows: rows that our side scores.
        peer_rows: rows that a slower side scores, spread evenly over the same rows; it is timed per row.
        captions: unique captions and, a tenth of it, images for the shares of peak.
        train_samples: samples of a step-by-step comparison of full fine-tuning.
        frozen_samples: samples of an epoch of training from cached features.
        memory_rows: rows of the longest file that is scored for its peak memory.
        kills: how often scoring is killed; evaluations are 0.3 times, trainings 0.1 times as often.
        kill_only: only commands whose names have one of these in them, separated by semicolons.
        killed_rows: rows of the files that are scored then.
        kill_seed: of the moments.
        shard_rows: rows of the largest set in shards.
        repeats: how often the sides alternate.
        root: Flickr8k's folder; None for the bundled scenes.
        model: a model folder to measure in the place of the one in the package.
        comet_python: interpreter of an environment with unbabel-comet and torchmetrics.
        threads: compute threads of every side.
        device: where every side computes, "cpu" or "cuda".
    """

    size: str = "base"
    rows: int = 600
    peer_rows: int = 48
    captions: int = 400
    train_samples: int = 64
    frozen_samples: int = 16_384
    memory_rows: int = 20_000
    kills: int = 200
    killed_rows: int = 300
    kill_seed: int = 0
    kill_only: str = ""
    shard_rows: int = 100_000
    repeats: int = 3
    root: Path | None = None
    model: Path | None = None
    comet_python: str | None = None
    threads: int = field(default_factory=torch.get_num_threads)
    device: str = "cpu"


@dataclass
class Row:
    """One line of the result.

    Attributes:
        section: the benchmark.
        what: what was measured.
        ours: our figure, as ``unit`` says.
        peer: who is compared with; empty where nobody is.
        theirs: their figure.
        ratio: how many times better ours is, the median over alternating repeats.
        unit: of both figures.
        note: what the figure rests on.
    """

    section: str
    what: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    note: str = ""


def seconds(function: Callable[[], Any]) -> float:
    """Return how long a call takes, with all that it has a GPU do."""
    start = time.perf_counter()
    function()
    settle()
    return time.perf_counter() - start


def settle() -> None:
    """Wait for what a GPU was asked to compute."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def alternate(sides: Sequence[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Call the sides in turn, ``repeats`` times; each returns seconds. Returns the times of each side."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, own in zip(sides, times, strict=True):
            own.append(side())
    return times


def compared(
    section: str,
    what: str,
    times: tuple[list[float], list[float]],
    counts: tuple[int, int],
    peer: str,
    unit: str = "samples/s",
    note: str = "",
) -> Row:
    """Return a row of two sides' throughputs: what they did per second, and the median ratio."""
    rates = [[count / second for second in own] for own, count in zip(times, counts, strict=True)]
    ratios = [one / other for one, other in zip(*rates, strict=True)]
    ours, theirs = (statistics.median(own) for own in rates)
    return Row(section, what, ours, unit, peer, theirs, statistics.median(ratios), note)


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return ``count`` items, evenly spread over all of them."""
    step = max(1.0, len(items) / count)
    return [items[int(number * step)] for number in range(min(count, len(items)))]


def matrix_peak(dtype: torch.dtype = torch.float32, repeats: int = 5, device: str = "cpu") -> float:
    """Return the operations per second of a large matrix product, the best of several."""
    side = MATRIX[device]
    one, other = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    one @ other
    settle()
    return 2 * side**3 / min(seconds(lambda: one @ other) for _ in range(repeats))


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # the other figure begins with that of the process that started this one
        return int(status.read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine(options: Options) -> dict[str, Any]:
    """Return what the figures were measured on."""
    from importlib.metadata import version

    info = _cpu_info()
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_tile")
    flags = [flag for flag in wanted if flag in info.get("flags", "").split()]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "cpu": info.get("model name", platform.processor()),
        "cpu_numbers": f"family {info.get('cpu family', '?')} model {info.get('model', '?')}",
        "cores": os.cpu_count(),
        "flags": " ".join(flags),
        "threads": options.threads,
        "load_before": round(load, 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "data": "Flickr8k-Expert" if options.root is not None else "bundled scenes",
    }


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def markdown(described: dict[str, Any], rows: Sequence[Row]) -> str:
    """Return the description and the table."""
    lines = [", ".join(f"{key} {value}" for key, value in described.items()), ""]
    lines += ["| | what | ours | peer | theirs | ratio | |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*lines, *map(table_line, rows)]) + "\n"


def table_line(row: Row) -> str:
    """Return a row of the table."""
    theirs = "" if row.theirs is None else f"{_number(row.theirs)} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    ours = f"{_number(row.ours)} {row.unit}"
    return "| " + " | ".join((row.section, row.what, ours, row.peer, theirs, ratio, row.note)) + " |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
