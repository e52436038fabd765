"""What a training says of itself at its end: tables of the test split, plot, scores and card."""

from __future__ import annotations

import json
import logging
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suisei.cli import safe_console
from suisei.data.formats import write_samples
from suisei.data.raters import rating_facts
from suisei.data.sample import CaptionSample, language_of, mean_ratings
from suisei.data.splits import PARTS, group_of
from suisei.errors import SuiseiError
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.prediction_plots import plot_predicted
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Table
from suisei.metaeval.terminal import FittedTable
from suisei.metrics.loading import load
from suisei.metrics.registry import get_metric
from suisei.models.config import portable
from suisei.scoring.run_scores import SAMPLES, SCORES, write_scores
from suisei.training.card import describe_data, describe_training, model_card
from suisei.training.cautions import as_markdown, cautions, data_cautions
from suisei.training.learned_before import facts_before

logger = logging.getLogger(__name__)

RESAMPLES = 1000
"""Bootstrap resamples of the intervals in a run's report."""


def write_report(folder: Path, stage: Path, data: Any, config: Any, facts: dict[str, Any]) -> None:
    """Score the test split with the exported model and the baselines; write tables, plot and card."""
    samples = data.part("test")
    metric = load(stage / "model")
    scores = {"suisei": metric.score(samples, progress=True)}
    signatures = {"suisei": metric.signature}
    facts["unavailable_baselines"] = _add_baselines(scores, signatures, config.baselines, samples)
    counted = data.people_rated() if data.folds else samples  # or two folds of a run would count differently
    table = evaluated(scores, samples, signatures, "Test split", raters=raters_of(counted))
    about = _data_facts(data, metric, config.model.text)
    tested = "fold" if data.folds else "files" if about["given"] else "split"
    content = {
        "cautions": [*data_cautions(about), *cautions(table, scores, samples, tested)],
        "data": about,
        "training": facts,
        "machine": {"cpu_threads": torch.get_num_threads(), "python": platform.python_version()},
        "results": table.as_dict(),
    }
    write_samples(stage / SAMPLES, samples)
    write_scores(stage / SCORES, samples, scores)
    write_outputs(stage, folder.name, content, table, samples, scores["suisei"])
    settings = config.model.as_dict() if hasattr(config.model, "as_dict") else dict(config.model)
    card = model_card(content, table.to_markdown(by_system=False), portable(settings))
    (stage / "model" / "README.md").write_text(card, encoding="utf-8")


def _data_facts(data: Any, metric: Any, text: Any) -> dict[str, Any]:
    """Return what the report says of the data: where from, how much, how split, what is read of it."""
    training = data.part("train")
    given = {"validation": data.validation, "test": data.test}
    return {
        "sources": data.sources,
        "given": {part: source for part, source in given.items() if source},
        "support": data.support_sources,
        "samples": {part: len(data.part(part)) for part in PARTS},
        "groups": {part: len({group_of(s) for s in data.part(part)}) for part in PARTS},
        "disjoint": data.split.disjoint,
        "left_out": {part: len(rows) for part, rows in data.split.left_out.items()},
        "shared": data.shared,
        **facts_before(text, data),
        "languages": dict(Counter(map(language_of, training))),
        "ratings": rating_facts(training),
        "references": sum(bool(sample.references) for sample in training),
        "images": sum(sample.image is not None for sample in training),
        "reads": sorted(metric.reads),
        "image_beside_references": metric.opens_image(CaptionSample("x", ("x",))),
    }


def _add_baselines(
    scores: dict[str, np.ndarray],
    signatures: dict[str, str],
    names: Sequence[str],
    samples: Sequence[CaptionSample],
) -> dict[str, str]:
    """Add a column for every baseline that runs here; returns {name: why not} of the others."""
    problems = {}
    for name in names:
        try:
            baseline = get_metric(name)
            if baseline.needs_fit:
                baseline.fit(samples)
            scores[name] = baseline.score(samples)
            signatures[name] = baseline.signature
        except SuiseiError as error:
            problems[name] = str(error)
            logger.warning("baseline %s: not compared, %s", name, error)
    return problems


def evaluated(
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    signatures: Mapping[str, str],
    title: str,
    *,
    raters: str | None = None,
) -> Table:
    """Return the table of a run's metrics on rated samples.

    Args:
        scores: {name: float64 [N]}.
        samples: the N samples.
        signatures: {name: signature}, of those that have one.
        title: of the table.
        raters: how ratings are counted, "rows" or "mean"; as :func:`raters_of` says of these samples if None.
    """
    settings = EvaluationSettings(raters=raters or raters_of(samples), n_resamples=RESAMPLES)
    return evaluation_table(scores, samples, settings, signatures=signatures, title=title)


def raters_of(samples: Sequence[CaptionSample]) -> str:
    """Return how ratings are counted: as rows where all samples have as many, else as means."""
    counts = {len(sample.rating.values) for sample in samples if sample.rating is not None}
    return "mean" if len(counts) > 1 else "rows"


def write_outputs(
    stage: Path,
    title: str,
    content: dict[str, Any],
    table: Table,
    samples: Sequence[CaptionSample],
    scores: np.ndarray,
) -> None:
    """Write the report as JSON and Markdown with its plot, and show the table."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    markdown = f"# {title}\n\n{_summary(content)}{table.to_markdown()}"
    markdown += "\n## Predicted against human\n\n![predicted against human](predicted.png)\n"
    human = mean_ratings(samples)
    languages = [language_of(sample) for sample in samples]
    plot_predicted(stage / "predicted.png", scores, human, languages, figures=(table, "suisei"))
    (stage / "report.md").write_text(markdown, encoding="utf-8")
    (stage / "report.json").write_text(text, encoding="utf-8")
    console = safe_console()
    console.print(FittedTable(table))
    for caution in content["cautions"]:
        console.print(f"Caution: {caution}", style="bold yellow", markup=False, highlight=False)


def _summary(content: dict[str, Any]) -> str:
    """Return cautions, data and training as Markdown; of pooled folds, which have their own, no data."""
    said = as_markdown(content["cautions"])
    if "training" not in content:
        return said
    training = content["training"]
    done = describe_training(training)
    if training.get("first_skipped"):  # not on the card, which may be shown to all: it names a file's place
        done += f"\n- the first bad row: {training['first_skipped']}"
    curve = "![learning curve](curve.png)\n\n" if training.get("learning_curve") else ""
    return f"{said}{describe_data(content['data'])}\n\n{done}\n\n{curve}"
