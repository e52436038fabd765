"""The protocol that each benchmark names."""

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.errors import ConfigError
from suisei.metaeval.correlation import CORRELATIONS
from suisei.metaeval.protocols import PROTOCOLS, protocol_of, usual_settings
from suisei.metaeval.published_figures import PUBLISHED
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


def test_the_usual_settings_of_a_benchmark_are_those_of_its_published_figures():
    for name, known in PUBLISHED.items():
        usual = usual_settings(name, EvaluationSettings(seed=3))
        assert (usual.raters, usual.seed) == (known.raters, 3)
        if set(known.kinds) <= set(CORRELATIONS):
            assert usual.correlation in known.kinds
    assert usual_settings("flickr8k-cf") == EvaluationSettings(raters="mean", correlation="tau-b")
    assert usual_settings("vatex-eval").correlation == "tau-b"
    assert usual_settings("ratings.jsonl") == EvaluationSettings()
