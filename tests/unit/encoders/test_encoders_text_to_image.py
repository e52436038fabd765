"""Pipelines of diffusers: what is loaded of them, and what never is."""

import json
import logging
import pickle
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("diffusers", reason="needs the extra recap")

from suisei.encoders.text_to_image import Illustrator, read_pipeline
from suisei.errors import ModelError, UnavailableError
from tests.unit.two_processes import environment


@pytest.fixture
def folder(tiny_diffusion, tmp_path):
    return shutil.copytree(tiny_diffusion, tmp_path / "model")


def change_index(folder, **changes):
    path = folder / "model_index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class Traitor:
    def __reduce__(self):
        return exec, ("open('betrayed', 'w').write('x')",)


def test_a_pipeline_is_known_by_its_index_and_its_files(folder):
    kind = read_pipeline(str(folder))
    assert (kind.name, kind.pipeline, kind.scheduler) == ("model", "StableDiffusionPipeline", "PNDMScheduler")
    assert kind.revision.startswith("sha256-")
    change_index(folder, scheduler=["diffusers", "DDIMScheduler"])
    other = read_pipeline(str(folder))
    assert other.scheduler == "DDIMScheduler"
    assert other.revision != kind.revision


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"_class_name": ["pipeline", "Mine"]}, "names no pipeline of diffusers"),
        ({"unet": ["my_unet", "Mine"]}, "unet in its model_index.json"),
        ({"unet": ["os", "system"]}, "never runs a model's own code"),
        ({"vae": ["diffusers", "a.b"]}, "vae in its model_index.json"),
    ],
)
def test_an_index_that_names_code_of_its_own_is_refused(folder, changes, said):
    (folder / "unet" / "trap.txt").write_text("not read")
    change_index(folder, **changes)
    with pytest.raises(ModelError, match=said):
        Illustrator(str(folder), device="cpu")


def test_a_folder_with_python_files_is_refused_and_nothing_of_them_runs(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "unet" / "diffusers.py").write_text("open('betrayed', 'w').write('x')")
    with pytest.raises(ModelError, match=r"unet.diffusers\.py, code of its own"):
        Illustrator(str(folder), device="cpu")
    assert not (tmp_path / "betrayed").exists()


@pytest.mark.parametrize("part", ["unet", "text_encoder"])
def test_weights_are_never_unpickled(folder, tmp_path, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    weights = next((folder / part).glob("*.safetensors"))
    pickled = "diffusion_pytorch_model.bin" if part == "unet" else "pytorch_model.bin"
    (folder / part / pickled).write_bytes(pickle.dumps(Traitor()))
    weights.unlink()
    with pytest.raises(ModelError, match="cannot be loaded as a text-to-image model"):
        Illustrator(str(folder), device="cpu")
    assert not (tmp_path / "betrayed").exists()


def test_what_is_no_pipeline_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"model_index\.json cannot be read"):
        read_pipeline(str(tmp_path))
    (tmp_path / "model_index.json").write_text("[]")
    with pytest.raises(ModelError, match="names no pipeline"):
        read_pipeline(str(tmp_path))
    monkeypatch.setattr("suisei.encoders.hub_errors._reachable", lambda _: False)
    with pytest.raises(UnavailableError, match="nobody/nothing"):
        read_pipeline("nobody/nothing")
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(UnavailableError, match=r"pip install 'suisei\[recap\]'"):
        read_pipeline(str(tmp_path))


def test_captions_that_are_cut_are_said_once_and_not_by_the_libraries(tiny_diffusion, caplog, monkeypatch):
    illustrator = Illustrator(str(tiny_diffusion), device="cpu", steps=1)
    for name in ("diffusers", "transformers"):  # which keep what they say to handlers of their own
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    for caption in ("a dog " * 100, "a cat " * 100):
        illustrator.generate([caption, "short"], [1, 2])
    [said] = caplog.messages
    assert said.startswith(f"{tiny_diffusion.name}: a caption is longer than its text encoder reads")


def test_what_diffusers_warns_of_when_it_is_imported_is_kept_from_users(tiny_diffusion):
    code = "from suisei.encoders.text_to_image import Illustrator; Illustrator({!r}, device='cpu', steps=1)"
    command = [sys.executable, "-W", "always", "-c", code.format(str(tiny_diffusion))]
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", env=environment())
    assert "FutureWarning" not in done.stderr


@pytest.mark.parametrize("flag", ["nsfw_content_detected", "nsfw_detected"])
def test_declined_and_black_images_are_none(tiny_diffusion, flag):
    illustrator = Illustrator(str(tiny_diffusion), device="cpu", steps=1)
    picture = Image.fromarray(np.full((8, 8, 3), 7, dtype=np.uint8))
    black = Image.new("RGB", (8, 8))

    def pipeline(captions, **options):
        return SimpleNamespace(images=[picture, picture, black], **{flag: [False, True, False]})

    illustrator._pipeline = pipeline
    assert illustrator.generate(["a", "b", "c"], [1, 2, 3]) == [picture, None, None]
