"""The benchmarks that can be named instead of a file, one module per official layout."""

from suisei.data.benchmarks.activitynet_foil import ACTIVITYNET_FOIL
from suisei.data.benchmarks.aloha import HAT, NOCAPS_FOIL
from suisei.data.benchmarks.benchmark import Benchmark
from suisei.data.benchmarks.capeval1k import CAPEVAL1K
from suisei.data.benchmarks.composite import COMPOSITE
from suisei.data.benchmarks.consensus50s import ABSTRACT_50S, PASCAL_50S
from suisei.data.benchmarks.flickr8k import FLICKR8K_CF, FLICKR8K_EXPERT, FLICKR8K_EXPERT_ALL
from suisei.data.benchmarks.foil import FOIL
from suisei.data.benchmarks.hub import NEBULA, POLARIS
from suisei.data.benchmarks.iiw import IIW_400
from suisei.data.benchmarks.jsts import JSTS
from suisei.data.benchmarks.longcap_arena import LONGCAP_ARENA
from suisei.data.benchmarks.pfn_pic import PFN_PIC_GEN
from suisei.data.benchmarks.scenes import SCENES
from suisei.data.benchmarks.shichimi import SHICHIMI
from suisei.data.benchmarks.sugarcrepe import SUGARCREPE
from suisei.data.benchmarks.thumb import THUMB
from suisei.data.benchmarks.valse import VALSE
from suisei.data.benchmarks.vatex import VATEX_EVAL

_RATED = (SCENES, SHICHIMI, PFN_PIC_GEN, FLICKR8K_EXPERT, FLICKR8K_CF, COMPOSITE, POLARIS, NEBULA, THUMB)
_FURTHER_RATED = (FLICKR8K_EXPERT_ALL, CAPEVAL1K, LONGCAP_ARENA, JSTS, VATEX_EVAL)
_COMPARED = (PASCAL_50S, ABSTRACT_50S, IIW_400, FOIL, NOCAPS_FOIL, HAT, SUGARCREPE, VALSE, ACTIVITYNET_FOIL)

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (*_RATED, *_FURTHER_RATED, *_COMPARED)
}

__all__ = ["BENCHMARKS", "Benchmark"]
