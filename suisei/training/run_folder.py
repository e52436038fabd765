"""The folder of a run of any training: begun, gone on with, and filled with results once all are there."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suisei.cli import safe_console, say, terminated_like_interrupted
from suisei.data.outputs import check_spelt
from suisei.data.splits import Split
from suisei.data.writers import raised_by_the_system
from suisei.errors import ConfigError, DataError, ModelError, SuiseiError
from suisei.training.checkpoints import newest_first, newest_whole, resumed_settings, verify_checkpoint
from suisei.training.kept_pretrainings import FOLDER
from suisei.training.run_lock import remove_empty
from suisei.training.run_settings import check_resumed

logger = logging.getLogger(__name__)

RECORDS = ("config.yaml", "splits.json")
"""What marks a run as started."""
_GO_ON = re.compile(r"(go on with )?--ckpt_path last$")
"""How errors say that a run goes on, which one does not whose folder was taken away."""


@contextmanager
def started_run(
    cli: Any, folder: Path, split: Split | None = None, whole: Path | None = None
) -> Iterator[None]:
    """Mark a folder as that of a run while it runs, and after.

    A run that fails for a reason it can name, before it has anything to go on from, leaves the folder as it
    was, so that it can be started again, and is said so; one that was killed before, and starts over, stays.

    Args:
        cli: the training command line.
        folder: the run's.
        split: of its data, where it has one.
        whole: the folder of the cross-validation that the run is a fold of, which may go on all the same.

    Raises:
        ConfigError: no model can be written into a folder of that name.
        DataError: the folder cannot be written.
    """
    check_spelt(str(folder), folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    known = (folder / "config.yaml").is_file()
    try:
        try:
            record(cli, folder, split)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from None
        yield
    except (SuiseiError, OSError) as error:
        if not known and not any(folder.rglob("*.ckpt")) and not any(folder.rglob("report.json")):
            for name in RECORDS:
                (folder / name).unlink(missing_ok=True)
            for name in ("logs", "checkpoints", FOLDER):
                if (folder / name).is_dir():
                    shutil.rmtree(folder / name, ignore_errors=True)
            remove_empty(made)
            if whole is None and isinstance(error, SuiseiError) and _GO_ON.search(str(error)):
                raise type(error)(_GO_ON.sub("start again", str(error))) from None
        raise


@contextmanager
def interruptible(folder: Path, whole: Path | None = None) -> Iterator[None]:
    """Say how a run goes on that is interrupted, or asked to terminate, while no trainer trains.

    Args:
        folder: the run's.
        whole: the folder of the cross-validation that the run is a fold of; None for a run by itself.
    """
    try:
        with terminated_like_interrupted():
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how_to_go_on(folder, whole)) from None


def how_to_go_on(folder: Path, whole: Path | None = None) -> str:
    """Say by which command an interrupted run goes on, and from where.

    Args:
        folder: the run's.
        whole: the folder of the cross-validation that the run is a fold of; None for a run by itself.
    """
    kept = [newest_first((folder / name).glob("*.ckpt")) for name in ("checkpoints", FOLDER)]
    newest = next((files[0] for files in kept if files), None)
    said = f"goes on from {newest}" if newest else "starts over: there is no checkpoint yet"
    return f"suisei train --config {(whole or folder) / 'config.yaml'} --ckpt_path last {said}"


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a folder for results, which appear in ``folder`` once all of them are written.

    ``report.json``, which marks a finished run, comes last.

    Raises:
        DataError: they cannot be written, such as on a full disk.
    """
    try:
        for left in folder.glob(".results-*"):  # by a run that was killed while it wrote them
            shutil.rmtree(left, ignore_errors=True)
        for left in (folder / "checkpoints").glob(".*.ckpt.part"):  # or while it wrote a checkpoint
            left.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".results-") as name:
            stage = Path(name)
            with raised_by_the_system():
                yield stage
            old = stage / ".old"
            old.mkdir()
            results = [path for path in stage.iterdir() if path != old]
            for path in sorted(results, key=lambda path: path.name == "report.json"):
                place = folder / path.name
                if place.is_dir():
                    place.rename(old / path.name)
                path.replace(place)
    except OSError as error:
        raise DataError(
            f"{folder}: the results cannot be written: {error.strerror or error}; make room, then go on with "
            "--ckpt_path last"
        ) from None


def tell_of_run(folder: Path, kept: int | None) -> None:
    """Say where a finished run and its model are, and which step's weights it has where validation chose."""
    chosen = "" if kept is None else f"   kept: step {kept:,}"
    say(safe_console(), f"run: {folder}   model: {folder / 'model'}{chosen}")


def record(cli: Any, folder: Path, split: Split | None) -> None:
    """Write what marks a run as started: its settings, and its split where it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    if split is not None:
        split.save(folder / "splits.json", cli.datamodule.samples)
    _save_config(cli, folder)


def _save_config(cli: Any, folder: Path) -> None:
    """Write the resolved settings of a run into its folder; their being there marks a run as started.

    Settings that are null are written too (``image: null`` is not the default), and the file starts a run
    afresh even if this one was resumed.
    """
    config = cli.config.clone()
    config.ckpt_path = None
    cli.parser.save(config, folder / "config.yaml", overwrite=True, skip_validation=True, skip_unset=False)


def find_checkpoint(folder: Path, wanted: str | None, settings: Mapping[str, Any]) -> str | None:
    """Return the checkpoint to go on with, verified; None to start from the beginning.

    Args:
        folder: the run's.
        wanted: a checkpoint file, "last" for the run's newest that is whole, or None.
        settings: those of this start; a checkpoint of a run with others is refused.

    Raises:
        ConfigError: there is none, or it is of a run with other settings.
        ModelError: it is not whole.
    """
    if wanted is None:
        return None
    checkpoint: Path | None = Path(wanted)
    if wanted == "last":
        found = [folder / "checkpoints" / name for name in ("last.ckpt", "steps.ckpt", "best.ckpt")]
        found = [path for path in found if path.is_file()]
        if not found and (folder / "config.yaml").is_file():
            begun = " from its pre-training" if any((folder / FOLDER).glob("*.ckpt")) else ""
            text = "%s was interrupted before its first checkpoint; training starts over%s"
            logger.warning(text, folder, begun)
            return None
        if not found:
            raise ConfigError(f"{folder} has no checkpoint to go on with; train without --ckpt_path")
        checkpoint = newest_whole(found, logger.warning)
        _warn_of_broken_best(folder / "checkpoints" / "best.ckpt")
    elif not Path(wanted).is_file():
        raise ConfigError(f"no checkpoint at {wanted}; 'last' takes the run's newest")
    assert checkpoint is not None
    note = check_resumed(resumed_settings(checkpoint), settings)
    if note:
        logger.warning("%s", note)
    return str(checkpoint)


def _warn_of_broken_best(best: Path) -> None:
    """Say early that the weights which validation chose are lost, not at the end of the training."""
    try:
        if best.is_file():
            verify_checkpoint(best)
    except ModelError as error:
        problem = str(error).rpartition(";")[0]
        logger.warning("%s; unless a later epoch is better, the run will end without a model", problem)
