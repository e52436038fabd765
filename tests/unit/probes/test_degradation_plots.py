"""Figures of degraded captions."""

import pytest

from suisei.errors import DataError
from suisei.probes.degradation_plots import plot_boxes


def test_distributions_have_a_row_each(tmp_path):
    plot_boxes(tmp_path / "b.svg", {"swap": [-1, 0, 0.5, 1, 2], "half": [0, 0, 0, 0, 0]})
    text = (tmp_path / "b.svg").read_text()
    assert ">swap</text>" in text
    assert ">half</text>" in text
    with pytest.raises(DataError, match="no distribution"):
        plot_boxes(tmp_path / "b.svg", {})
