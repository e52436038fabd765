"""Files of runs that somebody changed: results, splits, notes and cards are refused in one line."""

import json

import pytest

from suisei.ablation.differences import read_result
from suisei.adapters.hub_card import RunFacts, hub_card, read_run
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.sample import CaptionSample
from suisei.data.splits import Split
from suisei.errors import ConfigError, DataError, ModelError
from suisei.metrics.matching import load_idf
from suisei.pacs.manifest import read_positives
from suisei.pacs.positive_writer import PositiveWriter
from suisei.scoring.output import _LAYOUT, FileOutput, RowFormat

DEEP = "[" * 100_000
ORIGIN = {"model": "m", "revision": "r", "seed": 1, "run_seed": 0, "settings": {}}
ITEM = {"kind": "captions", "source": "s", "caption": "a", **ORIGIN}


@pytest.mark.parametrize(
    "item",
    [
        {**ITEM, "seed": "x"}, {**ITEM, "seed": None}, {**ITEM, "seed": True}, {**ITEM, "settings": 7},
        {**ITEM, "settings": ["ab", "c"]}, {**ITEM, "kind": ["captions"]}, {**ITEM, "source": ["s"]},
        {**ITEM, "run_seed": []},
    ],
)  # fmt: skip
def test_an_item_of_a_manifest_has_its_types(tmp_path, item):
    (tmp_path / "captions.jsonl").write_text(json.dumps(item) + "\n")
    with pytest.raises(DataError, match=r"line 1: not an item of a manifest \(a wrong"):
        read_positives(tmp_path)
    with pytest.raises(DataError, match="not an item"), PositiveWriter(tmp_path, "captions"):
        pass


def test_what_is_nested_too_deeply_is_refused(tmp_path):
    for name, read in {
        "captions.jsonl": lambda path: read_positives(path.parent),
        "split.json": lambda path: Split.load(path, [CaptionSample("a")]),
    }.items():
        (tmp_path / name).write_text(DEEP + "\n")
        with pytest.raises(DataError):
            read(tmp_path / name)
    (tmp_path / "idf.json").write_text(DEEP)
    with pytest.raises(ModelError, match="not a file of idf weights"):
        load_idf(tmp_path / "idf.json")
    (tmp_path / "idf.json").write_text('{"documents": 1e999, "frequencies": {}, "end": 1, "corpus": "x"}')
    with pytest.raises(ModelError, match="not idf weights of tokens"):
        load_idf(tmp_path / "idf.json")


GOOD = {"results": {"settings": {"raters": "mean"}}, "training": {"minutes": 1}}
RESULTS = {
    "no object": ([], '{"suisei": 1}'),
    "no settings": ({"training": {"minutes": 1}}, '{"suisei": 1}'),
    "minutes that are text": ({**GOOD, "training": {"minutes": "x"}}, '{"suisei": 1}'),
    "folds that are none": ({**GOOD, "folds": 7}, '{"suisei": 1}'),
    "a score that is text": (GOOD, '{"suisei": "x"}'),
    "no score": (GOOD, '{"other": 1}'),
    "no JSON": (GOOD, "{"),
    "a list": (GOOD, "[1]"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_an_ablation_are_those_of_a_run(tmp_path, kind):
    report, scores = RESULTS[kind]
    (tmp_path / "report.json").write_text(json.dumps(report))
    (tmp_path / "test_scores.jsonl").write_text(scores + "\n")
    (tmp_path / "test.jsonl").write_text('{"candidate": "a"}\n')
    with pytest.raises(
        DataError,
        match=r"not a finished run .*; delete the|test_scores\.jsonl, line 1: not the scores of a training",
    ):
        read_result(tmp_path)


@pytest.mark.parametrize(
    "metadata", ["a: [", "a: \x07", "? [a]: b\n- c", "*a", "1: 2\n--", "a: !!python/name:os.x"]
)
def test_a_card_with_broken_metadata_is_refused(metadata):
    with pytest.raises(DataError, match="the card's metadata"):
        hub_card("a/b", f"---\n{metadata}\n---\n# A model\n", RunFacts())


def test_facts_of_a_run_are_numbers_and_texts(tmp_path):
    row = {"label": "suisei", "cells": {"pearson": {"value": ["x"]}}}
    report = {"results": {"sections": [{"rows": [row]}]}, "data": {"sources": []}}
    (tmp_path / "report.json").write_text(json.dumps(report))
    with pytest.raises(DataError, match="not the report of a run"):
        read_run(tmp_path)


def test_the_note_of_a_run_that_was_cut_off_may_hold_anything(tmp_path):
    note = {"part": None, "signatures": {"length": 7}, "basis": {}}
    (tmp_path / "a.jsonl.part").write_text('{"id": 1, "length": 1}\n')
    for changed in ({**note, "part": _LAYOUT}, DEEP):
        text = changed if isinstance(changed, str) else json.dumps(changed)
        (tmp_path / "a.jsonl.part.json").write_text(text + "\n")
        with pytest.raises(ConfigError):
            FileOutput(tmp_path / "a.jsonl", {"length": "length|v:1"}, resume=True)


def test_a_score_too_large_for_a_float_is_no_row_of_scores():
    with pytest.raises(DataError, match="row 1 is not a row of scores"):
        list(RowFormat("jsonl", ["length"]).parse(['{"id": 1, "length": 1' + "0" * 400 + "}\n"]))


def test_foil_has_ids_that_can_be_looked_up(tmp_path):
    right = {"id": 1, "image_id": 1, "caption": "a", "foil": False}
    for wrong in ({"id": [1]}, {"image_id": float("nan")}, {"image_id": float("inf")}):
        content = {
            "images": [{"id": 1, "file_name": "x.jpg"}],
            "annotations": [right, {**right, "foil": True, "caption": "b", **wrong}],
        }
        (tmp_path / "foilv1.0_test_2017.json").write_text(json.dumps(content))
        (tmp_path / "captions_val2014.json").write_text(
            json.dumps({"images": [{"id": 1, "file_name": "x.jpg"}], "annotations": [right]})
        )
        with pytest.raises(DataError, match="is not in the file"):
            BENCHMARKS["foil"].read(tmp_path)
