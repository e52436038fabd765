"""Settings that others wrote: nothing that they name is imported or run, and what cannot be is one line."""

import errno
import itertools
import json
import os
import subprocess
import sys

import pytest
import torch
import yaml

from suisei.__main__ import main
from suisei.commands import train as train_module
from suisei.errors import ConfigError, DataError, UnavailableError
from tests.integration.training_runs import OPTIONS, kill_at

CLASS = '{"class_path": "hostile_module.Hostile"}'


@pytest.mark.parametrize(
    "option",
    [
        f"--trainer.callbacks=[{CLASS}]",
        "--trainer.callbacks+=hostile_module.Hostile",
        f"--trainer.logger={CLASS}",
        "--trainer.logger=hostile_module.Hostile",
        "--trainer.plugins=hostile_module.Hostile",
        f"--trainer.plugins={CLASS}",
        "--trainer.strategy=hostile_module.Hostile",
        f"--trainer.strategy={CLASS}",
        "--trainer.accelerator=hostile_module.Hostile",
        "--trainer.profiler=hostile_module.Hostile",
        f"--model.text={CLASS}",
        "--model.text=hostile_module.Hostile",
        f"--model.head={CLASS}",
        f"--model.pretraining={CLASS}",
        f"--model={CLASS}",
        f"--data={CLASS}",
        f"--early_stopping={CLASS}",
        f"--checkpoint={CLASS}",
        f"--model.head.hidden=[{CLASS}]",
    ],
)
def test_nothing_that_a_setting_names_is_imported(option, settings, tmp_path, monkeypatch):
    (tmp_path / "hostile_module.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('RAN').touch()\n"
        "class Hostile:\n    def __init__(self, *_, **__): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as error:
        train_module.make_cli(["--config", str(settings), f"--output={tmp_path / 'run'}", option])
    assert "\n" not in str(error.value)
    assert not (tmp_path / "RAN").exists()
    assert "hostile_module" not in sys.modules
    assert not (tmp_path / "run").exists()


def test_nothing_that_a_nested_config_names_is_imported(settings, tmp_path, monkeypatch):
    (tmp_path / "hostile_module.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('RAN').touch()\nclass Hostile: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for content in (CLASS, "!!python/object/apply:os.mkdir ['RAN']", "!!python/name:hostile_module.Hostile"):
        (tmp_path / "nested.yaml").write_text(content)
        for part in ("model.text", "model.head", "trainer", "model", "early_stopping"):
            with pytest.raises(ConfigError) as error:
                train_module.make_cli(["--config", str(settings), f"--{part}={tmp_path / 'nested.yaml'}"])
            assert "\n" not in str(error.value)
    assert not (tmp_path / "RAN").exists()


PARTS = ("config", "model", "data", "trainer", "checkpoint", "early_stopping")
NAMED = [*PARTS, *(f"--{part}=" for part in PARTS), "-c"]
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n"
    for before, name in itertools.pairwise(["a", "b", "c", "d", "e"])
)
"""100,000 values."""


@pytest.mark.parametrize("named", NAMED)
def test_a_file_that_a_setting_names_has_the_limits_of_a_config(named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(f"{named}: bomb.yaml\n")
    arguments = [f"{named}bomb.yaml"] if named.startswith("-") else ["--config", "config.yaml"]
    for text, message in (
        (BOMB, "more than 20,000 values"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("#" * 1_000_001 + "\na: 1", "at most 1,000,000"),
    ):
        (tmp_path / "bomb.yaml").write_text(text)
        if "early_stopping" in named:  # which may be null, so that the parser says what it expected
            message = "expected settings of its own or null"
        with pytest.raises(ConfigError, match=message) as error:
            train_module.make_cli(arguments)
        assert "\n" not in str(error.value)


def test_files_of_settings_are_utf_8_whatever_the_locale_is(tmp_path):
    config, nested = tmp_path / "config.yaml", tmp_path / "nested.yaml"
    config.write_text("data: {train: 評価.csv}\n", encoding="utf-8")
    nested.write_text("image: null  # モデル\n", encoding="utf-8")
    arguments = [f"--config={config}", f"--model={nested}", "--print_config"]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "suisei", "train", *arguments]
    ran = subprocess.run(command, env=os.environ | plain, capture_output=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr.decode()
    assert yaml.safe_load(ran.stdout.decode())["data"]["train"] == "評価.csv"
    nested.write_bytes("image: null  # モデル\n".encode("cp932"))
    with pytest.raises(ConfigError, match=r"nested\.yaml: not a text file in UTF-8; give a YAML file"):
        train_module.make_cli(arguments)


@pytest.mark.parametrize(
    ("data", "opened"),
    [
        ("{train: 評価.jsonl}", "suisei: 評価.jsonl: cannot be opened"),
        ("{train: rows.jsonl}", "rows.jsonl, row 1: image '犬.png' is not there: no file 犬.png"),
        ("{train: rows.jsonl, images: 写真}", "suisei: 写真: no such folder of images or videos"),
    ],
)
def test_names_of_files_that_the_locale_cannot_spell_say_what_helps(tmp_path, data, opened):
    for name in ("評価", "rows"):
        (tmp_path / f"{name}.jsonl").write_text('{"candidate": "犬", "image": "犬.png"}\n', encoding="utf-8")
    (tmp_path / "config.yaml").write_text(f"data: {data}\n", encoding="utf-8")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    encoding = [sys.executable, "-c", "import sys; print(sys.getfilesystemencoding())"]
    if b"utf-8" in subprocess.run(encoding, env=os.environ | plain, capture_output=True, check=True).stdout:
        pytest.skip("file names are UTF-8 in every locale")
    command = [sys.executable, "-m", "suisei", "train", "--config=config.yaml", "--output=run"]
    ran = subprocess.run(command, env=os.environ | plain, capture_output=True, check=False, cwd=tmp_path)
    problem = f"{opened} (file names are ascii here, which cannot spell this one: set PYTHONUTF8=1)"
    assert (ran.returncode, ran.stderr.decode().count("\n")) == (2, 1)
    assert problem in ran.stderr.decode()


@pytest.mark.parametrize("place", ["callbacks", "logger", "plugins", "strategy", "profiler"])
def test_a_config_that_names_a_function_is_refused(place, settings, tmp_path):
    config = tmp_path / "config.yaml"
    text = settings.read_text().replace(
        "trainer: {", f"trainer: {{{place}: [{{class_path: os.system, init_args: {{command: touch RAN}}}}], "
    )
    config.write_text(text)
    with pytest.raises(ConfigError, match=rf"trainer\.{place} has class_path"):
        train_module.main(["--config", str(config), f"--output={tmp_path / 'run'}"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model.optimizer.head_lr", "1e9"), ("model.optimizer.head_lr", "-1"),
        ("model.optimizer.encoder_lr", "nan"), ("model.text.tiny.layers", "-1"), ("model.head.dropout", "2"),
        ("model.text.tiny.width", "0"), ("model.head.members", "1000000"),
        ("model.head.hidden", "[50000, 50000]"), ("model.head.activation", "foo"),
        ("model.image.tiny.width", "0"), ("model.image.tiny.image_size", "16"),
        ("model.pretraining.epochs", "-2"), ("model.pretraining", "{word_dropout: 2}"),
        ("model.fusion.references", "median"), ("model.reference_dropout", "1"),
        ("data.fractions", "[0.5, 0.1, 0.1]"), ("data.fractions", "[1.2, -0.1, -0.1]"),
        ("data.folds", "-2"), ("data.folds", "1"), ("data.fold", "7"), ("data.batch_size", "0"),
        ("data.num_workers", "-1"), ("data.disjoint", "foo"), ("data.synthetic", "-1"),
        ("trainer.max_epochs", "-5"), ("trainer.max_epochs", "0"), ("trainer.max_epochs", "-1"),
        ("trainer.max_steps", "0"), ("trainer.accumulate_grad_batches", "0"), ("trainer.precision", "foo"),
        ("trainer.accelerator", "foo"), ("trainer.devices", "99"), ("trainer.devices", "0"),
        ("trainer.devices", "[0, 1]"), ("trainer.devices", "-1"),
        ("trainer.devices", "foo"), ("trainer.strategy", "foo"), ("trainer.limit_val_batches", "0"),
        ("trainer.limit_train_batches", "5.5"), ("trainer.val_check_interval", "0"),
        ("trainer.val_check_interval", "00:00:10:00"),
        ("trainer.gradient_clip_val", "-1"), ("trainer.gradient_clip_algorithm", "foo"),
        ("trainer.num_nodes", "0"), ("trainer.profiler", "foo"), ("trainer.fast_dev_run", "true"),
        ("trainer.barebones", "true"), ("trainer.enable_checkpointing", "false"),
        ("trainer.log_every_n_steps", "-1"), ("trainer.deterministic", "foo"), ("trainer.max_time", "foo"),
        ("trainer.overfit_batches", "2"),
        ("seed_everything", "-1"), ("seed_everything", "true"), ("seed_everything", "4294967296"),
        ("early_stopping.patience", "-1"), ("early_stopping", "foo"), ("monitor", "foo"),
        ("early_stopping.min_delta", "-1"), ("checkpoint.monitor", "foo"), ("checkpoint.filename", "../x"),
        ("checkpoint.save_top_k", "3"), ("checkpoint.every_n_train_steps", "3"),
        ("checkpoint.train_time_interval", "00:05:00"), ("checkpoint.save_on_train_epoch_end", "true"),
        ("checkpoint_steps", "0"), ("task", "foo"), ("baselines", "[1]"),
        ("output", ""),
    ],
)  # fmt: skip
def test_a_hostile_setting_is_one_line_before_any_work(option, value, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("load", "setup"):
        monkeypatch.setattr("suisei.training.datamodule.CaptionDataModule." + name, None)
    arguments = ["--config", str(settings), f"--output={tmp_path / 'run'}", f"--{option}={value}"]
    with pytest.raises(ConfigError, match=option.rpartition(".")[2]) as error:
        train_module.main(arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600
    assert list(tmp_path.iterdir()) == []


def test_the_kept_checkpoint_has_no_figure_of_its_own_to_go_by(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("checkpoint:\n  monitor: val_loss\n")
    (tmp_path / "part.yaml").write_text("monitor: val_loss\n")
    for given in (
        ["--checkpoint.monitor=val_loss"],
        ["--config", "own.yaml"],
        ["--checkpoint", '{"monitor": "val_loss"}'],
        ["--checkpoint", "part.yaml"],
    ):
        with pytest.raises(ConfigError, match=r"monitor.*; did you mean --monitor\?"):
            train_module.main(given)
    with pytest.raises(ConfigError, match=r"checkpoint\.mode=min"):
        train_module.main(["--checkpoint.mode=min"])


def test_a_bad_value_of_a_group_that_may_be_null_is_one_line_of_a_task_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^model\.image\.name is ' '; it must be a text"):
        train_module.main(["--config", "recap_latent", "--model.image.name", " "])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DataError, "No space left.*--ckpt_path last"),
        (torch.OutOfMemoryError("CUDA out of memory."), UnavailableError, r"out of memory.*data\.batch_size"),
        (MemoryError(), UnavailableError, r"out of memory.*data\.batch_size"),
        (
            RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory"),
            UnavailableError, r"data\.batch_size",
        ),
        (RuntimeError("DataLoader worker (pid 1) is killed"), UnavailableError, "num_workers to 0"),
    ],
    ids=["disk", "gpu", "memory", "allocator", "worker"],
)  # fmt: skip
def test_what_the_machine_refuses_is_one_line(train, tmp_path, raised, expected, message):
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 4, raised)
        with pytest.raises(expected, match=message) as error:
            train(*OPTIONS, output=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"config.yaml", "checkpoints"}
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize("epochs", ["-1", "null"])
def test_a_training_that_time_alone_would_end_is_one_line(train, tmp_path, epochs):
    with pytest.raises(ConfigError, match=rf"max_epochs is {epochs}, .*max_time may end the training before"):
        train(f"--trainer.max_epochs={epochs}", "--trainer.max_time=00:00:10:00", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_validation_later_than_the_end_of_an_epoch_is_one_line(train, tmp_path):
    with pytest.raises(ConfigError, match=r"val_check_interval is 11, and an epoch has 10 batches: lower it"):
        train(*OPTIONS, "--trainer.val_check_interval=11", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["null", "captioner", "pacs"])
@pytest.mark.parametrize("group", ["model", "data", "trainer"])
def test_a_group_of_settings_that_is_left_empty_is_named(task, group, tmp_path, capsys):
    config = tmp_path / "c.yaml"
    config.write_text(f"task: {task}\noutput: {tmp_path / 'run'}\n{group}:\n")
    assert main(["train", "--config", str(config)]) == 2
    assert f"{group} is null; leave it out for its defaults" in capsys.readouterr().err


def test_the_command_says_one_line_and_ends_with_status_2(settings, tmp_path, capsys):
    arguments = ["--config", str(settings), f"--output={tmp_path / 'run'}", "--model.head.members=1000000"]
    assert main(["train", *arguments]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said == ["suisei: model.head.members is 1000000; it must be an integer from 1 to 100"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--data.rating_scale 1 5",
            "rating_scale: expected tuple[float, float] or null, got '1'; a list is one word",
        ),
        ("--trainer.max_epochs many", "max_epochs: expected int or null, got 'many' (suisei train"),
        (
            "--early_stopping no",
            "early_stopping: expected settings of its own or null, got 'no' (suisei train",
        ),
        (
            "--trainer.max_step 3",
            "unrecognized arguments: --trainer.max_step 3; did you mean --trainer.max_steps",
        ),
        ("--early_stopping.patience x", "early_stopping.patience: Expected a int. Got value: x (suisei"),
        ("--data.fractions 0.8 0.1 0.1", "a list is one word, as '[1,5]'"),
    ],
)
def test_a_value_of_a_wrong_type_is_said_plainly(options, said, settings, tmp_path):
    with pytest.raises(ConfigError) as error:
        train_module.make_cli(["--config", str(settings), f"--output={tmp_path / 'run'}", *options.split()])
    assert said in str(error.value)
    assert "subtypes" not in str(error.value)


@pytest.mark.parametrize("by", ["option", "value", "config"])
@pytest.mark.parametrize(
    ("group", "key", "near"),
    [
        ("early_stopping", "patince", "early_stopping.patience"),
        ("model.pretraining", "epchs", "model.pretraining.epochs"),
        ("model.image", "pretraind", "model.image.pretrained"),
        ("model.image.tiny", "widht", "model.image.tiny.width"),
    ],
)
def test_an_unknown_setting_of_those_that_may_be_null_is_named(group, key, near, by, tmp_path):
    config = tmp_path / "config.yaml"
    option = {"option": [f"--{group}.{key}", "3"], "value": [f"--{group}", f"{{{key}: 3}}"], "config": []}[by]
    content = {key: 3}
    for name in reversed(group.split(".")):
        content = {name: content}
    config.write_text(json.dumps(content if by == "config" else {}))
    with pytest.raises(ConfigError) as error:
        train_module.make_cli(["--config", str(config), f"--output={tmp_path / 'run'}", *option])
    said = f"Group '{group}' does not accept option '{key}'; did you mean --{near}"
    assert str(error.value).startswith(said)
