"""The command lines of RECAP's two trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser

from suisei.encoders.precision import choose_device, choose_precision
from suisei.errors import ConfigError
from suisei.ranges import NAME, Of, Word, at_least, check
from suisei.recap.image_towers import TowerConfig
from suisei.training.command_line import RunCLI
from suisei.training.progress_lines import ProgressLines, wanted

PATIENCE_STEPS = 2000
"""Training stops after so many steps without a lower validation loss."""


class RecapCLI(RunCLI):
    """A command line of a training counted in steps: model, data, trainer, and the run's folder."""

    task: ClassVar[str]
    folder: ClassVar[str]

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the task, the run's folder and the patience."""
        parser.add_argument("--task", type=str, default=self.task, help=f"what is trained; {self.task}")
        parser.add_argument("--output", type=str, default=self.folder, help="the run's folder")
        parser.add_argument(
            "--patience_steps",
            type=int,
            default=PATIENCE_STEPS,
            help="stop after so many steps without a lower validation loss",
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
        check("task", config.task, Word((self.task,)))
        check("patience_steps", config.patience_steps, at_least(1, 10**9))
        check("ckpt_path", config.ckpt_path, Of(str, null=True))
        check("trainer.val_check_interval", config.trainer.val_check_interval, at_least(1, 10**9))
        check("trainer.devices", config.trainer.devices, Word((1, "1", "auto")))
        config.trainer.devices = 1

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the model too."""
        model = self.config.model
        named: dict[str, Any] = {name: model.get(name) for name in ("mapper", "language_model")}
        if model.get("image"):
            named |= {"image.name": model.image.name, "image.pretrained": model.image.pretrained}
        return {**super().inputs(), **{f"model.{name}": [path] for name, path in named.items() if path}}

    def before_instantiate_classes(self) -> None:
        """Make the callbacks, which depend on the folder and on how often validation runs."""
        config = self.config
        folder = Path(config.output)
        if config.ckpt_path is None and (folder / "config.yaml").exists():
            raise ConfigError(
                f"{folder} holds a run already; choose another --output, or go on with it: --ckpt_path last"
            )
        self.refuse_used_folder(folder)
        config.trainer.default_root_dir = str(folder)
        if config.trainer.precision is None:
            fast = choose_precision("auto", choose_device("auto")) == "bf16"
            config.trainer.precision = "bf16-mixed" if fast else "32-true"
        kept = {"dirpath": folder / "checkpoints", "enable_version_counter": False}
        best = ModelCheckpoint(filename="best", monitor="val_loss", save_weights_only=True, **kept)
        patience = max(1, config.patience_steps // config.trainer.val_check_interval)
        stop = EarlyStopping("val_loss", patience=patience)
        # After the other two: what they have found out belongs to the state to go on with.
        last = ModelCheckpoint(filename="last", every_n_epochs=1, **kept)
        lines: list[Callback] = []
        if wanted(config.trainer.enable_progress_bar):
            config.trainer.enable_progress_bar = False
            lines = [ProgressLines()]
        self.trainer_defaults["callbacks"] = [best, stop, last, *lines]


class MapperCLI(RecapCLI):
    """The command line of the mapper's training."""

    task = "recap-mapper"
    folder = "runs/recap-mapper"


class LatentCLI(RecapCLI):
    """The command line of the reconstruction's training."""

    task = "recap-latent"
    folder = "runs/recap-latent"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add how a mapper is trained where none is given."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--mapper_config",
            type=str,
            default="configs/recap_mapper.yaml",
            help="how a mapper is trained first, where model.mapper is null: a config of task recap-mapper",
        )

    def check_run(self) -> None:
        """Check the config of the mapper too."""
        super().check_run()
        check("mapper_config", self.config.mapper_config, NAME)

    def tower(self) -> TowerConfig | None:
        """Return the image tower that the settings name, if they name one."""
        image = self.config.model.image
        return None if image is None else TowerConfig(image.name, image.pretrained, image.normalise)
