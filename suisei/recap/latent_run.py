"""Training of RECAP's latent reconstruction: ``suisei train --config configs/recap_latent.yaml``.

A config with ``task: recap-latent`` at its top is run by this module; without ``model.mapper`` it trains a
mapper first, as ``--mapper_config`` says. One with ``task: recap-mapper`` trains a mapper alone, by prefix
captioning. An interrupted run goes on with ``--ckpt_path last``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from suisei.errors import ConfigError
from suisei.models.latent_folder import save_latent
from suisei.progress import progress_bar
from suisei.recap.caption_batches import LatentData
from suisei.recap.image_towers import image_tower, tower_difference, tower_features
from suisei.recap.latent_card import latent_card
from suisei.recap.latent_cli import LatentCLI, MapperCLI, RecapCLI
from suisei.recap.latent_training import LatentTraining
from suisei.recap.mapper_folder import MapperSource, find_mapper, save_mapper
from suisei.recap.prefix_training import PrefixTraining
from suisei.resources import resource_path
from suisei.training.command_line import settings_of
from suisei.training.cut_captions import tell_of_cut
from suisei.training.data_digest import model_digest
from suisei.training.run_facts import task_facts, trainable_parameters
from suisei.training.run_folder import find_checkpoint, staged, tell_of_run
from suisei.training.run_settings import check_resumed, read_config
from suisei.training.task_cli import TASK_DEFAULTS
from suisei.training.task_run import check_data, checkpoint_of, train

logger = logging.getLogger(__name__)

TRAINER_DEFAULTS = {
    **TASK_DEFAULTS,
    "max_epochs": -1,
    "max_steps": 20_000,
    "val_check_interval": 250,
    "check_val_every_n_epoch": None,
    "gradient_clip_val": 1.0,
}


def run_mapper(arguments: Sequence[str]) -> int:
    """Train a mapper, write its folder and ``report.json``; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = _mapper_cli(arguments)
    with cli.alone():
        _train_mapper(cli)
    return 0


def _mapper_cli(arguments: Sequence[str]) -> MapperCLI:
    return MapperCLI(
        PrefixTraining, LatentData, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or ""
    )


def _train_mapper(cli: MapperCLI) -> None:
    model, data, seed = cli.model, cli.datamodule, cli.config.seed_everything
    checkpoint = checkpoint_of(cli)
    data.load()
    data.digests["tower"] = model_digest(model.image.files)
    check_data(cli, checkpoint)
    features = _features(image_tower(model.image), data)
    model.build(data.captions["train"], features.shape[1], seed)
    _tell_of_cut(data, model.plain, model.longest, "the language model, beside the prefix,")
    data.attach(features, model.tokenize, contrasted=False, seed=seed)
    facts = _facts(cli, train(cli, checkpoint))
    with staged(cli.folder) as stage:
        save_mapper(model, stage / "model")
        _write_report(stage, facts)
    tell_of_run(cli.folder, facts["kept"])


def run_latent(arguments: Sequence[str]) -> int:
    """Train a reconstruction, write the model folder and ``report.json``; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = LatentCLI(
        LatentTraining, LatentData, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or ""
    )
    with cli.alone():
        _train_latent(cli)
    return 0


def _train_latent(cli: LatentCLI) -> None:
    folder, model, data, config = cli.folder, cli.model, cli.datamodule, cli.config
    source = _mapper(cli, folder)
    started = (folder / "config.yaml").exists()
    wanted = config.ckpt_path if started or not (folder / "mapper").exists() else None
    checkpoint = find_checkpoint(folder, wanted, settings_of(cli))
    data.load()
    data.digests["tower"] = model_digest(source.image.files)
    check_data(cli, checkpoint)
    image = image_tower(source.image)
    model.build(source, image, config.seed_everything)
    longest = model.parts.captions.shape.max_tokens
    _tell_of_cut(data, model.parts.tokenizer, longest, "the reconstruction")
    data.attach(_features(image, data), model.tokenize, contrasted=True, seed=config.seed_everything)
    facts = _facts(cli, train(cli, checkpoint))
    facts |= {"image": source.image.described(), "language_model": source.language_model}
    with staged(folder) as stage:
        save_latent(stage / "model", model.parts, latent_card(facts, settings_of(cli)["model"]))
        _write_report(stage, facts)
    tell_of_run(folder, facts["kept"])


RUNS: dict[str, Callable[[Sequence[str]], int]] = {MapperCLI.task: run_mapper, LatentCLI.task: run_latent}
"""{task: what runs it}."""


def _mapper(cli: LatentCLI, folder: Path) -> MapperSource:
    """Return the mapper that is given, or train one in the run's folder."""
    given = cli.config.model
    heads = given.mapper_heads
    if given.mapper:
        own = {"image": cli.tower(), "language_model": given.language_model}
        return find_mapper(Path(given.mapper), heads=heads, **own)
    trained = (folder / "mapper" / "report.json").exists()
    (_check_trained if trained else _mapper_first)(cli, folder / "mapper")
    return find_mapper(folder / "mapper" / "model", heads=heads, image=None, language_model=None)


def _mapper_first(cli: LatentCLI, folder: Path) -> None:
    more = []
    if (folder / "config.yaml").exists():
        if cli.config.ckpt_path is None:
            raise ConfigError(
                f"{folder} holds an interrupted training of the mapper; choose another --output, or go on "
                "with it: --ckpt_path last"
            )
        more.append("--ckpt_path=last")
    mapper = _mapper_cli([*_mapper_arguments(cli, folder), *more])
    _require_its_parts(cli, mapper.model)
    with mapper.alone():
        _train_mapper(mapper)


def _require_its_parts(cli: LatentCLI, mapper: PrefixTraining) -> None:
    """Refuse an image tower or a language model that the mapper of the run is not trained with.

    Raises:
        ConfigError: the settings name another.
    """
    asked, own = cli.config.model.language_model, mapper.language_model
    other = tower_difference(cli.tower(), mapper.image)
    if asked not in (None, own):
        other = f"model.language_model is {asked!r} and the mapper's {own or 'a new one (null)'}"
    if other:
        raise ConfigError(
            f"{other}: without model.mapper one is trained as {cli.config.mapper_config} says; name tower "
            "and language model there (--mapper_config), and leave them out here"
        )


def _check_trained(cli: LatentCLI, folder: Path) -> None:
    """Refuse a mapper of this run that was trained otherwise than the run's settings say.

    Raises:
        ConfigError: settings that decide its weights differ, or name other parts than it was trained with.
    """
    asked = _mapper_cli([*_mapper_arguments(cli, folder), "--ckpt_path=last"])
    _require_its_parts(cli, asked.model)
    try:
        note = check_resumed(read_config(folder / "config.yaml"), settings_of(asked))
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    if note:
        logger.warning("%s: the mapper stays as it was trained; %s", folder, note)


def _mapper_arguments(cli: LatentCLI, folder: Path) -> list[str]:
    """Return the command line of the mapper's training in the run's folder."""
    config = cli.config
    path = Path(config.mapper_config)
    path = path if path.is_file() else resource_path(f"configs/{path.name}")
    given = [f"--{name}={value}" for name, value in _given_data(cli).items() if value is not None]
    seed = f"--seed_everything={config.seed_everything}"
    return ["--config", str(path), *given, f"--output={folder}", seed]


def _given_data(cli: LatentCLI) -> dict[str, Any]:
    """Return what the mapper's training takes over from that of the reconstruction."""
    data, trainer = cli.config.data, cli.config.trainer
    named: dict[str, Any] = {f"data.{name}": data[name] for name in ("train", "validation", "root")}
    return {**named, "trainer.accelerator": trainer.accelerator}


def _tell_of_cut(data: LatentData, tokenizer: Any, longest: int, reader: str) -> None:
    """Say of how many captions a training reads the beginning alone."""
    captions = list(dict.fromkeys(text for part in data.captions.values() for text in part))
    tell_of_cut(tokenizer.longer_than(captions, longest), len(captions), reader)


def _features(image: Any, data: LatentData) -> torch.Tensor:
    with progress_bar("encoding images", len(data.images)) as advance:
        found: torch.Tensor = tower_features(image, list(data.images), advance)
    return found


def _facts(cli: RecapCLI, minutes: float) -> dict[str, Any]:
    """Return what ``report.json`` says: data, length, and validation figures of the kept weights."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    trainer.loggers = []  # the curves end with the last step, of which the kept weights need not be
    figures = trainer.validate(model, datamodule=data, verbose=False)[0]
    return {
        "sources": data.sources,
        "images": {part: len(set(data.owners[part])) for part in ("train", "validation")},
        **data.skipped_facts,
        "captions": {part: len(data.captions[part]) for part in ("train", "validation")},
        **task_facts(cli, minutes),
        "trainable_parameters": trainable_parameters(model),
        "validation": {name.removeprefix("val_"): float(value) for name, value in figures.items()},
    }


def _write_report(stage: Path, facts: dict[str, Any]) -> None:
    (stage / "report.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
