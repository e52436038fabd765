"""How long it takes to import the package, to open a model, and to score one caption from cold."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suisei.models.folder import save_model
from tests.benchmarks import inputs
from tests.benchmarks.harness import Options, Row, alternate, seconds

SECTION = "startup"
OPENING = """
import sys, time
import fugashi, sacrebleu, safetensors.torch, tokenizers, torch
from suisei.metrics.loading import load
begun = time.perf_counter()
load(sys.argv[1], device="cpu", cache="off")
print(time.perf_counter() - begun)
"""


def run(options: Options) -> list[Row]:
    """Measure all of it."""
    with tempfile.TemporaryDirectory(prefix="suisei-benchmark-") as name:
        folder = Path(name)
        file = folder / "one.jsonl"
        file.write_text('{"candidate": "a red ball", "references": ["the red ball"]}\n', encoding="utf-8")
        small = Options(size="tiny", rows=options.rows, root=options.root, threads=options.threads)
        save_model(folder / "model", inputs.regressor(small, image=False, references="mean"))
        scoring = ["-m", "suisei", "score", "--input", str(file), "--output", str(folder / "out.jsonl")]
        sides = {
            "import suisei": (sys.executable, ["-c", "import suisei"]),
            "suisei score, BLEU-4 of one caption": (sys.executable, [*scoring, "--metrics", "bleu-4"]),
            "suisei score, a small model, one caption": (
                sys.executable,
                [*scoring, "--model", str(folder / "model")],
            ),
            "python without anything": (sys.executable, ["-c", "pass"]),
        }
        shipped = inputs.shipped(options)
        if shipped is not None:
            side = (sys.executable, [*scoring, "--model", str(shipped)])
            sides["suisei score, the model in the package, one caption"] = side
        if options.comet_python is not None:
            sides["import comet"] = (options.comet_python, ["-c", "import comet"])
        timed = {
            what: lambda side=side: seconds(lambda: _call(*side, options.threads))
            for what, side in sides.items()
        }
        for what, opened in (("a small model", folder / "model"), ("the model in the package", shipped)):
            if opened is not None:
                code = ["-c", OPENING, str(opened)]
                timed[f"opening {what}, after the imports"] = lambda code=code: float(
                    _call(sys.executable, code, options.threads)
                )
        times = alternate(list(timed.values()), options.repeats)
    return [Row(SECTION, what, statistics.median(own), "s") for what, own in zip(timed, times, strict=True)]


def _call(python: str, arguments: list[str], threads: int) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [python, *arguments], check=True, capture_output=True, env=environment, encoding="utf-8"
    )
    return done.stdout
