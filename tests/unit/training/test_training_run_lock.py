"""One training at a time in a folder, also when two begin at the same moment."""

import os
import subprocess
import sys

import pytest

from suisei.errors import ConfigError, DataError
from suisei.training import run_lock
from suisei.training.run_lock import alone_in

HOLDER = """
import sys
from pathlib import Path
from suisei.training.run_lock import alone_in
with alone_in(Path(sys.argv[1]), fresh=False):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="no folder can be locked")
def test_a_second_training_is_refused_until_the_first_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "PATIENCE", 0.3)
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "in\n"
    (folder / "config.yaml").write_text("")
    with pytest.raises(ConfigError, match="another training is writing"), alone_in(folder, fresh=False):
        pass
    process.kill()  # which takes its lock away, too
    process.wait()
    with alone_in(folder, fresh=False):
        pass
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_a_run_that_began_in_the_meantime_is_not_written_over(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    with pytest.raises(ConfigError, match="holds a run already"), alone_in(tmp_path, fresh=True):
        pass


@pytest.mark.skipif(os.name != "posix", reason="no folder can be locked")
def test_further_processes_of_one_training_share_its_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "PATIENCE", 0.1)
    with alone_in(tmp_path, fresh=True):
        (tmp_path / "config.yaml").write_text("")
        with pytest.raises(ConfigError, match="another training is writing"), alone_in(tmp_path, fresh=False):
            pass
        entered = []
        with alone_in(tmp_path, fresh=True, first=False):
            entered.append(tmp_path)
        assert entered == [tmp_path]
        # what left let go of no lock
        with pytest.raises(ConfigError, match="another training is writing"), alone_in(tmp_path, fresh=False):
            pass


def test_what_stays_empty_is_taken_away(tmp_path):
    with alone_in(tmp_path / "a" / "b", fresh=True):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"), alone_in(tmp_path / "file" / "b", fresh=True):
        pass
