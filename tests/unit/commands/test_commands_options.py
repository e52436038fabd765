"""Hostile values of the options of every command: one line, status 2, and nothing is done."""

import json
import os

import pytest

from suisei.__main__ import main
from suisei.commands.command_parser import CommandParser
from suisei.commands.option_values import device, filled, real, whole
from suisei.encoders.precision import DTYPES
from suisei.encoders.precision_words import PRECISIONS
from suisei.errors import ConfigError
from suisei.metaeval.resampling import group_weights

BASE = {
    "score": ["--metrics", "length", "--input", "in.jsonl"],
    "evaluate": ["--metrics", "length", "--data", "in.jsonl", "--bootstrap", "0"],
    "probe": ["--metrics", "length", "--data", "in.jsonl", "--bootstrap", "0"],
    "compare": ["in.jsonl", "other.jsonl", "--metrics", "length", "--bootstrap", "0"],
    "cache": [],
    "ablate": ["--config", "scenes", "--dry-run"],
    "captions": ["in.jsonl", "--output", "made"],
    "images": ["in.jsonl", "--output", "made"],
}
NUMBERS = {
    "score": ["--batch-size", "--window", "--processes", "--devices"],
    "evaluate": ["--batch-size", "--bootstrap", "--seed"],
    "probe": ["--batch-size", "--bootstrap", "--seed", "--limit", "--max-references", "--bins", "--good"],
    "ablate": ["--jobs", "--seeds", "--bootstrap"],
    "captions": ["--seed", "--limit", "--batch-size", "--beams", "--top-p", "--max-tokens"],
    "images": ["--seed", "--limit", "--batch-size", "--steps", "--guidance", "--size"],
}
NAMES = {
    "score": "--tokenizer --comet-python --device --precision --cache --input --images --output --summary",
    "evaluate": "--scores --data --root --images --json --markdown --latex --plot --save-idf --save-scores",
    "probe": "--data --root --images --degradations --json --markdown --latex --plots --cache --device",
    "cache": "--cache",
    "ablate": "--config --variants --variant --output",
    "captions": "--root --images --output --model --revision --device",
    "images": "--root --images --output --model --revision --device",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "candidate": f"a dog {n}", "references": ["a"], "rating": n / 4} for n in range(5)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\xff")
    return tmp_path


def refused(capsys, command, *arguments):
    """Run what must be refused; returns the line that says why."""
    name = ["positives", command] if command in ("captions", "images") else [command]
    before = sorted(os.listdir())  # noqa: PTH208
    assert main([*name, *BASE[command], *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("suisei: ")
    assert shown.err.count("\n") == 1
    assert sorted(os.listdir()) == before  # noqa: PTH208
    return shown.err


@pytest.mark.parametrize("value", ["-1", "nan", "1e999", "", "many", "1" * 5000, "--", "-5.5"])
@pytest.mark.parametrize(
    ("command", "option"), [(c, option) for c, options in NUMBERS.items() for option in options]
)
def test_what_is_no_number_or_too_small_is_refused(capsys, command, option, value):
    if value == "1" * 5000 and option in ("--batch-size", "--window", "--limit"):
        value = "x" * 5000
    error = refused(capsys, command, f"{option}={value}")
    assert option in error
    assert len(error) < 300


@pytest.mark.parametrize(
    ("command", "option", "value", "limit"),
    [
        ("evaluate", "--bootstrap", "100000000", "100,000"),
        ("probe", "--bootstrap", "100000000", "100,000"),
        ("ablate", "--bootstrap", "100000000", "100,000"),
        ("score", "--processes", "100000", "256"),
        ("ablate", "--jobs", "100000", "256"),
        ("score", "--processes", "0", "1"),
        ("score", "--batch-size", "0", "1"),
        ("probe", "--bins", "1000000000", "1,000"),
        ("probe", "--good", "1.5", "1"),
        ("captions", "--top-p", "1.5", "1"),
        ("captions", "--top-p", "0", "1"),
        ("images", "--size", "1000000", "8,192"),
        ("ablate", "--seeds", "4294967296", "4294967295"),
        ("ablate", "--seeds", "1,1", "different"),
    ],
)
def test_what_is_too_large_is_refused_with_the_limit(capsys, command, option, value, limit):
    error = refused(capsys, command, f"{option}={value}")
    assert option in error
    assert limit in error


@pytest.mark.parametrize("value", ["", "  ", "--"])
@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command, names in NAMES.items() for option in names.split()]
)
def test_an_empty_name_is_refused(capsys, command, option, value):
    assert option in refused(capsys, command, f"{option}={value}")


@pytest.mark.parametrize("command", ["score", "evaluate", "probe"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics", ","], "--metrics ',' names no metric"),
        (["--metrics", ""], "--metrics '' names no metric"),
        (["--metrics", " , ,"], "names no metric"),
        (["--metrics", "length"], "metric 'length' is given twice"),
        (["--metrics", "bleu-1,bleu-1"], "metric 'bleu-1' is given twice"),
        (["--metrics", "suisei:"], "has nothing after the colon"),
        (["--model", ""], "has nothing after the colon"),
        (["--device", "foo"], "argument --device: must be auto, cpu, cuda"),
        (["--device", "cuda:x"], "argument --device"),
        (["--device", "cpu:0"], "argument --device"),
        (["--precision", "fp99"], "argument --precision"),
        (["--metric-option", "length"], "must be NAME.KEY=VALUE"),
        (["--metric-option", "length.x=1"], "has no option 'x'"),
        (["--metric-option", "cider.x=1"], "which is not asked for"),
        (["--tokenizer", "nosuch"], "tokenizer"),
        (["--rating-scale", "5", "1"], "rating scale must be LOW HIGH"),
        (["--rating-scale", "nan", "1"], "rating scale must be LOW HIGH"),
        (["--images", "nowhere"], "no such folder"),
        (["--images", "photo.png"], "no such folder"),
        (["--nosuch", "1"], "unrecognized arguments: --nosuch 1"),
    ],
)
def test_options_of_scoring_commands(capsys, command, arguments, message):
    assert message in refused(capsys, command, *arguments)


@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_an_option_of_a_wrong_type_is_no_traceback(capsys, command):
    extra = ["--metrics", "rouge-l,chrf", "--metric-option", 'chrf.word_order=["x"]']
    status = main([command, *BASE[command], *extra])
    assert status in (1, 2)
    assert "chrf" in capsys.readouterr().err


NOT_DATA = {
    "photo.png": b"\x89PNG\r\n\x1a\n\x00\x00\xff",
    "photo.jsonl": b"\x89PNG\r\n\x1a\n\x00\x00\xff",
    "noise.csv": bytes(range(256)) * 4,
    "noise.parquet": b"PAR1" + bytes(range(256)) + b"PAR1",
    "cut.parquet": b"PAR1",
    "utf16.jsonl": '{"id": "1", "candidate": "a", "x": 1}\n'.encode("utf-16"),
    "utf16.csv": "id,candidate\n1,犬\n".encode("utf-16-le"),
    "sjis.csv": "id,candidate\n1,赤いボール\n".encode("shift_jis"),
    "sjis.jsonl": '{"id": "1", "candidate": "赤い"}\n'.encode("shift_jis"),
    "latin.csv": "id,candidate\n1,caf\u00e9\n".encode("latin-1"),
    "empty.jsonl": b"",
    "cut.jsonl": b'{"id": "1", "candidate": "a',
    "quote.csv": b'id,candidate\n1,"a\n2,b\n',
    "deep.jsonl": b"[" * 20_000,
    "digits.jsonl": b'{"id": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("name", NOT_DATA)
@pytest.mark.parametrize(
    ("command", "option"),
    [("score", "--input"), ("evaluate", "--data"), ("probe", "--data"), ("evaluate", "--scores")],
)
def test_what_is_no_data_is_named(here, capsys, command, option, name):
    (here / name).write_bytes(NOT_DATA[name])
    status = main([command, *BASE[command], option, name])
    error = capsys.readouterr().err.splitlines()
    assert status == 2
    assert error[-1].startswith("suisei: ")
    assert name in error[-1]


@pytest.mark.parametrize("name", ["photo.png", "in.jsonl", "list.yaml"])
def test_a_config_of_an_ablation_that_is_none(here, capsys, name):
    (here / "list.yaml").write_text("- a\n")
    (here / "in.jsonl").write_bytes(b"a: [1\n")
    assert f"--config {name}" in refused(capsys, "ablate", "--config", name)


@pytest.mark.parametrize("name", ["nowhere", "photo.png"])
def test_the_cache_is_not_made_where_it_is_only_shown(capsys, name):
    assert "no such folder" in refused(capsys, "cache", "--cache", name)


def test_values_are_read():
    assert whole(0, 9)("7") == 7
    assert real(0, 1)("0.5") == 0.5
    assert filled("a b") == "a b"
    assert [device(name) for name in ("auto", "cpu", "cuda", "cuda:12", "mps")][-1] == "mps"
    assert set(PRECISIONS) == {"auto", *DTYPES}
    parser = CommandParser(prog="x")
    parser.add_argument("--many", action="append", default=[])
    assert parser.parse_args(["--many", "a"]).many == ["a"]
    with pytest.raises(ConfigError, match=r"unrecognized arguments: --few \(see x --help\)"):
        parser.parse_args(["--few"])


def test_a_device_that_is_not_there_is_named(monkeypatch):
    import torch

    from suisei.encoders.precision import choose_device
    from suisei.errors import UnavailableError

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(name) for name in ("auto", "cpu", "cuda:1")] == ["cuda", "cpu", "cuda:1"]
    for rank, own in (
        ("0", "cuda"),
        ("1", "cuda:1"),
        ("2", "cuda"),
        ("", "cuda"),
    ):  # 2 sees one alone
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert [choose_device(name) for name in ("auto", "cuda:1")] == [own, "cuda:1"]
    with pytest.raises(UnavailableError, match="'cuda:2' is not there: this machine has 2 GPUs"):
        choose_device("cuda:2")
    with pytest.raises(ConfigError, match="device is 'foo'; expected auto"):
        choose_device("foo")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UnavailableError, match="'cuda' is not there: this machine has no GPU"):
        choose_device("cuda")


def test_resamples_that_would_fill_the_memory_are_refused():
    with pytest.raises(
        ConfigError, match="100,000 resamples of 100,000 groups take 80 GB of memory; use at most 5,368"
    ):
        group_weights(100_000, 100_000, 0)
    assert group_weights(3, 2, 0).shape == (2, 3)


@pytest.mark.parametrize("command", ["score", "evaluate", "probe", "compare", "captions", "images"])
@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps", "xpu"])
def test_a_device_that_is_not_there_is_refused_at_once(capsys, monkeypatch, command, device):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    arguments = ["--device", device]
    if command not in ("captions", "images"):
        arguments += ["--metrics", "clip-s"]
    assert f"device '{device}' is not there" in refused(capsys, command, *arguments)
