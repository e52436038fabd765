"""A validation counts what the trained model will score, and nothing else."""

import math

import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models.folder import LoadedModel
from suisei.models.table import Collator, SampleTable
from suisei.training.validated import correlations, scored


@pytest.mark.parametrize("start", ["cosine", None])
@pytest.mark.parametrize("image", [True, False])
def test_what_the_trained_model_scores_is_counted(build_regressor, pictures, tmp_path, start, image):
    layers = {"layers": "last"}
    regressor = build_regressor(head={"start": start}, image=image, text=layers, poolings=["mean"], blocks=[],
                                similarity=True)  # fmt: skip
    samples = [
        CaptionSample("a dog", ("two dogs",), pictures[0]),
        CaptionSample("a dog", ("two dogs",)),
        CaptionSample("a dog", (), pictures[0]),
        CaptionSample("a dog"),
    ]
    metric = SuiSeiMetric(LoadedModel(regressor, {}, "0" * 64, tmp_path), device="cpu", precision="fp32")
    table = SampleTable(samples, with_images=image)
    batch = Collator(table)(range(4))
    expected = ~torch.from_numpy(metric.score(samples)).isnan()
    assert torch.equal(scored(regressor, batch, {}), expected)
    assert expected.tolist() == ([True, True, image, False] if start else [True] * 4)


def test_what_does_not_vary_is_correlated_with_nothing():
    varied, same = torch.tensor([0.1, 0.2, 0.4]), torch.full((3,), 0.5)
    assert correlations(varied, varied * 2) == (pytest.approx(1), pytest.approx(1))
    assert all(map(math.isnan, (*correlations(varied, same), *correlations(same, varied))))
