"""Pre-training that is killed goes on as if it had not been."""

import pytest
import torch
from torch import nn

from suisei.errors import ModelError
from suisei.training import pass_states
from suisei.training.pass_states import PassStates
from suisei.training.pretraining_loop import Passes, run_passes

PASSES = Passes("passes", 3, 2, 0.05, 0.1, 0.2, "rate", seed=5)
STEPS = 3
"""Of an epoch of seven items."""


@pytest.fixture(autouse=True)
def every_state(monkeypatch):
    monkeypatch.setattr(pass_states, "SPARINGLY", 0)


class KilledError(Exception):
    """Stands for a power cut."""


def passed(states=None, kill_at=None, seen=None, **given):
    """Train something with all kinds of state; returns what was trained, and the losses."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    scale = nn.Parameter(torch.tensor(1.0))
    seen = [] if seen is None else seen
    begun = len(seen)

    def batch_loss(rows, rng):
        if len(seen) - begun == kill_at:
            raise KilledError
        drawn = torch.from_numpy(rng.normal(size=(len(rows), 1))).float()
        seen.append(rows.tolist())
        shown = torch.cat([drawn, torch.from_numpy(rows)[:, None].float()], dim=1)
        return (module(shown) * scale - 1).square().mean()

    losses = run_passes(
        batch_loss,
        module,
        7,
        PASSES,
        parameters=module.parameters(),
        unclipped=[scale],
        states=states,
        **given,
    )
    return {**module.state_dict(), "scale": scale.detach()}, losses


def states(path, steps, begun=None):
    return PassStates(path, {"seed": 5}, {"train": "digest"}, steps, begun)


@pytest.mark.parametrize("steps", [1, 2, 100])
@pytest.mark.parametrize("kills", [(4,), (8,), (5, 1), (3, 4), (1, 3, 2, 2)])
def test_passes_that_are_killed_end_as_those_that_are_not(tmp_path, steps, kills):
    expected, losses = passed()
    path, begun = tmp_path / "last.ckpt", None
    for kill_at in kills:
        with pytest.raises(KilledError):
            passed(states(path, steps, begun), kill_at)
        begun = str(path) if path.is_file() else None
    found, again = passed(states(path, steps, begun))
    assert again == losses
    assert [name for name, weights in expected.items() if not torch.equal(weights, found[name])] == []


@pytest.mark.parametrize(("steps", "kept"), [(1, 5), (2, 4), (100, STEPS)])
def test_no_step_is_taken_twice_that_was_kept(tmp_path, steps, kept):
    """The state is kept after so many steps, and after every epoch."""
    whole, seen, over, path = [], [], [], tmp_path / "last.ckpt"
    passed(seen=whole)
    with pytest.raises(KilledError):
        passed(states(path, steps), 5, seen)
    passed(states(path, steps, str(path)), seen=seen, advance=over.append)
    assert over == [1] * PASSES.epochs  # the one before the kill is counted at once
    assert seen == [*whole[:5], *whole[kept:]]
    assert len(whole) == STEPS * PASSES.epochs


def test_seconds_are_those_of_all_starts(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pass_states.time, "perf_counter", lambda: now[0])
    path = tmp_path / "last.ckpt"
    first = states(path, 1)
    now[0] = 60.0
    with pytest.raises(KilledError):
        passed(first, 3)
    now[0] = 1000.0
    again = states(path, 1, str(path))
    now[0] = 1005.0
    passed(again)
    assert again.seconds == pytest.approx(65.0)


def test_a_damaged_state_is_refused_and_a_finished_one_forgotten(tmp_path):
    path = tmp_path / "checkpoints" / "last.ckpt"
    kept = states(path, 1)
    passed(kept)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="altered or damaged"):
        passed(states(path, 1, str(path)))
    kept.forget()
    assert list(tmp_path.iterdir()) == []
    kept.forget()


def test_little_of_the_time_goes_into_states(tmp_path, monkeypatch):
    """Writing takes a minute here, a step two: states lie ten minutes apart, and the last is written."""
    monkeypatch.setattr(pass_states, "SPARINGLY", 10)
    now, written, write = [0.0], [], pass_states.write_checkpoint
    monkeypatch.setattr(pass_states.time, "perf_counter", lambda: now[0])

    def slowly(checkpoint, path):
        now[0] += 60
        written.append(len(seen))
        write(checkpoint, path)

    class Slow(list):
        def append(self, rows):
            now[0] += 120
            super().append(rows)

    monkeypatch.setattr(pass_states, "write_checkpoint", slowly)
    seen = Slow()
    passed(states(tmp_path / "last.ckpt", 1), seen=seen)
    assert written == [1, 6, 9]


def test_other_processes_than_the_first_write_nothing(tmp_path):
    path = tmp_path / "last.ckpt"
    passed(PassStates(path, {}, {}, 1, None, first=False))
    assert not path.exists()
    _, losses = passed(states(path, 1))
    again, over = [], []
    found = passed(PassStates(path, {}, {}, 1, str(path), first=False), seen=again, advance=over.append)
    assert (found[1], again, over) == (losses, [], [PASSES.epochs])
