"""Folders and scores of before: what was written once is read, and scored the same, ever after."""

import json

import numpy as np
import pytest

from suisei.metrics.loading import load
from tests.golden import make_golden

TOLERANCE = 1e-5
"""In fp32, between processors and versions of the libraries; docs/speed.md states it."""


def golden(path):
    return np.array(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def dozen():
    return make_golden.samples()


def test_the_golden_folder_is_small():
    assert sum(path.stat().st_size for path in make_golden.MODEL.rglob("*") if path.is_file()) < 300_000


def test_the_golden_folder_gives_its_golden_scores(dozen):
    metric = load(make_golden.MODEL, device="cpu", precision="fp32", cache="off")
    expected = golden(make_golden.MODEL_SCORES)
    assert expected.std() > 0.01  # they tell samples apart
    assert metric.score(dozen) == pytest.approx(expected, abs=TOLERANCE)
    alone = [metric.score([sample])[0] for sample in dozen]
    assert alone == pytest.approx(expected, abs=TOLERANCE)


def test_the_model_in_the_package_gives_its_golden_scores(dozen):
    metric = load(None, device="cpu", precision="fp32", cache="off")
    expected = golden(make_golden.SMALL_SCORES)
    assert expected.std() > 0.01
    assert metric.score(dozen) == pytest.approx(expected, abs=TOLERANCE)


def test_the_model_in_the_package_scores_japanese_however_it_is_spaced_and_ended():
    metric = load(None, device="cpu", precision="fp32", cache="off")
    forms = (
        "犬が公園を走っている",
        "犬が公園を走っている。",
        "犬 が 公園 を 走っ て いる",
        "犬 が 公園 を 走っ て いる 。",
        "「犬が公園を走っている。」",
    )
    references = ("子犬が芝生を走る", "子犬が芝生を走る。", "子犬 が 芝生 を 走る 。")
    scores = metric.score(forms * len(references), references=[[one] for one in references for _ in forms])
    assert scores == pytest.approx([scores[0]] * len(scores), abs=TOLERANCE)
