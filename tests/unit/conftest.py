"""A small trained-looking model, built without training, for the unit tests."""

import contextlib
import json
from collections.abc import Callable, Iterable
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

TINY_CLIP = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


@pytest.fixture(scope="session")
def captions() -> list[str]:
    """Captions in both languages, of very different lengths."""
    return list(CAPTIONS)


@pytest.fixture(scope="session")
def build_regressor() -> Callable[..., Any]:
    """Make a tiny regressor with random weights from a seed.

    ``text`` and ``head`` are settings of these parts, ``layers`` those of the text encoder; further keywords
    go into the fusion settings.
    """

    def build(
        seed: int = 0,
        *,
        text: dict[str, Any] | None = None,
        layers: int = 2,
        image: bool = True,
        frozen_image: bool = False,
        head: dict[str, Any] | None = None,
        **fusion: Any,
    ) -> Any:
        import torch

        from suisei.data.idf import IdfTable
        from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
        from suisei.encoders.text import TextEncoder
        from suisei.encoders.text_config import TextEncoderConfig
        from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
        from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
        from suisei.models.regressor import Regressor

        torch.manual_seed(seed)
        config = RegressorConfig(
            text=TextEncoderConfig(
                name="tiny", tiny=TinyTextConfig(vocabulary=200, width=16, layers=layers), **text or {}
            ),
            image=ImageEncoderConfig(
                name="tiny", frozen=False, tiny=TinyImageConfig(width=4, image_size=64, features=8)
            )
            if image
            else None,
            fusion=FusionConfig(**fusion),
            head=HeadConfig(**{"hidden": (12,), **(head or {})}),
        )
        encoder = TextEncoder.create(config.text, CAPTIONS)
        tower = ImageEncoder.create(config.image) if config.image is not None else None
        if config.image is not None:
            config.image.frozen = frozen_image
        model = Regressor(config, encoder, tower, IdfTable.fit(encoder.tokenize(CAPTIONS[:5])))
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


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test fail that makes a tensor of more than ten million numbers."""
    import torch

    real = torch.empty

    def small(*sizes: Any, **options: Any) -> torch.Tensor:
        made = real(*sizes, **options)
        assert made.device.type == "meta" or made.numel() < 10_000_000, "memory was taken"
        return made

    monkeypatch.setattr(torch, "empty", small)


@pytest.fixture(scope="session")
def write_video() -> Callable[..., Path]:
    """Write pictures, uint8 [height, width, 3] each, as the frames of a video."""
    av = pytest.importorskip("av", reason="needs the extra video")

    def write(path: Path, pictures: Iterable[Any], *, rate: int = 5, keyframes: int | None = None) -> Path:
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=rate)
            stream.pix_fmt = "yuv420p"
            if keyframes is not None:
                stream.gop_size = keyframes
            for number, picture in enumerate(pictures):
                if number == 0:
                    stream.height, stream.width = picture.shape[:2]
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
        return path

    return write


@pytest.fixture(scope="session")
def coloured_blocks() -> Callable[..., Any]:
    """Draw a picture of rows and columns of blocks of 16 pixels, each of a colour of its own."""
    import numpy as np

    def draw(generator: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        colours = generator.integers(0, 255, (rows, columns, 3))
        return np.kron(colours, np.ones((16, 16, 1))).astype(np.uint8)

    return draw


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that describes a tiny CLIP and holds no weights: load it with a seed. Not to be changed."""
    folder = tmp_path_factory.mktemp("clip") / "tiny"
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": TINY_CLIP, "preprocess_cfg": {}}))
    return folder


@pytest.fixture(scope="session")
def model_folder(build_regressor: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model folder; copy it before changing it."""
    from suisei.models.folder import save_model

    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(folder, build_regressor(references="mean-max"), card="# A model\n")
    return folder


@pytest.fixture(scope="session")
def tuned_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model folder whose encoder's layers were changed a little, and the encoder's folder before that."""
    import torch

    from suisei.data.idf import IdfTable
    from suisei.encoders.text import TextEncoder
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.encoders.tiny import TinyTextConfig
    from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
    from suisei.models.folder import save_model
    from suisei.models.quantization import Rounding, dequantize, is_roundable, quantize
    from suisei.models.regressor import Regressor

    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("tuned")
    tiny = TinyTextConfig(vocabulary=300, width=32, layers=2)
    text = TextEncoderConfig("tiny", layers="last", frozen=True, tiny=tiny)
    encoder = TextEncoder.create(text, CAPTIONS)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
            if is_roundable(weight):  # as the weights of an encoder that was published in 4 bits
                weight.copy_(dequantize(quantize(weight, Rounding(4))))
    encoder.backbone.save_pretrained(folder / "base")
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if ".layer." in name:
                weight.add_(torch.randn_like(weight), alpha=2e-4)
    config = RegressorConfig(text, None, FusionConfig(), HeadConfig(hidden=(12,)))
    model = Regressor(config, encoder, None, IdfTable.fit(encoder.tokenize(CAPTIONS[:3])))
    save_model(folder / "model", model, card='# A SuiSei model\n\nTrained on jsts, `{"name": "tiny"}`.\n')
    return folder / "model", folder / "base"


@pytest.fixture(scope="session")
def resign() -> Callable[..., None]:
    """Change the config of a model folder as somebody would who knows how it is checked."""

    def change(folder: Path, edit: Callable[[Any], Any] = lambda config: None) -> None:
        from suisei.data.checksums import sha256_of
        from suisei.models import folder_checks as hub

        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        edit(config)
        for name in config["sha256"]:
            with contextlib.suppress(OSError):  # a name that no file can have
                if name != "config.json" and (folder / name).is_file():
                    config["sha256"][name] = sha256_of(folder / name)
        config["sha256"]["config.json"] = hub.own_checksum(config)
        path.write_text(json.dumps(config), encoding="utf-8")

    return change


@pytest.fixture(scope="session")
def tiny_diffusion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable Diffusion of a few thousand random weights, which draws images of 16 x 16 pixels."""
    diffusers = pytest.importorskip("diffusers", reason="needs the extra recap")
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    size = {"hidden_size": 16, "intermediate_size": 20, "projection_dim": 16, "num_hidden_layers": 1}

    vocabulary = {"<|startoftext|>": 0, "<|endoftext|>": 1}
    for code in range(33, 127):
        for end in ("", "</w>"):
            vocabulary[chr(code) + end] = len(vocabulary)
    text = {"vocab_size": len(vocabulary), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pipeline = diffusers.StableDiffusionPipeline(
            unet=diffusers.UNet2DConditionModel(
                block_out_channels=(8, 16),
                layers_per_block=1,
                sample_size=8,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                cross_attention_dim=16,
                norm_num_groups=2,
                attention_head_dim=4,
            ),
            vae=diffusers.AutoencoderKL(
                block_out_channels=[8, 8],
                down_block_types=["DownEncoderBlock2D"] * 2,
                up_block_types=["UpDecoderBlock2D"] * 2,
                norm_num_groups=2,
            ),
            text_encoder=CLIPTextModel(CLIPTextConfig(**text, num_attention_heads=2, **size)),
            tokenizer=CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77),
            scheduler=diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
    folder = tmp_path_factory.mktemp("models") / "tiny-diffusion"
    pipeline.save_pretrained(folder)
    return folder
