"""Writes the golden model folder and the golden scores: python -m tests.golden.make_golden [model|small]

Every later version must load the folder and give these scores in fp32 (``tests/unit/test_golden.py``). The
folder is therefore made once and stays; it is made anew only where a release says that it no longer reads
older ones. Golden scores of the model in the package are made anew with each new model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from suisei.data.sample import CaptionSample, Rating

HERE = Path(__file__).resolve().parent
MODEL, MODEL_SCORES, SMALL_SCORES = HERE / "model", HERE / "model_scores.json", HERE / "small_scores.json"
CAPTIONS = (
    "A red ball lies on the table.",
    "Two dogs run through a park.",
    "the cat sat on a mat",
    "A man rides a bicycle through the old town while it rains.",
    "犬が公園を走っている。",
    "赤いボールが机の上にある。",
    "部屋に小さな星が三つあります。",
    "猫",
    "A girl in a blue coat feeds three white birds by the lake",
    "駅のホームに電車が止まっている。",
    "ball",
    "台所で男性が皿を洗っている様子",
)
"""A dozen, in both languages; each is a candidate once, and its neighbours are its references."""


def picture(number: int) -> Image.Image:
    """Return a picture of two colours, which no decoder can see differently."""
    image = Image.new("RGB", (70, 50), ("red", "blue", "white", "black")[number % 4])
    image.paste((0, 255, 0), (5 * number % 40, 5, 20 + 5 * number % 40, 30))
    return image


def samples() -> list[CaptionSample]:
    """Return the dozen with no, one or two references, and with and without an image."""
    made = []
    for number, caption in enumerate(CAPTIONS):
        beside = [CAPTIONS[(number + step) % len(CAPTIONS)] for step in (1, 4)]
        image = picture(number) if number % 3 != 1 else None
        made.append(CaptionSample(caption, beside[: number % 3], image))
    return made


def _rated() -> list[CaptionSample]:
    """Return samples that extra inputs are fitted on."""
    return [
        CaptionSample(
            caption,
            [CAPTIONS[(number + 1) % len(CAPTIONS)]],
            rating=Rating((number % 5 / 4,), 0, 1),
            group=str(number),
        )
        for number, caption in enumerate(CAPTIONS)
    ]


def make_model() -> None:
    """Write the folder: a tiny model with random weights, image tower, layer mix, idf and extra inputs."""
    import torch

    from suisei.data.idf import IdfTable
    from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
    from suisei.encoders.text import TextEncoder
    from suisei.encoders.text_config import TextEncoderConfig
    from suisei.encoders.tiny import TinyImageConfig, TinyTextConfig
    from suisei.metrics.extras import ExtraInputs
    from suisei.models.config import FusionConfig, HeadConfig, RegressorConfig
    from suisei.models.folder import save_model
    from suisei.models.regressor import Regressor

    torch.manual_seed(0)
    extras = ("rouge-l", "chrf", "cider", "length-ratio")
    config = RegressorConfig(
        text=TextEncoderConfig(name="tiny", tiny=TinyTextConfig(vocabulary=200, width=16, layers=2)),
        image=ImageEncoderConfig(
            name="tiny", frozen=False, tiny=TinyImageConfig(width=2, image_size=64, features=8)
        ),
        fusion=FusionConfig(extra_inputs=extras, references="mean-max"),
        head=HeadConfig(hidden=(12,)),
    )
    assert config.image is not None
    text = TextEncoder.create(config.text, CAPTIONS)
    model = Regressor(
        config, text, ImageEncoder.create(config.image), IdfTable.fit(text.tokenize(CAPTIONS[:8]))
    )
    inputs = ExtraInputs(extras)
    model.fit_extras(torch.from_numpy(inputs.fit_compute(_rated(), range(len(CAPTIONS)))))
    with torch.no_grad():
        for parameter in model.parameters():  # new weights hardly differ between captions
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    save_model(MODEL, model.eval(), extras=inputs.state(), card="Golden model of the tests.\n")


def write_scores(model: Path | None, path: Path) -> None:
    """Write what a model says of the dozen, in fp32."""
    from suisei.metrics.loading import load

    scores = load(model, device="cpu", precision="fp32", cache="off").score(samples())
    path.write_text(
        json.dumps([round(float(score), 8) for score in scores], indent=1) + "\n", encoding="utf-8"
    )


def main(arguments: Sequence[str]) -> None:
    """Make what is asked for, or both."""
    if "model" in arguments or not arguments:
        make_model()
        write_scores(MODEL, MODEL_SCORES)
    if "small" in arguments or not arguments:
        write_scores(None, SMALL_SCORES)


if __name__ == "__main__":
    main(sys.argv[1:])
