"""``suisei rerank``: one of several captions of each image, by what the others say or by the image."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.cli import counted, say
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans, take_default_model
from suisei.commands.option_values import filled
from suisei.commands.options import add_log_options, add_row_options, named_columns, note_text
from suisei.commands.steps import add_keep_option, keeper, told_when_interrupted
from suisei.data.caption_texts import is_json
from suisei.data.outputs import check_media, check_outputs, given
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.scoring.reranking import Choice, Reranked

_COMMON = ("--input", "--images", "--output", "--by", "--model", "--metrics", "--on-error")
_NUMBERED = re.compile(r"(.+)#\d+")
_EPILOG = """examples:
  suisei caption --model DIR --images photos --method sample --samples 20 --output drawn.jsonl
  suisei rerank --input drawn.jsonl --output best.jsonl
  suisei rerank --input drawn.jsonl --metrics pac-s:DIR --by itself --output results.json

By the others (the default) a caption is chosen by its expected score: the mean of its scores beside each of
the other captions of its image, in the place of a reference (minimum Bayes risk). It takes a metric that
reads references. By itself it is chosen by its own score without references, on the image if the metric looks
at it. Rows are of one image if they name one file (of a video: and one segment), else if they have one group.
The output has one row per image (and language), as it was given, or, for a name that ends in .json, is a
COCO result file.

Without --model and --metrics it chooses by the model that suisei.load() gives without a name.

Exit status: 0, or 1 if the captions of an image got no score, so that the first was taken, or 2 for a wrong
option, unusable data or a metric that cannot score."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    (plan,) = metric_plans(options)
    from rich.console import Console

    from suisei.encoders.sharing import shared_encoders
    from suisei.scoring.columns import make_metric
    from suisei.scoring.reranking import rerank

    console = Console(stderr=True)
    samples = _read(options, console)
    check_media([("--output", options.output)], samples)
    with shared_encoders(), told_when_interrupted(options):
        metric = make_metric(plan)
        how = {"batch_size": options.batch_size, "progress": True, "keep": keeper(options)}
        found = rerank(metric, samples, by=options.by, **how)
    _write(Path(options.output), found)
    return _tell(console, found, f"{metric.signature}{found.fitted}", options)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei rerank",
        description="Choose one of several captions of each image.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add = parser.add_argument_group("captions").add_argument
    add(
        "--input",
        metavar="FILE",
        type=filled,
        required=True,
        help="several captions of each image, a row each",
    )
    add_row_options(add, images="where relative image paths start (default: beside the input)")
    add_metric_options(parser.add_argument_group("metric").add_argument)
    add = parser.add_argument_group("choice").add_argument
    add(
        "--by", choices=("others", "itself"), default="others",
        help="the other captions of the image as references (default), or its own score without any",
    )  # fmt: skip
    add = parser.add_argument_group("output").add_argument
    add(
        "--output", metavar="FILE", type=filled, required=True,
        help=".jsonl, .csv, .tsv or .parquet, or .json for COCO results",
    )  # fmt: skip
    add_keep_option(add)
    add_log_options(add)
    return parser


def _check(options: argparse.Namespace) -> None:
    from suisei.data.compressed import is_gzip, plain_suffix
    from suisei.scoring.output import FORMATS

    take_default_model(options)
    if len(metric_plans(options)) != 1:
        raise ConfigError("captions are chosen by one metric; give one --model or one name of --metrics")
    if (plain_suffix(options.output) not in FORMATS and not is_json(options.output)) or is_gzip(
        options.output
    ):
        raise ConfigError(
            f"--output {options.output}: the name must end in {', '.join(FORMATS)}, or .json for COCO results"
        )
    models = [("--model", folder) for folder in options.model]
    outputs = [
        ("--output", options.output),
        *([] if options.log_json == "-" else given(vars(options), "log_json")),
    ]
    check_outputs(
        outputs,
        given(vars(options), "input", "references"),
        kept=given(vars(options), "keep"),
        sealed=models,
    )


def _read(options: argparse.Namespace, console: Console) -> list[CaptionSample]:
    from suisei.data.file_rows import Row, skipped_note
    from suisei.data.formats import UNRATED, read_samples

    skipped: list[Row] = []
    samples = read_samples(
        options.input,
        images=options.images,
        columns={**UNRATED, **named_columns(options)},
        references=options.references or None,
        note=lambda text: say(console, note_text(text)),
        on_error=options.on_error,
        skipped=skipped,
        allowed=allowed(options),
    )
    if skipped:
        say(console, skipped_note([row.error for row in skipped]), "yellow")
    return samples


def _named(choices: Sequence[Choice]) -> list[CaptionSample]:
    """Return the chosen captions, under their images' ids where ids are NAME#1, NAME#2, ...

    Those of an image of which two were chosen, one in each language, keep their own.
    """
    names = _common_names(choices)
    counts = Counter(names)
    return [
        replace(choice.sample, id=name) if name and counts[name] == 1 else choice.sample
        for name, choice in zip(names, choices, strict=True)
    ]


def _common_names(choices: Sequence[Choice]) -> list[str | None]:
    """Return NAME of each choice; None where ids are others, or none numbers the captions of an image."""
    names = [_common_name(choice) for choice in choices]
    numbered = any(name and choice.captions > 1 for name, choice in zip(names, choices, strict=True))
    return names if numbered else [None] * len(names)


def _common_name(choice: Choice) -> str | None:
    found = {match[1] if (match := _NUMBERED.fullmatch(name or "")) else None for name in choice.ids}
    return found.pop() if len(found) == 1 else None


def _image_names(found: Reranked) -> list[str]:
    """Return what the image of each choice is called: its group, unless one group holds several images."""
    groups = [choice.sample.group for choice in found.choices]
    if all(groups) and len(set(groups)) == found.images:
        return [str(group) for group in groups]
    return [
        name or choice.sample.id or choice.sample.group or str(number)
        for number, (name, choice) in enumerate(
            zip(_common_names(found.choices), found.choices, strict=True), 1
        )
    ]


def _write(output: Path, found: Reranked) -> None:
    if not is_json(output):
        from suisei.data.writers import write_samples

        write_samples(output, _named(found.choices))
        return
    from suisei.captioning.caption_rows import coco_results
    from suisei.data.writers import replacing

    rows = [
        {"id": name, "image": str(choice.sample.image or ""), "candidate": choice.sample.candidate}
        for name, choice in zip(_image_names(found), found.choices, strict=True)
    ]
    with replacing(output) as temporary:
        temporary.write_text(
            json.dumps(coco_results(rows), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )


def _tell(console: Console, found: Reranked, signature: str, options: argparse.Namespace) -> int:
    """Say what was chosen, and what could not be; returns the exit status."""
    choices = found.choices
    several = [choice for choice in choices if not math.isnan(choice.score)]
    count = sum(choice.captions for choice in choices)
    say(console, f"{counted(found.images, 'image')}, {counted(count, 'caption')}: {options.output}")
    if both := len(choices) - found.images:
        text = f"{counted(both, 'image')} with captions in Japanese and in English: one of each was chosen"
        say(console, f"{text}; rows of one language say so in a field, language", "yellow")
    if several:
        score, mean = (
            sum(values) / len(several) for values in zip(*((c.score, c.mean) for c in several), strict=True)
        )
        beside = "beside the others of their image" if options.by == "others" else "by themselves"
        say(console, f"scores {beside}: {score:.4f} of the chosen, {mean:.4f} of all on average")
    alone = sum(choice.captions == 1 for choice in choices)
    if alone:
        single = counted(alone, "image") + " with one caption" + (" in a language" if both else "")
        say(console, f"{single}, which was taken", "yellow")
    lost = [choice for choice in choices if math.isnan(choice.score) and choice.captions > 1]
    if lost:
        first = lost[0].sample
        text = f"{counted(len(lost), 'image')} whose captions got no score, so that the first was taken"
        say(console, f"{text}, such as {first.id or first.image or first.group}", "yellow")
    if found.lacking:
        count, why = sum(found.lacking.values()), next(iter(found.lacking))
        say(console, f"{counted(count, 'score')} could not be had, the first: {why}", "yellow")
    say(console, f"signature: {signature}")
    return 1 if lost else 0
