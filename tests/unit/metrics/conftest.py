"""Every metric that can run here, made anew, for tests of threads and processes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOCAL = (
    *("suisei", "bleu-1", "bleu-4", "rouge-l", "cider", "sacrebleu", "chrf", "meteor", "unigram-f1"),
    *("length", "length-ratio", "japanese", "distinct-2", "bertscore", "cosine", "clip-s", "ref-clip-s"),
    *("pac-s", "ref-pac-s", "pac-s++", "ref-pac-s++", "em-score", "ref-video-pac-s"),
    "recap-latent",
    *("repetition-4", "incomplete-ending", "hallucinated-nouns"),
)
"""One of every kind in the registry that needs neither a server nor another environment."""


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a BERT of random weights and its tokenizer."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz犬猫が走る"]
    words = ["dog", "cat", "runs", "on", "the", "red", "ball", "man", "walks", "in", "two", "boats"]
    (folder / "vocab.txt").write_text("\n".join([*tokens, *words]) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(folder, model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=0.3, **sizes)
    BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def latent_folder(captions: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a latent reconstruction with random weights; copy it before changing it."""
    import torch

    from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
    from suisei.encoders.tiny import TinyImageConfig
    from suisei.models.latent import CaptionReconstruction, LatentModel, LatentShape
    from suisei.models.latent_folder import save_latent
    from suisei.models.prefix_mapper import MapperShape, PrefixMapper
    from suisei.recap.language_models import TinyLanguageModel, new_language_model, plain_tokenizer

    tiny = TinyLanguageModel(vocabulary=300, width=16, layers=1, heads=2)
    _, tokenizer = new_language_model(captions, tiny, 0)
    torch.manual_seed(0)
    small = TinyImageConfig(width=4, image_size=64, features=8)
    image = ImageEncoder.create(ImageEncoderConfig("tiny", frozen=False, tiny=small))
    mapper = PrefixMapper(MapperShape(8, 16, 3, 2, 2, 32, 4))
    shape = LatentShape(len(tokenizer), 16, 3, 2, 24, 40)
    folder = tmp_path_factory.mktemp("latent") / "model"
    plain = plain_tokenizer(tokenizer, "tiny")
    save_latent(folder, LatentModel(image, mapper, CaptionReconstruction(shape), plain), card="# A card\n")
    return folder


@pytest.fixture(scope="session")
def make_metric(
    tiny_bert: str, tiny_clip: str, model_folder: Path, latent_folder: Path
) -> Callable[[str], Any]:
    """Make a metric of a registered name with small models; skip where it cannot run."""
    from suisei.data.sample import CaptionSample
    from suisei.metrics.registry import get_metric, unavailable_reason

    encoder = {"seed": 9, "model": tiny_clip, "precision": "fp32", "device": "cpu", "cache": "off"}
    options = {
        "suisei": {"path": model_folder, "device": "cpu", "precision": "fp32", "cache": "off"},
        "bertscore": {"model": tiny_bert, "device": "cpu", "precision": "fp32"},
        "cosine": {"model": tiny_bert, "device": "cpu", "precision": "fp32"},
        "meteor": {"timeout": 600.0},
        "recap-latent": {"path": latent_folder, "device": "cpu", "precision": "fp32", "cache": "off"},
    }

    def make(name: str) -> Any:
        reason = unavailable_reason(name, argument=name == "suisei")
        if reason:
            pytest.skip(f"{name} {reason}")
        small = encoder if name.endswith(("clip-s", "pac-s", "pac-s++", "em-score")) else {}
        if "pac-s++" in name:
            small = {**small, "code_w": True}
        metric = get_metric(name, **options.get(name, small))
        if metric.needs_fit:
            metric.fit([CaptionSample("x", own) for own in (["a dog"], ["the cat runs"], ["犬が走る"])])
        return metric

    return make


@pytest.fixture(scope="session")
def films(
    tmp_path_factory: pytest.TempPathFactory,
    write_video: Callable[..., Any],
    coloured_blocks: Callable[..., Any],
) -> list[Any]:
    """Two short videos."""
    import numpy as np

    folder = tmp_path_factory.mktemp("films")
    generator = np.random.default_rng(0)
    return [
        write_video(folder / f"{number}.mp4", (coloured_blocks(generator, 2, 3) for _ in range(6)))
        for number in range(2)
    ]


@pytest.fixture(scope="session")
def some_samples(pictures: list[Any], films: list[Any]) -> Callable[[int], list[Any]]:
    """Return the samples of call number n: few, and not those of its neighbours."""
    import random

    from suisei.data.video import VideoSample

    words = ["dog", "cat", "runs", "on", "the", "red", "ball", "man", "walks", "in", "two", "boats"]
    generator = random.Random(0)
    captions = [" ".join(generator.choices(words, k=generator.randint(1, 14))) for _ in range(150)]
    captions += [f"犬{'が走る' * generator.randint(1, 4)}{number}" for number in range(50)]

    def make(call: int) -> list[Any]:
        draw = random.Random(call)
        return [
            VideoSample(
                draw.choice(captions),
                tuple(draw.sample(captions, draw.randint(1, 4))),
                draw.choice(pictures),
                video=draw.choice(films),
            )
            for _ in range(draw.randint(1, 5))
        ]

    return make


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a Python script in Java's place."""

    def install(body: str) -> None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!{sys.executable}\nimport json, sys, time\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install
