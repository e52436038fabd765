"""Single steps of a tuning by rewards: what is rewarded, and put together to a loss."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.rewards import Rewards
from suisei.captioning.self_critical import SelfCritical
from suisei.errors import DataError
from suisei.training.processes import gather_rows
from tests.unit.two_processes import answers_of

LONGEST = 6
SAID = (("A red picture .",), ("青い絵",), ("白い絵です。",), ("a",))


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
        model.writer.decoder.embedding.weight[model.writer.end_id] *= 1.5  # captions of different lengths
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


PARTS = ("policy_loss", "kl", "cross_entropy")
SHARES = ([0, 2], [1, 3])
"""The images of each process; two captions of the first have no reward."""


def parts_of(captioner, images, **options):
    """Return the parts of the loss of a step on some images."""
    logged = {}
    model = moved(tuned(captioner, logged, kl_weight=1.0, cross_entropy_weight=1.0, **options))
    rewarding(model).training_step(torch.tensor(list(images)), 0)
    return [logged[part].item() for part in PARTS]


def stops(captioner, rank, max_skipped):
    """Say whether a process stops whose captions have no reward, or one whose all have."""
    model = tuned(captioner, world_size=2, max_skipped=max_skipped)
    rewards = Rewards(np.full((2, 3), np.nan if rank == 0 else 1.0), {}, np.zeros((2, 3), bool))
    try:
        model._check_skipped(rewards, 0)
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
