"""Fewer pieces and fewer bits: what a small model keeps."""

import copy

import numpy as np
import pytest
import torch

from suisei.errors import ConfigError
from suisei.metrics.extras import check_names
from suisei.metrics.loading import load
from suisei.models.compaction import read_base, small_weights, with_encoder_name, with_fewer_pieces
from suisei.models.folder import load_model, save_model
from suisei.models.packed_rows import WORDS

BALL = [
    "a red ball lies on the table",
    "two dogs run in the park",
    "犬が公園を走っている",
    "赤いボールがある",
]


@pytest.fixture(scope="module")
def whole(tuned_model):
    return load_model(tuned_model[0], check_names).regressor


def scores(folder, captions):
    metric = load(folder, device="cpu", precision="fp32")
    return metric.score(captions, references=[captions[::-1]] * len(captions))


def test_captions_of_kept_words_score_as_before(tuned_model, whole, tmp_path):
    smaller, old = with_fewer_pieces(whole, BALL)
    assert len(old) == len(smaller.text.tokenizer) < len(whole.text.tokenizer)
    assert smaller.state_dict()[WORDS].shape == (len(old), 32)
    save_model(tmp_path / "small", smaller)
    np.testing.assert_allclose(scores(tmp_path / "small", BALL), scores(tuned_model[0], BALL), atol=1e-6)


def test_positions_that_no_caption_reaches_go(whole):
    whole = copy.deepcopy(whole)
    places = "text.backbone.embeddings.position_embeddings.weight"
    whole.text.max_tokens = 20
    smaller, _ = with_fewer_pieces(whole, BALL)
    assert smaller.state_dict()[places].shape[0] < whole.state_dict()[places].shape[0]
    assert smaller.text.max_tokens == 20
    long = ["a red ball lies on the table and " * 5]
    [before], [after] = (model.text.tokenize(long) for model in (whole, smaller))
    assert len(before) == len(after) == 20
    states = [model.text(*model.text.pad([ids]))[-1] for model, ids in ((whole, before), (smaller, after))]
    torch.testing.assert_close(*states)


def test_the_padding_has_the_new_id_of_its_piece(whole):
    """RoBERTa counts positions from it."""
    _, old = with_fewer_pieces(whole, BALL)
    moved = next(id_ for place, id_ in enumerate(old) if place != id_)
    whole, made = copy.deepcopy(whole), whole.text.architecture()
    made["backbone"]["pad_token_id"] = moved
    whole.text.architecture = lambda: copy.deepcopy(made)
    smaller, old = with_fewer_pieces(whole, BALL)
    assert old[smaller.text.backbone.config.pad_token_id] == moved


def test_idf_goes_with_its_pieces_and_nothing_becomes_unknown(whole):
    smaller, old = with_fewer_pieces(whole, [])
    for text in (*BALL, "people watch from their windows"):
        [before], [after] = whole.text.tokenize([text]), smaller.text.tokenize([text])
        if [old[id_] for id_ in after] == before:
            assert torch.equal(smaller.idf_weights[after], whole.idf_weights[before])
        assert after.count(smaller.text.tokenizer.unk_token_id) == before.count(
            whole.text.tokenizer.unk_token_id
        )
    kept = {old[id_]: count for id_, count in smaller.idf.frequencies.items()}
    assert kept == dict(whole.idf.frequencies)


def test_a_capital_first_letter_is_kept_too(whole):
    plain = set(with_fewer_pieces(whole, ["windows"])[1])
    capital = whole.text.tokenizer.fresh().encode("Windows", add_special_tokens=False).ids
    assert set(capital) <= plain


def test_the_change_is_stored_beside_the_base_and_nothing_where_nothing_changed(tuned_model, whole):
    _, base_folder = tuned_model
    stored = small_weights(whole, 4, base=read_base(base_folder, None))
    assert WORDS + ".q4" in stored
    assert WORDS + ".change4" not in stored  # only layers were trained
    tuned = "text.backbone.encoder.layer.1.intermediate.dense.weight"
    assert tuned + ".change4" in stored
    positions = "text.backbone.embeddings.position_embeddings.weight"
    assert torch.equal(stored[positions], whole.state_dict()[positions])


def test_images_are_read_by_weights_in_half_precision(build_regressor, tmp_path):
    model = build_regressor(image=True)
    stored = small_weights(model, 8)
    halves = {
        name
        for name, weight in stored.items()
        if weight.dtype == torch.float16 and not name.endswith(".scale")
    }
    assert halves
    assert all(name.startswith("image.") for name in halves)
    save_model(tmp_path / "model", model, stored=stored)
    read = load_model(tmp_path / "model", check_names).regressor
    assert {weight.dtype for weight in read.parameters()} == {torch.float32}


def test_a_base_has_the_vectors_of_the_pieces_that_are_kept(tuned_model):
    whole = read_base(tuned_model[1], None)[WORDS]
    assert torch.equal(read_base(tuned_model[1], [0, 7, 3])[WORDS], whole[[0, 7, 3]])


def test_a_base_of_another_encoder_is_refused(tuned_model, whole, tmp_path):
    base = read_base(tuned_model[1], None)
    fewer = {name: weight for name, weight in base.items() if ".layer.1." not in name}
    with pytest.raises(ConfigError, match=r"no weight encoder\.layer\.1"):
        small_weights(whole, 4, base=fewer)
    with pytest.raises(ConfigError, match="its base is"):
        small_weights(whole, 4, base={**base, WORDS: base[WORDS][:-1]})
    with pytest.raises(ConfigError, match="fewer than the model was made of"):
        read_base(tuned_model[1], [0, 10_000])


def test_only_a_loaded_model_of_berts_kind_has_pieces_to_cut(build_regressor):
    with pytest.raises(ConfigError, match="of BERT's kind"):
        with_fewer_pieces(build_regressor(image=False), [])


def test_a_name_takes_the_place_of_a_path(whole):
    named = with_encoder_name(copy.deepcopy(whole), "intfloat/multilingual-e5-small")
    assert named.config.text.name == "intfloat/multilingual-e5-small"
