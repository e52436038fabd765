"""Commands that are killed at random moments and started again until they end: is anything lost?

A command runs once unbroken. Then it is started again and again, and killed by SIGKILL: at a random time,
right before a random one of its file operations, or in the middle of a write. In the end its outputs are
compared with the unbroken ones byte for byte. Rows are counted truly: a metric appends the id of every row
that it scores to a file of its own, and what was in a whole block of the output when the process died must
not come there again.

Most starts are forks of a process that has done its imports, which makes a start some tenths of a second; of
those that are not killed at an operation, every twentieth is a new interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Options, Row
from tests.benchmarks.killed_process import ATTEMPT, COUNT_FILE, Plan, forked, fresh

SHARES = {"scoring": 1.0, "evaluating": 0.3, "training": 0.1}
"""Kills of each group of commands, as a share of those that are asked for."""
MOST_KILLS = 4
"""Of one run, which is then left to end."""
FRESH_SHARE = 0.05


@dataclass
class Case:
    """A command that is killed.

    Attributes:
        name: for the table.
        command: its arguments, given the folder that it writes into.
        again: the same to go on, given the folder as it is.
        outputs: what is compared, relative to the folder.
        forked: False where every start must be a new interpreter.
        weight: its share of the kills, beside the others'.
        plain: what of a file is compared; all of it by default.
        finished: the ids of the rows that are whole in the folder.
    """

    name: str
    command: Callable[[Path], list[str]]
    again: Callable[[Path], list[str]]
    outputs: Sequence[str]
    forked: bool = True
    weight: float = 1.0
    plain: Callable[[Path], Any] = Path.read_bytes
    finished: Callable[[Path], set[str]] = field(default=lambda _: set())


@dataclass
class Outcome:
    """What the kills did.

    Attributes:
        kills: processes that died of one, by kind.
        runs: runs that came to their end.
        again: rows that were scored again although they were whole in the output.
        repeated: rows scored again because their block was not whole yet; work, not rows, is lost.
        different: outputs that differ from the unbroken ones.
        lost: rows of the unbroken output that are missing.
        problems: starts that ended otherwise.
    """

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    again: int = 0
    repeated: int = 0
    different: list[str] = field(default_factory=list)
    lost: int = 0
    problems: list[str] = field(default_factory=list)


def torture(case: Case, kills: int, seed: int, work: Path) -> Outcome:
    """Kill a command so many times, over as many runs as that takes.

    Args:
        case: the command.
        kills: how often a process must have died.
        seed: of the moments.
        work: an empty folder.
    """
    dice, outcome = random.Random(seed), Outcome()
    whole = work / "whole"
    whole.mkdir(parents=True)
    begun = time.monotonic()
    events = _unbroken(case, whole)
    seconds = time.monotonic() - begun
    expected = {name: case.plain(whole / name) for name in case.outputs}
    while outcome.kills.total() < kills and len(outcome.problems) < 5:
        folder = work / f"run-{outcome.runs}"
        folder.mkdir()
        _one_run(case, folder, kills - outcome.kills.total(), (dice, seconds, events), outcome)
        _compare(case, folder, expected, outcome)
        outcome.runs += 1
    return outcome


def _one_run(
    case: Case, folder: Path, most: int, moments: tuple[random.Random, float, Counter[str]], outcome: Outcome
) -> None:
    """Start a command until it ends by itself, and kill it a few times before."""
    dice, seconds, events = moments
    counts = folder.with_name(f"{folder.name}.counts")
    before: set[str] = set()
    for attempt in range(1, 1000):
        plan = _plan(dice, seconds, events) if attempt <= min(most, MOST_KILLS) else Plan()
        arguments = case.command(folder) if attempt == 1 else case.again(folder)
        new = not case.forked or (plan.kind in ("time", "never") and dice.random() < FRESH_SHARE)
        os.environ.update({COUNT_FILE: str(counts), ATTEMPT: str(attempt)})
        log = folder.with_name(f"{folder.name}.log")
        status = (fresh if new else forked)(arguments, plan, folder, log)
        _count(counts, attempt, before, outcome)
        before = case.finished(folder)
        if status == -signal.SIGKILL:
            outcome.kills[f"{plan.kind}{', fresh' if new else ''}"] += 1
        elif status == 0:
            return
        else:
            outcome.problems.append(f"{case.name}: exit status {status}: {log.read_text()[-600:]}")
            return


def _plan(dice: random.Random, seconds: float, events: Counter[str]) -> Plan:
    kind = dice.choices(("time", "file", "torn"), (4, 4, 3 if events["torn"] else 0))[0]
    if kind == "time":
        return Plan(kind, dice.uniform(0, seconds))
    return Plan(kind, dice.randint(1, max(1, events[kind])))


def _count(counts: Path, attempt: int, before: set[str], outcome: Outcome) -> None:
    if not counts.exists():
        return
    lines = [line.split(" ", 1) for line in counts.read_text().splitlines()]
    own = [name for number, name in lines if int(number) == attempt]
    earlier = {name for number, name in lines if int(number) < attempt}
    outcome.again += sum(name in before for name in own) + len(own) - len(set(own))
    outcome.repeated += sum(name in earlier and name not in before for name in set(own))


def _compare(case: Case, folder: Path, expected: dict[str, Any], outcome: Outcome) -> None:
    for name, content in expected.items():
        path = folder / name
        found = case.plain(path) if path.exists() else None
        if found != content:
            outcome.different.append(f"{case.name}: {folder.name}/{name}")
            if isinstance(content, bytes):
                left = Counter(content.splitlines()) - Counter((found or b"").splitlines())
                outcome.lost += left.total()
    left = sorted(path.name for path in folder.rglob("*") if ".part" in path.name or ".whole" in path.name)
    if left:
        outcome.different.append(f"{case.name}: {folder.name} is left with {', '.join(left)}")


def _unbroken(case: Case, folder: Path) -> Counter[str]:
    """Run a command to its end; returns how many file operations and writes there are to die at."""
    log = folder.with_name("whole.log")
    os.environ.pop(COUNT_FILE, None)
    if not case.forked:
        status, events = fresh(case.command(folder), Plan(), folder, log), Counter[str]()
    else:
        counts = folder.with_name("whole.events")
        status = forked(case.command(folder), Plan("count"), folder, log, counts)
        events = Counter(json.loads(counts.read_text())) if counts.exists() else Counter()
    if status != 0:
        raise RuntimeError(f"{case.name} does not end well: {status}: {log.read_text()[-2000:]}")
    return events


def finished_rows(folder: Path) -> set[str]:
    """Return the rows in whole blocks of a folder's part files, and in finished files of what is kept."""
    found = {
        _told(row) for path in folder.glob("kept/counted-*.jsonl") for row in path.read_bytes().splitlines()
    }
    for note in folder.rglob("*.part.json"):
        part = note.with_suffix("")
        if not part.exists():
            continue
        rows = part.read_bytes().split(b"\n")[:-1][1 if part.suffixes[-2] in (".csv", ".tsv") else 0 :]
        whole = 0
        for block in note.read_bytes().split(b"\n")[1:-1]:
            size = len(block.split(b" "))
            if whole + size > len(rows):
                break
            whole += size
        found |= {_told(row) for row in rows[:whole]}
    return found


def _told(row: bytes) -> str:
    """Return how the log of what is scored tells a row."""
    if row.startswith(b"{"):
        record = json.loads(row)
        return f"{record['id']}|{record.get('counted')!r}"
    return "|".join(row.decode().replace("\t", ",").split(",", 2)[:2])


def import_commands() -> None:
    """Do the imports once, for all forks."""
    for name in ("score", "evaluate", "compare", "positives", "caption", "probe", "train"):
        importlib.import_module(f"suisei.commands.{name}")
    for name in (
        "scoring.kept_scores",
        "metrics.suisei",
        "metrics.cider",
        "pacs.generators",
        "captioning.caption_part",
    ):
        importlib.import_module(f"suisei.{name}")


def run(options: Options) -> list[Row]:
    """Kill every command, and say what came of it."""
    from tests.benchmarks.killed_cases import cases

    import_commands()
    rows = []
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        work = Path(name)
        for group, made in cases(work, options).items():
            wanted = max(1, round(options.kills * SHARES[group]))
            row = _row(group, made, wanted, work / group, options)
            rows += [row] if row.ours else []
    return rows


def _is_wanted(case: Case, options: Options) -> bool:
    return any(part in case.name for part in options.kill_only.split(";"))


def _row(group: str, made: Sequence[Case], kills: int, work: Path, options: Options) -> Row:
    total, times = Outcome(), time.monotonic()
    weights = [case.weight for case in made]
    for number, case in enumerate(made):
        before, after = (round(kills * sum(weights[:end]) / sum(weights)) for end in (number, number + 1))
        share = after - before
        if not _is_wanted(case, options) or not share:
            continue
        outcome = torture(case, share, options.kill_seed + number, work / f"{number}")
        sys.stderr.write(
            f"  {case.name}: {outcome.kills.total()} kills in {outcome.runs} runs, {outcome.again} again, "
            f"{outcome.repeated} repeated, {len(outcome.different)} different, {outcome.problems}\n"
            + "".join(f"    {text}\n" for text in outcome.different[:5])
        )
        total.kills += outcome.kills
        total.runs += outcome.runs
        total.again += outcome.again
        total.repeated += outcome.repeated
        total.lost += outcome.lost
        total.different += outcome.different
        total.problems += outcome.problems
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(total.kills.items()))
    note = (
        f"{total.runs} runs; {kinds}; rows lost {total.lost}, finished rows scored again {total.again}, "
        f"outputs that differ {len(total.different)}, other ends {len(total.problems)}; rows of unfinished "
        f"blocks scored again {total.repeated}; {time.monotonic() - times:.0f} s"
    )
    return Row(
        "kills",
        f"{group}: {', '.join(case.name for case in made if _is_wanted(case, options))}",
        total.kills.total(),
        "kills",
        note=note,
    )
