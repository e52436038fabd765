"""The part file of scores: one writer, whole rows kept, and nothing taken that is not ours."""

import json

import pytest

from suisei.errors import ConfigError
from suisei.scoring.output import FileOutput
from suisei.scoring.stream import ScoredRow

SIGNATURES = {"m": "m|1"}


def scored(*numbers):
    return [ScoredRow(n, n, {"m": n / 8}, digest=f"{n:016x}") for n in numbers]


def begun(path, *numbers):
    output = FileOutput(path, SIGNATURES)
    output.write(scored(*numbers))
    output.close()


def test_two_runs_do_not_write_one_part_file(tmp_path):
    path = tmp_path / "o.jsonl"
    first = FileOutput(path, SIGNATURES)
    with pytest.raises(ConfigError, match="another run is writing"):
        FileOutput(path, SIGNATURES)
    first.write(scored(1))
    for resume in (True, False):
        with pytest.raises(ConfigError, match="another run is writing"):
            FileOutput(path, SIGNATURES, resume=resume)
    first.close()
    with pytest.raises(ConfigError, match="is left from a run that was cut off"):
        FileOutput(path, SIGNATURES)
    first = FileOutput(path, SIGNATURES, resume=True)
    assert len(list(first.finished())) == 1
    first.complete()
    assert [item.name for item in tmp_path.iterdir()] == ["o.jsonl"]
    assert path.read_text() == '{"id": 1, "m": 0.125}\n'


def test_rows_whose_digests_are_lost_are_scored_again(tmp_path):
    path, note = tmp_path / "o.csv", tmp_path / "o.csv.part.json"
    output = FileOutput(path, SIGNATURES)
    for block in (scored(1), scored(2, 3)):
        output.write(block)
    output.close()
    whole = (tmp_path / "o.csv.part").read_bytes()
    note.write_bytes(note.read_bytes()[:-20])  # the last digest, and a piece of the one before
    again = FileOutput(path, SIGNATURES, resume=True)
    assert [record["id"] for record in again.finished()] == ["1"]
    again.write(scored(2, 3))
    again.close()
    assert (tmp_path / "o.csv.part").read_bytes() == whole
    assert note.read_text().splitlines()[1:] == [f"{1:016x}", f"{2:016x} {3:016x}"]


@pytest.mark.parametrize(
    "note", [None, "", "{", "[]", '{"m": "m|1"}', '{"part": 2, "signatures": {"m": "m|1"}}']
)
def test_a_part_file_without_a_whole_note_is_refused_and_kept(tmp_path, note):
    path = tmp_path / "o.jsonl"
    begun(path, 1, 2)
    before = (tmp_path / "o.jsonl.part").read_bytes()
    (tmp_path / "o.jsonl.part.json").unlink()
    if note is not None:
        (tmp_path / "o.jsonl.part.json").write_text(note)
    with pytest.raises(ConfigError, match="nothing says what the part file was scored from"):
        list(FileOutput(path, SIGNATURES, resume=True).finished())
    assert (tmp_path / "o.jsonl.part").read_bytes() == before


def test_a_full_disk_keeps_whole_rows(tmp_path, monkeypatch):
    path = tmp_path / "o.jsonl"
    output = FileOutput(path, SIGNATURES)
    output.write(scored(1))
    real = output._handle.write
    room = [10]

    class Full:
        closed = False

        def __getattr__(self, name):
            return getattr(output_handle, name)

        def write(self, content):
            if not room:
                raise OSError(28, "No space left on device")
            return real(bytes(content)[: room.pop()])

    output_handle = output._handle
    output._handle = Full()
    with pytest.raises(Exception, match=r"o\.jsonl\.part: cannot be written: No space left"):
        output.write(scored(2))
    output.close()
    output_handle.close()
    again = FileOutput(path, SIGNATURES, resume=True)
    assert [record["id"] for record in again.finished()] == [1]
    again.write(scored(2))
    again.complete()
    assert [json.loads(line)["m"] for line in path.read_text().splitlines()] == [0.125, 0.25]


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "o.jsonl"
    link.symlink_to(tmp_path / "far" / "scores.jsonl")
    output = FileOutput(link, SIGNATURES)
    output.write(scored(1))
    assert (tmp_path / "far" / "scores.jsonl.part").is_file()
    output.complete()
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["scores.jsonl"]


def test_a_part_that_is_no_file_of_ours_is_left_alone(tmp_path):
    path = tmp_path / "o.jsonl"
    victim = tmp_path / "victim.jsonl"
    victim.write_bytes(b"precious\n")
    (tmp_path / "o.jsonl.part").symlink_to(victim)
    for resume in (False, True):
        with pytest.raises(ConfigError, match="not a file that an earlier run left"):
            FileOutput(path, SIGNATURES, resume=resume)
    assert victim.read_bytes() == b"precious\n"
