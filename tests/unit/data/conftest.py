"""Files for the tests of this folder."""

import gzip
import json

import pytest


@pytest.fixture
def save(tmp_path):
    """Return what writes a file, given its name and what stands in it, and says its path."""

    def write(name, content):
        path = tmp_path / name
        if name.endswith((".jsonl", ".jsonl.gz")):
            content = "".join(json.dumps(row) + "\n" for row in content)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write
