"""Sets in shards: two workers of a Ray cluster beside two local processes, and the cost of longer sets.

Each side is the command as a person types it, in processes of its own. Its time is what the command itself
says: from the start of the workers, or of the cluster, to the last shard. The time in which workers were busy
stands in the counts of every shard.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.harness import Options, Row
from tests.integration.shard_files import captions

SECTION = "shards"
SHARDS = 10
"""Shards of the smallest set; longer sets have more of the same length."""
WORKERS = 2
LIGHT = "length,unigram-f1"
SMALL = "suisei"
RAY_ROWS = 100_000
SIZES = (10_000, 100_000, 1_000_000)


def run(options: Options) -> Iterator[Row]:
    """Measure both engines on one set, and the local one on sets of growing length."""
    sizes = [rows for rows in SIZES if rows <= options.shard_rows] or [options.shard_rows]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, sizes[0], sizes[-1])
        yield from _by_length(folder, sizes)
        if find_spec("ray"):
            yield from _engines(folder, min(sizes[-1], RAY_ROWS), LIGHT, options.repeats)
            yield from _engines(folder, sizes[0], SMALL, 1)


def _write(folder: Path, smallest: int, largest: int) -> None:
    """Write the shards of the longest set; a shorter one is the first of them."""
    import numpy as np

    rows = max(1, smallest // SHARDS)
    generator = np.random.default_rng(0)
    pairs = zip(captions(generator, rows), captions(generator, rows), strict=True)
    lines = [
        json.dumps({"key": str(number), "uid": f"{number:032x}", "candidate": own, "references": [other]})
        for number, (own, other) in enumerate(pairs)
    ]
    content = "\n".join(lines) + "\n"
    for shard in range(largest // rows):
        (folder / f"{shard:05d}.jsonl").write_text(content, encoding="utf-8")


def _by_length(folder: Path, sizes: list[int]) -> Iterator[Row]:
    shards, first = SHARDS, 0.0
    for rows in sizes:
        count = shards * rows // sizes[0]
        busy, whole = _timed(folder, count, LIGHT, "local")
        first = first or busy / rows
        yield Row(
            SECTION, f"{rows:,} rows, {LIGHT}, {WORKERS} local processes", rows / whole, "rows/s",
            note=f"{1e6 * busy / rows:.1f} µs of a worker a row, {busy / rows / first:.2f} of the shortest "
            f"set's; {whole:.1f} s with the start of workers",
        )  # fmt: skip


def _engines(folder: Path, rows: int, metrics: str, repeats: int) -> Iterator[Row]:
    count = max(1, SHARDS * rows // 10_000) if rows >= 10_000 else SHARDS
    times = [[_timed(folder, count, metrics, engine) for engine in ("ray", "local")] for _ in range(repeats)]
    for position, what in enumerate(("while scoring", "with the start of workers")):
        ray, local = ([each[side][position] for each in times] for side in (0, 1))
        scale = WORKERS if position == 0 else 1
        yield Row(
            SECTION, f"{rows:,} rows, {metrics}, {WORKERS} Ray workers, {what}",
            scale * rows / statistics.median(ray), "rows/s", f"{WORKERS} local processes",
            scale * rows / statistics.median(local),
            statistics.median(there / here for here, there in zip(ray, local, strict=True)),
            note=f"{repeats} alternating repeats",
        )  # fmt: skip


def _timed(folder: Path, shards: int, metrics: str, engine: str) -> tuple[float, float]:
    """Return seconds in which workers were busy, summed over them, and those of the whole command."""
    output, summary = folder / "out", folder / "summary.json"
    shutil.rmtree(output, ignore_errors=True)
    command = [
        sys.executable, "-m", "suisei", "score", "--metrics", metrics, "--cache", "off", "--engine", engine,
        "--input", str(folder / f"{{00000..{shards - 1:05d}}}.jsonl"), "--output", str(output),
        "--processes", str(WORKERS), "--summary", str(summary),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SUISEI_CACHE": "off"})
    stats = [json.loads(path.read_text("utf-8")) for path in output.glob("*_stats.json")]
    return sum(each["seconds"] for each in stats), json.loads(summary.read_text())["seconds"]
