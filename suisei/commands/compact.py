"""``suisei compact``: a trained model made small enough to ship, and what that changes of its scores."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.command_parser import CommandParser
from suisei.commands.new_folder import check_new_folder, new_folder
from suisei.commands.option_values import filled, positive
from suisei.commands.options import add_data_options
from suisei.commands.reports import Files, Report, add_report_options, check_report
from suisei.commands.steps import read_samples
from suisei.data.outputs import given
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.tables import Table
    from suisei.metrics.suisei import SuiSeiMetric
    from suisei.models.regressor import Regressor

LEAST_AGREEMENT, LARGEST_DIFFERENCE = 0.999, 0.01
"""A small model is fine whose scores agree in rank with the whole one's, and differ nowhere by more."""

_EPILOG = """examples:
  suisei compact runs/mine/model --output small --base multilingual-e5-small --keep-text words.txt
  suisei compact runs/mine/model --output small --whole-vocabulary --bits 8

The vocabulary is cut to Japanese and English: every single character, all pieces of kana and kanji, signs,
digits, and whatever the references of the training and the lines of --keep-text are cut into (a list of
English words belongs there). With --base, the folder of the encoder that was trained further, its weights
are stored in --bits and what training changed in --change-bits: rounding the trained weights themselves
undoes the training. Both are measured on --data before the command calls the result fine.

Exit status: 0, or 1 if the scores of the small model differ too much (it is written all the same), or 2
for a wrong option or unusable data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.metrics.loading import load
    from suisei.models.folder import ratings_of, save_model
    from suisei.training.small_card import measured_card

    messages = Console(stderr=True)
    whole = load(options.model, device="cpu", precision="fp32", cache="off")
    if any(second.shared for second in whole.model.seconds):
        raise ConfigError(f"{options.model}: a second model reads with its encoder; make it small before")
    samples, notes = _samples(options, whole)
    say(messages, f"scoring {counted(len(samples), 'sample')} with {options.model}")
    scores = {"": whole.score(samples)}
    called = whole.regressor.config.text.name
    regressor, old, base = _smaller(whole.regressor, options)
    extras = whole.extras.state()
    if old is not None:
        say(messages, f"scoring with {len(old):,} pieces")
        scores["vocabulary cut"] = _with(whole, regressor).score(samples)
    stored = _stored(regressor, base, options)
    card_text = _card(options, regressor, old, called)
    with new_folder(options.output) as folder:  # in its place once its card is measured
        save_model(
            folder,
            regressor,
            extras=extras,
            card=card_text,
            stored=stored,
            seconds=whole.model.seconds,
            ratings=ratings_of(whole.model),
        )
        say(messages, f"scoring with {options.output}")
        small = load(folder, device="cpu", precision="fp32", cache="off")
        scores["and rounded" if old is not None else "rounded"] = small.score(samples)
        table = _table(scores, samples)
        fine, changed, verdict = _is_fine(table, options)
        card = folder / "README.md"  # which no checksum covers
        of = f"{counted(len(samples), 'caption')} of {Path(options.data).name}"
        measured = measured_card(card.read_text(encoding="utf-8"), f"{changed}, on {of}", small.signature)
        card.write_text(measured, encoding="utf-8")
    sizes = {"before": _size(Path(options.model)), "after": _size(Path(options.output))}
    content = {"table": table.as_dict(), "bytes": sizes, "fine": fine, "signature": small.signature}
    lines = [f"{sizes['before'] / 1e6:.1f} MB before, {sizes['after'] / 1e6:.1f} MB after", verdict]
    Report(content, [table], lines=lines, notes=notes).conclude(Files.of(options))
    return 0 if fine else 1


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei compact",
        description="Store a trained model in a tenth of its size, and measure what that changes.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", type=filled, help="a model folder")
    add = parser.add_argument_group("what becomes smaller").add_argument
    add(
        "--base", metavar="DIR", type=filled,
        help="folder of the text encoder before training, with model.safetensors",
    )  # fmt: skip
    add(
        "--bits", type=int, choices=(4, 8),
        help="of the encoder's weights (default: 4 with --base, else 8)",
    )  # fmt: skip
    add("--change-bits", type=int, choices=(4, 8), default=4, help="of the change from --base (default 4)")
    add(
        "--keep-text", metavar="FILE", type=filled, action="append", default=[],
        help="UTF-8 text, whose pieces stay in the vocabulary; may be given more than once",
    )  # fmt: skip
    add("--whole-vocabulary", action="store_true", help="keep the vocabulary as it is")
    add = parser.add_argument_group("what is measured").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, default="scenes",
        help="a benchmark's name, or a file of samples (default scenes)",
    )  # fmt: skip
    add_data_options(add)
    add("--limit", type=positive, default=600, metavar="N", help="samples, evenly spread (default 600)")
    add = parser.add_argument_group("output").add_argument
    add("--output", metavar="DIR", type=filled, required=True, help="the new model folder")
    add("--name", metavar="NAME", type=filled, help="what the card calls the model")
    add("--encoder", metavar="NAME", type=filled, help="what settings and card call the text encoder")
    add(
        "--card-figures", metavar="FILE", type=filled,
        help="JSON of 'python -m tests.benchmarks.zero_shot': a table for the card",
    )  # fmt: skip
    add_report_options(add, page=False)
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after all scoring."""
    if options.whole_vocabulary and options.keep_text:
        raise ConfigError("--keep-text says what a cut vocabulary keeps; leave out --whole-vocabulary")
    if options.base and not (Path(options.base) / "model.safetensors").is_file():
        raise ConfigError(f"--base {options.base}: no folder with a model.safetensors")
    for path in (*options.keep_text, *([options.card_figures] if options.card_figures else [])):
        if not Path(path).is_file():
            raise ConfigError(f"{path}: no such file")
    _figures(options)
    if options.bits is None:
        options.bits = 4 if options.base else 8
    inputs = given(vars(options), "data", "keep_text", "card_figures")
    check_new_folder(options.output, [options.model])
    check_report(options, inputs, sealed=["model", "base", "root"])


def _samples(options: argparse.Namespace, metric: SuiSeiMetric) -> tuple[list[CaptionSample], list[str]]:
    read, notes = read_samples(options)
    lacking = metric.missing(read)
    samples = [sample for position, sample in enumerate(read) if position not in lacking]
    if len(samples) < 2:
        raise DataError(
            f"{options.data}: {counted(len(samples), 'sample')} that the model scores, and ranks need two"
        )
    step = max(1.0, len(samples) / options.limit)
    chosen = [samples[int(number * step)] for number in range(min(options.limit, len(samples)))]
    told = [f"data: {options.data}, {len(chosen):,} of {len(samples):,} samples", *notes]
    reasons = Counter(lacking.values())
    return chosen, [*told, *(f"{counted(count, 'sample')} left out: {why}" for why, count in reasons.items())]


def _smaller(
    regressor: Regressor, options: argparse.Namespace
) -> tuple[Regressor, list[int] | None, dict[str, Tensor] | None]:
    """Return the model with fewer pieces, their old ids, and the weights before training."""
    from suisei.models.compaction import read_base, with_encoder_name, with_fewer_pieces
    from suisei.models.config import portable_name
    from suisei.models.packed_rows import unpack_rows

    unpack_rows(regressor)
    name = options.encoder or portable_name(regressor.config.text.name)
    regressor, old = with_encoder_name(regressor, name), None
    if not options.whole_vocabulary:
        regressor, old = with_fewer_pieces(regressor, _lines(options.keep_text))
    return regressor, old, read_base(Path(options.base), old) if options.base else None


def _lines(files: Sequence[str]) -> Iterator[str]:
    for path in files:
        try:
            with Path(path).open(encoding="utf-8-sig") as stream:
                yield from (line.strip() for line in stream if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"--keep-text {path}: cannot be read as UTF-8 text ({error})") from None


def _with(metric: SuiSeiMetric, regressor: Regressor) -> SuiSeiMetric:
    from dataclasses import replace

    from suisei.metrics.suisei import SuiSeiMetric as NewMetric

    return NewMetric(replace(metric.model, regressor=regressor), "cpu", "fp32", cache="off")


def _stored(
    regressor: Regressor, base: dict[str, Tensor] | None, options: argparse.Namespace
) -> dict[str, Tensor]:
    from suisei.models.compaction import small_weights

    return small_weights(regressor, options.bits, base=base, change_bits=options.change_bits)


def _table(scores: dict[str, np.ndarray], samples: Sequence[CaptionSample]) -> Table:
    """Return how scores of the smaller models agree with the first ones, over all and by language."""
    from suisei.data.sample import LANGUAGE_NAMES, language_of
    from suisei.metaeval.tables import Section
    from suisei.metaeval.tables import Table as NewTable

    languages = [language_of(sample) for sample in samples]
    before = scores.pop("")
    sections = []
    scopes: list[tuple[str | None, str]] = [(None, "all"), *LANGUAGE_NAMES.items()]
    for language, title in scopes:
        rows = [row for row, own in enumerate(languages) if language in (None, own)]
        if len(rows) > 1:
            own = tuple(_row(label, before[rows], after[rows]) for label, after in scores.items())
            sections.append(Section(title, own))
    columns = {"rank": "rank agreement", "largest": "largest difference", "mean": "mean", "n": "n"}
    title = "Scores of the small model against those of the whole one"
    return NewTable(title, columns, tuple(sections), digits=5, row_heading="Change")


def _row(label: str, before: np.ndarray, after: np.ndarray) -> Any:
    import numpy as np

    from suisei.metaeval.correlation import CorrelationError, spearman
    from suisei.metaeval.tables import Cell, Row

    difference = np.abs(after - before)
    try:
        rank = Cell(spearman(before, after))
    except CorrelationError as error:
        rank = Cell(None, reason=str(error))
    cells = {"largest": Cell(float(difference.max())), "mean": Cell(float(difference.mean()))}
    return Row(label, {"rank": rank, **cells, "n": Cell(len(before))})


def _is_fine(table: Table, options: argparse.Namespace) -> tuple[bool, str, str]:
    """Return whether the last row of every section is within the limits, by how much, and both in words."""
    rows = [section.rows[-1] for section in table.sections]
    ranks = [row.cells["rank"].value for row in rows]
    largest = max(float(row.cells["largest"].value or 0) for row in rows)
    agreement = min((float(rank) for rank in ranks if rank is not None), default=0.0)
    changed = f"rank agreement {agreement:.5f}, largest difference {largest:.5f}"
    found = f"{changed} (at least {LEAST_AGREEMENT} and at most {LARGEST_DIFFERENCE})"
    if agreement >= LEAST_AGREEMENT and largest <= LARGEST_DIFFERENCE and None not in ranks:
        return True, changed, f"fine: {found}"
    return False, changed, f"NOT fine, do not ship it: {found}; {_advice(options)}"


def _advice(options: argparse.Namespace) -> str:
    """Say what changes the scores less, of what this run has not done already."""
    left = {
        "--base": not options.base,
        "--bits 8": options.bits < 8,
        "--change-bits 8": options.base and options.change_bits < 8,
        "more --keep-text": not options.whole_vocabulary,
    }
    untried = [name for name, is_left in left.items() if is_left]
    return f"try {' or '.join(untried)}" if untried else "keep the model as it is"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _figures(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what --card-figures holds, of which a table can be made; None without it."""
    if not options.card_figures:
        return None
    from suisei.data.json_files import read_object
    from suisei.training.small_card import figures_table

    figures = read_object(Path(options.card_figures))
    try:
        figures_table(figures)
    except DataError as error:
        raise DataError(f"--card-figures {options.card_figures}: {error}") from None
    return figures


def _card(options: argparse.Namespace, regressor: Regressor, old: list[int] | None, called: str) -> str:
    from suisei.models.folder import read_card
    from suisei.training.small_card import Storage, small_card

    card = read_card(Path(options.model))
    card = card.replace(json.dumps(called), json.dumps(regressor.config.text.name))  # no path of this machine
    storage = Storage(
        regressor.config.text.name,
        len(regressor.text.tokenizer) if old is not None else None,
        options.bits,
        options.change_bits if options.base else None,
    )
    return small_card(card, storage, name=options.name, figures=_figures(options))
