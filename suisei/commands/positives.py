"""``suisei positives``: generate captions and images that a dual encoder is trained with."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.allowances import add_allowances, allowed
from suisei.commands.command_parser import Add, CommandParser
from suisei.commands.metric_options import check_device
from suisei.commands.option_values import device, filled, positive, real, seed, whole
from suisei.commands.options import add_column_options, add_log_options, add_root_option, named_columns
from suisei.data.karpathy_parts import file_of
from suisei.data.outputs import check_outputs, given
from suisei.data.paths import RealPaths, full_path
from suisei.errors import ConfigError, DataError, UnavailableError

if TYPE_CHECKING:
    from suisei.pacs.positive_writer import PositiveWriter
    from suisei.pacs.sources import Source

SHOWN_PROBLEMS = 5
_COMMON = (
    "--root", "--images", "--column", "--output", "--model", "--seed", "--limit", "--batch-size", "--device",
    "--positives",
)  # fmt: skip
_EPILOG = """examples:
  suisei positives captions flickr8k-train --root DIR --output runs/positives
  suisei positives images pairs.jsonl --model FOLDER --output runs/positives --limit 100
  suisei positives join flickr8k-train --root DIR --positives runs/positives --output train.jsonl

DATA is flickr8k-train, -dev or -test; a Karpathy split with its parts, such as
dataset_coco.json:train+restval; JSON lines with id and image, caption or both, or with image and
captions; or any rated data that the other commands read. A run that was cut off goes on where it
stopped when it is started again: an item's seed depends on --seed and the item alone, and nothing is
generated twice.
`suisei train --config pacs --data.train FILE` reads what `join` writes.

Exit status: 0, or 1 if some images could not be read (the others are done), or 2 for a wrong option
or unusable data, or 130 for Ctrl-C."""


@dataclass(frozen=True, slots=True)
class _Item:
    source: str
    image: Path | None
    caption: str
    id: str | None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    check_device(vars(options).get("device"))
    if options.kind == "join":
        return _join(options)
    from suisei.pacs.positive_writer import PositiveWriter

    sources = _sources(options)
    problems: list[str] = []
    with PositiveWriter(options.output, options.kind) as writer:
        items = list(_items(_first(sources, options.limit), options.kind, problems))
        todo = [item for item in items if item.source not in writer.done]
        _check_recipe(writer, options, loads=bool(todo))
        if todo:
            try:
                _generate(writer, todo, options, problems)
            except KeyboardInterrupt:
                made = sum(item.source in writer.done for item in items)
                raise KeyboardInterrupt(
                    f"{made} of {len(items)} items are in {writer.path}; the same command goes on"
                ) from None
        _report(_summary(writer, items, len(todo)), list(dict.fromkeys(problems)))  # rows may share an image
    return 1 if problems else 0


def _summary(writer: PositiveWriter, items: Sequence[_Item], todo: int) -> str:
    """Return how many items are in the manifest, and how many of them the model made nothing of."""
    made = sum(item.source in writer.done for item in items)
    declined = sum(item.source in writer.declined for item in items)
    summary = f"{writer.path}: {made} of {len(items)} items, {todo} of them to do in this run"
    return f"{summary}; the model made nothing of {declined} of them (see `problem`)" if declined else summary


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei positives",
        description="Generate captions from images, or images from captions, as additional positives.",
        epilog=_EPILOG,
    )
    commands = parser.add_subparsers(dest="kind", required=True, metavar="captions|images|join")
    captions = commands.add_parser(
        "captions", common=_COMMON, help="captions from images, by an image-to-text model"
    )
    images = commands.add_parser("images", common=_COMMON, help="images from captions, by a diffusion model")
    join = commands.add_parser(
        "join", common=_COMMON, help="write data with its positives as a training file"
    )
    for command in (captions, images, join):
        command.add_argument("data", metavar="DATA", type=filled, help="images and captions, see below")
        add_root_option(command.add_argument)
        command.add_argument(
            "--images",
            metavar="DIR",
            type=filled,
            help="where relative image paths start (default: beside the data)",
        )
        add_allowances(command.add_argument)
        add_column_options(command.add_argument, several=False)
    for command, default in ((captions, "BLIP large"), (images, "Stable Diffusion 1.5")):
        add = command.add_argument
        add("--output", metavar="DIR", type=filled, required=True, help="folder of the manifest")
        add("--model", metavar="NAME", type=filled, help=f"a model on the hub or a folder; default {default}")
        add("--revision", metavar="REV", type=filled, help="of the hub's model; default the main one")
        add("--seed", type=seed, default=0, help="default 0")
        add("--limit", type=positive, metavar="N", help="only the first N images of the data")
        add("--batch-size", type=positive, default=8, metavar="N", help="default 8")
        add("--device", type=device, default="auto", help="auto (default), cpu, cuda, cuda:1, ...")
        add_log_options(add)
    _add_generator_options(captions.add_argument, images.add_argument)
    join.add_argument(
        "--positives", metavar="DIR", type=filled, required=True, help="folder or file of a manifest"
    )
    join.add_argument("--output", metavar="FILE", type=filled, required=True, help="JSON lines to write")
    return parser


def _add_generator_options(add: Add, add_to_images: Add) -> None:
    """Add what decides the captions, and what decides the images."""
    add("--beams", type=whole(1, 100), default=3, metavar="N", help="beams of the search; default 3")
    add(
        "--top-p",
        type=real(1e-6, 1),
        metavar="P",
        help="sample from the likeliest words that have this share of the probability (default: search)",
    )
    add("--max-tokens", type=whole(1, 1000), default=30, metavar="N", help="of a caption at most; default 30")
    add = add_to_images
    add("--steps", type=whole(1, 10_000), default=50, metavar="N", help="denoising steps; default 50")
    add("--guidance", type=real(0, 1000), default=7.5, metavar="X", help="guidance scale; default 7.5")
    add(
        "--size",
        type=whole(8, 8192),
        metavar="PIXELS",
        help="width and height, a multiple of 8; default the model's own",
    )


def _check(options: argparse.Namespace) -> None:
    """Refuse an output that is what is read, and a size that cannot be drawn."""
    if options.kind == "images":
        from suisei.encoders.drawings import check_draw_size

        check_draw_size("--size", options.size)
    read = [("DATA", file_of(options.data)), *given(vars(options), "positives", "references")]
    if options.kind != "join":
        manifest = Path(options.output) / f"{options.kind}.jsonl"
        check_outputs(
            [("the manifest", manifest)] if manifest.parent.is_dir() else [],
            read,
            folders=given(vars(options), "output"),
        )
        return
    if Path(options.output).suffix.lower() != ".jsonl":
        raise ConfigError(f"--output {options.output}: pairs are JSON lines; the name must end in .jsonl")
    if Path(options.positives).is_dir():
        from suisei.pacs.manifest import KINDS

        read += [("--positives", Path(options.positives) / f"{kind}.jsonl") for kind in KINDS]
    check_outputs(given(vars(options), "output"), read, sealed=given(vars(options), "root"))


def _sources(options: argparse.Namespace) -> list[Source]:
    from suisei.pacs.sources import read_sources

    return read_sources(
        options.data,
        root=options.root,
        images=options.images,
        columns=named_columns(options),
        references=options.references,
        allowed=allowed(options),
    )


def _first(sources: Iterable[Source], limit: int | None) -> Iterator[Source]:
    """Yield the sources of the first images; rated data have several of each."""
    seen: set[str] = set()
    for number, source in enumerate(sources):
        image = str(source.image or source.id or number)
        if image in seen or limit is None or len(seen) < limit:
            seen.add(image)
            yield source


def _items(sources: Iterable[Source], kind: str, problems: list[str]) -> Iterator[_Item]:
    """Yield what to generate from, each different image or caption once; adds what cannot be read."""
    from suisei.data.images import content_key
    from suisei.data.item_seeds import text_key

    seen: set[str] = set()
    for source in sources:
        if kind == "images":
            found = [_Item(text_key(caption), None, caption, source.id) for caption in source.captions]
        elif source.image is None:
            found = []
        else:
            try:
                found = [_Item(content_key(source.image), source.image, "", source.id)]
            except DataError as error:
                problems.append(str(error))
                continue
        for item in found:
            if item.source not in seen:
                seen.add(item.source)
                yield item
    if not seen and not problems:
        raise DataError(f"the data has no {'captions' if kind == 'images' else 'images'} to generate from")


def _check_recipe(writer: PositiveWriter, options: argparse.Namespace, *, loads: bool) -> None:
    """Refuse other options than those of the folder's items, even where nothing is left to do.

    Args:
        writer: of the folder.
        options: the command's.
        loads: whether the model is loaded next, and its version compared then.
    """
    from suisei.encoders.text_to_image import known_revision
    from suisei.pacs.generators import CAPTIONER, ILLUSTRATOR

    model = options.model or (CAPTIONER if options.kind == "captions" else ILLUSTRATOR)
    fields: dict[str, Any] = {"run_seed": options.seed, "model": model}
    if (folder := Path(model)).is_dir():
        fields["model"] = folder.resolve().name
    if not loads and (revision := known_revision(model, options.revision)):
        fields["revision"] = revision
    if options.kind == "images":
        settings = {"num_inference_steps": options.steps, "guidance_scale": options.guidance}
        settings |= {"height": options.size}
    else:
        settings = {"max_new_tokens": options.max_tokens}
        settings |= {"num_beams": options.beams} if options.top_p is None else {"top_p": options.top_p}
    writer.check(settings=settings, **fields)


def _generate(
    writer: PositiveWriter, items: Sequence[_Item], options: argparse.Namespace, problems: list[str]
) -> None:
    from suisei.encoders.batch_sizes import is_out_of_memory
    from suisei.pacs.generators import CAPTIONER, ILLUSTRATOR, Captioner, Illustrator
    from suisei.pacs.positive_writer import Recipe
    from suisei.progress import progress_bar

    common = {"revision": options.revision, "device": options.device}
    generator: Any
    if options.kind == "captions":
        generator = Captioner(
            options.model or CAPTIONER,
            beams=options.beams,
            top_p=options.top_p,
            max_tokens=options.max_tokens,
            **common,
        )
    else:
        generator = Illustrator(
            options.model or ILLUSTRATOR,
            steps=options.steps,
            guidance=options.guidance,
            size=options.size,
            **common,
        )
    recipe = Recipe(generator.name, generator.revision, options.seed, generator.settings)
    writer.begin(recipe)
    make = _make_captions if options.kind == "captions" else _make_images
    with progress_bar(f"generating {options.kind}", len(items)) as advance:
        for start in range(0, len(items), options.batch_size):
            batch = items[start : start + options.batch_size]
            try:
                make(writer, recipe, generator, batch, problems)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                raise _out_of_memory(error) from error
            advance(len(batch))


def _make_captions(
    writer: PositiveWriter, recipe: Any, generator: Any, batch: Sequence[_Item], problems: list[str]
) -> None:
    from suisei.data.images import check_unchanged, load_image

    readable, pictures = [], []
    for item in batch:
        try:
            picture = load_image(str(item.image))
            check_unchanged([item.source], [item.image])  # it was looked at when the run began
            pictures.append(picture)
        except DataError as error:  # is tried again by the next run
            problems.append(str(error))
        else:
            readable.append(item)
    if not readable:
        return
    captions = generator.generate(pictures, [recipe.item_seed(item.source) for item in readable])
    for item, caption in zip(readable, captions, strict=True):
        origin = {"id": item.id, "image": str(item.image)}
        if caption:
            writer.add_caption(item.source, caption, **origin)
        else:
            writer.add_problem(item.source, "the model gave an empty caption", **origin)


def _make_images(
    writer: PositiveWriter, recipe: Any, generator: Any, batch: Sequence[_Item], problems: list[str]
) -> None:
    pictures = generator.generate(
        [item.caption for item in batch], [recipe.item_seed(item.source) for item in batch]
    )
    for item, picture in zip(batch, pictures, strict=True):
        origin = {"id": item.id, "caption": item.caption}
        if picture is None:
            writer.add_problem(item.source, "declined by the model's safety checker", **origin)
        else:
            writer.add_image(item.source, picture, **origin)


def _join(options: argparse.Namespace) -> int:
    from suisei.data.pairs import ImageCaptions
    from suisei.pacs.manifest import join_positives, read_positives, write_pairs

    sources, real = _sources(options), RealPaths()
    pairs = [
        ImageCaptions(
            Path(full_path(source.image)),
            tuple(dict.fromkeys(source.captions)),
            source.generated_images,
            source.generated_captions,
            source.generated_from,
        )
        for source in sources
        if source.image is not None and source.captions
    ]
    if not pairs:
        raise ConfigError(f"{options.data} has no images with captions to train on")
    joined = join_positives(pairs, read_positives(options.positives))
    write_pairs(Path(options.output), joined)
    captions = sum(bool(pair.generated_captions) for pair in joined)
    images = sum(len(pair.generated_images) for pair in joined)
    files = {_behind_links(pair.image, real) for pair in pairs}
    copies = f" of {counted(len(files), 'file')}, copies as one" if len(files) > len(joined) else ""
    _report(
        f"{options.output}: {counted(len(joined), 'image')}{copies}, {captions:,} with a generated caption, "
        f"{counted(images, 'generated image')}{_left_out(sources, files, real)}",
        [],
    )
    return 0


def _behind_links(image: Path, real: RealPaths) -> str:
    """Return the path of an image's file, by which it is one however rows name it."""
    try:
        return real.of(image)
    except ValueError:  # a NUL in it, which is said where the image is read
        return full_path(image)


def _left_out(sources: Sequence[Source], kept: Container[str], real: RealPaths) -> str:
    """Return what has no place among training pairs, as the end of a sentence; "" for nothing."""
    images = {_behind_links(source.image, real) for source in sources if source.image is not None}
    bare = sum(image not in kept for image in images)
    imageless = sum(source.image is None for source in sources)
    if not bare and not imageless:
        return ""
    return (
        f"; left out: {counted(bare, 'image')} without captions, {counted(imageless, 'row')} without an image"
    )


def _out_of_memory(error: BaseException) -> UnavailableError:
    return UnavailableError(f"out of memory; use a smaller --batch-size ({str(error)[:120]})")


def _report(summary: str, problems: Sequence[str]) -> None:
    lines = [f"{counted(len(problems), 'image')} could not be read:"] if problems else []
    lines += [f"  {problem}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"  ... and {len(problems) - SHOWN_PROBLEMS} more")
    from rich.console import Console

    console = Console(stderr=True)
    for line in lines:
        say(console, line, "red")
    say(console, summary)
