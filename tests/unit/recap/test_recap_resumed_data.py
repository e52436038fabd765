"""A training that goes on finds the data that it began with."""

import json
import shutil

import pytest

from suisei.errors import ModelError
from suisei.recap.caption_batches import LatentData
from suisei.recap.image_towers import TowerConfig
from suisei.recap.latent_run import run_latent, run_mapper
from tests.unit.recap.recap_runs import LATENT, SIZES, common


@pytest.mark.parametrize("task", ["mapper", "latent"])
def test_other_data_are_refused_where_a_training_goes_on(task, mapper, data, model_folder, tmp_path):
    run = run_mapper if task == "mapper" else run_latent
    given = [*SIZES, f"--model.image.name={model_folder}"]
    if task == "latent":
        given = [*LATENT, f"--model.mapper={mapper / 'model'}"]
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    run(common(copy, tmp_path / "run", *given, "--trainer.max_steps=2"))
    rows = (copy / "pairs.jsonl").read_text()
    (copy / "pairs.jsonl").write_text(rows.replace("a red wall beside a tree 0", "a rusty wall"))
    with pytest.raises(ModelError, match="started with other training and validation data: captions"):
        run(common(copy, tmp_path / "run", *given, "--ckpt_path=last"))
    (copy / "pairs.jsonl").write_text(rows)
    assert run(common(copy, tmp_path / "run", *given, "--trainer.max_steps=3", "--ckpt_path=last")) == 0


@pytest.mark.parametrize("task", ["mapper", "latent"])
def test_another_tower_is_refused_where_a_training_goes_on(task, data, model_folder, tmp_path):
    tower = tmp_path / "tower"
    shutil.copytree(model_folder, tower)
    given, run = [*SIZES, f"--model.image.name={tower}"], run_mapper
    if task == "latent":
        run_mapper(common(data, tmp_path / "mapper", *given, "--trainer.max_steps=2"))
        given, run = [*LATENT, f"--model.mapper={tmp_path / 'mapper' / 'model'}"], run_latent
    run(common(data, tmp_path / "run", *given, "--trainer.max_steps=2"))
    (tower / "more.txt").touch()
    with pytest.raises(ModelError, match="started with other files of an image tower"):
        run(common(data, tmp_path / "run", *given, "--trainer.max_steps=3", "--ckpt_path=last"))


def test_what_tells_data_apart(data, tmp_path):
    def digests(folder):
        pairs = str(folder / "pairs.jsonl")
        read = LatentData(pairs, pairs, batch_size=2)
        read.load()
        return read.digests

    copy = tmp_path / "elsewhere"
    shutil.copytree(data, copy)
    first = digests(data)
    assert set(first) == {"train", "validation"}
    assert digests(copy) == first
    rows = [json.loads(line) for line in (copy / "pairs.jsonl").read_text().splitlines()]
    (copy / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    assert digests(copy) != first
    rows[0]["generated_captions"] = ["red"]
    (copy / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert digests(copy) != first
    shutil.copy(data / "pairs.jsonl", copy)
    shutil.copy(copy / "1.png", copy / "0.png")  # another image, and of another size
    assert digests(copy) != first


def test_a_tower_names_its_files(tmp_path):
    weights = tmp_path / "tower.pt"
    weights.touch()
    assert TowerConfig("ViT-B-32", str(weights)).files == [str(weights)]
    assert TowerConfig(str(tmp_path), str(weights)).files == [str(tmp_path)]
    assert TowerConfig("ViT-B-32", "openai").files == TowerConfig("suisei-small").files == []
