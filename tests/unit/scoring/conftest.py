"""Three shards of five captions each."""

import pytest

from tests.unit.scoring.shard_runs import samples, write_tar


@pytest.fixture
def folder(tmp_path):
    for shard in range(3):
        write_tar(tmp_path / "in" / f"{shard:05d}.tar", samples(10 * shard))
    return tmp_path
