"""Sets in shards whose files an output would overwrite: refused in one line before any work."""

import json
import os

import pytest

from suisei.cli import run_command
from suisei.commands.score import main
from suisei.errors import ConfigError
from tests.unit.scoring.shard_runs import METRICS, samples, write_tar


@pytest.fixture
def archives(tmp_path):
    """Two archives, one in capitals, with what img2dataset writes beside them."""
    write_tar(tmp_path / "in" / "00000.tar", samples(0))
    write_tar(tmp_path / "in" / "00001.TAR", samples(10))
    for number in range(2):
        (tmp_path / "in" / f"{number:05d}.parquet").write_bytes(b"uids")
        (tmp_path / "in" / f"{number:05d}_stats.json").write_bytes(b"counts")
    return tmp_path


def refused(folder, *options, output="out", shards="in/*.[tT][aA][rR]"):
    """Return what is said, after making sure that nothing changed."""
    before = contents(folder)
    given = [*METRICS, "--input", str(folder / shards), "--output", str(folder / output), *map(str, options)]
    with pytest.raises(ConfigError) as error:
        main(given)
    assert contents(folder) == before
    assert "\n" not in str(error.value)
    return str(error.value)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("option", ["--summary", "--uids"])
@pytest.mark.parametrize("name", ["00000.tar", "00001.TAR", "00001.parquet", "00000_stats.json"])
@pytest.mark.parametrize("through", ["itself", "a link", "a folder's link"])
def test_no_file_of_the_set_is_an_output(archives, option, name, through):
    path = archives / "in" / name
    if through == "a link":
        path = archives / "link"
        path.symlink_to(archives / "in" / name)
    if through == "a folder's link":
        (archives / "other").symlink_to(archives / "in")
        path = archives / "other" / name
    more = ("--keep-top", "0.5", "--keep-by", "length") if option == "--uids" else ()
    said = refused(archives, option, path, *more)
    assert said.startswith(f"{option} {path} is ")
    assert name in said.removeprefix(f"{option} {path}")


def test_an_input_with_a_second_name_is_no_output(archives):
    os.link(archives / "in" / "00000.tar", archives / "again.json")
    assert "is the input" in refused(archives, "--summary", archives / "again.json")


def test_no_log_is_written_into_the_set(archives):
    for name in ("00000.tar", "00001.parquet"):
        assert "--log-json" in refused(archives, "--log-json", archives / "in" / name)
    log = archives / "log.jsonl"
    assert run_command(main, [*METRICS, "--input", str(archives / "none.tar"), "--log-json", str(log)]) == 2
    (archives / "in" / "00002.jsonl").write_bytes(log.read_bytes())  # begins as a log does
    given = [*METRICS, "--input", str(archives / "in" / "{00002..00002}.jsonl")]
    given += ["--output", str(archives / "out"), "--log-json", str(archives / "in" / "00002.jsonl")]
    assert run_command(main, given) == 2
    assert not (archives / "out").exists()


@pytest.mark.parametrize("name", ["00000.parquet", "00001.jsonl", "00001_stats.json", "scores.json", ".lock"])
@pytest.mark.parametrize("scored", [False, True])
def test_files_of_the_scores_are_no_other_output(archives, name, scored):
    (archives / "in" / "00000.parquet").unlink()
    if scored:
        given = [*METRICS, "--input", str(archives / "in/*.tar"), "--output", str(archives / "out")]
        assert main(given) == 0
    else:
        (archives / "out").mkdir()
    said = refused(archives, "--summary", archives / "out" / name)
    assert "a file of" in said
    (archives / "other").symlink_to(archives / "out")
    assert "a file of" in refused(archives, "--summary", archives / "other" / name)


def test_outputs_are_files_of_their_own(archives):
    same = archives / "same.json"
    more = ("--keep-top", "0.5", "--keep-by", "length", "--uids", same)
    assert "as well" in refused(archives, "--summary", same, *more)
    assert "as well" in refused(archives, "--summary", same, "--log-json", same)


@pytest.mark.parametrize("shards", ["in/*.tar", "in/*.TAR"])
def test_scores_do_not_go_where_the_set_is(archives, shards):
    (archives / "other").symlink_to(archives / "in")
    for output in ("in", "other", "in/../in"):
        said = refused(archives, output=output, shards=shards)
        assert "the scores would overwrite" in said
        assert "give another folder" in said


def test_scores_do_not_go_into_the_set_through_a_link(archives):
    rows = archives / "in" / "rows.jsonl"
    rows.write_text(json.dumps({"candidate": "a"}) + "\n")
    (archives / "out").mkdir()
    link = archives / "out" / "00000.parquet"
    link.symlink_to(archives / "in" / "00001.parquet")
    assert "00001.parquet" in refused(archives)
    link.unlink()
    (archives / "out" / "rows.jsonl").symlink_to(rows)
    assert "rows.jsonl" in refused(archives, shards="in/*.jsonl")
