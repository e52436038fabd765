"""What ``suisei score`` refuses of a set in shards before it scores, and where the scores of a shard go."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.commands.options import check_images, named_columns
from suisei.data.paths import RealPaths, full_path
from suisei.data.shard_names import stem_of
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from suisei.data.outputs import Named
    from suisei.scoring.shard_scores import ShardTask

SETTINGS = "scores.json"
"""Says in the output folder with which metrics its shards are scored."""
LOCK = ".lock"
"""Held in the output folder by the run that writes into it."""


def check_shards(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring, and find the shards.

    The options learn ``tasks``, the shards and where their scores go.

    Raises:
        ConfigError: an option that shards do not have, no shard, or an output that is no folder or would
            overwrite something.
    """
    from suisei.data.compressed import plain_suffix
    from suisei.data.shard_names import check_kind, shard_paths
    from suisei.scoring.output import FORMATS

    _check_together(options)
    named_columns(options)
    shards = shard_paths(options.input)
    for path in shards:
        check_kind(path)
    folder = Path(options.output)
    if folder.is_file():
        raise ConfigError(f"--output {folder} is a file; the scores of shards take a folder")
    if plain_suffix(folder) in FORMATS and not folder.is_dir():
        raise ConfigError(f"--output {folder}: the scores of shards take a folder; leave {folder.suffix} out")
    options.tasks = tasks_of(shards, folder)
    _check_outputs(options, folder)


def _check_together(options: argparse.Namespace) -> None:
    for name in ("references", "format", "resume", "rating_scale", "web_images"):
        if getattr(options, name):
            advice = "finished shards are skipped anyway" if name == "resume" else "see --help all"
            raise ConfigError(f"--{name.replace('_', '-')} is not for sets in shards; {advice}")
    if options.input == "-" or options.output == "-":
        raise ConfigError("a set in shards takes --input 'PATTERN' and --output DIR")
    check_images(options)
    if (options.keep_top is None) != (options.uids is None):
        raise ConfigError("--keep-top SHARE and --uids FILE.npy go together")
    if options.keep_top is not None and not options.keep_top:
        raise ConfigError("--keep-top must be above 0")
    if options.keep_by is not None and options.uids is None:
        raise ConfigError("--keep-by says which samples --keep-top and --uids keep; give those too")


def tasks_of(shards: Sequence[Path], output: Path) -> list[ShardTask]:
    """Return the tasks of shards; the output has the folders below the one that all of them are in.

    Raises:
        ConfigError: the scores of two shards would be one file, or one that the set is read from.
    """
    from suisei.scoring.shard_scores import ShardTask

    folders = {folder: full_path(folder) for folder in {path.parent for path in shards}}
    top = os.path.commonpath(list(folders.values()))
    into = {folder: output / Path(full).relative_to(top) for folder, full in folders.items()}
    real = RealPaths()
    read = _read(shards, real)
    tasks: dict[str, ShardTask] = {}
    for path in shards:
        task = ShardTask(path, into[path.parent] / stem_of(path.name))
        target = real.of(task.target)
        if target in tasks:
            raise ConfigError(
                f"--input: the scores of {tasks[target].source} and {path} would be one file; score "
                "them one after the other, to an --output each"
            )
        for file in _files_of(task):
            if found := read.get(real.of(file)):
                raise ConfigError(
                    f"--output {output}: the scores would overwrite {found}; give another folder"
                )
        tasks[target] = task
    return list(tasks.values())


def other_scores(folder: Path, tasks: Sequence[ShardTask]) -> list[str]:
    """Return the files of counts in a folder of scores that are of none of the tasks, in order."""
    from suisei.scoring.shard_scores import STATS

    own = {str(task.stats) for task in tasks}
    return sorted({str(path) for path in folder.rglob(f"*{STATS}")} - own)


def _read(shards: Sequence[Path], real: RealPaths) -> Mapping[str, str]:
    """Return what is read of a set, {path behind links: what it is}: shards, and what is beside one."""
    found = {real.of(path): str(path) for path in shards}
    for path in shards:
        for beside in _beside(path):
            found.setdefault(real.of(beside), f"{beside}, for the uids or counts of {path}")
    return found


def _beside(shard: Path) -> Sequence[str]:
    """Return the files beside an archive that img2dataset keeps uids and counts in; none of other shards."""
    from suisei.data.shard_names import TAR

    stem, dot, kind = str(shard).rpartition(".")
    return (f"{stem}.parquet", f"{stem}_stats.json") if dot + kind.lower() == TAR else ()


def _files_of(task: ShardTask) -> Sequence[str]:
    """Return the files that a task may write; of a set of a million there is no time for paths of pathlib."""
    return f"{task.target}.parquet", f"{task.target}.jsonl", f"{task.target}_stats.json"


def _check_outputs(options: argparse.Namespace, folder: Path) -> None:
    """Refuse files that would take the place of the set's, of the scores' or of one another."""
    from suisei.data.outputs import check_outputs, given

    tasks: Sequence[ShardTask] = options.tasks
    files = given(vars(options), "summary", "uids", *(["log_json"] if options.log_json != "-" else []))
    inputs: list[Named] = [("--input", task.source) for task in tasks]
    inputs += [("--input's metadata", path) for task in tasks for path in _beside(task.source)]
    _check_apart(files, tasks, folder)
    models = given(vars(options), "model")
    check_outputs(files, [*inputs, *models], folders=[("--output", folder)], sealed=models)


def _check_apart(files: Sequence[Named], tasks: Sequence[ShardTask], folder: Path) -> None:
    """Refuse files that the scores will be called, or what belongs to an archive, there already or not."""
    real = RealPaths()
    named = {real.of(path): f"{option} {path}" for option, path in files if path is not None}
    for path, what in _taken(tasks, folder) if named else ():
        if found := named.get(real.of(path)):
            raise ConfigError(f"{found} is {what}; give another name")


def _taken(tasks: Sequence[ShardTask], folder: Path) -> Iterator[tuple[Path | str, str]]:
    yield from ((folder / name, "a file of --output, which the run keeps") for name in (SETTINGS, LOCK))
    for task in tasks:
        yield task.source, f"the input (--input {task.source}), which would be lost"
        yield from ((path, f"a file of the scores of {task.source}") for path in _files_of(task))
        yield from (
            (path, f"{path}, for the uids or counts of {task.source}") for path in _beside(task.source)
        )
