"""Fixtures that every test may use."""

import os
import random
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # before torch is imported: workers must not fight for the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.setdefault("SUISEI_CACHE", "off")  # tests of the cache give a folder of their own
os.environ.setdefault("SUISEI_PRECISION", "fp32")  # on every machine; tests of precision name others

REPOSITORY = Path(__file__).resolve().parent.parent


def _seed(name: str) -> None:
    """Random weights and draws are the same in every run, in any order, and others in every test."""
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (what libraries draw from)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> None:
    _seed(f"{fixturedef.baseid}::{fixturedef.argname}{getattr(request, 'param_index', '')}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    _seed(item.nodeid)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real rating data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("SUISEI_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set SUISEI_SHARED to run this test")
    return folder
