"""The list of metrics."""

import json

import pytest

from suisei.commands.metrics import list_rows, main
from suisei.data.sample import CaptionSample
from suisei.errors import SuiseiError, UnavailableError
from suisei.metrics.registry import REGISTRY, Entry, get_metric, unavailable_reason


@pytest.fixture(autouse=True)
def absent(monkeypatch):
    entry = Entry(
        "x:y", ("image",), "a [bold] metric", modules=("no_such_module",), extra="java", argument="path"
    )
    monkeypatch.setitem(REGISTRY, "absent", entry)


def test_every_metric_is_listed_with_its_state():
    rows = {row["name"]: row for row in list_rows()}
    assert list(rows) == list(REGISTRY)
    assert rows["bleu-4"]["available"] is True
    assert rows["absent"] == {
        "name": "absent",
        "argument": "path",
        "needs": ["image"],
        "either": [],
        "summary": "a [bold] metric",
        "available": False,
        "reason": "needs no_such_module: pip install 'suisei[java]'",
        "requires": None,
    }


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("comet", "--comet-python"),
        ("jaspice", "http://localhost:2115"),
        ("ref-pac-s", "ref-pac-s:CHECKPOINT"),
        ("clip-s", "hub"),
        ("bertscore", "hub"),
    ],
)
def test_what_must_be_given_is_not_called_available(name, what, capsys):
    row = next(row for row in list_rows() if row["name"] == name)
    assert row["available"] is None
    assert what in row["requires"]
    main([])
    assert "with " + row["requires"].split()[0] in capsys.readouterr().out


def test_metrics_without_defaults_fail_without_what_they_require():
    for name in ("suisei:absent", "comet", "pac-s", "ref-pac-s++"):
        with pytest.raises(SuiseiError):
            get_metric(name)


def test_java_metrics_say_what_is_missing(monkeypatch):
    monkeypatch.setattr("suisei.metrics.java.java_command", lambda: None)
    pytest.importorskip("pycocoevalcap")
    rows = {row["name"]: row for row in list_rows()}
    for name in ("meteor", "spice"):
        assert rows[name]["available"] is False
        assert "Java runtime" in rows[name]["reason"]


def test_table_shows_names_needs_and_the_cure(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "absent:PATH" in text
    assert "a [bold] metric" in text
    assert "no_such_module" in text
    assert all(name in text for name in REGISTRY)


def test_what_the_model_in_the_package_needs_is_what_it_has_no_score_without(capsys):
    if reason := unavailable_reason("suisei"):
        pytest.skip(f"suisei {reason}")
    row = next(row for row in list_rows() if row["name"] == "suisei")
    (lacking,) = get_metric("suisei").missing([CaptionSample("a dog")]).values()
    assert all(f"no {what}" in lacking for what in row["either"])
    assert main([]) == 0
    assert "references or" in next(line for line in capsys.readouterr().out.splitlines() if "suisei:" in line)


def test_json_is_a_list_of_all(capsys):
    assert main(["--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == list(REGISTRY)


def test_the_model_in_the_package_is_unavailable_without_mecab(monkeypatch, model_folder):
    from suisei.metrics import tokenizers

    find = tokenizers.find_spec
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None if name == "fugashi" else find(name))
    row = next(row for row in list_rows() if row["name"] == "suisei")
    assert row["available"] is False
    assert row["reason"] == "needs fugashi: pip install fugashi unidic-lite"
    with pytest.raises(UnavailableError, match="pip install fugashi unidic-lite"):
        get_metric("suisei")
    assert get_metric(f"suisei:{model_folder}").name == "suisei"  # a model that needs no MeCab
