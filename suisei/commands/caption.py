"""``suisei caption``: write captions of images with a captioner, ours or Hugging Face's."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
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
from suisei.data.part_files import is_complete, is_left, part_of
from suisei.data.paths import is_stream
from suisei.encoders.precision_words import CAPTION_PRECISIONS
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.captioning.caption_inputs import Wanted
    from suisei.captioning.caption_model import CaptionModel, Decoding
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
has them, or, for a name that ends in .json, a COCO result file. It is there once it is complete; until then
finished captions are in FILE.part, with which --resume goes on. An image that cannot be read, or whose name
is not UTF-8, and a caption that decoded to nothing are counted and named; JSON lines keep a row with the
error.

Exit status: 0, or 1 if no image could be captioned, or 2 for a wrong option or unusable data,
or 130 for Ctrl-C."""


@dataclass(frozen=True)
class _Work:
    """A captioner, how it chooses captions, in which language, and the images."""

    model: CaptionModel
    decoding: Decoding
    language: str
    wanted: Sequence[Wanted]

    @property
    def images(self) -> list[Path]:
        """Their files."""
        return [image.image for image in self.wanted]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.captioning.caption_inputs import images_to_caption
    from suisei.captioning.caption_rows import check_target

    log = [] if options.log_json == "-" else given(vars(options), "log_json")
    check_target(options.output, log, given(vars(options), "input"))
    if not _streams(options):
        is_left(part_of(Path(options.output)), resume=options.resume)  # refused before a captioner is loaded
    wanted = images_to_caption(options.images, options.input, options.data, options.root, allowed(options))
    console = Console(stderr=True)
    if options.resume and _has_all(options, wanted):
        said = f"{options.output} is complete, newer than its images and its captioner: nothing to resume"
        say(console, f"{said}; what had other images or options is captioned anew without --resume")
        return 0
    counts = _write(options, wanted)
    _tell(console, counts, options.output)
    return 0 if counts.captioned else 1


def _has_all(options: argparse.Namespace, wanted: Sequence[Wanted]) -> bool:
    """Say whether an earlier run has written the output.

    Raises:
        ConfigError: it has, before what the output is made of was changed.
    """
    from suisei.data.karpathy_parts import file_of
    from suisei.data.part_files import check_newer

    if not is_complete(options.output):
        return False
    listed = [options.input, options.data and file_of(options.data)]
    sources = [*listed, Path(options.model) / "config.json", *(image.image for image in wanted)]
    check_newer(options.output, sources, "write captions anew")
    return True


def _write(options: argparse.Namespace, wanted: Sequence[Wanted]) -> Counts:
    """Caption the images, and write the output."""
    from suisei.captioning.caption_model import Decoding, load_caption_model
    from suisei.encoders.precision import choose_device

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
    work = _Work(model, decoding, language, wanted)
    return (_stream if _streams(options) else _write_file)(options, work)


def _streams(options: argparse.Namespace) -> bool:
    """Say whether the output is written to as it comes."""
    return options.output == "-" or is_stream(options.output)


def _stream(options: argparse.Namespace, work: _Work) -> Counts:
    """Write captions to standard output, a pipe or a device as they come."""
    from suisei.captioning.caption_rows import write_rows
    from suisei.captioning.caption_writing import write_captions
    from suisei.progress import progress_bar

    written = write_captions(
        work.model, work.images, work.decoding, language=work.language, **_settings(options)
    )
    shown = not (options.output == "-" and sys.stdout.isatty())  # a bar would stand between the rows
    done = 0
    try:
        with progress_bar("writing captions", len(work.wanted), shown=shown, unit="images") as advance:

            def advanced(count: int) -> None:
                nonlocal done
                advance(count)
                done += count

            return write_rows(options.output, work.wanted, written, work.decoding, work.language, advanced)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{counted(done, 'image')} done, and their rows are written; the same command starts anew"
        ) from None


def _write_file(options: argparse.Namespace, work: _Work) -> Counts:
    """Caption batch by batch into a part file, then write the output from it."""
    from suisei.captioning.caption_part import CaptionPart
    from suisei.captioning.caption_rows import write_rows
    from suisei.captioning.caption_writing import caption_batches, chosen_precision
    from suisei.progress import progress_bar
    from suisei.training.data_digest import model_digest

    settings = _settings(options)
    decides = {
        "captioner": model_digest([options.model]),
        "decoding": asdict(work.decoding),
        "language": work.language,
        **settings,
        "precision": chosen_precision(work.model, options.precision),
    }
    part = CaptionPart(Path(options.output), decides, work.images, options.batch_size, resume=options.resume)
    with part, progress_bar("writing captions", len(work.wanted), unit="images") as advance:
        try:
            advance(part.images_done)
            for number, written in caption_batches(
                work.model, work.images, work.decoding, language=work.language, done=part.done, **settings
            ):
                part.add(number, written)
                advance(len(written))
            try:
                counts = write_rows(options.output, work.wanted, part.written(), work.decoding, work.language)
            except DataError as error:
                raise DataError(f"{error}; captions are in {part.part}, and --resume goes on") from None
        except KeyboardInterrupt:
            done = part.images_done
            kept = f"done, in {part.part}; the same with --resume goes on" if done else "done"
            raise KeyboardInterrupt(f"{counted(done, 'image')} {kept}") from None
        part.complete()
    return counts


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what decides captions beside captioner, decoding and language."""
    return {name: getattr(options, name) for name in ("batch_size", "seed", "precision")}


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
    add("--resume", action="store_true", help="go on with the part file of a run that was cut off")
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
    if options.resume and _streams(options):
        raise ConfigError("--resume needs an --output file")
    if options.root and not options.data:
        raise ConfigError("--root belongs to --data; images of a file start at --images")
    if options.root and _is_json_file(options.data):
        raise ConfigError(f"--data {options.data} takes no --root; its images start at --images")
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


def _is_json_file(data: str) -> bool:
    """Return whether data are COCO annotations or a Karpathy split."""
    from suisei.data.karpathy_parts import file_of

    return is_json(file_of(data))


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
