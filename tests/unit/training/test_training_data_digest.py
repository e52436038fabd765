"""Digests of training data: what decides the weights counts, where files lie does not."""

import json
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from suisei.data.pairs import ImageCaptions
from suisei.data.sample import CaptionSample, Rating
from suisei.encoders.image import ImageEncoderConfig
from suisei.encoders.text_config import TextEncoderConfig
from suisei.errors import ModelError
from suisei.models.config import FusionConfig, RegressorConfig
from suisei.training.data_digest import (
    captioned_digests,
    check_same_as_folds,
    check_same_data,
    data_digests,
    encoder_digests,
    model_digest,
)
from suisei.training.support import Support


@pytest.fixture
def sample(tmp_path):
    (tmp_path / "a.png").write_bytes(b"an image")
    rating = Rating((0.2, 0.4), 0, 1)
    return CaptionSample(
        "犬が走る", ("a dog runs",), image=tmp_path / "a.png", rating=rating, group="g", id="1"
    )


def digests(*samples, support=None):
    parts = {"train": list(samples), "validation": list(samples[:1]), "test": list(samples[:1])}
    given = {"part": parts.__getitem__, "samples": samples, "support_data": support or Support()}
    return data_digests(SimpleNamespace(**given))


CHANGES = {
    "rating": {"rating": Rating((0.2, 0.5), 0, 1)},
    "scale": {"rating": Rating((0.2, 0.4), 0, 2)},
    "one rating less": {"rating": Rating((0.2,), 0, 1)},
    "candidate": {"candidate": "猫が走る"},
    "reference": {"references": ("a cat runs",)},
    "group": {"group": "h"},
    "no image": {"image": None},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_the_weights_counts(sample, change):
    other = CaptionSample("a cat", ("a cat sits",), rating=Rating((1.0,), 0, 1))
    before, after = digests(other, sample), digests(other, replace(sample, **CHANGES[change]))
    assert before["train"] != after["train"]
    assert before["validation"] == after["validation"]
    assert digests(sample, other)["train"] != before["train"]  # the order of batches follows that of samples


def test_data_may_be_moved_but_not_its_images_changed(sample, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "a.png"
    moved.write_bytes(b"an image")
    assert digests(replace(sample, image=moved)) == digests(sample)
    moved.write_bytes(b"another image")
    assert digests(replace(sample, image=moved)) != digests(sample)


def test_images_with_captions_may_be_moved_but_not_changed(tmp_path):
    def digest(folder, content=b"an image", generated=b"another", captions=("a dog", "犬")):
        (tmp_path / folder).mkdir()
        image, made = tmp_path / folder / "a.png", tmp_path / folder / "b.png"
        image.write_bytes(content)
        made.write_bytes(generated)
        return captioned_digests(train=[ImageCaptions(image, captions, (made,))])["train"]

    before = digest("here")
    assert digest("there") == before
    others = (
        digest("larger", content=b"an image of a dog"),
        digest("made anew", generated=b"one more"),
        digest("turned", captions=("犬", "a dog")),
    )
    assert len({before, *others}) == 4


def test_a_model_is_known_by_its_files_wherever_they_are(tmp_path):
    def digest(name, **files):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
        return model_digest([str(tmp_path / name)])

    before = digest("here", weights="1", config="2")
    assert digest("there", config="2", weights="1") == before
    assert len({before, digest("x", weights="1", config="3"), digest("y", weights="1", settings="2")}) == 3
    (tmp_path / "there" / "second").mkdir()
    (tmp_path / "there" / "second" / ".hidden").write_text("3")
    assert model_digest([str(tmp_path / "there")]) == before
    file, copy = tmp_path / "here" / "weights", tmp_path / "there" / "weights"
    assert model_digest([str(file)]) == model_digest([str(copy)]) != before
    assert model_digest(["name-of/the-hub"]) != model_digest(["another-of/the-hub"])


def test_support_counts(sample, tmp_path):
    none = digests(sample)
    for support in (
        Support(groups=[("a dog", "犬")]),
        Support(rated=[sample]),
        Support(images=[(tmp_path / "a.png", ("a dog",))]),
    ):
        changed = digests(sample, support=support)
        assert changed["support"] != none["support"]
        assert changed["train"] == none["train"]


def test_other_data_are_refused_and_other_test_data_said(sample, caplog):
    now = digests(sample)
    check_same_data(now, now)
    check_same_data({}, now)  # a checkpoint of an earlier version
    with pytest.raises(
        ModelError, match=r"started with other training and support data: .* another --output"
    ):
        check_same_data({**now, "train": "x", "support": "y"}, now)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        check_same_data({**now, "test": "x"}, now)
    assert "the test data are not those" in caplog.text


@pytest.mark.parametrize("change", CHANGES)
def test_a_fold_of_other_data_than_a_finished_one_is_refused(sample, change, tmp_path):
    sample = replace(sample, references=("a dog runs", "a dog"))
    turned = replace(sample, references=sample.references[::-1])  # as the split of a fold may have it
    for fold, training in enumerate(({"data_digests": digests(turned)}, {})):  # and one of an earlier version
        (tmp_path / f"fold-{fold}").mkdir()
        (tmp_path / f"fold-{fold}" / "report.json").write_text(json.dumps({"training": training}))
    check_same_as_folds(tmp_path, digests(sample), {})
    with pytest.raises(ModelError, match="fold-0 was trained on other data"):
        check_same_as_folds(tmp_path, digests(replace(sample, **CHANGES[change])), {})


@pytest.fixture
def config(tmp_path):
    """Return settings of a model over a folder and two files of encoders, and the folder."""
    folder, tower, extra = (tmp_path / name for name in ("encoder", "tower.pt", "extra.pt"))
    folder.mkdir()
    for file in (folder / "model.safetensors", folder / "config.json", tower, extra):
        file.write_text(f"content of {file.name}")
    return RegressorConfig(
        TextEncoderConfig(str(folder)),
        ImageEncoderConfig("ViT-B-32", str(tower)),
        FusionConfig(extra_inputs=("length", f"pac-s:{extra}")),
    )


@pytest.mark.parametrize("name", ["encoder/model.safetensors", "encoder/config.json", "tower.pt", "extra.pt"])
def test_a_fold_over_another_encoder_than_a_finished_one_is_refused(sample, config, tmp_path, name):
    before = encoder_digests(config)
    for fold, training in enumerate(({"encoders": before}, {})):  # and one of an earlier version
        (tmp_path / f"fold-{fold}").mkdir()
        (tmp_path / f"fold-{fold}" / "report.json").write_text(json.dumps({"training": training}))
    check_same_as_folds(tmp_path, digests(sample), encoder_digests(config))
    (tmp_path / name).write_text("another")
    changed = tmp_path / name.partition("/")[0]
    with pytest.raises(ModelError, match=f"fold-0 was trained over another encoder: {changed} has changed"):
        check_same_as_folds(tmp_path, digests(sample), encoder_digests(config))


def test_encoders_of_the_hub_have_no_digest():
    assert encoder_digests(RegressorConfig()) == {}
