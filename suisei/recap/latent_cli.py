"""The command lines of RECAP's two trainings."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from suisei.ranges import NAME, Word, check
from suisei.recap.image_towers import TowerConfig
from suisei.training.task_cli import StepCLI

PATIENCE_STEPS = 2000
"""Training stops after so many steps without a lower validation loss."""


class RecapCLI(StepCLI):
    """A command line of one of them, which takes one process."""

    patience_steps = PATIENCE_STEPS

    def check_run(self) -> None:
        """Check the number of processes too."""
        super().check_run()
        check("trainer.devices", self.config.trainer.devices, Word((1, "1", "auto")))
        self.config.trainer.devices = 1

    def inputs(self) -> dict[str, list[str]]:
        """Return the files and folders that the settings name, those of the model too."""
        model = self.config.model
        named: dict[str, Any] = {name: model.get(name) for name in ("mapper", "language_model")}
        if model.get("image"):
            named |= {"image.name": model.image.name, "image.pretrained": model.image.pretrained}
        return {**super().inputs(), **{f"model.{name}": [path] for name, path in named.items() if path}}


class MapperCLI(RecapCLI):
    """The command line of the mapper's training."""

    task = "recap-mapper"
    place = "runs/recap-mapper"


class LatentCLI(RecapCLI):
    """The command line of the reconstruction's training."""

    task = "recap-latent"
    place = "runs/recap-latent"

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
