"""Sets in shards where something dies, goes away or fills up: nothing is lost, and the next start goes on."""

import errno
import json
import os
import shutil

import pytest

from suisei.commands import score_shards
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError
from suisei.scoring import shard_files, shard_pool
from suisei.scoring.shard_scores import ShardTask, _clear
from tests.unit.scoring.shard_runs import CAPTION, run, samples, table, write_tar


def test_a_second_start_scores_what_is_not_finished_alone(folder, monkeypatch, capsys):
    found = run(folder)
    before = {name: (path.read_bytes(), path.stat().st_mtime_ns) for name, path in found.items()}
    found["00000"].write_bytes(found["00000"].read_bytes()[:-1])  # not what was written
    (folder / "out" / "00002_stats.json").unlink()  # killed before it was marked
    left = folder / "out" / ".00002.parquet.0123456789ab.parquet"
    left.touch()
    scored = []
    real = shard_pool.score_shard
    monkeypatch.setattr(
        shard_pool, "score_shard", lambda *a, **k: scored.append(a[1].target.name) or real(*a, **k)
    )
    again = run(folder)
    assert scored == ["00000", "00002"]
    assert not left.exists()
    assert {name: path.read_bytes() for name, path in again.items()} == {n: b for n, (b, _) in before.items()}
    assert again["00001"].stat().st_mtime_ns == before["00001"][1]
    write_tar(folder / "in" / "00001.tar", samples(50))
    assert table(run(folder)["00001"])[0]["key"] == "50"
    assert scored[2:] == ["00001"]
    assert "2 of 3 shards are finished already" in capsys.readouterr().err


def test_metrics_that_learn_from_the_set_score_anew_what_a_later_shard_changes(folder):
    """CIDEr's weights are of all shards, and its signature says of how many."""
    away = (folder / "in" / "00001.tar").rename(folder / "00001.tar")
    run(folder, "--metrics", "cider", status=1)
    away.rename(folder / "in" / "00001.tar")
    assert _noted(folder)["cider"].endswith("|fit:references-of-10-samples")
    mended = run(folder, "--metrics", "cider")
    assert _noted(folder)["cider"].endswith("|fit:references-of-15-samples")
    shutil.copytree(folder / "in", folder / "whole" / "in")
    unbroken = run(folder / "whole", "--metrics", "cider")
    assert len(unbroken) == 3
    assert {name: table(path) for name, path in mended.items()} == {
        name: table(path) for name, path in unbroken.items()
    }


def _noted(folder):
    return json.loads((folder / "out" / "scores.json").read_text(encoding="utf-8"))["signatures"]


@pytest.mark.parametrize("name", ["train", "x" * 60, "a[1]*"])
def test_what_a_killed_process_left_is_taken_away_and_no_other_shards(tmp_path, name):
    """Another process may be writing that of a shard whose name begins the same."""
    own, other, longer = (ShardTask(tmp_path, tmp_path / f"{name}{end}") for end in ("", "_2", ".parquet"))

    def files(task):
        with replacing(task.output("parquet")) as scores, replacing(task.stats) as stats:
            for path in (scores, stats):
                path.touch()
            yield {scores, stats}

    writers = [files(task) for task in (own, other, longer)]
    left, *others = [next(writer) for writer in writers]
    _clear(own, "parquet")
    assert not any(path.exists() for path in left)
    assert set(tmp_path.iterdir()) == others[0] | others[1]


def test_an_interrupted_run_leaves_whole_shards(folder, monkeypatch):
    real, begun = shard_files._records, []

    def records(rows, scored):
        begun.append(rows)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return real(rows, scored)

    monkeypatch.setattr(shard_files, "_records", records)
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(folder)
    said = f"1 of 3 shards are finished, in {folder / 'out'}; the same command goes on"
    assert stopped.value.args == (said,)
    kept = sorted(path.name for path in (folder / "out").iterdir())
    assert kept == [".lock", "00000.parquet", "00000_stats.json", "scores.json"]


def test_shards_that_went_away_leave_their_scores(folder, capsys):
    before = {path: path.read_bytes() for path in run(folder).values()}
    (folder / "in").rename(folder / "away")
    assert list(run(folder, status=1).values()) == list(before)
    assert {path: path.read_bytes() for path in before} == before
    (folder / "away").rename(folder / "in")
    capsys.readouterr()
    run(folder)
    assert "3 of 3 shards are finished already" in capsys.readouterr().err
    run(folder, shards="00000.tar")
    assert "1 of 1 shard is finished already" in capsys.readouterr().err


def test_images_that_were_refused_are_scored_once_any_path_is_allowed(pictured):
    image = pictured / "elsewhere.png"
    image.touch()
    rows = [{"candidate": CAPTION}, {"candidate": CAPTION, "image": str(image)}]
    (pictured / "in" / "0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "--any-path" in table(run(pictured, shards="*.jsonl")["0"])[1]["error"]
    other = pictured / "out" / "1.parquet"
    before = other.stat().st_mtime_ns
    for options in (["--any-path"], []):  # what is scored stays scored
        assert table(run(pictured, *options, shards="*.jsonl")["0"])[1]["length"] == 0.6
    assert other.stat().st_mtime_ns == before  # where nothing was refused


def test_a_metric_that_dies_costs_the_shard_and_the_next_start_tries_again(folder, monkeypatch, capsys):
    from suisei.metrics.overlap import Length

    real = Length._score

    def dies(self, given, **settings):
        if given[0].id is None and any("on" in sample.candidate for sample in given) and dying:
            raise MemoryError("no memory left")
        return real(self, given, **settings)

    dying = [True]
    write_tar(folder / "in" / "00000.tar", {"1": "a", "2": "a red"})
    monkeypatch.setattr(Length, "_score", dies)
    assert list(run(folder, status=1)) == ["00000"]
    assert "length failed: " in capsys.readouterr().err
    dying.clear()
    assert list(run(folder)) == ["00000", "00001", "00002"]


class Killer:
    """Ends its process while it scores a certain caption, as often as a file says."""

    def __new__(cls, path):
        from suisei.metrics.overlap import Length

        class Deadly(Length):
            def _score(self, given, **settings):
                left = int(path.read_text())
                if left and any(sample.candidate == "kill" for sample in given):
                    path.write_text(str(left - 1))
                    os._exit(9)
                return super()._score(given, **settings)

        return Deadly()


@pytest.mark.parametrize("deaths", [pytest.param(1), pytest.param(9, marks=pytest.mark.slow)])
def test_a_process_that_dies_is_replaced_and_the_same_is_scored(folder, deaths, monkeypatch):
    """In two processes of their own; the shard is given up where each of its workers dies."""
    from suisei.scoring.parallel import WorkerSettings
    from suisei.scoring.shard_pool import TRIES, several_processes
    from suisei.scoring.shard_scores import ShardSettings, ShardTask

    write_tar(folder / "in" / "00001.tar", {"1": "kill", "2": CAPTION})
    counter = folder / "deaths"
    counter.write_text(str(deaths))
    worker = WorkerSettings({}, {}, "in", 8, 1)
    tasks = [ShardTask(folder / "in" / f"{n:05d}.tar", folder / f"{n:05d}") for n in range(3)]
    settings = ShardSettings({}, "parquet", "0")
    monkeypatch.setenv("SUISEI_TEST_DEATHS", str(counter))
    monkeypatch.setattr(shard_pool, "_start", start_deadly)
    reports = dict(several_processes(worker, settings, [None, None])(tasks))
    assert len(reports) == 3
    failed = [task.source.name for task, report in reports.items() if report.failed]
    assert ("00001.tar" in failed) is (deaths >= TRIES)
    done = [task for task, report in reports.items() if not report.failed]
    assert all(len(table(task.output("parquet"))) == reports[task].rows for task in done)


def start_deadly(worker, settings, devices):
    """Begin a worker whose metric may end it."""
    from pathlib import Path

    from suisei.scoring.stream import Scorer

    counter = Path(os.environ["SUISEI_TEST_DEATHS"])
    own = shard_pool.ShardWorker(Scorer({"length": Killer(counter)}, "in"), settings)
    shard_pool._worker = own, shard_pool.CollectedWarnings.begun()


@pytest.fixture
def pictured(tmp_path):
    """Two shards of four rows, whose images are in a folder beside them."""
    (tmp_path / "in" / "img").mkdir(parents=True)
    for number in range(8):
        (tmp_path / "in" / "img" / f"{number}.png").touch()
    for shard in range(2):
        rows = [
            {"candidate": CAPTION, "references": [CAPTION], "image": f"img/{4 * shard + row}.png"}
            for row in range(4)
        ]
        path = tmp_path / "in" / f"{shard}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_a_folder_of_images_that_goes_away_finishes_no_shard(pictured, monkeypatch, capsys):
    images, away = pictured / "in" / "img", pictured / "away"
    real = shard_pool.score_shard

    def score_shard(*given, **settings):
        report = real(*given, **settings)
        images.rename(away)
        return report

    with monkeypatch.context() as patch:
        patch.setattr(shard_pool, "score_shard", score_shard)
        with pytest.raises(DataError) as stopped:
            run(pictured, shards="*.jsonl")
    assert str(stopped.value).startswith(f"{images} is not there any more (1 of 2 shards are finished, in ")
    assert sorted(path.name for path in (pictured / "out").glob("[01]*")) == ["0.parquet", "0_stats.json"]
    assert list(run(pictured, shards="*.jsonl", status=1)) == ["0"]  # it is away from the start now
    assert f"none of its images is there, nor the folder {images}" in capsys.readouterr().err
    away.rename(images)
    assert [row["error"] for row in table(run(pictured, shards="*.jsonl")["1"])] == [None] * 4
    assert "1 of 2 shards are finished already" in capsys.readouterr().err


def test_images_of_another_folder_are_not_taken_for_those_of_the_same_name(pictured, monkeypatch, capsys):
    """``--images in`` typed from elsewhere is another folder; the full path of the same is no other."""
    monkeypatch.chdir(pictured)
    run(pictured, "--images", "in", shards="*.jsonl")
    assert json.loads((pictured / "out" / "scores.json").read_text())["images"] == str(pictured / "in")
    for same in ("in", "./in/", str(pictured / "in")):
        capsys.readouterr()
        run(pictured, "--images", same, shards="*.jsonl")
        assert "2 of 2 shards are finished already" in capsys.readouterr().err
    (pictured / "other" / "in").mkdir(parents=True)
    monkeypatch.chdir(pictured / "other")
    with pytest.raises(ConfigError, match="holds scores with other images"):
        run(pictured, "--images", "in", shards="*.jsonl")


def test_images_that_are_noted_as_they_were_typed_stay_those_of_finished_shards(
    pictured, monkeypatch, capsys
):
    """Older versions noted them so, and marked shards with it."""
    monkeypatch.chdir(pictured)
    with monkeypatch.context() as patch:
        patch.setattr(score_shards, "_images", lambda noted, given: given)
        run(pictured, "--images", "in", shards="*.jsonl")
    capsys.readouterr()
    run(pictured, "--images", str(pictured / "in"), shards="*.jsonl")
    assert "2 of 2 shards are finished already" in capsys.readouterr().err


def test_an_image_that_is_missing_alone_costs_its_row(pictured):
    (pictured / "in" / "img" / "5.png").unlink()
    found = run(pictured, shards="*.jsonl")
    assert [bool(row["error"]) for path in found.values() for row in table(path)].index(True) == 5
    for number in (4, 6, 7):
        (pictured / "in" / "img" / f"{number}.png").unlink()
    found["1"].unlink()
    assert all("is not there" in row["error"] for row in table(run(pictured, shards="*.jsonl")["1"]))


def test_a_full_disk_says_what_is_finished(folder, monkeypatch):
    real = shard_files._records

    def records(rows, scored):
        if rows[0].row.id == "20":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(rows, scored)

    with monkeypatch.context() as patch:
        patch.setattr(shard_files, "_records", records)
        with pytest.raises(DataError) as stopped:
            run(folder)
    text = str(stopped.value)
    assert text.startswith(
        f"{folder / 'out' / '00002.parquet'}: cannot be written: No space left on device (2 of"
    )
    assert text.endswith(
        f"2 of 3 shards are finished, in {folder / 'out'}; the same command goes on once that is mended)"
    )
    assert list(run(folder)) == ["00000", "00001", "00002"]


def test_other_uids_beside_an_archive_are_another_shard(folder, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    run(folder)
    beside = folder / "in" / "00001.parquet"
    for name in ("one", "another"):
        pyarrow.parquet.write_table(pyarrow.table({"key": ["10"], "uid": [name]}), beside)
        capsys.readouterr()
        run(folder)
        assert "2 of 3 shards are finished already" in capsys.readouterr().err
    run(folder)
    assert "3 of 3 shards are finished already" in capsys.readouterr().err
