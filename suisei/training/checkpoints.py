"""Checkpoints of the trainer: written beside and renamed, with a checksum that is verified before reading.

A checkpoint is what ``torch.save`` writes, followed by TRAILER bytes: MARK and the SHA-256 of all that comes
before. torch reads such a file as if the trailer were not there. Checkpoints serve to go on with a run; a
trained model is a model folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor, nn

from suisei.encoders.torch_files import TORCH_ERRORS, load_tensors
from suisei.errors import DataError, ModelError, one_line

MARK = b"\nsuisei checkpoint sha256 "
TRAILER = len(MARK) + 64
"""Bytes of mark and hexadecimal checksum."""
SETTINGS = "suisei_settings"
"""Where a checkpoint has the settings of its run, as JSON."""
DATA = "suisei_data"
"""Where a checkpoint has digests of the data that it was trained on."""
FROZEN = "suisei_frozen"
"""Where a checkpoint says which weights it leaves out, and what they hash to."""


class CheckpointFiles(TorchCheckpointIO):
    """How the trainer writes and reads checkpoint files.

    Args:
        settings: the run's settings, which every checkpoint carries.
        folder: where the run keeps its checkpoints.
    """

    def __init__(self, settings: Mapping[str, Any], folder: Path) -> None:
        self._settings = json.dumps(settings, default=str)
        self._folder = folder.resolve()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint; one that is there already is replaced once the new one is whole."""
        write_checkpoint({**checkpoint, SETTINGS: self._settings}, Path(path))

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint, verified, tensors on the CPU; nothing in it is executed."""
        checkpoint = read_checkpoint(Path(path))
        for state in checkpoint.get("callbacks", {}).values():
            if state.get("dirpath", str(self._folder)) != str(self._folder):
                _find_again(state, Path(path).resolve().parent)
                state["dirpath"] = str(self._folder)  # or the trainer forgets which figure was the best
        return checkpoint


def _find_again(state: dict[str, Any], folder: Path) -> None:
    """Let a callback find what it kept after the run's folder was moved or copied.

    Args:
        state: of the callback, changed in place.
        folder: of the checkpoint that the run goes on from; what is not beside it stays where it was.
    """

    def found(path: str) -> str:
        beside = folder / Path(path).name
        return str(beside) if path and beside.is_file() else path

    for name in ("best_model_path", "kth_best_model_path", "last_model_path"):
        state[name] = found(state[name])
    state["best_k_models"] = {found(path): score for path, score in state["best_k_models"].items()}


class _HashedFile:
    """A file that hashes what is written to it, and keeps the error that torch hides behind its own."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.problem: OSError | None = None

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        try:
            return self._file.write(content)
        except OSError as error:
            self.problem = error
            raise

    def flush(self) -> None:
        self._file.flush()


def write_checkpoint(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint beside ``path``, let the disk have it, then put it in the place of the older one.

    Raises:
        DataError: it cannot be written, such as on a full disk; the older one is kept.
    """
    temporary = path.with_name(f".{path.name}.part")  # one name, so that killed runs leave one at most
    hashed: _HashedFile | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            hashed = _HashedFile(file)
            torch.save(dict(checkpoint), hashed)  # type: ignore[arg-type]
            file.write(MARK + hashed.sha256.hexdigest().encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        cause = (hashed.problem if hashed is not None else None) or error
        reason = (cause.strerror if isinstance(cause, OSError) else None) or one_line(cause)
        raise DataError(
            f"{path}: the checkpoint cannot be written ({reason}); {_kept_before(path)}; make room, then go "
            "on with --ckpt_path last"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Return files in the order in which they were written, the newest first."""
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _kept_before(path: Path) -> str:
    """Say what is left to go on with where a checkpoint cannot be written."""
    if path.is_file():
        return "the one before is kept"
    others = newest_first(path.parent.glob("*.ckpt"))
    return f"{others[0]} is kept" if others else "there is none before it"


def _sync_folder(folder: Path) -> None:
    """Let the disk have the new name too, where folders can be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def verify_checkpoint(path: Path) -> None:
    """Check that a file is a checkpoint of this program, whole and as it was written.

    Raises:
        ModelError: it is not.
    """
    advice = "go on with another one, or train anew"
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size - TRAILER
            expected = _checksum_of(file, size)
            if expected is None:
                raise ModelError(
                    f"{path}: not a checkpoint that suisei wrote, or cut off: it does not end in a checksum; "
                    f"{advice}"
                )
            file.seek(0)
            actual = _digest_of(file, size)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}; {advice}") from None
    if actual != expected:
        raise ModelError(
            f"{path}: was altered or damaged since it was written (its checksum differs); {advice}"
        )


def _checksum_of(file: io.BufferedReader, size: int) -> str | None:
    if size <= 0:
        return None
    file.seek(size)
    trailer = file.read(TRAILER)
    return trailer[len(MARK) :].decode("ascii", "replace") if trailer.startswith(MARK) else None


def _digest_of(file: io.BufferedReader, size: int) -> str:
    sha256 = hashlib.sha256()
    while size > 0:
        content = file.read(min(size, 1 << 20))
        if not content:
            break
        sha256.update(content)
        size -= len(content)
    return sha256.hexdigest()


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Verify a checkpoint and read it, tensors on the CPU; nothing in it is executed.

    Raises:
        ModelError: it is unreadable, cut off, altered or not a checkpoint.
    """
    verify_checkpoint(path)
    return _load(path)


def resumed_settings(path: Path) -> dict[str, Any]:
    """Return the settings of the run that a checkpoint, verified already, goes on with.

    Raises:
        ModelError: it cannot be read, or nothing can be gone on with from it.
    """
    content = _load(path, mmap=True)
    if "optimizer_states" not in content or not isinstance(content.get(SETTINGS), str):
        raise ModelError(
            f"{path}: holds weights without the state of their training; go on with --ckpt_path last, or "
            "train anew"
        )
    try:
        settings: dict[str, Any] = dict(json.loads(content[SETTINGS]))
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelError(f"{path}: the settings in it are damaged: {one_line(error)}; train anew") from None
    return settings


def resumed_data(path: Path) -> dict[str, str]:
    """Return the digests of the data of the run that a checkpoint, verified already, goes on with.

    Empty for a checkpoint of an earlier version.
    """
    noted = _load(path, mmap=True).get(DATA)
    return dict(noted) if isinstance(noted, dict) else {}


def _load(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    try:
        content = load_tensors(path, mmap=mmap)
    except (*TORCH_ERRORS, pickle.UnpicklingError) as error:
        raise ModelError(f"{path}: not a readable checkpoint: {one_line(error)}") from None
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise ModelError(f"{path}: not a checkpoint of a training: it holds no state_dict")
    return content


def newest_whole(paths: Sequence[Path], warn: Callable[[str], Any]) -> Path:
    """Return the newest checkpoint that is whole and can be gone on with.

    Args:
        paths: checkpoint files.
        warn: called with one line that names those that are newer and broken.

    Raises:
        ModelError: there is none.
    """
    problems: list[str] = []
    for path in newest_first(paths):
        try:
            verify_checkpoint(path)
            resumed_settings(path)
        except ModelError as error:
            problems.append(str(error).rpartition(";")[0])
            continue
        if problems:
            warn(f"going on with {path}, for what is newer is of no use: {'; '.join(problems)}")
        return path
    raise ModelError(
        f"no checkpoint can be gone on with: {'; '.join(problems)}; train anew in another --output"
    )


class FrozenWeights:
    """The weights of a module that are not trained: checkpoints leave them out, once and for all noted.

    Args:
        module: the module, before anything is frozen for a while only.
        but: beginnings of names that are kept, because a new start does not give the same weights.
    """

    def __init__(self, module: nn.Module | None = None, but: tuple[str, ...] = ()) -> None:
        named = module.named_parameters(remove_duplicate=False) if module is not None else ()
        self.names = {
            name for name, parameter in named if not parameter.requires_grad and not name.startswith(but)
        }
        self._sha256: str | None = None

    def drop_from(self, checkpoint: dict[str, Any]) -> None:
        """Take the frozen weights out of a checkpoint's state and note what they are instead."""
        state = checkpoint["state_dict"]
        names = [name for name in state if name in self.names]
        if not names:
            return
        if self._sha256 is None:  # of weights that nothing changes: once is enough
            self._sha256 = _fingerprint([(name, state[name]) for name in names])
        checkpoint[FROZEN] = {"names": names, "sha256": self._sha256}
        checkpoint["state_dict"] = {name: value for name, value in state.items() if name not in self.names}


def restore_frozen(checkpoint: dict[str, Any], module: nn.Module) -> None:
    """Complete a checkpoint's state with the frozen weights that ``module`` has from where they came.

    Raises:
        ModelError: these are not the weights that the checkpoint was written with.
    """
    noted = checkpoint.get(FROZEN)
    if not noted:
        return
    own = module.state_dict()
    absent = [name for name in noted["names"] if name not in own]
    if absent or _fingerprint([(name, own[name]) for name in noted["names"]]) != noted["sha256"]:
        raise ModelError(
            "the frozen weights are not those that the checkpoint was written with; go on with the encoders "
            "that the run started from (files and folders named in model.*), or train anew"
        )
    checkpoint["state_dict"] = {**checkpoint["state_dict"], **{name: own[name] for name in noted["names"]}}


def best_checkpoint_of(trainer: Any) -> Any:
    """Return the trainer's callback that keeps the weights which validation chooses."""
    return next(each for each in trainer.checkpoint_callbacks if each.monitor)


def restore_best(model: nn.Module, trainer: Any) -> None:
    """Give a model the weights that validation chose, if it chose any."""
    path = best_checkpoint_of(trainer).best_model_path
    if path:
        kept = read_checkpoint(Path(path))
        restore_frozen(kept, model)
        model.load_state_dict(kept["state_dict"])


def _fingerprint(tensors: list[tuple[str, Tensor]]) -> str:
    sha256 = hashlib.sha256()
    for name, tensor in tensors:
        sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha256.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()
