"""What a tuning by rewards writes beside its model: captions, tables, curve and samples."""

import json

import numpy as np
import pytest
from PIL import Image

from suisei.captioning import caption_run, self_critical_run
from suisei.captioning.caption_model import load_caption_model
from suisei.captioning.caption_sources import CaptionedImage, check_test_images
from suisei.captioning.rewards import Rewards
from suisei.captioning.self_critical import SelfCritical
from suisei.captioning.self_critical_run import run
from suisei.data import images
from suisei.errors import ConfigError, DataError
from tests.unit.captioning.tuning import arguments, lines, logged
from tests.unit.moves import recorded


def test_what_is_computed_beside_the_steps_is_computed_where_they_are(monkeypatch, folder, tmp_path):
    """The trainer has the captioner on its device while it fits, and on the CPU before and after."""
    seen = recorded(monkeypatch, self_critical_run, "ImageGrids", "_captions")
    more = [f"--data.test={folder / 'dev.jsonl'}", "--data.test_images=2"]
    assert run(arguments(folder, tmp_path / "run", *more)) == 0
    assert seen == [("ImageGrids", "cpu"), ("_captions", "cpu"), ("ImageGrids", "cpu")]


def test_empty_captions_are_in_no_file_of_the_comparison(monkeypatch, folder, tmp_path):
    output, said = tmp_path / "run", {"start": [" ", "a dog"], "tuned": ["a cat", "..."]}
    monkeypatch.setattr(self_critical_run, "_captions", lambda *_: said)
    more = [f"--data.test={folder / 'dev.jsonl'}", "--data.test_images=2", "--report_metrics=[length]"]
    assert run(arguments(folder, output, *more)) == 0
    assert [row["candidate"] for row in lines(output / "captions_start.jsonl")] == ["a dog"]
    assert [row["candidate"] for row in lines(output / "captions_tuned.jsonl")] == ["a cat", "..."]
    page = (output / "report.md").read_text()
    for system in said:
        assert f"{system}: 1 caption without a word, with the worst score" in page


@pytest.mark.parametrize("silent", [("start",), ("tuned",), ("start", "tuned")])
def test_a_model_that_says_nothing_is_written_and_reported_all_the_same(
    monkeypatch, folder, tmp_path, silent
):
    output, names = tmp_path / "run", ("start", "tuned")
    said = {name: ["", " "] if name in silent else ["a cat", "a dog"] for name in names}
    monkeypatch.setattr(self_critical_run, "_captions", lambda *_: said)
    more = [f"--data.test={folder / 'dev.jsonl'}", "--data.test_images=2"]
    assert run(arguments(folder, output, *more)) == 0
    assert load_caption_model(output / "model").languages == ("en",)
    notes = json.loads((output / "report.json").read_text())["comparison"]["notes"]
    written = {name for name in names if (output / f"captions_{name}.jsonl").exists()}
    assert written == set(names) - set(silent)
    told = {f"{name}: 2 captions without a word, with the worst score" for name in silent}
    assert {note for note in notes if "without a word" in note} == told


@pytest.mark.parametrize(("count", "told"), [(1, "in 2 minutes."), (2, "in 2 minutes by 2 processes.")])
def test_the_report_says_how_many_processes_trained(count, told):
    said = {"start": "s", "reward": "cider", "baseline": "greedy", "images": {"train": 4}, "steps": 3}
    said |= {"kept": None, "skipped_rows": 0, "minutes": 2.0, "processes": count}
    assert self_critical_run._described({**said, "reward_share_of_step": None}).endswith(told)


def test_what_a_run_writes(folder, tmp_path):
    output = tmp_path / "run"
    more = [f"--data.test={folder / 'dev.jsonl'}", "--data.test_images=6", "--model.shown=3"]
    more += ["--reward=cider+0.5*repetition-1", "--report_metrics=[BLEU-1,CIDEr,length]"]
    more += ["--trainer.val_check_interval=4"]
    assert run(arguments(folder, output, *more)) == 0
    report = json.loads((output / "report.json").read_text())
    said = report["training"]
    assert said["steps"] == 6
    tuned = [row for row in lines(output / "curve.jsonl") if row["step"]]
    assert [row["step"] for row in tuned] == [4, 6]  # what is learned last can be kept too
    assert said["kept"] == max(tuned, key=lambda row: row["reward"])["step"]
    assert said["images"] == {"train": 8, "validation": 8}
    assert set(said["reward_signatures"]) == {"cider", "repetition-1"}
    assert "8-documents" in said["reward_signatures"]["cider"]
    assert 0 < said["reward_share_of_step"] < 1
    compared = {each["metric"]: each for each in report["comparison"]["metrics"]}
    assert list(compared) == ["cider", "repetition-1", "bleu-1", "length"]
    assert compared["cider"]["images"] == 6
    assert compared["cider"]["pairs"][0]["p_bootstrap"] <= 1
    assert set(report["comparison"]["texts"]) == {"start", "tuned"}
    for name in ("captions_start.jsonl", "captions_tuned.jsonl"):
        assert len(lines(output / name)) == 6
    assert (output / "curve.png").stat().st_size > 1000
    page = (output / "report.md").read_text()
    assert "![the curve](curve.png)" in page
    assert f"6 steps (kept: step {said['kept']})" in page
    assert "| start |" in page
    samples = lines(output / "samples.jsonl")
    first = [row for row in samples if row["step"] == 0]
    assert [row["image"] for row in first] == ["dev0.png", "dev1.png", "dev2.png"]
    last = {}
    for row in samples:  # a caption is written when it is another one
        assert last.get(row["image"]) != row["caption"]
        last[row["image"]] = row["caption"]
    for name in ("reward", "reward_std", "baseline", "advantage_size", "skipped", "reward/repetition-1"):
        assert len(logged(output, name)) == 6, name
    with pytest.raises(ConfigError, match="holds a run already"):
        run(arguments(folder, output))


@pytest.mark.parametrize(("reward", "baseline", "said"), [("length", "greedy", 1), ("cider", "beam-mean", 0)])
def test_a_reward_that_tells_no_captions_apart_is_said_once(
    folder, tmp_path, caplog, monkeypatch, reward, baseline, said
):
    if said:
        monkeypatch.setattr(SelfCritical, "_reward", lambda _, texts, pairs: all_the_same(texts))
    more = [f"--reward={reward}", f"--model.baseline={baseline}", "--trainer.val_check_interval=2"]
    assert run(arguments(folder, tmp_path / "run", *more)) == 0
    told = [text for text in caplog.messages if "teaches nothing" in text]
    assert len(told) == said
    shares = logged(tmp_path / "run", "no_difference")
    assert len(shares) == 6
    assert (min(shares) == 1) == bool(said)
    if said:
        assert told[0].startswith("of 100 % of the images so far (8 of 8) no caption is worth more or less")


def test_a_resumed_run_counts_the_images_before_it_too(folder, tmp_path, caplog, monkeypatch):
    """Four steps taught something, and the last two nothing."""
    original = SelfCritical.training_step

    def killed(self, positions, batch_idx):
        if self.trainer.global_step == 4:
            raise RuntimeError("a power cut")
        return original(self, positions, batch_idx)

    given = arguments(folder, tmp_path / "run", "--trainer.val_check_interval=2")
    with monkeypatch.context() as patch:
        patch.setattr(SelfCritical, "training_step", killed)
        patch.setattr(SelfCritical, "_reward", lambda _, texts, pairs: all_the_same(texts, 1.0))
        with pytest.raises(RuntimeError, match="power cut"):
            run(given)
    monkeypatch.setattr(SelfCritical, "_reward", lambda _, texts, pairs: all_the_same(texts))
    assert run([*given, "--ckpt_path=last"]) == 0
    assert logged(tmp_path / "run", "no_difference")[-2:] == [1, 1]
    assert "teaches nothing" not in caplog.text


def all_the_same(texts, apart=0.0):
    """Return rewards of captions that are all worth the same, or each so much more than the one before."""
    shape = (len(texts), len(texts[0]))
    return Rewards(np.full(shape, 0.1) + apart * np.arange(shape[1]), {}, np.zeros(shape, bool))


def of_captioner(folder, output, *more):
    given = [f"--data.train={folder / 'train.jsonl'}", f"--data.validation={folder / 'dev.jsonl'}"]
    given += ["--model.tower.name=tiny", "--model.tower.train=true", f"--output={output}"]
    return [*given, *more]


def a_cut_image(folder, tmp_path, caption):
    """Write a test file of two images, the second of which is cut off; returns the setting that names it."""
    (tmp_path / "whole.png").write_bytes((folder / "0.png").read_bytes())
    (tmp_path / "cut.png").write_bytes((folder / "0.png").read_bytes()[:60])
    rows = [
        {"image": "whole.png", "captions": ["a wall"]},
        {"image": "cut.png", "captions": [caption]},
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"--data.test={tmp_path / 'test.jsonl'}"


@pytest.mark.parametrize("task", [self_critical_run, caption_run])
def test_a_test_image_that_is_damaged_is_told_before_the_training(folder, tmp_path, monkeypatch, task):
    monkeypatch.setattr(task, "train", lambda *_: pytest.fail("trained"))
    given = arguments if task is self_critical_run else of_captioner
    cut = a_cut_image(folder, tmp_path, "a wall")
    with pytest.raises(DataError, match=r"test\.jsonl: 1 of 2 test images cannot be read: .*cut\.png"):
        task.run(given(folder, tmp_path / "run", cut))


def test_a_test_image_that_is_not_reported_on_may_be_damaged(folder, tmp_path, monkeypatch):
    def trained(*_):
        raise InterruptedError("trained")

    monkeypatch.setattr(caption_run, "train", trained)
    with pytest.raises(InterruptedError):  # no training caption is Japanese
        caption_run.run(of_captioner(folder, tmp_path / "run", a_cut_image(folder, tmp_path, "白い壁")))


def test_settings_are_refused_before_test_images_are_looked_at(folder, tmp_path):
    cut = a_cut_image(folder, tmp_path, "a wall")
    with pytest.raises(ConfigError, match=r"data\.max_length is 40"):
        caption_run.run(
            of_captioner(folder, tmp_path / "run", cut, "--data.max_length=40", "--model.layers.positions=20")
        )


def test_test_images_are_decoded_no_larger_than_they_need_be(tmp_path, monkeypatch):
    sizes, decoded = [], images._decoded
    monkeypatch.setattr(
        images, "_decoded", lambda image, *a, **k: sizes.append(image.size) or decoded(image, *a, **k)
    )
    file = tmp_path / "large.jpg"
    Image.new("RGB", (1600, 800)).save(file)
    check_test_images([CaptionedImage(file, ("a",), ("en",), "large.jpg")], "test.jsonl")
    assert sizes == [(200, 100)]
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(DataError, match=r"large\.jpg"):
        check_test_images([CaptionedImage(file, ("a",), ("en",), "large.jpg")], "test.jsonl")
