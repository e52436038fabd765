"""The benchmarks run from end to end at tiny sizes, and compute what they print rightly."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY))
    return lambda name: importlib.import_module(f"tests.benchmarks.{name}")


def run(tmp_path, *sections):
    """Run sections at tiny sizes on the bundled data; returns what they wrote."""
    files = (f"--json={tmp_path / 'out.json'}", f"--markdown={tmp_path / 'out.md'}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *sections, "--smoke", "--threads=1", *files],
        cwd=REPOSITORY,
        env={**os.environ, "SUISEI_SHARED": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == done.stdout
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert content["machine"]["data"] == "bundled scenes"
    assert content["machine"]["threads"] == 1
    for row in content["results"]:
        assert row["section"] in sections
        assert row["ours"] > 0
        assert (row["ratio"] is None) == (row["theirs"] is None) == (row["peer"] == "")
        assert f"| {row['section']} | {row['what']} | " in done.stdout
    return content["results"]


@pytest.mark.slow
def test_scoring_and_training_beside_plain_loops(tmp_path):
    results = run(tmp_path, "scoring", "training")
    peers = {row["peer"] for row in results}
    assert peers == {
        "",
        "plain loop",
        "plain open_clip loop",
        "without second models",
        "torchmetrics' CLIPScore",
        "all word vectors held",
    }
    what = " ".join(row["what"] for row in results)
    for expected in ("two references", "five references and image", "PAC-S", "text encoder", "peak"):
        assert expected in what
    for expected in ("shuffled batches", "group batches", "frozen", "embeddings too"):
        assert expected in what


@pytest.mark.slow
def test_startup_and_memory(tmp_path):
    results = run(tmp_path, "startup", "memory")
    assert [row["unit"] for row in results[-2:]] == ["MB"] * 2
    seconds = {row["what"]: row["ours"] for row in results if row["unit"] == "s"}
    assert len(seconds) >= 4
    assert seconds["import suisei"] > seconds["python without anything"]
    assert seconds["opening a small model, after the imports"] > 0


def test_precisions(tmp_path):
    results = run(tmp_path, "precision")
    speeds, changes = results[:2], results[2:]
    assert [row["unit"] for row in speeds] == ["captions/s"] * 2
    assert [row["what"].split(" in ")[-1] for row in speeds] == ["bf16", "int8"]
    assert len(changes) == 2
    for row in changes:  # of the few first captions
        assert row["ours"] < 0.05
        assert "rank agreement" in row["note"]


def test_rewards(tmp_path):
    results = run(tmp_path, "rewards")
    assert [row["what"].partition(",")[0] for row in results] == ["SuiSei"] * 2 + ["PAC-S"] * 2 + [
        "CIDEr"
    ] * 2
    assert all(0 < row["ours"] < 100 for row in results)


def test_text_metrics_and_bootstrap(tmp_path):
    pytest.importorskip("pycocoevalcap")
    results = run(tmp_path, "text", "bootstrap")
    assert {row["peer"] for row in results} == {"pycocoevalcap", "sacrebleu", "SciPy in a loop"}


def test_unknown_section_is_refused(tmp_path):
    command = [sys.executable, "-m", "tests.benchmarks", "speed"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "speed" in done.stderr


def test_ratios_are_medians_of_rates_over_alternating_repeats(load):
    harness = load("harness")
    calls, clock = [], iter(range(1, 100))

    def side(name):
        calls.append(name)
        return float(next(clock))

    times = harness.alternate([lambda: side("a"), lambda: side("b")], 3)
    assert calls == ["a", "b"] * 3
    assert times == [[1, 3, 5], [2, 4, 6]]
    row = harness.compared("s", "w", tuple(times), (30, 10), "them")
    assert row.ours == 10
    assert row.theirs == 2.5
    assert row.ratio == 4  # of 6, 4 and 3.6: counts differ, so times are per item
    table = harness.markdown({"cpu": "x"}, [row])
    assert table.splitlines()[-1] == "| s | w | 10 samples/s | them | 2.5 samples/s | 4.00 |  |"


def test_rows_of_the_slow_side_are_spread_over_all(load):
    spread = load("harness").spread
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread(range(7), 3) == [0, 2, 4]
    assert spread(range(3), 9) == [0, 1, 2]


def test_plain_loop_agrees_with_itself_whatever_the_batches_and_counts_its_padding(load):
    harness, inputs, plain = load("harness"), load("inputs"), load("plain")
    options = harness.Options(size="tiny", rows=7, root=None)
    rows = inputs.samples(None, 7)
    model = plain.PlainRegressor(options)
    one, other = plain.score(model, rows, 2), plain.score(model, rows, 7)
    torch.testing.assert_close(one, other)
    lengths = [
        [len(ids) for ids in model.text.tokenize(texts)]
        for texts in ([r.candidate for r in rows], *([r.references[n] for r in rows] for n in (0, 1)))
    ]
    assert plain.padded_tokens(model, rows, 7) == sum(7 * max(own) for own in lengths)
    assert plain.padded_tokens(model, rows, 1) == sum(sum(own) for own in lengths)


def test_operations_are_those_that_a_profiler_counts(load):
    from torch.utils.flop_counter import FlopCounterMode

    harness, inputs, scoring = load("harness"), load("inputs"), load("scoring")
    model = inputs.regressor(harness.Options(size="tiny", rows=4, root=None), image=False, references="mean")
    model.text.backbone.set_attn_implementation("eager")
    ids = torch.full((3, 9), 5)
    with FlopCounterMode(display=False) as counted, torch.inference_mode():
        model.text.backbone(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert inputs.matrix_operations(model.text, [9, 9, 9]) == counted.get_total_flops()

    import open_clip

    vision = {"layers": 2, "width": 64, "head_width": 32, "patch_size": 16, "image_size": 32}
    text = {"context_length": 4, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}
    tower = open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text).visual
    with FlopCounterMode(display=False) as counted:  # without gradients, fused kernels hide their products
        tower.train()(torch.rand(3, 3, 32, 32))
    assert scoring._image_operations(tower, 3, 32) == pytest.approx(counted.get_total_flops(), rel=0.01)
