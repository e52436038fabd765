"""Readers of models: folders of suisei's own and of dual encoders, files of weights, and checkpoints."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz import mutations as change
from tests.fuzz.readers import BY_SUFFIX, Made, Reader

CAPTIONS = [
    *("A red ball lies on the table.", "犬が公園を走っている。", "two dogs run in the park", "猫"),
    *(
        "赤いボールが机の上にある",
        "the cat sat on a mat",
        "部屋に小さな星が三つあります。",
        "A man rides a bicycle",
    ),
]
CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 500, "width": 16, "heads": 2, "layers": 1},
}


def _named(folder: Path, names: Iterable[str]) -> list[bytes]:
    return [name.encode() + b"\0" + (folder / name).read_bytes() for name in names]


def build_model(folder: Path) -> None:
    """Write a tiny model with an extra input of each kind of state."""
    import torch

    from suisei.data.idf import IdfTable
    from suisei.data.sample import CaptionSample, Rating
    from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
    from suisei.encoders.text import TextEncoder
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
    from suisei.metrics.extras import ExtraInputs
    from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
    from suisei.models.folder import save_model
    from suisei.models.regressor import Regressor

    torch.manual_seed(0)
    names = ["ridge", "cider", "length"]
    extras = ExtraInputs(names)
    rated = enumerate(CAPTIONS)
    extras.fit([CaptionSample(t, CAPTIONS[:3], rating=Rating((n / 8,)), group=str(n)) for n, t in rated])
    text = TextEncoderConfig(name="tiny", tiny=TinyTextConfig(vocabulary=200, width=16, layers=1))
    image = ImageEncoderConfig(
        name="tiny", frozen=False, tiny=TinyImageConfig(width=4, image_size=64, features=8)
    )
    head = HeadConfig(hidden=(4,), start="cosine", bridge=(10.0, -5.0))
    config = RegressorConfig(text, image, FusionConfig(extra_inputs=names), head)
    encoder = TextEncoder.create(text, CAPTIONS)
    regressor = Regressor(
        config, encoder, ImageEncoder.create(image), IdfTable.fit(encoder.tokenize(CAPTIONS))
    )
    save_model(folder, regressor.eval(), extras=extras.state(), card="# A model\n")


def _resign(folder: Path) -> None:
    """Let the checksums of a folder fit its files, as somebody would who knows how they are made."""
    from suisei.data.checksums import sha256_of
    from suisei.models.folder_checks import own_checksum

    for inner in ("second", "second-2"):
        if (folder / inner).is_dir():
            _resign(folder / inner)
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict) or not isinstance(config.get("sha256"), dict):
            return  # the reader says what is wrong with it, as below
        for name in config["sha256"]:
            if name != "config.json" and (folder / name).is_file():
                config["sha256"][name] = sha256_of(folder / name)
        config["sha256"]["config.json"] = own_checksum(config)
        path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except (OSError, ValueError, RecursionError):
        return


def _build_lower(folder: Path) -> None:
    """Write a model of captions alone, whose network can read with that model's encoder."""
    from suisei.data.idf import IdfTable
    from suisei.encoders.text import TextEncoder
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.encoders.tiny import TinyTextConfig
    from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
    from suisei.models.folder import save_model
    from suisei.models.regressor import Regressor

    tiny = TinyTextConfig(vocabulary=200, width=16, layers=1)
    text = TextEncoderConfig(name="tiny", tiny=tiny, layers=1)
    config = RegressorConfig(
        text, None, FusionConfig(alignment=True), HeadConfig(hidden=(4,), start="cosine")
    )
    encoder = TextEncoder.create(text, CAPTIONS)
    save_model(folder, Regressor(config, encoder, None, IdfTable.fit(encoder.tokenize(CAPTIONS))).eval())


def build_pair(folder: Path) -> None:
    """Write that model with another beside it, and one more that reads with its encoder."""
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model, save_pair
    from suisei.models.second import Second, Weighing

    alone, lower, two = (folder.parent / name for name in ("alone", "lower", "two"))
    build_model(alone)
    _build_lower(lower)
    own, other = load_model(alone, check_names), load_model(lower, check_names)
    save_pair(two, own, Second(Weighing(("en",), 0.4), own.path, None, own.checksum))
    shared = Second(Weighing(("ja",), 0.3), other.path, None, other.checksum, shared=True)
    save_pair(folder, load_model(two, check_names), shared)


def _model(folder: Path) -> Made:
    """A folder of three models of which one file was changed, signed again, loaded and asked for scores."""
    from suisei.metrics.loading import load

    original, copy = folder / "original", folder / "model"
    build_pair(original)
    names = sorted(
        p.relative_to(original).as_posix() for p in original.rglob("*") if p.suffix not in (".md", "")
    )
    references = [["a dog runs", "two dogs"], ["犬"], ["a dog runs"]]
    signed = json.loads((original / "config.json").read_text(encoding="utf-8"))
    _resign(original)  # which changes nothing, or what is read is refused for its checksum alone
    assert json.loads((original / "config.json").read_text(encoding="utf-8")) == signed

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        if not copy.exists():
            shutil.copytree(original, copy)
        try:
            (copy / name.decode()).write_bytes(content)
            _resign(copy)
            metric = load(copy, device="cpu", precision="fp32", cache="off")
            metric.score(["a dog", "犬", "犬"], references)
        finally:
            for changed in (name.decode(), "config.json", "second/config.json", "second-2/config.json"):
                shutil.copyfile(original / changed, copy / changed)

    config = [n for n in names if n.endswith("config.json")] * 4  # what says most is changed most
    return _named(original, [*config, *names]), read


def _dual(folder: Path) -> Made:
    """The folder of a dual encoder of which one file was changed."""
    from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder
    from suisei.encoders.dual_loading import load_dual_encoder

    original, copy = folder / "original", folder / "clip"
    save_dual_encoder(new_dual_encoder(CLIP), original)
    shutil.copytree(original, copy)
    names = sorted(path.name for path in original.iterdir())

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        try:
            (copy / name.decode()).write_bytes(content)
            load_dual_encoder(str(copy), device="cpu", precision="fp32")
        finally:
            shutil.copyfile(original / name.decode(), copy / name.decode())

    return _named(original, ["open_clip_config.json"] * 4 + names), read


def _weights(folder: Path) -> Made:
    import torch
    from safetensors.torch import save

    from suisei.encoders.weights import read_weights, weight_shapes
    from suisei.errors import SuiseiError

    tensors = {
        "a.weight": torch.ones(3, 2),
        "module.b": torch.arange(4),
        "c": torch.zeros(2, dtype=torch.bfloat16),
    }
    new, old = io.BytesIO(), io.BytesIO()
    torch.save({"state_dict": tensors, "epoch": 3}, new)
    torch.save(tensors, old, _use_new_zipfile_serialization=False)

    def read(data: bytes) -> None:
        name, _, content = data.partition(b"\0")
        path = folder / name.decode()
        path.write_bytes(content)
        try:
            read_weights(path)
        except SuiseiError:
            if path.suffix == ".safetensors":
                weight_shapes(path)

    return [
        b"w.safetensors\0" + save(tensors), b"w.pt\0" + new.getvalue(), b"old.bin\0" + old.getvalue(),
    ], read  # fmt: skip


def _checkpoint(folder: Path) -> Made:
    """A checkpoint that was changed and given the checksum of what it became."""
    import torch

    from suisei.errors import SuiseiError
    from suisei.training.checkpoints import MARK, SETTINGS, read_checkpoint, resumed_settings

    path = folder / "last.ckpt"
    content: dict[str, Any] = {
        "state_dict": {"a": torch.ones(2)},
        "optimizer_states": [{}],
        SETTINGS: json.dumps({"seed": 1}),
        "epoch": 2,
    }
    stream = io.BytesIO()
    torch.save(content, stream)

    def read(data: bytes) -> None:
        path.write_bytes(data + MARK + hashlib.sha256(data).hexdigest().encode())
        with suppress(SuiseiError):
            read_checkpoint(path)
        resumed_settings(path)

    return [stream.getvalue()], read


READERS: dict[str, Reader] = {
    "model": Reader(_model, change.change_named(BY_SUFFIX), 3),
    "dual": Reader(_dual, change.change_named(BY_SUFFIX), 1),
    "weights": Reader(_weights, change.change_named(BY_SUFFIX), 25),
    "checkpoint": Reader(_checkpoint, change.change_zip, 15),
}
