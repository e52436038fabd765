"""Parameter groups: every trainable parameter once, at the rate the paper gives it."""

from collections import Counter

import pytest
import torch

from suisei.errors import ConfigError
from suisei.models.cosine_start import OFFSET_RATE, SLOPE_RATE, Line
from suisei.training import optimizers
from suisei.training.optimizers import OptimizerConfig, build_optimizer, parameter_groups, schedule_factor


@pytest.fixture
def make(build_regressor):
    """Make a regressor of the paper's layout."""

    def made(layers=1, **options):
        return build_regressor(layers=layers, references="concat", **options)

    return made


def rates_by_name(model, config):
    """{parameter name: learning rate}, after checking that each is in exactly one group."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, config)
    counted = Counter(names[parameter] for group in groups for parameter in group["params"])
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(counted) == trainable
    assert set(counted.values()) == {1}
    grouped = sum(parameter.numel() for group in groups for parameter in group["params"])
    assert grouped == sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {names[parameter]: group["lr"] for group in groups for parameter in group["params"]}


def test_layerwise_rates_of_twelve_layers(make):
    rates = rates_by_name(make(layers=12), OptimizerConfig())
    layers = set()
    for name, rate in rates.items():
        if ".encoder.layer." in name:
            layer = int(name.split(".encoder.layer.")[1].split(".")[0])
            layers.add(layer)
            assert rate == pytest.approx(1e-5 * 0.95 ** (12 - layer), rel=1e-12), name
        elif ".embeddings." in name:
            assert rate == pytest.approx(1e-5 * 0.95**13, rel=1e-12), name
        elif name.startswith("image."):
            assert rate == 1e-4, name
        else:
            assert rate == 3e-5, name
    assert layers == set(range(12))


def test_what_is_trained_beside_the_model_has_its_rates_too(make):
    line = Line()
    groups = parameter_groups(make(), OptimizerConfig(), line)
    rates = [
        [group["lr"] for group in groups if any(own is parameter for own in group["params"])]
        for parameter in (line.slope, line.offset)
    ]
    assert rates == [[SLOPE_RATE], [OFFSET_RATE]]


def test_projection_mix_and_learned_vectors_are_trained(make):
    rates = rates_by_name(make(extra_inputs=["length"]), OptimizerConfig())
    for name in (
        "fusion.project.weight",
        "fusion.project.bias",
        "fusion.missing_reference",
        "fusion.missing_image",
        "mix.logits",
        "mix.scale",
        "missing_extra",
        "members.0.fused.layers.0.weight",
    ):
        assert rates[name] == 3e-5, name


def test_path_of_the_extra_inputs_has_its_own_rate(make):
    model = make(extra_inputs=["length"], head={"extra_hidden": 3})
    own = {name for name, _ in model.named_parameters() if name.startswith("members.0.beside.")}
    assert len(own) == 4
    rates = rates_by_name(model, OptimizerConfig(extra_lr=0.2))
    assert {name for name, rate in rates.items() if rate == 0.2} == own
    assert {rates_by_name(model, OptimizerConfig())[name] for name in own} == {3e-5}


def test_the_line_through_the_cosine_has_rates_of_its_own(make):
    model = make(blocks=[], similarity=True, head={"start": "cosine"})
    rates = rates_by_name(model, OptimizerConfig())
    start = {name: rate for name, rate in rates.items() if name.startswith("start.")}
    assert start == {
        "start.references.slope": 0.2,
        "start.references.offset": 0.02,
        "start.image.slope": 0.2,
        "start.image.offset": 0.02,
        "start.nothing": 0.02,
    }


def test_frozen_encoders_are_in_no_group(make):
    rates = rates_by_name(make(text={"frozen": True}, frozen_image=True), OptimizerConfig())
    assert not [name for name in rates if name.startswith(("text.", "image."))]
    assert "fusion.project.weight" in rates
    rates = rates_by_name(make(image=False), OptimizerConfig())
    assert any(name.startswith("text.") for name in rates)


def test_every_trainable_parameter_gets_a_gradient_and_moves(make, captions):
    from suisei.data.sample import CaptionSample
    from suisei.models.table import Collator, SampleTable

    torch.manual_seed(0)
    model = make(layers=2, image=False).train()
    references = (captions[1:3], captions[:1], [])
    samples = [CaptionSample(c, r) for c, r in zip(captions, references, strict=False)]
    table = SampleTable(samples)
    batch = Collator(table, model.text.tokenize(table.captions), model.text.pad)([0, 1, 2])
    optimizer = build_optimizer(model, OptimizerConfig(head_lr=0.1, encoder_lr=0.1))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    model(batch).sum().backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert missing == []
    optimizer.step()
    still = [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])]
    # a key's bias shifts all of a query's logits alike, so its true gradient is zero
    assert [name for name in still if not name.endswith("key.bias")] == []


def test_biases_and_norms_do_not_decay(make):
    groups = parameter_groups(make(), OptimizerConfig(name="adamw", weight_decay=0.1))
    for group in groups:
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0)


def test_the_named_optimizer_is_built(make):
    model = make()
    adam = build_optimizer(model, OptimizerConfig())
    assert type(adam) is torch.optim.Adam
    assert type(build_optimizer(model, OptimizerConfig(name="adamw"))) is torch.optim.AdamW


def test_gradients_of_a_fused_optimizer_can_be_clipped_in_mixed_precision(make, monkeypatch):
    """Of an optimizer that unscales them itself, the trainer refuses to."""
    from lightning.pytorch.plugins import MixedPrecision

    monkeypatch.setattr(optimizers, "FUSED_WEIGHTS", 1)
    model = make()
    optimizer = build_optimizer(model, OptimizerConfig())
    for parameter in model.members[0].parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    MixedPrecision("bf16-mixed", "cpu").clip_gradients(optimizer, 0.5)
    clipped = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    assert float(torch.cat([gradient.flatten() for gradient in clipped]).norm()) == pytest.approx(
        0.5, rel=1e-3
    )


def test_constant_schedule_with_warmup():
    factor = schedule_factor(OptimizerConfig(warmup_fraction=0.3), 10)
    assert [factor(step) for step in range(5)] == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    assert schedule_factor(OptimizerConfig(), 10)(9999) == 1


@pytest.mark.parametrize(
    ("name", "last"), [("linear", [1, 0.75, 0.5, 0.25, 0]), ("cosine", [1, 0.854, 0.5, 0.146, 0])]
)
def test_rates_fall_from_the_end_of_the_warmup_on(name, last):
    factor = schedule_factor(OptimizerConfig(schedule=name, warmup_fraction=0.2), 5)
    assert [factor(step) for step in range(1, 6)] == pytest.approx(last, abs=1e-3)


def test_linear_and_cosine_end_at_zero_and_never_below():
    for name, middle in (("linear", 0.5), ("cosine", 0.5)):
        factor = schedule_factor(OptimizerConfig(schedule=name), 10)
        values = [factor(step) for step in range(15)]
        assert values[0] == 1
        assert values[5] == pytest.approx(middle)
        assert values[10:] == pytest.approx([0] * 5, abs=1e-12)
        assert values == sorted(values, reverse=True)
        assert schedule_factor(OptimizerConfig(schedule=name), 0)(0) >= 0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "sgd", "adam, adamw"),
        ("schedule", "step", "constant, linear, cosine"),
        ("frozen_fraction", 1.5, "frozen_fraction"),
        ("warmup_fraction", -0.1, "warmup_fraction"),
        ("head_lr", 0.0, "head_lr"),
        ("encoder_lr", float("nan"), "encoder_lr"),
        ("image_lr", -1.0, "image_lr"),
        ("extra_lr", 0.0, "extra_lr"),
        ("layerwise_decay", 0.0, "layerwise_decay"),
        ("weight_decay", -0.5, "weight_decay"),
    ],
)
def test_impossible_settings_are_refused(field, value, message):
    with pytest.raises(ConfigError, match=message):
        OptimizerConfig(**{field: value})
