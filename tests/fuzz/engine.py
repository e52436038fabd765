"""Trying inputs: what counts as fine, what is kept of a crash, and a process that survives one.

Input number n of a reader is made by the generator of random numbers with the seed "SEED/READER/n", so that a
run goes on where another ended, and every input can be made again. A child process reads; the parent sees it
die or stand still, notes the input and starts another.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import marshal
import mmap
import os
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.limits import SECONDS, TooSlow, limit_memory, limited_time
from tests.fuzz.readers import Made, Read, Reader

STANDSTILL = 60
"""Seconds of computing on one input after which a child is ended: code in C does not hear the alarm."""


@dataclass
class Tally:
    """What became of a reader's inputs.

    Attributes:
        inputs: how many were tried.
        results: how many gave a result; the others were refused by one of suisei's own errors.
        crashes: {what went wrong: how often}.
        slowest: seconds of computing of the slowest input.
        seconds: of the whole.
    """

    inputs: int = 0
    results: int = 0
    crashes: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    seconds: float = 0.0


def make_input(reader: Reader, seeds: list[bytes], name: str, seed: int, number: int) -> bytes:
    """Return an input by its number; the first ones are the seeds as they are."""
    if number < len(seeds):
        return seeds[number]
    random = Random(f"{seed}/{name}/{number}")
    data = reader.mutate(random, random.choice(seeds))
    while random.random() < 0.2:
        try:
            data = reader.mutate(random, data)
        except (
            ValueError,
            RecursionError,
            KeyError,
            OSError,
            EOFError,
            struct.error,
        ):  # it is no longer valid
            break
        except Exception:  # noqa: BLE001 - zlib's and zipfile's own kinds
            break
    return data


def attempt(read: Read, data: bytes) -> tuple[bool, str | None, str]:
    """Let a reader read an input.

    Returns:
        Whether it gave a result; what went wrong, None for nothing; and its traceback.
    """
    from suisei.errors import SuiseiError

    try:
        with limited_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(data)
    except SuiseiError as error:
        text = str(error)
        if "\x1b" in text and "\n" in text:
            return False, None, text
        return False, None, ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - that is what is looked for; a panic in Rust is none of Exception
        return False, signature_of(error), traceback.format_exc()
    return True, None, ""


def signature_of(error: BaseException) -> str:
    """Return what tells one defect from another: the kind of error, and the innermost place in suisei."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/suisei/" in frame.filename and "/tests/" not in frame.filename]
    last = own[-1] if own else frames[-1]
    place = f"{Path(last.filename).name}:{last.name}:{last.lineno}"
    kind = type(error).__name__
    return f"{kind} at {place}" if not isinstance(error, TooSlow) else f"over {SECONDS:g} s at {place}"


def prepared(reader: Reader, folder: Path) -> Made:
    """Return a reader's seeds and what reads, and let libraries load what they load at first use."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds, read = reader.prepare(folder)
    for data in seeds:
        attempt(read, data)
        attempt(read, data[: len(data) // 2])
    return seeds, read


def save_crash(folder: Path, name: str, what: str, data: bytes, told: str) -> None:
    """Keep the smallest input of a crash with its traceback."""
    digest = hashlib.sha256(what.encode()).hexdigest()[:10]
    path = folder / name / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size > len(data):
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(f"{what}\n\n{told}", encoding="utf-8", errors="backslashreplace")


class Campaign:
    """The inputs of one reader, tried in child processes; its tally is kept on the disk.

    Args:
        name: of the reader.
        reader: the reader.
        scratch: a folder for its files, best in memory.
        kept: where the tally and crashes are kept.
        seed: of the inputs.
    """

    def __init__(self, name: str, reader: Reader, scratch: Path, kept: Path, seed: int = 0) -> None:
        self.name, self.reader, self.seed = name, reader, seed
        self._scratch, self._kept = scratch / name, kept
        self._file = kept / f"{name}.json"
        self._seeds, self._last_words = self._scratch / "seeds", self._scratch / "last-words"
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.tally = Tally(**json.loads(self._file.read_text())) if self._file.exists() else Tally()
        self._at = mmap.mmap(-1, 8)

    def run(self, inputs: int, until: float) -> Tally:
        """Try inputs up to a number, or until a time of ``time.monotonic``."""
        began, before = time.monotonic(), self.tally.seconds
        while self.tally.inputs < inputs and time.monotonic() < until:
            code = self._child(inputs, until)
            if self._file.exists():
                self.tally = Tally(**json.loads(self._file.read_text()))
            if code:
                number = struct.unpack("Q", self._at[:8])[0]
                self._died(number, code)
        self.tally.seconds = before + time.monotonic() - began
        self._save()
        return self.tally

    def _child(self, inputs: int, until: float) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            code = 1
            try:
                self._work(inputs, until)
                code = 0
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                os._exit(code)
        return self._watch(child)

    def _watch(self, child: int) -> int:
        """Wait for a child; one that computes too long on one input is ended."""
        last, since = b"", _computed(child)
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            now, computed = self._at[:8], _computed(child)
            if now != last:
                last, since = now, computed
            elif computed - since > STANDSTILL:
                os.kill(child, signal.SIGABRT)
            time.sleep(0.05)

    def _work(self, inputs: int, until: float) -> None:
        faulthandler.enable(self._last_words.open("w"))
        seeds, read = prepared(self.reader, self._scratch / str(os.getpid()))
        self._seeds.write_bytes(marshal.dumps(seeds))
        limit_memory()
        tally, saved = self.tally, time.monotonic()
        while tally.inputs < inputs and time.monotonic() < until:
            number = tally.inputs
            self._at[:8] = struct.pack("Q", number)
            data = make_input(self.reader, seeds, self.name, self.seed, number)
            start = time.process_time()
            fine, what, told = attempt(read, data)
            tally.slowest = max(tally.slowest, time.process_time() - start)
            tally.inputs += 1
            tally.results += fine
            if what is not None:
                tally.crashes[what] = tally.crashes.get(what, 0) + 1
                save_crash(self._kept / "crashes", self.name, what, data, f"input {number}\n{told}")
            if time.monotonic() - saved > 2:
                self._save()
                saved = time.monotonic()
        self._save()

    def _died(self, number: int, code: int) -> None:
        """Note an input that ended its process, and go on with the next one."""
        if not self._seeds.exists():
            raise RuntimeError(f"{self.name}: its seeds cannot be made")
        what = f"the process ended with {code}"
        data = make_input(self.reader, marshal.loads(self._seeds.read_bytes()), self.name, self.seed, number)
        told = self._last_words.read_text(errors="replace")
        self.tally.crashes[what] = self.tally.crashes.get(what, 0) + 1
        self.tally.inputs = number + 1
        save_crash(self._kept / "crashes", self.name, what, data, f"input {number}\n{told}")
        self._save()

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_suffix(".part")
        temporary.write_text(json.dumps(asdict(self.tally), indent=1))
        temporary.replace(self._file)


def _computed(process: int) -> float:
    """Return the seconds that a process has computed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares(readers: dict[str, Reader], inputs: int) -> Iterator[tuple[str, Reader, int]]:
    """Yield each reader with its part of a number of inputs."""
    whole = sum(reader.share for reader in readers.values())
    for name, reader in readers.items():
        yield name, reader, -(-inputs * reader.share // whole)
