"""Damaged images, bad rows and changed data in trainings of a captioner: by cross-entropy and by a reward."""

import json
import shutil
from dataclasses import replace

import pytest

from suisei.captioning import self_critical_run
from suisei.captioning.caption_run import run as train_captioner
from suisei.captioning.caption_sources import CaptionedImage
from suisei.errors import DataError, ModelError
from suisei.training.data_digest import captioned_digests
from tests.unit.captioning.tuning import arguments


@pytest.fixture
def damaged(folder, tmp_path):
    """The pictures and captions, of which one is cut off in training and one in validation."""
    copy = tmp_path / "data"
    shutil.copytree(folder, copy)
    for name in ("3.png", "dev5.png"):
        (copy / name).write_bytes((copy / name).read_bytes()[:50])
    return copy


def assert_two_left_out(report, damaged):
    assert report["images"]["train"] == report["images"]["validation"] == 7
    assert report["skipped_rows"] == 2
    assert f"{damaged / 'train.jsonl'}: {damaged / '3.png'}: " in report["first_skipped"]


def settings(data, output):
    """Return the settings of a short run by cross-entropy."""
    return [
        f"--data.train={data / 'train.jsonl'}",
        f"--data.validation={data / 'dev.jsonl'}",
        "--model.tower.name=tiny",
        "--model.tower.train=true",
        "--model.pretraining.epochs=0",
        "--model.vocabulary=60",
        "--model.layers={width: 32, heads: 4, encoder_layers: 1, decoder_layers: 1, feed_forward: 64}",
        "--monitor=val_loss",
        "--trainer.max_epochs=1",
        "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false",
        f"--output={output}",
    ]


def test_a_damaged_image_costs_a_captioner_its_row_alone(damaged, tmp_path, caplog):
    given = settings(damaged, tmp_path / "run")
    with pytest.raises(DataError, match=r"3\.png"):
        train_captioner(given)
    assert train_captioner([*given, "--data.on_error=skip"]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert_two_left_out(report, damaged)
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "7 for validation, which chose the\nweights. Left out: 2 bad rows.\n" in card
    assert "2 bad rows skipped, the first: " in caplog.text


def test_a_damaged_image_costs_tuning_its_row_alone(damaged, tmp_path, caplog):
    given = self_critical_run.written_out([*arguments(damaged, tmp_path / "run"), "--trainer.max_steps=3"])
    with pytest.raises(DataError, match=r"3\.png"):
        self_critical_run.run(given)
    assert self_critical_run.run([*given, "--data.on_error=skip"]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))["training"]
    assert_two_left_out(report, damaged)
    assert "2 bad rows skipped, the first: " in caplog.text
    page = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "on 7 images (2 bad rows left out): 3 steps" in page


def test_other_data_are_refused_where_a_training_goes_on(folder, tmp_path, caplog):
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    rows = (data / "dev.jsonl").read_text(encoding="utf-8")
    (data / "test.jsonl").write_text(rows.replace('"dev', '"test'), encoding="utf-8")
    for picture in data.glob("dev*.png"):
        shutil.copy(picture, data / picture.name.replace("dev", "test"))
    given = [*settings(data, tmp_path / "run"), f"--data.test={data / 'test.jsonl'}"]
    assert train_captioner(given) == 0
    tuned = self_critical_run.written_out([*arguments(data, tmp_path / "tuned"), "--trainer.max_steps=3"])
    assert self_critical_run.run(tuned) == 0
    (data / "dev.jsonl").write_text(rows.replace("a red wall", "a rusty wall"), encoding="utf-8")
    for run, settled in ((train_captioner, given), (self_critical_run.run, tuned)):
        with pytest.raises(ModelError, match="started with other validation data"):
            run([*settled, "--ckpt_path=last"])
    (data / "dev.jsonl").write_text(rows, encoding="utf-8")
    test_rows = (data / "test.jsonl").read_text(encoding="utf-8")
    (data / "test.jsonl").write_text(test_rows.replace("a red wall", "a rusty wall"), encoding="utf-8")
    assert train_captioner([*given, "--trainer.max_epochs=2", "--ckpt_path=last"]) == 0
    assert "the test data are not those that the run was started with" in caplog.text


def test_other_models_of_the_reward_are_refused_where_a_tuning_goes_on(folder, model_folder, tmp_path):
    reward = tmp_path / "reward"
    shutil.copytree(model_folder, reward)
    given = self_critical_run.written_out([*arguments(folder, tmp_path / "run"), f"--reward=suisei:{reward}"])
    assert self_critical_run.run([*given, "--trainer.max_steps=2"]) == 0
    (reward / ".DS_Store").touch()
    (reward / "README.md").write_text("a card of another's", encoding="utf-8")
    assert self_critical_run.run([*given, "--trainer.max_steps=3", "--ckpt_path=last"]) == 0
    (reward / "more.txt").touch()
    with pytest.raises(ModelError, match="started with other files of models of the reward"):
        self_critical_run.run([*given, "--trainer.max_steps=4", "--ckpt_path=last"])


def test_what_tells_captioned_images_apart(damaged):
    image = CaptionedImage(damaged / "0.png", ("a red wall",), ("en",), "0.png")

    def digest(**changes):
        return captioned_digests(train=[replace(image, **changes)])

    assert digest(id=str(damaged / "0.png")) == digest()  # where the folder is does not count
    assert digest(languages=("ja",)) != digest()
    assert digest(captions=("a wall",)) != digest()
    assert digest(image=damaged / "1.png") != digest()
