"""Both trainings: what they write, that a resumed one ends as an unbroken one, and what is refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from suisei.commands.train import main
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, ModelError
from suisei.metrics.registry import get_metric
from suisei.models.latent_folder import load_latent
from suisei.recap.image_towers import TowerConfig, image_tower
from suisei.recap.language_models import (
    TinyLanguageModel,
    frozen_embeddings,
    load_language_model,
    new_language_model,
)
from suisei.recap.latent_card import latent_card
from suisei.recap.latent_run import run_latent, run_mapper
from suisei.recap.latent_training import LatentTraining
from suisei.recap.mapper_folder import find_mapper
from suisei.recap.prefix_training import PrefixTraining
from suisei.resources import resource_path
from suisei.training.learning_curve import read_curves
from tests.unit.recap.recap_runs import LATENT, SIZES, common, states


def assert_same(left, right):
    assert left["global_step"] == right["global_step"] == 6
    for name, value in left["state_dict"].items():
        torch.testing.assert_close(value, right["state_dict"][name], rtol=0, atol=0, msg=name)


def test_the_mapper_learns_and_is_written_in_the_published_layout(mapper, data, model_folder):
    report = json.loads((mapper / "report.json").read_text())
    assert report["steps"] == 6
    assert report["kept"] in (2, 4, 6)
    assert list(read_curves(mapper / "logs")["val_other_image_loss"]) == [2, 4, 6]  # not of the report too
    assert report["validation"]["loss"] < np.log(300) - 0.1  # what guessing among all tokens costs
    found = find_mapper(mapper / "model", heads=8, image=None, language_model=None)
    assert found.mapper.shape.as_dict() == {
        "features": 8, "width": 16, "prefix": 3, "spread": 2, "layers": 1, "hidden": 32, "heads": 4,
    }  # fmt: skip
    assert found.image == TowerConfig(str(model_folder))
    model, tokenizer = load_language_model(found.language_model)
    assert len(model.get_input_embeddings().weight) == len(tokenizer)
    assert not list(mapper.rglob("*.pt")) + list(mapper.rglob("*.bin")) + list(mapper.rglob("*.pkl"))


def test_a_last_batch_of_one_image_has_no_other_image_s_prefix(
    data, model_folder, tmp_path, monkeypatch, capsys, caplog
):
    logged, original = [], PrefixTraining.log

    def log(self, name, value, *, batch_size, **options):
        logged.append((name, batch_size))
        original(self, name, value, batch_size=batch_size, **options)

    monkeypatch.setattr(PrefixTraining, "log", log)
    given = [*SIZES, f"--model.image.name={model_folder}", "--data.batch_size=7", "--trainer.max_steps=2"]
    given += ["--model.tiny.positions=16", "--model.prefix=7"]
    run_mapper(common(data, tmp_path / "run", *given, "--trainer.enable_progress_bar=null"))
    counts = {name: {count for own, count in logged if own == name} for name, _ in logged}
    assert len(counts["val_loss"]) == 2
    assert counts["val_other_image_loss"] == {max(counts["val_loss"])}
    assert "8 of 16 captions have more tokens than the language model, beside the prefix" in caplog.text
    told = capsys.readouterr().err
    assert told.count(", validation: loss") == 1  # not that of the kept weights, which is of no epoch


def test_a_resumed_mapper_ends_as_an_unbroken_one(mapper, data, model_folder, tmp_path):
    given = [*SIZES, f"--model.image.name={model_folder}"]
    run_mapper(common(data, tmp_path / "run", *given, "--trainer.max_steps=4"))
    with pytest.raises(ConfigError, match="--ckpt_path last"):
        run_mapper(common(data, tmp_path / "run", *given))
    run_mapper(common(data, tmp_path / "run", *given, "--ckpt_path=last"))
    assert_same(states(mapper), states(tmp_path / "run"))


@pytest.mark.parametrize("kind", [PrefixTraining, LatentTraining])
def test_a_training_that_is_cut_off_within_an_epoch_loses_a_step_at_most(
    kind, mapper, data, model_folder, tmp_path, monkeypatch
):
    run = run_mapper if kind is PrefixTraining else run_latent
    given = [*SIZES, f"--model.image.name={model_folder}"]
    if kind is LatentTraining:
        given = [*LATENT, f"--model.mapper={mapper / 'model'}"]
    given += ["--data.batch_size=2", "--checkpoint_steps=1", "--trainer.max_steps=5"]
    run(common(data, tmp_path / "whole", *given))
    step, seen = kind.training_step, []

    def cut(self, *batch):
        seen.append("step")
        if len(seen) == 4:
            raise KeyboardInterrupt
        return step(self, *batch)

    monkeypatch.setattr(kind, "training_step", cut)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run(common(data, tmp_path / "cut", *given))
    run(common(data, tmp_path / "cut", *given, "--ckpt_path=last"))
    assert len(seen) == 4 + 2  # the fourth once more, and the fifth
    whole, gone_on = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "cut")
    )
    assert whole["global_step"] == gone_on["global_step"] == 5
    for name, value in whole["state_dict"].items():
        torch.testing.assert_close(value, gone_on["state_dict"][name], rtol=0, atol=0, msg=name)


@pytest.fixture(scope="module")
def trained(mapper, data, tmp_path_factory):
    """The folder of a finished training of a reconstruction."""
    output = tmp_path_factory.mktemp("latent") / "run"
    assert run_latent(common(data, output, *LATENT, f"--model.mapper={mapper / 'model'}")) == 0
    return output


def test_a_reconstruction_learns_and_its_folder_scores(trained, data):
    report = json.loads((trained / "report.json").read_text())
    assert report["steps"] == 6
    assert set(report["validation"]) == {
        "loss", "mse", "triplet_other", "triplet_shuffled", "nearer_than_other", "nearer_than_shuffled",
    }  # fmt: skip
    lines = (trained / "logs" / "version_0" / "metrics.csv").read_text().splitlines()
    place = lines[0].split(",").index("val_loss")
    figures = [float(line.split(",")[place]) for line in lines[1:] if line.split(",")[place]]
    assert figures[-1] < figures[0]
    curves = read_curves(trained / "logs")  # a step's negatives are of one kind
    assert sorted([*curves["train_triplet_other"], *curves["train_triplet_shuffled"]]) == list(range(1, 7))
    shape = load_latent(trained / "model")[0].captions.shape
    assert (shape.heads, shape.hidden, shape.max_tokens) == (2, 24, 40)
    metric = get_metric(f"recap-latent:{trained / 'model'}", device="cpu")
    pictures = [data / "0.png", data / "1.png"]
    scores = metric.score([CaptionSample("a red wall beside a tree 0", image=image) for image in pictures])
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert {path.name for path in (trained / "model").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer", "README.md",
    }  # fmt: skip
    card = (trained / "model" / "README.md").read_text()
    assert "recap-latent:" in card
    assert "8 train images, 8 validation images. Captions" in card
    facts = json.loads((trained / "report.json").read_text())
    assert "images. Left out: 3 bad rows. Captions" in latent_card({**facts, "skipped_rows": 3}, {})


def test_what_is_frozen_stays_as_it_was(trained, mapper):
    model, _ = load_latent(trained / "model")
    source = find_mapper(mapper / "model", heads=8, image=None, language_model=None)
    for name, value in source.mapper.state_dict().items():
        assert torch.equal(model.mapper.state_dict()[name], value), name
    words, places = frozen_embeddings(load_language_model(source.language_model)[0], 40)
    assert torch.equal(model.captions.words, words)
    assert torch.equal(model.captions.places, places)
    tower = image_tower(source.image).state_dict()
    assert all(torch.equal(model.image.state_dict()[name], value) for name, value in tower.items())
    kept = states(trained)["state_dict"]
    assert not any("words" in name or "parts.mapper" in name for name in kept)


def test_a_resumed_reconstruction_ends_as_an_unbroken_one(trained, mapper, data, tmp_path):
    given = [*LATENT, f"--model.mapper={mapper / 'model'}"]
    run_latent(common(data, tmp_path / "run", *given, "--trainer.max_steps=2"))
    run_latent(common(data, tmp_path / "run", *given, "--ckpt_path=last"))
    assert_same(states(trained), states(tmp_path / "run"))
    other = [*given, "--model.margin=3", "--ckpt_path=last"]
    with pytest.raises(ConfigError, match=r"model\.margin: 1\.0, now 3\.0"):
        run_latent(common(data, tmp_path / "run", *other))


def test_another_seed_margin_or_weight_is_not_ignored(trained, mapper, data, tmp_path):
    given = [*LATENT, f"--model.mapper={mapper / 'model'}"]
    whole = states(trained)["state_dict"]["parts.captions.prefix"]
    others = (
        "--model.margin=1.0e-6",
        "--model.mse_weight=5",
        "--model.triplet_weight=5",
        "--seed_everything=1",
    )
    for number, more in enumerate(others):
        run_latent(common(data, tmp_path / str(number), *given, more))
        assert not torch.equal(states(tmp_path / str(number))["state_dict"]["parts.captions.prefix"], whole)


def write_mapper_config(path, model_folder):
    """Write the config of a tiny mapper; returns its path."""
    names = [option.removeprefix("--model.").replace("=", ": ") for option in SIZES]
    tiny = [name.removeprefix("tiny.") for name in names if name.startswith("tiny.")]
    lines = ["task: recap-mapper", "model:", f"  image: {{name: {model_folder}}}"]
    lines += [f"  {name}" for name in names if not name.startswith("tiny.")]
    lines += [f"  tiny: {{{', '.join(tiny)}}}", "data: {batch_size: 4}"]
    lines += ["trainer: {max_steps: 4, val_check_interval: 2, enable_progress_bar: false}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def leave_the_mapper(run):
    """Remove all of a run but its mapper."""
    for path in run.iterdir():
        if path.name != "mapper":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_without_a_mapper_one_is_trained_first_and_an_interrupted_one_is_gone_on_with(
    data, model_folder, tmp_path, caplog, capsys
):
    config = write_mapper_config(tmp_path / "mapper.yaml", model_folder)
    (tmp_path / "latent.yaml").write_text("task: recap-latent\n")
    given = common(data, tmp_path / "run", *LATENT, "--model.max_tokens=8", f"--mapper_config={config}")
    assert main(["--config", str(tmp_path / "latent.yaml"), *given]) == 0
    assert caplog.text.count("8 of 16 captions have more tokens than the reconstruction reads") == 1
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["image"] == {"name": str(model_folder), "normalise": False}  # no tag of a pretraining
    inner = tmp_path / "run" / "mapper"
    assert json.loads((inner / "report.json").read_text())["steps"] == 4
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("run: ")]
    ends = [f"run: {run}   model: {run / 'model'}   kept: step " for run in (inner, tmp_path / "run")]
    assert [line.rstrip("0123456789") for line in told] == ends
    assert (tmp_path / "run" / "model" / "config.json").is_file()
    weights = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    leave_the_mapper(tmp_path / "run")  # as if it had been killed at the end of the mapper's training
    (inner / "report.json").unlink()
    with pytest.raises(ConfigError, match="interrupted training of the mapper"):
        run_latent([*given, "--ckpt_path=null"])
    assert run_latent([*given, "--ckpt_path=last"]) == 0
    assert (inner / "report.json").is_file()
    assert (tmp_path / "run" / "model" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--model.image.name=ViT-L-14", r"model\.image\.name is 'ViT-L-14' and the mapper's "),
        ("--model.language_model=gpt2", r"model\.language_model is 'gpt2' and the mapper's a new one \(null"),
    ],
)
def test_other_parts_than_those_of_the_mapper_config_are_refused_before_it_is_trained(
    data, model_folder, tmp_path, monkeypatch, more, said
):
    monkeypatch.setattr("suisei.recap.latent_run._train_mapper", pytest.fail)
    config = write_mapper_config(tmp_path / "mapper.yaml", model_folder)
    with pytest.raises(ConfigError, match=rf"{said}.*mapper\.yaml says; .*--mapper_config"):
        run_latent(common(data, tmp_path / "run", *LATENT, f"--mapper_config={config}", more))
    assert not (tmp_path / "run").exists()


def test_a_mapper_of_the_run_that_was_trained_otherwise_is_not_taken(data, model_folder, tmp_path, caplog):
    config = write_mapper_config(tmp_path / "mapper.yaml", model_folder)
    given = common(data, tmp_path / "run", *LATENT, f"--mapper_config={config}")
    assert run_latent(given) == 0
    with pytest.raises(ConfigError, match=r"model\.language_model is 'gpt2' and the mapper's a new one"):
        run_latent([*given, "--model.language_model=gpt2", "--ckpt_path=last"])
    weights = (tmp_path / "run" / "mapper" / "model" / "mapper.safetensors").read_bytes()
    text = config.read_text()
    config.write_text(text.replace("batch_size: 4", "batch_size: 2"))
    for more in ("--ckpt_path=last", "--ckpt_path=null"):
        if more.endswith("null"):
            leave_the_mapper(tmp_path / "run")
        with pytest.raises(ConfigError, match=r"run/mapper: .*other settings: data\.batch_size"):
            run_latent([*given, more])
    config.write_text(text.replace("max_steps: 4", "max_steps: 6"))
    assert run_latent([*given, "--ckpt_path=null"]) == 0
    assert "the mapper stays as it was trained" in caplog.text
    assert "max_steps" in caplog.text
    assert (tmp_path / "run" / "mapper" / "model" / "mapper.safetensors").read_bytes() == weights


def test_a_checkpoint_of_clipcap_and_any_language_model_take_part(data, model_folder, captions, tmp_path):
    tiny = TinyLanguageModel(vocabulary=300, width=16, layers=1, heads=2)
    language, tokenizer = new_language_model(captions, tiny, 0)
    language.save_pretrained(tmp_path / "gpt2")
    tokenizer.save_pretrained(tmp_path / "gpt2")
    training = PrefixTraining(language_model=str(tmp_path / "gpt2"), prefix=3, spread=2, layers=1, heads=4)
    training.build([], 8, 0)
    assert not any(p.requires_grad for p in training.captioner.parameters())
    tensors = {f"clip_project.{k}": v for k, v in training.mapper.state_dict().items()}
    torch.save(tensors, tmp_path / "mapper.pt")
    given = [f"--model.mapper={tmp_path / 'mapper.pt'}", f"--model.language_model={tmp_path / 'gpt2'}"]
    given += ["--model.mapper_heads=4"]  # which a checkpoint does not say
    tower = f"--model.image.name={model_folder}"
    assert run_latent(common(data, tmp_path / "run", *LATENT, *given, tower)) == 0
    model, _ = load_latent(tmp_path / "run" / "model")
    assert torch.equal(model.captions.words, language.get_input_embeddings().weight)
    assert model.mapper.shape.heads == 4


def test_what_does_not_go_together_is_refused(mapper, data, captions, tmp_path):
    with pytest.raises(ConfigError, match=r"set model\.train_language_model to true"):
        PrefixTraining(language_model=None)
    given = [f"--model.mapper={mapper / 'model'}"]
    with pytest.raises(ConfigError, match=r"model\.heads is 3; it must divide the width 16"):
        run_latent(common(data, tmp_path / "run", *given, "--model.heads=3"))
    language = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_embd=8, n_layer=1, n_head=2))
    language.save_pretrained(tmp_path / "wide")
    _, tokenizer = new_language_model(captions, TinyLanguageModel(300, 16, 1, 2), 0)
    tokenizer.save_pretrained(tmp_path / "wide")
    with pytest.raises(ConfigError, match="is 8 wide and the mapper's was 16"):
        run_latent(common(data, tmp_path / "run", *given, f"--model.language_model={tmp_path / 'wide'}"))
    with pytest.raises(ConfigError, match="nothing at"):
        run_latent(common(data, tmp_path / "run", f"--model.mapper={tmp_path / 'none'}"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"mapper\.json or mapper\.safetensors is missing"):
        run_latent(common(data, tmp_path / "run", f"--model.mapper={tmp_path / 'empty'}"))
    with pytest.raises(ConfigError, match=r"model\.image\.name: .* neither a SuiSei model nor a dual"):
        image_tower(TowerConfig(str(tmp_path / "empty")))
    assert not (tmp_path / "run").exists()


def test_a_mapper_that_names_the_packages_tower_as_before_is_read(mapper, tmp_path):
    folder = shutil.copytree(mapper / "model", tmp_path / "model")
    settings = json.loads((folder / "mapper.json").read_text())
    settings["image"]["name"] = "small"
    (folder / "mapper.json").write_text(json.dumps(settings))
    assert find_mapper(folder, heads=4, image=None, language_model=None).image == TowerConfig("suisei-small")


@pytest.mark.parametrize(
    ("setting", "asked", "own"),
    [("name", "ViT-B-32", "model"), ("pretrained", "laion", "openai"), ("normalise", True, False)],
)
def test_a_mapper_is_fed_by_no_other_tower_than_it_learned_from(mapper, model_folder, setting, asked, own):
    given = TowerConfig(**{"name": str(model_folder), setting: asked})
    said = rf"model\.image\.{setting} is {asked!r} and .*{own}.*mapper\.json.*leave model\.image out"
    with pytest.raises(ConfigError, match=said):
        find_mapper(mapper / "model", heads=4, image=given, language_model=None)


def test_the_mappers_own_tower_may_be_named_by_another_path(mapper, model_folder, tmp_path):
    (tmp_path / "link").symlink_to(model_folder)
    same = TowerConfig(str(tmp_path / "link"))
    found = find_mapper(mapper / "model", heads=4, image=same, language_model=None)
    assert found.image == TowerConfig(str(model_folder))


def test_a_page_is_of_ratings_alone(tmp_path):
    (tmp_path / "latent.yaml").write_text("task: recap-latent\n")
    with pytest.raises(ConfigError, match="only a training on ratings has a page; leave it out"):
        main(["--config", str(tmp_path / "latent.yaml"), "--html", str(tmp_path / "page.html")])


def test_settings_have_no_effect_on_the_class_that_jsonargparse_reads():
    assert LatentTraining().weights == {"mse_weight": 1.0, "triplet_weight": 10.0, "margin": 1.0}


@pytest.mark.parametrize(("name", "run"), [("recap_latent", run_latent), ("recap_mapper", run_mapper)])
def test_shipped_configs_are_understood(data, name, run, tmp_path, monkeypatch):
    def stop(*_given, **_options):
        raise ConfigError("far enough")

    monkeypatch.setattr("suisei.recap.latent_run.LatentData.load", stop)
    monkeypatch.setattr("suisei.recap.latent_run._mapper", lambda *_: None)
    with pytest.raises(ConfigError, match="far enough"):
        run(["--config", str(resource_path(f"configs/{name}.yaml")), f"--output={tmp_path / 'run'}"])
