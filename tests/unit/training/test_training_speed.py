"""What makes training faster must not change what is learned."""

import copy
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suisei.data.sample import CaptionSample, Rating
from suisei.encoders.precision import quick_gradients
from suisei.encoders.text import SMALL_ENCODER, TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.errors import ConfigError
from suisei.models.table import Collator, SampleTable
from suisei.training import module as training_module
from suisei.training import optimizers
from suisei.training.optimizers import OptimizerConfig, build_optimizer

TINY = TinyTextConfig(vocabulary=150, width=16, layers=3)


def batch_of(model, captions, overhead=None):
    table = SampleTable([CaptionSample(caption, tuple(captions[:2])) for caption in captions])
    return Collator(table, model.text.tokenize(table.captions), model.text.pad, overhead=overhead)(
        range(len(captions))
    )


def gradients(model, batch):
    model.zero_grad()
    model(batch).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_captions_encoded_in_parts_have_the_same_scores_and_gradients(build_regressor, captions):
    model = build_regressor(image=False)
    whole, parts = batch_of(model, captions), batch_of(model, captions, overhead=0)
    assert len(parts.spans) > 2
    torch.testing.assert_close(model(parts), model(whole))
    padding = sum(end - start for start, end, _ in parts.spans) * parts.ids.shape[1] - parts.mask.sum()
    computed = sum((end - start) * width for start, end, width in parts.spans)
    assert padding > 0
    assert computed == parts.mask.sum()  # with no overhead, nothing is padded
    one, other = gradients(model, whole), gradients(model, parts)
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, msg=name)


class Conversions(TorchDispatchMode):
    """Counts the tensors of some shape that become another type."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.types = shape, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and found.shape == self.shape:
            self.types.append(found.dtype)
        return found


@pytest.mark.parametrize("recomputed", [False, True])
def test_in_mixed_precision_a_weight_and_its_gradient_are_converted_once_for_all_parts(
    build_regressor, captions, recomputed
):
    model = build_regressor(image=False, text={"checkpointing": True})  # of transformers', which has parts
    batch = batch_of(model, captions, overhead=0)
    exact, shape = (
        gradients(model, batch),
        model.text.backbone.encoder.layer[0].intermediate.dense.weight.shape,
    )
    same = sum(parameter.shape == shape for parameter in model.parameters())
    with Conversions(shape) as seen, torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        with quick_gradients(recomputed=recomputed):
            loss = model(batch).sum()
        assert not torch.is_autocast_cache_enabled()
        model.zero_grad()
        loss.backward()
    times = same * (len(batch.spans) if recomputed else 1)
    assert len(batch.spans) > 2
    assert Counter(seen.types) == {torch.bfloat16: times, torch.float32: times}
    for name, parameter in model.named_parameters():
        if name in exact:
            torch.testing.assert_close(parameter.grad, exact[name], atol=0.02, rtol=0.1, msg=name)


def test_a_weight_that_has_changed_is_converted_anew():
    """Also inside somebody's own block of mixed precision, which would keep what was converted to its end."""
    layer, said = torch.nn.Linear(2, 2, bias=False), []
    with torch.autocast("cpu", torch.bfloat16):
        for value in (1.0, 2.0):
            torch.nn.init.constant_(layer.weight, value)
            with quick_gradients():
                said.append(float(layer(torch.ones(1, 2)).sum()))
    assert said == [4.0, 8.0]


def test_layers_that_are_computed_twice_convert_their_weights_for_themselves(monkeypatch, captions):
    given = []

    def watched(**options):
        given.append(options)
        return quick_gradients(**options)

    monkeypatch.setattr(training_module, "quick_gradients", watched)
    for checkpointing in (False, True):
        model = training_module.SuiSei(
            text=TextEncoderConfig(name="tiny", tiny=TINY, checkpointing=checkpointing), image=None
        )
        model.build(
            [CaptionSample(own, tuple(captions[:2]), rating=Rating((0.5,), 0, 1)) for own in captions]
        )
        monkeypatch.setattr(model, "log", lambda *_, **__: None)
        batch = batch_of(model.regressor, captions)
        batch.target = torch.full((len(captions),), 0.5)
        model.training_step(batch, 0)
    assert given == [{"recomputed": False}, {"recomputed": True}]


def test_only_large_encoders_are_worth_parts():
    small = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY), ["a red ball"] * 4)
    assert small.call_overhead() is None
    wide = TinyTextConfig(vocabulary=150, width=512, layers=2)
    large = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=wide), ["a red ball"] * 4)
    counted = [p.numel() for name, p in large.backbone.named_parameters() if "embed" not in name]
    assert sum(counted) > SMALL_ENCODER
    assert large.call_overhead() > 0


def test_checkpointed_layers_give_the_same_states_and_gradients(captions):
    """Dropout included: what is computed once more draws the same random numbers."""
    config = TextEncoderConfig(name="tiny", tiny=TINY, checkpointing=True)
    torch.manual_seed(0)
    checkpointed = TextEncoder.create(config, captions).train()
    plain = copy.deepcopy(checkpointed)
    for module in plain.modules():
        if hasattr(module, "gradient_checkpointing"):
            module.gradient_checkpointing = False
    ids, mask = plain.pad(plain.tokenize(captions))
    results = []
    for encoder in (plain, checkpointed):
        torch.manual_seed(1)
        states = encoder(ids, mask)
        assert len(states) == 4
        torch.stack(states).square().sum().backward()
        results.append((torch.stack(states).detach(), [p.grad for p in encoder.parameters()]))
    assert torch.equal(results[0][0], results[1][0])
    for left, right in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(right, left)


def test_checkpointing_computes_layers_twice(captions):
    encoder = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY, checkpointing=True), captions)
    calls = []
    encoder.backbone.encoder.layer[1].attention.register_forward_hook(lambda *_: calls.append(1))
    states = encoder.train()(*encoder.pad(encoder.tokenize(captions)))
    assert len(calls) == 1
    states[-1].sum().backward()
    assert len(calls) == 2


def test_an_encoder_that_cannot_be_checkpointed_is_refused(captions, monkeypatch):
    from transformers import XLMRobertaModel

    monkeypatch.setattr(XLMRobertaModel, "supports_gradient_checkpointing", False)
    with pytest.raises(ConfigError, match=r"text\.checkpointing"):
        TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY, checkpointing=True), captions)


def test_frozen_embeddings_stay_frozen_when_the_layers_are_released(captions):
    encoder = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY), captions)

    def trained():
        return {name for name, p in encoder.named_parameters() if p.requires_grad}

    everything = trained()
    encoder.set_trainable(False, layers=3)
    assert trained() == set()
    encoder.set_trainable(True, layers=3)
    assert trained() == {name for name in everything if ".embeddings." not in name}
    assert trained() < everything
    encoder.set_trainable(True)
    assert trained() == everything


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_fused_steps_learn_the_same(build_regressor, captions, name, monkeypatch):
    states = []
    for fused in (False, True):
        model = build_regressor(image=False)
        monkeypatch.setattr(optimizers, "FUSED_WEIGHTS", 0 if fused else 10**9)
        optimizer = build_optimizer(
            model, OptimizerConfig(name=name, head_lr=1e-3, encoder_lr=1e-3, weight_decay=0.1)
        )
        assert optimizer.defaults["fused"] is fused
        for _ in range(3):
            optimizer.zero_grad()
            (model(batch_of(model, captions)) - 0.3).square().mean().backward()
            optimizer.step()
        states.append({key: value.detach() for key, value in model.named_parameters()})
    for key, value in states[0].items():
        if not key.endswith("key.bias"):  # no true gradient: what Adam makes of rounding errors
            torch.testing.assert_close(states[1][key], value, rtol=1e-3, atol=1e-4, msg=key)


def test_fused_is_chosen_by_size(build_regressor, monkeypatch):
    model = build_regressor(image=False)
    assert build_optimizer(model, OptimizerConfig()).defaults["fused"] is False
    monkeypatch.setattr(optimizers, "FUSED_WEIGHTS", 100)
    assert build_optimizer(model, OptimizerConfig()).defaults["fused"] is True
