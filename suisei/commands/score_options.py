"""The options of ``suisei score``."""

from __future__ import annotations

from suisei.commands.allowances import add_web_option
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options
from suisei.commands.option_values import devices, filled, positive, processes
from suisei.commands.options import add_log_options, add_row_options
from suisei.commands.score_shards import add_shard_options

WINDOW = 4096
"""Rows held and scored together; captions that occur twice among them are encoded once."""
PARALLEL_WINDOW = 1024
"""The same with several processes, which are to have work from shorter inputs too."""

_COMMON = (
    "--model", "--metrics", "--device", "--input", "--references", "--column", "--images", "--on-error",
    "--output", "--summary",
)  # fmt: skip
_EPILOG = """examples:
  suisei score --model runs/scenes/model --input captions.jsonl --images DIR --output scores.jsonl
  suisei score --metrics bleu-4,cider,clip-s,suisei:DIR --input captions.csv --output scores.csv
  suisei score --metrics cider,meteor --input captions.jsonl --output scores.jsonl --processes 4
  suisei score --metrics em-score --input videos.jsonl --images VIDEOS --output scores.jsonl
  suisei score --input results.json --references captions_val2014.json --images val2014 --output scores.csv
  suisei score --metrics sacrebleu --input hyp.txt --references ref1.txt ref2.txt
  cat captions.jsonl | suisei score --model DIR --input - | head
  suisei score --metrics clip-s --input 'shards/{00000..00999}.tar' --output scores --devices all

The output has a row per input row, in the same order: the row's id (its number where it has none), a
column per metric, and the error of a row or metric that has no score. It is called NAME.part until it
is complete; --resume goes on with the part file of a run that was cut off, if no finished row and no
metric has changed since. With --on-error skip the rows without every score are also in NAME.failed.jsonl,
with their reasons. Input and output may be pipes. CIDEr and other metrics that
learn from a corpus are fitted on the references of the whole input first, in a pass of their own. With
--processes or --devices every process holds models of its own; scores and order are the same.

Exit status: 0, or 1 if a metric failed or no row could be scored, or 2 for a wrong option, unusable
data or a disk that is full (what was scored is kept in NAME.part), or 130 for Ctrl-C."""


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        prog="suisei score",
        description="Score captions with a model or with any set of metrics.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("data").add_argument
    add(
        "--input", metavar="FILE", type=filled, required=True,
        help=".jsonl, .csv, .tsv, .parquet, .json (COCO results) or .txt (a caption a line), also .gz; - is "
        "standard input; shards of a large set: 'shards/{00000..00999}.tar', of rows too, or '*.parquet'",
    )  # fmt: skip
    kinds = ("jsonl", "csv", "tsv", "parquet", "json", "text")
    add("--format", choices=kinds, help="of the input (default: by its name; JSONL for standard input)")
    add_row_options(
        add,
        images="where relative image and video paths start (default: beside the input)",
        ratings="of ratings in the input, which are checked and not used (default 0 1)",
    )
    add_web_option(add)
    add(
        "--window", type=positive, metavar="N",
        help=f"rows in memory (default {WINDOW}, with several processes {PARALLEL_WINDOW} each)",
    )  # fmt: skip
    add = parser.add_argument_group("machine").add_argument
    add("--processes", type=processes, metavar="N", help="CPU processes that score side by side (default 1)")
    add("--devices", metavar="N|all", type=devices, help="GPUs, each with a process of its own (default 1)")
    add_shard_options(parser.add_argument_group("shards").add_argument)
    add = parser.add_argument_group("output").add_argument
    add(
        "--output",
        metavar="FILE",
        type=filled,
        default="-",
        help=".jsonl, .csv, .tsv (also .gz) or .parquet; - (default): JSONL to stdout; of shards: a folder",
    )
    add("--resume", action="store_true", help="go on with the part file of a run that was cut off")
    add("--summary", metavar="FILE", type=filled, help="JSON of counts, means, corpus scores and signatures")
    add_log_options(add)
    return parser
