"""Finished work of an examination, kept for the next start."""

import pytest

from suisei.examination.kept import Kept


def test_finished_work_is_kept_until_what_decides_it_changes(tmp_path):
    made = []

    def make():
        made.append(True)
        return {"number": len(made)}

    kept = Kept(tmp_path / "kept")
    assert kept.get("a/b", "d1", make) == {"number": 1}
    assert Kept(tmp_path / "kept").get("a/b", "d1", make) == {"number": 1}
    assert kept.get("a b", "d1", make) == {"number": 2}  # another name, though the file names are alike
    assert kept.get("a/b", "d2", make) == {"number": 3}
    for path in (tmp_path / "kept").iterdir():
        path.write_text("{broken")
    assert kept.get("a/b", "d2", make) == {"number": 4}
    assert kept.reused == 0


def test_what_names_a_path_of_any_bytes_is_kept(tmp_path):
    found = {"refused": [[0, "/r\udcff/犬.jpg: cannot be read"]]}
    assert Kept(tmp_path).get("a", "d", lambda: found) == found
    assert Kept(tmp_path).get("a", "d", lambda: pytest.fail("made again")) == found


def test_failures_are_tried_again(tmp_path):
    kept = Kept(tmp_path)
    assert kept.get("a", "d", lambda: {"error": "no memory"}) == {"error": "no memory"}
    assert kept.get("a", "d", lambda: {"number": 1}) == {"number": 1}
