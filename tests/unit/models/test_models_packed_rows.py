"""A vocabulary that stays packed gives the numbers of the whole one."""

import pickle
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from suisei.errors import ModelError
from suisei.metrics import loading
from suisei.metrics.extras import check_names
from suisei.metrics.loading import load
from suisei.metrics.suisei import SuiSeiMetric
from suisei.models import folder_regressor
from suisei.models.compaction import read_base, small_weights
from suisei.models.folder import load_model, save_model
from suisei.models.packed_rows import WORDS, PackedRows, unpack_rows
from suisei.models.quantization import Rounding, dequantize, quantize

CAPTIONS = ["a red ball lies on the table", "犬が公園を走っている", "two dogs"]


@pytest.fixture(scope="module")
def rounded(tuned_model, tmp_path_factory):
    """A model folder in 4 bits."""
    whole, base = tuned_model
    regressor = load_model(whole, check_names).regressor
    folder = tmp_path_factory.mktemp("packed") / "model"
    save_model(folder, regressor, stored=small_weights(regressor, 4, base=read_base(base, None)))
    return folder


def table_of(metric_or_model):
    return metric_or_model.regressor.text.backbone.embeddings.word_embeddings


def scores(metric):
    return metric.score(CAPTIONS, references=[CAPTIONS[::-1]] * len(CAPTIONS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rounding", ["4", "8", "4 and a change of 8"])
def test_rows_are_those_of_the_whole_table(rounding, dtype):
    torch.manual_seed(1)
    weight = torch.randn(50, 64)
    base = weight + 0.01 * torch.randn(50, 64) if "change" in rounding else None
    parts = quantize(weight, Rounding(int(rounding[0]), base, 8))
    ids = torch.tensor([[3, 49, 0], [3, 7, 7]])
    packed, whole = PackedRows(parts).to(dtype), nn.Embedding.from_pretrained(dequantize(parts)).to(dtype)
    assert packed(ids).dtype == dtype
    assert torch.equal(packed(ids), whole(ids))
    assert torch.equal(packed.whole(), whole.weight)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_metric_on_the_cpu_scores_with_packed_words(rounded, precision):
    metric = load(rounded, device="cpu", precision=precision, cache="off")
    assert isinstance(table_of(metric), PackedRows)
    expected = scores(metric)
    unpack_rows(metric.regressor)
    assert isinstance(table_of(metric), nn.Embedding)
    other = load(rounded, device="cpu", precision=precision, cache="off")
    table_of(other).parts = {}  # only what was unpacked can have been read
    other.regressor.text.backbone.embeddings.word_embeddings = table_of(metric)
    np.testing.assert_array_equal(scores(other), expected)


def test_packed_words_are_no_part_of_the_file_which_somebody_may_overwrite(rounded, tmp_path):
    folder = shutil.copytree(rounded, tmp_path / "model")
    metric = load(folder, device="cpu", precision="fp32", cache="off")
    path = folder / "model.safetensors"
    with path.open("r+b") as stream:
        stream.write(bytes(path.stat().st_size))
    np.testing.assert_array_equal(
        scores(metric), scores(load(rounded, device="cpu", precision="fp32", cache="off"))
    )


@pytest.mark.parametrize("kind", ["rounded", "whole", "with an image tower"])
def test_encoders_that_are_read_in_bf16_have_the_weights_of_those_converted_afterwards(
    rounded, tuned_model, model_folder, kind
):
    folder = {"rounded": rounded, "whole": tuned_model[0], "with an image tower": model_folder}[kind]
    read = load_model(folder, check_names, scoring="bf16").regressor
    assert {weight.dtype for weight in read.text.parameters()} == {torch.bfloat16}
    after = SuiSeiMetric(load_model(folder, check_names), "cpu", "bf16", cache="off").regressor
    unpack_rows(read)
    found, expected = read.state_dict(), after.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        assert weight.dtype == expected[name].dtype, name
        assert torch.equal(weight, expected[name]), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_words_stay_packed_in_a_model_that_is_built_twice(rounded, monkeypatch, precision):
    """As one is that has numbers which no file holds, such as the positions of some image towers."""
    expected = scores(load(rounded, device="cpu", precision=precision, cache="off"))
    monkeypatch.setattr(folder_regressor, "filled_by", lambda *_: False)
    metric = load(rounded, device="cpu", precision=precision, cache="off")
    assert isinstance(table_of(metric), PackedRows)
    np.testing.assert_array_equal(scores(metric), expected)


def test_others_have_the_whole_table(rounded):
    model = load_model(rounded, check_names)
    assert isinstance(table_of(model), nn.Embedding)
    packed = table_of(load(rounded, device="cpu", cache="off"))
    assert torch.equal(table_of(model).weight, packed.whole())


@pytest.mark.parametrize(
    ("settings", "scoring"),
    [
        ({"device": "cpu"}, "fp32"),
        ({"device": "cpu", "precision": "bf16"}, "bf16"),
        ({"device": "cpu", "compile": True}, None),
        ({"device": "cuda", "precision": "bf16"}, None),
    ],
)
def test_a_model_is_read_for_scoring_on_the_cpu_alone_and_where_nothing_is_compiled(
    monkeypatch, settings, scoring
):
    asked = []
    monkeypatch.setenv("SUISEI_PRECISION", "fp32")

    def found(*_, **options):
        asked.append(options["scoring"])
        raise ModelError("asked")

    monkeypatch.setattr(loading, "choose_device", lambda device: device)
    monkeypatch.setattr(loading, "load_model", found)
    with pytest.raises(ModelError, match="asked"):
        load("a/b/c", **settings)
    assert asked == [scoring]


def test_a_whole_table_stays_whole(tuned_model):
    assert isinstance(table_of(load(tuned_model[0], device="cpu", cache="off")), nn.Embedding)


def test_what_was_read_packed_can_be_written_pickled_and_read_into(rounded, tmp_path):
    metric = load(rounded, device="cpu", precision="fp32", cache="off")
    parts = {name for name in metric.regressor.state_dict() if name.startswith(WORDS)}
    assert parts == {f"{WORDS}.q4", f"{WORDS}.scale"}
    save_model(tmp_path / "again", metric.regressor)
    again = load(tmp_path / "again", device="cpu", precision="fp32", cache="off")
    np.testing.assert_array_equal(scores(again), scores(metric))
    np.testing.assert_array_equal(scores(pickle.loads(pickle.dumps(metric))), scores(metric))
    state = metric.regressor.state_dict()
    again.regressor.load_state_dict({**state, f"{WORDS}.scale": state[f"{WORDS}.scale"] * 2})
    assert torch.equal(table_of(again).whole(), 2 * table_of(metric).whole())
    del state[f"{WORDS}.scale"]
    with pytest.raises(RuntimeError, match=r"Missing.*word_embeddings\.weight\.scale"):
        again.regressor.load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda scale: {f"{WORDS}.scale": scale.float()}, "word_embeddings.weight: .* has the types"),
        (
            lambda scale: {f"{WORDS}.scale": scale[:-1].clone()},
            "word_embeddings.weight: parts of [0-9]+ and [0-9]+ rows",
        ),
        (lambda scale: {WORDS: torch.zeros(300, 32)}, "word_embeddings.weight: .* stored whole as well"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused_when_the_model_is_opened(
    rounded, change, message, resign, tmp_path
):
    folder = tmp_path / "bad"
    shutil.copytree(rounded, folder)
    stored = load_file(folder / "model.safetensors")
    save_file(stored | change(stored[f"{WORDS}.scale"]), folder / "model.safetensors")
    resign(folder)
    with pytest.raises(ModelError, match=message):
        load(folder, device="cpu", cache="off")


def test_the_memory_of_the_file_is_let_go(rounded, tmp_path):
    shutil.copytree(rounded, tmp_path / "own")
    metric = load(tmp_path / "own", device="cpu", precision="fp32", cache="off")
    expected = scores(metric)
    path = tmp_path / "own" / "model.safetensors"
    with path.open("r+b") as file:  # the same file, written over in place
        file.write(b"\xff" * path.stat().st_size)
    np.testing.assert_array_equal(scores(metric), expected)
