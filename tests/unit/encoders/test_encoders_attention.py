"""Captions that are packed without padding: the states and gradients of padded ones."""

import pytest
import torch
from torch.nn import functional as F

from suisei.encoders.attention import Packing, attention
from suisei.encoders.bert import BertEncoder

LENGTHS = (9, 7, 7, 4, 2, 1)
SPANS = ([(0, 6, 9)], [(0, 3, 9), (3, 6, 4)], [(0, 1, 9), (1, 3, 7), (3, 6, 4)], [(0, 4, 11), (4, 6, 11)])
SETTINGS = {
    "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 40, "max_position_embeddings": 20, "type_vocab_size": 2, "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
}  # fmt: skip


@pytest.fixture
def padded():
    """Ids and mask [6, 11] of captions of those lengths."""
    mask = (torch.arange(11) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(5, 50, mask.shape, generator=torch.Generator().manual_seed(1))
    return torch.where(mask == 1, ids, 1), mask


@pytest.fixture(params=["bert", "xlm-roberta"])
def encoders(request):
    """Ours and transformers', of the same weights."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    theirs = AutoModel.from_config(AutoConfig.for_model(request.param, pad_token_id=1, **SETTINGS)).eval()
    theirs.pooler = None
    with torch.no_grad():
        for weights in theirs.parameters():
            weights.add_(torch.randn_like(weights), alpha=0.2)
    ours = BertEncoder(theirs.config.to_diff_dict()).eval()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("spans", SPANS)
def test_states_and_gradients_are_those_of_transformers_on_padded_captions(encoders, padded, spans):
    (ours, theirs), (ids, mask) = encoders, padded
    packing = Packing(mask, spans)
    found = ours.packed(ids, packing)
    expected = theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert len(found) == len(expected) == 4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other[mask.bool()], atol=2e-5, rtol=1e-4)
    weigh = torch.randn(found[0].shape, generator=torch.Generator().manual_seed(2))
    sum((own * weigh).sum() for own in found).backward()
    sum((own[mask.bool()] * weigh).sum() for own in expected).backward()
    theirs_by_name = dict(theirs.named_parameters())
    for name, weights in ours.named_parameters():
        torch.testing.assert_close(weights.grad, theirs_by_name[name].grad, atol=2e-4, rtol=1e-3, msg=name)


def test_what_is_learned_from_padding_again_is_only_that_of_tokens(padded):
    """Also where what stands at padding is read: it has no gradient of its own."""
    _, mask = padded
    states = torch.randn(sum(LENGTHS), 8, requires_grad=True)
    packing = Packing(mask, SPANS[1])
    spans = packing.pad(states)
    assert [tuple(span.shape) for span in spans] == [(3, 9, 8), (3, 4, 8)]
    for span, (start, end, width) in zip(spans, SPANS[1], strict=True):
        there = mask[start:end, :width].bool()
        begin = int(mask[:start].sum())
        assert torch.equal(span[there], states[begin : begin + int(there.sum())])
    sum(span.sum() for span in spans).backward()
    assert torch.equal(states.grad, torch.ones_like(states))


def test_packing_takes_the_tokens_of_any_padded_numbers(padded):
    ids, mask = padded
    assert torch.equal(Packing(mask, SPANS[0]).pack(ids), ids[mask.bool()])


@pytest.mark.parametrize("kind", ["masked", "causal", "plain"])
def test_attention_that_is_learned_from_is_pytorch_s(kind):
    torch.manual_seed(0)
    parts = [torch.randn(3, 2, 5, 8, requires_grad=True) for _ in range(3)]
    mask = torch.arange(5) < torch.tensor([5, 2, 1])[:, None, None, None] if kind == "masked" else None
    options = {"is_causal": kind == "causal", "attn_mask": mask}
    found = attention(*parts, mask, causal=kind == "causal")
    wanted = F.scaled_dot_product_attention(*parts, **options)
    torch.testing.assert_close(found, wanted)
    ours, theirs = (torch.autograd.grad(own.square().sum(), parts) for own in (found, wanted))
    torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(attention(*parts, mask, causal=kind == "causal"), wanted)


def test_as_much_attention_is_dropped_as_asked_for():
    """Of values that are all 1, what is left is the sum of the attention that was kept."""
    torch.manual_seed(0)
    query, key = (torch.randn(40, 4, 6, 8, requires_grad=True) for _ in range(2))
    value = torch.ones(40, 4, 6, 1)
    found = attention(query, key, value, dropped=0.25).detach()
    assert float(found.mean()) == pytest.approx(1.0, abs=0.05)
    assert float(found.std()) > 0.1


def test_attention_drops_in_training_alone(encoders, padded):
    (ours, _), (ids, mask) = encoders, padded
    packing = Packing(mask, SPANS[1])
    still = [ours.packed(ids, packing)[-1] for _ in range(2)]
    assert torch.equal(*still)
    ours.train()
    moved = [ours.packed(ids, packing) for _ in range(2)]
    assert not any(torch.allclose(one, other) for one, other in zip(*moved, strict=True))
