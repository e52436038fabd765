"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # before torch is imported: workers must not fight for the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("SUISEI_CACHE", "off")  # tests of the cache give a folder of their own
os.environ.setdefault("SUISEI_PRECISION", "fp32")  # on every machine; tests of precision name others

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real rating data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("SUISEI_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set SUISEI_SHARED to run this test")
    return folder
