"""Settings: configs that are hostile, folders that hold the data, and runs resumed with other settings."""

import os

import pytest

from suisei.errors import ConfigError
from suisei.ranges import differences
from suisei.training.run_settings import (
    LARGEST_CONFIG,
    check_resumed,
    named_configs,
    read_config,
    refuse_own_data,
)

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
)
HOSTILE = {
    "picture": (b"\x89PNG\r\n\x1a\n\xff\xfe", "not a text file in UTF-8"),
    "code": (b"model: !!python/object/apply:os.mkdir ['RAN']\n", "line 1: not YAML of plain values"),
    "module": (b"model: !!python/name:os.system\n", "not YAML of plain values"),
    "class": (b"trainer:\n  callbacks:\n  - class_path: os.system\n", "trainer.callbacks has class_path"),
    "arguments": (b"model: {text: {init_args: {}}}\n", "model.text has init_args"),
    "list": (b"- 1\n", "holds a list"),
    "number": (b"1\n", "holds a int"),
    "broken": (b"a: [1\nb: 2\n", "line 2: not YAML"),
    "deep": (b"[" * 5000, "nested too deeply"),
    "bomb": (BOMB.encode(), "more than 20,000 values"),
    "large": (b" " * (LARGEST_CONFIG + 1), "bytes; a config has at most"),
    "nul": (b"a: \0\n", "not YAML of plain values"),
    "date": (b"a: 2020-99-99\n", "not YAML of plain values"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_config_is_one_line_and_runs_nothing(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.yaml"
    text, message = HOSTILE[kind]
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=message) as error:
        read_config(path)
    assert "config.yaml" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "RAN").exists()


def test_a_folder_and_a_missing_file_are_no_configs(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_config(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="is no file"):
        read_config(tmp_path / os.devnull)


def test_a_sparse_file_is_not_read(tmp_path):
    path = tmp_path / "sparse.yaml"
    with path.open("wb") as file:
        file.truncate(300 * 10**9)
    with pytest.raises(ConfigError, match="300,000,000,000 bytes"):
        read_config(path)


def test_plain_configs_are_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("model: {head: {hidden: [3]}}\ndata: {train: 猫.jsonl}\n", encoding="utf-8")
    assert read_config(path) == {"model": {"head": {"hidden": [3]}}, "data": {"train": "猫.jsonl"}}
    path.write_text("")
    assert read_config(path) == {}


def test_all_named_configs_are_found():
    names = named_configs(["--config", "a.yaml", "-c", "b.yaml", "--config=c.yaml", "--output=x", "--config"])
    assert [str(name) for name in names] == ["a.yaml", "b.yaml", "c.yaml"]


def run_settings(**changes):
    settings = {
        "seed_everything": 3,
        "model": {"optimizer": {"head_lr": 0.1}, "head": {"hidden": [3, 4]}},
        "trainer": {"max_epochs": 2, "enable_progress_bar": True},
        "data": {"root": {"a": "x"}, "batch_size": 4},
        "output": "runs/a",
    }
    for name, value in changes.items():
        *way, last = name.split("__")
        part = settings
        for step in way:
            part = part[step]
        part[last] = value
    return settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model__optimizer__head_lr", 0.2),
        ("model__head__hidden", [3]),
        ("data__batch_size", 8),
        ("seed_everything", 4),
        ("model__image", None),
    ],
)
def test_a_run_is_not_resumed_with_settings_that_make_it_another(name, value):
    key = name.replace("__", ".")
    with pytest.raises(ConfigError, match=rf"other settings: {key}: .*config\.yaml") as error:
        check_resumed(run_settings(), run_settings(**{name: value}))
    assert repr(value) in str(error.value)
    assert "\n" not in str(error.value)


def test_how_long_and_where_a_resumed_run_trains_may_change_and_is_said():
    said = check_resumed(run_settings(), run_settings(trainer__max_epochs=5, data__root="/elsewhere"))
    assert "trainer.max_epochs: 2, now 5" in said
    assert "data.root: 'not there', now '/elsewhere'" in said


def test_what_changes_nothing_is_not_worth_a_word():
    changed = run_settings(trainer__enable_progress_bar=False, output="runs/b")
    assert check_resumed(run_settings(), run_settings()) is None
    assert check_resumed(run_settings(), changed) is None
    assert list(differences(run_settings(), changed)) == ["output", "trainer.enable_progress_bar"]


def test_a_run_is_not_written_into_the_folder_of_its_data(tmp_path):
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "test.jsonl").touch()
    (tmp_path / "link").symlink_to(data)
    for output in (data, tmp_path, tmp_path / "link", tmp_path / "data" / ".." / "data"):
        with pytest.raises(ConfigError, match=r"holds data\.test .*deep/test\.jsonl"):
            refuse_own_data(output, {"data.test": [data / "deep" / "test.jsonl"]})
    with pytest.raises(ConfigError, match=r"is data\.root"):
        refuse_own_data(data, {"data.root": [tmp_path / "link"]})
    (tmp_path / "away.jsonl").symlink_to(data / "deep" / "test.jsonl")
    with pytest.raises(ConfigError, match=r"away\.jsonl"):
        refuse_own_data(data, {"data.train": [tmp_path / "away.jsonl"]})
    (data / "split.json").touch()
    with pytest.raises(ConfigError, match=r"holds data\.train .*split\.json"):
        refuse_own_data(data, {"data.train": [f"{data / 'split.json'}:train+restval"]})
    free = {"data.train": ["scenes", data / "absent.jsonl"], "data.test": [data / "deep" / "test.jsonl"]}
    refuse_own_data(data / "runs", free)
    refuse_own_data(tmp_path / "runs", free)
