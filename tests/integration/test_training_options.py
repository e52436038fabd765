"""What an option of `suisei train` makes of the model, from the command line on."""

import json

import pytest
import torch

from suisei.errors import ConfigError
from suisei.metrics.extras import check_names
from suisei.models.folder import load_model
from suisei.models.inputs import ALIGNMENTS, SIMILARITIES
from suisei.training import module
from suisei.training.checkpoints import read_checkpoint
from suisei.training.module import SuiSei
from tests.integration.training_runs import COSINE


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


def test_no_file_of_a_model_says_where_its_encoder_was(train, finished):
    run = train(
        f"--model.text.name={finished / 'model'}", "--model.text.layers=last", "--model.image=null",
        "--baselines=[]", "--trainer.limit_train_batches=1",
    )  # fmt: skip
    files = [file for file in (run / "model").rglob("*") if file.is_file()]
    assert [file.name for file in files if str(finished).encode() in file.read_bytes()] == []
    assert load_model(run / "model", check_names).regressor.config.text.name == "model"


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


def test_where_every_batch_is_validated_each_decides_what_is_kept_and_when_training_ends(train, monkeypatch):
    found = iter([0.2, 0.5, 0.4, 0.3, 0.1] + [0.9] * 50)
    monkeypatch.setattr(module, "correlations", lambda *_: (next(found), 0.0))
    run = train("--baselines=[]", "--trainer.val_check_interval=1", "--early_stopping.patience=3")
    facts = json.loads((run / "report.json").read_text(encoding="utf-8"))["training"]
    assert facts["best_validation"] == {"val_pearson": pytest.approx(0.5)}
    assert (read_checkpoint(run / "checkpoints" / "best.ckpt")["global_step"], facts["steps"]) == (2, 5)
