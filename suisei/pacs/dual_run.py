"""Training of the dual encoder behind PAC-S: ``suisei train --config configs/pacs.yaml``.

A config with ``task: pacs`` at its top is run by this module. An interrupted run goes on with
``--ckpt_path last``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Literal

import torch
from lightning.pytorch.cli import LightningArgumentParser

from suisei.encoders.dual_folder import save_dual_encoder
from suisei.encoders.dual_tokens import overlong_texts
from suisei.metrics.clipscore import PROMPT
from suisei.models.pixel_store import PixelStore
from suisei.pacs.dual_module import PacTraining, recall_at
from suisei.pacs.lora import merge_lora
from suisei.pacs.pair_datamodule import PairDataModule
from suisei.progress import progress_bar
from suisei.training.cut_captions import tell_of_cut
from suisei.training.devices import moved
from suisei.training.run_facts import task_facts, trainable_parameters
from suisei.training.run_folder import staged, tell_of_run
from suisei.training.run_settings import named_configs, read_config
from suisei.training.task_cli import TASK_DEFAULTS, StepCLI
from suisei.training.task_run import check_data, checkpoint_of, train

logger = logging.getLogger(__name__)

TASK = "pacs"
PATIENCE_STEPS = 1500
"""Training stops after so many steps without a lower validation loss, in both papers."""

TRAINER_DEFAULTS = {
    **TASK_DEFAULTS,
    "max_epochs": -1,
    "max_steps": 20_000,
    "val_check_interval": 100,
    "check_val_every_n_epoch": None,
    "precision": "32-true",
}


class PacTrainingCLI(StepCLI):
    """The command line: model, data, trainer, and the run's folder."""

    task = TASK
    place = "runs/pacs"
    patience_steps = PATIENCE_STEPS

    @property
    def monitored(self) -> str:
        """The validation figure that chooses the kept weights and decides when to stop."""
        return str(self.config.monitor)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add what is monitored too."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--monitor",
            type=Literal["val_loss", "val_recall10"],
            default="val_loss",
            help="the validation figure that chooses the kept weights and decides when to stop",
        )

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the model too."""
        model = self.config.model
        names = ("model", "pretrained", "checkpoint", "text_encoder", "image_weights")
        named = {name: model[name] for name in names}
        return {**super().inputs(), **{f"model.{name}": [path] for name, path in named.items() if path}}


def task_of(arguments: Sequence[str]) -> str | None:
    """Return the ``task`` of the config that a command line names; None where it has none."""
    named = named_configs(arguments)
    task: str | None = read_config(named[-1]).get("task") if named else None
    return task


def run(arguments: Sequence[str]) -> int:
    """Train, write the model folder and ``report.json``; returns the exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = PacTrainingCLI(
        PacTraining,
        PairDataModule,
        arguments,
        trainer_defaults=TRAINER_DEFAULTS,
        about=__doc__ or "",
    )
    with cli.alone():
        _train(cli)
    return 0


def _train(cli: PacTrainingCLI) -> None:
    model, data = cli.model, cli.datamodule
    checkpoint = checkpoint_of(cli)
    data.load(processes=cli.trainer.world_size, told=cli.trainer.is_global_zero)
    check_data(cli, checkpoint)
    _check_monitored(cli, len(data.validation_part))
    _choose_positives(model, data)
    with moved(model, cli.trainer.strategy.root_device):
        _prepare(model, data, cli.config.seed_everything)
    minutes = train(cli, checkpoint)
    if not cli.trainer.is_global_zero:
        return
    facts = report(cli, minutes)
    if model.trainable == "lora":
        merge_lora(model.towers)
    with staged(cli.folder) as stage:
        save_dual_encoder(model.encoder, stage / "model")
        (stage / "report.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    tell_of_run(cli.folder, facts["kept"])


def _check_monitored(cli: PacTrainingCLI, images: int) -> None:
    """Say so where a figure that is always 1 would choose the weights."""
    if cli.monitored == "val_recall10" and images <= 10:
        logger.warning(
            "val_recall10 is 1 whatever is learned with %d validation images: the first validation's weights "
            "would be kept; give more than 10, or --monitor val_loss",
            images,
        )


def report(cli: PacTrainingCLI, minutes: float) -> dict[str, Any]:
    """Return what ``report.json`` says of a trained model: data, length and validation figures."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    best = trainer.checkpoint_callback.best_model_score
    with moved(model, trainer.strategy.root_device):
        recall = final_recall(model, data)
    return {
        "sources": data.sources,
        "images": {"train": len(data.train_part), "validation": len(data.validation_part)},
        **data.skipped_facts,
        **task_facts(cli, minutes),
        "trainable_parameters": trainable_parameters(model),
        cli.config.monitor: float(best) if best is not None else None,
        "val_recall10_all_captions": recall,
    }


def final_recall(model: PacTraining, data: PairDataModule) -> float:
    """Return text-to-image recall@10 on the validation images, with every real caption as a query."""
    model.eval()
    captions = data.caption_rows(data.validation_part)
    texts = torch.tensor([row for own in captions for row in own])
    owners = torch.tensor([image for image, own in enumerate(captions) for _ in own])
    images = torch.tensor(data.image_rows(data.validation_part))
    with torch.no_grad():
        image_features = torch.cat(
            [
                model.encode_images(rows, None if data.pixels is None else data.pixels[rows].to(model.device))
                for rows in images.split(256)
            ]
        )
        text_features = torch.cat([model.encode_texts(rows) for rows in texts.split(256)])
    return float(recall_at(10, image_features, text_features, owners.to(model.device)))


def _prepare(model: PacTraining, data: PairDataModule, seed: int) -> None:
    """Decode images, and compute once what frozen towers say."""
    with progress_bar("reading images", len(data.images)) as advance:
        pixels = PixelStore(data.images, model.encoder.transform, progress=advance)
    total = model.texts_are_frozen * len(data.captions) + model.images_are_frozen * len(data.images)
    with progress_bar("encoding what is frozen", total, shown=total > 0) as advance:
        model.prepare(data.captions, pixels, len(data.images), advance)
    cut = overlong_texts(model.encoder, data.captions, prompt=PROMPT)
    tell_of_cut(cut, len(data.captions), "the text tower")
    data.attach(None if model.images_are_frozen else pixels, seed)


def _choose_positives(model: PacTraining, data: PairDataModule) -> None:
    """Let batches hold the generated positives that have a weight; data that lack some are refused here."""
    pairs = data.pairs
    texts = _positives("lambda_t", model.lambda_t, "captions", [pair.generated_captions for pair in pairs])
    made = _positives("lambda_v", model.lambda_v, "images", [pair.generated_images for pair in pairs])
    data.draw_generated(texts=texts, images=made)


def _positives(name: str, weight: float, kind: str, given: Sequence[Any]) -> bool:
    """Return whether generated positives are learned from; a weight without any has no effect and is said."""
    if weight and not any(given):
        logger.warning(
            "no image has generated_%s: model.%s (%g) has no effect; `suisei positives %s` makes them, and a "
            "weight of 0 says that none are wanted",
            *(kind, name, weight, kind),
        )
    return weight > 0 and any(given)
