"""The benchmarks that can be named instead of a file, one module per official layout."""

from suisei.data.benchmarks.activitynet_foil import ACTIVITYNET_FOIL
from suisei.data.benchmarks.benchmark import Benchmark
from suisei.data.benchmarks.flickr8k import FLICKR8K_CF, FLICKR8K_EXPERT
from suisei.data.benchmarks.jsts import JSTS
from suisei.data.benchmarks.scenes import SCENES
from suisei.data.benchmarks.shichimi import SHICHIMI
from suisei.data.benchmarks.vatex import VATEX_EVAL

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (SCENES, SHICHIMI, FLICKR8K_EXPERT, FLICKR8K_CF, JSTS, VATEX_EVAL, ACTIVITYNET_FOIL)
}

__all__ = ["BENCHMARKS", "Benchmark"]
