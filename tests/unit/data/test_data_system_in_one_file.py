"""Systems that one file holds, told apart by its rows."""

import pytest

from suisei.data.system_outputs import load_systems
from suisei.errors import ConfigError, DataError
from tests.unit.data.test_data_system_outputs import captions


def test_one_file_names_its_systems(save):
    rows = [
        {"id": f"{system}{image}", "candidate": f"{system} {image}", "system": system, "group": str(image)}
        for system in "ab"
        for image in range(3)
    ]
    systems = load_systems([save("all.jsonl", rows)])
    assert captions(systems) == {"a": ["a 0", "a 1", "a 2"], "b": ["b 0", "b 1", "b 2"]}
    assert any("no image has references" in note for note in systems.notes)
    assert "systems are joined by group" in systems.notes
    with pytest.raises(ConfigError, match=r"1 of its 6 rows name no system"):
        load_systems([save("gap.jsonl", [*rows[:-1], {"id": "z", "candidate": "z"}])])
    with pytest.raises(ConfigError, match="all rows are of system 'a'"):
        load_systems([save("one.jsonl", rows[:3])])
    with pytest.raises(DataError, match="name several systems; give it alone"):
        load_systems([save("all.jsonl", rows), save("b.jsonl", rows[:3])])


def test_what_one_file_of_all_systems_is_refused_for_can_be_mended(save):
    def rows(*named):
        return [{"system": s, **more, "candidate": "x y", "references": ["r"]} for s, more in named]

    apart = [("A", {"id": 1}), ("A", {"id": 2}), ("B", {"id": 2}), ("B", {"id": 1})]
    repeated = "id '2' is used by .*: --column group=id"
    with pytest.raises(DataError, match=repeated):
        load_systems([save("a.jsonl", rows(*apart))])
    assert load_systems([save("a.jsonl", rows(*apart))], columns={"group": "id"}).keys == ("1", "2")
    one, two = {"image_id": "i"}, {"image_id": "j"}
    per_system = "give a file per system, whose rows have an id each"
    for named in ([("A", one), ("A", one), ("B", one), ("B", two)], [("A", one), ("A", one), ("B", one)]):
        with pytest.raises(DataError, match=per_system):
            load_systems([save("b.jsonl", rows(*named, ("A", two), ("B", one)))])
    broken = [*rows(("A", {}), ("B", {})), {"system": "A", "candidate": ""}]
    with pytest.raises(DataError, match=per_system):
        load_systems([save("c.jsonl", broken)], on_error="skip")


def test_rows_that_were_skipped_in_a_file_of_all_systems_keep_them_from_being_joined(save):
    def rows(system, *captions):
        return [{"candidate": text, "references": ["r"], "system": system} for text in captions]

    with pytest.raises(DataError, match="rows were skipped"):
        load_systems([save("all.jsonl", rows("a", "", "x", "y") + rows("b", "x", "y", ""))], on_error="skip")


def test_a_file_of_rows_by_image_id_may_hold_all_systems(save):
    rows = [
        {"image_id": n, "caption": f"{s} {n}", "system": s, "language": "ja"} for s in "ab" for n in (1, 2)
    ]
    systems = load_systems([save("all.jsonl", rows)])
    assert captions(systems) == {"a": ["a 1", "a 2"], "b": ["b 1", "b 2"]}
    assert {sample.language for sample in systems.samples["a"]} == {"ja"}
