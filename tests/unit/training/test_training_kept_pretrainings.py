"""The states of a run's pre-trainings: which of them a later start goes on from."""

import logging

import pytest

from suisei.errors import ConfigError, ModelError
from suisei.training.checkpoints import DATA, SETTINGS, write_checkpoint
from suisei.training.kept_pretrainings import KeptPretrainings

DIGESTS = {"train": "a", "validation": "b", "test": "c", "support": "d"}


@pytest.fixture
def run(tmp_path):
    """The folder of a run with the state of a pre-training."""
    kept = {"state_dict": {}, "optimizer_states": [], SETTINGS: '{"seed_everything": 1}', DATA: DIGESTS}
    write_checkpoint(kept, tmp_path / "pretraining" / "text.ckpt")
    return tmp_path


def kept_in(run, seed=1, **changed):
    return KeptPretrainings(run, {"seed_everything": seed}, {**DIGESTS, **changed}, 1).of("text")


def test_other_test_data_decide_no_pretraining(run, caplog):
    with caplog.at_level(logging.WARNING):
        kept_in(run)
        kept_in(run, test="other")
    assert caplog.messages == []


@pytest.mark.parametrize("part", ["train", "validation", "support"])
def test_other_data_are_refused(run, part):
    with pytest.raises(ModelError, match="the run was started with other"):
        kept_in(run, **{part: "other"})


def test_other_settings_are_refused(run):
    with pytest.raises(ConfigError, match="seed_everything: 1, now 2"):
        kept_in(run, seed=2)


def test_all_are_forgotten_at_the_end(run):
    KeptPretrainings(run, {}, {}, 1).forget()
    assert list(run.iterdir()) == []
