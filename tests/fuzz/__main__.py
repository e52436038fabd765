"""Fuzzing of every reader: python -m tests.fuzz --inputs 1000000

Valid files are changed in their bytes and in their structure. Fine is a result, or one of suisei's own
errors; anything else is a crash, and so is an input that takes more than 2 s of computing or 1 GB beyond
what the program has. Crashes are told apart by their place and kept with the smallest input. A run that is
started again with the same --kept goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # the others reserve more than an input may take
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SUISEI_CACHE", "off")


ROUNDS = 4
"""In so many rounds over all readers a long run is done."""


def main() -> int:
    """Run it, and print a line per reader."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--inputs", type=int, default=20_000, help="over all readers together")
    add("--readers", nargs="+", metavar="NAME", help="these alone")
    add("--minutes", type=float, default=1e6, help="stop after so long, to go on with another time")
    add("--seed", type=int, default=0)
    add("--kept", type=Path, default=Path(tempfile.gettempdir()) / "suisei-fuzz", help="tallies and crashes")
    add("--engine", choices=("changes", "atheris"), default="changes", help="atheris is led by coverage")
    add("--list", action="store_true", help="name the readers")
    options = parser.parse_args()
    from tests.fuzz.readers import iter_readers

    readers = dict(iter_readers())
    if options.list:
        sys.stdout.write("\n".join(readers) + "\n")
        return 0
    chosen = {name: readers[name] for name in options.readers or readers}
    if options.engine == "atheris":
        from tests.fuzz.guided import run_guided

        return run_guided(chosen, options)
    return _run(chosen, options)


def _run(readers: dict, options: argparse.Namespace) -> int:
    from tests.fuzz.engine import Campaign, shares

    until = time.monotonic() + 60 * options.minutes
    memory = Path("/dev/shm")
    total = crashes = 0
    rounds = max(1, min(ROUNDS, options.inputs // 25_000))  # all have been tried early on
    with tempfile.TemporaryDirectory(
        dir=memory if memory.is_dir() else None, prefix="suisei-fuzz-"
    ) as folder:
        for part in range(1, rounds):
            for name, reader, inputs in shares(readers, options.inputs * part // rounds):
                Campaign(name, reader, Path(folder), options.kept, options.seed).run(inputs, until)
        for name, reader, inputs in shares(readers, options.inputs):
            tally = Campaign(name, reader, Path(folder), options.kept, options.seed).run(inputs, until)
            total, crashes = total + tally.inputs, crashes + len(tally.crashes)
            sys.stdout.write(
                f"{name:12} {tally.inputs:>9,} inputs, {tally.results:>9,} with a result, slowest "
                f"{tally.slowest:.2f} s, {tally.seconds:,.0f} s\n"
            )
            for what, count in tally.crashes.items():
                sys.stdout.write(f"  {count:,} x {what}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{total:,} inputs, {crashes} kinds of crash; kept in {options.kept}\n")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
