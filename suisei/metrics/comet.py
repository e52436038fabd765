"""COMET (Rei et al., 2020) through an installed ``unbabel-comet``, in an environment of its own.

Its pins rule out current versions of packages that suisei needs, so it is never imported here: its
own interpreter runs a few lines that read and write JSON lines.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.base import Metric

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
_SHOWN_LINES = 20
"""How many of the last lines of the other program's standard error a message shows."""

# Version 2.2.7 depends on an old torchmetrics that imports pkg_resources, which setuptools 81 dropped.
_INSTALL = "python -m venv ENV && ENV/bin/pip install unbabel-comet 'setuptools<81'"

_SCRIPT = """
import json, sys
source, target, model, batch_size, gpus = sys.argv[1:6]
from comet import load_from_checkpoint
with open(source, encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
scorer = load_from_checkpoint(model)
answer = scorer.predict(rows, batch_size=int(batch_size), gpus=int(gpus), progress_bar=False)
scores = answer["scores"] if isinstance(answer, dict) else getattr(answer, "scores", None) or answer[0]
with open(target, "w", encoding="utf-8") as file:
    file.writelines(json.dumps(float(score)) + "\\n" for score in scores)
"""

_DOWNLOAD_SCRIPT = "import sys; from comet import download_model; print(download_model(sys.argv[1]))"
_VERSION_SCRIPT = "from importlib.metadata import version; print(version('unbabel-comet'))"


class Comet(Metric):
    """A COMET regression model; what its scores mean and range over depends on the model.

    COMET compares a translation with a source and a reference. Captions have no source, so, as in
    the comparison of the SuiSei paper, the first reference stands for the source and the second for
    the reference; a sample with a single reference uses it for both, and further ones are not used.

    Args:
        python: the interpreter of the environment that has ``unbabel-comet``.
        model: a COMET model name, or the path of a local checkpoint.
        gpus: how many GPUs COMET may use; 0 computes on the CPU.
        timeout: seconds that a whole run may take, or None for no limit.
    """

    name = "comet"
    needs = frozenset({"references"})

    def __init__(
        self,
        python: str | Path | None = None,
        *,
        model: str = DEFAULT_MODEL,
        gpus: int = 0,
        timeout: float | None = None,
    ) -> None:
        if python is None:
            raise UnavailableError(
                "comet runs in an environment of its own: give its interpreter with --comet-python PATH "
                f"(to make one: {_INSTALL})"
            )
        found = shutil.which(str(python))
        if found is None:
            raise UnavailableError(f"comet: no program at {python}; to make an environment: {_INSTALL}")
        if gpus not in (0, 1):  # with more, every process but the first ends without an answer
            raise ConfigError(f"gpus must be 0 or 1, got {gpus}")
        self.python = found
        self.model = str(model)
        self.gpus = gpus
        self.timeout = timeout
        self._version: str | None = None
        self._downloaded: str | None = None

    def settings(self) -> dict[str, str]:
        """Return the model, its settings, the package's version, and which reference stands for what."""
        from suisei.encoders.weights import file_hash

        if self._version is None:
            self._version = self._run(["-c", _VERSION_SCRIPT]).strip()
        path = Path(self.model)
        model = {"model": f"sha256-{file_hash(path)}" if path.is_file() else self._signed_name()}
        beside = path.absolute().parent.parent / "hparams.yaml"  # where COMET reads which kind of model it is
        if path.is_file() and beside.is_file():
            model["hparams"] = f"sha256-{file_hash(beside)}"
        return {**model, "unbabel-comet": self._version, "src": "ref1", "ref": "ref2-else-ref1"}

    def _checkpoint(self) -> str:
        """Return the path of the checkpoint; COMET downloads one that is named, and says where it is."""
        if Path(self.model).exists():
            return self.model
        if self._downloaded is None:
            self._downloaded = self._run(["-c", _DOWNLOAD_SCRIPT, self.model]).strip().rpartition("\n")[2]
        return self._downloaded

    def _signed_name(self) -> str:
        """Return NAME@REVISION where the checkpoint is in the hub's folder of a revision, else the name."""
        _, snapshot, inside = self._checkpoint().rpartition(f"{os.sep}snapshots{os.sep}")
        return f"{self.model}@{inside.partition(os.sep)[0][:12]}" if snapshot else self.model

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        rows = [
            {
                "src": sample.references[0],
                "mt": sample.candidate,
                "ref": sample.references[min(1, len(sample.references) - 1)],
            }
            for sample in samples
        ]
        with tempfile.TemporaryDirectory(prefix="suisei-comet-") as folder:
            source, target = Path(folder, "rows.jsonl"), Path(folder, "scores.jsonl")
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            source.write_text(text, encoding="utf-8")
            settings = [self._checkpoint(), str(batch_size), str(self.gpus)]
            self._run(["-c", _SCRIPT, str(source), str(target), *settings])
            return self._read(target, len(samples))

    def _read(self, target: Path, expected: int) -> np.ndarray:
        try:
            lines = target.read_text(encoding="utf-8").splitlines()
            scores = [float(line) for line in lines]
        except (OSError, ValueError) as error:
            raise UnavailableError(f"comet at {self.python} left no readable scores: {error}") from error
        if len(scores) != expected:
            raise UnavailableError(
                f"comet at {self.python} returned {len(scores)} scores for {expected} captions"
            )
        if not all(map(math.isfinite, scores)):
            raise UnavailableError(f"comet at {self.python} returned a score that is not a finite number")
        return np.asarray(scores, dtype=np.float64)

    def _run(self, arguments: list[str]) -> str:
        """Run the other interpreter; return what it printed."""
        inherited = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}  # ours would break its environment
        environment = {key: value for key, value in os.environ.items() if key not in inherited}
        try:
            done = subprocess.run(
                [self.python, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"comet at {self.python} took over {self.timeout:g} s") from error
        except OSError as error:
            raise UnavailableError(f"comet: cannot run {self.python}: {error}") from error
        if done.returncode:
            raise UnavailableError(self._explain(done.returncode, done.stderr))
        return done.stdout

    def _explain(self, status: int, stderr: str) -> str:
        last = "\n".join(stderr.strip().splitlines()[-_SHOWN_LINES:])
        if "No module named 'comet'" in stderr or "PackageNotFoundError" in stderr:
            return f"comet: {self.python} has no unbabel-comet; install it there: pip install unbabel-comet"
        if "No module named 'pkg_resources'" in stderr:
            return (
                f"comet: {self.python} has too new a setuptools; install there: pip install 'setuptools<81'"
            )
        return f"comet at {self.python} failed with status {status}; the end of its standard error:\n{last}"
