"""The protocol that each benchmark names."""

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.errors import ConfigError
from suisei.metaeval.protocols import PROTOCOLS, protocol_of
from suisei.metaeval.settings import EvaluationSettings


def test_every_benchmark_names_a_protocol_and_files_have_that_of_ratings():
    assert {benchmark.protocol for benchmark in BENCHMARKS.values()} == set(PROTOCOLS)
    assert protocol_of("ratings.jsonl") is protocol_of("shichimi") is PROTOCOLS["ratings"]
    assert protocol_of("vatex-eval") is PROTOCOLS["vatex-eval"]


def test_pairs_refuse_what_correlates_with_ratings():
    pairs = protocol_of("activitynet-foil")
    pairs.check("activitynet-foil", EvaluationSettings(), compare=False)
    with pytest.raises(ConfigError, match=r"activitynet-foil has pairs.*--compare, --averaging, --raters"):
        pairs.check("activitynet-foil", EvaluationSettings(averaging="item", raters="mean"), compare=True)
    assert pairs.plotted(EvaluationSettings()) == "accuracy"
    assert protocol_of("jsts").plotted(EvaluationSettings(correlation="pearson")) == "pearson"
