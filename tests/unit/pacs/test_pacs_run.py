import csv
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.registry import get_metric
from suisei.pacs import dual_run
from suisei.pacs.dual_module import PacTraining
from suisei.pacs.dual_run import TASK, run, task_of
from suisei.pacs.lora import LowRank
from suisei.pacs.pair_datamodule import PairDataModule
from suisei.resources import resource_path
from suisei.training import task_run
from tests.unit.moves import recorded
from tests.unit.pacs.pacs_models import COLOURS, arguments
from tests.unit.tiny_models import TEXT, VIT
from tests.unit.two_processes import environment


@pytest.mark.parametrize("trainable", ["projections", "lora", "image", "all"])
def test_a_run_writes_a_model_that_scores(folder, tmp_path, capsys, trainable):
    output = tmp_path / "run"
    model = [
        f"--model.model={folder / 'clip'}",
        f"--model.trainable={trainable}",
        "--model.learning_rate=0.01",
    ]
    assert run(arguments(folder, output, *model)) == 0
    report = json.loads((output / "report.json").read_text())
    assert report["steps"] == 6
    assert report["kept"] in (2, 4, 6)
    told = f"run: {output}   model: {output / 'model'}   kept: step {report['kept']}\n"
    assert capsys.readouterr().out.endswith(told)
    assert "val_recall10" in (output / "logs" / "version_0" / "metrics.csv").read_text()
    assert 0 <= report["val_recall10_all_captions"] <= 1
    before = get_metric(f"pac-s:{folder / 'clip'}", device="cpu").encoder.model.state_dict()
    after = get_metric(f"pac-s:{output / 'model'}", device="cpu")
    changed = {k for k, v in after.encoder.model.state_dict().items() if not torch.equal(v, before[k])}
    if trainable == "projections":
        assert changed == {"visual.proj", "text_projection"}
        assert report["trainable_parameters"] == 2 * 32 * 16
    elif trainable == "image":
        assert not any(key.startswith(("transformer", "token", "ln_final")) for key in changed)
        assert "visual.conv1.weight" in changed
    elif trainable == "lora":
        assert "visual.conv1.weight" in changed
        assert not changed & {"visual.proj", "text_projection", "logit_scale", "token_embedding.weight"}
    else:
        assert "token_embedding.weight" in changed
    sample = CaptionSample("a red wall", ("red",), folder / "0.png")
    assert np.isfinite(after.score([sample])).all()
    with pytest.raises(ConfigError, match="holds a run already"):
        run(arguments(folder, output, *model))


def test_low_rank_updates_have_the_rank_and_scale_asked_for(folder, tmp_path):
    lora = [f"--model.model={folder / 'clip'}", "--model.trainable=lora"]
    for rank in (2, 8):
        output = tmp_path / str(rank)
        run(arguments(folder, output, *lora, f"--model.rank={rank}", "--model.alpha=3"))
        state = torch.load(output / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        factors = [(key, value.shape) for key, value in state.items() if "factor" in key]
        assert factors
        assert {shape[0 if key.endswith("factor_a") else 1] for key, shape in factors} == {rank}
        scorer = get_metric(f"pac-s:{output / 'model'}", device="cpu")
        assert np.isfinite(scorer.score([CaptionSample("a red wall", image=folder / "0.png")])).all()
    trained = PacTraining(str(folder / "clip"), None, trainable="lora", rank=8, alpha=3.0)
    scales = {module.scale for module in trained.modules() if isinstance(module, LowRank)}
    assert scales == {3 / 8}


@pytest.mark.parametrize("option", ["rank=8", "alpha=2"])
def test_low_rank_settings_without_low_rank_updates_are_refused(folder, tmp_path, option):
    with pytest.raises(
        ConfigError, match=r"with trainable: projections there are none: set model\.trainable"
    ):
        run(arguments(folder, tmp_path, f"--model.model={folder / 'clip'}", f"--model.{option}"))


def test_weights_of_positives_that_no_image_has_are_said(folder, tmp_path, caplog):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    bare = tmp_path / "bare.jsonl"
    kept = [{"image": str(folder / row["image"]), "captions": row["captions"]} for row in rows]
    bare.write_text("".join(json.dumps(row) + "\n" for row in kept))
    options = [f"--model.model={folder / 'clip'}", f"--data.root={folder}"]
    for output, data in (("without", bare), ("with", folder / "train.jsonl")):
        files = [f"--data.train={data}", f"--data.validation={data}"]
        assert run([*arguments(folder, tmp_path / output, *options), *files]) == 0
        said = [record.getMessage() for record in caplog.records if "has no effect" in record.getMessage()]
        assert [text.partition(" (")[0].rpartition(" ")[2] for text in said] == (
            ["model.lambda_t", "model.lambda_v"] if output == "without" else []
        )
        caplog.clear()


def test_positives_that_some_images_lack_are_refused_before_an_image_is_read(monkeypatch, folder, tmp_path):
    def read(*_given, **_options):
        raise AssertionError("an image was read")

    monkeypatch.setattr(dual_run, "PixelStore", read)
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for kind in ("captions", "images"):
        lacking = folder / f"lacking-{kind}.jsonl"
        some = [{**rows[0], f"generated_{kind}": []}, *rows[1:]]
        lacking.write_text("".join(json.dumps(row) + "\n" for row in some))
        given = arguments(folder, tmp_path / kind, f"--model.model={folder / 'clip'}")
        with pytest.raises(ConfigError, match=f"1 of 8 images of data.train .* have no generated_{kind}"):
            run([*given, f"--data.train={lacking}"])


def test_what_is_computed_beside_the_steps_is_computed_where_they_are(monkeypatch, folder, tmp_path):
    """The trainer has the towers on its device while it fits, and on the CPU before and after."""
    seen = recorded(monkeypatch, dual_run, "_prepare", "final_recall")
    assert run(arguments(folder, tmp_path / "run", f"--model.model={folder / 'clip'}")) == 0
    assert seen == [("_prepare", "cpu"), ("final_recall", "cpu")]


@pytest.mark.slow
def test_two_processes_train_as_one(folder, tmp_path):
    single = folder / "single.jsonl"  # one caption each: what is drawn differs between processes
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    single.write_text("".join(json.dumps({**row, "captions": row["captions"][:1]}) + "\n" for row in rows))

    def losses(name, processes):
        given = [
            *arguments(folder, tmp_path / name, f"--model.model={folder / 'clip'}", "--model.trainable=lora"),
            "--trainer.max_steps=3",
            "--trainer.val_check_interval=1",
            "--trainer.log_every_n_steps=1",
            "--model.learning_rate=0.01",
            f"--data.train={single}",
            f"--data.validation={single}",
            f"--trainer.devices={processes}",
            f"--trainer.strategy={'ddp' if processes > 1 else 'auto'}",
            f"--data.batch_size={8 // processes}",
        ]
        if processes > 1:
            (tmp_path / "task.yaml").write_text(f"task: {TASK}\n")
            command = [sys.executable, "-m", "suisei.train", "--config", str(tmp_path / "task.yaml"), *given]
            subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment())
        else:
            run(given)
        with (tmp_path / name / "logs" / "version_0" / "metrics.csv").open() as file:
            return [float(row["val_loss"]) for row in csv.DictReader(file) if row["val_loss"]]

    one, two = losses("one", 1), losses("two", 2)
    assert len(one) == 3
    assert one[0] > one[-1]
    np.testing.assert_allclose(one, two, rtol=1e-5)


def test_attention_is_learned_one_product_at_a_time_in_bf16(folder, tmp_path, monkeypatch):
    fused, attend = set(), functional.scaled_dot_product_attention

    def watched(query, *more, **named):
        if torch.is_grad_enabled() and query.requires_grad:
            fused.add(torch.backends.cuda.flash_sdp_enabled())
        return attend(query, *more, **named)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    model = [f"--model.model={folder / 'clip'}", "--model.trainable=all", "--trainer.precision=bf16-mixed"]
    assert run(arguments(folder, tmp_path / "run", *model, "--trainer.max_steps=2")) == 0
    assert fused == {False}


def test_training_learns_which_caption_goes_with_which_image(folder, tmp_path):
    architecture = {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}
    more = [
        "--trainer.max_steps=60",
        "--trainer.val_check_interval=20",
        "--data.batch_size=8",
        "--model.trainable=all",
        "--model.learning_rate=0.003",
        f"--model.architecture={json.dumps(architecture)}",
    ]
    run(arguments(folder, tmp_path / "run", *more))
    metric = get_metric(f"pac-s:{tmp_path / 'run' / 'model'}", device="cpu")
    samples = [
        CaptionSample(f"a {name} wall {number}", (), folder / f"{number + shift}.png")
        for shift in (0, 1)
        for number, name in enumerate(list(COLOURS)[:3])
    ]
    right, wrong = metric.score(samples).reshape(2, 3)
    assert (right > wrong).all()


def test_refusals(folder):
    with pytest.raises(ConfigError, match="projections, lora, image, all"):
        PacTraining(str(folder / "clip"), trainable="some")
    with pytest.raises(ConfigError, match="batch_size is 1; it must be an integer from 2"):
        PairDataModule(batch_size=1)
    with pytest.raises(ConfigError, match="captions_per_image is 0; it must be an integer from 1"):
        PairDataModule(captions_per_image=0)
    with pytest.raises(ConfigError, match=r"smallest_crop is 0\.0; it must be a number above 0"):
        PacTraining(str(folder / "clip"), smallest_crop=0.0)
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=9)
    with pytest.raises(ConfigError, match="8 training images do not fill a batch of 9"):
        data.load()


def test_images_have_to_fill_a_batch_of_all_processes(folder, tmp_path, monkeypatch):
    """Else no step would be taken, and the model written as it was."""
    monkeypatch.setattr(dual_run, "train", lambda *_: pytest.fail("it began to train"))
    together = [f"--model.model={folder / 'clip'}", "--trainer.devices=2", "--trainer.strategy=ddp"]
    with pytest.raises(ConfigError, match=r"8 training images do not fill a batch of 10 \(5 in each of 2 p"):
        run(arguments(folder, tmp_path / "run", *together, "--data.batch_size=5"))
    assert not (tmp_path / "run").exists()
    file = str(folder / "train.jsonl")
    PairDataModule(file, file, batch_size=4).load(processes=2)


def test_a_training_that_took_no_step_writes_no_model(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(task_run, "fit", lambda *_: None)
    with pytest.raises(ConfigError, match=r"took no step, and no model is written; lower data\.batch_size"):
        run(arguments(folder, tmp_path / "run", f"--model.model={folder / 'clip'}"))
    assert not (tmp_path / "run").exists()


def test_a_config_says_what_is_trained(tmp_path):
    mine, other = tmp_path / "mine.yaml", tmp_path / "other.yaml"
    mine.write_text("task: pacs\nmodel: {trainable: lora}\n")
    other.write_text("model: {}\n")
    assert task_of(["--config", str(mine)]) == "pacs"
    assert task_of([f"--config={mine}", "--output", "x"]) == "pacs"
    assert task_of(["--config", str(other)]) is None
    with pytest.raises(ConfigError, match=r"absent\.yaml: does not exist"):
        task_of(["--config", str(tmp_path / "absent.yaml")])
    assert task_of(["--output", "x"]) is None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("patience_steps", "0"), ("monitor", "foo"), ("task", "foo"), ("trainer.val_check_interval", "0"),
        ("trainer.val_check_interval", "0.5"), ("seed_everything", "-1"), ("model.rank", "0"),
        ("model.alpha", "0"),
        ("model.learning_rate", "1e9"), ("model.lambda_v", "-1"), ("model.cosine_steps", "0"),
        ("data.batch_size", "1"), ("data.hold_out", "-1"), ("data.limit", "0"), ("trainer.devices", "99"),
        ("trainer.plugins", "os.system"), ("model.architecture", '{"class_path": "os.system"}'),
    ],
)  # fmt: skip
def test_a_hostile_setting_is_one_line(folder, tmp_path, option, value):
    with pytest.raises(ConfigError, match=option.rpartition(".")[2]) as error:
        run(arguments(folder, tmp_path / "run", f"--model.model={folder / 'clip'}", f"--{option}={value}"))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def rates_of(folder, output, monkeypatch, *options):
    """The learning rate of every step of a run, and the weight decays of its two groups."""
    rates, decays = [], set()
    step = PacTraining.training_step

    def watched(self, batch, batch_idx):
        groups = self.optimizers().param_groups
        rates.append(groups[0]["lr"])
        decays.update(group["weight_decay"] for group in groups)
        return step(self, batch, batch_idx)

    monkeypatch.setattr(PacTraining, "training_step", watched)
    run(arguments(folder, output, f"--model.model={folder / 'clip'}", "--model.trainable=all", *options))
    return rates, decays


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [1] * 6),
        (["warmup_steps=4"], [0.25, 0.5, 0.75, 1, 1, 1]),
        (["cosine_steps=4"], [1, 0.853553, 0.5, 0.146447, 0, 0]),
        (["warmup_steps=2", "cosine_steps=4"], [0.5, 0.853553, 0.5, 0.146447, 0, 0]),
    ],
)
def test_rates_of_a_run_follow_warm_up_and_cosine(folder, tmp_path, monkeypatch, options, expected):
    given = ["learning_rate=0.002", "weight_decay=0.3", *options]
    rates, decays = rates_of(folder, tmp_path / "run", monkeypatch, *(f"--model.{one}" for one in given))
    assert [rate / 0.002 for rate in rates] == pytest.approx(expected, abs=1e-5)
    assert decays == {0.3, 0.0}


def test_a_run_s_seed_decides_new_weights_and_what_is_drawn(folder, tmp_path):
    architecture = {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}
    more = [
        f"--model.architecture={json.dumps(architecture)}",
        "--model.trainable=image",
        "--trainer.max_steps=2",
    ]
    weights = []
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        run(arguments(folder, tmp_path / name, *more, f"--seed_everything={seed}"))
        saved = torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        weights.append(saved["state_dict"]["towers.visual.conv1.weight"])
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("monitor", "said"), [("val_recall10", True), ("val_loss", False)])
def test_a_figure_that_cannot_choose_weights_is_said(folder, tmp_path, caplog, monitor, said):
    more = [f"--model.model={folder / 'clip'}", f"--monitor={monitor}", "--trainer.max_steps=1"]
    run(arguments(folder, tmp_path / "run", *more))
    assert ("val_recall10 is 1 whatever is learned" in caplog.text) == said


@pytest.mark.parametrize(("images", "said"), [(10, True), (11, False)])
def test_recall_at_10_says_nothing_of_up_to_ten_images(caplog, images, said):
    dual_run._check_monitored(SimpleNamespace(monitored="val_recall10"), images)
    assert ("val_recall10 is 1 whatever is learned" in caplog.text) == said


@pytest.mark.parametrize("name", ["pacs.yaml", "pacs_flickr8k.yaml", "pacs_frozen.yaml"])
def test_shipped_configs_are_understood(name, tmp_path, monkeypatch):
    def stop(*_given, **_options):
        raise ConfigError("far enough")

    monkeypatch.setattr("suisei.pacs.dual_module.load_dual_encoder", stop)
    monkeypatch.setattr("suisei.pacs.dual_module.new_dual_encoder", stop)
    config = str(resource_path(f"configs/{name}"))
    assert task_of(["--config", config]) == "pacs"
    with pytest.raises(ConfigError, match="far enough"):
        run(["--config", config, f"--output={tmp_path / 'run'}"])


def test_captions_that_the_text_tower_cuts_are_counted_and_said_once(folder, tmp_path, caplog):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    rows[0]["captions"][0] = "a red wall " * 40
    rows[1]["generated_captions"] = ["a green wall " * 40]
    long = tmp_path / "long.jsonl"
    long.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = [f"--model.model={folder / 'clip'}", f"--data.root={folder}", "--trainer.max_steps=2"]
    for data, count in ((long, 1), (folder / "train.jsonl", 0)):
        caplog.clear()
        files = [f"--data.train={data}", f"--data.validation={data}"]
        assert run([*arguments(folder, tmp_path / str(count), *options), *files]) == 0
        assert caplog.text.count("2 of 24 captions have more tokens than the text tower reads") == count
        assert ("such as 'a green wall" in caplog.text) == bool(count)


def test_a_damaged_image_stops_a_run_or_is_left_out(folder, tmp_path, caplog):
    for file in folder.glob("*.png"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_text("".join(rows))
    damaged = tmp_path / json.loads(rows[-1])["image"]
    damaged.write_bytes(damaged.read_bytes()[:50])
    model = f"--model.model={folder / 'clip'}"
    given = [*arguments(tmp_path, tmp_path / "run", model), f"--data.validation={folder / 'train.jsonl'}"]
    with pytest.raises(DataError, match=damaged.name):
        run(given)
    assert run([*given, "--data.on_error=skip", "--data.batch_size=4"]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["images"]["train"] == len(rows) - 1
    assert report["skipped_rows"] == 1
    assert str(damaged) in report["first_skipped"]
    assert "1 bad row skipped, the first: " in caplog.text
