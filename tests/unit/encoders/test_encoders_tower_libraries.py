"""Libraries of image towers are imported wherever a tower is made."""

import subprocess
import sys

import pytest

IMPORTED = """
import torch
from suisei.encoders.tower_libraries import tower_library
with torch.device("meta"):
    assert tower_library("{name}").__name__ == "{name}"
    assert torch.ones(1).is_meta
"""


@pytest.mark.parametrize("name", ["open_clip", "timm"])
def test_a_library_is_imported_where_models_are_made_without_memory(name):
    """Which fails with PyTorch 2.8 where the library itself is asked for first."""
    subprocess.run([sys.executable, "-c", IMPORTED.format(name=name)], check=True, timeout=300)
