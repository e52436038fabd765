"""``suisei score`` of a set in shards: a file of scores per shard, on one machine or on a Ray cluster."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import say, threads_each
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import Add
from suisei.commands.option_values import filled, real
from suisei.commands.options import named_columns
from suisei.commands.shard_summary import finished_of, said_on_stopping, shown, tell
from suisei.commands.shard_tasks import LOCK, SETTINGS, other_scores
from suisei.data.paths import full_path, try_lock
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.formats import Row
    from suisei.metrics.base import Metric
    from suisei.scoring.plan import MetricPlan
    from suisei.scoring.shard_pool import Run
    from suisei.scoring.shard_scores import ShardReport, ShardSettings, ShardTask

ENGINES = ("local", "ray")


def add_shard_options(add: Add) -> None:
    """Add what sets in shards are scored with."""
    add(
        "--engine", choices=ENGINES,
        help="for shards: this machine (default), or a Ray cluster with a worker per device",
    )  # fmt: skip
    add(
        "--keep-top", type=real(0, 1), metavar="SHARE",
        help="of shards: write the uids of the best share, such as 0.3, to --uids",
    )  # fmt: skip
    add(
        "--keep-by", metavar="METRIC", type=filled,
        help="the column that says which are best (default: the only metric)",
    )  # fmt: skip
    add("--uids", metavar="FILE", type=filled, help="a .npy of uids, as DataComp's resharder reads it")


def in_shards(options: argparse.Namespace) -> bool:
    """Say whether the input is a set of shards: a pattern, a tar archive, or whatever an engine is named for.

    Raises:
        ConfigError: an option of shards without shards.
    """
    from suisei.data.shard_names import is_pattern

    if options.engine is not None or (options.input != "-" and is_pattern(options.input)):
        return True
    for name in ("keep_top", "keep_by", "uids"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is for sets in shards, such as 'shards/{{000..999}}.tar'"
            )
    return False


def rows_to_fit(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of all shards, good and bad, without images, for metrics that learn from a corpus."""
    from suisei.data.shards import shard_rows

    for task in options.tasks:
        try:
            settings: dict[str, Any] = {"images": options.images, "allowed": allowed(options)}
            for one in shard_rows(task.source, named_columns(options), pictured=False, **settings):
                yield one.row
        except DataError:  # said when it is scored
            continue


def score_shards(
    metrics: Mapping[str, Metric],
    plans: Mapping[str, MetricPlan],
    signatures: Mapping[str, str],
    devices: Sequence[str | None],
    options: argparse.Namespace,
    console: Console,
) -> int:
    """Score the shards that are not finished; returns the exit status.

    Args:
        metrics: {label: metric}, fitted.
        plans: {label: plan}, of which workers make theirs.
        signatures: {label: signature}.
        devices: of each local process.
        options: the command's, which know by :func:`deciding` the metric that ``decides``.
        console: for what is said.
    """
    from suisei.scoring.shard_scores import summed

    label = options.decides
    folder = Path(options.output)
    tasks: list[ShardTask] = options.tasks
    with _locked_folder(folder, signatures, options) as settings:
        started = time.perf_counter()
        reports, left = _finished(tasks, settings, with_uids=options.uids is not None)
        if reports:
            say(console, f"{finished_of(len(reports), len(tasks))} already")
        with said_on_stopping(reports, len(tasks), folder):
            run = _engine(metrics, plans, settings, devices, options) if left else None
            for task, report in shown(run, left, console) if run else ():
                reports[task] = report
        seconds = time.perf_counter() - started
        content = {
            "input": options.input, "output": options.output, "seconds": round(seconds, 3),
            "scored_now": sum(reports[task].rows for task in left if not reports[task].failed),
            **summed(reports[task] for task in tasks), "other_scores": other_scores(folder, tasks),
        }  # fmt: skip
        for name, entry in content["metrics"].items():
            entry["signature"] = signatures[name]
        problems = []
        files = [task.output(settings.kind) for task in tasks if not reports[task].failed]
        if label is not None and files:  # without any it is said of each shard why
            try:
                content["kept"] = _keep(files, label, metrics[label].higher_is_better, options, console)
            except DataError as error:  # the summary says why uids could not be read
                problems.append(error)
    return tell(content, options, console, problems)


def deciding(labels: Sequence[str], options: argparse.Namespace) -> str | None:
    """Return the metric that says what is kept, None where nothing is chosen.

    Args:
        labels: of the metrics, as scores are called.
        options: the command's.

    Raises:
        ConfigError: several metrics and none is named, or one that is not among them.
    """
    if options.uids is None:
        return None
    if options.keep_by is None and len(labels) > 1:
        raise ConfigError(f"--keep-top with several metrics: say by which, --keep-by {' or '.join(labels)}")
    label = options.keep_by or labels[0]
    if label not in labels:
        raise ConfigError(f"--keep-by {label}: no such metric; there is {', '.join(labels)}")
    return str(label)


@contextmanager
def _locked_folder(
    folder: Path, signatures: Mapping[str, str], options: argparse.Namespace
) -> Iterator[ShardSettings]:
    """Give the settings of a folder of scores, which no other run writes into meanwhile.

    Raises:
        ConfigError: it holds scores of other metrics, or another run writes into it.
        DataError: it cannot be written.
    """
    path = folder / SETTINGS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("a") as lock:
            if not try_lock(lock):
                raise ConfigError(
                    f"--output {folder}: another run is writing into it; wait for it, or use another --output"
                )
            yield _settings(path, signatures, options)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from None


def _settings(path: Path, signatures: Mapping[str, str], options: argparse.Namespace) -> ShardSettings:
    from suisei.scoring.digest import value_digest
    from suisei.scoring.fitting import without_counts
    from suisei.scoring.shard_scores import WINDOW, ShardSettings

    columns, window = named_columns(options), options.window or WINDOW
    noted = _noted(path)
    decisive = {
        "signatures": {label: without_counts(text) for label, text in signatures.items()},
        "columns": columns,
        "window": window,
        "images": _images(noted, options.images),
    }
    changed = [name for name, value in decisive.items() if noted and noted.get(name) != value]
    if changed:
        raise ConfigError(
            f"--output {path.parent} holds scores with other {' and '.join(changed)} (see {path}); give "
            "another folder, or those"
        )
    kind = noted["kind"] if noted else _kind()
    _note(path, {"kind": kind, **decisive, "signatures": dict(signatures)})
    # What metrics learned from all shards is in no signature: a shard that changed may change others' scores.
    learned = {"learned": options.learned} if options.learned else {}
    digest = value_digest({**decisive, "kind": kind, **learned})
    return ShardSettings(columns, kind, digest, window, options.images, allowed(options))


def _images(noted: Mapping[str, Any], given: str | None) -> str | None:
    """Return the folder of images from the root on: typed from elsewhere the same is another folder.

    Older notes have it as it was typed, which stays where it is the same from here: shards are marked so.
    """
    if given is None:
        return None
    before, images = noted.get("images"), full_path(given)
    return before if isinstance(before, str) and full_path(before) == images else images


def _noted(path: Path) -> dict[str, Any]:
    """Return what a folder's scores were made with; nothing where there are none yet."""
    from suisei.scoring.fitting import without_counts

    if not path.is_file():
        return {}
    try:
        stored = json.loads(path.read_text("utf-8"))
        signatures = {label: without_counts(text) for label, text in stored["signatures"].items()}
        return {**stored, "kind": stored["kind"], "signatures": signatures}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{path} is no note of suisei score; give another --output") from None


def _note(path: Path, content: Mapping[str, Any]) -> None:
    """Write what the folder's scores are made with, where it is not there already."""
    from suisei.data.writers import replacing

    text = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
    if not path.is_file() or path.read_bytes() != text:
        with replacing(path) as temporary:
            temporary.write_bytes(text)


def _kind() -> str:
    """Return the kind of files that scores are written to: Parquet, or JSONL where pyarrow is absent."""
    from importlib.util import find_spec

    return "parquet" if find_spec("pyarrow") else "jsonl"


def _finished(
    tasks: Sequence[ShardTask], settings: ShardSettings, *, with_uids: bool
) -> tuple[dict[ShardTask, ShardReport], list[ShardTask]]:
    from suisei.scoring.shard_scores import finished_report

    reports, left = {}, []
    for task in tasks:
        report = finished_report(task, settings)
        if report is None or (with_uids and report.unread_uids):
            left.append(task)
        else:
            reports[task] = report
    return reports, left


def _engine(
    metrics: Mapping[str, Metric],
    plans: Mapping[str, MetricPlan],
    settings: ShardSettings,
    devices: Sequence[str | None],
    options: argparse.Namespace,
) -> Run:
    from suisei.scoring.parallel import WorkerSettings
    from suisei.scoring.shard_pool import one_process, several_processes
    from suisei.scoring.stream import Scorer

    states = {label: state for label, metric in metrics.items() if (state := metric.state())}
    worker = WorkerSettings(plans, states, options.input, options.batch_size, threads_each(len(devices)))
    if options.engine == "ray":
        from suisei.scoring.ray_pool import connect, ray_workers

        return ray_workers(worker, settings, connect(options.processes, options.devices))
    if len(devices) > 1:
        return several_processes(worker, settings, devices)
    return one_process(Scorer(metrics, options.input, options.batch_size), settings)


def _keep(
    files: Sequence[Path], label: str, higher: bool, options: argparse.Namespace, console: Console
) -> dict[str, Any]:
    from suisei.scoring.uids import write_best

    kept = write_best(files, label, options.keep_top, Path(options.uids), higher_is_better=higher)
    told = f"{options.uids}: {kept.kept:,} of {kept.scored:,} samples by {label}, from {kept.least:.4f} "
    told += "up" if higher else "down"
    if kept.repeated:
        told += f"; {kept.repeated:,} more have the uid of another sample; each uid is kept once at most, by "
        told += "its best score"
    if kept.unnamed:
        where = f"{next(iter(kept.unnamed_in))}{' and others' if len(kept.unnamed_in) > 1 else ''}"
        told += f"; {kept.unnamed:,} scored samples have no uid of 32 hexadecimal digits and cannot be kept "
        told += f"(in {where}; --summary FILE says how many in which)"
    say(console, told)
    return {
        "by": label, "kept": kept.kept, "scored": kept.scored, "repeated": kept.repeated,
        "unnamed": kept.unnamed, "unnamed_in": kept.unnamed_in, "least": kept.least,
    }  # fmt: skip
