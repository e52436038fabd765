"""Fuzzing led by coverage: atheris chooses what is changed further, our changes are among its own."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.fuzz.readers import Reader

LONGEST = 1 << 16
"""Bytes of an input."""


def run_guided(readers: dict[str, Reader], options: argparse.Namespace) -> int:
    """Let atheris try the inputs of each reader, in a process each; returns 1 where one crashed."""
    from tests.fuzz.engine import shares

    failed = 0
    for name, reader, inputs in shares(readers, options.inputs):
        child = os.fork()
        if not child:
            _guide(name, reader, inputs, options)
        failed |= os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{name}: {inputs:,} inputs led by coverage\n")
    return int(bool(failed) or any((options.kept / "crashes").glob("*/*.txt")))


def _guide(name: str, reader: Reader, inputs: int, options: argparse.Namespace) -> None:
    import atheris

    with atheris.instrument_imports(include=["suisei"], enable_loader_override=False):
        import suisei.data.formats
        import suisei.data.images  # noqa: F401 - what most readers stand on
    from tests.fuzz.engine import attempt, prepared, save_crash

    folder = Path(tempfile.mkdtemp(prefix=f"suisei-fuzz-{name}-"))
    with atheris.instrument_imports(include=["suisei"], enable_loader_override=False):
        seeds, read = prepared(reader, folder / "files")
    corpus = options.kept / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(data)

    def one(data: bytes) -> None:
        _, what, told = attempt(read, data)
        if what is not None:
            save_crash(options.kept / "crashes", name, what, data, told)

    def change(data: bytes, size: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return bytes(atheris.Mutate(data, size))
        try:
            return reader.mutate(random, data)[:size]
        except Exception:  # noqa: BLE001 - it is no longer valid
            return bytes(atheris.Mutate(data, size))

    seconds = max(1, int(min(60 * options.minutes, 10**8) - time.process_time()))
    limits = [f"-runs={inputs}", f"-max_len={LONGEST}", f"-max_total_time={seconds}", "-timeout=60"]
    atheris.Setup([sys.argv[0], str(corpus), *limits, "-rss_limit_mb=4096"], one, custom_mutator=change)
    atheris.Fuzz()
    os._exit(0)
