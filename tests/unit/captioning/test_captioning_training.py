"""The loss, and what learns: a tiny captioner learns four colours by heart."""

import json

import pytest
import torch
from torch.nn import functional as F

from suisei.captioning import caption_run
from suisei.captioning.caption_data import CaptionBatch, CaptionedImages
from suisei.captioning.caption_figures import SILENCE, Figures, as_sample
from suisei.captioning.caption_model import Decoding, load_caption_model
from suisei.captioning.caption_module import CaptionTraining
from suisei.captioning.caption_rows import EMPTY
from suisei.captioning.caption_sources import load_captioned
from suisei.captioning.grid_tower import TowerConfig
from suisei.captioning.transformer import TransformerConfig
from suisei.captioning.word_pretraining import WordPretraining
from suisei.commands.train import main
from suisei.data.load import load_data
from suisei.data.paths import ANYWHERE
from suisei.errors import ConfigError, DataError
from suisei.models.pixel_store import PixelStore
from tests.unit.moves import recorded

SIZES = {
    "width": 32,
    "heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "feed_forward": 64,
    "dropout": 0.0,
}


@pytest.fixture
def training(captioned):
    torch.manual_seed(0)
    module = CaptionTraining(TowerConfig("tiny", train=True), TransformerConfig(**SIZES), vocabulary=60)
    data = CaptionedImages(str(captioned), validation_share=0.25)
    data.load(0)
    module.build(data.captions, data.languages, data.max_length)
    data.attach(module.model, None, None)
    return module.eval(), data


def test_the_loss_is_that_of_the_tokens_alone(training):
    module, data = training
    (batch,) = data.val_dataloader()
    memory = torch.randn(1, 4, 32)
    loss, count = module.loss(memory, batch)
    model = module.model
    counted = (batch.tokens != model.pad_id) & (batch.tokens != model.pieces.unknown_id)
    total = 0.0
    shown = torch.cat([batch.starts, batch.tokens[..., :-1]], -1)
    log_probs = F.log_softmax(model.decoder(memory, shown), -1)
    for caption, own, tokens in zip(counted[0], log_probs[0], batch.tokens[0], strict=True):
        total -= sum(own[place, tokens[place]] for place in range(len(tokens)) if caption[place])
    assert count == int(counted.sum())
    torch.testing.assert_close(loss, total / count)


def test_unknown_characters_are_not_learned(training):
    module, data = training
    (batch,) = data.val_dataloader()
    memory = torch.randn(1, 4, 32)
    tokens = batch.tokens.clone()
    tokens[0, 0, 1] = module.model.pieces.unknown_id
    _, before = module.loss(memory, batch)
    _, after = module.loss(memory, CaptionBatch(batch.images, batch.starts, tokens))
    assert after == before - 1


def test_smoothing_spreads_a_share_of_the_target(training):
    module, data = training
    (batch,) = data.val_dataloader()
    memory = torch.randn(1, 4, 32)
    plain, _ = module.loss(memory, batch)
    smooth, _ = module.loss(memory, batch, 0.5)
    assert not torch.isclose(plain, smooth)


def test_captions_of_an_image_do_not_see_one_another(build_captioner):
    model = build_captioner()
    memory = torch.randn(2, 4, 32)
    tokens = model.tokens_of(["a red picture", "all is green here", "the picture is red", "赤い絵"])
    together = model.logits(memory, tokens.view(2, 2, -1))
    alone = model.logits(memory, tokens.view(2, 2, -1)[:, 1:])
    torch.testing.assert_close(together[:, 1:], alone)


def test_a_tower_of_random_weights_has_to_learn():
    with pytest.raises(ConfigError, match="starts from random weights"):
        CaptionTraining(TowerConfig("tiny"))
    CaptionTraining(TowerConfig("tiny"), pretraining=WordPretraining(epochs=1))


def test_figures_hold_what_was_said_against_the_same_language(captioned):
    images = load_captioned(str(captioned))
    figures = Figures(images, 10)
    assert figures.languages([10, 11]) == ["en"]
    assert figures.languages([10, 13]) == ["en", "ja"]
    for language in ("en", "ja"):
        said = ["a red picture", "all is green here", "青い絵です", ""]
        figures.add([10, 11, 12, 13], language, said)
    samples = figures.samples()
    assert [(s.candidate, s.language) for s in samples] == [
        ("a red picture", "en"), ("all is green here", "en"), ("青い絵です", "ja"), (SILENCE, "ja"),
    ]  # fmt: skip
    assert samples[0].references == images[0].captions
    assert figures.samples() == []
    assert as_sample(images[0], "en", " ").candidate == SILENCE


LONG = ["--trainer.max_epochs", "100", "--trainer.check_val_every_n_epoch", "100"]


def config_of(tmp_path, captioned, **changes):
    config = {
        "task": "captioner",
        "output": str(tmp_path / "run"),
        "monitor": "val_loss",
        "patience": None,
        "model": {
            "tower": {"name": "tiny", "train": True},
            "layers": SIZES,
            "vocabulary": 60,
            "learning_rate": 5e-3,
            "tower_learning_rate": 3e-3,
            "augmentation": {"smallest_crop": 1.0, "jitter": 0.0},
            **changes.pop("model", {}),
        },
        "data": {"train": str(captioned), "validation_share": 0.25, "batch_size": 4},
        "trainer": {"max_epochs": 2, "enable_progress_bar": False},
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({**config, **changes}), encoding="utf-8")
    return path


@pytest.fixture
def all_colours(tmp_path, pictures):
    """Training and validation pictures of the same colours, in files of their own."""
    from PIL import Image

    rows = {"train": [], "validation": []}
    for part, side in (("train", 80), ("validation", 90)):
        for colour, captions in (("red", ["a red picture"]), ("blue", ["青い絵", "a blue one"])):
            for number in range(3):
                name = f"{part}-{colour}-{number}.png"
                Image.new("RGB", (side, side + number), colour).save(tmp_path / name)
                rows[part].append({"image": name, "captions": captions})
        path = tmp_path / f"{part}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[part]), encoding="utf-8")
    return tmp_path / "train.jsonl", tmp_path / "validation.jsonl"


def test_what_is_said_in_validation_does_not_depend_on_the_batch_size(all_colours):
    """A caption may be longer than the references of the images beside it."""
    torch.manual_seed(0)
    module = CaptionTraining(TowerConfig("tiny", train=True), TransformerConfig(**SIZES), vocabulary=60)
    data = CaptionedImages(*map(str, all_colours))
    data.load(0)
    module.build(data.captions, data.languages, data.max_length)
    pixels = PixelStore(data.files, module.model.tower.image.preprocess)
    data.attach(module.model, pixels, None)
    module.eval().figures = Figures(data.validation_part, len(data.train_part))

    @torch.no_grad()  # as in a validation
    def said(batch_size):
        data.batch_size = batch_size
        for number, batch in enumerate(data.val_dataloader()):
            module.validation_step(batch, number)
        return [(sample.id, sample.candidate) for sample in module.figures.samples()]

    assert said(1) == said(4) == said(6)


def test_a_run_learns_to_say_what_is_seen_in_both_languages(tmp_path, all_colours):
    train, validation = map(str, all_colours)
    config = config_of(
        tmp_path, train, data={"train": train, "validation": validation, "test": validation, "batch_size": 6}
    )
    assert main(["--config", str(config), *LONG]) == 0
    run = tmp_path / "run"
    model = load_caption_model(run / "model")
    pixels = model.read([tmp_path / f"validation-{colour}-0.png" for colour in ("red", "blue")])
    with torch.no_grad():
        memory = model.encode(pixels)
    said = {
        language: model.texts(model.generate(memory, Decoding("beam", beams=3), language=language).tokens)
        for language in ("en", "ja")
    }
    assert [own[0] for own in said["en"]] == ["a red picture", "a blue one"]
    assert said["ja"][1][0] == "青い絵"
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["test"]["en"]["empty"] == 0
    rows = [json.loads(line) for line in (run / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["candidate"] for row in rows if row["language"] == "ja"] == ["青い絵"] * 3
    assert {row["id"] for row in rows if "-blue-0" in row["image"]} == {
        "validation-blue-0.png#en", "validation-blue-0.png#ja",
    }  # fmt: skip
    assert len(load_data(str(run / "test.jsonl"), columns={"rating": None}, allowed=ANYWHERE)) == 9
    assert "CIDEr" in (run / "model" / "README.md").read_text(encoding="utf-8")


def test_test_captions_are_read_from_any_folder_and_empty_ones_are_marked(monkeypatch, tmp_path, all_colours):
    train, validation = (path.name for path in all_colours)
    data = {"train": train, "validation": validation, "test": validation, "batch_size": 4}
    config = str(config_of(tmp_path, train, data=data, output="runs/of-colours"))
    said = {"en": ["a red picture"] * 5 + [" "], "ja": ["青い絵"] * 3}
    monkeypatch.setattr(caption_run, "captions_of", lambda *_, language, **__: [(t,) for t in said[language]])
    monkeypatch.chdir(tmp_path)
    assert main(["--config", config]) == 0
    monkeypatch.chdir(tmp_path.parent)
    file = tmp_path / "runs" / "of-colours" / "test.jsonl"
    found = load_data(str(file), columns={"rating": None}, allowed=ANYWHERE, on_error="skip")
    assert {str(sample.image) for sample in found} == {str(path) for path in tmp_path.glob("validation-*")}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row.get("error") for row in rows] == [None] * 5 + [EMPTY] + [None] * 3
    with pytest.raises(DataError, match="row 6: no caption: the caption decoded to nothing"):
        load_data(str(file), columns={"rating": None}, allowed=ANYWHERE)


def test_a_captioner_that_says_nothing_is_warned_of(monkeypatch, tmp_path, all_colours, caplog):
    train, validation = all_colours
    data = {"train": str(train), "validation": str(validation), "batch_size": 4}
    config = str(config_of(tmp_path, train, data=data, output=str(tmp_path / "run")))
    said = {"en": [" "] * 6, "ja": ["青い絵"] + [" "] * 2}
    monkeypatch.setattr(caption_run, "captions_of", lambda *_, language, **__: [(t,) for t in said[language]])
    assert main(["--config", config]) == 0
    assert [text for text in caplog.messages if "empty" in text] == [
        "all 6 captions in English are empty: train for longer (trainer.max_epochs)"
    ]


def test_weights_are_chosen_by_no_cider_that_cannot_be_told(tmp_path, captioned):
    config = str(config_of(tmp_path, captioned))  # one image of four validates
    with pytest.raises(DataError, match=r"1 validation image give no CIDEr.*--monitor val_loss"):
        main(["--config", config, "--monitor", "val_cider"])
    assert not (tmp_path / "run").exists()
    assert main(["--config", config]) == 0
    text = (tmp_path / "run" / "report.json").read_text(encoding="utf-8")
    (figures,) = json.loads(text, parse_constant=pytest.fail)["validation"].values()
    assert figures["cider"] is None
    assert figures["rouge-l"] is not None
    assert "| not defined |" in (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")


def test_what_is_computed_beside_the_steps_is_computed_where_they_are(monkeypatch, tmp_path, captioned):
    """The trainer has the captioner on its device while it fits, and on the CPU before and after."""
    seen = recorded(monkeypatch, caption_run, "GridStore", "_figures")
    model = {"tower": {"name": "tiny", "train": False}, "pretraining": {"epochs": 1, "batch_size": 2}}
    assert main(["--config", str(config_of(tmp_path, captioned, model=model))]) == 0
    assert seen == [("GridStore", "cpu"), ("_figures", "cpu")]


def test_a_run_ends_with_where_its_model_is(tmp_path, captioned, capsys):
    model = {"tower": {"name": "tiny", "train": False}, "pretraining": {"epochs": 1, "batch_size": 2}}
    assert main(["--config", str(config_of(tmp_path, captioned, model=model))]) == 0
    run = tmp_path / "run"
    kept = json.loads((run / "report.json").read_text(encoding="utf-8"))["kept"]
    assert capsys.readouterr().out.endswith(f"run: {run}   model: {run / 'model'}   kept: step {kept:,}\n")


def weights_of(run):
    from suisei.encoders.weights import read_weights

    return read_weights(run / "model" / "model.safetensors")


def normalised_tower(folder):
    """Return the settings of a frozen tower whose weights are known from the start, some in buffers."""
    import timm

    torch.manual_seed(1)
    torch.save(timm.create_model("test_resnet").state_dict(), folder / "tower.bin")
    return {"name": "timm:test_resnet", "pretrained": str(folder / "tower.bin"), "image_size": 64}


@pytest.mark.parametrize("kind", ["learns", "pre-trained", "batch normalisation"])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path, captioned, kind, monkeypatch):
    model = {"tower": {"name": "tiny", "train": kind == "learns", "mirror": kind != "learns"}}
    if kind == "pre-trained":
        model["pretraining"] = {"epochs": 2, "batch_size": 2}
    if kind == "batch normalisation":
        model["tower"] |= normalised_tower(tmp_path)
    config = str(config_of(tmp_path, captioned, model=model))
    pretrained = recorded(monkeypatch, caption_run, "pretrain_tower")
    assert main(["--config", config, "--output", str(tmp_path / "whole")]) == 0
    wanted = weights_of(tmp_path / "whole")

    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(CaptionTraining, "on_train_epoch_start", lambda self: self.current_epoch and stop())
        with pytest.raises(StopError):
            main(["--config", config])
    assert main(["--config", config, "--ckpt_path", "last"]) == 0
    for name, value in weights_of(tmp_path / "run").items():
        torch.testing.assert_close(value, wanted[name], msg=name)
    assert len(pretrained) == (2 if kind == "pre-trained" else 0)  # not where a run goes on


def test_runs_that_cannot_be_are_refused_in_one_line(tmp_path, captioned):
    config = str(config_of(tmp_path, captioned))
    with pytest.raises(ConfigError, match=r"model\.tower\.name|open_clip has no model"):
        main(["--config", config, "--model.tower.name", "no-such-tower"])
    with pytest.raises(ConfigError, match=r"model\.layers\.positions"):
        main(["--config", config, "--data.max_length", "200"])
    with pytest.raises(ConfigError, match="html"):
        main(["--config", config, "--html", str(tmp_path / "page.html")])
    with pytest.raises(ConfigError, match="multiple of its 5 heads"):
        main(["--config", config, "--model.layers.heads", "5"])
    assert not (tmp_path / "run").exists()
