"""Pre-training of a text encoder alone: ``suisei train --config configs/pretrain.yaml``.

A config with ``task: pretrain`` at its top is run by this module. It reads the same data and makes the same
split as the training of a metric, and trains on the captions of the training part and of
``data.support``. The result is a Hugging Face folder for ``--model.text.name`` of a later run. An interrupted
run goes on with ``--ckpt_path last``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from suisei.cli import counted, safe_console, say
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_parts import save_parts
from suisei.errors import ConfigError
from suisei.models.folder import is_model_folder
from suisei.progress import progress_bar
from suisei.training.checkpoints import resumed_data
from suisei.training.command_line import settings_of
from suisei.training.data_digest import check_same_data, data_digests
from suisei.training.pass_states import PassStates
from suisei.training.pretraining import CaptionPretraining, PretrainingConfig, pretrain
from suisei.training.run_folder import find_checkpoint, interruptible, staged, started_run
from suisei.training.run_lock import alone_in
from suisei.training.support import CaptionCorpus
from suisei.training.text_idf import check_references, idf_weights, text_and_idf

TASK = "pretrain"


def run_pretraining(cli: Any) -> None:
    """Pre-train as a parsed command line says, and write the run's folder.

    ``OUTPUT/text`` is the encoder; ``report.json`` has the loss of every epoch and how often another
    caption of a validation image is among the nearest, before and after.

    Args:
        cli: the training command line, with ``config``, ``model`` and ``datamodule``.

    Raises:
        ConfigError: pre-training without an epoch, cross-fitting, the text encoder of a trained model, or a
            run to go on with that is finished, of other settings, or not there.
        ModelError: it is of other data, or damaged.
    """
    folder, settings = Path(cli.config.output), cli.model.pretraining
    if settings is None or not settings.epochs:
        raise ConfigError("task: pretrain needs model.pretraining with at least one epoch")
    if settings.cross_fit:
        raise ConfigError("task: pretrain makes one encoder: model.pretraining.cross_fit must be 0")
    if is_model_folder(cli.model.config.text.name):
        raise ConfigError(
            f"task: pretrain writes an encoder of Hugging Face's, and {cli.model.config.text.name} is the "
            "folder of a trained model; name the encoder that it was made from as model.text.name"
        )
    with alone_in(folder, fresh=cli.config.ckpt_path is None):
        states = _states(cli, folder)
        with started_run(cli, folder), interruptible(folder), staged(folder) as stage:
            report = _pretrain(cli, stage, states)
        states.forget()
    console = safe_console()
    for when, figures in report["retrieval"].items():
        found = (f"{name} {value:.3f}" for name, value in figures.items() if name != "images")
        say(console, f"{when}: {', '.join(found)} of {counted(int(figures['images']), 'image')}")
    say(console, f"text encoder: {folder / 'text'}")


def _states(cli: Any, folder: Path) -> PassStates:
    """Load the data, and return what keeps the state of the run; one that is gone on with is of the same."""
    kept = folder / "checkpoints" / "last.ckpt"
    if cli.config.ckpt_path == "last" and (folder / "report.json").is_file() and not kept.is_file():
        raise ConfigError(f"{folder} is finished, and {folder / 'text'} its encoder: nothing is left to do")
    settings = settings_of(cli)
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path, settings)
    cli.datamodule.load()
    digests = data_digests(cli.datamodule)
    if checkpoint is not None:
        check_same_data(resumed_data(Path(checkpoint)), digests)
    return PassStates(kept, settings, digests, cli.config.checkpoint_steps, checkpoint)


def _pretrain(cli: Any, stage: Path, states: PassStates) -> dict[str, Any]:
    """Pre-train, write encoder and report into a folder, and return the report."""
    data, model, settings = cli.datamodule, cli.model, cli.model.pretraining
    training, seed = data.part("train"), cli.config.seed_everything
    check_references(data, model)
    text, idf = text_and_idf(model.config.text, training, data.support_data, training)
    weights = idf_weights(text, idf)
    before = retrieval(text, weights, data.part("validation"))
    corpus = CaptionCorpus.of(training, data.support_data)
    with progress_bar("pre-training on captions", settings.epochs) as advance:
        losses = pretrain(text, weights, corpus, settings, seed=seed, advance=advance, states=states)
    report = {
        "images": len(corpus.groups),
        "shared": data.shared,
        "rated_pairs": len(corpus.rated),
        "seed": seed,
        "minutes": round(states.seconds / 60, 2),
        "loss": losses,
        "retrieval": {"before": before, "after": retrieval(text, weights, data.part("validation"))},
    }
    save_parts(text.backbone, text.tokenizer, stage / "text")
    (stage / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def retrieval(text: TextEncoder, idf_weights: torch.Tensor, samples: list[CaptionSample]) -> dict[str, float]:
    """Return how often an image's second caption is the nearest, or among the ten nearest, to its first.

    Args:
        text: the encoder.
        idf_weights: idf weight of every token id.
        samples: samples of images with two references or more; others are left out.

    Returns:
        {"images": number of images, "recall@1": ..., "recall@10": ...}; recall is 0 without images. Captions
        that are equally near count by the chance of a draw among them, so that an encoder that tells no
        caption from another finds one of as many as there are.
    """
    images: dict[str, dict[str, None]] = {}
    for sample in samples:
        images.setdefault(group_of(sample), {}).update(dict.fromkeys(sample.references))
    pairs = [list(references)[:2] for references in images.values() if len(references) > 1]
    if not pairs:
        return {"images": 0, "recall@1": 0.0, "recall@10": 0.0}
    objective = CaptionPretraining(text, idf_weights, PretrainingConfig()).eval()
    with torch.inference_mode():
        vectors = F.normalize(objective.embed(text.tokenize([c for pair in pairs for c in pair])), dim=-1)
    cosines = (vectors[::2] @ vectors[1::2].T).round(decimals=6)  # equal vectors differ by rounding
    own = cosines.diagonal()[:, None]
    nearer, tied = (cosines > own).sum(dim=1), (cosines == own).sum(dim=1)
    found = {f"recall@{k}": float(((k - nearer) / tied).clamp(0, 1).mean()) for k in (1, 10)}
    return {"images": len(pairs), **found}
