"""The worked examples of CONTRIBUTING.md run as they stand."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
EXAMPLES = re.findall(
    r"^## Add a ([\w ]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE.read_text("utf-8"), re.S | re.M
)


@pytest.fixture
def run(monkeypatch):
    """Run an example as a module of its own, on copies of the registries it adds to."""
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.metrics.registry import REGISTRY
    from suisei.models.blocks import BLOCKS

    before = [(registry, dict(registry)) for registry in (BENCHMARKS, REGISTRY, BLOCKS)]
    module = types.ModuleType("worked_example")
    monkeypatch.setitem(sys.modules, "worked_example", module)

    def of(name):
        exec(compile(dict(EXAMPLES)[name], str(PAGE), "exec"), module.__dict__)  # our own page

    yield of
    for registry, content in before:
        registry.clear()
        registry.update(content)


@pytest.mark.parametrize("name", [name for name, _ in EXAMPLES])
def test_examples_are_short(name):
    assert len([line for line in dict(EXAMPLES)[name].splitlines() if line.strip()]) < 20


def test_a_metric(run):
    from suisei.metrics.registry import get_metric

    run("metric")
    metric = get_metric("exclamation")
    np.testing.assert_allclose(metric.score(["a dog", "a dog!!!!!"]), [1.0, 0.5])
    assert metric.signature.startswith("exclamation|")


def test_a_benchmark(run, tmp_path):
    from suisei.data.load import load_data
    from suisei.metaeval.protocols import PROTOCOLS, protocol_of

    run("benchmark")
    (tmp_path / "ratings.txt").write_text("1.jpg|a dog|5\n1.jpg|a cat|1\n2.jpg|a man|3\n", encoding="utf-8")
    samples = load_data("mine", root=tmp_path)
    assert [(s.candidate, s.rating.mean, s.group) for s in samples] == [
        ("a dog", 1.0, "1.jpg"), ("a cat", 0.0, "1.jpg"), ("a man", 0.5, "2.jpg"),
    ]  # fmt: skip
    assert protocol_of("mine") is PROTOCOLS["ratings"]


def test_a_fusion_block(run):
    import torch

    from suisei.models.fusion import Fusion

    before = Fusion(4, 1, "max", image_width=3).blocks
    run("fusion block")
    assert Fusion(4, 1, "max", image_width=3).blocks == before  # earlier folders name no blocks
    torch.manual_seed(0)
    candidate, references = torch.randn(2, 1, 4), torch.randn(2, 3, 1, 4)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    fused = Fusion(4, 1, "max", blocks=["reference-square"])(candidate, references, mask)
    squares = (candidate[:, None] - references).square()
    expected = torch.stack([squares[0, :2].amin(dim=0), squares[1, 0]]).flatten(1)
    torch.testing.assert_close(fused, expected)
