"""Pairs of images and captions that a dual encoder is trained on."""

import json

import pytest
from PIL import Image

from tests.unit.pacs.pacs_models import COLOURS
from tests.unit.tiny_models import write_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with eight images of four colours, with positives, and a tiny CLIP to start from."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for number, name in enumerate([*COLOURS, *COLOURS]):
        for prefix in ("", "made-"):
            Image.new("RGB", (40, 40 + number), COLOURS[name]).save(folder / f"{prefix}{number}.png")
        rows.append(
            {
                "image": f"{number}.png",
                "captions": [f"a {name} wall {number}", f"something {name} {number}"],
                "generated_images": [f"made-{number}.png"],
                "generated_captions": [f"{name} {number}"],
            }
        )
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_clip(folder / "clip")
    return folder
