"""Training the last layers alone: which weights learn, what is dropped, and that the parts make a whole."""

import pytest
import torch

from suisei.encoders.bert import BertEncoder, at_once
from suisei.encoders.layers import cut_layers
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.errors import ConfigError, ModelError

TINY = TinyTextConfig(vocabulary=150, width=16, layers=3)


def encoder(captions, **options):
    torch.manual_seed(0)
    made = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=TINY, **options), captions)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return made


@pytest.mark.parametrize("trained", [1, 2, 3, 9])
def test_lower_and_upper_layers_make_the_whole(captions, trained):
    text = encoder(captions, layers="last", trained_layers=trained).eval()
    assert text.parted
    ids, mask = text.pad(text.tokenize(captions))
    with torch.no_grad():
        whole = text(ids, mask)[-1]
        below = text.below(ids, mask, trained)
        [[above]] = text.in_spans(ids, mask, [(0, *ids.shape)], below[mask.bool()], trained)
        torch.testing.assert_close(above[mask.bool()], whole[mask.bool()])
    assert (below - whole)[mask.bool()].abs().max() > 0.1


def test_an_encoder_cut_to_its_first_layers_says_what_they_say(captions):
    whole, cut = encoder(captions, layers="mix"), encoder(captions, layers=2)
    cut.load_state_dict({name: whole.state_dict()[name] for name in cut.state_dict()})
    ids, mask = whole.pad(whole.tokenize(captions))
    with torch.no_grad():
        torch.testing.assert_close(cut.eval()(ids, mask)[-1], whole.eval()(ids, mask)[2])
    built = TextEncoder.from_architecture(cut.architecture(), cut.tokenizer)
    assert len(built.backbone.layers) == 2
    part = TextEncoder.from_architecture(whole.architecture(), whole.tokenizer)
    part.load_state_dict(whole.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(part.lower(2).eval()(ids, mask)[-1], cut(ids, mask)[-1])
    assert part.lower(None).backbone.layers[2] is part.backbone.layers[2]  # no copy


def test_more_layers_than_there_are_cannot_be_had(captions):
    with pytest.raises(ConfigError, match=r"text.layers is 4; tiny has 3 layers; set it to 3 or less"):
        encoder(captions, layers=4)
    assert encoder(captions, layers=3)._count == 3
    with pytest.raises(ModelError, match="first 2 layers are asked for"):
        encoder(captions, layers=1).lower(2)


def test_layers_that_are_in_no_list_cannot_be_cut(captions):
    backbone = encoder(captions).backbone
    backbone.encoder.layer = torch.nn.Sequential(*backbone.encoder.layer)
    with pytest.raises(ConfigError, match="cannot be cut: its layers are not in one list"):
        cut_layers(backbone, 2, "x")


def test_the_light_encoder_says_the_same_as_the_one_it_was_made_of(captions):
    light, other = encoder(captions, layers="last"), encoder(captions, layers="last", frozen=True)
    assert isinstance(light.backbone, BertEncoder)
    assert not other.parted
    assert not isinstance(encoder(captions, checkpointing=True).backbone, BertEncoder)
    light.load_state_dict(other.state_dict())
    ids, mask = light.pad(light.tokenize(captions))
    with torch.no_grad():
        one, two = light.eval()(ids, mask)[-1], other.eval()(ids, mask)[-1]
    torch.testing.assert_close(one[mask.bool()], two[mask.bool()], atol=1e-5, rtol=1e-4)


def test_a_mixture_of_all_layers_is_computed_whole(captions):
    assert not encoder(captions, layers="mix", trained_layers=1).parted


def test_the_last_layers_learn_and_drop_and_those_below_do_neither(captions):
    text = encoder(captions, layers="last", trained_layers=2)
    text.set_trainable(True, layers=2)
    learns = {name for name, parameter in text.named_parameters() if parameter.requires_grad}
    assert {name.split(".layer.")[1][0] for name in learns} == {"1", "2"}
    assert len(learns) == 2 * 16
    text.train()
    text.keep_still(2)
    ids, mask = text.pad(text.tokenize(captions))
    with torch.no_grad():
        below = [text.below(ids, mask, 2) for _ in range(2)]
        above = [text.in_spans(ids, mask, [(0, *ids.shape)], below[0][mask.bool()], 2) for _ in range(2)]
    assert torch.equal(*below)
    assert not torch.allclose(*(own[0][0] for own in above))


def test_dropout_in_training_moves_the_mean_as_in_the_encoder_it_was_made_of(captions):
    """It is not the mean without dropout, as layers are no straight lines: how far off, the weights say."""
    light, other = encoder(captions, layers="last"), encoder(captions, layers="last", checkpointing=True)
    light.load_state_dict(other.state_dict())
    ids, mask = light.pad(light.tokenize(captions[:2]))
    draws = 1000
    many = ids.repeat(draws, 1), mask.repeat(draws, 1)
    with torch.no_grad():
        means = [text.train()(*many)[-1].view(draws, *ids.shape, -1).mean(dim=0) for text in (light, other)]
    assert (means[0] - means[1])[mask.bool()].abs().mean() < 0.025


def test_layers_at_once_say_and_learn_what_they_do_one_by_one():
    torch.manual_seed(0)
    parts = [torch.nn.Linear(6, 6) for _ in range(3)]
    states = torch.randn(2, 4, 6, requires_grad=True)
    weighted = torch.randn(3, 2, 4, 6)

    def learned(found):
        weights = [states, *(own for part in parts for own in part.parameters())]
        return torch.autograd.grad((torch.stack(list(found)) * weighted).sum(), weights)

    found, expected = at_once(states, *parts), [part(states) for part in parts]
    torch.testing.assert_close(list(found), expected)
    torch.testing.assert_close(learned(found), learned(expected))


def test_captions_are_learned_from_on_a_gpu_as_elsewhere(captions, monkeypatch):
    text = encoder(captions).eval()
    ids, mask = text.pad(text.tokenize(captions[:3]))

    def learned():
        """Return all states of the tokens, and the gradients."""
        (states,) = text.in_spans(ids, mask, [(0, *ids.shape)])
        kept = torch.stack([state[mask.bool()] for state in states])
        return kept, torch.autograd.grad(kept.square().sum(), list(text.backbone.parameters()))

    expected = learned()
    for module in ("bert", "text"):
        monkeypatch.setattr(f"suisei.encoders.{module}.waits_for_calls", lambda _: True)
    torch.testing.assert_close(learned(), expected, rtol=1e-4, atol=1e-5)
