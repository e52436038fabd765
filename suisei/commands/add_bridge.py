"""``suisei add-bridge``: have a caption beside references in the other language score as beside its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.cli import counted
from suisei.commands.command_parser import CommandParser
from suisei.commands.new_folder import check_new_folder, loaded_and_signed, new_folder
from suisei.commands.option_values import filled
from suisei.commands.options import add_data_options
from suisei.commands.reports import Files, Report, add_report_options, check_report
from suisei.commands.steps import read_samples
from suisei.data.outputs import given
from suisei.data.sample import LANGUAGE_NAMES, language_of
from suisei.data.spoken import beside_references_in, references_in
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.tables import Row, Table
    from suisei.metrics.suisei import SuiSeiMetric

LEAST = 10
"""Captions that a line needs at least."""
_COMMON = ("--data", "--root", "--output", "--json")
_EPILOG = """examples:
  suisei add-bridge runs/mine/model --output bridged
  suisei add-bridge runs/mine/model --data bilingual.jsonl --output bridged

Cosines between captions that mean the same are lower across languages than within one, and words do not
overlap: a Japanese caption beside English references scores far too low. The new folder holds the model with
a line from such a cosine to the score, fitted so that captions of images with references in both languages
score beside either as they did beside their own; --data needs such images (a sample's group, else its image,
says which is which) and no ratings. The line counts where a caption has no reference in its own language;
where it has some, the others are not read. All other scores stay as they are."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    check_new_folder(options.output, [options.model])
    check_report(options, given(vars(options), "data"), sealed=["model", "root"])
    from suisei.metrics.loading import load
    from suisei.training.weighing import fit_bridge

    metric = load(options.model, device="cpu", precision="fp32", cache=options.cache)
    if metric.regressor.start is None:
        raise ConfigError(
            f"{options.model} does not start from the cosine (model.head.start: cosine), so a line through "
            "the cosine cannot stand in for it"
        )
    read, notes = read_samples(options)
    own, across = _beside_both(read, options.data)
    wanted, before = metric.score(own, progress=True), metric.score(across, progress=True)
    cosines = metric.reference_cosines(across)
    if min(cosines.std(), wanted.std()) == 0:
        raise DataError(f"{options.data}: all captions have one score, or one cosine; a line needs several")
    scale = metric.regressor.scale  # the line lies before the map to the scale of ratings, scores after it
    bridge = fit_bridge(cosines, wanted if scale is None else scale.learn(wanted))
    if bridge[0] <= 0:
        raise DataError(
            f"{options.data}: scores beside a caption's own language fall where cosines across languages "
            "rise; are the references of a group all of one image?"
        )
    with new_folder(options.output) as folder:  # in its place once it is measured
        new = _written(options, folder, metric, bridge)
        scores = {"as before": before, "with the bridge": new.score(across)}
        table = _table(own, wanted, scores)
    content = {"table": table.as_dict(), "bridge": list(bridge), "signature": new.signature}
    slope, offset = bridge
    lines = [f"model: {options.output}", f"the logit across languages is {slope:.2f} * cosine {offset:+.2f}"]
    Report(content, [table], lines=lines, notes=notes).conclude(Files.of(options))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei add-bridge",
        description="Have a caption beside references in the other language score as beside its own.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    parser.add_argument(
        "model", metavar="MODEL", type=filled, help="a model folder that starts from the cosine"
    )
    add = parser.add_argument_group("what is learned from").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, default="scenes",
        help="a benchmark's name, or a file of samples of images with references in both languages "
        "(default scenes)",
    )  # fmt: skip
    add_data_options(add)
    add("--cache", metavar="DIR", type=filled, help="where features are kept, or off")
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", type=filled, required=True, help="the new model folder")
    add_report_options(add, page=False)
    return parser


def _beside_both(
    samples: Sequence[CaptionSample], name: str
) -> tuple[list[CaptionSample], list[CaptionSample]]:
    """Return samples with references in their own language, and the same with those in the other.

    Raises:
        DataError: too few have both.
    """
    beside = {language: beside_references_in(samples, language) for language in LANGUAGE_NAMES}
    own, across = [], []
    for position, sample in enumerate(samples):
        language = language_of(sample)
        (other,) = LANGUAGE_NAMES.keys() - {language}
        texts, compared = references_in(sample, language), beside[other].get(position)
        if texts and compared is not None:
            own.append(replace(sample, references=texts, image=None))
            across.append(replace(compared, image=None))
    if len(own) < LEAST:
        raise DataError(
            f"{name}: {counted(len(own), 'caption')} with references in their own language, whose image has "
            f"some in the other; {LEAST} are needed"
        )
    return own, across


def _table(samples: Sequence[CaptionSample], wanted: np.ndarray, scores: dict[str, np.ndarray]) -> Table:
    """Return how scores across languages lie beside those within one, by the captions' language."""
    import numpy as np

    from suisei.metaeval.tables import Section
    from suisei.metaeval.tables import Table as NewTable

    spoken = np.array([language_of(sample) for sample in samples])
    parts = {"all": np.ones(len(samples), dtype=bool)}
    parts |= {f"{name} captions": spoken == code for code, name in LANGUAGE_NAMES.items()}
    sections = [
        Section(title, (_row("references in its language", wanted[part], None), *(
            _row(f"in the other, {label}", own[part], wanted[part]) for label, own in scores.items()
        )))
        for title, part in parts.items()
        if part.any()
    ]  # fmt: skip
    return NewTable(
        "Scores beside references in each language",
        {"mean": "mean score", "difference": "mean difference", "apart": "mean size of it", "n": "n"},
        tuple(sections),
        notes=("the bridge was fitted to these captions, without their ratings",),
        row_heading="Compared with",
    )


def _row(label: str, scores: np.ndarray, wanted: np.ndarray | None) -> Row:
    import numpy as np

    from suisei.metaeval.tables import Cell
    from suisei.metaeval.tables import Row as NewRow

    cells = {"mean": Cell(float(scores.mean())), "n": Cell(len(scores))}
    if wanted is not None:
        cells["difference"] = Cell(float((scores - wanted).mean()))
        cells["apart"] = Cell(float(np.abs(scores - wanted).mean()))
    return NewRow(label, cells)


def _written(
    options: argparse.Namespace, folder: Path, metric: SuiSeiMetric, bridge: Sequence[float]
) -> SuiSeiMetric:
    """Write the folder, and return it loaded."""
    from suisei.models.folder import read_card, save_bridged
    from suisei.training.small_card import card_with_bridge

    card = card_with_bridge(read_card(metric.model.path), Path(options.data).name)
    save_bridged(folder, metric.model, bridge, card=card)
    return loaded_and_signed(folder, cache=options.cache)
