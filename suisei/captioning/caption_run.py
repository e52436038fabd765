"""Training of a captioner: ``suisei train --config configs/captioner.yaml``.

A config with ``task: captioner`` at its top is run by this module. An interrupted run goes on with
``--ckpt_path last``.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch.callbacks import Callback
from lightning.pytorch.cli import LightningArgumentParser

from suisei.captioning.caption_card import card
from suisei.captioning.caption_data import CaptionedImages
from suisei.captioning.caption_figures import Figures, as_sample, check_cider, measured
from suisei.captioning.caption_folder import save_captioner
from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_module import CaptionTraining
from suisei.captioning.caption_rows import EMPTY
from suisei.captioning.caption_sources import CaptionedImage, check_test_images
from suisei.captioning.caption_writing import captions_of
from suisei.captioning.grid_store import GridStore
from suisei.captioning.word_pretraining import pretrain_tower
from suisei.data.sample import LANGUAGE_NAMES
from suisei.data.writers import stored_name
from suisei.encoders.cache_place import disk_cache
from suisei.models.pixel_store import PixelStore
from suisei.progress import reported
from suisei.ranges import at_least, check
from suisei.training.checkpoints import read_checkpoint, restore_frozen
from suisei.training.devices import moved
from suisei.training.run_callbacks import best_checkpoint, early_stopping, states_to_go_on_with
from suisei.training.run_facts import task_facts
from suisei.training.run_folder import staged, tell_of_run
from suisei.training.task_cli import TASK_DEFAULTS, TaskCLI
from suisei.training.task_run import check_data, checkpoint_of, train

logger = logging.getLogger(__name__)

TASK = "captioner"
TRAINER_DEFAULTS = {**TASK_DEFAULTS, "max_epochs": 10, "gradient_clip_val": 1.0}


class CaptionTrainingCLI(TaskCLI):
    """The command line: model, data, trainer, and the run's folder."""

    task = TASK
    place = "runs/captioner"
    checkpoint_steps = 500

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add what is monitored, and when to stop."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--patience",
            type=int | None,
            default=3,
            help="stop after so many epochs in a row that are no better on validation images; null for never",
        )
        parser.add_argument(
            "--monitor",
            type=Literal["val_cider", "val_loss"],
            default="val_cider",
            help="the validation figure that chooses the kept weights and decides when to stop",
        )

    def check_run(self) -> None:
        """Check when to stop too."""
        super().check_run()
        check("patience", self.config.patience, at_least(1, 10**9, null=True))

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the tower too."""
        tower = self.config.model.tower
        named = {"name": tower.name, "pretrained": tower.pretrained}
        return {**super().inputs(), **{f"model.tower.{name}": [path] for name, path in named.items() if path}}

    def callbacks(self) -> Sequence[Callback]:
        """Return what keeps checkpoints, and what stops the training."""
        monitor, patience = self.config.monitor, self.config.patience
        stops = [] if patience is None else [early_stopping(monitor, patience, check_finite=False)]
        states = states_to_go_on_with(self.folder, self.config.checkpoint_steps)
        return [best_checkpoint(self.folder, monitor), *stops, *states]


def run(arguments: Sequence[str]) -> int:
    """Train, write the model folder, ``report.json`` and the captions of the test images.

    Returns:
        The exit status.

    Raises:
        ConfigError: the folder holds a run that is not to be resumed, or none that could be.
        DataError: unusable data.
    """
    cli = CaptionTrainingCLI(
        CaptionTraining, CaptionedImages, arguments, trainer_defaults=TRAINER_DEFAULTS, about=__doc__ or ""
    )
    with cli.alone():
        _train(cli)
    return 0


def _train(cli: CaptionTrainingCLI) -> None:
    model, data = cli.model, cli.datamodule
    checkpoint = checkpoint_of(cli)
    data.load(cli.config.seed_everything, told=cli.trainer.is_global_zero)
    check_data(cli, checkpoint)
    if cli.config.monitor == "val_cider":
        check_cider(data.validation_part)
    model.build(data.captions, data.languages, data.max_length)
    reported = [image for image in data.test_part if {*image.languages} & {*model.model.languages}]
    check_test_images(reported, str(data.sources["test"]))
    minutes = train(cli, checkpoint, lambda: prepare(cli, checkpoint))
    if cli.trainer.is_global_zero:
        _finish(cli, minutes)


def prepare(cli: Any, checkpoint: str | None) -> None:
    """Decode images, pre-train a tower that is to be, and compute once what a frozen one says.

    Args:
        cli: the command line with model and data, which are loaded and built.
        checkpoint: what the run goes on from, whose tower is taken; None for a new run.
    """
    model, data, folder = cli.model, cli.datamodule, cli.folder
    captioner, pretraining = model.model, model.pretraining
    if checkpoint is not None:
        _take_tower(model, checkpoint)
    learns = model.tower.train
    with reported() as progress:
        pixels = None
        if learns or (pretraining.epochs and checkpoint is None):
            advance = progress("reading images", len(data.files))
            pixels = PixelStore(data.files, captioner.tower.image.preprocess, progress=advance)
        if pretraining.epochs and checkpoint is None:
            tokens = [captioner.pieces.encode(image.captions) for image in data.train_part]
            pretrain_tower(
                captioner.tower,
                pixels,  # type: ignore[arg-type]
                tokens,
                pretraining,
                seed=cli.config.seed_everything,
                change=model.augmentation,
                precision=str(cli.config.trainer.precision),
                advance=progress("pre-training on words", pretraining.epochs),
            )
        grids = None
        if not learns:
            pixels = None
            advance = progress("encoding images", len(data.files) * (1 + model.tower.mirror))
            folder.mkdir(parents=True, exist_ok=True)
            with moved(captioner.tower, cli.trainer.strategy.root_device):
                grids = GridStore(
                    captioner.tower,
                    data.files,
                    mirrored=model.tower.mirror,
                    precision="bf16" if str(cli.config.trainer.precision).startswith("bf16") else "fp32",
                    disk=disk_cache(),
                    folder=folder,
                    advance=advance,
                )
    data.attach(captioner, pixels, grids)
    model.figures = Figures(data.validation_part, len(data.train_part))
    captioner.train()


def _take_tower(model: Any, checkpoint: str) -> None:
    """Give a captioner the tower of a checkpoint, which may have been pre-trained."""
    kept, prefix = read_checkpoint(Path(checkpoint)), "captioner.tower."
    restore_frozen(kept, model)  # of a tower that only ever was frozen the checkpoint holds the buffers alone
    state = kept["state_dict"]
    own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    model.model.tower.load_state_dict(own)


def _finish(cli: Any, minutes: float) -> None:
    """Write model, report and test captions."""
    model, data, trainer = cli.model, cli.datamodule, cli.trainer
    captioner = model.model.eval()
    decoding = Decoding("beam", max_length=data.max_length)
    facts: dict[str, Any] = {
        "sources": data.sources,
        "images": {part: len(getattr(data, f"{part}_part")) for part in ("train", "validation", "test")},
        **data.skipped_facts,
        "languages": list(captioner.languages),
        **task_facts(cli, minutes),
        "weights": sum(p.numel() for p in captioner.parameters()),
        "decoding": "beam search, 5 beams",
    }
    file, rows = cli.folder / "test.jsonl", list[dict[str, Any]]()
    with moved(captioner, trainer.strategy.root_device):
        facts["validation"] = _figures(captioner, data.validation_part, decoding, file)[0]
        if data.test_part:
            facts["test"], rows = _figures(captioner, data.test_part, decoding, file)
    with staged(cli.folder) as stage:
        if data.test_part:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (stage / file.name).write_text(text, encoding="utf-8")
        save_captioner(captioner, stage / "model", card(facts, cli.config))
        (stage / "report.json").write_text(
            json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    tell_of_run(cli.folder, facts["kept"])


def _figures(
    captioner: Any, images: Sequence[CaptionedImage], decoding: Decoding, file: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the corpus scores of captions of images in each language, and the captions as rows of a file."""
    figures: dict[str, Any] = {}
    rows = []
    for language in captioner.languages:
        own = [image for image in images if language in image.languages]
        if not own:
            continue
        with reported() as progress:
            advance = progress("writing captions", len(own))
            said = captions_of(
                captioner, [i.image for i in own], decoding, language=language, advance=advance
            )
        samples = [as_sample(i, language, texts[0]) for i, texts in zip(own, said, strict=True)]
        figures[language] = {
            **{
                name: round(value, 4) if math.isfinite(value) else None
                for name, value in measured(samples).items()
            },
            "empty": sum(not texts[0].strip() for texts in said),
        }
        if figures[language]["empty"] == len(own):
            logger.warning(
                "all %d captions in %s are empty: train for longer (trainer.max_epochs)",
                len(own), LANGUAGE_NAMES[language],
            )  # fmt: skip
        rows += [
            {
                "id": _row_id(image, language, captioner.languages),
                "image": stored_name(image.image, file),
                "candidate": texts[0],
                "references": list(image.in_language(language)),
                "language": language,
                **({} if texts[0].strip() else {"error": EMPTY}),
            }
            for image, texts in zip(own, said, strict=True)
        ]
    return figures, rows


def _row_id(image: CaptionedImage, language: str, written: Sequence[str]) -> str:
    """Return the id of a caption, with its language where the image has one in another too."""
    several = len({own for own in image.languages if own in written}) > 1
    return f"{image.id}#{language}" if several else image.id
