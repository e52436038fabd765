"""Parts of a model in training: encoders, images, extra inputs, what is frozen and what is dropped."""

import json

import numpy as np
import pytest
import torch

import suisei
from suisei.commands import train as train_module
from suisei.data.formats import read_samples
from suisei.errors import ConfigError, DataError
from suisei.training import optimizers
from suisei.training.module import SuiSei
from tests.integration.training_runs import rows_of, weights


def test_missing_reference_and_image_are_trained_and_scored(train, rated_file, tmp_path):
    rows = rows_of(rated_file)
    for position, row in enumerate(rows):
        if position % 3 == 0:
            row["references"] = []
        if position % 2 == 0:
            row["image"] = None
    path = tmp_path / "gaps.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    scores = [row["suisei"] for row in rows_of(train(f"--data.train={path}") / "test_scores.jsonl")]
    assert all(0 < score < 1 for score in scores)


def test_a_model_of_images_alone_is_trained_without_references_and_one_with_idf_is_not(
    train, rated_file, tmp_path
):
    path = tmp_path / "images.jsonl"
    rows = [{**row, "references": []} for row in rows_of(rated_file)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = (f"--data.train={path}", "--trainer.max_epochs=1", "--baselines=[length]")
    run = train("--model.fusion.poolings=[mean]", *options)
    metric, row = suisei.load(run / "model"), rows[0]
    assert 0 < metric.score([row["candidate"]], images=[row["image"]])[0] < 1
    with pytest.raises(DataError) as refused:
        train("--model.fusion.alignment=true", "--model.fusion.extra_inputs=[ridge,length,cider]", *options)
    assert str(refused.value) == (
        f"{path}: no training row has references, which the model counts idf in or fits extra inputs to; add "
        "some, or set model.fusion.poolings: [mean] and model.fusion.alignment: false and "
        "model.fusion.extra_inputs: [length] to do without"
    )
    with pytest.raises(DataError, match=r"or set model\.fusion\.extra_inputs: \[\] to do without"):
        train("--model.fusion.poolings=[mean]", "--model.fusion.extra_inputs=[ridge]", *options)


def test_a_model_that_saw_no_image_reads_none_and_few_tested_samples_are_said(
    train, rated_file, tmp_path, capsys
):
    rows = rows_of(rated_file)
    path = tmp_path / "unseen.jsonl"
    path.write_text("".join(json.dumps({**row, "image": None}) + "\n" for row in rows), encoding="utf-8")
    run = train(f"--data.train={path}", "--trainer.max_epochs=1")
    report = json.loads((run / "report.json").read_text())
    assert report["data"]["images"] == 0
    assert report["data"]["reads"] == ["references"]
    assert sum(report["data"]["languages"].values()) == report["data"]["samples"]["train"]
    metric = suisei.load(run / "model")
    assert metric.regressor.image is None
    few = f"Tested on {report['data']['samples']['test']} samples; figures of fewer than 50 say little"
    assert any(caution.startswith(few) for caution in report["cautions"])
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "does not look at the image" in card
    for said in (capsys.readouterr().out, card, (run / "report.md").read_text(encoding="utf-8")):
        assert "Tested on" in said
        assert "--data.folds 5" in " ".join(said.split())  # lines are broken to fit


def test_all_folds_count_ratings_by_one_rule(train, rated_file, tmp_path):
    rows = rows_of(rated_file)
    alone = rows[0]["group"]
    for row in rows:
        row["image"] = None
        row["rating"] = row["rating"][: 2 if row["group"] == alone else 3]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ("--baselines=[]", "--model.image=null", "--trainer.max_epochs=1", "--data.folds=2")
    run = train(*options, f"--data.train={data}", output=tmp_path / "run")
    folders = (run / "fold-0", run / "fold-1", run)
    tested = [
        {len(sample.rating.values) for sample in read_samples(each / "test.jsonl")} for each in folders[:2]
    ]
    assert sorted(map(len, tested)) == [1, 2]  # one fold has as many raters for every sample, the other not
    reports = [json.loads((each / "report.json").read_text()) for each in folders]
    assert [report["results"]["settings"]["raters"] for report in reports] == ["mean"] * 3


def save_encoder(encoder, folder):
    """Save a text encoder as a folder of transformers, and return it."""
    from transformers import AutoConfig, AutoModel

    architecture = dict(encoder.architecture()["backbone"])
    backbone = AutoModel.from_config(AutoConfig.for_model(architecture.pop("model_type"), **architecture))
    backbone.load_state_dict(encoder.backbone.state_dict(), strict=False)
    backbone.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    return encoder


@pytest.mark.parametrize("references", ["mean", "max", "concat"])
def test_model_without_image_and_frozen_text_encoder(train, finished, tmp_path, references):
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model

    folder = tmp_path / "encoder"
    encoder = save_encoder(load_model(finished / "model", check_names).regressor.text, folder)
    text = json.dumps({"name": str(folder), "frozen": True})
    run = train("--model.image=null", f"--model.text={text}", f"--model.fusion.references={references}")
    trained = weights(run)
    for name, value in encoder.state_dict().items():
        assert torch.equal(trained[f"text.{name}"], value), name
    assert not any(name.startswith("image.") for name in trained)
    samples = read_samples(run / "test.jsonl")
    reported = [row["suisei"] for row in rows_of(run / "test_scores.jsonl")]
    np.testing.assert_allclose(suisei.load(run / "model").score(samples), reported, atol=1e-6)


@pytest.mark.parametrize("options", [(), ("--model.text.checkpointing=true",), ("--model.text.frozen=true",)])
def test_an_encoder_that_transformers_loads_is_trained_with_its_dropout(
    train, finished, tmp_path, monkeypatch, options
):
    """It comes as it is for scoring, and the trainer leaves it so; nor would layers be computed twice."""
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model

    save_encoder(load_model(finished / "model", check_names).regressor.text, tmp_path / "encoder")
    seen, step = [], SuiSei.training_step

    def watched(self, batch, batch_idx):
        seen.append([module.training for module in self.regressor.text.modules()])
        return step(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", watched)
    train(f"--model.text.name={tmp_path}/encoder", "--model.image=null", "--baselines=[]", *options)
    frozen = "--model.text.frozen=true" in options
    assert len(seen) > 10  # in both epochs, around a validation
    assert all(all(modes) is not frozen and any(modes) is not frozen for modes in seen)


@pytest.mark.parametrize("hidden", [0, 4])
def test_extra_input_is_trained_and_saved(train, hidden):
    options = (f"--model.head.extra_hidden={hidden}", "--baselines=[]")
    run = train("--model.fusion.extra_inputs=[cider,unigram-f1]", *options)
    metric = suisei.load(run / "model")
    assert set(metric.model.extras) == {"cider", "unigram-f1"}
    samples = read_samples(run / "test.jsonl")
    reported = [row["suisei"] for row in rows_of(run / "test_scores.jsonl")]
    np.testing.assert_allclose(metric.score(samples), reported, atol=1e-6)
    alone = [metric.score([sample])[0] for sample in samples[:5]]
    np.testing.assert_allclose(alone, reported[:5], atol=1e-5)
    assert torch.all(weights(run)["extra_scale"] != 1)


def test_text_encoder_is_frozen_for_the_first_part_of_the_first_epoch(train, monkeypatch):
    seen = []
    step = SuiSei.training_step

    def watched(self, batch, batch_idx):
        embeddings = self.regressor.text.backbone.embeddings.word_embeddings.weight
        seen.append((self.current_epoch, batch_idx, embeddings.requires_grad, embeddings.detach().clone()))
        return step(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", watched)
    train("--baselines=[]")
    batches = max(index for _, index, _, _ in seen) + 1
    for epoch, index, trained, _ in seen:
        assert trained is (epoch > 0 or index >= 0.4 * batches), (epoch, index)
    first = seen[0][3]
    unchanged = [torch.equal(first, values) for _, _, _, values in seen]
    # the values are those before the step, so the first trained step shows one batch later
    assert unchanged == [not trained for _, _, trained, _ in [seen[0], *seen[:-1]]]


def test_references_and_images_are_dropped_in_training_only(train, monkeypatch):
    calls = {"training": 0, "validation": 0}
    drop, step, check = SuiSei._drop, SuiSei.training_step, SuiSei.validation_step

    def counted(self, batch):
        calls["training"] += 1
        assert self.training
        drop(self, batch)

    def whole(self, batch, batch_idx):
        calls["validation"] += 1
        before = batch.reference_mask.clone(), batch.image_mask.clone()
        check(self, batch, batch_idx)
        assert torch.equal(before[0], batch.reference_mask)
        assert torch.equal(before[1], batch.image_mask)
        assert bool(batch.reference_mask[:, 0].all())

    monkeypatch.setattr(SuiSei, "_drop", counted)
    monkeypatch.setattr(SuiSei, "validation_step", whole)
    run = train("--baselines=[]", "--model.reference_dropout=0.5", "--model.image_dropout=0.5")
    assert calls["training"] == json.loads((run / "report.json").read_text())["training"]["steps"]
    assert calls["validation"] == 2
    assert step is SuiSei.training_step


def test_a_fused_optimizer_in_half_precision_clips_gradients_and_follows_the_schedule(train, monkeypatch):
    monkeypatch.setattr(optimizers, "FUSED_WEIGHTS", 0)
    fused, outputs = set(), SuiSei.outputs

    def watched(self, batch):
        fused.add((self.training, torch.backends.cuda.flash_sdp_enabled()))
        return outputs(self, batch)

    monkeypatch.setattr(SuiSei, "outputs", watched)
    run = train(
        "--baselines=[]",
        "--trainer.precision=bf16-mixed",
        "--trainer.max_epochs=1",
        "--trainer.accumulate_grad_batches=3",
        "--model.optimizer.schedule=linear",
    )
    state = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    facts = json.loads((run / "report.json").read_text(encoding="utf-8"))["training"]
    assert (facts["steps"], facts["precision"]) == (4, "bf16-mixed")  # ten batches, the last one alone
    assert state["global_step"] == 4
    groups = state["optimizer_states"][0]["param_groups"]
    assert all(group["fused"] for group in groups)
    assert fused == {(True, False), (False, True)}  # attention, whose fused gradient is slow
    assert all(group["lr"] == pytest.approx(0.0, abs=1e-12) for group in groups)  # at the end of four steps


def test_an_input_with_an_encoder_travels_in_the_model_folder(train, tmp_path):
    from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder

    vision = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32, "head_width": 16}
    text = {"context_length": 20, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": vision, "text_cfg": text})
    save_dual_encoder(made, tmp_path / "clip")
    options = ("--trainer.max_epochs=1", "--baselines=[]")
    run = train(f"--model.fusion.extra_inputs=[pac-s:{tmp_path}/clip,length]", *options)
    (tmp_path / "clip").rename(tmp_path / "gone")
    metric = suisei.load(run / "model")
    assert list(metric.extras.metrics) == ["pac-s:extras/pac-s", "length"]
    reported = [row["suisei"] for row in rows_of(run / "test_scores.jsonl")]
    np.testing.assert_allclose(metric.score(read_samples(run / "test.jsonl")), reported, atol=1e-5)


def test_an_input_that_no_folder_can_hold_is_refused_before_training(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(SuiSei, "build", lambda *_, **__: pytest.fail("it trained"))
    inputs = "--model.fusion.extra_inputs=[length,comet:/usr/bin/python3]"
    with pytest.raises(ConfigError, match="'comet:/usr/bin/python3' cannot go into a model folder"):
        train_module.main(["--config", str(settings), f"--output={tmp_path / 'run'}", inputs])
