"""Score files: formats, the part file, and what a killed run leaves."""

import csv
import json
import math
from dataclasses import replace

import pytest

from suisei.errors import ConfigError, DataError
from suisei.scoring.digest import BAD_ROW
from suisei.scoring.output import FileOutput, RowFormat, StreamOutput
from suisei.scoring.stream import ScoredRow

SIGNATURES = {"bleu-4": "bleu-4|tok:x", "suisei": "suisei|model:1"}


def row(number, bleu=0.25, suisei=1 / 3, identifier=None, **more):
    return ScoredRow(number, identifier or number, {"bleu-4": bleu, "suisei": suisei}, **more)


ROWS = [
    row(1),
    row(2, math.nan, 0.1, 'a "quoted"\nid, with, commas\t', errors={"bleu-4": "no references"}),
    row(3, math.nan, math.nan, '5" 三', bad="candidate is empty"),
]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_rows_come_back_exactly(tmp_path, suffix):
    output = FileOutput(tmp_path / f"s{suffix}", SIGNATURES)
    output.write(ROWS)
    output.close()
    again = FileOutput(tmp_path / f"s{suffix}", SIGNATURES, resume=True)
    found = list(again.finished())
    again.complete()
    assert [str(record["id"]) for record in found] == [str(r.id) for r in ROWS]
    assert [record["error"] for record in found] == [None, "bleu-4: no references", "candidate is empty"]
    for record, expected in zip(found, ROWS, strict=True):
        assert list(record["scores"].values()) == pytest.approx(
            list(expected.scores.values()), abs=0, rel=0, nan_ok=True
        )


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path):
    path = tmp_path / "s.csv"
    output = FileOutput(path, SIGNATURES)
    output.write(ROWS)
    assert not path.exists()
    assert len(list(csv.reader((tmp_path / "s.csv.part").open(newline="")))) == 4  # written out at once
    output.complete()
    assert [p.name for p in tmp_path.iterdir()] == ["s.csv"]


def test_a_part_file_is_not_overwritten_without_resume(tmp_path):
    output = FileOutput(tmp_path / "s.jsonl", SIGNATURES)
    output.write(ROWS)
    output.close()
    with pytest.raises(ConfigError, match="--resume"):
        FileOutput(tmp_path / "s.jsonl", SIGNATURES)


def test_a_run_that_wrote_nothing_leaves_nothing(tmp_path):
    FileOutput(tmp_path / "s.csv", SIGNATURES).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_resuming_after_a_kill_at_any_byte_keeps_the_whole_blocks(tmp_path, suffix):
    """A block that was being written is scored again as a whole: its rows meet in the same batches."""
    path = tmp_path / f"s{suffix}"
    part = tmp_path / f"s{suffix}.part"
    output = FileOutput(path, SIGNATURES)
    blocks = [ROWS[:1], ROWS[1:]]
    for block in blocks:
        output.write(block)
    output.close()
    whole = part.read_bytes()
    form = RowFormat(suffix[1:], list(SIGNATURES))
    ends = [len((form.header() + form.lines(ROWS[:count])).encode()) for count in range(4)]
    assert ends[-1] == len(whole)
    for cut in range(len(whole) + 1):
        part.write_bytes(whole[:cut])
        again = FileOutput(path, SIGNATURES, resume=True)
        rows = len(list(again.finished()))
        assert rows == (3 if cut >= ends[3] else 1 if cut >= ends[1] else 0)
        assert rows == again.rows
        for block in blocks[rows:] if rows < 2 else []:
            again.write(block)
        again.close()
        assert part.read_bytes() == whole


def test_resuming_with_other_metrics_is_refused(tmp_path):
    output = FileOutput(tmp_path / "s.jsonl", SIGNATURES)
    output.write(ROWS)
    output.close()
    with pytest.raises(ConfigError, match=r"scored with bleu-4\|tok:x, suisei\|model:1"):
        FileOutput(tmp_path / "s.jsonl", {**SIGNATURES, "suisei": "suisei|model:2"}, resume=True)
    (tmp_path / "s.jsonl.part.json").unlink()
    with pytest.raises(ConfigError, match="missing or damaged"):
        FileOutput(tmp_path / "s.jsonl", SIGNATURES, resume=True)


def test_a_damaged_part_file_is_named_with_its_row(tmp_path):
    output = FileOutput(tmp_path / "s.jsonl", SIGNATURES)
    output.write(ROWS)
    output.close()
    part = tmp_path / "s.jsonl.part"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text(lines[0] + "{}\n" + lines[2])
    with pytest.raises(DataError, match="row 2 is not a row of scores"):
        list(FileOutput(tmp_path / "s.jsonl", SIGNATURES, resume=True).finished())


def test_an_unknown_suffix_lists_the_valid_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"\.jsonl, \.csv, \.tsv"):
        FileOutput(tmp_path / "s.xlsx", SIGNATURES)


def test_a_stream_gets_json_lines(capsys):
    StreamOutput(list(SIGNATURES)).write(ROWS)
    first, second, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"id": 1, "bleu-4": 0.25, "suisei": 1 / 3}
    assert second["bleu-4"] is None
    assert second["error"] == "bleu-4: no references"


def test_rows_after_a_cut_have_digests_of_their_own(tmp_path):
    path = tmp_path / "s.jsonl"
    blocks = [[replace(own, digest=str(number) * len(BAD_ROW))] for number, own in enumerate(ROWS, 1)]
    output = FileOutput(path, SIGNATURES)
    for block in blocks[:2]:
        output.write(block)
    output.close()
    part = tmp_path / "s.jsonl.part"
    part.write_bytes(part.read_bytes()[:-1])  # the second row is not whole, its digest is
    output = FileOutput(path, SIGNATURES, resume=True)
    assert len(list(output.finished())) == 1
    output.write(blocks[2])
    output.close()
    again = FileOutput(path, SIGNATURES, resume=True)
    assert [record["digest"] for record in again.finished()] == [blocks[n][0].digest for n in (0, 2)]
    again.close()
