"""One training run, from ratings to a model folder and a report."""

from __future__ import annotations

import json
import logging
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample, language_of
from suisei.data.splits import PARTS, Split, group_of
from suisei.errors import ConfigError, SuiseiError
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.plots import plot_predicted
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Table
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.registry import get_metric
from suisei.metrics.suisei import load
from suisei.models.folder import save_model
from suisei.models.table import SampleTable
from suisei.progress import progress_bar
from suisei.training.card import describe_data, describe_left_out, describe_training, model_card
from suisei.training.module import SuiSei
from suisei.training.synthetic import synthetic_samples

logger = logging.getLogger(__name__)

DEFAULT_BASELINES = ("unigram-f1", "length")
RESAMPLES = 1000
"""Bootstrap resamples of the intervals in a run's report."""


def run_training(cli: Any) -> None:
    """Train as a parsed command line says, and write the run's folder.

    Args:
        cli: the training command line, with ``config``, ``model``, ``datamodule`` and ``trainer``.
    """
    folder, data, model, trainer = Path(cli.config.output), cli.datamodule, cli.model, cli.trainer
    data.load()
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path)
    if checkpoint is None:
        _record(cli, folder)
    split = data.split
    _announce(split)
    made = data.add_training(
        synthetic_samples(data.part("train"), data.synthetic, cli.config.seed_everything)
    )
    extras = _build(cli.config.seed_everything, data, model, trainer.strategy.root_device)
    started = time.perf_counter()
    try:
        trainer.fit(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except SystemExit:  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt from None
    minutes = (time.perf_counter() - started) / 60
    data.split = split  # what is reported and recorded is the rated data
    if (
        checkpoint is not None
    ):  # not before: a checkpoint of other data is refused, and the run stays as it is
        _record(cli, folder)
    validation = _restore_best(model, trainer)
    save_model(folder / "model", model.regressor, extras=extras.state())
    facts = {
        "seed": cli.config.seed_everything,
        "minutes": round(minutes, 2),
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "precision": str(trainer.precision),
        "trainable_parameters": sum(p.numel() for p in model.regressor.parameters() if p.requires_grad),
        "best_validation": validation,
        "skipped_rows": len(data.skipped),
        "synthetic_samples": made,
    }
    _report(folder, data, cli.config, facts)


def _record(cli: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_config(cli, folder)
    cli.datamodule.split.save(folder / "splits.json", cli.datamodule.samples)


def save_config(cli: Any, folder: Path) -> None:
    """Write the resolved settings of a run into its folder; their being there marks a run as started.

    Settings that are null are written too (``image: null`` is not the default), and the file starts a run
    afresh even if this one was resumed.
    """
    config = cli.config.clone()
    config.ckpt_path = None
    cli.parser.save(config, folder / "config.yaml", overwrite=True, skip_validation=True, skip_unset=False)


def _announce(split: Split) -> None:
    """Say what the split leaves out, before the time of a training is spent on it."""
    if split.disjoint != "group":
        from rich.console import Console

        text = describe_left_out({part: len(rows) for part, rows in split.left_out.items()})
        Console(stderr=True).print(text, highlight=False, soft_wrap=True)


def _build(seed: int, data: Any, model: SuiSei, device: torch.device) -> ExtraInputs:
    """Build the model from the training split and hand the data module what makes batches."""
    training = data.part("train")
    extras = ExtraInputs(model.config.fusion.extra_inputs)  # first: it refuses what no model folder can hold
    with ExitStack() as stack:

        def progress(description: str, total: int) -> Callable[[int], Any]:
            return stack.enter_context(progress_bar(description, total))

        model.build(training, data.support, seed=seed, progress=progress)
        table = SampleTable(
            data.samples,
            extras.fit_compute(data.samples, data.split.train, data.support.rated),
            with_images=model.config.image is not None,
            image_languages=model.config.fusion.image_languages,
        )
        table.target = model.regressor.targets(data.samples)
        model.reference_extras, model.image_extras = extras.needing("references"), extras.needing("image")
        collate = model.prepare(table, data.split.train, progress, device)
        data.attach(collate, seed, collate.lengths)
    return extras


def find_checkpoint(folder: Path, wanted: str | None) -> str | None:
    """Return the checkpoint to go on with; None to start from the beginning.

    Args:
        folder: the run's.
        wanted: a checkpoint file, "last" for the run's newest, or None.

    Raises:
        ConfigError: there is none.
    """
    if wanted is None:
        return None
    if wanted != "last":
        if not Path(wanted).is_file():
            raise ConfigError(f"no checkpoint at {wanted}; 'last' takes the run's newest")
        return wanted
    found = [folder / "checkpoints" / name for name in ("last.ckpt", "steps.ckpt")]
    found = [path for path in found if path.is_file()]
    if not found and (folder / "config.yaml").is_file():
        logger.warning("%s was interrupted before its first checkpoint; training starts over", folder)
        return None
    if not found:
        raise ConfigError(f"{folder} has no checkpoint to go on with; train without --ckpt_path")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def _restore_best(model: SuiSei, trainer: Any) -> dict[str, float | None]:
    """Load the weights that validation chose; returns the validation figures of that checkpoint.

    Where the figure was never defined, the weights stay those of the last epoch.
    """
    callback = next(c for c in trainer.checkpoint_callbacks if getattr(c, "monitor", None))
    if not callback.best_model_path:
        return {}
    if not math.isfinite(float(callback.best_model_score)):
        logger.warning(
            "%s was never defined (all scores or all ratings equal): the last epoch is kept", callback.monitor
        )
        return {str(callback.monitor): None}
    checkpoint = torch.load(callback.best_model_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["state_dict"])
    return {str(callback.monitor): float(callback.best_model_score)}


def _report(folder: Path, data: Any, config: Any, facts: dict[str, Any]) -> None:
    """Score the test split with the exported model and the baselines; write tables, plot and card."""
    samples = data.part("test")
    metric = load(folder / "model")
    scores = {"suisei": metric.score(samples, progress=True)}
    signatures = {"suisei": metric.signature}
    facts["unavailable_baselines"] = _add_baselines(scores, signatures, config.baselines, samples)
    table = _table(scores, samples, signatures, "Test split")
    content = {
        "data": {
            "sources": data.sources,
            "samples": {part: len(data.part(part)) for part in PARTS},
            "groups": {part: len({group_of(s) for s in data.part(part)}) for part in PARTS},
            "disjoint": data.split.disjoint,
            "left_out": {part: len(rows) for part, rows in data.split.left_out.items()},
        },
        "training": facts,
        "machine": {"cpu_threads": torch.get_num_threads(), "python": platform.python_version()},
        "results": table.as_dict(),
    }
    write_samples(folder / "test.jsonl", samples)
    _write_scores(folder / "test_scores.jsonl", samples, scores)
    _write_outputs(folder, content, table, samples, scores["suisei"])
    settings = config.model.as_dict() if hasattr(config.model, "as_dict") else dict(config.model)
    card = model_card(content, table.to_markdown(by_system=False), settings)
    (folder / "model" / "README.md").write_text(card, encoding="utf-8")


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
    return problems


def _table(
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    signatures: Mapping[str, str],
    title: str,
) -> Table:
    raters = "mean" if _unequal_raters(samples) else "rows"
    settings = EvaluationSettings(raters=raters, n_resamples=RESAMPLES)
    return evaluation_table(scores, samples, settings, signatures=signatures, title=title)


def _unequal_raters(samples: Sequence[CaptionSample]) -> bool:
    return len({len(sample.rating.values) for sample in samples if sample.rating is not None}) > 1


def _write_outputs(
    folder: Path, content: dict[str, Any], table: Table, samples: Sequence[CaptionSample], scores: np.ndarray
) -> None:
    from rich.console import Console

    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    markdown = f"# {folder.name}\n\n{_summary(content)}{table.to_markdown()}"
    markdown += "\n## Predicted against human\n\n![predicted against human](predicted.png)\n"
    human = np.array([sample.rating.mean if sample.rating else np.nan for sample in samples])
    languages = [language_of(sample) for sample in samples]
    plot_predicted(folder / "predicted.png", scores, human, languages)
    (folder / "report.md").write_text(markdown, encoding="utf-8")
    temporary = folder / "report.json.part"  # report.json marks a finished run, so it comes last and whole
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(folder / "report.json")
    console = Console()
    console.print(table.to_rich())
    console.print(f"run: {folder}   model: {folder / 'model'}", soft_wrap=True)


def _summary(content: dict[str, Any]) -> str:
    """Return data and training of a report as Markdown; nothing for pooled folds, which have their own."""
    if "training" not in content:
        return ""
    return f"{describe_data(content['data'])}\n\n{describe_training(content['training'])}\n\n"


def _write_scores(path: Path, samples: Sequence[CaptionSample], scores: Mapping[str, np.ndarray]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for position, sample in enumerate(samples):
            values = {
                name: None if np.isnan(column[position]) else float(column[position])
                for name, column in scores.items()
            }
            file.write(json.dumps({"id": sample.id, **values}, ensure_ascii=False) + "\n")


def pool_folds(folder: Path, folds: int) -> None:
    """Write the report of a cross-validation: all folds' test samples together, and fold by fold."""
    from suisei.data.formats import read_samples

    samples: list[CaptionSample] = []
    columns: dict[str, list[float]] = {}
    per_fold = []
    for fold in range(folds):
        part = folder / f"fold-{fold}"
        samples += read_samples(part / "test.jsonl")
        with (part / "test_scores.jsonl").open(encoding="utf-8") as file:
            for line in file:
                for name, value in json.loads(line).items():
                    if name != "id":
                        columns.setdefault(name, []).append(np.nan if value is None else value)
        per_fold.append(json.loads((part / "report.json").read_text(encoding="utf-8")))
    scores = {name: np.array(values) for name, values in columns.items()}
    table = _table(scores, samples, {}, f"Test samples of all {folds} folds")
    content = {"results": table.as_dict(), "folds": per_fold}
    _write_scores(folder / "test_scores.jsonl", samples, scores)
    _write_outputs(folder, content, table, samples, scores["suisei"])
