"""What an option of `suisei train` does to data, steps and rates, from the command line on."""

import json
from pathlib import Path

import pytest
import torch

from suisei.errors import ConfigError
from suisei.training.module import SuiSei
from tests.integration.training_runs import COSINE, weights


@pytest.fixture(scope="module")
def two_sets(rated_file, tmp_path_factory):
    """The rated captions by language in two files, and rated pairs of captions."""
    folder = tmp_path_factory.mktemp("sets")
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    paths = []
    for language in ("en", "ja"):
        path = folder / f"{language}.jsonl"
        own = [json.dumps(row) for row in rows if row["language"] == language]
        path.write_text("\n".join(own) + "\n", encoding="utf-8")
        paths.append(str(path))
    pairs = [
        {"candidate": f"{n} red balls", "references": [f"{n + 1} balls"], "rating": n / 30} for n in range(30)
    ]
    path = folder / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, pairs)) + "\n", encoding="utf-8")
    return (
        f"--data.train=[{','.join(paths)}]",
        f"--data.support={path}",
        "--data.synthetic=0.5",
        "--data.batching=balanced",
    )


def test_a_balanced_step_takes_whole_images_of_every_set_and_rated_pairs(built, two_sets):
    cli = built(*COSINE, *two_sets, "--model.loss.support_weight=1")
    table = cli.datamodule._collate.table
    for batch in cli.datamodule.train_dataloader():
        assert set(batch.source.tolist()) == {0, 1}
        assert batch.pairs.shape == (6, 2)
        texts = [table.captions[row] for row in batch.caption_rows[batch.pairs].flatten().tolist()]
        assert all("balls" in text for text in texts)
    plain = next(iter(built(*COSINE, *two_sets).datamodule.train_dataloader()))
    assert plain.pairs is None
    shuffled = next(iter(built(*COSINE, *two_sets, "--data.batching=shuffled").datamodule.train_dataloader()))
    assert shuffled.source is None


def test_the_loss_of_a_step_has_what_is_asked_for(built, two_sets):
    def loss(*weights):
        cli = built(*COSINE, *two_sets, *(f"--model.loss.{weight}" for weight in weights))
        model, batches = cli.model.eval(), cli.datamodule.train_dataloader()
        with torch.no_grad():
            return sum(float(model.objective(model.outputs(batch), batch)) for batch in batches)

    plain = loss()
    for name in ("cosine_weight", "pair_weight", "support_weight"):
        more = [loss(f"{name}={weight}") - plain for weight in (1, 3)]
        assert more[0] > 1e-4
        assert more[1] == pytest.approx(3 * more[0], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--model.loss.pair_weight=1", "--data.batching=group"],
            "pair_weight .* set data.synthetic above 0",
        ),
        (["--model.loss.pair_weight=1", "--data.synthetic=1"], "data.batching to balanced or group"),
        (["--model.loss.support_weight=1", "--data.batching=balanced"], "support_weight .* set data.support"),
    ],
)
def test_a_loss_without_its_data_is_refused(built, options, message):
    with pytest.raises(ConfigError, match=message):
        built(*COSINE, *options)


def test_rates_decay_and_optimizer(train):
    """The optimizer of a run has what the options say, at the end of a linear schedule with a warm-up."""
    options = {
        "name": "adamw", "head_lr": 0.4, "encoder_lr": 0.2, "image_lr": 0.1, "extra_lr": 0.07,
        "layerwise_decay": 0.5, "weight_decay": 0.03, "frozen_fraction": 0, "warmup_fraction": 0.5,
        "schedule": "linear",
    }  # fmt: skip
    run = train(
        "--baselines=[]", "--model.fusion.extra_inputs=[length]", "--model.head.extra_hidden=2",
        "--trainer.max_epochs=1", "--checkpoint_steps=2",
        *(f"--model.optimizer.{name}={value}" for name, value in options.items()),
    )  # fmt: skip
    groups = torch.load(run / "checkpoints" / "steps.ckpt", weights_only=True)["optimizer_states"][0]
    initial = {round(group["initial_lr"], 6) for group in groups["param_groups"]}
    assert initial == {0.4, 0.2 * 0.5, 0.2 * 0.25, 0.1, 0.07}
    assert {group["weight_decay"] for group in groups["param_groups"]} == {0.0, 0.03}
    assert all(group["decoupled_weight_decay"] for group in groups["param_groups"])


def learning_rates(monkeypatch, train, *options):
    """The rate of every step of a run, as a share of the highest."""
    rates = []

    def before(self, optimizer):
        rates.append(optimizer.param_groups[0]["lr"] / optimizer.param_groups[0]["initial_lr"])

    monkeypatch.setattr(SuiSei, "on_before_optimizer_step", before)
    train("--baselines=[]", "--trainer.max_epochs=1", "--trainer.limit_train_batches=8", *options)
    return rates


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [1.0] * 8),
        (["warmup_fraction=0.5"], [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1]),
        (["schedule=linear"], [1 - step / 8 for step in range(8)]),
        (["schedule=cosine"], [1, 0.96194, 0.853553, 0.691342, 0.5, 0.308658, 0.146447, 0.03806]),
    ],
)
def test_rates_of_a_run_follow_the_schedule(train, monkeypatch, options, expected):
    given = [f"--model.optimizer.{option}" for option in options]
    assert learning_rates(monkeypatch, train, *given) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("given", "limit"), [([], 1.0), (["--trainer.gradient_clip_val=0.01"], 0.01)])
def test_gradients_are_clipped(train, monkeypatch, given, limit):
    norms = []
    step, optimize = SuiSei.training_step, torch.optim.Adam.step

    def steep(self, batch, batch_idx):
        return 1e4 * step(self, batch, batch_idx)

    def watched(self, closure=None):
        def evaluate():
            loss = closure()
            grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            norms.append(float(torch.stack([grad.norm() for grad in grads]).norm()))
            return loss

        return optimize(self, evaluate)

    monkeypatch.setattr(SuiSei, "training_step", steep)
    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    train("--baselines=[]", "--trainer.max_epochs=1", "--trainer.limit_train_batches=3", *given)
    assert norms == pytest.approx([limit] * 3, rel=1e-3)


def test_made_samples_are_trained_on_and_counted(train):
    report = json.loads((train("--baselines=[]", "--data.synthetic=1") / "report.json").read_text())
    facts, samples = report["training"], report["data"]["samples"]
    assert 0.5 * samples["train"] < facts["synthetic_samples"] <= samples["train"]
    assert facts["steps"] == 2 * -(-(samples["train"] + facts["synthetic_samples"]) // 8)


def test_what_nobody_rated_is_not_counted(train):
    options = ("--baselines=[]", "--trainer.max_epochs=1", "--model.head.rank_share=0.5")
    options += ("--model.fusion.extra_inputs=[cider]", "--model.image=null")
    runs = [train(*options, f"--data.synthetic={share}") for share in (0, 1)]
    counts, ciders = (
        [json.loads((run / "model" / name).read_text()) for run in runs]
        for name in ("idf.json", "extras.json")
    )
    assert counts[0]["documents"] == counts[1]["documents"]
    assert ciders[0]["cider"]["documents"] == ciders[1]["cider"]["documents"]
    assert torch.equal(*(weights(run)["scale.learned"] for run in runs))


def test_pretraining_is_asked_for(built, monkeypatch):
    from suisei.training import building

    asked = []
    monkeypatch.setattr(building, "pretrain", lambda *_, **options: asked.append(options["seed"]))
    built("--model.pretraining=null")
    assert asked == []
    built("--model.pretraining.epochs=2")
    assert asked == [3]


@pytest.mark.parametrize(("pretraining", "left_out"), [("null", True), ("{epochs: 1, cross_fit: 0}", False)])
def test_checkpoints_leave_out_a_frozen_encoder_unless_captions_taught_it(built, pretraining, left_out):
    """Another pre-training may differ in its last bits, so that a resumed run could not make it again."""
    cli = built("--model.text.frozen=true", f"--model.pretraining={pretraining}")
    state = {"state_dict": dict(cli.model.state_dict())}
    cli.model._frozen.drop_from(state)
    kept = [name for name in state["state_dict"] if name.startswith("regressor.text.backbone")]
    assert (kept == []) is left_out


@pytest.mark.parametrize(
    ("more", "epochs"), [(["--early_stopping.patience=2"], 4), (["--early_stopping=null"], 6)]
)
def test_early_stopping_and_the_kept_checkpoint(train, monkeypatch, more, epochs):
    """Training stops after `patience` epochs that are no better; the figure is one of the three logged."""
    figures = iter([0.3, 0.5, 0.4, 0.4, 0.4, 0.4])

    def end(self):
        self._validation.clear()
        value = next(figures)
        for name, figure in (("val_loss", 1.0), ("val_pearson", 0.1), ("val_kendall", value)):
            self.log(name, figure)

    monkeypatch.setattr(SuiSei, "on_validation_epoch_end", end)
    run = train(
        "--baselines=[]",
        "--trainer.max_epochs=6",
        "--trainer.limit_train_batches=1",
        "--monitor=val_kendall",
        *more,
    )
    facts = json.loads((run / "report.json").read_text())["training"]
    assert facts["epochs"] == epochs
    assert facts["best_validation"] == {"val_kendall": 0.5}


def test_a_loss_that_is_watched_is_better_the_smaller_it_is(train, monkeypatch):
    figures = iter([0.3, 0.1, 0.2, 0.2])

    def end(self):
        self._validation.clear()
        value = next(figures)
        for name, figure in (("val_loss", value), ("val_pearson", 0.1), ("val_kendall", 0.1)):
            self.log(name, figure)

    monkeypatch.setattr(SuiSei, "on_validation_epoch_end", end)
    run = train(
        "--baselines=[]",
        "--trainer.max_epochs=4",
        "--trainer.limit_train_batches=1",
        "--monitor=val_loss",
        "--early_stopping.patience=1",
    )
    facts = json.loads((run / "report.json").read_text())["training"]
    assert facts["epochs"] == 3
    assert facts["best_validation"] == {"val_loss": pytest.approx(0.1)}


def test_baselines_are_columns_of_the_report(train):
    run = train("--baselines=[length,distinct-2]", "--trainer.limit_train_batches=1")
    row = json.loads((run / "test_scores.jsonl").read_text().splitlines()[0])
    assert set(row) == {"id", "suisei", "length", "distinct-2"}


def test_data_of_a_run(built, rated_file, tmp_path):
    """The file, the images' folder, the scale, the split and the batches."""
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    folder = Path(rows[0]["image"]).parent
    for row in rows:
        row["image"] = Path(row["image"]).name
        row["rating"] = 5 - 4 * row.pop("rating")[0] / row.pop("rating_scale")[1]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    cli = built(
        f"--data.train={path}", f"--data.images={folder}", "--data.rating_scale=[1,5]",
        "--data.fractions=[0.5,0.3,0.2]", "--data.batch_size=5",
    )  # fmt: skip
    data = cli.datamodule
    first = data.samples[0]
    assert Path(first.image) == folder / rows[0]["image"]
    assert first.rating.mean == pytest.approx((rows[0]["rating"] - 1) / 4)
    groups = [len({sample.group for sample in data.part(part)}) for part in ("train", "validation", "test")]
    assert [count / sum(groups) for count in groups] == pytest.approx([0.5, 0.3, 0.2], abs=0.1)
    assert len(next(iter(data.train_dataloader())).target) == 5
