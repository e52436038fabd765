"""The mean of several models' weights: what it is, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch

from suisei.commands.average import main
from suisei.errors import ConfigError, ModelError
from suisei.metrics.extras import check_names
from suisei.metrics.suisei import load
from suisei.models.averaging import average_models
from suisei.models.folder import load_model, save_model


@pytest.fixture
def folders(build_regressor, tmp_path):
    """Two models that differ in their heads only, as models that were tuned from one start do."""
    paths = [tmp_path / "one", tmp_path / "two"]
    for number, path in enumerate(paths):
        model = build_regressor(poolings=["mean"])
        with torch.no_grad():
            for weight in model.members.parameters():
                weight.add_(0.1 * number)
        save_model(path, model)
    return paths


def loaded(folders):
    return [load_model(folder, check_names) for folder in folders]


def test_weights_are_the_mean_and_what_all_have_alike_stays_to_the_last_bit(folders):
    states = [
        {name: weight.clone() for name, weight in model.regressor.state_dict().items()}
        for model in loaded(folders)
    ]
    mean = average_models(loaded(folders)).state_dict()
    changed = [name for name in mean if not torch.equal(states[0][name], states[1][name])]
    assert changed
    assert all(name.startswith("members") for name in changed)
    for name, weight in mean.items():
        if name in changed:
            torch.testing.assert_close(weight, (states[0][name] + states[1][name]) / 2)
        else:
            assert torch.equal(weight, states[0][name])


def test_command_writes_a_model_folder_whose_card_names_its_parts(folders, captions, tmp_path, capsys):
    assert main([*map(str, folders), "--output", str(tmp_path / "mean")]) == 0
    assert "mean of 2 models" in capsys.readouterr().out
    references = [captions[:2]] * len(captions)
    scores = [load(folder).score(captions, references) for folder in (*folders, tmp_path / "mean")]
    assert np.abs(scores[2] - scores[0]).max() > 0
    assert np.abs(scores[2] - scores[1]).max() > 0
    card = (tmp_path / "mean" / "README.md").read_text()
    assert "mean of 2 models" in card
    assert all(model.checksum[:12] in card for model in loaded(folders))


def test_other_settings_are_refused_and_named(folders, build_regressor, tmp_path):
    save_model(tmp_path / "other", build_regressor(poolings=["idf"]))
    with pytest.raises(ModelError, match=r"other: settings differ from those of .*one"):
        average_models(loaded([folders[0], tmp_path / "other"]))


def test_one_model_the_same_model_twice_and_an_output_that_exists_are_refused(folders, tmp_path):
    new = str(tmp_path / "new")
    with pytest.raises(ConfigError, match="at least two models"):
        main([str(folders[0]), "--output", new])
    with pytest.raises(ConfigError, match="named twice"):
        main([str(folders[0]), f"{folders[0]}/", "--output", new])
    with pytest.raises(ConfigError, match="exists"):
        main([*map(str, folders), "--output", str(folders[1])])
    assert not Path(new).exists()
