"""`suisei train` with task: pretrain, and a metric that starts from its encoder."""

import json
import os
import signal

import pytest

from suisei.commands.train import main
from suisei.errors import ConfigError, ModelError
from suisei.training.pretraining import CaptionPretraining
from tests.integration.training_runs import KilledError

SMALL = [
    "--model.text.tiny.layers=0", "--model.text.tiny.width=32", "--model.text.tiny.vocabulary=500",
    "--model.pretraining.batch_size=32",
]  # fmt: skip


@pytest.mark.slow
def test_pretrained_encoder_finds_captions_and_is_read_by_a_metric(tmp_path, capsys):
    folder = tmp_path / "run"
    arguments = ["--config", "pretrain.yaml", *SMALL, "--model.pretraining.epochs=24", f"--output={folder}"]
    assert main(arguments) == 0
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert len(report["loss"]) == 24
    assert report["loss"][-1] < report["loss"][0]
    found = report["retrieval"]
    assert found["after"]["images"] == found["before"]["images"] > 10
    assert found["after"]["recall@10"] > found["before"]["recall@10"]
    said = "after: recall@1 {recall@1:.3f}, recall@10 {recall@10:.3f} of {images} images".format(
        **found["after"]
    )
    assert said in capsys.readouterr().out

    metric = tmp_path / "metric"
    arguments = [
        "--config", "scenes.yaml", f"--model.text.name={folder / 'text'}", "--model.text.frozen=true",
        "--model.text.layers=last", "--model.image=null", "--model.fusion.extra_inputs=[length]",
        "--trainer.max_epochs=1", f"--output={metric}",
    ]  # fmt: skip
    assert main(arguments) == 0
    from suisei import load

    assert load(metric / "model").score(["a red ball"], references=[["a ball"]]).shape == (1,)


@pytest.mark.slow
def test_encoders_that_were_trained_before_are_pretrained_again(tmp_path, capsys):
    """One of Hugging Face's, of which a metric would train some layers alone; and that of a trained model."""
    once = [*SMALL, "--model.pretraining.epochs=1", "--data.fractions=[0.1,0.1,0.8]"]
    layers = ["--model.text.tiny.layers=1", "--model.text.layers=last"]
    assert main(["--config", "pretrain.yaml", *once, *layers, f"--output={tmp_path / 'one'}"]) == 0
    text = f"--model.text.name={tmp_path / 'one' / 'text'}"
    some = ["--model.text.layers=last", "--model.text.trained_layers=1"]
    assert main(["--config", "pretrain.yaml", *once, text, *some, f"--output={tmp_path / 'two'}"]) == 0
    assert (tmp_path / "two" / "text" / "model.safetensors").is_file()
    metric = [
        "--config", "scenes.yaml", *once, "--model.text.layers=last", "--model.image=null",
        "--model.fusion.extra_inputs=[]", "--trainer.max_epochs=1", "--baselines=[]",
    ]  # fmt: skip
    assert main([*metric, text, f"--output={tmp_path / 'three'}"]) == 0
    model = f"--model.text.name={tmp_path / 'three' / 'model'}"
    assert main([*metric, model, f"--output={tmp_path / 'four'}"]) == 0
    with pytest.raises(ConfigError, match=r"three/model is the folder of a trained model; name the encoder"):
        main(["--config", "pretrain.yaml", *once, model, f"--output={tmp_path / 'five'}"])
    assert not (tmp_path / "five").exists()


def test_a_pretraining_without_epochs_is_refused(tmp_path, capsys):
    with pytest.raises(ConfigError, match="at least one epoch"):
        main(["--config", "pretrain.yaml", "--model.pretraining.epochs=0", f"--output={tmp_path / 'run'}"])


def test_a_pretraining_for_parts_is_refused(tmp_path):
    several = ["--model.pretraining.cross_fit=4", "--model.fusion.blocks=[]", "--model.text.frozen=true"]
    with pytest.raises(ConfigError, match="cross_fit must be 0"):
        main(["--config", "pretrain.yaml", *several, f"--output={tmp_path / 'run'}"])


@pytest.fixture(scope="module")
def captions(tmp_path_factory, rated_file):
    """The rated samples, in a file that a test may change."""
    path = tmp_path_factory.mktemp("captions") / "captions.jsonl"
    path.write_text(rated_file.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def pretrained(captions, folder, *more):
    os.environ.pop("PL_GLOBAL_SEED", None)
    sizes = ["--model.pretraining.batch_size=4", "--model.pretraining.epochs=3", "--checkpoint_steps=2"]
    given = [f"--data.train={captions}", f"--output={folder}", "--trainer.accelerator=cpu"]
    assert main(["--config", "pretrain.yaml", *SMALL, *sizes, *given, *more]) == 0
    return folder


def killed(captions, folder, calls, *more, error=KilledError):
    """Start or go on with a run, and end it at a call of the loss."""
    contrast, left = CaptionPretraining.contrast, iter(range(calls))

    def stop(self, first, second):
        if next(left, None) is None:
            raise error
        return contrast(self, first, second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CaptionPretraining, "contrast", stop)
        with pytest.raises(error) as caught:
            pretrained(captions, folder, *more)
    return str(caught.value)


def results(folder):
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return (folder / "text" / "model.safetensors").read_bytes(), {**report, "minutes": 0}


def test_a_run_that_is_killed_twice_ends_as_one_that_is_not(tmp_path, captions, capsys):
    unbroken, run = pretrained(captions, tmp_path / "unbroken"), tmp_path / "run"
    killed(captions, run, 5)
    killed(captions, run, 3, "--ckpt_path=last")
    assert (run / "checkpoints" / "last.ckpt").is_file()
    assert not (run / "report.json").exists()
    pretrained(captions, run, "--ckpt_path=last")
    assert results(run) == results(unbroken)
    assert {path.name for path in run.iterdir()} == {path.name for path in unbroken.iterdir()}
    assert not (run / "checkpoints").exists()
    with pytest.raises(ConfigError, match=r"run is finished, and .*text its encoder: nothing is left to do"):
        pretrained(captions, run, "--ckpt_path=last")


def test_a_run_goes_on_with_its_own_settings_and_data_alone(tmp_path, captions, capsys):
    run = tmp_path / "run"
    said = killed(captions, run, 0, error=KeyboardInterrupt)
    assert said.endswith("--ckpt_path last starts over: there is no checkpoint yet")
    said = killed(captions, run, 3, "--ckpt_path=last", error=KeyboardInterrupt)
    assert said.endswith(f"run/config.yaml --ckpt_path last goes on from {run}/checkpoints/last.ckpt")
    before = (run / "config.yaml").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match=r"model\.pretraining\.word_dropout: 0\.1, now 0\.3"):
        pretrained(captions, run, "--ckpt_path=last", "--model.pretraining.word_dropout=0.3")
    rows = captions.read_text(encoding="utf-8")
    try:
        captions.write_text(rows.replace(" the ", " that "), encoding="utf-8")
        with pytest.raises(ModelError, match="the run was started with other training"):
            pretrained(captions, run, "--ckpt_path=last")
    finally:
        captions.write_text(rows, encoding="utf-8")
    assert (run / "config.yaml").read_text(encoding="utf-8") == before
    pretrained(captions, run, "--ckpt_path=last")


def test_a_request_to_terminate_ends_a_run_as_ctrl_c_does(tmp_path, captions):
    def else_handled(*_):
        raise RuntimeError("the request was not taken")

    def terminate(self, first, second):
        os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("the step goes on")

    before = signal.signal(signal.SIGTERM, else_handled)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CaptionPretraining, "contrast", terminate)
            with pytest.raises(
                KeyboardInterrupt, match="--ckpt_path last starts over: there is no checkpoint"
            ):
                pretrained(captions, tmp_path / "run")
        assert signal.getsignal(signal.SIGTERM) is else_handled
    finally:
        signal.signal(signal.SIGTERM, before)
