"""Model folders: the same scores after a round trip, and every altered file found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from suisei.data.checksums import sha256_of
from suisei.errors import ModelError
from suisei.metrics.extras import check_names
from suisei.metrics.loading import load
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models import folder_checks as hub
from suisei.models.blocks import BLOCKS, Block
from suisei.models.folder import LoadedModel, load_model, ratings_of, read_card, save_model
from suisei.models.quantization import Rounding, dequantize, is_roundable, quantize, quantize_state

FILES = ["config.json", "model.safetensors", "idf.json", "tokenizer/tokenizer.json"]
FILES.append("tokenizer/tokenizer_config.json")


@pytest.fixture
def folder(model_folder, tmp_path):
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_scores_survive_the_round_trip(build_regressor, captions, pictures, tmp_path):
    model = build_regressor(references="concat", poolings=["idf-normalised", "mean", "idf"])
    images = [pictures[number % 4] for number in range(len(captions))]
    references = [captions[number:] for number in range(len(captions))]
    before = SuiSeiMetric(LoadedModel(model, {}, "0" * 64, tmp_path)).score(captions, references, images)
    save_model(tmp_path / "model", model)
    after = load(tmp_path / "model").score(captions, references, images)
    np.testing.assert_allclose(after, before, atol=1e-6)  # scoring has encoders of its own
    save_model(tmp_path / "again", load(tmp_path / "model").regressor)
    assert np.array_equal(load(tmp_path / "again").score(captions, references, images), after)
    assert len(set(after)) == len(after)


def test_what_is_known_of_the_ratings_is_kept_and_signed(build_regressor, model_folder, tmp_path):
    known = {"scales": [[1, 7]], "raters": [5, 5]}
    save_model(tmp_path / "model", build_regressor(), ratings=known)
    assert ratings_of(load_model(tmp_path / "model", check_names)) == known
    edit_config(tmp_path / "model", ratings={"scales": [[1, 5]], "raters": [5, 5]})
    with pytest.raises(ModelError, match="config"):
        load_model(tmp_path / "model", check_names)
    assert "ratings" not in json.loads((model_folder / "config.json").read_text())
    assert ratings_of(load_model(model_folder, check_names)) is None


def test_a_block_that_came_later_leaves_earlier_folders_as_they_are(model_folder, captions, monkeypatch):
    settings = json.loads((model_folder / "config.json").read_text())["settings"]
    assert settings["fusion"]["blocks"] is None
    before = load(model_folder).score(captions)
    monkeypatch.setitem(BLOCKS, "square", Block("reference", lambda c, r: (c - r).square()))
    assert np.array_equal(load(model_folder).score(captions), before)


def test_loaded_model_is_in_evaluation_mode_and_holds_no_gradient(model_folder):
    loaded = load_model(model_folder, check_names)
    assert not any(module.training for module in loaded.regressor.modules())
    assert not any(parameter.requires_grad for parameter in loaded.regressor.parameters())
    assert {parameter.dtype for parameter in loaded.regressor.parameters()} == {torch.float32}


def test_a_card_that_is_no_text_is_refused(model_folder, tmp_path):
    assert read_card(model_folder) == "# A model\n"
    assert read_card(tmp_path) == ""
    (tmp_path / "README.md").write_bytes(b"# caf\xe9")
    with pytest.raises(ModelError, match=r"README.md: not UTF-8 text"):
        read_card(tmp_path)


def test_folder_holds_no_pickle(model_folder):
    suffixes = {path.suffix for path in model_folder.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".safetensors", ".txt", ".md", ".model"}
    names = {path.relative_to(model_folder).as_posix() for path in model_folder.rglob("*") if path.is_file()}
    assert names == {*FILES, "README.md"}


def test_nothing_is_unpickled(model_folder, monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a pickle was read")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert load_model(model_folder, check_names).path == model_folder


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"{name}.* is missing|{name} is missing"):
        load_model(folder, check_names)


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.json"])
def test_altered_file_is_named(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} was altered"):
        load_model(folder, check_names)


@pytest.mark.parametrize("name", FILES)
def test_cut_off_file_is_named(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=name):
        load_model(folder, check_names)


def test_altered_setting_is_found(folder):
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["fusion"]["layer_norm"] = False  # fits every weight, and changes every score
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"config\.json was altered"):
        load_model(folder, check_names)


def test_the_card_and_the_layout_of_the_json_may_be_edited(folder):
    (folder / "README.md").write_text("my own words")
    edit_config(folder)
    before = load_model(folder, check_names).checksum
    (folder / "README.md").unlink()
    assert load_model(folder, check_names).checksum == before


def test_every_problem_is_told_at_once(folder):
    (folder / "idf.json").unlink()
    (folder / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"idf\.json is missing.*model\.safetensors was altered") as error:
        load_model(folder, check_names)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_newer_format_is_refused(folder):
    edit_config(folder, format=6)
    with pytest.raises(ModelError, match="format 6, this suisei reads 1, 2, 3, 4, 5"):
        load_model(folder, check_names)


@pytest.mark.parametrize("key", ["settings", "sha256", "text_architecture", "image_architecture", "extras"])
def test_config_without_a_part_is_refused(folder, key):
    config = json.loads((folder / "config.json").read_text())
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=rf"config\.json: lacks {key}"):
        load_model(folder, check_names)


@pytest.mark.parametrize("content", ["[]", "3", "{", "{}"])
def test_other_json_is_refused(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        load_model(folder, check_names)


def test_checksum_left_out_is_found(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]["idf.json"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"lacks the checksum of idf\.json"):
        load_model(folder, check_names)


def test_weights_of_another_model_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    weights["mix.logits"] = torch.zeros(7)
    save_file(weights, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["sha256"]["model.safetensors"] = sha256_of(folder / "model.safetensors")
    config["sha256"]["config.json"] = hub.own_checksum(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"does not fit.*mix\.logits"):
        load_model(folder, check_names)


def test_no_folder_and_no_model_folder_are_told_apart(tmp_path):
    with pytest.raises(ModelError, match="no model folder at"):
        load_model(tmp_path / "absent", check_names)
    with pytest.raises(ModelError, match=r"not a model folder: config\.json is missing"):
        load_model(tmp_path, check_names)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("step", ["save_weights", "checksums", "own_checksum"])
def test_interrupted_save_leaves_the_old_folder_whole(folder, build_regressor, monkeypatch, step):
    before = contents(folder)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"suisei.models.folder.{step}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(folder, build_regressor(seed=5))
    assert contents(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_failing_rename_brings_the_old_folder_back(folder, build_regressor, monkeypatch):
    before = contents(folder)
    rename = Path.rename

    def fails(self, target):
        if Path(target) == folder and self.name == "model" and self != folder:
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="no space left"):
        save_model(folder, build_regressor(seed=5))
    assert contents(folder) == before


def test_saving_again_replaces_everything(folder, build_regressor):
    (folder / "stale.txt").write_text("left over")
    save_model(folder, build_regressor(seed=5))
    assert not (folder / "stale.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    load_model(folder, check_names)


@pytest.fixture
def rounded(tuned_model, tmp_path):
    """A folder whose largest matrices are stored in 8 bits, and the model that it holds."""
    model = load_model(tuned_model[0], check_names).regressor
    state = model.state_dict()
    roundings = {name: Rounding(8) for name, own in state.items() if is_roundable(own) and "encoder" in name}
    assert roundings
    save_model(tmp_path / "model", model, stored=quantize_state(state, roundings))
    return tmp_path / "model", state, roundings


def test_rounded_weights_are_read_as_what_they_stand_for(rounded):
    folder, before, roundings = rounded
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["format"] == 3
    assert (folder / "model.safetensors").stat().st_size < sum(own.nbytes for own in before.values())
    read = load_model(folder, check_names).regressor
    for name, weight in read.state_dict().items():
        expected = dequantize(quantize(before[name], Rounding(8))) if name in roundings else before[name]
        assert torch.equal(weight, expected), name
    assert not any(parameter.requires_grad for parameter in read.parameters())
    assert {parameter.dtype for parameter in read.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", ["folder", "rounded"])
def test_a_loaded_model_does_not_change_with_its_file(request, name):
    given = request.getfixturevalue(name)
    where = given[0] if isinstance(given, tuple) else given
    metric = load(where, device="cpu", precision="fp32", cache="off")
    before = metric.score(["a red ball"], references=[["a ball"]]).tolist()
    path = where / "model.safetensors"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 8)
        file.write(bytes(size - size // 8))
    assert metric.score(["a red ball"], references=[["a ball"]]).tolist() == before


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda parts, name: parts.pop(name + ".scale"), "needs its numbers and its scale"),
        (
            lambda parts, name: parts.update({name + ".change4": parts[name + ".q8"].clone()}),
            "a rounded change",
        ),
        (lambda parts, name: parts.update({name + ".q8": torch.ones(1, 32).to(torch.int8)}), "another shape"),
        (lambda parts, name: parts.update({"x.change4": torch.ones(1, 32)}), r"1 unknown: x\.change4"),
        (lambda parts, name: parts.update({name: torch.ones(2, 32)}), "stored whole as well"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused_by_name(rounded, resign, edit, message):
    folder, _, roundings = rounded
    parts = load_file(folder / "model.safetensors")
    edit(parts, next(iter(roundings)))
    save_file(parts, folder / "model.safetensors")
    resign(folder)
    with pytest.raises(ModelError, match=message) as error:
        load_model(folder, check_names)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_loaded_small_model_can_be_saved_whole(rounded, tmp_path):
    read = load_model(rounded[0], check_names).regressor
    save_model(tmp_path / "whole", read)
    again = load_model(tmp_path / "whole", check_names).regressor
    assert all(torch.equal(own, again.state_dict()[name]) for name, own in read.state_dict().items())


def test_the_folder_of_a_training_leads_to_its_model(model_folder, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(ModelError, match=r"run is not a model folder: config.json is missing$"):
        load_model(tmp_path / "run", check_names)
    shutil.copytree(model_folder, tmp_path / "run" / "model")
    with pytest.raises(ModelError, match=r"is missing; the model of this training is in .*run/model$"):
        load_model(tmp_path / "run", check_names)


def test_the_folder_of_a_cross_validation_leads_to_its_models(model_folder, tmp_path):
    shutil.copytree(model_folder, tmp_path / "cv" / "fold-0" / "model")
    with pytest.raises(ModelError, match=r"is missing; this training has a model for each fold, .*fold-0"):
        load_model(tmp_path / "cv", check_names)
