"""Tuning by rewards, from the command line to the model folder: tiny captioner, pictures of one colour."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from suisei.captioning.caption_model import load_caption_model
from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.grid_tower import GridTower
from suisei.captioning.rewards import CaptionReward
from suisei.captioning.self_critical import SelfCritical
from suisei.captioning.self_critical_run import TASK, run
from suisei.errors import DataError, ModelError
from tests.unit.captioning.tuning import arguments, lines, logged
from tests.unit.tiny_models import write_clip
from tests.unit.two_processes import environment


def final(run_folder):
    return load_file(run_folder / "model" / "model.safetensors")


def assert_same(one, other):
    left, right = final(one), final(other)
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@pytest.mark.parametrize("baseline", ["beam-mean", "greedy", "sample-mean"])
def test_tuning_raises_its_reward(folder, tmp_path, baseline):
    more = ["--trainer.max_steps=20", "--trainer.val_check_interval=10", f"--model.baseline={baseline}"]
    assert run(arguments(folder, tmp_path / "run", *more)) == 0
    curve = lines(tmp_path / "run" / "curve.jsonl")
    assert [row["step"] for row in curve] == [0, 10, 20]
    assert curve[-1]["reward"] > curve[0]["reward"] + 0.5
    assert load_caption_model(tmp_path / "run" / "model").languages == ("en",)


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "run"
    run(arguments(folder, output, *RESUMED))
    return output


class KilledError(Exception):
    """Stands for a power cut."""


RESUMED = ("--model.baseline=greedy", "--model.kl_weight=0.1", "--model.cross_entropy_weight=0.2",
           "--trainer.accumulate_grad_batches=2", "--trainer.val_check_interval=6")  # fmt: skip


@pytest.mark.parametrize("step", [1, 5])
def test_a_resumed_run_ends_with_the_same_weights(folder, whole, tmp_path, step, monkeypatch):
    output = tmp_path / "run"
    original = SelfCritical.training_step

    def killed(self, positions, batch_idx):
        if self.trainer.global_step == step:
            raise KilledError
        return original(self, positions, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(SelfCritical, "training_step", killed)
        with pytest.raises(KilledError):
            run(arguments(folder, output, *RESUMED))
    assert not (output / "report.json").exists()
    other = ["--ckpt_path=last", "--report_metrics=[length]"]  # what the report measures may change
    assert run(arguments(folder, output, *RESUMED, *other)) == 0
    assert_same(whole, output)
    assert [row["step"] for row in lines(output / "curve.jsonl")] == [0, 3, 6]
    for name in ("curve.jsonl", "samples.jsonl"):
        assert lines(output / name) == lines(whole / name)


def test_what_is_mixed_into_the_loss_keeps_the_model_near_its_start(folder, tmp_path):
    """A heavy divergence term holds the distribution, and cross-entropy the captions of people."""
    mixed = ["--model.kl_weight=50", "--trainer.gradient_clip_val=null", "--trainer.max_steps=10"]
    run(arguments(folder, tmp_path / "kl", *mixed))
    held = logged(tmp_path / "kl", "kl")
    assert len(held) == 10
    assert held[0] == pytest.approx(0, abs=1e-6)  # the first step begins at the start model
    assert 0 < max(held) < 0.2
    run(arguments(folder, tmp_path / "xe", "--model.cross_entropy_weight=5", "--trainer.max_steps=10"))
    told = logged(tmp_path / "xe", "cross_entropy")
    assert np.mean(told[-3:]) < np.mean(told[:3])
    assert not logged(tmp_path / "xe", "kl")


def test_cross_entropy_leaves_out_what_can_never_be_written(folder):
    model = SelfCritical(str(folder / "captioner"), cross_entropy_weight=1.0, max_length=16)
    tokens = model.writer.tokens_of(["a red wall 赤"])
    unknown = tokens == model.writer.pieces.unknown_id
    assert unknown.any()
    memory = model.writer.memory(model.writer.grid(model.writer.read([folder / "0.png"])))
    each = model.writer.log_probs(memory, tokens[:, None])[0]
    pair = CaptionedImage(folder / "0.png", ("a red wall 赤",), ("en",), "0")
    loss = model._cross_entropy(memory, [pair], np.random.default_rng(0))
    torch.testing.assert_close(loss, -each[~unknown].mean())
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.writer.parameters() if p.grad is not None)


def test_images_are_looked_at_once(folder, tmp_path, monkeypatch):
    seen = []
    original = GridTower.forward
    monkeypatch.setattr(
        GridTower, "forward", lambda self, pixels: seen.append(len(pixels)) or original(self, pixels)
    )
    monkeypatch.setenv("SUISEI_CACHE", str(tmp_path / "cache"))
    run(arguments(folder, tmp_path / "run"))
    assert seen == [1, 1, 8]  # two to learn the size of a grid; of sixteen images half are the same
    run(arguments(folder, tmp_path / "again"))
    assert seen[3:] == [1, 1]  # what a frozen tower says is kept between runs


def test_the_reward_looks_at_images_before_the_first_step(folder, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(CaptionReward, "looked_at_ahead", lambda self, images: images[:3])
    monkeypatch.setattr(
        CaptionReward, "look_at", lambda self, images, advance, _: told.append((len(images), advance(3)))
    )
    step = SelfCritical.training_step
    monkeypatch.setattr(
        SelfCritical, "training_step", lambda self, *batch: told.append("step") or step(self, *batch)
    )
    run(arguments(folder, tmp_path / "run", "--trainer.max_steps=1"))
    assert [each if each == "step" else each[0] for each in told] == [3, "step"]


def test_a_reward_without_numbers_stops_the_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "suisei.metrics.cider.Cider._score", lambda self, samples, **_: np.full(len(samples), np.nan)
    )
    with pytest.raises(
        DataError, match=r"step 1: 12 of 12 captions have no reward, and model\.max_skipped is"
    ):
        run(arguments(folder, tmp_path / "run"))
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_rows_without_reward_are_left_out_and_counted(folder, tmp_path, monkeypatch):
    from suisei.metrics.cider import Cider

    original = Cider._score

    def some(self, samples, **options):
        scores = original(self, samples, **options)
        return np.where([sample.image.name in ("0.png", "1.png") for sample in samples], np.nan, scores)

    monkeypatch.setattr(Cider, "_score", some)
    run(arguments(folder, tmp_path / "run", "--model.max_skipped=0.6"))
    assert np.mean(logged(tmp_path / "run", "skipped")) == pytest.approx(0.25)
    assert np.isfinite(logged(tmp_path / "run", "train_loss")).all()
    with pytest.raises(DataError, match="captions have no reward"):
        run(arguments(folder, tmp_path / "other", "--model.max_skipped=0"))


def test_a_loss_that_is_no_number_stops_the_run(folder, tmp_path):
    with pytest.raises(ModelError, match=r"NaN|the loss is nan|no numbers"):
        run(
            arguments(
                folder,
                tmp_path / "run",
                "--model.learning_rate=1",
                "--trainer.max_steps=40",
                "--trainer.gradient_clip_val=null",
                "--model.weight_decay=10",
            )
        )


def test_a_captioner_of_hugging_face_takes_its_place(folder, tmp_path):
    from transformers import (
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTImageProcessor,
    )

    from suisei.captioning.hf_captioner import wrapped
    from suisei.encoders.tiny import train_tokenizer

    torch.manual_seed(0)
    tokenizer = train_tokenizer(["a red wall", "a blue wall"], 30)
    text = GPT2Config(
        vocab_size=len(tokenizer), n_positions=32, n_embd=24, n_layer=1, n_head=4, bos_token_id=0,
        eos_token_id=2, is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
    image = ViTConfig(
        image_size=32, patch_size=16, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(image, text)
    config.decoder_start_token_id, config.eos_token_id, config.pad_token_id = 0, 2, 2
    processor = ViTImageProcessor(size={"height": 32, "width": 32})
    wrapped(VisionEncoderDecoderModel(config), tokenizer, processor).save(tmp_path / "hf")
    mixed = ["--model.kl_weight=0.1", "--model.cross_entropy_weight=0.1", "--model.language=en"]
    more = [f"--model={tmp_path / 'hf'}", "--reward=chrf", "--trainer.max_steps=2", *mixed]
    assert run(arguments(folder, tmp_path / "run", *more)) == 0
    start, tuned = (load_caption_model(tmp_path / name).state_dict() for name in ("hf", "run/model"))
    moved = {name for name in start if not torch.equal(start[name], tuned[name])}
    assert moved
    assert not any(".encoder." in name for name in moved)  # its eyes stay as they are


@pytest.mark.slow
def test_two_processes_tune_as_one(folder, tmp_path):
    write_clip(tmp_path / "clip", context=77)

    def rewards(name, processes):
        given = [
            *arguments(folder, tmp_path / name, "--model.learning_rate=0.001"),
            f"--reward=cider+pac-s:{tmp_path / 'clip'}",  # each looks at half of the images
            f"--trainer.devices={processes}",
            f"--trainer.strategy={'ddp' if processes > 1 else 'auto'}",
            f"--data.batch_size={8 // processes}",
        ]
        if processes > 1:
            (tmp_path / "task.yaml").write_text(f"task: {TASK}\n")
            command = [sys.executable, "-m", "suisei.train", "--config", str(tmp_path / "task.yaml"), *given]
            subprocess.run(command, check=True, capture_output=True, timeout=900, env=environment())
        else:
            run(given)
        return [row["reward"] for row in lines(tmp_path / name / "curve.jsonl")], final(tmp_path / name)

    (one, weights), (two, others) = rewards("one", 1), rewards("two", 2)
    assert one[-1] > one[0]
    np.testing.assert_allclose(one, two, rtol=1e-3)
    for name, weight in weights.items():
        if not name.endswith("key.bias"):  # moves every key alike, which attention does not see: noise alone
            torch.testing.assert_close(weight, others[name], rtol=1e-3, atol=1e-4, msg=name)
