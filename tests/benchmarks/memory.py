"""Peak memory of `suisei score` on files of two lengths: it must not grow with them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from suisei.models.folder import save_model
from tests.benchmarks import inputs
from tests.benchmarks.harness import Options, Row, seconds

SECTION = "memory"
SHORTER = 10
"""The shorter file has so many times fewer rows."""

_CHILD = """
import sys
from suisei.__main__ import main
from tests.benchmarks.harness import peak_memory
status = main(sys.argv[1:])
sys.stderr.write("\\n@@ " + str(peak_memory()))
raise SystemExit(status)
"""


def run(options: Options) -> list[Row]:
    """Measure both."""
    with tempfile.TemporaryDirectory(prefix="suisei-benchmark-") as name:
        folder = Path(name)
        small = Options(size="tiny", rows=options.rows, root=options.root, threads=options.threads)
        save_model(folder / "model", inputs.regressor(small, image=False, references="mean"))
        rows = []
        for count in (max(1, options.memory_rows // SHORTER), options.memory_rows):
            _write(folder / "rows.jsonl", count, options)
            peak: list[float] = []
            spent = seconds(lambda peak=peak: peak.append(_score(folder, options.threads)))
            what, note = f"scoring {count:,} rows", f"small model; {count / spent:,.0f} rows/s with start-up"
            rows.append(Row(SECTION, what, peak[0], "MB", note=note))
    return rows


def _write(path: Path, count: int, options: Options) -> None:
    """Write rows that differ: the data's captions, each with the number of its round."""
    captions = inputs.captions_of(inputs.samples(options.root, 10**9))
    with path.open("w", encoding="utf-8") as file:
        for number, caption in zip(range(count), itertools.cycle(captions), strict=False):
            mark = f" {number // len(captions)}" if number >= len(captions) else ""
            other = captions[(number + 1) % len(captions)]
            file.write(json.dumps({"candidate": caption + mark, "references": [other]}) + "\n")


def _score(folder: Path, threads: int) -> float:
    """Return the peak resident memory in MB."""
    arguments = ["score", "--model", folder / "model", "--input", folder / "rows.jsonl", "--output"]
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, arguments), str(folder / "scores.jsonl")],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    (folder / "scores.jsonl").unlink()
    return float(done.stderr.rpartition("@@ ")[2])
