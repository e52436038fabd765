"""Ranges of settings, and that every setting of a training has one."""

import dataclasses
import inspect
import math
from collections.abc import Mapping

import pytest
from jsonargparse import ArgumentParser
from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from suisei.captioning import (
    caption_data,
    caption_model,
    caption_module,
    grid_tower,
    rewarded_images,
    self_critical,
    transformer,
    word_pretraining,
)
from suisei.encoders import image, text_config, tiny
from suisei.errors import ConfigError, ModelError
from suisei.models import config
from suisei.pacs import dual_module as pacs
from suisei.pacs import pair_datamodule
from suisei.ranges import Either, Entries, Of, Range, Several, Suits, Word, at_least, check, or_null
from suisei.recap import caption_batches, image_towers, language_models, latent_training, prefix_training
from suisei.training import (
    augment,
    datamodule,
    objective,
    optimizers,
    plain_parser,
    pretraining,
    trainer_settings,
)
from suisei.training import module as suisei

RULES = {
    tiny.TinyTextConfig: tiny.TEXT,
    tiny.TinyImageConfig: tiny.IMAGE,
    text_config.TextEncoderConfig: text_config.RULES,
    image.ImageEncoderConfig: image.RULES,
    config.FusionConfig: config.FUSION,
    config.HeadConfig: config.HEAD,
    optimizers.OptimizerConfig: optimizers.RULES,
    objective.LossConfig: objective.RULES,
    pretraining.PretrainingConfig: pretraining.RULES,
    datamodule.CaptionDataModule: datamodule.RULES,
    pair_datamodule.PairDataModule: pair_datamodule.RULES,
    pacs.PacTraining: pacs.RULES,
    caption_batches.LatentData: caption_batches.RULES,
    image_towers.TowerConfig: image_towers.RULES,
    language_models.TinyLanguageModel: language_models.TINY,
    latent_training.LatentTraining: latent_training.RULES,
    prefix_training.PrefixTraining: prefix_training.RULES,
    rewarded_images.RewardedImages: rewarded_images.RULES,
    self_critical.SelfCritical: self_critical.RULES,
    grid_tower.TowerConfig: grid_tower.TOWER,
    transformer.TransformerConfig: transformer.LAYERS,
    word_pretraining.WordPretraining: word_pretraining.RULES,
    augment.Augmentation: augment.AUGMENTATION,
    caption_module.CaptionTraining: caption_module.RULES,
    caption_data.CaptionedImages: caption_data.RULES,
    caption_model.Decoding: caption_model.DECODING,
}
ELSEWHERE = {
    text_config.TextEncoderConfig: {"tiny"},
    image.ImageEncoderConfig: {"tiny"},
    datamodule.CaptionDataModule: {"train", "validation", "test", "support", "root", "images", "fold"},
    pair_datamodule.PairDataModule: {"root"},
    pacs.PacTraining: {"architecture"},
    caption_batches.LatentData: {"root"},
    latent_training.LatentTraining: {"image"},
    prefix_training.PrefixTraining: {"image", "tiny"},
    grid_tower.TowerConfig: {"tiny"},
    caption_module.CaptionTraining: {"tower", "layers", "pretraining", "augmentation"},
    caption_data.CaptionedImages: {"validation", "test", "root", "images"},
}
"""Settings with rules of their own, and names of files, which are looked for when they are read."""


@pytest.mark.parametrize("owner", RULES, ids=lambda owner: owner.__name__)
def test_every_setting_has_a_rule_that_its_default_follows(owner):
    parameters = inspect.signature(owner).parameters
    assert set(parameters) == set(RULES[owner]) | ELSEWHERE.get(owner, set())
    for name, rule in RULES[owner].items():
        check(name, parameters[name].default, rule)


@pytest.mark.parametrize("owner", RULES, ids=lambda owner: owner.__name__)
def test_the_command_line_knows_the_type_and_the_meaning_of_every_setting(owner):
    parser = ArgumentParser()
    parser.add_class_arguments(owner, "part")
    told = {action.dest: action.help for action in parser._actions if action.dest.startswith("part.")}
    assert set(told) >= {f"part.{name}" for name in RULES[owner]}
    assert all(told.values())
    assert "Unvalidated" not in parser.format_help()


def test_every_setting_of_the_trainer_is_known():
    parameters = inspect.signature(Trainer.__init__).parameters
    beside = {
        "self", "devices", "logger", "profiler", "max_time", "limit_train_batches", "limit_val_batches",
        "limit_test_batches", "limit_predict_batches", "val_check_interval", "enable_progress_bar",
        "enable_model_summary", "benchmark", "default_root_dir", "enable_autolog_hparams",
    }  # fmt: skip
    assert set(parameters) == set(trainer_settings.TRAINER) | beside
    assert set(plain_parser.PLAIN) <= set(parameters)


def bad_values(rule):
    """Values that break a rule: out of range on both sides, of another type, and no number."""
    if isinstance(rule, Range):
        bad = [-1e12, 1e15, math.nan, math.inf, -math.inf, "1", True, [1]]
        bad += [rule.low] if rule.above else [rule.low - 1]
        bad += [rule.high] if rule.below else [rule.high + 1]
        bad += [1.5] if rule.whole else []
    elif isinstance(rule, Either):
        bad = [own for each in (rule.first, rule.second) for own in bad_values(each) if not rule.holds(own)]
    elif isinstance(rule, Several):
        bad = ["text", 3, [None] * (rule.most + 1), [bad_values(rule.each)[0]], {}]
    elif isinstance(rule, Word):
        bad = ["no such word", 77, ["x"]]
    else:
        bad = [1.5, ["x"], *(["", " "] if rule.kind is str else ["true", 1])]
    return [*bad, *([] if rule.null else [None])]


CASES = [
    (owner, name, value)
    for owner, rules in RULES.items()
    for name, rule in rules.items()
    for value in bad_values(rule)
]


@pytest.mark.parametrize(
    ("owner", "name"), list(dict.fromkeys((o, n) for o, n, _ in CASES)),
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)  # fmt: skip
def test_a_value_that_breaks_its_rule_is_refused_by_name(owner, name):
    values = [value for o, n, value in CASES if (o, n) == (owner, name)]
    assert len(values) > 2
    for value in values:
        with pytest.raises(ConfigError, match=rf"\b{name} is ") as error:
            owner(**{name: value})
        assert "it must be" in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [-0.1, 1, math.nan, "x", None, True])
@pytest.mark.parametrize("name", ["reference_dropout", "image_dropout"])
def test_dropped_inputs_are_a_share_below_all(name, value):
    with pytest.raises(ConfigError, match=rf"model\.{name} is "):
        suisei.SuiSei(**{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fractions": (0.5, 0.1, 0.1)}, r"data\.fractions .* sums to 0\.7"),
        ({"fractions": (0.0, 0.5, 0.5)}, r"data\.fractions .* the first above 0"),
        ({"fractions": (1.2, -0.1, -0.1)}, r"data\.fractions .* each a number from 0 to 1"),
        ({"fold": 1}, r"data\.fold is 1 without data\.folds"),
        ({"folds": 3, "fold": 3}, r"data\.fold is 3; it must be an integer from 0 to 2"),
        ({"folds": 3, "fold": -1}, r"data\.fold is -1"),
        ({"folds": 1}, r"data\.folds is 1; it must be an integer from 2 to 1,000, or 0"),
        ({"train": []}, r"data\.train is \[\]"),
        ({"train": [" "]}, r"data\.train is \[' '\]"),
    ],
)
def test_splits_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        datamodule.CaptionDataModule(**options)


def test_sizes_that_do_not_go_together_are_refused():
    with pytest.raises(ConfigError, match=r"tiny\.width is 10; it must be a multiple of its 4"):
        tiny.TinyTextConfig(width=10)
    with pytest.raises(ConfigError, match=r"architecture\.embed_dim is 0"):
        pacs.Architecture(0, {})


def test_a_rule_says_itself_in_words():
    assert str(Range(0, 1)) == "a number from 0 to 1"
    assert str(Range(0, 1, above=True, null=True)) == "a number above 0 and at most 1, or null"
    assert str(Range(0, 1, below=True)) == "a number from 0 to below 1"
    assert str(at_least(2, 1000, also=(0,))) == "an integer from 2 to 1,000, or 0"
    assert str(Word(("a", "b"), null=True)) == "one of a, b, null"
    assert str(Word((False,))) == "false"
    assert str(Several(Of(str), 1, 3)) == "a list of 1 to 3, each a text that is not blank"


def test_rules_of_rules_say_themselves_in_words():
    assert str(Either(Range(0, 1), Of(bool))) == "a number from 0 to 1, or true or false"
    assert (
        str(Entries({"eps": Range(0, 1)}, null=True)) == "named values (eps: a number from 0 to 1), or null"
    )
    assert str(or_null(Suits("even", lambda value: value % 2 == 0))) == "even, or null"
    assert str(Of(Mapping)) == "settings by name"
    assert str(Word(("", "mlp"))) == "one of '', mlp"


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Either(Range(0, 1), Of(bool)), [0.5, True, 1], [2, "x", None, [0.5]]),
        (Entries({"eps": Range(0, 1)}), [{}, {"eps": 1}], [{"eps": 2}, {"other": 1}, [], None]),
        (or_null(Entries({"eps": Range(0, 1)})), [None], [{"eps": None}]),
        (Suits("even", lambda value: value in (2, 4)), [2], [1, None]),
        (
            or_null(Several(Either(Of(bool), Word(("a",))), 1, 2)),
            [None, ["a"], (True, "a")],
            [[], ["b"], "a"],
        ),
        (Of(Mapping), [{}, {"a": 1}], [[], "a", None]),
    ],
)
def test_rules_of_rules(rule, good, bad):
    assert all(rule.holds(value) for value in good)
    assert not any(rule.holds(value) for value in bad)


@pytest.mark.parametrize("rule", [at_least(1, 10), Range(0, 1), at_least(1, 10, null=True)])
def test_an_integer_beyond_all_floats_is_out_of_range(rule):
    for value in (10**400, -(10**400)):
        with pytest.raises(ConfigError, match=r"x is -?1000.*it must be"):
            check("x", value, rule)


def test_a_value_is_refused_as_what_it_belongs_to():
    with pytest.raises(ModelError, match=r"model.x is null; it must be true or false"):
        check("model.x", None, Of(bool), error=ModelError)


def test_a_long_value_is_cut():
    with pytest.raises(ConfigError) as error:
        check("x", "y" * 10_000, Of(bool))
    assert len(str(error.value)) < 150


def test_the_settings_are_plain_dataclasses():
    for owner in RULES:
        if dataclasses.is_dataclass(owner) and not issubclass(owner, LightningModule | LightningDataModule):
            assert owner() == owner()


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("head", "members", 10**6),
        ("head", "hidden", [50_000]),
        ("head", "dropout", "0.1"),
        ("text", "name", 3),
    ],
)
def test_a_model_s_settings_out_of_range_are_refused_as_the_model_s(part, name, value):
    settings = config.RegressorConfig().to_dict()
    assert config.RegressorConfig.from_dict(settings).to_dict() == settings
    settings[part] = {**settings[part], name: value}
    with pytest.raises(ModelError, match=rf"model\.{part}\.{name} is "):
        config.RegressorConfig.from_dict(settings)
