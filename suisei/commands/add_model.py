"""``suisei add-model``: weigh a second model beside a model, and say what that adds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.cli import counted
from suisei.commands.command_parser import CommandParser
from suisei.commands.fitted_table import fitted_table, not_learned
from suisei.commands.new_folder import check_new_folder, loaded_and_signed, new_folder
from suisei.commands.option_values import filled
from suisei.commands.options import add_data_options
from suisei.commands.reports import Files, Report, add_report_options, check_report
from suisei.commands.steps import read_samples
from suisei.data.outputs import given
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from suisei.data.sample import CaptionSample
    from suisei.metrics.suisei import SuiSeiMetric
    from suisei.models.second import Weighing

_COMMON = ("--languages", "--data", "--root", "--learned", "--share", "--output", "--json")
_NOTES = {
    "fitted": "how much the second counts was fitted to these ratings; evaluate with others",
    "equal": "these ratings did not decide how much the second counts",
}
LEAST = 10
"""Rated samples that two weights need at least."""
_EPILOG = """examples:
  suisei add-model runs/mine/model runs/other/model --data ratings.jsonl --output both
  suisei add-model MODEL ENGLISH --languages en --data flickr8k-cf --root FLICKR8K
      --learned flickr8k-expert --output both

Two encoders that learned from other sentences err on other captions. The new folder holds both models whole:
of a candidate with references, all in --languages, its score is a weighed mean of both on the scale of
logits; all else the first scores as before. The second's share is fitted to --data, ratings on any scale
that neither model should have learned from: of what they learned from they are surer than they should be.
Both models should have learned one scale of ratings, for their scores are averaged as they are."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from suisei.metrics.loading import load
    from suisei.models.second import Weighing
    from suisei.training.weighing import equal_spread, fit_second

    first, second = (
        load(model, device="cpu", precision="fp32", cache=options.cache)
        for model in (options.model, options.second)
    )
    second, shared = _fitting(options, first, second)
    samples, notes = _samples(options)
    scores = {"first": first.score(samples, progress=True), "second": second.score(samples, progress=True)}
    samples, scores, ratings = _scored(options, samples, scores)
    if options.share == "equal":
        weighing = equal_spread(scores["first"], scores["second"], options.languages)
    elif isinstance(options.share, float):
        weighing = Weighing(tuple(options.languages), options.share)
    else:
        weighing = fit_second(scores["first"], scores["second"], ratings, options.languages)
    scores["both"] = weighing.combined(scores["first"], scores["second"])
    with new_folder(options.output) as folder:  # in its place once its card is signed
        new = _written(options, folder, first, second, weighing, shared=shared)
    title = "Agreement with the ratings, of each model and of both"
    note = _NOTES.get(options.share, _NOTES["equal"])
    table = fitted_table(title, "Model", scores, samples, note)
    content = {"table": table.as_dict(), "weighing": weighing.to_dict(), "signature": new.signature}
    lines = [f"model: {options.output}", f"the second's share of a logit is {weighing.share:.3f}"]
    idle = {"0.000": "second", "1.000": "first"}.get(f"{weighing.share:.3f}")
    if idle:
        lines.append(f"so the {idle} decides nothing of captions in {' and '.join(options.languages)}")
    if "image" in second.reads:
        lines.append("the second looks at images by itself; beside the first it is shown none, as here")
    if shared:
        read = "encoder, idf table and extra inputs"
        lines.append(f"the second reads with the first's {read}: its network alone is stored")
    Report(content, [table], lines=lines, notes=notes).conclude(Files.of(options))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei add-model",
        description="Weigh a second model beside a model, and say what that adds.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    parser.add_argument("model", metavar="MODEL", type=filled, help="a model folder")
    parser.add_argument("second", metavar="SECOND", type=filled, help="another")
    parser.add_argument(
        "--languages", metavar="A,B", type=_languages, default=list(LANGUAGE_NAMES),
        help=f"of the captions that the second is asked of (default {','.join(LANGUAGE_NAMES)})",
    )  # fmt: skip
    add = parser.add_argument_group("what is learned from").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, required=True,
        help="a benchmark's name, or a file of rated samples with references, on any scale",
    )  # fmt: skip
    add_data_options(add)
    add(
        "--learned", metavar="NAME_OR_FILE", type=filled, action="append", default=[],
        help="samples that a model learned from, left out of --data; may be given more than once",
    )  # fmt: skip
    add(
        "--share", type=_share, default="fitted", metavar="SHARE",
        help="of the second: fitted to the ratings (default); equal, which no rating decides: both "
        "models' logits are spread as far over --data; or a number from 0 to 1",
    )  # fmt: skip
    add("--cache", metavar="DIR", type=filled, help="where features are kept, or off")
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", type=filled, required=True, help="the new model folder")
    add_report_options(add, page=False)
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after all scoring."""
    check_new_folder(options.output, [options.model, options.second])
    check_report(options, given(vars(options), "data", "learned"), sealed=["model", "second", "root"])


def _share(text: str) -> str | float:
    """Read how much the second counts."""
    if text in _NOTES:
        return text
    with suppress(ValueError):
        if 0 <= (share := float(text)) <= 1:
            return share
    raise argparse.ArgumentTypeError(f"must be fitted, equal, or a number from 0 to 1, got {text[:40]!r}")


def _languages(text: str) -> list[str]:
    """Read languages with commas between them."""
    found = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(found) <= set(LANGUAGE_NAMES):
        known = ", ".join(LANGUAGE_NAMES)
        raise argparse.ArgumentTypeError(f"must be of {known}, with commas between them, got {text[:40]!r}")
    return found


def _fitting(
    options: argparse.Namespace, first: SuiSeiMetric, second: SuiSeiMetric
) -> tuple[SuiSeiMetric, bool]:
    """Return the second as it is to be beside the first, and whether it reads with the first's encoder.

    Raises:
        ConfigError: it has a second itself, or the first has one in these languages.
    """
    from suisei.metrics.suisei import SuiSeiMetric
    from suisei.models.shared_second import beside, is_shared

    if second.model.seconds:
        raise ConfigError(
            f"{second.model.path} has a second model itself; give its folder from before it had"
        )
    taken = [language for own in first.model.seconds for language in own.weighing.languages]
    if set(taken) & set(options.languages):
        raise ConfigError(
            f"{first.model.path} has a second model for {' and '.join(taken)}; --languages must be others, "
            "or give its folder from before it had"
        )
    own, other = first.model, second.model
    if not is_shared(own.regressor, own.extras, other.regressor, other.extras):
        return second, False
    names = second.regressor.config.fusion.extra_inputs
    extras = {name: first.model.extras[name] for name in names}
    read = replace(second.model, regressor=beside(first.regressor, second.regressor), extras=extras)
    return SuiSeiMetric(read, "cpu", "fp32", cache=options.cache), True


def _samples(options: argparse.Namespace) -> tuple[list[CaptionSample], list[str]]:
    """Return the rated samples in the languages, without images and without those learned from."""
    from suisei.metrics.training_data import seen_notes
    from suisei.models.second import Weighing

    read, notes = read_samples(options)
    spoken = Weighing(tuple(options.languages), 0.0).asked(read)
    rated = [read[position] for position in spoken if read[position].rating is not None]
    kept = not_learned(rated, _learned(options))
    if options.learned:
        notes = [*notes, f"{counted(len(rated) - len(kept), 'sample')} left out that --learned has"]
    if len(kept) == len(rated):
        specs = {name: f"suisei:{name}" for name in (options.model, options.second)}
        notes = [*notes, *seen_notes(specs, options.data).values()]
    return [replace(sample, image=None) for sample in kept], notes


def _learned(options: argparse.Namespace) -> Iterator[CaptionSample]:
    from suisei.commands.allowances import allowed
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.formats import UNRATED
    from suisei.data.load import load_data

    for name in options.learned:
        root = None if Path(name).is_file() else options.root
        columns = None if name in BENCHMARKS else UNRATED  # how they are rated is no matter
        yield from load_data(
            name, root=root, images=options.images, columns=columns, allowed=allowed(options)
        )


def _scored(
    options: argparse.Namespace, samples: Sequence[CaptionSample], scores: dict[str, np.ndarray]
) -> tuple[list[CaptionSample], dict[str, np.ndarray], np.ndarray]:
    """Return the samples that both models score, with their scores and mean ratings [N].

    Raises:
        DataError: too few samples, or no difference between their ratings.
    """
    import numpy as np

    from suisei.metaeval.agreement import mean_rating

    known = ~np.isnan(np.stack(list(scores.values()))).any(axis=0)
    found = [sample for sample, own in zip(samples, known, strict=True) if own]
    ratings = np.array([mean_rating(sample.rating.scaled) for sample in found if sample.rating is not None])
    different = len(np.unique(ratings))
    if len(found) < LEAST or different < 2 or any(own[known].std() == 0 for own in scores.values()):
        wanted = " or ".join(options.languages)
        raise DataError(
            f"{options.data}: {counted(len(found), 'sample')} in {wanted} with references, a rating and "
            f"scores of both models, with {different} different ratings; {LEAST} are needed, whose ratings "
            "and scores differ"
        )
    return found, {label: own[known] for label, own in scores.items()}, ratings


def _written(
    options: argparse.Namespace,
    folder: Path,
    first: SuiSeiMetric,
    second: SuiSeiMetric,
    weighing: Weighing,
    *,
    shared: bool,
) -> SuiSeiMetric:
    """Write the folder of both, and return it loaded."""
    from suisei.metrics.training_data import trained_on
    from suisei.models.config import portable_name
    from suisei.models.folder import read_card, save_pair
    from suisei.models.second import Second
    from suisei.training.small_card import card_with_second

    config = second.regressor.config.text
    learned = Path(options.data).name if options.share in ("fitted", "equal") else ""
    depth = len(second.regressor.text.backbone.layers) if shared else None
    card, encoder = read_card(first.model.path), portable_name(config.name)
    equal = options.share == "equal"
    own = second.model
    rated = [Path(name).name for name in trained_on(f"suisei:{own.path}")]
    text = card_with_second(
        card, encoder, weighing.languages, learned, equal=equal, depth=depth, ratings=rated
    )
    beside = Second(weighing, own.path, own.within, own.checksum, shared)
    save_pair(folder, first.model, beside, card=text)
    return loaded_and_signed(folder)
