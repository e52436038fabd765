"""The set of ids agrees with Python's, and stays small."""

import random

from suisei.data.idset import IdSet


def test_ids_are_new_once():
    generator = random.Random(0)
    ids, seen, known = IdSet(), set(), 0
    for _ in range(20_000):
        id_ = f"row {generator.randrange(12_000)}"
        assert ids.add(id_) == (id_ not in seen)
        known += id_ in seen
        seen.add(id_)
    assert len(ids) == len(seen)
    assert known > 5_000


def test_ids_whose_hashes_collide_in_the_table_or_are_zero_are_told_apart(monkeypatch):
    import suisei.data.idset

    hashes = {"zero": 0, "one": 1024, "two": 2048, "three": 2, "negative": -2048}
    monkeypatch.setattr(suisei.data.idset, "hash", hashes.get, raising=False)
    ids = IdSet()
    assert [ids.add(name) for name in hashes] == [True] * 5
    assert [ids.add(name) for name in hashes] == [False] * 5


def test_an_id_takes_at_most_32_bytes():
    ids = IdSet()
    for number in range(5000):
        ids.add(str(number))
    assert 16 * 5000 <= ids._slots.itemsize * len(ids._slots) <= 32 * 5000
    assert len(ids) == 5000
