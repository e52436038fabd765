"""Speed, memory and start-up beside other programs: python -m tests.benchmarks [SECTION ...]

Every figure is measured in this run; where two sides are compared they alternate, and the median of the
ratios is given. Nothing is asserted. The default sizes take some minutes on four cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

import torch

from suisei.cli import keep_memory
from tests.benchmarks.harness import Options, Row, machine, markdown, table_line

SECTIONS = {
    "scoring": "SuiSei and PAC-S beside COMET and a plain loop; shares of the machine's peak",
    "images": "images per second of CLIP-S and PAC-S, by tower, beside torchmetrics",
    "training": "full fine-tuning beside COMET, training from cached features",
    "precision": "bf16 and int8 beside fp32: time, and what they change of scores",
    "rewards": "what a reward costs in a step of self-critical training",
    "text": "BLEU, ROUGE-L and CIDEr beside pycocoevalcap",
    "bootstrap": "confidence intervals beside SciPy in a loop",
    "startup": "import, and one caption from cold",
    "memory": "peak memory of scoring files of two lengths",
    "kills": "commands killed at random moments: rows lost, rows scored twice, outputs that differ",
    "shards": "a set in shards on Ray beside local processes, and its cost by length",
}
BY_NAME = ("kills",)
"""Sections that run only when they are named: they measure no speed."""
FULL = {
    "rows": 10**9,
    "peer_rows": 200,
    "captions": 2000,
    "train_samples": 192,
    "frozen_samples": 52_000,
    "memory_rows": 1_000_000,
    "shard_rows": 1_000_000,
}
SMOKE = {
    "size": "tiny",
    "rows": 12,
    "peer_rows": 6,
    "captions": 20,
    "train_samples": 8,
    "frozen_samples": 256,
    "memory_rows": 40,
    "kills": 14,
    "killed_rows": 70,
    "shard_rows": 40,
    "repeats": 1,
}


def main() -> int:
    """Run the chosen sections and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:10} {about}" for name, about in SECTIONS.items()),
    )
    parser.add_argument(
        "sections", nargs="*", choices=[[], *SECTIONS], metavar="SECTION", help="all by default"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="the sizes of published figures: about an hour")
    size.add_argument("--smoke", action="store_true", help="tiny sizes, to see that everything runs")
    for name in (*FULL, "repeats", "kills", "killed_rows", "kill_seed"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help="overrides a size")
    parser.add_argument("--kill-only", help="only commands with one of these in their name, as 'CSV;Parquet'")
    parser.add_argument("--model", type=Path, help="a model folder in the place of the one in the package")
    parser.add_argument("--comet-python", help="interpreter with unbabel-comet and torchmetrics")
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="of scoring, images and training (default cpu)"
    )
    parser.add_argument("--threads", type=int, help="compute threads of every side (default: torch's)")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--markdown", type=Path, help="write the table here too")
    arguments = parser.parse_args()

    options = Options(**(FULL if arguments.full else SMOKE if arguments.smoke else {}))
    for field in dataclasses.fields(options):
        given = getattr(arguments, field.name, None)
        if given is not None:
            setattr(options, field.name, given)
    options.root = _flickr8k()
    torch.set_num_threads(options.threads)
    keep_memory()  # as every command does
    described = machine(options)
    rows: list[Row] = []
    for name in arguments.sections or (name for name in SECTIONS if name not in BY_NAME):
        sys.stderr.write(f"{name} ...\n")
        for row in importlib.import_module(f"tests.benchmarks.{name}").run(options):
            sys.stderr.write(table_line(row) + "\n")
            rows.append(row)
    table = markdown(described, rows)
    sys.stdout.write(table)
    if arguments.markdown:
        arguments.markdown.write_text(table, encoding="utf-8")
    if arguments.json:
        content = {"machine": described, "options": dataclasses.asdict(options)}
        content["results"] = [dataclasses.asdict(row) for row in rows]
        arguments.json.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")
    return 0


def _flickr8k() -> Path | None:
    shared = os.environ.get("SUISEI_SHARED", Path(__file__).parents[3] / "shared")
    folder = Path(shared) / "data" / "flickr8k"
    return folder if folder.is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
