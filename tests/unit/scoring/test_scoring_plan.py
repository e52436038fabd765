"""Metrics as they are asked for: names, specs, and what they are called in reports."""

import argparse

import pytest

from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans
from suisei.errors import ConfigError
from suisei.scoring.plan import named_spec, plan_metrics, short_labels


def plans_of(*arguments):
    parser = CommandParser()
    add_metric_options(parser.add_argument)
    options = parser.parse_args(arguments)
    assert isinstance(options, argparse.Namespace)
    return options, metric_plans(options)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tuned=suisei:runs/a", ("tuned", "suisei:runs/a")),
        ("our best = suisei:runs/lr=1/model", ("our best", " suisei:runs/lr=1/model")),
        ("調整済み=cider", ("調整済み", "cider")),
        ("suisei:lr=1", (None, "suisei:lr=1")),
        ("runs/lr=1/model", (None, "runs/lr=1/model")),
        ("=cider", (None, "=cider")),
        ("x=", (None, "x=")),
        ("cider", (None, "cider")),
    ],
)
def test_a_name_stands_before_the_first_equals_sign(text, found):
    assert named_spec(text) == found


def test_named_models_and_metrics():
    options, plans = plans_of(
        "--model", "tuned=runs/a/model", "--model", "b", "--metrics", "ours=suisei:c,cider"
    )
    assert options.model == ["runs/a/model", "b"]
    assert [plan.spec for plan in plans] == ["suisei:runs/a/model", "suisei:b", "suisei:c", "cider"]
    assert [plan.label for plan in plans] == ["tuned", "suisei:b", "ours", "cider"]
    assert short_labels(plans) == ["tuned", "suisei", "ours", "cider"]


def test_a_folder_with_an_equals_sign_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1").mkdir()
    options, plans = plans_of("--model", "lr=1")
    assert options.model == ["lr=1"]
    assert plans[0].label == "suisei:lr=1"


def test_a_metric_in_capitals_keeps_its_name():
    _, plans = plans_of("--metrics", "ours=CIDEr,BLEU-4")
    assert [(plan.spec, plan.label) for plan in plans] == [("cider", "ours"), ("bleu-4", "bleu-4")]


def test_a_name_is_of_one_metric():
    with pytest.raises(ConfigError, match="two metrics are called 'x'"):
        plans_of("--metrics", "x=cider,x=bleu-1")
    with pytest.raises(ConfigError, match="two metrics are called 'cider'"):
        plan_metrics(["cider", "chrf"], names={"chrf": "cider"})


@pytest.mark.parametrize(
    "name", ["id", "error", "key", "uid", "ref", "mt", "group", "system", "rating", "mos", "image_id"]
)
def test_a_metric_never_takes_the_place_of_another_column(name):
    with pytest.raises(ConfigError, match=f"cannot be called '{name}'"):
        plans_of("--metrics", f"{name}=bleu-1")
