"""Every setting of a captioner's training changes what is learned: one that were ignored would fail here."""

import dataclasses
import inspect
import typing
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from suisei.captioning.caption_data import CaptionedImages
from suisei.captioning.caption_module import CaptionTraining
from suisei.captioning.caption_sources import load_captioned
from suisei.captioning.word_pretraining import WordPretraining, pretrain_tower
from suisei.encoders.tiny import TinyImageConfig
from suisei.models.pixel_store import PixelStore

SMALL = {
    "tower.name": "tiny", "tower.train": True, "layers.width": 16, "layers.heads": 2, "vocabulary": 60,
    "layers.encoder_layers": 1, "layers.decoder_layers": 1, "layers.feed_forward": 16,
}  # fmt: skip
MODEL = {
    "tower.name": ("timm:resnet10t", {"tower.pretrained": None}),
    "tower.train": (False, {"tower.name": "suisei-small"}),
    "tower.whole": (True, {}),
    "tower.image_size": (96, {"tower.name": "timm:resnet10t", "tower.pretrained": None}),
    "tower.tiny.width": (8, {}),
    "layers.width": (32, {}),
    "layers.heads": (4, {}),
    "layers.encoder_layers": (2, {}),
    "layers.decoder_layers": (2, {}),
    "layers.feed_forward": (32, {}),
    "layers.dropout": (0.5, {}),
    "layers.positions": (80, {}),
    "label_smoothing": (0.3, {}),
    "learning_rate": (1e-2, {}),
    "tower_learning_rate": (1e-2, {}),
    "weight_decay": (5.0, {"warmup_fraction": 0.0}),
    "warmup_fraction": (0.5, {}),
    "augmentation.smallest_crop": (0.1, {}),
    "augmentation.jitter": (0.9, {}),
}
DATA = {
    "language": "ja",
    "validation_share": 0.5,
    "batch_size": 1,
    "captions_per_image": 1,
    "max_length": 3,
}
ELSEWHERE = {
    "tower.pretrained",  # test_a_tower_of_timm_takes_its_weights_from_a_local_file
    "tower.last_norm",  # test_a_vision_transformer_shows_what_stands_before_its_last_norm
    "tower.mirror",  # test_kept_grids_are_what_the_tower_says
    "tower.tiny.image_size", "tower.tiny.features", "vocabulary",
    "pretraining.epochs", "pretraining.batch_size", "pretraining.learning_rate", "pretraining.weight_decay",
    "train", "validation", "test", "root", "images",  # test_captioning_data, test_captioning_training
    "on_error",  # test_a_damaged_image_costs_a_captioner_its_row_alone
}  # fmt: skip


@pytest.fixture
def pictures(tmp_path):
    """Four pictures that are not the same everywhere."""
    paths = [tmp_path / f"{name}.png" for name in ("red", "green", "blue", "white")]
    for number, path in enumerate(paths):
        image = Image.linear_gradient("L").resize((70, 80)).rotate(40 * number)
        Image.merge("RGB", (image, image.rotate(90), image)).save(path)
    return paths


def nested(kind, values):
    """Make settings of a class from {dotted name: value}."""
    hints = typing.get_type_hints(kind.__init__)
    parts: dict = {}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        parts.setdefault(first, {})[rest] = value
    return kind(**{
        name: nested(hints[name], own) if "" not in own else own[""] for name, own in parts.items()
    })  # fmt: skip


def learned(captioned, model, **data):
    """Train two steps and return what came out of them."""
    torch.manual_seed(0)
    images = CaptionedImages(str(captioned), **{"validation_share": 0.25, "batch_size": 2, **data})
    images.load(0)
    module = nested(CaptionTraining, {**SMALL, **model}).train()
    module.build(images.captions, images.languages, images.max_length)
    module._trainer = SimpleNamespace(estimated_stepping_batches=10, global_step=0)
    module.log = lambda *_, **__: None
    pixels = PixelStore(images.files, module.model.tower.image.preprocess)
    images.attach(module.model, pixels, None)
    module.model.train()
    chosen = module.configure_optimizers()
    optimizer, schedule = chosen["optimizer"], chosen["lr_scheduler"]["scheduler"]
    torch.manual_seed(0)
    for number, batch in enumerate(images.train_dataloader()):
        optimizer.zero_grad()
        module.training_step(batch, number).backward()
        optimizer.step()
        schedule.step()
    return {name: value.detach().clone() for name, value in module.model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(
        one[name].shape == other[name].shape and torch.equal(one[name], other[name]) for name in one
    )


@pytest.mark.parametrize("name", MODEL)
def test_a_setting_of_the_model_changes_what_is_learned(captioned, name):
    value, beside = MODEL[name]
    usual = learned(captioned, beside)
    assert same(usual, learned(captioned, beside))
    assert not same(usual, learned(captioned, {**beside, name: value}))


@pytest.mark.parametrize("name", DATA)
def test_a_setting_of_the_data_changes_what_is_learned(captioned, name):
    assert not same(learned(captioned, {}), learned(captioned, {}, **{name: DATA[name]}))


@pytest.mark.parametrize(
    "change", [{"epochs": 2}, {"batch_size": 4}, {"learning_rate": 1e-2}, {"weight_decay": 5.0}], ids=str
)
def test_a_setting_of_the_pre_training_changes_the_tower(build_captioner, pictures, change):
    def tower(**settings):
        model = build_captioner()
        pixels = PixelStore(pictures[:4], model.tower.image.preprocess)
        config = WordPretraining(**{"epochs": 1, "batch_size": 2, **settings})
        torch.manual_seed(0)
        tokens = [[[4]], [[5]], [[6]], [[7]]]
        pretrain_tower(model.tower, pixels, tokens, config, seed=0, change=lambda images: images)
        return model.tower.state_dict()

    assert same(tower(), tower())
    assert not same(tower(), tower(**change))


def names_of(kind, prefix=""):
    found = []
    hints = typing.get_type_hints(kind.__init__)
    for name in inspect.signature(kind).parameters:
        part = hints[name]
        found += names_of(part, f"{prefix}{name}.") if dataclasses.is_dataclass(part) else [prefix + name]
    return found


def test_every_setting_is_among_them():
    settings = {*names_of(CaptionTraining), *names_of(CaptionedImages)}
    assert settings == set(MODEL) | set(DATA) | ELSEWHERE


def test_the_size_of_a_tiny_tower_is_the_one_asked_for(captioned):
    tiny = {"tower.tiny.image_size": 96, "tower.tiny.features": 24}
    found = learned(captioned, tiny)
    assert TinyImageConfig().image_size != 96
    assert found["encoder.positions"].shape[0] == 9
    assert found["tower.image.tower.attnpool.c_proj.weight"].shape[0] == 24


def test_the_vocabulary_is_as_large_as_it_may_be():
    said = [caption for image in load_captioned("scenes", language="en")[:60] for caption in image.captions]
    sizes = []
    for vocabulary in (60, 100):
        module = nested(CaptionTraining, {**SMALL, "vocabulary": vocabulary})
        module.build(said, ["en"], 20)
        sizes.append(len(module.model.pieces))
    assert 50 < sizes[0] < sizes[1] <= 101  # the mask is one more
