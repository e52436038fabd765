"""``suisei add-images``: have a model that reads captions look at images too, and say what that adds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.fitted_table import fitted_table, not_learned
from suisei.commands.new_folder import check_new_folder, loaded_and_signed, new_folder
from suisei.commands.option_values import filled, positive, seed
from suisei.commands.options import add_data_options
from suisei.commands.reports import Files, Report, add_report_options, check_report
from suisei.commands.steps import read_samples
from suisei.data.outputs import given
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.tables import Table
    from suisei.metrics.suisei import SuiSeiMetric
    from suisei.training.image_side import ImageSideData, Weighed

_EPILOG = """examples:
  suisei add-images runs/mine/model --tower ViT-B-16 --pairs flickr8k-train --data flickr8k-expert
      --root FLICKR8K --output runs/mine-seeing
  suisei add-images MODEL --tower timm:tf_efficientnet_lite0 --weights lite0.safetensors
      --pairs pairs.jsonl --data rated.jsonl --output seeing

The tower and the model's captions stay as they are: what is learned is one matrix, by which an image lies
near its captions, and what a caption's cosine with it says of the rating where there are no references.
With references the new model scores as the old one did, unless --unseen has ratings that it did not learn
from, by which the image is weighed beside them: measure on captions of another kind whether it gains
there. --captions are for languages that --data and --pairs do not have."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from suisei.encoders.image import ImageEncoderConfig
    from suisei.metrics.loading import load
    from suisei.models.compaction import stored_with_images
    from suisei.models.folder import ratings_of, save_model
    from suisei.progress import reported
    from suisei.training.image_side import with_images

    metric = load(options.model, device="cpu", precision="fp32")
    if metric.model.seconds:
        raise ConfigError(f"{options.model} has a second model: add images to the first, then the second")
    data, samples, notes = _data(options, metric)
    tower = ImageEncoderConfig(options.tower, options.weights, normalise=False)
    with reported() as progress:
        regressor = with_images(
            metric.regressor, tower, data, epochs=options.epochs, seed=options.seed, progress=progress
        )
    stored = stored_with_images(metric.model.path, regressor)
    card = _card(options, metric.model.path, regressor.config.to_dict())
    ratings = ratings_of(metric.model)
    extras = metric.extras.state()
    with new_folder(options.output) as folder:  # in its place once it is measured
        save_model(folder, regressor, extras=extras, card=card, stored=stored, ratings=ratings)
        new = loaded_and_signed(folder)
        table = _table(new, samples)
    content = {"table": table.as_dict(), "signature": new.signature}
    Report(content, [table], lines=[f"model: {options.output}"], notes=notes).conclude(Files.of(options))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei add-images",
        description="Have a model that reads captions look at images too, and say what that adds.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "model", metavar="MODEL", type=filled, help="a model folder that starts from the cosine"
    )
    add = parser.add_argument_group("the image tower").add_argument
    add(
        "--tower", metavar="NAME", type=filled, required=True,
        help="a model of open_clip, or timm:ARCHITECTURE",
    )  # fmt: skip
    add(
        "--weights", metavar="TAG_OR_FILE", type=filled, default="openai",
        help="open_clip's tag, or a file of weights (default openai)",
    )  # fmt: skip
    add = parser.add_argument_group("what is learned from").add_argument
    add(
        "--pairs", metavar="NAME_OR_FILE", type=filled, required=True,
        help="images with captions: flickr8k-train, a Karpathy split with its parts "
        "(dataset_coco.json:train+restval), or JSON lines with image and captions",
    )  # fmt: skip
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, required=True,
        help="a benchmark's name, or a file of samples, rated and with images",
    )  # fmt: skip
    add_data_options(add)
    add(
        "--unseen", metavar="NAME_OR_FILE", type=filled,
        help="have the image count beside references too, as much as these ratings say, on any scale, of "
        "samples with images and references that the model did not learn from",
    )  # fmt: skip
    add(
        "--captions", metavar="NAME_OR_FILE", type=filled, action="append", default=[],
        help="samples whose references show another language; may be given more than once",
    )  # fmt: skip
    add("--captions-root", metavar="DIR", type=filled, help="where the files of --captions are")
    add("--epochs", type=positive, default=25, metavar="N", help="passes over the pairs (default 25)")
    add("--seed", type=seed, default=12, metavar="N", help="decides order and dropout (default 12)")
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", type=filled, required=True, help="the new model folder")
    add_report_options(add, page=False)
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after all learning."""
    check_new_folder(options.output, [options.model])
    from suisei.data.karpathy_parts import file_of

    read = [*given(vars(options), "data", "unseen"), ("--pairs", file_of(options.pairs))]
    check_report(options, read, sealed=["model", "root"])


def _data(
    options: argparse.Namespace, metric: SuiSeiMetric
) -> tuple[ImageSideData, list[CaptionSample], list[str]]:
    """Return what is learned from, the rated samples, and notes on them."""
    from suisei.data.karpathy_parts import file_of
    from suisei.data.pairs import load_pairs
    from suisei.training.image_side import ImageSideData

    samples, notes = read_samples(options)
    rated = _seen(samples, options.data)
    root = options.images if Path(file_of(options.pairs)).is_file() else options.root
    found_pairs = load_pairs(options.pairs, root=root, allowed=allowed(options))
    pairs = [(pair.image, pair.captions) for pair in found_pairs]
    others = [s for name in options.captions for s in _captions(options, name)]
    weighed = _weighed(options, metric, rated) if options.unseen else None
    return ImageSideData(pairs, rated, [*samples, *others], weighed), rated, notes


def _weighed(options: argparse.Namespace, metric: SuiSeiMetric, rated: Sequence[CaptionSample]) -> Weighed:
    from suisei.data.load import load_data
    from suisei.training.image_side import Weighed

    root = None if Path(options.unseen).is_file() else options.root
    found = load_data(options.unseen, root=root, images=options.images, allowed=allowed(options))
    found = not_learned(found, rated)
    unseen = _seen(found, f"{options.unseen}, without the samples of --data")
    return Weighed(unseen, _without_images(metric, rated), _without_images(metric, unseen))


def _captions(options: argparse.Namespace, name: str) -> list[CaptionSample]:
    from suisei.data.load import load_data

    if Path(name).is_file():
        return load_data(name, images=options.images, allowed=allowed(options))
    return load_data(name, root=options.captions_root)


def _seen(samples: Sequence[CaptionSample], name: str) -> list[CaptionSample]:
    """Return the samples that have a rating, references and an image."""
    kept = [s for s in samples if s.rating is not None and s.references and s.image is not None]
    if len(kept) < 3:
        raise DataError(
            f"{name}: {counted(len(kept), 'sample')} with a rating, references and an image; three are needed"
        )
    return kept


def _without_images(metric: SuiSeiMetric, samples: Sequence[CaptionSample]) -> np.ndarray:
    return metric.score([replace(sample, image=None) for sample in samples], progress=True)


def _table(metric: SuiSeiMetric, samples: Sequence[CaptionSample]) -> Table:
    """Return how scores by references, by the image and by both agree with the ratings."""
    ways = {
        "references": [replace(sample, image=None) for sample in samples],
        "image": [replace(sample, references=()) for sample in samples],
    }
    if metric.regressor.looks(compared=True):
        ways["references and image"] = list(samples)
    scores = {label: metric.score(own, progress=True) for label, own in ways.items()}
    title = "Agreement with the ratings, by what the model is shown"
    note = "the lines of the image were fitted to these ratings; evaluate with others"
    return fitted_table(title, "Shown", scores, samples, note)


def _card(options: argparse.Namespace, model: Path, settings: dict[str, Any]) -> str:
    from suisei.models.folder import read_card
    from suisei.training.small_card import card_with_images

    card = read_card(model)
    learned = [options.pairs, options.data, *([options.unseen] if options.unseen else [])]
    return card_with_images(card, options.tower, [Path(name).name for name in learned], settings)
