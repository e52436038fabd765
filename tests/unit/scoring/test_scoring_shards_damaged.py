"""Damaged sets of img2dataset through the command: all that is whole is scored, the rest is named."""

import io
import json
import re
import tarfile

import numpy as np
import pytest

from suisei.cli import run_command
from suisei.commands.score import main
from suisei.errors import DataError, UnavailableError
from tests.unit.scoring.shard_runs import CAPTION, run, samples, table, write_tar

pyarrow = pytest.importorskip("pyarrow")
KEEP = ("--keep-top", "1", "--keep-by", "length", "--uids")


def plain_tar(path, first, count=3, **more):
    """An archive whose uids stand in the Parquet beside it; ``more`` are members of the first sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number in range(first, first + count):
            members = {"txt": CAPTION.encode(), "json": b'{"references": ["a ball"]}'}
            for kind, content in (members | (more if number == first else {})).items():
                if content is not None:
                    info = tarfile.TarInfo(f"{number}.{kind}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return path


def write_uids(path, first, count=3):
    numbers = range(first, first + count)
    columns = {"key": [str(number) for number in numbers], "uid": [f"{number:032x}" for number in numbers]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def summary(folder):
    return json.loads((folder / "s.json").read_text())


@pytest.fixture
def uids_beside(tmp_path):
    """Two archives, of which the second has a damaged Parquet beside it."""
    for shard in range(2):
        plain_tar(tmp_path / "in" / f"{shard:05d}.tar", 10 * shard)
        write_uids(tmp_path / "in" / f"{shard:05d}.parquet", 10 * shard)
    beside = tmp_path / "in" / "00001.parquet"
    beside.write_bytes(beside.read_bytes()[:-20])
    return tmp_path


def test_damaged_uids_cost_no_score(uids_beside, capsys):
    found = run(uids_beside, "--summary", str(uids_beside / "s.json"), shards="*.tar")
    rows = table(found["00001"])
    assert [(row["uid"], row["length"], row["error"]) for row in rows] == [(None, 0.6, None)] * 3
    assert [row["uid"] for row in table(found["00000"])] == [f"{number:032x}" for number in range(3)]
    (reason,) = summary(uids_beside)["unread_uids"].values()
    assert reason.startswith(f"the uids of {uids_beside / 'in' / '00001.parquet'} cannot be read")
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"\x10\0\0\0PAR1"])
def test_no_damage_to_uids_costs_a_score(uids_beside, content):
    (uids_beside / "in" / "00001.parquet").write_bytes(content)
    assert [row["length"] for row in table(run(uids_beside, shards="*.tar")["00001"])] == [0.6] * 3


def test_a_choice_that_lacks_uids_says_so_until_they_are_back(uids_beside, capsys):
    kept = uids_beside / "u.npy"
    options = (*KEEP, str(kept), "--summary", str(uids_beside / "s.json"))
    run(uids_beside, shards="*.tar")
    for _ in range(2):  # of shards that are finished too
        run(uids_beside, *options, shards="*.tar", status=1)
        assert [int(uid["f1"]) for uid in np.load(kept)] == [0, 1, 2]
        assert summary(uids_beside)["kept"]["unnamed_in"] == {str(uids_beside / "out" / "00001.parquet"): 3}
    assert f"(in {uids_beside / 'out' / '00001.parquet'}; " in capsys.readouterr().err
    write_uids(uids_beside / "in" / "00001.parquet", 10)
    run(uids_beside, *options, shards="*.tar")
    assert [int(uid["f1"]) for uid in np.load(kept)] == [0, 1, 2, 10, 11, 12]
    assert summary(uids_beside)["unread_uids"] == {}


def test_where_no_uid_can_be_read_it_says_why(uids_beside, capsys):
    more = ("--summary", str(uids_beside / "s.json"))
    with pytest.raises(DataError, match="no sample has both a score and a uid"):
        run(uids_beside, *KEEP, str(uids_beside / "u.npy"), *more, shards="00001.tar")
    assert re.search(r"the uids of .*00001\.parquet cannot be read", capsys.readouterr().err)
    assert len(table(uids_beside / "out" / "00001.parquet")) == 3
    assert summary(uids_beside)["rows"] == 3
    assert "kept" not in summary(uids_beside)


def test_uids_that_take_pyarrow_are_missed_aloud_and_read_once_it_is_there(uids_beside, capsys, monkeypatch):
    write_uids(uids_beside / "in" / "00001.parquet", 10)
    kept = uids_beside / "u.npy"

    def absent(_):
        raise UnavailableError("no pyarrow")

    with monkeypatch.context() as patch:
        patch.setattr("suisei.data.beside_uids.import_pyarrow", absent)
        with pytest.raises(DataError, match="no sample has both"):
            run(uids_beside, *KEEP, str(kept), shards="*.tar")
    assert "pip install 'suisei[parquet]'" in capsys.readouterr().err
    run(uids_beside, *KEEP, str(kept), shards="*.tar")
    assert [int(uid["f1"]) for uid in np.load(kept)] == [0, 1, 2, 10, 11, 12]


def test_scores_of_before_stay_finished(uids_beside, capsys):
    """Their notes do not say whether uids were read, nor which kinds of rows there are."""
    run(uids_beside, shards="*.tar")
    for path in (uids_beside / "out").glob("*_stats.json"):
        stored = json.loads(path.read_text())
        for name in ("unread_uids", "across", "other", "quoted", "compared", "looked"):
            del stored[name]
        path.write_text(json.dumps(stored))
    capsys.readouterr()
    run(uids_beside, shards="*.tar")
    assert "2 of 2 shards are finished already" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "3", '"x"', "{}", "{"])
def test_a_damaged_file_of_counts_costs_its_shard_another_scoring(uids_beside, content, capsys):
    run(uids_beside, shards="*.tar")
    (uids_beside / "out" / "00000_stats.json").write_text(content)
    capsys.readouterr()
    run(uids_beside, shards="*.tar")
    assert "1 of 2 shards are finished already" in capsys.readouterr().err


def joined(path):
    path.write_bytes(path.read_bytes() + path.with_name("00000.tar").read_bytes())


def cut(path):
    path.write_bytes(path.read_bytes()[: 5 * 1024])


def bad_header(path):
    content = bytearray(path.read_bytes())
    place = content.find(b"12.txt")
    content[place + 100 : place + 108] = b"nonsense"
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "rows", "reason"),
    [(joined, 5, "data after its end mark"), (cut, 2, "cut off"), (bad_header, 1, "damaged")],
)
def test_a_broken_archive_is_named_and_tried_again(folder, damage, rows, reason, capsys):
    damage(folder / "in" / "00001.tar")
    options = ("--summary", str(folder / "s.json"))
    for _ in range(2):
        found = run(folder, *options, status=1)
        assert [len(table(path)) for path in found.values()] == [5, rows, 5]
        assert summary(folder)["scored_now"] in (10 + rows, rows)
        assert reason in summary(folder)["broken_shards"][str(folder / "in" / "00001.tar")]
    said = capsys.readouterr().err
    assert "2 of 3 shards are finished already" in said
    assert "1 shard broken, and scored as far as can be read; the same command tries again:" in said
    assert f"· {folder / 'in' / '00001.tar'}: " in said
    write_tar(folder / "in" / "00001.tar", samples(10))
    assert [len(table(path)) for path in run(folder, *options).values()] == [5, 5, 5]


def test_a_broken_archive_is_said_where_little_is(folder, capsys):
    cut(folder / "in" / "00001.tar")
    given = ["--metrics", "length", "--input", str(folder / "in" / "*.tar"), "--output", str(folder / "out")]
    assert run_command(main, [*given, "--quiet"]) == 1
    assert "cut off" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"txt": b"\xff\xfe"}, "no caption, since .txt is not valid UTF-8"),
        ({"txt": None, "json": None, "jpg": b"x"}, "no caption, since there is neither"),
        ({"txt": None}, "no .txt, and in its .json no column 'candidate'"), ({"txt": b""}, "txt is empty"),
    ],
)  # fmt: skip
def test_a_caption_that_cannot_be_read_costs_its_row(tmp_path, more, error):
    plain_tar(tmp_path / "in" / "00000.tar", 0, **more)
    first, *others = table(run(tmp_path, shards="*.tar")["00000"])
    assert error in first["error"]
    assert (first["length"], [row["length"] for row in others]) == (None, [0.6, 0.6])


BROKEN = "holds a broken character (half of a surrogate pair): '\\ud800'"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"uid": "\ud800"}, f"00000.tar, row 1: uid {BROKEN}"),
        ({"references": ["\ud800"]}, f"00000.tar, row 1: reference 1 {BROKEN}"),
        ({"references": {"\ud800": 1}}, "got dict {'\\ud800': 1}"),
    ],
)
def test_half_of_a_surrogate_pair_in_an_archive_costs_its_row(tmp_path, more, error):
    plain_tar(tmp_path / "in" / "00000.tar", 0, json=json.dumps({"references": ["a ball"], **more}).encode())
    first, *others = table(run(tmp_path, shards="*.tar")["00000"])
    assert error in first["error"]
    assert (first["key"], first["uid"], first["length"]) == ("0", None, None)
    assert [row["length"] for row in others] == [0.6, 0.6]


@pytest.mark.parametrize(
    ("more", "error", "uid"),
    [
        ({"uid": "\ud800"}, f"0.jsonl, row 1: uid {BROKEN}", None),
        ({"uid": "\ud800", "references": 7}, "references must be", None),
        ({"system": "\ud800"}, f"0.jsonl, row 1: system {BROKEN}", "u"),
        ({"candidate": None, "a \ud800": 1}, "candidate is empty", "u"),
        ({"references": {"\ud800": 1}}, "got dict {'\\ud800': 1}", "u"),
    ],
)
def test_half_of_a_surrogate_pair_in_a_file_of_rows_costs_its_row(tmp_path, more, error, uid):
    good = {"candidate": CAPTION, "references": ["a ball"], "uid": "u"}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text(f"{json.dumps({**good, **more})}\n{json.dumps(good)}\n")
    first, second = table(run(tmp_path, shards="*.jsonl")["0"])
    assert error in first["error"]
    assert (first["uid"], first["length"]) == (uid, None)
    assert (second["uid"], second["length"], second["error"]) == ("u", 0.6, None)


def test_half_of_a_surrogate_pair_in_the_name_of_a_column_costs_its_row(tmp_path):
    plain_tar(tmp_path / "in" / "00000.tar", 0, txt=None, json=b'{"\\ud800": 1}')
    first, *others = table(run(tmp_path, shards="*.tar")["00000"])
    assert "the columns are \\ud800. Name" in first["error"]
    assert [row["length"] for row in others] == [0.6, 0.6]


@pytest.mark.parametrize("language", ["de", "EN", "en-US", "", 7, ["en"], {"a": 1}, None])
@pytest.mark.parametrize("column", ["language", "LANGUAGE", "lang"])
def test_an_unknown_language_of_the_web_counts_as_not_stated(tmp_path, language, column):
    more = {"json": json.dumps({column: language, "references": ["a ball"]}).encode()}
    plain_tar(tmp_path / "in" / "00000.tar", 0, **more)
    first, second, _ = table(run(tmp_path, shards="*.tar")["00000"])
    assert first["error"] is None
    assert (first["length"], first["unigram-f1"]) == (second["length"], second["unigram-f1"])


def test_a_known_language_is_taken(tmp_path):
    more = {"json": json.dumps({"language": "ja", "references": ["a ball"]}).encode()}
    plain_tar(tmp_path / "in" / "00000.tar", 0, **more)
    first, second, _ = table(run(tmp_path, shards="*.tar")["00000"])
    assert first["length"] != second["length"]


def test_what_is_no_image_is_said_without_an_address_in_memory(tmp_path):
    """By whoever decodes it: the model in the package."""
    plain_tar(tmp_path / "in" / "00000.tar", 0, jpg=b"no image at all", json=b"{}")
    out = tmp_path / "out"
    given = ["--metrics", "suisei", "--input", str(tmp_path / "in" / "*.tar"), "--output", str(out)]
    assert main(given) == 0
    error = table(out / "00000.parquet")[0]["error"]
    assert "00000.tar/0.jpg: not an image that can be read (it has no format of an image)" in error
    assert " object at 0x" not in error


def test_a_parquet_shard_with_values_that_cannot_be_read_stops_no_other(tmp_path):
    """A time zone that is none: of a column that nobody uses it costs nothing, of a used one its rows."""
    odd = pyarrow.array([1, 2], pyarrow.timestamp("us", tz="Mars/Base"))
    (tmp_path / "in").mkdir()
    for number, names in enumerate((["when"], ["system"], [])):
        columns = {"candidate": [CAPTION] * 2, "references": [[CAPTION]] * 2, **dict.fromkeys(names, odd)}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "in" / f"{number}.parquet")
    found = run(tmp_path, shards="*.parquet")
    assert [[row["length"] for row in table(path)] for path in found.values()] == [
        [0.6, 0.6], [None, None], [0.6, 0.6]
    ]  # fmt: skip
    assert "system cannot be read as timestamp[us, tz=Mars/Base]" in table(found["1"])[0]["error"]
