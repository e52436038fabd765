"""Greedy decoding, sampling and beam search, held against the same by brute force."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_search import DecodingState, decode
from suisei.captioning.caption_writing import BATCH_SIZE, captions_of_grids
from suisei.errors import ConfigError, ModelError


@pytest.fixture
def model(build_captioner):
    return build_captioner()


@pytest.fixture
def memory(model):
    torch.manual_seed(5)
    return model.encode(torch.randn(3, 3, 64, 64))


def step_by_step(model, memory, language=None):
    """Greedy decoding without kept keys and values: all tokens are looked at anew for each."""
    captions = []
    for own in memory:
        ids = []
        while len(ids) < 8 and (not ids or ids[-1] != model.end_id):
            tokens = torch.tensor([[[*ids, model.end_id]]])
            ids.append(int(model.logits(own[None], tokens, language)[0, 0, -1].argmax()))
        captions.append(ids)
    return captions


def unpadded(model, tokens):
    return [[id_ for id_ in own if id_ != model.pad_id] for own in tokens.tolist()]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_kept_keys_and_values_change_nothing(model, memory, language):
    found = model.generate(memory, Decoding("greedy", max_length=8), language=language)
    assert unpadded(model, found.tokens[:, 0]) == step_by_step(model, memory, language)


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_log_probs_are_those_of_the_whole_caption_at_once(model, memory, method):
    decoding = Decoding(method, beams=4, samples=5, max_length=8)
    found = model.generate(memory, decoding, torch.Generator().manual_seed(1))
    assert found.tokens.shape[:2] == found.log_probs.shape[:2] == (3, decoding.captions)
    again = model.log_probs(memory, found.tokens)
    torch.testing.assert_close(found.log_probs, again.detach(), atol=1e-5, rtol=1e-4)
    assert again.requires_grad
    assert (found.log_probs[found.tokens == model.pad_id] == 0).all()


def ending(model, wanted):
    """Let a captioner end its captions more or less often."""
    with torch.no_grad():
        model.decoder.embedding.weight[model.end_id] *= wanted
    return model


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_captions(build_captioner, penalty):
    model = ending(build_captioner(seed=3), 3.0)
    torch.manual_seed(2)
    memory = model.encode(torch.randn(2, 3, 64, 64))
    usable = [id_ for id_ in range(len(model.pieces)) if id_ not in model.pieces.banned]
    words = [id_ for id_ in usable if id_ != model.end_id]
    every = [[model.end_id]]
    every += [[word, last] for word in words for last in usable]
    longest = 2
    tokens = torch.full((len(every), longest), model.pad_id)
    for row, ids in enumerate(every):
        tokens[row, : len(ids)] = torch.tensor(ids)
    found = model.generate(memory, Decoding("beam", beams=30, max_length=longest, length_penalty=penalty))
    with torch.no_grad():
        totals = model.log_probs(memory, tokens[None].expand(2, -1, -1)).sum(-1)
    lengths = (tokens != model.pad_id).sum(-1)
    best = (totals / lengths**penalty).topk(3).indices
    for image in range(2):
        assert found.tokens[image, :3].tolist() == tokens[best[image]].tolist()


class Chain:
    """Writes words of which each depends on the one before alone: 2, 3 and 4, or the end, 1."""

    pad_id, end_id, training = 0, 1, False

    def __init__(self, seed, pieces=45, pools_beams=False):
        self.pools_beams = pools_beams
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(pieces, pieces, generator=generator) * 2
        self.table[:, [0, *range(5, pieces)]] = -torch.inf

    def train(self, mode=True):
        return self

    def first(self, rows, language=None):
        return torch.full((rows,), self.end_id)

    def begin(self, memory, language=None):
        return ChainState(self.table)


class ChainState(DecodingState):
    def __init__(self, table):
        self.table = table

    def step(self, tokens):
        return self.table[tokens]

    def select(self, rows):
        pass


@pytest.mark.parametrize("pools_beams", [False, True])
@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.7, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_captions_that_end_early_are_compared_with_longer_ones_by_their_own_length(
    penalty, seed, pools_beams
):
    model = Chain(seed, pools_beams=pools_beams)
    chances = model.table.log_softmax(-1).tolist()
    words, ranks = (2, 3, 4), {}
    every = [(1,), *((word, 1) for word in words)]
    every += [(*two, last) for two in itertools.product(words, repeat=2) for last in (1, *words)]
    for ids in every:
        total = sum(chances[before][own] for before, own in zip((1, *ids), ids, strict=False))
        ranks[ids] = total / len(ids) ** penalty
    found = decode(model, torch.zeros(2, 1), Decoding("beam", beams=45, max_length=3, length_penalty=penalty))
    expected = sorted(ranks, key=ranks.get, reverse=True)
    for image in range(2):
        assert [tuple(ids) for ids in unpadded(model, found.tokens[image, : len(every)])] == expected


@pytest.mark.parametrize(("pools_beams", "second"), [(True, [2, 4, 1]), (False, [2, 3, 2, 3])])
def test_a_finished_beam_leaves_its_place_or_keeps_it(pools_beams, second):
    """The end comes at once by .4; of the others, 2 3 is likelier than 2 4 at first, and never ends."""
    model = Chain(0, pools_beams=pools_beams)
    chances = torch.full_like(model.table, 1e-9)
    chances[1, [1, 2]] = torch.tensor([0.4, 0.6])
    chances[2, [3, 4]] = torch.tensor([0.55, 0.45])
    chances[3, 2:5] = torch.tensor([0.34, 0.33, 0.33])
    chances[4, 1] = 1.0
    model.table = chances.log()
    found = decode(model, torch.zeros(1, 1), Decoding("beam", beams=2, max_length=4))
    assert unpadded(model, found.tokens[0]) == [[1], second]


def test_an_end_that_is_not_among_the_likeliest_continuations_ends_nothing():
    """One beam is greedy, however likely the whole that another piece would have ended."""
    model = Chain(0, pools_beams=True)
    chances = torch.full_like(model.table, 1e-9)
    chances[1, [1, 2]] = torch.tensor([0.4, 0.6])
    chances[2, [1, 3]] = torch.tensor([0.5, 0.4])
    model.table = chances.log()
    found = decode(model, torch.zeros(1, 1), Decoding("beam", beams=1, max_length=4, length_penalty=0.0))
    assert unpadded(model, found.tokens[0]) == [[2, 1]]


class ChainsState(DecodingState):
    def __init__(self, tables, owners):
        self.tables, self.owners = tables, owners

    def step(self, tokens):
        return self.tables[self.owners, tokens]

    def select(self, rows):
        self.owners = self.owners[rows]


@pytest.mark.parametrize("pools_beams", [False, True])
def test_rows_that_go_on_stay_those_of_their_image_when_others_leave(pools_beams):
    chains = [Chain(seed, pools_beams=pools_beams) for seed in range(6)]
    for ends, chain in zip([9.0, -9.0, 0.0, 9.0, -9.0, 2.0], chains, strict=True):
        chain.table[:, 1] += ends  # at once, never, or in between
    model = Chain(0, pools_beams=pools_beams)
    tables = torch.stack([chain.table for chain in chains])
    model.begin = lambda memory, language=None: ChainsState(tables, memory[:, 0].long())
    decoding = Decoding("beam", beams=3, max_length=6)
    together = decode(model, torch.arange(6.0)[:, None], decoding)
    for image, chain in enumerate(chains):
        alone = decode(chain, torch.zeros(1, 1), decoding)
        assert unpadded(model, together.tokens[image]) == unpadded(chain, alone.tokens[0])


def test_a_temperature_flattens_the_draw_and_not_the_log_probabilities():
    model = Chain(0)
    decoding = Decoding("sample", samples=1000, max_length=1, temperature=3.0)
    found = decode(model, torch.zeros(4, 1), decoding, torch.Generator().manual_seed(0))
    shares = torch.bincount(found.tokens.flatten(), minlength=45) / 4000
    assert (shares - (model.table[1] / 3).softmax(-1)).abs().max() < 0.03
    torch.testing.assert_close(
        found.log_probs.flatten(), model.table[1].log_softmax(-1)[found.tokens.flatten()]
    )


def test_beams_are_different_and_come_best_first(model, memory):
    found = model.generate(memory, Decoding("beam", beams=6, max_length=7))
    totals = found.log_probs.sum(-1)
    assert (totals.diff(dim=-1) <= 1e-6).all()
    for own in found.tokens.tolist():
        assert len({tuple(ids) for ids in own}) == 6


def test_one_beam_is_greedy(model, memory):
    beam = model.generate(memory, Decoding("beam", beams=1, max_length=8))
    greedy = model.generate(memory, Decoding("greedy", max_length=8))
    assert unpadded(model, beam.tokens[:, 0]) == unpadded(model, greedy.tokens[:, 0])


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_an_image_is_captioned_alone_as_among_others(build_captioner, method):
    model = ending(build_captioner(seed=1), 2.0)  # captions end at different places, so that rows leave
    torch.manual_seed(0)
    memory = model.encode(torch.randn(6, 3, 64, 64) * 3)
    decoding = Decoding(method, beams=3, max_length=10)
    together = model.generate(memory, decoding)
    for image in range(6):
        alone = model.generate(memory[image : image + 1], decoding)
        assert unpadded(model, together.tokens[image]) == unpadded(model, alone.tokens[0])


def test_samples_follow_the_models_probabilities(build_captioner):
    model = build_captioner()
    memory = model.encode(torch.zeros(1, 3, 64, 64))
    decoding = Decoding("sample", samples=1000, max_length=1)
    found = model.generate(memory.expand(4, -1, -1), decoding, torch.Generator().manual_seed(0))
    shares = torch.bincount(found.tokens.flatten(), minlength=len(model.pieces)) / 4000
    chances = model.logits(memory, torch.tensor([[[model.end_id]]]))[0, 0, 0].softmax(-1)
    assert (shares - chances).abs().max() < 0.03
    assert not shares[model.pieces.banned].any()


def test_a_seed_decides_the_samples_and_top_p_keeps_the_likeliest(model, memory):
    decoding = Decoding("sample", samples=3, max_length=8)
    first, same, other = (
        model.generate(memory, decoding, torch.Generator().manual_seed(seed)).tokens for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    likely = Decoding("sample", samples=3, max_length=8, top_p=1e-6)
    greedy = model.generate(memory, Decoding("greedy", max_length=8))
    drawn = model.generate(memory, likely, torch.Generator().manual_seed(1))
    for own, wanted in zip(drawn.tokens, greedy.tokens, strict=True):
        assert unpadded(model, own) == unpadded(model, wanted) * 3


@pytest.mark.parametrize(
    ("temperature", "kept"), [(1.0, [0.625, 0.375, 0.0, 0.0]), (2.0, [0.431, 0.333, 0.236, 0.0])]
)
def test_top_p_keeps_the_fewest_tokens_that_have_it_at_the_temperature(temperature, kept):
    """Chances of .5, .3, .15 and .05; at a temperature of two their roots, .38, .29, .21 and .12."""
    model = Chain(0)
    model.table[1, 1:5] = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    decoding = Decoding("sample", samples=1000, max_length=1, temperature=temperature, top_p=0.7)
    found = decode(model, torch.zeros(4, 1), decoding, torch.Generator().manual_seed(0))
    shares = torch.bincount(found.tokens.flatten(), minlength=5)[1:5] / 4000
    assert (shares - torch.tensor(kept)).abs().max() < 0.03
    assert ((shares > 0) == (torch.tensor(kept) > 0)).all()


class Dropping(Chain):
    """Is unsure of its words while it is trained, as captioners with dropout are."""

    def train(self, mode=True):
        self.training = mode
        return self

    def begin(self, memory, language=None):
        return ChainState(torch.zeros_like(self.table) if self.training else self.table)


@pytest.mark.parametrize("training", [True, False])
def test_captions_are_written_without_dropout_and_training_goes_on(training):
    model, decoding = Dropping(0).train(training), Decoding("greedy", max_length=8)
    found = decode(model, torch.zeros(2, 1), decoding)
    assert torch.equal(found.log_probs, decode(Chain(0), torch.zeros(2, 1), decoding).log_probs)
    assert model.training == training
    model.table.fill_(torch.nan)
    with pytest.raises(ModelError):
        decode(model, torch.zeros(2, 1), decoding)
    assert model.training == training


def test_a_caption_without_a_word_is_empty(build_captioner):
    model = ending(build_captioner(), 100.0)
    tokens = torch.tensor([[[model.end_id, model.pad_id]]])
    assert model.texts(tokens) == [[""]]


def test_weights_that_are_no_numbers_are_refused(model, memory):
    with pytest.raises(ModelError, match="no numbers"):
        model.generate(memory * torch.nan, Decoding("greedy", max_length=8))


@pytest.mark.parametrize(
    "options",
    [{"method": "best"}, {"beams": 0}, {"samples": 0}, {"max_length": 0}, {"temperature": 0}, {"top_p": 1.5},
     {"length_penalty": float("nan")}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(options):
    with pytest.raises(ConfigError, match=f"decoding.{next(iter(options))}"):
        Decoding(**options)


def test_too_many_beams_and_too_many_tokens_are_refused(model, memory):
    with pytest.raises(
        ConfigError, match=r"500 beams over a vocabulary of \d+ pieces; .*--beams, model\.captions"
    ):
        model.generate(memory, Decoding("beam", beams=500, max_length=16))
    with pytest.raises(ConfigError, match="max_length is 17; this captioner writes at most 16 tokens"):
        model.generate(memory, Decoding("greedy", max_length=17))  # however soon the captions end
    ids = itertools.repeat(4, 20)
    with pytest.raises(ConfigError, match="positions"):
        model.logits(memory, torch.tensor([[list(ids)]] * 3))
    with pytest.raises(ConfigError, match="writes en and ja"):
        model.generate(memory, Decoding(max_length=16), language="fr")


def test_each_image_gets_the_captions_of_its_own_grid():
    grids = torch.arange(2 * BATCH_SIZE + 3)
    model = SimpleNamespace(
        device=torch.device("cpu"),
        memory=lambda some: some,
        generate=lambda memory, *_: SimpleNamespace(tokens=memory),
        texts=lambda tokens: [[f"caption of {int(own)}"] for own in tokens],
    )
    done = []
    found = captions_of_grids(model, grids, Decoding(), advance=done.append)
    assert found == [(f"caption of {number}",) for number in range(len(grids))]
    assert sum(done) == len(grids)
