"""Training of RECAP's latent reconstruction: ``suisei train --config configs/recap_latent.yaml``.

A config with ``task: recap-latent`` at its top is run by this module; without ``model.mapper`` it trains a
mapper first, as ``--mapper_config`` says. One with ``task: recap-mapper`` trains a mapper alone, by prefix
captioning. An interrupted run goes on with ``--ckpt_path last``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule

from suisei.errors import ConfigError
from suisei.models.latent_folder import save_latent
from suisei.progress import progress_bar
from suisei.recap.caption_batches import LatentData
from suisei.recap.image_towers import image_tower, tower_features
from suisei.recap.latent_card import latent_card
from suisei.recap.latent_cli import LatentCLI, MapperCLI, RecapCLI
from suisei.recap.latent_training import LatentTraining
from suisei.recap.mapper_folder import MapperSource, find_mapper, save_mapper
from suisei.recap.prefix_training import PrefixTraining
from suisei.resources import resource_path
from suisei.training.checkpoints import read_checkpoint, restore_frozen
from suisei.training.command_line import settings_of
from suisei.training.losses import require_finite_weights
from suisei.training.run import find_checkpoint, fit, staged, started_run

TRAINER_DEFAULTS = {
    "max_epochs": -1,
    "max_steps": 20_000,
    "devices": 1,
    "val_check_interval": 250,
    "check_val_every_n_epoch": None,
    "gradient_clip_val": 1.0,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
}


def run_mapper(arguments: Sequence[str]) -> int:
    """Train a mapper, write its folder and ``report.json``; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = MapperCLI(
        PrefixTraining, LatentData, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or ""
    )
    folder, model, data = Path(cli.config.output), cli.model, cli.datamodule
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path, settings_of(cli))
    seed = cli.config.seed_everything
    data.load()
    features = _features(image_tower(model.image), data)
    model.build(data.captions["train"], features.shape[1], seed)
    data.attach(features, model.tokenize, contrasted=False, seed=seed)
    minutes = _train(cli, folder, checkpoint)
    facts = _facts(cli, minutes)
    with staged(folder) as stage:
        save_mapper(model, stage / "model")
        _write_report(stage, facts)
    return 0


def run_latent(arguments: Sequence[str]) -> int:
    """Train a reconstruction, write the model folder and ``report.json``; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = LatentCLI(
        LatentTraining, LatentData, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or ""
    )
    folder, model, data, config = Path(cli.config.output), cli.model, cli.datamodule, cli.config
    source = _mapper(cli, folder)
    started = (folder / "config.yaml").exists()
    wanted = config.ckpt_path if started or not (folder / "mapper").exists() else None
    checkpoint = find_checkpoint(folder, wanted, settings_of(cli))
    data.load()
    image = image_tower(source.image)
    model.build(source, image, config.seed_everything)
    data.attach(_features(image, data), model.tokenize, contrasted=True, seed=config.seed_everything)
    minutes = _train(cli, folder, checkpoint)
    facts = {**_facts(cli, minutes), "image": asdict(source.image), "language_model": source.language_model}
    with staged(folder) as stage:
        save_latent(stage / "model", model.parts, latent_card(facts, settings_of(cli)["model"]))
        _write_report(stage, facts)
    return 0


RUNS: dict[str, Callable[[Sequence[str]], int]] = {MapperCLI.task: run_mapper, LatentCLI.task: run_latent}
"""{task: what runs it}."""


def _mapper(cli: LatentCLI, folder: Path) -> MapperSource:
    """Return the mapper that is given, or train one in the run's folder."""
    given = cli.config.model
    path = Path(given.mapper) if given.mapper else folder / "mapper" / "model"
    if not given.mapper and not (folder / "mapper" / "report.json").exists():
        _train_mapper(cli, folder / "mapper")
    return find_mapper(path, heads=given.mapper_heads, image=cli.tower(), language_model=given.language_model)


def _train_mapper(cli: LatentCLI, folder: Path) -> None:
    config = cli.config
    path = Path(config.mapper_config)
    path = path if path.is_file() else resource_path(f"configs/{path.name}")
    given = [f"--{name}={value}" for name, value in _given_data(cli).items() if value is not None]
    if (folder / "config.yaml").exists():
        if config.ckpt_path is None:
            raise ConfigError(
                f"{folder} holds an interrupted training of the mapper; choose another --output, or go on "
                "with it: --ckpt_path last"
            )
        given.append("--ckpt_path=last")
    run_mapper(
        ["--config", str(path), *given, f"--output={folder}", f"--seed_everything={config.seed_everything}"]
    )


def _given_data(cli: LatentCLI) -> dict[str, Any]:
    """Return what the mapper's training takes over from that of the reconstruction."""
    data, trainer = cli.config.data, cli.config.trainer
    named: dict[str, Any] = {f"data.{name}": data[name] for name in ("train", "validation", "root")}
    return {**named, "trainer.accelerator": trainer.accelerator}


def _features(image: Any, data: LatentData) -> torch.Tensor:
    with progress_bar("encoding images", len(data.images)) as advance:
        found: torch.Tensor = tower_features(image, list(data.images), advance)
    return found


def _train(cli: RecapCLI, folder: Path, checkpoint: str | None) -> float:
    """Train, and load the weights that validation chose; returns the minutes that training took."""
    model, trainer = cli.model, cli.trainer
    began = time.perf_counter()
    with started_run(cli, folder):
        fit(trainer, model, cli.datamodule, checkpoint)
    minutes = (time.perf_counter() - began) / 60
    best = trainer.checkpoint_callback.best_model_path
    if best:
        kept = read_checkpoint(Path(best))
        restore_frozen(kept, model)
        model.load_state_dict(kept["state_dict"])
    require_finite_weights(model, "model.learning_rate")
    return minutes


def _facts(cli: RecapCLI, minutes: float) -> dict[str, Any]:
    """Return what ``report.json`` says: data, length, and validation figures of the kept weights."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    figures = trainer.validate(model, datamodule=data, verbose=False)[0]
    return {
        "sources": data.sources,
        "images": {part: len(set(data.owners[part])) for part in ("train", "validation")},
        "captions": {part: len(data.captions[part]) for part in ("train", "validation")},
        "seed": cli.config.seed_everything,
        "minutes": round(minutes, 2),
        "steps": trainer.global_step,
        "trainable_parameters": _trainable(model),
        "validation": {name.removeprefix("val_"): float(value) for name, value in figures.items()},
    }


def _trainable(model: LightningModule) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _write_report(stage: Path, facts: dict[str, Any]) -> None:
    (stage / "report.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
