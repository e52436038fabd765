"""A finished part file as gzip and Parquet: whole or not at all, and the same bytes every time."""

import gzip
import math

import pyarrow.parquet
import pytest

from suisei.errors import ConfigError, DataError
from suisei.scoring import publish as publishing
from suisei.scoring.output import FileOutput, noted_window, output_format
from suisei.scoring.stream import ScoredRow

SIGNATURES = {"m": "m|1", "n": "n|1"}


def row(number, score=0.5, error=None):
    scores = {"m": score, "n": math.nan if error else 0.1}
    return ScoredRow(number, f"犬{number}", scores, {"n": error} if error else {}, digest=f"{number:016x}")


def write(path, *blocks, resume=False):
    output = FileOutput(path, SIGNATURES, resume=resume, window=2)
    done = len(list(output.finished()))
    for block in blocks[done // 2 :]:
        output.write(block)
    return output


BLOCKS = ([row(1), row(2, 1 / 3)], [row(3, 0.25, "no references"), row(4)])


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_a_compressed_file_holds_what_the_plain_one_does(tmp_path, suffix):
    for name in (f"s{suffix}", f"s{suffix}.gz", f"again{suffix}.gz"):
        write(tmp_path / name, *BLOCKS).complete()
    assert (
        gzip.decompress((tmp_path / f"s{suffix}.gz").read_bytes()) == (tmp_path / f"s{suffix}").read_bytes()
    )
    assert (tmp_path / f"s{suffix}.gz").read_bytes() == (tmp_path / f"again{suffix}.gz").read_bytes()
    assert (tmp_path / f"s{suffix}.gz").read_bytes()[4:8] == bytes(4)  # where gzip keeps a time
    assert len(list(tmp_path.iterdir())) == 3


def test_a_parquet_file_has_types_and_nulls(tmp_path, monkeypatch):
    monkeypatch.setattr(publishing, "GROUP", 3)
    write(tmp_path / "s.parquet", *BLOCKS).complete()
    table = pyarrow.parquet.read_table(tmp_path / "s.parquet")
    assert [str(field.type) for field in table.schema] == ["string", "double", "double", "string"]
    assert table.column("id").to_pylist() == ["犬1", "犬2", "犬3", "犬4"]
    assert table.column("m").to_pylist() == [0.5, 1 / 3, 0.25, 0.5]
    assert table.column("n").to_pylist() == [0.1, 0.1, None, 0.1]
    assert table.column("error").to_pylist() == [None, None, "n: no references", None]
    assert pyarrow.parquet.ParquetFile(tmp_path / "s.parquet").num_row_groups == 2
    assert [path.name for path in tmp_path.iterdir()] == ["s.parquet"]


class DiedError(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize("name", ["s.jsonl.gz", "s.parquet"])
@pytest.mark.parametrize("place", ["before it is renamed", "after it is renamed"])
def test_a_run_that_dies_while_it_publishes_goes_on(tmp_path, monkeypatch, name, place):
    write(tmp_path / f"whole-{name}", *BLOCKS).complete()
    path = tmp_path / name
    output = write(path, *BLOCKS)
    real = type(path).replace

    def replace(self, target):
        if place.startswith("after"):
            real(self, target)
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "replace", replace)
        with pytest.raises(DiedError):
            output.complete()
    output._handle.close()
    assert (tmp_path / f"{name}.part").exists()
    assert path.exists() == place.startswith("after")
    write(path, *BLOCKS, resume=True).complete()
    assert path.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, f"whole-{name}"])


@pytest.mark.parametrize("name", ["s.jsonl.gz", "s.parquet"])
def test_what_cannot_be_renamed_leaves_the_rows_alone(tmp_path, name):
    output = write(tmp_path / name, *BLOCKS)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="--resume goes on"):
        output.complete()
    output._handle.close()
    assert (tmp_path / f"{name}.part").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".whole")]


def test_what_is_no_format_is_refused(tmp_path):
    assert output_format(tmp_path / "s.tsv.gz") == "tsv"
    for name in ("s.parquet.gz", "s.gz", "s.xlsx"):
        with pytest.raises(ConfigError, match="scores are written to"):
            output_format(tmp_path / name)


def test_the_rows_of_a_block_are_noted(tmp_path):
    assert noted_window(tmp_path / "s.jsonl") is None
    write(tmp_path / "s.jsonl", BLOCKS[0]).close()
    assert noted_window(tmp_path / "s.jsonl") == 2
    (tmp_path / "s.jsonl.part.json").write_text("[]\n")
    assert noted_window(tmp_path / "s.jsonl") is None
