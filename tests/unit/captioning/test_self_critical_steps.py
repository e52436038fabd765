"""Single steps of a tuning by rewards: what is drawn, written, rewarded, and put together to a loss."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.policy import advantages
from suisei.captioning.rewards import Rewards
from suisei.captioning.self_critical import SelfCritical
from suisei.errors import DataError
from suisei.training.processes import gather_rows
from tests.unit.two_processes import answers_of

LONGEST = 6
SAID = (("A red picture .",), ("青い絵",), ("白い絵です。",), ("白い絵",))


@pytest.fixture
def captioner(build_captioner, tmp_path):
    """The folder of a captioner of two languages, of which Japanese is not the first."""
    build_captioner().save(tmp_path / "captioner")
    return tmp_path / "captioner"


def tuned(captioner, logged=None, *, world_size=1, **options):
    """Return a tuning of a captioner outside of any run, which notes what it logs, on four images."""
    given = {"reward": "length", "language": "ja", "captions": 3, "max_length": LONGEST, **options}
    model = SelfCritical(str(captioner), **given)
    gather = SimpleNamespace(all_gather=lambda values, **_: gather_rows(values[None]))
    model._trainer = SimpleNamespace(
        world_size=world_size, current_epoch=0, global_rank=0, global_step=0, strategy=gather
    )
    model.log_dict = lambda figures, **_: (logged if logged is not None else {}).update(figures)
    pixels = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 3
    pairs = [CaptionedImage(f"{n}.png", own, ("ja",) * len(own), f"{n}") for n, own in enumerate(SAID)]
    model.prepare(pairs, model.writer.grid(pixels), seed=0)
    return model


def moved(model):
    """Return the tuning with a captioner that has left its start."""
    with torch.no_grad():
        model.writer.decoder.embedding.weight.mul_(1.5)
    return model


def worth(texts, images):
    """Return rewards of captions, float64 [B, K]: images 0 and 2 have none of their second caption."""
    rewards = np.array([[float(len(text)) + 2 * place for place, text in enumerate(own)] for own in texts])
    rewards[[image in ("0.png", "2.png") for image in images], 1] = np.nan
    return rewards


def rewarding(model):
    """Let a tuning reward captions by :func:`worth`."""
    empty = np.zeros((4, 1), bool)
    model.rewarder = lambda texts, images, *_: Rewards(worth(texts, images), {}, empty)
    return model


def test_seed_epoch_batch_and_process_decide_what_is_drawn(captioner):
    model = tuned(captioner)

    def drawn(batch_idx=0, seed=0, epoch=0, rank=0):
        model._seed = seed
        model._trainer.current_epoch, model._trainer.global_rank = epoch, rank
        generator, rng = model._random(batch_idx)
        return (
            *torch.randint(2**62, (2,), generator=generator).tolist(),
            *rng.integers(2**62, size=2).tolist(),
        )

    places = [{}, {"batch_idx": 1}, {"seed": 1}, {"epoch": 1}, {"rank": 1}]
    first, again = [drawn(**place) for place in places], [drawn(**place) for place in places]
    assert first == again
    for numbers in zip(*first, strict=True):
        assert len(set(numbers)) == len(places)


def test_captions_are_drawn_in_the_language_that_is_tuned(captioner):
    model = tuned(captioner, baseline="greedy")
    memory = model.writer.memory(model._grids)
    tokens, texts = model._write(model._grids, torch.Generator().manual_seed(1))
    greedy = Decoding("greedy", max_length=LONGEST)
    sample = Decoding("sample", samples=3, max_length=LONGEST)

    def written(language):
        draw = model.writer.generate(memory, sample, torch.Generator().manual_seed(1), language).tokens
        best = model.writer.generate(memory, greedy, None, language).tokens
        return draw.tolist(), [own[0] for own in model.writer.texts(best)]

    assert written("ja") == (tokens.tolist(), [own[-1] for own in texts])
    assert written("en")[0] != tokens.tolist()
    assert written("en")[1] != [own[-1] for own in texts]


@pytest.mark.parametrize("baseline", ["beam-mean", "greedy"])
def test_what_a_step_logs_is_what_its_captions_are_worth(captioner, baseline):
    logged, seen = {}, []
    model = tuned(captioner, logged, baseline=baseline, kl_weight=0.5, cross_entropy_weight=0.25)
    write = model._write
    model._write = lambda *given: seen.append(write(*given)) or seen[-1]
    loss = rewarding(model).training_step(torch.arange(4), 0)
    tokens, texts = seen[0]
    memory = model.writer.memory(model._grids)
    total = model.writer.log_probs(memory, tokens, "ja").sum(-1).detach().numpy()
    rewards = worth(texts, [pair.image for pair in model._pairs])
    own = rewards[:, :3]
    base = rewards[:, 3] if baseline == "greedy" else np.nanmean(own, axis=1)
    advantage = own - base[:, None]
    policy = -np.nanmean(advantage * total) / LONGEST
    assert logged["policy_loss"].item() == pytest.approx(policy, rel=1e-5)
    assert logged["reward"] == pytest.approx(np.nanmean(own))
    assert logged["baseline"] == pytest.approx(base.mean())
    assert logged["advantage_size"] == pytest.approx(np.nanmean(np.abs(advantage)))
    assert logged["kl"].item() == pytest.approx(0, abs=1e-6)  # the first step begins at the start model
    people = model.writer.tokens_of([own[0] for own in SAID])
    said = model.writer.log_probs(memory, people[:, None], "ja")[:, 0]
    counted = (people != model.writer.pad_id) & ~said.isneginf()
    assert logged["cross_entropy"].item() == pytest.approx(-said[counted].mean().item(), rel=1e-5)
    together = policy + 0.25 * logged["cross_entropy"].item()
    assert loss.item() == logged["train_loss"].item() == pytest.approx(together, rel=1e-5)


@pytest.mark.parametrize("baseline", ["beam-mean", "greedy", "sample-mean"])
def test_the_policy_is_that_which_the_captions_are_drawn_from(captioner, baseline):
    """At a temperature the loss is of the probabilities there; a search knows none."""
    logged, seen = {}, []
    model = tuned(captioner, logged, baseline=baseline, temperature=0.5)
    write = model._write
    model._write = lambda *given: seen.append(write(*given)) or seen[-1]
    rewarding(model).training_step(torch.arange(4), 0)
    tokens, texts = seen[0]
    logits = model.writer.logits(model.writer.memory(model._grids), tokens, "ja").detach()
    chances = (logits if baseline == "beam-mean" else logits / 0.5).log_softmax(-1)
    padding = tokens == model.writer.pad_id
    own = chances.gather(-1, tokens[..., None])[..., 0].masked_fill(padding, 0.0).sum(-1).numpy()
    advantage, _ = advantages(worth(texts, [pair.image for pair in model._pairs]), baseline)
    assert logged["policy_loss"].item() == pytest.approx(-np.nanmean(advantage * own) / LONGEST, rel=1e-5)


def test_any_of_an_images_captions_is_what_people_wrote(captioner):
    model = tuned(captioner, cross_entropy_weight=1.0)
    memory = model.writer.memory(model._grids[:1])

    def cross_entropy(seed, *captions):
        pair = CaptionedImage("0.png", captions, ("ja",) * len(captions), "0")
        return round(model._cross_entropy(memory, [pair], np.random.default_rng(seed)).item(), 5)

    found = {cross_entropy(seed, "青い絵", "白い絵です。") for seed in range(12)}
    assert found == {cross_entropy(0, "青い絵"), cross_entropy(0, "白い絵です。")}
    assert len(found) == 2


def test_the_divergence_is_that_of_the_tokens_that_were_written(captioner):
    model = moved(tuned(captioner, kl_weight=1.0))
    tokens = model.writer.tokens_of([own[0] for own in SAID])[:, None]
    written = tokens != model.writer.pad_id
    assert not written.all()
    own, start = (
        each.logits(each.memory(model._grids), tokens, "ja").log_softmax(-1)
        for each in (model.writer, model._start[0])
    )
    gap = (own.exp() * (own - start)).nan_to_num(0.0).sum(-1)
    found = model._divergence(own, model._grids, tokens)
    assert found.item() == pytest.approx(gap[written].mean().item(), rel=1e-4)
    assert found.item() > 0.01


def test_captions_that_look_english_are_rewarded_and_measured_in_their_language(captioner):
    """Letters that say nothing of the language must not be taken for another's."""
    model = tuned(captioner)
    texts, pairs = ["ABC", " ", "DEF GHI", ""], model._pairs
    rewards = model._reward([[text] for text in texts], pairs)
    assert rewards.total.ravel().tolist() == [3 / 20, 0, 6 / 20, 0]
    measured = model._measured(pairs, texts)
    assert measured["val_length"] == pytest.approx((3 / 20 + 6 / 20) / 2)  # of those that are not empty
    assert model._measured(pairs[:2], ["ABC", "."])["val_length"] < 3 / 20  # a mark alone is counted


PARTS = ("policy_loss", "kl", "cross_entropy")
SHARES = ([0, 2], [1, 3])
"""The images of each process; two captions of the first have no reward."""


def parts_of(captioner, images, **options):
    """Return the parts of the loss of a step on some images, whose captions differ in length."""
    logged = {}
    model = moved(tuned(captioner, logged, kl_weight=1.0, cross_entropy_weight=1.0, **options))
    texts = [[SAID[image][0], SAID[image][0] * 2, "青い絵"] for image in images]
    tokens = model.writer.tokens_of([text for own in texts for text in own], LONGEST)
    tokens[tokens == model.writer.pieces.unknown_id] = model.writer.end_id  # which could not be written
    tokens = tokens.view(len(images), 3, -1)
    model._write = lambda *_: (tokens, texts)
    rewarding(model).training_step(torch.tensor(list(images)), 0)
    return [logged[part].item() for part in PARTS]


def stops(captioner, rank, max_skipped):
    """Say whether a process stops whose captions have no reward, or one whose all have."""
    model = tuned(captioner, world_size=2, max_skipped=max_skipped)
    rewards = Rewards(np.full((2, 3), np.nan if rank == 0 else 1.0), {}, np.zeros((2, 3), bool))
    try:
        model._check_skipped(rewards)
    except DataError as error:
        return str(error).split(":")[1].split(",")[0].strip()
    return ""


def one_of_two(rank, captioner):
    skipped = [stops(captioner, rank, share) for share in (0.5, 0.4)]
    return parts_of(captioner, SHARES[rank], world_size=2), skipped


@pytest.mark.slow
def test_the_losses_of_two_processes_are_those_of_one(captioner, tmp_path):
    """Each counts by its captions and tokens: the mean of both, which is learned from, is that of all."""
    whole = parts_of(captioner, range(4))
    (first, stopped), (second, other) = answers_of(one_of_two, tmp_path, str(captioner))
    np.testing.assert_allclose(np.mean([first, second], axis=0), whole, rtol=1e-5)
    assert stopped == other == ["", "6 of 12 captions have no reward"]
