"""What came of the pre-trainings that a training on ratings begins with, kept until it is over.

There may be several, of text encoders and of an image encoder, and wherever the training goes on it needs
what came of each again.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

from suisei.errors import ModelError
from suisei.training.checkpoints import resumed_data, resumed_settings, verify_checkpoint
from suisei.training.data_digest import check_same_data
from suisei.training.pass_states import PassStates
from suisei.training.run_settings import check_resumed

logger = logging.getLogger(__name__)

FOLDER = "pretraining"
"""Where the folder of a run has them."""


class KeptPretrainings:
    """Keeps the states of all pre-trainings of a run, in a folder within the run's.

    Args:
        run: the run's folder.
        settings: the run's, as plain values.
        data: digests of the run's data.
        steps: after so many a state is kept.
        first: whether this is the first process of the run, which alone writes.
    """

    def __init__(
        self, run: Path, settings: dict[str, Any], data: dict[str, str], steps: int, *, first: bool = True
    ) -> None:
        self._folder = run / FOLDER
        self._settings = settings
        self._data = data
        self._steps = steps
        self._first = first

    def of(self, name: str) -> PassStates:
        """Return what keeps the state of a pre-training, and goes on from what an earlier start kept.

        Raises:
            ConfigError: that start had other settings.
            ModelError: it had other data.
        """
        path = self._folder / f"{name}.ckpt"
        begun = str(path) if path.is_file() and self._usable(path) else None
        return PassStates(path, self._settings, self._data, self._steps, begun, first=self._first)

    def _usable(self, path: Path) -> bool:
        try:
            verify_checkpoint(path)
            settings = resumed_settings(path)
        except ModelError as error:
            logger.warning("%s; that pre-training is made anew", str(error).rpartition(";")[0])
            return False
        check_resumed(settings, self._settings)
        noted = {**resumed_data(path), "test": self._data["test"]}  # of which no pre-training learns
        check_same_data(noted, self._data)
        return True

    def forget(self) -> None:
        """Take all of them away."""
        shutil.rmtree(self._folder, ignore_errors=True)
