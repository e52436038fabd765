"""Ids that lost their leading zeros: systems are joined by them, and of references it is told."""

import pytest

from suisei.data.formats import read_samples
from suisei.data.system_outputs import load_systems
from suisei.errors import DataError
from tests.unit.data.row_files import lines, save

IDS = ["098", "099", "100", "101"]


def system(folder, name, ids, kind="id", **also):
    """Write captions that say their id, with one more column of each of ``also``."""
    rows = [{kind: each, "candidate": f"{name} {each}"} for each in ids]
    for other, values in also.items():
        rows = [{**row, other: value} for row, value in zip(rows, values, strict=True)]
    return str(lines(folder / f"{name}.jsonl", *rows))


def test_ids_that_lost_their_leading_zeros_are_joined_and_said(tmp_path):
    a = system(tmp_path, "a", IDS)
    b = system(tmp_path, "b", [name.lstrip("0") for name in reversed(IDS)])
    for files in ([a, b], [b, a]):
        systems = load_systems(files)
        assert set(systems.keys) == set(IDS)
        for name in "ab":
            said = [sample.candidate.split()[1].zfill(3) for sample in systems.samples[name]]
            assert said == list(systems.keys)
    said = "names (id) that differ in leading zeros alone are joined: '99' in b and '099' in a"
    assert said in systems.notes


def test_groups_of_several_systems_that_lost_their_leading_zeros_are_joined_in_any_order(tmp_path):
    bare = [name.lstrip("0") for name in IDS]
    a = system(tmp_path, "a", IDS, "group")
    b, c = system(tmp_path, "b", bare[::-1], "group"), system(tmp_path, "c", bare, "group")
    for files in ([a, b, c], [b, a, c], [b, c, a]):
        systems = load_systems(files)
        assert set(systems.keys) == set(IDS)
        assert "systems are joined by group" in systems.notes


def test_only_names_that_join_the_systems_are_said_to_differ_in_zeros(tmp_path):
    bare, groups = [name.lstrip("0") for name in IDS], list("wxyz")
    files = [system(tmp_path, name, own, group=groups) for name, own in (("a", IDS), ("b", bare))]
    by_line = tmp_path / "refs.txt"
    by_line.write_text("one\ntwo\nthree\nfour\n")
    for systems in (load_systems(files), load_systems(files, references=[by_line])):
        assert any("joined" in note for note in systems.notes)
        assert not any("zeros" in note for note in systems.notes)


def test_ids_that_leading_zeros_alone_tell_apart_stay_as_they_are(tmp_path):
    a = system(tmp_path, "a", ["98", "99", "100"])
    b = system(tmp_path, "b", ["99", "099", "100"])
    systems = load_systems([a, b])
    assert set(systems.keys) == {"99", "100"}
    assert not any("zeros" in note for note in systems.notes)


def test_ids_of_systems_without_the_leading_zeros_of_the_references_are_told(tmp_path):
    files = [system(tmp_path, name, [each.lstrip("0") for each in IDS]) for name in "ab"]
    some = load_systems(files, references=[save(tmp_path / "refs.json", {name: ["r"] for name in IDS})])
    assert some.keys == ("100", "101")
    hint = "'98' differs from '098' in leading zeros alone; write ids alike in both"
    assert any(
        f"no reference for 2 of 4 images (98, 99): left out for all systems; {hint}" in n for n in some.notes
    )
    with pytest.raises(DataError, match=rf"a: none of its 4 rows .*\({hint}, and read them as text"):
        load_systems(files, references=[save(tmp_path / "refs.json", {"098": ["r"], "099": ["r"]})])


def test_ids_of_rows_that_differ_from_those_of_the_references_in_leading_zeros_are_told(tmp_path):
    rows = lines(tmp_path / "rows.jsonl", *({"id": n, "candidate": "x"} for n in ("100", "50", "7", "8")))
    notes = []
    references = save(tmp_path / "refs.json", {"007": ["a"], "008": ["b"], "100": ["c"]})
    samples = read_samples(rows, references=[references], note=notes.append)
    assert [sample.references for sample in samples] == [("c",), (), (), ()]
    hint = "'7' differs from '007' in leading zeros alone; write ids alike in both"
    assert any(f"no references for 3 rows (the first: row 2, '50'); {hint}" in note for note in notes)
    references = save(tmp_path / "refs.json", {"007": ["a"], "008": ["b"]})
    with pytest.raises(
        DataError, match=rf"the rows have id such as '100' \({hint}.*; or --column group=NAME"
    ):
        read_samples(rows, references=[references], note=str)
    references = save(tmp_path / "refs.json", {"x7": ["a"], "009": ["b"]})
    with pytest.raises(DataError, match=r"the rows have id such as '100' \(--column group=NAME"):
        read_samples(rows, references=[references], note=str)
