"""Libraries of image towers are imported wherever a tower is made."""

import subprocess
import sys

import pytest

IMPORTED = """
import torch
from suisei.encoders.tower_libraries import tower_library
with torch.device("meta"):
    library = tower_library("{name}")
    print(library.__name__, torch.ones(1).device)
"""


@pytest.mark.parametrize("name", ["open_clip", "timm"])
def test_a_library_is_imported_where_models_are_made_without_memory(name):
    """Which fails with PyTorch 2.8 where the library itself is asked for first."""
    program = [sys.executable, "-c", IMPORTED.format(name=name)]
    done = subprocess.run(program, check=False, timeout=300, capture_output=True, text=True)
    assert done.stdout == f"{name} meta\n", done.stderr
