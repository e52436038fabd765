"""PFN-PIC-gen: Japanese instructions for pictures of goods, by models, rated by people.

Described with JaSPICE (Wada, Kaneda and Sugiura, CoNLL 2023) and SuiSei; the pictures are PFN-PIC's (Hatori
et al., ICRA 2018). A table in the layout of :mod:`suisei.data.benchmarks.hub` with three references per row.
"""

from __future__ import annotations

from suisei.data.benchmarks.benchmark import Benchmark
from suisei.data.benchmarks.hub import HubTable

_TABLE = HubTable(("pfn_pic_gen*.csv", "pfn*.csv"), (0.0, 5.0), language="ja")

PFN_PIC_GEN = Benchmark(
    name="pfn-pic-gen",
    rows=_TABLE.rows,
    language="ja",
    rating_scale=_TABLE.scale,
    summary="1,920 Japanese instructions for pictures of goods by models, rated up to 5; three references",
    source=(
        f"Root is a CSV with the columns imgid, mt, refs and score, or the folder that holds it as "
        f"{' or '.join(_TABLE.patterns)}; its ratings are not published, ask the authors of JaSPICE, who are "
        "at https://github.com/keio-smilab23/JaSPICE; pictures are in its folder 'images' or in --images"
    ),
    has_images=True,
    protocol="reference-pairs",
    correlation="tau-b",
)
