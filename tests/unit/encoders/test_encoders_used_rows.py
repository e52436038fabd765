"""Word vectors of the tokens in use alone: the same numbers, the same training, and the whole table again."""

import pytest
import torch
from torch import nn

from suisei.encoders.text import TextEncoder
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.encoders.used_rows import UsedRows, worth_leaving_out

IDS = (7, 3, 11)
MET = torch.tensor([[3, 7, 1], [11, 1, 1]])


def table(padding=1):
    torch.manual_seed(0)
    return nn.Embedding(20, 4, padding_idx=padding)


def trained(embedding, ids, steps=5):
    """Train an embedding for some steps, with momentum and clipping as training does."""
    optimizer = torch.optim.Adam(embedding.parameters(), lr=0.1)
    torch.manual_seed(1)
    aim = torch.randn(4)
    for _ in range(steps):
        optimizer.zero_grad()
        ((embedding(ids) - aim) ** 2).sum().backward()
        nn.utils.clip_grad_norm_(embedding.parameters(), 1.0)
        optimizer.step()
    return embedding


@pytest.mark.parametrize("padding", [1, None])
def test_rows_are_those_of_the_table_in_any_shape(padding):
    whole = table(padding)
    rows = UsedRows(whole, (*IDS, 1))
    assert torch.equal(rows(MET), whole(MET))
    assert torch.equal(rows(MET[0, 0]), whole(MET[0, 0]))
    assert rows.used_rows.shape == (4, 4)
    assert [name for name, _ in rows.named_parameters()] == ["used_rows"]
    assert list(rows.state_dict()) == ["used_rows"]


def test_a_token_that_was_not_named_is_an_error_and_not_another_tokens_vector():
    with pytest.raises(IndexError):
        UsedRows(table(), IDS)(torch.tensor([4]))


@pytest.mark.parametrize("padding", [1, None])
def test_training_is_that_of_the_whole_table(padding):
    whole = trained(table(padding), MET)
    rows = trained(UsedRows(table(padding), (*IDS, 1)), MET).whole()
    assert rows.padding_idx == padding
    assert torch.allclose(rows.weight, whole.weight, atol=1e-6)
    untouched = [row for row in range(20) if row not in (*IDS, *([] if padding else [1]))]
    assert torch.equal(rows.weight[untouched], table(padding).weight[untouched])
    assert not torch.allclose(rows.weight[list(IDS)], table(padding).weight[list(IDS)], atol=0.1)


def test_the_table_that_it_was_made_of_stays_as_it_was_and_its_state_says_what_is_trained():
    whole = table()
    rows = trained(UsedRows(whole, IDS), MET)
    rows.whole().weight.data.zero_()
    assert torch.equal(whole.weight, table().weight)
    assert torch.equal(rows.whole().weight[4], table().weight[4])
    assert rows.whole().weight.requires_grad
    whole.requires_grad_(False)
    assert not UsedRows(whole, IDS).used_rows.requires_grad
    assert not UsedRows(whole, IDS).whole().weight.requires_grad


def test_the_digest_is_of_the_whole_table():
    other = table()
    assert UsedRows(other, IDS).digest == UsedRows(table(), (5,)).digest
    other.weight.data[4, 0] += 1
    assert UsedRows(other, IDS).digest != UsedRows(table(), IDS).digest


def test_an_encoder_keeps_the_words_of_the_captions_that_it_was_last_told_of():
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["a dog runs", "two cats sleep"] * 3, 60)
    encoder = TextEncoder(build_text_backbone(TinyTextConfig(width=8, layers=1), 400), tokenizer).eval()
    one, other = (encoder.pad(encoder.tokenize([text])) for text in ("a dog runs", "two cats sleep"))
    with torch.no_grad():
        expected = encoder(*other)[-1]
        encoder.keep_used(encoder.tokenize(["a dog runs"]))
        with pytest.raises(IndexError):
            encoder(*other)
        assert encoder(*one)[-1].isfinite().all()
        encoder.keep_used(encoder.tokenize(["two cats sleep"]))
        assert torch.equal(encoder(*other)[-1], expected)
        encoder.keep_all()
        assert encoder.used_rows is None
        assert torch.equal(encoder(*other)[-1], expected)


def test_what_is_left_out_must_be_worth_it_and_nothing_else_may_need_it():
    class Scaled(nn.Embedding):
        """An embedding that does something of its own."""

    assert worth_leaving_out(nn.Embedding(20, 4), 10)
    assert not worth_leaving_out(nn.Embedding(20, 4), 11)
    assert not worth_leaving_out(Scaled(20, 4), 3)
    assert not worth_leaving_out(nn.Embedding(20, 4, max_norm=1.0), 3)
    assert not worth_leaving_out(nn.Embedding(20, 4, scale_grad_by_freq=True), 3)
