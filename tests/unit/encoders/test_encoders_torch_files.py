"""Files of weights and models' indexes that somebody made by hand: refused soon, and in one line."""

import io
import json
import pickle
import struct
import zipfile

import pytest
import torch

from suisei.encoders.pretrained import check_config_file
from suisei.encoders.torch_files import LONGEST_NAME, load_tensors
from suisei.encoders.weights import read_weights
from suisei.errors import ModelError
from suisei.pacs.generators import Captioner, Illustrator


def saved(content, **options):
    stream = io.BytesIO()
    torch.save(content, stream, **options)
    return stream.getvalue()


def archive(data_pkl, compression=zipfile.ZIP_STORED, **others):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        file.writestr("archive/data.pkl", data_pkl)
        file.writestr("archive/version", "3\n")
        for name, content in others.items():
            file.writestr(f"archive/data/{name}", content)
    return stream.getvalue()


def test_both_layouts_of_torch_are_read(tmp_path):
    tensors = {"a": torch.arange(3), "module": {"b": torch.ones(2, 2)}}
    for number, layout in enumerate((True, False)):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(saved(tensors, _use_new_zipfile_serialization=layout))
        assert load_tensors(path)["a"].tolist() == [0, 1, 2]


class Told:
    def __reduce__(self):
        return (print, ("run",))


@pytest.mark.parametrize("layout", [True, False])
def test_code_is_not_run(tmp_path, layout, capsys):
    path = tmp_path / "w.pt"
    path.write_bytes(saved({"a": Told()}, _use_new_zipfile_serialization=layout))
    with pytest.raises(ModelError, match="refused, because it holds Python objects"):
        read_weights(path)
    assert capsys.readouterr().out == ""


def test_a_name_without_end_is_refused_before_torch_looks_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", None)  # which takes hours over this one
    path = tmp_path / "w.pt"
    name = b"x" * (LONGEST_NAME + 1)
    path.write_bytes(archive(b"\x80\x02cos\n" + name + b"\n."))
    with pytest.raises(pickle.UnpicklingError, match="no class is called"):
        load_tensors(path)
    path.write_bytes(b"\x80\x02cos\n" + name + b"\n.")
    with pytest.raises(pickle.UnpicklingError, match="no class is called"):
        load_tensors(path)
    with pytest.raises(ModelError, match="refused"):
        read_weights(path)


def test_an_archive_that_grows_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", None)
    path = tmp_path / "w.pt"
    path.write_bytes(archive(pickle.dumps({}, 2), zipfile.ZIP_DEFLATED, bomb=bytes(20_000_000)))
    with pytest.raises(ModelError, match="says it holds 20,000,0"):
        read_weights(path)


old = saved({"a": torch.ones(2)}, _use_new_zipfile_serialization=False)
DAMAGED = {
    "cut": old[: len(old) // 2],
    "a length of 4 GB": b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"abc",
    "no length": b"\x80\x02X\x01",
    "a storage that is none": archive(b"\x80\x02X\x01\x00\x00\x00aQ."),
    "a number for a storage": archive(b"\x80\x02K\x01Q."),
    "a memory of nothing": archive(b"\x80\x02h\x05."),
    "no stack": archive(b"\x80\x02e."),
    "nothing": archive(b""),
    "text": b"weights, honestly",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_are_one_line(tmp_path, kind):
    path = tmp_path / "w.pth"
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(ModelError) as error:
        read_weights(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


HOSTILE_PARTS = {
    "a file of its own": {"_class_name": "StableDiffusionPipeline", "unet": ["mine", "Net"]},
    "a module that is installed": {"_class_name": "StableDiffusionPipeline", "unet": ["this", "Net"]},
    "a module of a library": {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers.utils", "Net"]},
    "a class of its own": {"_class_name": ["pipeline", "Mine"]},
    "a program of its own": {"_class_name": "pipeline.py"},
    "a library's name on a file": {"_class_name": "StableDiffusionPipeline", "vae": ["transformers", "X"]},
}


@pytest.mark.parametrize("kind", HOSTILE_PARTS)
def test_a_pipeline_with_code_of_its_own_is_refused_before_it_is_imported(tmp_path, kind):
    (tmp_path / "model_index.json").write_text(json.dumps(HOSTILE_PARTS[kind]))
    for name in ("unet/mine.py", "vae/transformers.py", "pipeline.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')\n")
    with pytest.raises(ModelError, match=r"never runs?|names no pipeline"):
        Illustrator(str(tmp_path))
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize(
    "config",
    [{"attn_implementation": "them/kernel"}, {"text_config": {"_attn_implementation": "them/kernel:x"}}],
)
def test_a_captioner_that_would_download_code_is_refused(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "blip", **config}))
    for read in (check_config_file, lambda folder: Captioner(str(folder))):
        with pytest.raises(ModelError, match="which would be downloaded and run"):
            read(tmp_path)
