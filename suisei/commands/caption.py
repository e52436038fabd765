"""``suisei caption``: write captions of images with a captioner, ours or Hugging Face's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.allowances import add_allowances, allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import check_device
from suisei.commands.option_values import device, filled, real, whole
from suisei.commands.options import add_log_options, add_root_option
from suisei.data.caption_texts import is_json
from suisei.data.compressed import plain_suffix
from suisei.data.outputs import given
from suisei.encoders.precision_words import CAPTION_PRECISIONS
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.captioning.caption_rows import Counts

_COMMON = ("--model", "--images", "--input", "--output", "--method", "--beams", "--language")
_OF_METHOD = {
    "beams": ("beam", 5),
    "length_penalty": ("beam", 0.0),
    "temperature": ("sample", 1.0),
    "top_p": ("sample", 1.0),
}
"""{option of one method: (that method, what it is unless given)}."""
_SHOWN = 5
MAX_LENGTH = 30
"""Tokens of a caption unless given."""
_EPILOG = """examples:
  suisei caption --model runs/captioner/model --images photos --output captions.jsonl
  suisei caption --model runs/captioner/model --images a.jpg b.jpg
  suisei caption --model DIR --input images.csv --images photos --output results.json
  suisei caption --model DIR --data flickr8k-test --root FLICKR8K --output captions.jsonl

The output has a row per image: JSON lines that `suisei score --input` reads, with references where the data
has them, or, for a name that ends in .json, a COCO result file. It is there once it is complete. An image
that cannot be read, or whose name is not UTF-8, and a caption that decoded to nothing are counted and named;
JSON lines keep a row with the error.

Exit status: 0, or 1 if no image could be captioned, or 2 for a wrong option or unusable data,
or 130 for Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.captioning.caption_rows import check_target

    log = [] if options.log_json == "-" else given(vars(options), "log_json")
    check_target(options.output, log, given(vars(options), "input"))
    done: list[int] = []
    try:
        counts = _write(options, done.append)
    except KeyboardInterrupt:
        left = "their rows are on standard output" if options.output == "-" else "no output was left"
        raise KeyboardInterrupt(
            f"{counted(sum(done), 'image')} done, and {left}; the same command starts anew"
        ) from None
    _tell(Console(stderr=True), counts, options.output)
    return 0 if counts.captioned else 1


def _write(options: argparse.Namespace, told: Callable[[int], object]) -> Counts:
    """Caption the images; ``told`` is called with how many more are done."""
    from suisei.captioning.caption_inputs import images_to_caption
    from suisei.captioning.caption_model import Decoding, load_caption_model
    from suisei.captioning.caption_rows import write_rows
    from suisei.captioning.caption_writing import write_captions
    from suisei.encoders.precision import choose_device
    from suisei.progress import progress_bar

    wanted = images_to_caption(options.images, options.input, options.data, options.root, allowed(options))
    model = load_caption_model(options.model).to(choose_device(options.device))
    most = model.longest or MAX_LENGTH
    decoding = Decoding(
        options.method,
        beams=options.beams,
        samples=options.samples,
        max_length=options.max_length or min(MAX_LENGTH, most),
        temperature=options.temperature,
        top_p=options.top_p,
        length_penalty=options.length_penalty,
    )
    model.check_length(decoding.max_length, "--max-length")
    language = model.language_or_own(options.language)
    settings = {name: getattr(options, name) for name in ("batch_size", "seed", "precision")}
    images = [image.image for image in wanted]
    written = write_captions(model, images, decoding, language=language, **settings)
    shown = options.output != "-" or not sys.stdout.isatty()  # a bar would stand between the rows
    with progress_bar("writing captions", len(wanted), shown=shown, unit="images") as advance:

        def advanced(count: int) -> None:
            advance(count)
            told(count)

        return write_rows(options.output, wanted, written, decoding, language, advanced)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei caption",
        description="Write captions of images.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add = parser.add_argument_group("captioner").add_argument
    add(
        "--model", metavar="DIR|NAME", type=filled, required=True,
        help="folder of a captioner, or a vision-encoder-decoder or BLIP of Hugging Face by folder or name",
    )  # fmt: skip
    add("--language", choices=("en", "ja"), help="what to write, of a captioner of both (default: its first)")
    add("--device", type=device, default="auto", help="auto (default), cpu, cuda, cuda:1, mps")
    add(
        "--precision", choices=CAPTION_PRECISIONS, default="auto",
        help="of the computation (default auto: bf16 where the machine multiplies it in hardware, else fp32)",
    )  # fmt: skip
    add = parser.add_argument_group("images").add_argument
    add(
        "--images", metavar="PATH", type=filled, nargs="+",
        help="image files, or folders of them; with --input or a file of --data the folder where relative "
        "paths start",
    )  # fmt: skip
    add(
        "--input",
        metavar="FILE",
        type=filled,
        help=".jsonl, .csv, .tsv with a column image, or .txt of paths; also with .gz",
    )
    add(
        "--data",
        metavar="NAME",
        type=filled,
        help="images with references: flickr8k-test, FILE.json:test, ...",
    )
    add_root_option(add)
    add_allowances(add)
    add = parser.add_argument_group("decoding").add_argument
    add("--method", choices=("beam", "greedy", "sample"), default="beam", help="default: beam")
    add("--beams", type=whole(1, 1000), metavar="N", help="width of the beam search (default 5)")
    add(
        "--samples",
        type=whole(1, 1000),
        default=1,
        metavar="N",
        help="captions to draw of each image (default 1)",
    )
    add(
        "--max-length", type=whole(1, 1000), metavar="N",
        help=f"tokens of a caption (default {MAX_LENGTH}, or as many as the captioner can write)",
    )  # fmt: skip
    add("--temperature", type=real(1e-6, 1000), metavar="T", help="of sampling (default 1)")
    add(
        "--top-p",
        type=real(1e-6, 1),
        metavar="P",
        help="draw from the likeliest tokens that have this share of the probability (default 1: from all)",
    )
    add(
        "--length-penalty", type=real(-10, 10), metavar="A",
        help="beams compare by log probability / length^A (default 0)",
    )  # fmt: skip
    add("--batch-size", type=whole(1, 100_000), default=32, metavar="N", help="images at a time (default 32)")
    add("--seed", type=whole(0, 2**32 - 1), default=0, metavar="N", help="of sampling (default 0)")
    add = parser.add_argument_group("output").add_argument
    add(
        "--output", metavar="FILE", type=filled, default="-",
        help=".jsonl, or .json for COCO results; - (default): JSON lines to stdout",
    )  # fmt: skip
    add_log_options(add)
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, and fill in what was not given.

    Raises:
        ConfigError: the first of them.
    """
    check_device(options.device)
    if options.data and (options.input or (options.images and not _is_file(options.data))):
        raise ConfigError("--data names its images itself; leave --images and --input out")
    if not (options.data or options.input or options.images):
        raise ConfigError("nothing to caption: give --images FOLDER_OR_FILES, --input FILE or --data NAME")
    if options.root and not options.data:
        raise ConfigError("--root belongs to --data; images of a file start at --images")
    if (options.input or options.data) and options.images and len(options.images) > 1:
        given_with = "--input" if options.input else "--data"
        raise ConfigError(f"with {given_with}, --images is the one folder where relative paths start")
    for name, (method, usual) in _OF_METHOD.items():
        if getattr(options, name) is None:
            setattr(options, name, usual)
        elif options.method != method:
            shown = name.replace("_", "-")
            raise ConfigError(f"--{shown} is for --method {method}; leave it out with {options.method}")
    if options.samples > 1 and options.method != "sample":
        raise ConfigError(f"--samples is for --method sample; --method {options.method} gives one caption")
    if options.samples > 1 and is_json(options.output):
        raise ConfigError(
            "a COCO result file has one caption per image; write .jsonl, or leave --samples out"
        )


def _is_file(data: str) -> bool:
    """Return whether data are a file, whose images may lie elsewhere, and not a data set by its name."""
    from suisei.data.karpathy_parts import file_of

    return bool(plain_suffix(file_of(data)))


def _tell(console: Console, counts: Any, output: str) -> None:
    """Say how much was written, and name what has no caption."""
    place = "" if output == "-" else f": {output}"
    say(
        console,
        f"{counts.captioned:,} of {counted(counts.images, 'image')} captioned{place}",
        None if counts.captioned else "red",
    )
    for what, names in (
        ("could not be read", counts.broken),
        ("with a name or id that is not UTF-8, to be renamed", counts.unnamed),
        ("got captions without a word", counts.empty),
    ):
        if names:
            more = f"; and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            say(
                console, f"{counted(len(names), 'image')} {what}: {'; '.join(names[:_SHOWN])}{more}", "yellow"
            )
