"""A model beside its encoder's own cosine and the n-gram metrics, far from its training.

python -m tests.benchmarks.zero_shot --model DIR --encoder DIR --json FILE

Each set is read in its official layout from the folder that SUISEI_SHARED names, and evaluated without images
by ``suisei evaluate --compare``: every pair of metrics is tested, those with the model are shown. What it was
trained on decides which rows say something: --sets chooses. ``suisei compact --card-figures FILE`` makes the
table of a card of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suisei.commands import evaluate
from suisei.errors import ConfigError
from suisei.training.small_card import figures_table

METRICS = ("meteor", "cider", "chrf")


@dataclass(frozen=True)
class Set:
    """One row of the table.

    Attributes:
        data: name of the benchmark.
        correlation: the one that papers give of it, and that is tested.
        folder: in the shared data; None for what comes with the package.
        part: of its rows, those whose id starts so.
        language: of its rows, those of this language.
    """

    data: str
    correlation: str
    folder: str | None = None
    part: str | None = None
    language: str | None = None


SETS = {
    "flickr8k-expert": Set("flickr8k-expert", "tau-c", "flickr8k"),
    "composite": Set("composite", "tau-c", "benchmarks/composite"),
    "shichimi": Set("shichimi", "tau-b", "shichimi"),
    "jsts-valid": Set("jsts", "tau-b", "jsts", part="valid"),
    "scenes-ja": Set("scenes", "tau-b", language="ja"),
    "scenes-en": Set("scenes", "tau-b", language="en"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate the chosen sets and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.zero_shot", description=__doc__)
    parser.add_argument("--model", action="append", required=True, help="a model folder; the first leads")
    parser.add_argument("--encoder", help="the untuned encoder, for its own cosine")
    parser.add_argument("--sets", default="flickr8k-expert,shichimi,jsts-valid,scenes-ja,scenes-en",
                        help=f"of {', '.join(SETS)}")  # fmt: skip
    parser.add_argument("--metrics", default=",".join(METRICS), help="beside these")
    parser.add_argument("--bootstrap", default="1000", help="resamples and permutations")
    parser.add_argument("--limit", type=int, help="rows of each set at most, to see that everything runs")
    parser.add_argument("--json", type=Path, required=True, help="everything")
    parser.add_argument("--markdown", type=Path, help="the table")
    options = parser.parse_args(argv)
    names = [name.strip() for name in options.sets.split(",")]
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise ConfigError(f"--sets: no {unknown[0]!r}; there are: {', '.join(SETS)}")
    with tempfile.TemporaryDirectory(prefix="suisei-zero-shot-") as folder:
        found = [_measured(name, options, Path(folder)) for name in names]
    how = "Agreement with human ratings, each rating a row of its own; 95 % bootstrap intervals over images, "
    how += "paired permutation tests that swap whole images, one-sided in the direction that the data show, "
    how += (
        "Holm over the pairs of a set (so that .05 stands for up to .10); the smallest p-value there can be "
    )
    how += f"is the number of pairs / {int(options.bootstrap) + 1:,}."
    figures = {"how": how, "sets": found}
    options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = figures_table(figures) + "\n"
    sys.stdout.write(table)
    if options.markdown:
        options.markdown.write_text(table, encoding="utf-8")
    return 0


def _measured(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    own, report = SETS[name], folder / f"{name}.json"
    data = _rows(own, options.limit, folder / f"{name}.jsonl")
    metrics = [f"cosine:{options.encoder}"] if options.encoder else []
    arguments = ["--data", str(data), "--metrics", ",".join([*metrics, options.metrics]), "--compare"]
    arguments += [argument for model in options.model for argument in ("--model", model)]
    arguments += ["--correlation", own.correlation, "--bootstrap", options.bootstrap, "--json", str(report)]
    evaluate.main(arguments)
    content = json.loads(report.read_text(encoding="utf-8"))
    found = summary(content)
    for row in found["rows"]:
        row["label"] = _label(row["label"], options)
    return {"data": name, "correlation": own.correlation, **found}


def _label(label: str, options: argparse.Namespace) -> str:
    """Return what a card calls a metric: no path of this machine."""
    kind, _, argument = label.partition(":")
    if kind == "cosine":
        return "cosine of its encoder, untuned"
    if kind != "suisei" or not argument:
        return label
    return "this model" if argument == options.model[0] else f"suisei ({Path(argument).name})"


def _rows(own: Set, limit: int | None, path: Path) -> Path:
    """Write the rated rows of a set as JSONL."""
    from suisei.data.load import load_data
    from suisei.data.sample import language_of
    from suisei.data.writers import write_samples

    shared = Path(os.environ.get("SUISEI_SHARED", Path(__file__).parents[3] / "shared")) / "data"
    root = None if own.folder is None else shared / own.folder
    samples = [sample for sample in load_data(own.data, root=root) if sample.rating is not None]
    if own.part is not None:
        samples = [sample for sample in samples if str(sample.id).startswith(own.part)]
    if own.language is not None:
        samples = [sample for sample in samples if language_of(sample) == own.language]
    if limit is not None:
        samples = samples[:: max(1, len(samples) // limit)][:limit]
    write_samples(path, [replace(sample, image=None, group=sample.group or sample.id) for sample in samples])
    return path


def summary(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return, of a report of ``suisei evaluate --compare``, its metrics and what the first leads them by."""
    rows = [row for row in content["sections"][0]["rows"] if row["label"] != "human"]
    leader = rows[0]["label"]
    found = []
    for row in rows:
        cells = {name: cell.get("value") for name, cell in row["cells"].items()}
        found.append({"label": row["label"], "signature": row.get("signature"), "cells": cells})
    for pair in content["comparison"]["sections"][0]["rows"]:
        better, worse = pair["label"].split(" > ")
        if leader not in (better, worse):
            continue
        sign = 1 if better == leader else -1
        cell = pair["cells"]["difference"]
        ends = sorted((sign * cell["low"], sign * cell["high"]))
        less = {"value": sign * cell["value"], "low": ends[0], "high": ends[1]}
        other = worse if better == leader else better
        [row] = [row for row in found if row["label"] == other]
        row["less"] = {**less, "holm": pair["cells"]["holm"]["value"]}
    return {"samples": content["samples"], "rows": found}


if __name__ == "__main__":
    sys.exit(main())
