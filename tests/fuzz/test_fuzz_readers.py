"""A few inputs of every reader in each run of the tests; python -m tests.fuzz tries as many as one likes."""

import json
import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suisei.data.formats import iter_rows
from tests.fuzz import mutations
from tests.fuzz.engine import Campaign, attempt, make_input, prepared
from tests.fuzz.limits import TooSlow, limited_time
from tests.fuzz.readers import Reader, iter_readers

INPUTS = {"model": 25, "dual": 8, "settings": 4, "report": 30, "video": 20, "checkpoint": 60, "gzip": 60}
"""Of the slow ones; of others more."""
FOUND = Path(__file__).parent / "found"
READERS = dict(iter_readers())


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """Each reader with its seeds, made once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = prepared(READERS[name], tmp_path_factory.mktemp(name))
        return made[name]

    return get


@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused(name, ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seeds, read = ready(name)
    for number in range(INPUTS.get(name, 150)):
        data = make_input(READERS[name], seeds, name, 7, number)
        _, problem, told = attempt(read, data)
        assert problem is None, f"input {number} ({data[:200]!r}): {told}"


@pytest.mark.parametrize("name", READERS)
def test_what_is_changed_was_valid(name, ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seeds, read = ready(name)
    assert any(attempt(read, data)[0] for data in seeds)


@pytest.mark.parametrize(
    "path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_what_once_crashed_is_refused(path, ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, read = ready(path.parent.name)
    _, problem, told = attempt(read, path.read_bytes())
    assert problem is None, told


FIELDS = (
    "id candidate references reference_1 image video segment rating rating_scale language system group "
    "mt src ref score caption captions image_id"
)
NAMES = st.sampled_from(FIELDS.split())
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3)
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=6), min_size=1, max_size=4))
def test_a_row_comes_out_for_every_row_that_goes_in(tmp_path, records):
    path = tmp_path / "rows.jsonl"
    path.write_bytes("".join(json.dumps(r) + "\n" for r in records).encode("utf-8", "surrogatepass"))
    rows = list(iter_rows(path, note=len))
    assert [row.number for row in rows] == list(range(1, len(records) + 1))
    assert all((row.sample is None) != (row.error is None) for row in rows)
    assert all("\n" not in str(row.error) for row in rows if row.error is not None)


def test_a_changed_value_never_holds_itself_and_changes_no_other():
    before = repr(mutations.VALUES)
    random, value = Random(1), {"a": {"b": [1, {"c": 2}]}, "d": ["x", {}]}
    for _ in range(20_000):
        json.dumps(mutations.change_value(random, value))
    assert repr(mutations.VALUES) == before


def test_a_defect_is_found_told_apart_and_kept(tmp_path):
    def prepare(folder):
        def read(data):
            if data.startswith(b"a"):
                raise ZeroDivisionError("one" if len(data) > 3 else "other")
            while data.startswith(b"s"):
                pass

        return [b"fine", b"abcd", b"abc"], read

    campaign = Campaign("toy", Reader(prepare, lambda random, data: data, 1), tmp_path / "s", tmp_path / "k")
    tally = campaign.run(30, until=1e12)
    assert tally.inputs == 30
    assert next(iter(tally.crashes)).startswith("ZeroDivisionError at test_fuzz_readers.py:read")
    assert tally.results + sum(tally.crashes.values()) == 30
    kept = list((tmp_path / "k" / "crashes" / "toy").glob("*[!.txt]"))
    assert [path.read_bytes() for path in kept] == [b"abc"]
    again = Campaign("toy", Reader(prepare, lambda random, data: data, 1), tmp_path / "s", tmp_path / "k")
    assert again.run(31, until=1e12).inputs == 31


def test_a_process_that_ends_costs_one_input(tmp_path):
    def prepare(folder):
        return _later([b"fine", b"die", b"fine"], lambda data: os._exit(9) if data == b"die" else None)

    campaign = Campaign("toy", Reader(prepare, lambda random, data: data, 1), tmp_path / "s", tmp_path / "k")
    tally = campaign.run(3, until=1e12)
    assert tally.inputs == 3
    assert tally.crashes == {"the process ended with 9": 1}
    kept = list((tmp_path / "k" / "crashes" / "toy").glob("*[!.txt]"))
    assert [path.read_bytes() for path in kept] == [b"die"]


def _later(seeds, read):
    """Let a reader do nothing while it is prepared."""
    calls = []

    def late(data):
        calls.append(data)
        return read(data) if len(calls) > 2 * len(seeds) else None

    return seeds, late


def without_end():
    while True:  # not in one call of C, which no signal of Python's ends
        pass


def test_time_is_limited():
    with pytest.raises(TooSlow), limited_time(0.05):
        without_end()
    with limited_time(5):
        pass
