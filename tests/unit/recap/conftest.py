"""Pictures with captions, and a mapper that learned from them."""

import json

import pytest
from PIL import Image

from suisei.recap.latent_run import run_mapper
from tests.unit.recap.recap_runs import SIZES, common

COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250), "white": (250, 250, 250)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of eight pictures with captions in both languages."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for number, name in enumerate([*COLOURS, *COLOURS]):
        Image.new("RGB", (70, 66 + number), COLOURS[name]).save(folder / f"{number}.png")
        captions = [f"a {name} wall beside a tree {number}", f"{number}本の木の前に{name}の壁がある。"]
        rows.append({"image": f"{number}.png", "captions": captions})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def mapper(data, model_folder, tmp_path_factory):
    """The folder of a finished training of a mapper."""
    output = tmp_path_factory.mktemp("mapper") / "run"
    assert run_mapper(common(data, output, *SIZES, f"--model.image.name={model_folder}")) == 0
    return output
