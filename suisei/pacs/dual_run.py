"""Training of the dual encoder behind PAC-S: ``suisei train --config configs/pacs.yaml``.

A config with ``task: pacs`` at its top is run by this module. An interrupted run goes on with
``--ckpt_path last``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser

from suisei.encoders.dual_folder import save_dual_encoder
from suisei.errors import ConfigError
from suisei.models.table import PixelStore
from suisei.pacs.dual_module import PacTraining, recall_at
from suisei.pacs.lora import merge_lora
from suisei.pacs.pair_datamodule import PairDataModule
from suisei.progress import progress_bar
from suisei.ranges import Of, Word, at_least, check
from suisei.training.checkpoints import read_checkpoint, restore_frozen
from suisei.training.command_line import RunCLI, settings_of
from suisei.training.losses import require_finite_weights
from suisei.training.processes import is_first_process
from suisei.training.progress_lines import ProgressLines, silent, wanted
from suisei.training.run import find_checkpoint, fit, staged, started_run
from suisei.training.run_settings import named_configs, read_config

TASK = "pacs"
PATIENCE_STEPS = 1500
"""Training stops after so many steps without a lower validation loss, in both papers."""

TRAINER_DEFAULTS = {
    "max_epochs": -1,
    "max_steps": 20_000,
    "devices": 1,
    "val_check_interval": 100,
    "check_val_every_n_epoch": None,
    "num_sanity_val_steps": 0,
    "log_every_n_steps": 10,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}


class PacTrainingCLI(RunCLI):
    """The command line: model, data, trainer, and the run's folder."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the task, the run's folder and the patience."""
        parser.add_argument("--task", type=str, default=TASK, help="what is trained; pacs")
        parser.add_argument("--output", type=str, default="runs/pacs", help="the run's folder")
        parser.add_argument(
            "--patience_steps",
            type=int,
            default=PATIENCE_STEPS,
            help="stop after so many steps without a better validation figure",
        )
        parser.add_argument(
            "--monitor",
            type=Literal["val_loss", "val_recall10"],
            default="val_loss",
            help="the validation figure that chooses the kept weights and decides when to stop",
        )
        parser.add_argument(
            "--ckpt_path",
            type=str | None,
            default=None,
            help="go on with an interrupted run: a checkpoint file, or 'last' for the run's newest",
        )

    def check_run(self) -> None:
        """Check when to stop, and what is trained."""
        config = self.config
        check("task", config.task, Word((TASK,)))
        check("patience_steps", config.patience_steps, at_least(1, 10**9))
        check("ckpt_path", config.ckpt_path, Of(str, null=True))
        check("trainer.val_check_interval", config.trainer.val_check_interval, at_least(1, 10**9))

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the model too."""
        model = self.config.model
        names = ("model", "pretrained", "checkpoint", "text_encoder", "image_weights")
        named = {name: model[name] for name in names}
        return {**super().inputs(), **{f"model.{name}": [path] for name, path in named.items() if path}}

    def before_instantiate_classes(self) -> None:
        """Make the callbacks, which depend on the folder and on how often validation runs."""
        config = self.config
        folder = Path(config.output)
        first = is_first_process()  # the others start after it wrote its config
        if first and config.ckpt_path is None and (folder / "config.yaml").exists():
            raise ConfigError(
                f"{folder} holds a run already; choose another --output, or go on with it: --ckpt_path last"
            )
        if first:
            self.refuse_used_folder(folder)
        interval = config.trainer.val_check_interval
        config.trainer.default_root_dir = str(folder)
        mode = "min" if config.monitor == "val_loss" else "max"
        best = ModelCheckpoint(
            folder / "checkpoints",
            "best",
            config.monitor,
            mode=mode,
            save_weights_only=True,
            enable_version_counter=False,
        )
        patience = max(1, config.patience_steps // interval)
        stop = EarlyStopping(config.monitor, patience=patience, mode=mode)
        # After the other two: what they have found out belongs to the state to go on with.
        last = ModelCheckpoint(folder / "checkpoints", "last", every_n_epochs=1, enable_version_counter=False)
        lines = wanted(config.trainer.enable_progress_bar)
        if lines or silent():
            config.trainer.enable_progress_bar = False
        self.trainer_defaults["callbacks"] = [best, stop, last, ProgressLines(lines=lines)]


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
    folder, model, data, trainer = Path(cli.config.output), cli.model, cli.datamodule, cli.trainer
    checkpoint = find_checkpoint(folder, cli.config.ckpt_path, settings_of(cli))
    data.load()
    _prepare(model, data, cli.config.seed_everything)
    started = time.perf_counter()
    with started_run(cli, folder) if trainer.is_global_zero else nullcontext():
        fit(trainer, model, data, checkpoint)
    minutes = (time.perf_counter() - started) / 60
    best = trainer.checkpoint_callback
    if best.best_model_path:
        kept = read_checkpoint(Path(best.best_model_path))
        restore_frozen(kept, model)
        model.load_state_dict(kept["state_dict"])
    if not trainer.is_global_zero:
        return 0
    require_finite_weights(model, "model.learning_rate")
    facts = report(cli, minutes)
    if model.trainable == "lora":
        merge_lora(model.towers)
    with staged(folder) as stage:
        save_dual_encoder(model.encoder, stage / "model")
        (stage / "report.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return 0


def report(cli: PacTrainingCLI, minutes: float) -> dict[str, Any]:
    """Return what ``report.json`` says of a trained model: data, length and validation figures."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    best = trainer.checkpoint_callback.best_model_score
    return {
        "sources": data.sources,
        "images": {"train": len(data.train_part), "validation": len(data.validation_part)},
        "seed": cli.config.seed_everything,
        "minutes": round(minutes, 2),
        "steps": trainer.global_step,
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        cli.config.monitor: float(best) if best is not None else None,
        "val_recall10_all_captions": final_recall(model, data),
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
                model.encode_images(rows, data.pixels[rows] if data.pixels is not None else None)
                for rows in images.split(256)
            ]
        )
        text_features = torch.cat([model.encode_texts(rows) for rows in texts.split(256)])
    return float(recall_at(10, image_features, text_features, owners))


def _prepare(model: PacTraining, data: PairDataModule, seed: int) -> None:
    """Decode images, and compute once what frozen towers say."""
    with progress_bar("reading images", len(data.images)) as advance:
        pixels = PixelStore(data.images, model.encoder.transform, progress=advance)
    total = model.texts_are_frozen * len(data.captions) + model.images_are_frozen * len(data.images)
    with progress_bar("encoding what is frozen", total, shown=total > 0) as advance:
        model.prepare(data.captions, pixels, len(data.images), advance)
    positives: dict[str, Any] = {
        "generated_texts": model.lambda_t > 0 and any(pair.generated_captions for pair in data.pairs),
        "generated_images": model.lambda_v > 0 and any(pair.generated_images for pair in data.pairs),
    }
    data.attach(None if model.images_are_frozen else pixels, **positives, seed=seed)
