"""The uids of the best share of a set: each once, a share of what can be kept."""

import io
import json
import tarfile

import numpy as np
import pytest

from suisei.cli import run_command
from suisei.commands.score import main
from suisei.errors import ConfigError, DataError
from suisei.scoring import uids
from suisei.scoring.uids import share_of, write_best

WORDS = "a red ball on a table in the small room"


def write_rows(path, count=10, first=0, offset=0):
    """Write captions of one word to ten, with uids from ``first``."""
    words = WORDS.split()
    captions = [" ".join(words[: 1 + (n + offset) % len(words)]) for n in range(count)]
    rows = [{"uid": f"{first + n:032x}", "candidate": caption} for n, caption in enumerate(captions)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_scores(path, rows):
    """Write pairs of a uid, as a number, and a score of the metric m."""
    path.write_text("".join(json.dumps({"uid": f"{uid:032x}", "m": score}) + "\n" for uid, score in rows))


def kept(folder, *options, shards="*.jsonl", status=0, metrics="length"):
    """Score the shards of a folder, and return the numbers of the uids that are kept, and the summary."""
    given = ["--metrics", metrics, "--input", str(folder / "in" / shards), "--output", str(folder / "out")]
    given += ["--uids", str(folder / "u.npy"), "--summary", str(folder / "s.json"), *options]
    assert main(given) == status
    uids = np.load(folder / "u.npy")
    return [int(uid["f1"]) for uid in uids], json.loads((folder / "s.json").read_text(encoding="utf-8"))


def test_a_uid_that_several_samples_have_is_kept_once_by_its_best_score(tmp_path, capsys):
    for number in range(2):
        write_rows(tmp_path / "in" / f"{number}.jsonl", offset=5 * number)
    uids, summary = kept(tmp_path, "--keep-top", "0.5")
    assert uids == [2, 3, 4, 8, 9]  # the best of each are 6 to 10 words, and 6 to 10 again
    assert (summary["kept"]["kept"], summary["kept"]["scored"], summary["kept"]["repeated"]) == (5, 10, 10)
    assert "5 of 10 samples by length" in capsys.readouterr().err


def test_the_same_shard_twice_keeps_what_it_keeps_alone(tmp_path, capsys):
    write_rows(tmp_path / "in" / "0.jsonl")
    alone, summary = kept(tmp_path, "--keep-top", "0.3")
    assert summary["kept"]["repeated"] == 0
    assert "another sample" not in capsys.readouterr().err
    write_rows(tmp_path / "in" / "1.jsonl")
    assert kept(tmp_path, "--keep-top", "0.3")[0] == alone == [7, 8, 9]
    assert "; 10 more have the uid of another sample; each uid is kept once" in capsys.readouterr().err


def test_of_a_distance_a_repeated_uid_has_its_lowest_score(tmp_path):
    path = tmp_path / "scores.jsonl"
    write_scores(path, [(1, 0.9), (2, 0.5), (1, 0.1), (3, 0.7)])
    found = write_best([path], "m", 0.4, tmp_path / "u.npy", higher_is_better=False)
    assert (found.kept, found.scored, found.repeated, found.least) == (1, 3, 1, 0.1)
    assert np.load(tmp_path / "u.npy").tolist() == [(0, 1)]


def test_a_file_of_several_portions_is_kept_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(uids, "_PORTION", 3)
    path = tmp_path / "scores.jsonl"
    write_scores(path, [(number, number / 8) for number in range(8)])
    found = write_best([path], "m", 1, tmp_path / "u.npy")
    assert (found.kept, found.scored, found.least) == (8, 8, 0)
    assert np.load(tmp_path / "u.npy")["f1"].tolist() == list(range(8))


def test_uids_that_differ_in_their_first_half_alone_are_two(tmp_path):
    path = tmp_path / "scores.jsonl"
    write_scores(path, [(2**64 + 5, 0.5), (2 * 2**64 + 5, 0.25)])
    found = write_best([path], "m", 1, tmp_path / "u.npy")
    assert (found.kept, found.repeated) == (2, 0)
    assert np.load(tmp_path / "u.npy").tolist() == [(1, 5), (2, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep-by", "lenght"], "--keep-by lenght: no such metric; there is length, cider"),
        ([], "say by which, --keep-by length or cider"),
    ],
)
def test_what_decides_is_checked_before_a_metric_is_made(tmp_path, options, message, monkeypatch):
    write_rows(tmp_path / "in" / "0.jsonl")
    made = []
    monkeypatch.setattr("suisei.metrics.registry.get_metric", lambda *spec, **given: made.append(spec))
    with pytest.raises(ConfigError, match=message):
        kept(tmp_path, "--keep-top", "0.5", *options, metrics="length,cider")
    assert not made


def test_where_no_shard_is_scored_the_last_line_says_why(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    given = ["--metrics", "length", "--input", str(tmp_path / "in" / "{0..0}.jsonl")]
    given += ["--output", str(tmp_path / "out"), "--keep-top", "0.5", "--uids", str(tmp_path / "u.npy")]
    assert run_command(main, given) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"· {tmp_path / 'in' / '0.jsonl'}: no such file"
    assert not (tmp_path / "u.npy").exists()


def test_uids_of_sixteen_bytes_are_those_of_their_digits(tmp_path):
    """Of a file of rows, and of the file beside an archive."""
    pyarrow = pytest.importorskip("pyarrow")
    numbers = [2**100 + 7, 2**127 + 9]
    for shard, words in enumerate(("a red ball", "a ball")):
        uid = pyarrow.array([numbers[shard].to_bytes(16)], pyarrow.binary(16))
        columns = {"key": ["0"], "uid": uid, "candidate": [words]}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / f"{shard}.parquet")
    with tarfile.open(tmp_path / "1.tar", "w") as tar:
        member = tarfile.TarInfo("0.txt")
        member.size = len(b"a ball")
        tar.addfile(member, io.BytesIO(b"a ball"))
    given = ["--metrics", "length", "--input", str(tmp_path / "{0.parquet,1.tar}"), "--output"]
    given += [str(tmp_path / "out"), "--keep-top", "1", "--uids", str(tmp_path / "u.npy")]
    assert main(given) == 0
    assert np.load(tmp_path / "u.npy").tolist() == [(2**36, 7), (2**63, 9)]


def test_a_damaged_file_of_scores_says_how_to_have_it_again(tmp_path):
    write_rows(tmp_path / "in" / "0.jsonl")
    before, _ = kept(tmp_path, "--keep-top", "0.3")
    scores = tmp_path / "out" / "0.parquet"
    scores.write_bytes(bytes(scores.stat().st_size))  # of the size that is noted
    with pytest.raises(
        DataError, match=r"no scores of length can be read .*; delete it, and the same command"
    ) as error:
        kept(tmp_path, "--keep-top", "0.3")
    assert "\n" not in str(error.value)
    scores.unlink()
    assert kept(tmp_path, "--keep-top", "0.3")[0] == before


@pytest.mark.parametrize(("count", "share", "expected"), [(100, 0.29, 29), (50_000_000, 0.57, 28_500_000)])
def test_a_share_is_reckoned_as_by_hand(count, share, expected):
    assert share_of(count, share) == expected
