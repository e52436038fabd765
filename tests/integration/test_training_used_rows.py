"""Training an encoder of a large vocabulary whole: the word vectors that no caption has stay out of it."""

import json
import os

import pytest
import torch
from training_runs import KilledError, assert_same_weights, kill_at, weights

from suisei.encoders import text as encoder_module
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.errors import ModelError

VOCABULARY = 4000
WORDS = "text.backbone.embeddings.word_embeddings.weight"
REST = "regressor.text.backbone.embeddings.word_embeddings."


@pytest.fixture(scope="module")
def encoder(rated_file, tmp_path_factory):
    """A folder of a Hugging Face encoder, most of whose vocabulary the data do not have."""
    folder = tmp_path_factory.mktemp("encoder")
    rows = [json.loads(line) for line in rated_file.read_text(encoding="utf-8").splitlines()]
    train_tokenizer([row["candidate"] for row in rows], 300).save_pretrained(folder)
    torch.manual_seed(5)
    build_text_backbone(TinyTextConfig(width=16, layers=1), VOCABULARY).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def options(encoder):
    """A run that tunes all of it."""
    return (
        "--baselines=[]", "--checkpoint_steps=3", f"--model.text.name={encoder}", "--model.image=null",
        "--model.optimizer.frozen_fraction=0.1",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(train, options):
    return train(*options)


def with_all_rows(train, *options, **kinds):
    """Train as versions before did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_module, "worth_leaving_out", lambda *_: False)
        return train(*options, **kinds)


def killed(train, run, options, start=None):
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 7)
        with pytest.raises(KilledError):
            (start or train)(*options, output=run)
    return max((run / "checkpoints").glob("*.ckpt"), key=os.path.getmtime)


def test_the_model_is_that_of_training_all_word_vectors(whole, train, options):
    other = with_all_rows(train, *options)
    ours, theirs = weights(whole), weights(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in ours)
    torch.manual_seed(5)
    start = build_text_backbone(
        TinyTextConfig(width=16, layers=1), VOCABULARY
    ).embeddings.word_embeddings.weight
    same = (ours[WORDS] == start).all(dim=1)
    assert VOCABULARY // 2 < int(same.sum()) < VOCABULARY - 50
    assert torch.equal(same, (theirs[WORDS] == start).all(dim=1))


def test_an_interrupted_run_goes_on_from_a_small_checkpoint_and_ends_the_same(
    whole, train, options, tmp_path
):
    checkpoint = killed(train, tmp_path / "run", options)
    state = torch.load(checkpoint, weights_only=True)
    assert f"{REST}weight" not in state["state_dict"]
    assert len(state["state_dict"][f"{REST}used_rows"]) < VOCABULARY // 2
    moments = [own["exp_avg"] for own in state["optimizer_states"][0]["state"].values()]
    assert all(VOCABULARY not in moment.shape for moment in moments)
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same_weights(whole, tmp_path / "run")


def test_a_run_of_an_earlier_version_goes_on_with_all_word_vectors(train, options, tmp_path):
    def earlier(*arguments, **kinds):
        return with_all_rows(train, *arguments, **kinds)

    checkpoint = killed(train, tmp_path / "run", options, earlier)
    assert f"{REST}weight" in torch.load(checkpoint, weights_only=True)["state_dict"]
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same_weights(earlier(*options), tmp_path / "run")


def test_word_vectors_that_checkpoints_leave_out_must_still_be_those(train, options, tmp_path, monkeypatch):
    killed(train, tmp_path / "run", options)
    monkeypatch.setattr(
        encoder_module.TextEncoder, "create", changed(encoder_module.TextEncoder.create, VOCABULARY - 1)
    )
    with pytest.raises(ModelError, match="another vocabulary, other training data or another encoder"):
        train(*options, "--ckpt_path=last", output=tmp_path / "run")


def changed(create, row):
    """Return what builds the encoder with one word vector, which no caption needs, changed."""

    def build(config, captions):
        encoder = create(config, captions)
        encoder.backbone.embeddings.word_embeddings.weight.data[row] += 1
        return encoder

    return build


def test_an_encoder_that_captions_teach_before_keeps_all_it_learned(train, options, tmp_path):
    """Of captions that help beside the rated ones, whose words these need not have."""
    taught = (*options, "--model.pretraining.epochs=1", "--model.pretraining.batch_size=8")
    checkpoint = killed(train, tmp_path / "run", taught)
    assert f"{REST}weight" in torch.load(checkpoint, weights_only=True)["state_dict"]


def test_layers_alone_and_frozen_encoders_keep_their_table(train, options):
    for extra in ("--model.text.frozen=true", "--model.text.trained_layers=1"):
        run = train(*options, extra, "--trainer.max_epochs=1")
        assert weights(run)[WORDS].shape == (VOCABULARY, 16)
