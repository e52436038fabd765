"""A small trained-looking model, built without training, for the unit tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CAPTIONS = [
    "A red ball lies on the table.",
    "犬が公園を走っている。",
    "two dogs run in the park",
    "赤いボールが机の上にある",
    "the cat sat on a mat",
    "部屋に小さな星が三つあります。",
    "A man rides a bicycle through the old town while it rains and people watch from their windows.",
    "猫",
]


@pytest.fixture(scope="session")
def captions() -> list[str]:
    """Captions in both languages, of very different lengths."""
    return list(CAPTIONS)


@pytest.fixture(scope="session")
def build_regressor() -> Callable[..., Any]:
    """Make a tiny regressor with random weights from a seed; keywords go into the fusion settings."""

    def build(seed: int = 0, *, image: bool = True, frozen_image: bool = False, **fusion: Any) -> Any:
        import torch

        from suisei.data.idf import IdfTable
        from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
        from suisei.encoders.text import TextEncoder, TextEncoderConfig
        from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
        from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
        from suisei.models.regressor import Regressor

        torch.manual_seed(seed)
        config = RegressorConfig(
            text=TextEncoderConfig(
                name="tiny", tiny=TinyTextConfig(vocabulary=200, width=16, layers=2, heads=2)
            ),
            image=ImageEncoderConfig(
                name="tiny", frozen=False, tiny=TinyImageConfig(width=4, image_size=64, features=8)
            )
            if image
            else None,
            fusion=FusionConfig(**fusion),
            head=HeadConfig(hidden=(12,)),
        )
        text = TextEncoder.create(config.text, CAPTIONS)
        tower = ImageEncoder.create(config.image) if config.image is not None else None
        if config.image is not None:
            config.image.frozen = frozen_image
        model = Regressor(config, text, tower, IdfTable.fit(text.tokenize(CAPTIONS[:5])))
        with torch.no_grad():
            for parameter in model.parameters():  # new weights hardly differ between tokens
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        return model.eval()

    return build


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four images that differ."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for number, colour in enumerate(("red", "blue", "white", "black")):
        image = Image.new("RGB", (70, 50), colour)
        image.paste((0, 255, 0), (5 * number, 5, 30 + 5 * number, 25))
        paths.append(folder / f"{number}.png")
        image.save(paths[-1])
    return paths


@pytest.fixture(scope="session")
def model_folder(build_regressor: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model folder; copy it before changing it."""
    from suisei.models.hub import save_model

    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(folder, build_regressor(references="mean-max"), card="# A model\n")
    return folder


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that describes a small CLIP; with seed 9 its weights find captions and images alike."""
    import json

    folder = tmp_path_factory.mktemp("clip") / "tiny"
    folder.mkdir()
    description = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    }
    config = {"model_cfg": description, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return str(folder)
