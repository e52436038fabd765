"""Checkpoints: written whole or not at all, verified before they are read, without frozen weights."""

import errno
import io
import os
import pickle
import resource
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from suisei.errors import DataError, ModelError
from suisei.training import checkpoints
from suisei.training.checkpoints import (
    SETTINGS,
    CheckpointFiles,
    FrozenWeights,
    newest_whole,
    read_checkpoint,
    restore_frozen,
    resumed_settings,
    verify_checkpoint,
    write_checkpoint,
)


def content(value=0.0, size=2000):
    optimizer = {"state": {0: {"exp_avg": torch.full((size,), value + 1)}}}
    weights = {"weight": torch.full((size,), value)}
    return {"state_dict": weights, "optimizer_states": [optimizer], SETTINGS: '{"a": 1}'}


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "checkpoints" / "last.ckpt"
    write_checkpoint(content(), path)
    return path


def test_what_was_written_is_read_and_nothing_else_is_left(checkpoint):
    read = read_checkpoint(checkpoint)
    assert torch.equal(read["state_dict"]["weight"], torch.zeros(2000))
    assert resumed_settings(checkpoint) == {"a": 1}
    assert torch.equal(torch.load(checkpoint, weights_only=True)["state_dict"]["weight"], torch.zeros(2000))
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("place", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.995])
def test_flipped_bytes_are_refused_wherever_they_are(checkpoint, place):
    whole = bytearray(checkpoint.read_bytes())
    start = int(place * len(whole))
    for position in range(start, min(start + 64, len(whole))):
        whole[position] ^= 0xFF
    checkpoint.write_bytes(whole)
    with pytest.raises(ModelError, match=r"last\.ckpt: (was altered|not a checkpoint)") as error:
        read_checkpoint(checkpoint)
    assert "\n" not in str(error.value)


def test_flipped_bytes_of_the_optimizer_s_state_are_refused_where_torch_reads_them(checkpoint):
    whole = bytearray(checkpoint.read_bytes())
    ones = bytes(torch.ones(16).numpy().data)
    start = whole.index(ones)
    whole[start : start + 64] = bytes(64)
    checkpoint.write_bytes(whole)
    state = torch.load(checkpoint, weights_only=True)["optimizer_states"][0]["state"][0]["exp_avg"]
    assert float(state.sum()) != 2000  # torch alone does not notice
    with pytest.raises(ModelError, match="was altered or damaged"):
        verify_checkpoint(checkpoint)


@pytest.mark.parametrize("length", [0, 1, 80, 2000, -1])
def test_a_cut_off_file_is_refused(checkpoint, length):
    checkpoint.write_bytes(checkpoint.read_bytes()[:length])
    with pytest.raises(ModelError, match="not a checkpoint that suisei wrote, or cut off"):
        read_checkpoint(checkpoint)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "x.ckpt"
    torch.save(content(), path)
    with pytest.raises(ModelError, match="not a checkpoint that suisei wrote"):
        read_checkpoint(path)
    path.write_bytes(b"\x89PNG\r\n" * 100)
    with pytest.raises(ModelError, match="not a checkpoint that suisei wrote"):
        read_checkpoint(path)
    with pytest.raises(ModelError, match="cannot be read"):
        read_checkpoint(tmp_path)
    write_checkpoint({"weights": torch.zeros(1)}, path)
    with pytest.raises(ModelError, match="holds no state_dict"):
        read_checkpoint(path)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_no_code_in_a_checkpoint_is_run(tmp_path):
    path = tmp_path / "x.ckpt"
    write_checkpoint({**content(), "evil": Evil(str(tmp_path / "ran"))}, path)  # its checksum is right
    with pytest.raises(ModelError, match="not a readable checkpoint") as error:
        read_checkpoint(path)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Evil(str(tmp_path / "ran"))))
    assert (tmp_path / "ran").exists()  # as an unguarded reader would have


class FullDisk(io.BytesIO):
    """A file on a disk with room for so many bytes."""

    def __init__(self, file, room):
        super().__init__()
        self.file, self.room = file, room

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)

    def fileno(self):
        return self.file.fileno()

    def flush(self):
        if not self.closed:
            self.file.flush()


@pytest.mark.parametrize("room", [0, 500, 9000])
def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before(checkpoint, monkeypatch, room):
    before = checkpoint.read_bytes()
    opened = Path.open

    def full(self, mode="r", *rest, **options):
        file = opened(self, mode, *rest, **options)
        return FullDisk(file, room) if "w" in mode else file

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match=r"No space left on device.*the one before is kept") as error:
        write_checkpoint(content(1.0), checkpoint)
    monkeypatch.undo()
    assert "\n" not in str(error.value)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last.ckpt"]
    read_checkpoint(checkpoint)


def test_a_first_checkpoint_on_a_full_disk_names_the_newest_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints.os, "fsync", _no_space)
    with pytest.raises(DataError, match="there is none before it"):
        write_checkpoint(content(), tmp_path / "last.ckpt")
    for seconds, name in ((2000, "steps.ckpt"), (1000, "best.ckpt")):
        (tmp_path / name).write_bytes(b"whole")
        age(tmp_path / name, seconds)
    with pytest.raises(DataError, match=r"last\.ckpt: the checkpoint .*/steps\.ckpt is kept; make room"):
        write_checkpoint(content(), tmp_path / "last.ckpt")


def _no_space(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_that_may_not_grow_leaves_the_checkpoint_before(checkpoint):
    before = checkpoint.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(DataError, match=r"cannot be written \(File too large\)"):
            write_checkpoint(content(size=1_000_000), checkpoint)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in checkpoint.parent.iterdir()] == ["last.ckpt"]


def test_the_disk_has_a_checkpoint_before_it_takes_the_place_of_the_older(checkpoint, monkeypatch):
    before, synced = checkpoint.read_bytes(), []

    def fails(handle):
        synced.append(handle)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoints.os, "fsync", fails)
    with pytest.raises(DataError, match="Input/output error"):
        write_checkpoint(content(1.0), checkpoint)
    assert synced
    assert checkpoint.read_bytes() == before


def age(path, seconds):
    os.utime(path, (seconds, seconds))


def test_the_newest_whole_checkpoint_is_chosen_and_the_broken_one_named(tmp_path):
    paths = [tmp_path / name for name in ("steps.ckpt", "last.ckpt", "best.ckpt")]
    for number, path in enumerate(paths):
        write_checkpoint(content(number), path)
        age(path, 1000 + number)
    said = []
    assert newest_whole(paths, said.append) == paths[2]
    assert said == []
    paths[2].write_bytes(paths[2].read_bytes()[:-200])
    assert newest_whole(paths, said.append) == paths[1]
    assert len(said) == 1
    assert "best.ckpt" in said[0]
    assert "\n" not in said[0]
    weights = {name: value for name, value in content().items() if name != "optimizer_states"}
    write_checkpoint(weights, paths[1])
    age(paths[1], 2000)
    assert newest_whole(paths, said.append) == paths[0]
    paths[0].write_bytes(b"")
    with pytest.raises(
        ModelError, match=r"no checkpoint can be gone on with.*steps\.ckpt.*best\.ckpt.*last\.ckpt"
    ):
        newest_whole(paths, said.append)


def test_checkpoints_carry_the_settings_of_their_run(tmp_path):
    files = CheckpointFiles({"model": {"head": {"hidden": [3]}}}, tmp_path)
    files.save_checkpoint(content(), tmp_path / "x.ckpt")
    assert resumed_settings(tmp_path / "x.ckpt") == {"model": {"head": {"hidden": [3]}}}
    assert set(files.load_checkpoint(tmp_path / "x.ckpt")) >= {"state_dict", "optimizer_states"}


def make(seed):
    torch.manual_seed(seed)
    module = nn.ModuleDict({"encoder": nn.Linear(3, 3), "head": nn.Linear(3, 1)})
    module["encoder"].requires_grad_(False)
    return module


def test_frozen_weights_stay_out_and_come_back_from_where_they_were():
    module = make(0)
    checkpoint = {"state_dict": dict(module.state_dict())}
    FrozenWeights(module).drop_from(checkpoint)
    assert set(checkpoint["state_dict"]) == {"head.weight", "head.bias"}
    again = make(0)
    with torch.no_grad():
        again["head"].weight.zero_()
    restore_frozen(checkpoint, again)
    again.load_state_dict(checkpoint["state_dict"])
    for name, value in module.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_other_frozen_weights_are_refused():
    checkpoint = {"state_dict": dict(make(0).state_dict())}
    FrozenWeights(make(0)).drop_from(checkpoint)
    with pytest.raises(ModelError, match="frozen weights are not those"):
        restore_frozen(checkpoint, make(1))
    with pytest.raises(ModelError, match="frozen weights are not those"):
        restore_frozen(checkpoint, nn.Linear(3, 1))


def test_weights_that_a_new_start_does_not_repeat_stay_in():
    module = make(0)
    checkpoint = {"state_dict": dict(module.state_dict())}
    FrozenWeights(module, but=("encoder.",)).drop_from(checkpoint)
    assert set(checkpoint["state_dict"]) == set(module.state_dict())
    restore_frozen(checkpoint, make(1))
    assert set(checkpoint["state_dict"]) == set(module.state_dict())
