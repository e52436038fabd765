"""Patterns, ranges and folders name shards."""

from pathlib import Path

import pytest

from suisei.data.shard_names import is_pattern, shard_paths
from suisei.errors import ConfigError


@pytest.mark.parametrize("folder", ["d[1]", "w?", "a*b", "d[1]/e[2]", "b{1,2}", "b{1..2}/{3,4}"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_folder_whose_name_looks_like_a_pattern_has_shards(tmp_path, monkeypatch, folder, absolute):
    monkeypatch.chdir(tmp_path)
    for there in (folder, "d1", "wx", "d1/e2", "b1", "b1/3"):
        for name in ("0.tar", "1.tar"):
            (tmp_path / there).mkdir(parents=True, exist_ok=True)
            (tmp_path / there / name).touch()
    top = tmp_path / folder if absolute else Path(folder)
    both = [top / "0.tar", top / "1.tar"]
    assert shard_paths(f"{top}/0.tar") == both[:1]
    assert shard_paths(f"{top}/*.tar") == shard_paths(f"{top}/[01].tar") == both
    assert shard_paths(f"{top}/{{0..2}}.tar") == [*both, top / "2.tar"]  # the last is missing, and said so
    assert shard_paths(f"{tmp_path if absolute else '.'}/d[0-9]/0.tar") == [
        (tmp_path if absolute else Path()) / "d1" / "0.tar"
    ]


def test_a_folder_that_a_range_leads_to_is_the_one_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for there in ("0/b{1,2}", "1/b1"):  # the first is called so, the second is one that the list names
        (tmp_path / there).mkdir(parents=True)
        (tmp_path / there / "x.tar").touch()
    assert [str(path) for path in shard_paths("{0..1}/b{1,2}/x*.tar")] == ["0/b{1,2}/x.tar", "1/b1/x.tar"]
    (tmp_path / "{3..4}.tar").touch()
    assert [str(path) for path in shard_paths("{3..4}.tar")] == ["{3..4}.tar"]


def test_patterns_name_shards(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a-2.tar", "a-1.tar", "b.tar"):
        (tmp_path / name).touch()
    assert [str(path) for path in shard_paths("s/{08..11}.tar")] == [f"s/{n:02d}.tar" for n in range(8, 12)]
    assert [str(path) for path in shard_paths("{b,a-{2..1}}.tar")] == ["b.tar", "a-2.tar", "a-1.tar"]
    assert [str(path) for path in shard_paths("a-*.tar")] == ["a-1.tar", "a-2.tar"]
    assert [str(path) for path in shard_paths("{a,b}*.tar")] == ["a-1.tar", "a-2.tar", "b.tar"]
    with pytest.raises(ConfigError, match="no file"):
        shard_paths("none-*.tar")
    for pattern in ("{0..99999999}.tar", "{0..9999}/{0..9999}.tar"):
        with pytest.raises(ConfigError, match="more than 1,000,000"):
            shard_paths(pattern)
    (tmp_path / "c[1].jsonl").touch()
    assert [is_pattern(text) for text in ("0.tar", "{0..1}.jsonl", "*.csv", "c[1].jsonl", "x.jsonl")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "numbers"),
    [
        ("{0..11}", "0 1 2 3 4 5 6 7 8 9 10 11"),
        ("{11..9}", "11 10 9"),
        ("{00..11}", "00 01 02 03 04 05 06 07 08 09 10 11"),
        ("{1..03}", "01 02 03"),
        ("{10..0}", "10 9 8 7 6 5 4 3 2 1 0"),
        ("{010..9}", "010 009"),
    ],
)
def test_ranges_have_leading_zeros_where_the_shell_counts_with_them(ends, numbers):
    assert [path.stem for path in shard_paths(f"{ends}.tar")] == numbers.split()
