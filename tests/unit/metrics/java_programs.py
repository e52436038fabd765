"""What tests of the programs in Java share: where there is none to run, they are skipped."""

import shutil

import pytest

from suisei.data.sample import CaptionSample

pytest.importorskip("pycocoevalcap")
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs a Java runtime")

SAMPLES = [
    CaptionSample("a dog runs fast", ("a dog runs", "the dog")),
    CaptionSample("zebra", ("a red car", "one car on a road")),
]
