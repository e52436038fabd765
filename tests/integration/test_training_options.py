"""What an option of `suisei train` does, from the command line to the model, its data and its optimizer."""

import ast
import dataclasses
import inspect
import json
import os
import typing
from collections import Counter
from pathlib import Path

import pytest
import torch

from suisei.commands import train as train_module
from suisei.errors import ConfigError
from suisei.metrics.extras import check_names
from suisei.models.folder import load_model
from suisei.models.inputs import ALIGNMENTS, SIMILARITIES
from suisei.training import run as run_module
from suisei.training.module import SuiSei
from suisei.training.synthetic import synthetic_samples


@pytest.fixture
def built(settings, tmp_path):
    """Make model, data and batches as a run does before its first step."""

    def build(*options):
        os.environ.pop("PL_GLOBAL_SEED", None)
        cli = train_module.make_cli(["--config", str(settings), f"--output={tmp_path / 'run'}", *options])
        data = cli.datamodule
        data.load()
        data.add_training(synthetic_samples(data.part("train"), data.synthetic, cli.config.seed_everything))
        run_module._build(cli.config.seed_everything, cli.datamodule, cli.model, torch.device("cpu"))
        return cli

    return build


def linear_layers(module):
    return [layer for layer in module.modules() if isinstance(layer, torch.nn.Linear)]


def test_sizes_of_the_encoders(built):
    sizes = {"vocabulary": 250, "width": 24, "layers": 3}
    picture = {"width": 2, "image_size": 96, "features": 12}
    cli = built(
        *(f"--model.text.tiny.{name}={value}" for name, value in sizes.items()),
        *(f"--model.image.tiny.{name}={value}" for name, value in picture.items()),
    )
    text, image = cli.model.regressor.text, cli.model.regressor.image
    assert 200 < text.vocabulary_size <= 251  # the mask token comes on top
    assert (text.width, text.states) == (24, 4)
    assert image.width == 12
    assert image.tower.conv1.weight.shape == (1, 3, 3, 3)  # half of the width
    batch = next(iter(cli.datamodule.train_dataloader()))
    assert batch.pixels.shape[1:] == (3, 96, 96)


@pytest.mark.parametrize(("layers", "states"), [("mix", 4), ("last", 1), ("2", 1)])
def test_layers_of_the_text_encoder(built, layers, states):
    regressor = built("--model.text.tiny.layers=3", f"--model.text.layers={layers}").model.regressor
    assert regressor.text.states == states
    assert (regressor.mix is not None) == (layers == "mix")
    assert len(regressor.text.backbone.encoder.layer) == (2 if layers == "2" else 3)


@pytest.mark.parametrize("layers", ["mix", "last"])
def test_layers_below_the_trained_ones_keep_their_weights(train, monkeypatch, layers):
    before = {}

    def remember(self):
        before.update({name: value.clone() for name, value in self.regressor.state_dict().items()})

    def watched(self, batch, batch_idx):
        still = {name for name, p in self.regressor.text.named_parameters() if not p.requires_grad}
        assert still == {
            name for name in dict(self.regressor.text.named_parameters()) if "layer.1" not in name
        }
        return step(self, batch, batch_idx)

    step = SuiSei.training_step
    monkeypatch.setattr(SuiSei, "on_train_start", remember)
    monkeypatch.setattr(SuiSei, "training_step", watched)
    run = train(
        "--baselines=[]",
        "--trainer.max_epochs=1",
        "--model.text.tiny.layers=2",
        f"--model.text.layers={layers}",
        "--model.text.trained_layers=1",
        "--model.optimizer.frozen_fraction=0",
    )
    from safetensors.torch import load_file

    after = load_file(run / "model" / "model.safetensors")
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert any(name.startswith("text.") and ".layer.1." in name for name in moved)
    assert not [name for name in moved if name.startswith("text.") and ".layer.1." not in name]


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_part_of_the_first_epoch_with_a_frozen_text_encoder(train, monkeypatch, fraction):
    seen = []
    step = SuiSei.training_step

    def watched(self, batch, batch_idx):
        seen.append(any(p.requires_grad for p in self.regressor.text.parameters()))
        return step(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", watched)
    few = ("--baselines=[]", "--trainer.limit_train_batches=3")
    train(*few, f"--model.optimizer.frozen_fraction={fraction}")
    assert seen == [fraction == 0.0] * 3 + [True] * 3


def test_pooled_vectors_and_their_tokens(built):
    """One vector per pooling, of tokens that are normalised or left as they are."""
    from suisei.models.pooling import pool_layers

    for normalise in (True, False):
        regressor = built(
            "--model.fusion.poolings=[mean,idf-normalised,idf]",
            f"--model.fusion.layer_norm={str(normalise).lower()}",
        ).model.regressor.eval()
        with torch.no_grad():
            for parameter in regressor.text.parameters():  # a new encoder's vectors are normalised already
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        ids, mask = regressor.text.pad(regressor.text.tokenize(["a red ball", "犬"]))
        names = ("mean", "idf-normalised", "idf")
        with torch.no_grad():
            hidden = regressor.text(ids, mask)
            expected = pool_layers(hidden, mask, regressor.idf_weights[ids], names, normalise=normalise)
            torch.testing.assert_close(regressor.encode_text(ids, mask), expected)
        assert expected.shape[2] == 3


@pytest.mark.parametrize(
    ("option", "blocks"),
    [
        ("references=concat", 9), ("references=mean-max", 8), ("references=mean", 6), ("references=max", 6),
        ("blocks=[candidate]", 1), ("blocks=[candidate,image-product]", 2),
    ],
)  # fmt: skip
def test_width_of_the_fused_features(built, option, blocks):
    regressor = built(f"--model.fusion.{option}").model.regressor
    assert linear_layers(regressor.members[0].fused)[0].in_features == blocks * 2 * 16  # two poolings


def test_further_inputs_and_how_many_there_are(built):
    """Cosines with references and image, alignment and other metrics enter beside the fused features."""
    frozen = "--model.text.frozen=true"
    counts = {
        (): 0,
        ("--model.fusion.similarity=true",): 2 * len(SIMILARITIES),
        ("--model.fusion.image_similarity=true",): 2,
        ("--model.fusion.alignment=true", frozen): len(ALIGNMENTS),
        ("--model.fusion.extra_inputs=[length,unigram-f1]",): 2,
    }
    for options, count in counts.items():
        cli = built(*options)
        assert len(cli.model.regressor.extra_mean) == count, options
        batch = next(iter(cli.datamodule.train_dataloader()))
        measured = 0 if "similarity" in str(options) else count
        assert batch.extras.shape[1] == measured, options


def test_head_of_the_model(built):
    model = built(
        "--model.fusion.extra_inputs=[length]",
        "--model.head.hidden=[7,5]",
        "--model.head.activation=relu",
        "--model.head.extra_hidden=3",
        "--model.head.members=2",
        "--model.head.rank_share=0.5",
        "--model.head.dropout=0.2",
        "--model.head.input_dropout=0.3",
        "--model.head.extra_dropout=0.4",
    ).model.regressor
    assert len(model.members) == 2
    fused, beside = model.members[0].fused, model.members[0].beside
    assert [layer.out_features for layer in linear_layers(fused)] == [7, 5, 1]
    assert [layer.out_features for layer in linear_layers(beside)] == [3, 1]
    assert any(isinstance(layer, torch.nn.ReLU) for layer in fused.modules())
    rates = [[m.p for m in part.modules() if isinstance(m, torch.nn.Dropout)] for part in (fused, beside)]
    assert rates == [[0.3, 0.2, 0.2], [0.4]]
    assert model.scale.rank_share == 0.5


COSINE = (
    "--model.text.layers=last",
    "--model.text.trained_layers=1",
    "--model.fusion.blocks=[]",
    "--model.fusion.similarity=true",
    "--model.head.extra_hidden=3",
    "--model.head.start=cosine",
)


def test_a_score_may_start_from_the_cosine(built):
    """Before training it orders captions as the cosine does, on the scale of the ratings."""
    assert built().model.regressor.start is None
    cli = built(*COSINE)
    model = cli.model.eval()
    batch = next(iter(cli.datamodule.train_dataloader()))
    with torch.no_grad():
        outputs = model.outputs(batch)
        whole = model.regressor.outputs(batch)  # lower layers included
    cosine = outputs.similar[:, :4].mean(dim=1)  # two poolings
    assert torch.equal(outputs.logits[0].argsort(), cosine.argsort())
    assert float(model.regressor.start.references.slope.detach()) != 16.0  # it was fitted
    scores = torch.sigmoid(outputs.logits[0])
    assert float((scores - batch.target).abs().mean()) < 0.35
    torch.testing.assert_close(
        outputs.logits, whole.logits, atol=0.05, rtol=0.01
    )  # they are in half precision


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("blocks", ["[]", "[candidate]"])
def test_a_score_may_start_from_the_cosine_of_mixed_layers(train, precision, blocks):
    options = [option for option in COSINE if "layers=" not in option and "blocks" not in option]
    run = train(
        *options, "--model.text.layers=mix", f"--model.fusion.blocks={blocks}", "--trainer.max_steps=2",
        f"--trainer.precision={precision}", "--baselines=[]",
    )  # fmt: skip
    report = json.loads((run / "report.json").read_text())
    assert report["training"]["steps"] == 2


def test_a_score_may_be_the_line_through_the_cosine_alone(built):
    """Nothing corrects it, so that training moves the line and no more."""
    cli = built(*COSINE, "--model.fusion.similarity=false", "--model.text.frozen=true", "--model.image=null")
    model, batch = cli.model, next(iter(cli.datamodule.train_dataloader()))
    outputs = model.outputs(batch)
    torch.testing.assert_close(outputs.logits[0], outputs.start)
    learned = {name for name, own in model.regressor.named_parameters() if own.requires_grad}
    assert not [name for name in learned if name.startswith(("text.", "members."))]
    (own,) = [name for name in learned if name.endswith("references.slope")]
    outputs.logits.square().sum().backward()
    assert float(model.regressor.get_parameter(own).grad.abs()) > 0


@pytest.mark.parametrize("frozen", [True, False])
def test_a_text_encoder_may_be_that_of_a_trained_model(built, finished, frozen):
    options = ["--model.text.layers=last", f"--model.text.frozen={str(frozen).lower()}", "--model.image=null"]
    cli = built(f"--model.text.name={finished / 'model'}", *options)
    text, whole = cli.model.regressor.text, load_model(finished / "model", check_names).regressor.text
    ids, mask = whole.pad(whole.tokenize(["two dogs run", "犬が走る"]))
    assert text.tokenize(["two dogs run"]) == whole.tokenize(["two dogs run"])
    with torch.no_grad():
        cli.model.eval()
        torch.testing.assert_close(text(ids, mask)[-1], whole(ids, mask)[-1])
    assert {own.requires_grad for own in text.parameters()} == {not frozen}
    with pytest.raises(ConfigError, match="set it to false"):
        built(f"--model.text.name={finished / 'model'}", "--model.text.checkpointing=true")


def test_of_a_trained_model_s_encoder_the_first_layers_may_be_read(built, finished):
    name = f"--model.text.name={finished / 'model'}"
    text = built(name, "--model.text.layers=1", "--model.image=null").model.regressor.text
    whole = load_model(finished / "model", check_names).regressor.text
    ids, mask = whole.pad(whole.tokenize(["two dogs run", "犬が走る"]))
    with torch.no_grad():
        torch.testing.assert_close(text.eval()(ids, mask)[0], whole(ids, mask)[1])


def test_an_image_is_not_taught_before_the_captions_are(built):
    options = ("--model.pretraining.epochs=0", "--model.pretraining.image_epochs=1")
    with pytest.raises(ConfigError, match="give the trained model one"):
        built(*COSINE, *options)


def test_what_weighs_an_image_is_not_trained_from_nothing(built):
    with pytest.raises(ConfigError, match="train with cosine"):
        built(*COSINE, "--model.head.start=cosines")


def test_a_bridge_between_languages_is_not_trained(built):
    with pytest.raises(ConfigError, match="suisei add-bridge fits to a trained model"):
        built(*COSINE, "--model.head.bridge=[10,-5]")


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


def test_pretraining_is_asked_for(built, monkeypatch):
    from suisei.training import module

    asked = []
    monkeypatch.setattr(module, "pretrain", lambda *_, **options: asked.append(options["seed"]))
    built("--model.pretraining=null")
    assert asked == []
    built("--model.pretraining.epochs=2")
    assert asked == [3]


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


COVERED = {
    "test_model_without_image_and_frozen_text_encoder": ("model.text.name", "model.text.frozen"),
    "test_layers_of_the_text_encoder": ("model.text.layers",),
    "test_layers_below_the_trained_ones_keep_their_weights": ("model.text.trained_layers",),
    "test_a_score_may_start_from_the_cosine": ("model.head.start",),
    "test_a_bridge_between_languages_is_not_trained": ("model.head.bridge",),
    "test_the_loss_of_a_step_has_what_is_asked_for": (
        "model.loss.cosine_weight",
        "model.loss.pair_weight",
        "model.loss.support_weight",
    ),
    "test_checkpointing_computes_layers_twice": ("model.text.checkpointing",),
    "test_sizes_of_the_encoders": (
        "model.text.tiny.vocabulary",
        "model.text.tiny.width",
        "model.text.tiny.layers",
        "model.image.tiny.width",
        "model.image.tiny.image_size",
        "model.image.tiny.features",
    ),
    "test_local_checkpoint_is_read_and_the_architecture_comes_back": (
        "model.image.name",
        "model.image.pretrained",
    ),
    "test_frozen_encoder_never_moves": ("model.image.frozen",),
    "test_normalised_features_have_unit_length": ("model.image.normalise",),
    "test_pooled_vectors_and_their_tokens": ("model.fusion.poolings", "model.fusion.layer_norm"),
    "test_width_of_the_fused_features": ("model.fusion.references", "model.fusion.blocks"),
    "test_further_inputs_and_how_many_there_are": (
        "model.fusion.similarity",
        "model.fusion.image_similarity",
        "model.fusion.alignment",
        "model.fusion.extra_inputs",
    ),
    "test_head_of_the_model": (
        "model.head.hidden",
        "model.head.activation",
        "model.head.extra_hidden",
        "model.head.members",
        "model.head.rank_share",
    ),
    "test_each_dropout_drops_its_own_part_in_training_alone": (
        "model.head.dropout",
        "model.head.input_dropout",
        "model.head.extra_dropout",
    ),
    "test_rates_decay_and_optimizer": (
        "model.optimizer.name",
        "model.optimizer.head_lr",
        "model.optimizer.encoder_lr",
        "model.optimizer.image_lr",
        "model.optimizer.extra_lr",
        "model.optimizer.layerwise_decay",
        "model.optimizer.weight_decay",
    ),
    "test_part_of_the_first_epoch_with_a_frozen_text_encoder": ("model.optimizer.frozen_fraction",),
    "test_rates_of_a_run_follow_the_schedule": (
        "model.optimizer.schedule",
        "model.optimizer.warmup_fraction",
    ),
    "test_all_references_of_a_sample_are_dropped_together_and_the_image_by_itself": (
        "model.reference_dropout",
        "model.image_dropout",
    ),
    "test_captions_of_one_image_come_together": ("model.pretraining.epochs",),
    "test_steps_of_an_epoch_and_their_rates": (
        "model.pretraining.batch_size",
        "model.pretraining.learning_rate",
    ),
    "test_share_of_the_words_that_are_dropped": ("model.pretraining.word_dropout",),
    "test_images_learn_what_their_captions_say": ("model.pretraining.image_epochs",),
    "test_the_head_learns_from_encoders_that_have_not_seen_the_image": ("model.pretraining.cross_fit",),
    "test_data_of_a_run": (
        "data.train",
        "data.images",
        "data.rating_scale",
        "data.fractions",
        "data.batch_size",
    ),
    "test_given_validation_and_test_files_are_used_whole": ("data.validation", "data.test"),
    "test_the_data_module_keeps_test_captions_out_of_the_support": ("data.support",),
    "test_made_samples_are_trained_on_and_counted": ("data.synthetic",),
    "test_a_benchmark_is_read_from_its_own_folder": ("data.root",),
    "test_every_group_is_tested_in_exactly_one_fold": ("data.folds", "data.fold"),
    "test_split_depends_on_its_seed_alone": ("data.split_seed",),
    "test_crossed_folds_of_the_data_module_part_candidates_and_images": ("data.disjoint",),
    "test_a_balanced_step_takes_whole_images_of_every_set_and_rated_pairs": ("data.batching",),
    "test_batches_are_made_by_as_many_processes": ("data.num_workers",),
    "test_bad_rows_are_raised_or_counted": ("data.on_error",),
    "test_a_run_writes_a_model_that_scores": (
        "pacs.model.model",
        "pacs.model.trainable",
        "pacs.data.validation",
    ),
    "test_published_weights_are_asked_for_by_their_tag": ("pacs.model.pretrained",),
    "test_weights_to_start_from": ("pacs.model.checkpoint", "pacs.model.architecture.embed_dim"),
    "test_one_entry_of_the_architecture_is_overridden_on_the_command_line": (
        "pacs.model.architecture.vision_cfg",
    ),
    "test_a_text_encoder_becomes_the_text_tower": (
        "pacs.model.architecture.text_cfg",
        "pacs.model.text_encoder",
    ),
    "test_weights_of_timm_fill_the_image_tower": ("pacs.model.image_weights",),
    "test_generated_positives_weigh_as_much_as_asked": ("pacs.model.lambda_v", "pacs.model.lambda_t"),
    "test_rates_of_a_run_follow_warm_up_and_cosine": (
        "pacs.model.learning_rate",
        "pacs.model.weight_decay",
        "pacs.model.warmup_steps",
        "pacs.model.cosine_steps",
    ),
    "test_augmentation_crops_as_much_as_it_may": ("pacs.model.augment", "pacs.model.smallest_crop"),
    "test_jitter_changes_training_images_alone": ("pacs.model.jitter",),
    "test_batches_hold_each_image_once_and_any_of_its_captions": (
        "pacs.data.train",
        "pacs.data.batch_size",
        "pacs.data.hold_out",
    ),
    "test_images_of_a_file_may_lie_elsewhere": ("pacs.data.root",),
    "test_several_captions_of_an_image_are_drawn_without_repetition_while_there_are_some": (
        "pacs.data.captions_per_image",
    ),
}
"""The options whose being ignored makes a test fail, by the name of the test."""


def options_of(kind, prefix):
    """The names of all settings of a class, those of its parts included."""
    found = []
    hints = typing.get_type_hints(kind.__init__)
    for name in list(inspect.signature(kind).parameters):
        parts = [t for t in (hints[name], *typing.get_args(hints[name])) if dataclasses.is_dataclass(t)]
        found += [part for t in parts for part in options_of(t, f"{prefix}{name}.")] or [prefix + name]
    return found


def test_every_option_has_a_test_and_there_are_not_too_many():
    from suisei.pacs.dual_module import PacTraining
    from suisei.pacs.pair_datamodule import PairDataModule
    from suisei.training.datamodule import CaptionDataModule

    owners = {"model.": SuiSei, "data.": CaptionDataModule}
    owners |= {"pacs.model.": PacTraining, "pacs.data.": PairDataModule}
    options = [option for prefix, kind in owners.items() for option in options_of(kind, prefix)]
    assert sorted(options) == sorted(option for covered in COVERED.values() for option in covered)
    assert len(options) <= 95
    defined = Counter(
        node.name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    )
    assert {name: defined[name] for name in COVERED if defined[name] != 1} == {}
