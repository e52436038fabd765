"""What rows of tables are called."""

import pytest

from suisei.metaeval.labels import short_names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["suisei:x/a/model", "suisei:y/a/model"], ["suisei:x/a", "suisei:y/a"]),
        (["suisei:a/model", "suisei:/z/a/model"], ["suisei:a/model", "suisei:z/a"]),
        (["jaspice:http://h:1/x", "a/b", "cider"], ["jaspice:http://h:1/x", "a/b", "cider"]),
        (["suisei:x/a", "pac-s:x/a"], ["suisei:a", "pac-s:a"]),
    ],
)
def test_short_names_stay_different(labels, names):
    assert list(short_names(labels).values()) == names
