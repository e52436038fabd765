"""Samples taken through a regressor."""

import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.metrics.forward import fused_at_once
from suisei.models.table import SampleTable


@pytest.mark.parametrize(
    ("references", "numbers", "expected"), [(2, 768, 1024), (5, 1536, 1024), (200, 2048, 81), (0, 768, 1024)]
)
def test_a_gpu_fuses_fewer_samples_with_many_references(references, numbers, expected):
    table = SampleTable([CaptionSample("a", tuple("bc" * 100)[:references])], with_images=False)
    assert fused_at_once(64, table, numbers, torch.device("cuda:1")) == expected
    assert fused_at_once(2000, table, numbers, torch.device("cuda")) == 2000
    assert fused_at_once(64, table, numbers, torch.device("cpu")) == 64
