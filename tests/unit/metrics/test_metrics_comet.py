import sys
from pathlib import Path

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.comet import Comet

PACKAGE = """
import sys, os
class Prediction(dict):
    scores = property(lambda self: self["scores"])
class Model:
    def __init__(self, path): self.path = path
    def predict(self, samples, batch_size=16, gpus=1, progress_bar=True):
        print("a warning", file=sys.stderr)
        assert batch_size == 7 and gpus == 0 and not os.environ.get("PYTHONHOME")
        {body}
        return Prediction(scores=scores)
def download_model(name): return "downloaded:" + name
def load_from_checkpoint(path): return Model(path)
"""
BY_LENGTH = 'scores = [len(s["src"]) + 10 * len(s["mt"]) + 100 * len(s["ref"]) for s in samples]'


@pytest.fixture
def environment(tmp_path):
    """Return a maker of fake environments: an interpreter that finds a stand-in for the package."""

    def make(body: str = BY_LENGTH, package: bool = True) -> Path:
        folder = tmp_path / "site"
        folder.mkdir()
        if package:
            (folder / "comet.py").write_text(PACKAGE.replace("{body}", body))
            info = folder / "unbabel_comet-9.8.7.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 9.8.7\n")
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        return python

    return make


SAMPLES = [
    CaptionSample("ab", ("r",)),
    CaptionSample("abc", ("r", "rr")),
    CaptionSample("猫", ("r" * 3, "r" * 4, "r" * 5)),
    CaptionSample("none"),
]


def test_first_reference_is_the_source_and_second_the_reference(environment):
    scores = Comet(environment()).score(SAMPLES, batch_size=7)
    np.testing.assert_array_equal(scores, [121, 231, 413, np.nan])


def test_a_name_is_downloaded_and_a_path_is_not(environment, tmp_path):
    python = environment('scores = [float(self.path.startswith("downloaded:"))] * len(samples)')
    checkpoint = tmp_path / "model.ckpt"
    checkpoint.write_bytes(b"weights")
    assert Comet(python, model="some/name").score(SAMPLES[:1], batch_size=7)[0] == 1
    assert Comet(python, model=str(checkpoint)).score(SAMPLES[:1], batch_size=7)[0] == 0


def test_signature_names_the_package_version_and_the_model(environment, tmp_path):
    checkpoint = tmp_path / "model.ckpt"
    checkpoint.write_bytes(b"weights")
    signature = Comet(environment(), model=str(checkpoint)).signature
    assert "|unbabel-comet:9.8.7|" in signature
    assert "|model:sha256-" in signature
    assert str(tmp_path) not in signature


@pytest.mark.parametrize(
    ("place", "signed"),
    [
        (
            "hub/models--some--name/snapshots/0123456789abcdef/checkpoints/model.ckpt",
            "some/name@0123456789ab",
        ),
        ("unbabel_comet/some/name/checkpoints/model.ckpt", "some/name"),
    ],
)
def test_signature_names_the_revision_that_is_scored_with(environment, tmp_path, place, signed):
    """The hub's model may be another one between the signature and the scores: it is downloaded once."""
    python = environment("scores = [float(self.path.endswith('model.ckpt'))] * len(samples)")
    package, asked = tmp_path / "site" / "comet.py", tmp_path / "asked"
    download = f"""
def download_model(name):
    print("a line of its own")
    open({str(asked)!r}, "a").write(name + " ")
    return {str(tmp_path / place)!r}
"""
    package.write_text(package.read_text() + download)
    metric = Comet(python, model="some/name")
    assert f"|model:{signed}|" in metric.signature
    assert metric.score(SAMPLES[:1], batch_size=7)[0] == 1
    assert f"|model:{signed}|" in metric.signature
    assert asked.read_text() == "some/name "


def test_signature_follows_the_settings_beside_a_checkpoint(environment, tmp_path):
    """COMET reads the kind of model, and how it mixes layers, from the folder above the checkpoint's."""
    python, checkpoint = environment(), tmp_path / "model" / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"weights")
    signatures = {Comet(python, model=str(checkpoint)).signature}
    for kind in ("regression_metric", "unified_metric"):
        (tmp_path / "model" / "hparams.yaml").write_text(f"class_identifier: {kind}\n")
        signatures.add(Comet(python, model=str(checkpoint)).signature)
    assert len(signatures) == 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("scores = [1.0]", "1 scores for 3 captions"),
        ("scores = [float('nan')] * 3", "not a finite number"),
        ("raise RuntimeError('out of memory on purpose')", "(?s)status 1.*out of memory on purpose"),
        ("os._exit(3)", "status 3"),
        ("raise ModuleNotFoundError(\"No module named 'pkg_resources'\")", "pip install 'setuptools<81'"),
    ],
)
def test_a_failure_is_shown(environment, body, message):
    with pytest.raises(UnavailableError, match=message):
        Comet(environment(body)).score(SAMPLES, batch_size=7)


def test_an_environment_without_the_package(environment):
    with pytest.raises(UnavailableError, match="has no unbabel-comet; install it there"):
        Comet(environment(package=False)).score(SAMPLES, batch_size=7)


def test_a_run_that_takes_too_long(environment):
    with pytest.raises(UnavailableError, match="took over"):
        Comet(environment("import time; time.sleep(60)"), timeout=1).score(SAMPLES, batch_size=7)


def test_the_interpreter_must_exist(tmp_path):
    with pytest.raises(UnavailableError, match="--comet-python"):
        Comet()
    with pytest.raises(UnavailableError, match="no program at"):
        Comet(tmp_path / "absent")
    with pytest.raises(ConfigError, match="gpus"):
        Comet(sys.executable, gpus=2)
