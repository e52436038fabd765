"""What a run that cannot go on leaves in its folder."""

import pytest

from suisei.errors import DataError, UnavailableError
from suisei.training import run_folder
from suisei.training.run_folder import started_run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run's folder that is not there yet, and whose records are empty files."""

    def record(cli, folder, split):
        folder.mkdir(parents=True, exist_ok=True)
        for name in run_folder.RECORDS:
            (folder / name).touch()

    monkeypatch.setattr(run_folder, "record", record)
    return tmp_path / "runs" / "mine"


def fail(folder, made):
    """Begin a run that makes a file and then cannot go on."""
    with started_run(None, folder):
        (folder / made).parent.mkdir(exist_ok=True)
        (folder / made).touch()
        raise UnavailableError("the hub cannot be reached")


def test_a_failed_download_leaves_no_folder_that_blocks_the_next_try(folder):
    for _ in range(2):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            fail(folder, "logs/metrics.csv")
        assert not folder.parent.exists()


def test_what_another_put_there_and_what_can_be_gone_on_from_stay(folder):
    folder.mkdir(parents=True)
    (folder / "notes.txt").touch()
    with pytest.raises(UnavailableError):
        fail(folder, "logs/metrics.csv")
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    with pytest.raises(UnavailableError):
        fail(folder, "checkpoints/last.ckpt")
    assert (folder / "config.yaml").exists()


def stop(folder, advice, whole=None, made="logs/metrics.csv"):
    """Begin a run that makes a file and then cannot write."""
    with started_run(None, folder, None, whole):
        (folder / made).parent.mkdir()
        (folder / made).touch()
        raise DataError(f"full; make room, then {advice}")


def stop_in_a_fold(folder, finished):
    """Begin a cross-validation whose second fold cannot write."""
    with started_run(None, folder):
        if finished:
            (folder / "fold-0").mkdir()
            (folder / "fold-0" / "report.json").touch()
        stop(folder / "fold-1", "go on with --ckpt_path last", folder)


@pytest.mark.parametrize("advice", ["go on with --ckpt_path last", "--ckpt_path last"])
def test_a_run_whose_folder_is_taken_away_is_started_again_and_does_not_go_on(folder, advice):
    with pytest.raises(DataError, match=r"^full; make room, then start again$"):
        stop(folder, advice)
    assert not folder.exists()
    with pytest.raises(DataError, match=f"^full; make room, then {advice}$"):
        stop(folder, advice, made="checkpoints/last.ckpt")


@pytest.mark.parametrize(
    ("finished", "said"), [(False, "start again"), (True, "go on with --ckpt_path last")]
)
def test_a_cross_validation_goes_on_where_a_fold_is_finished(folder, finished, said):
    with pytest.raises(DataError, match=f"^full; make room, then {said}$"):
        stop_in_a_fold(folder, finished)
    assert folder.exists() == finished


def test_a_run_that_was_killed_and_starts_over_keeps_its_settings(folder):
    folder.mkdir(parents=True)
    (folder / "config.yaml").touch()  # which its user was told to go on with
    with pytest.raises(UnavailableError):
        fail(folder, "logs/metrics.csv")
    assert (folder / "config.yaml").exists()


def test_a_file_that_is_away_is_not_a_folder_that_cannot_be_written(folder):
    with pytest.raises(FileNotFoundError), started_run(None, folder):
        (folder / "images.npy").read_bytes()
    assert not folder.exists()
