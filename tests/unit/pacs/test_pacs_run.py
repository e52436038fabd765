import csv
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from suisei.data.sample import CaptionSample
from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, ModelError
from suisei.metrics.registry import get_metric
from suisei.pacs.dual_module import Architecture, PacTraining, recall_at
from suisei.pacs.dual_run import TASK, run, task_of
from suisei.pacs.pair_datamodule import PairDataModule
from suisei.pacs.towers import image_slot, image_states, project, text_slot, text_states
from suisei.resources import resource_path
from suisei.training.contrastive import symmetric_info_nce

TEXT = {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
VIT = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
RESNET = {"layers": [1, 1, 1, 1], "width": 4, "image_size": 32, "head_width": 16}
COLOURS = {"red": (250, 10, 10), "green": (10, 250, 10), "blue": (10, 10, 250), "white": (250, 250, 250)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with eight images of four colours, with positives, and a tiny CLIP to start from."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for number, name in enumerate([*COLOURS, *COLOURS]):
        for prefix in ("", "made-"):
            Image.new("RGB", (40, 40 + number), COLOURS[name]).save(folder / f"{prefix}{number}.png")
        rows.append(
            {
                "image": f"{number}.png",
                "captions": [f"a {name} wall {number}", f"something {name} {number}"],
                "generated_images": [f"made-{number}.png"],
                "generated_captions": [f"{name} {number}"],
            }
        )
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = new_dual_encoder({"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}, seed=0)
    save_dual_encoder(start, folder / "clip")
    return folder


def arguments(folder, output, *more):
    return [
        f"--data.train={folder / 'train.jsonl'}",
        f"--data.validation={folder / 'train.jsonl'}",
        "--data.batch_size=4",
        f"--output={output}",
        "--trainer.max_steps=6",
        "--trainer.val_check_interval=2",
        "--trainer.accelerator=cpu",
        "--trainer.enable_progress_bar=false",
        *more,
    ]


@pytest.mark.parametrize("trainable", ["projections", "lora", "image", "all"])
def test_a_run_writes_a_model_that_scores(folder, tmp_path, trainable):
    output = tmp_path / "run"
    model = [
        f"--model.model={folder / 'clip'}",
        f"--model.trainable={trainable}",
        "--model.learning_rate=0.01",
    ]
    assert run(arguments(folder, output, *model)) == 0
    report = json.loads((output / "report.json").read_text())
    assert report["steps"] == 6
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
        # what this process has loaded must not decide what its children are told
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PL_", "LIGHTNING_"))}
        if processes > 1:
            (tmp_path / "task.yaml").write_text(f"task: {TASK}\n")
            command = [sys.executable, "-m", "suisei.train", "--config", str(tmp_path / "task.yaml"), *given]
            subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
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


def test_one_entry_of_the_architecture_is_overridden_on_the_command_line(folder, tmp_path):
    config = tmp_path / "small.yaml"
    described = {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}
    config.write_text(json.dumps({"task": "pacs", "model": {"architecture": described}}))
    more = [
        "--model.architecture.vision_cfg.image_size=64",
        "--model.trainable=image",
        "--trainer.max_steps=2",
    ]
    run(["--config", str(config), *arguments(folder, tmp_path / "run", *more)])
    saved = json.loads((tmp_path / "run" / "model" / "open_clip_config.json").read_text())
    assert saved["model_cfg"]["vision_cfg"]["image_size"] == 64
    assert saved["model_cfg"]["vision_cfg"]["patch_size"] == 16


@pytest.mark.parametrize("architecture", [VIT, RESNET])
def test_split_towers_equal_the_whole(architecture):
    encoder = new_dual_encoder({"embed_dim": 16, "vision_cfg": architecture, "text_cfg": TEXT}, seed=1)
    model = encoder.model
    pixels, tokens = torch.randn(3, 3, 32, 32), encoder.tokenizer(["a dog", "two cats"])
    with torch.no_grad():
        torch.testing.assert_close(
            project(image_slot(model), image_states(model, pixels)), model.encode_image(pixels)
        )
        torch.testing.assert_close(
            project(text_slot(model), text_states(model, tokens)), model.encode_text(tokens)
        )
    assert text_slot(model) is not None
    assert (image_slot(model) is None) == (architecture is RESNET)


def test_states_computed_once_give_the_same_loss(folder):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=8)
    data.load()
    model = PacTraining(str(folder / "clip"), trainable="projections").eval()
    from suisei.models.table import PixelStore

    pixels = PixelStore(data.images, model.encoder.transform)
    model.prepare(data.captions, pixels, len(data.images))
    data.attach(None, generated_texts=True, generated_images=True)
    batch = next(iter(data.val_dataloader()))
    assert batch.pixels is None
    pairs = [data.pairs[position] for position in data.validation_part]
    images = model.encoder.encode_images([pair.image for pair in pairs])
    texts = model.encoder.encode_texts([pair.captions[0] for pair in pairs], prompt="A photo depicts ")
    more = model.encoder.encode_texts(
        [pair.generated_captions[0] for pair in pairs], prompt="A photo depicts "
    )
    made = model.encoder.encode_images([pair.generated_images[0] for pair in pairs])
    scale = float(model.towers.logit_scale.exp())
    images, texts, more, made = map(torch.from_numpy, (images, texts, more, made))
    expected = (
        symmetric_info_nce(images, texts, scale)
        + 0.05 * symmetric_info_nce(made, texts, scale)
        + 0.1 * symmetric_info_nce(images, more, scale)
    )
    with torch.no_grad():
        assert float(model.loss(model.features(batch))) == pytest.approx(float(expected), rel=1e-5)


def test_batches_hold_each_image_once_and_any_of_its_captions(folder):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=4, hold_out=1)
    data.load()
    data.attach(None, generated_texts=True, generated_images=False)
    seen = set()
    loader = data.train_dataloader()
    for epoch in range(20):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            assert len(set(batch.images.tolist())) == 4
            assert batch.generated_images is None
            seen |= {data.captions[row] for row in batch.texts.tolist()}
    assert seen == {pair.captions[0] for pair in data.pairs}  # the second was held out


def test_positives_must_be_there_for_every_image(folder, tmp_path):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    del rows[3]["generated_captions"]
    path = folder / "partial.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=r"2 of 16 images have no generated_captions.*lambda_t"):
        run(
            arguments(
                folder,
                tmp_path / "run",
                f"--data.train={path}",
                f"--data.validation={path}",
                f"--model.model={folder / 'clip'}",
            )
        )


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


def test_recall():
    images = torch.eye(3)
    texts = torch.tensor([[1.0, 0.1, 0], [0.2, 0.1, 0], [0, 0, 1.0]])
    owners = torch.tensor([0, 1, 2])
    assert float(recall_at(1, images, texts, owners)) == pytest.approx(2 / 3)
    assert float(recall_at(2, images, texts, owners)) == 1
    assert float(recall_at(10, images, texts, owners)) == 1


def test_several_captions_of_an_image_are_drawn_without_repetition_while_there_are_some(folder):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    del rows[0]["captions"][1]
    path = folder / "uneven.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = PairDataModule(str(path), str(folder / "train.jsonl"), batch_size=8, captions_per_image=2)
    data.load()
    data.attach(None, generated_texts=False, generated_images=False)
    loader = data.train_dataloader()
    orders = set()
    for epoch in range(12):
        loader.sampler.set_epoch(epoch)
        (batch,) = loader
        for image, drawn in zip(batch.images.tolist(), batch.texts.view(8, 2).tolist(), strict=True):
            captions = [data.captions[row] for row in drawn]
            pair = next(pair for pair in data.pairs if pair.image == data.images[image])
            assert set(captions) == set(pair.captions)
            orders.add(captions[0])
    assert len(orders) == 15  # every caption came first once


def test_processes_share_the_batches_that_one_would_have(folder):
    def drawn(rank, world):
        data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=4 // world)
        data.load()
        data.attach(None, generated_texts=True, generated_images=False)
        data.trainer = SimpleNamespace(global_rank=rank, world_size=world)
        loader = data.train_dataloader()
        loader.sampler.set_epoch(3)
        return [torch.stack([batch.texts, batch.generated_texts, batch.images]) for batch in loader]

    one, first, second = drawn(0, 1), drawn(0, 2), drawn(1, 2)
    assert len(one) == 2
    for whole, *parts in zip(one, first, second, strict=True):
        assert torch.equal(whole, torch.cat(parts, dim=1))


@pytest.mark.parametrize("steps", [2, 4])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(folder, tmp_path, steps):
    more = [
        f"--model.model={folder / 'clip'}",
        "--model.trainable=image",
        "--model.augment=true",
        "--model.jitter=0.2",
        "--model.learning_rate=0.01",
        "--model.cosine_steps=6",
        "--monitor=val_recall10",
        "--data.batch_size=3",
        "--data.captions_per_image=2",
    ]
    run(arguments(folder, tmp_path / "whole", *more))
    run(arguments(folder, tmp_path / "halves", *more, f"--trainer.max_steps={steps}"))
    with pytest.raises(ConfigError, match="--ckpt_path last"):
        run(arguments(folder, tmp_path / "halves", *more))
    run(arguments(folder, tmp_path / "halves", *more, "--ckpt_path=last"))
    states = [
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "halves")
    ]
    assert states[0]["global_step"] == states[1]["global_step"] == 6
    for name, value in states[0]["state_dict"].items():
        torch.testing.assert_close(value, states[1]["state_dict"][name], rtol=0, atol=0, msg=name)
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "halves")]
    assert reports[0]["val_recall10"] == reports[1]["val_recall10"]


def test_checkpoints_hold_what_is_trained_alone_and_other_settings_are_refused(folder, tmp_path):
    more = [f"--model.model={folder / 'clip'}", "--model.learning_rate=0.01"]
    run(arguments(folder, tmp_path / "run", *more))
    kept = tmp_path / "run" / "checkpoints"
    for name in ("best.ckpt", "last.ckpt"):
        state = torch.load(kept / name, weights_only=True)["state_dict"]
        assert any("proj" in key for key in state)
        assert not any("resblocks" in key for key in state)
    given = (*more[:1], "--model.learning_rate=0.02", "--ckpt_path=last")
    with pytest.raises(ConfigError, match=r"model\.learning_rate: 0\.01, now 0\.02"):
        run(arguments(folder, tmp_path / "run", *given))
    with pytest.raises(ModelError, match=r"best\.ckpt: holds weights without the state of their training"):
        run(arguments(folder, tmp_path / "run", *more, f"--ckpt_path={kept / 'best.ckpt'}"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("patience_steps", "0"), ("monitor", "foo"), ("task", "foo"), ("trainer.val_check_interval", "0"),
        ("trainer.val_check_interval", "0.5"), ("seed_everything", "-1"), ("model.rank", "0"),
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


def test_a_loss_that_is_no_number_stops_and_leaves_no_half_made_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(PacTraining, "loss", lambda *_: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(ModelError, match=r"step 1: the loss is nan; .*model\.learning_rate"):
        run(arguments(folder, tmp_path / "run", f"--model.model={folder / 'clip'}"))
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over_its_model(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"is model\.model"):
        run(arguments(folder, folder / "clip", f"--model.model={folder / 'clip'}"))


def test_only_a_run_can_be_gone_on_with(folder, tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint"):
        run(arguments(folder, tmp_path / "new", f"--model.model={folder / 'clip'}", "--ckpt_path=last"))


def features_of(folder, pixels, *, training=True, **options):
    """Features of images as a step of training sees them, or validation."""
    model = PacTraining(str(folder / "clip"), trainable="image", **options)
    torch.manual_seed(0)
    model.train(training)
    with torch.no_grad():
        return model.encode_images(torch.arange(len(pixels)), pixels)


def test_jitter_changes_training_images_alone(folder):
    """Images of one colour look the same cropped and mirrored: what differs between them is the jitter."""
    plain = torch.full((6, 3, 32, 32), 0.5)
    for options, varies in (
        ({"augment": True, "jitter": 0.5}, True),
        ({"augment": True}, False),
        ({"augment": False, "jitter": 0.5}, False),
        ({"augment": True, "jitter": 0.5, "training": False}, False),
    ):
        found = features_of(folder, plain, **options)
        assert (float((found - found[0]).abs().max()) > 1e-3) == varies, options


def test_augmentation_crops_as_much_as_it_may(folder):
    """A bright rim is gone from an image where enough of it is cropped."""
    rim = torch.zeros(64, 3, 32, 32)
    rim[..., :, -1] = 100.0
    whole = features_of(folder, rim, augment=False)[0]
    mirrored = features_of(folder, rim.flip(-1), augment=False)[0]

    def as_they_were(**options):
        found = features_of(folder, rim, augment=True, **options)
        near = [float((row - other).abs().max()) < 1e-3 for row in found for other in (whole, mirrored)]
        return sum(near) / len(found)

    assert as_they_were(smallest_crop=1.0) == 1.0
    assert as_they_were(smallest_crop=0.3) < 0.2


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


@pytest.mark.parametrize(("name", "lambdas"), [("both", (0.5, 0.25)), ("none", (0.0, 0.0))])
def test_generated_positives_weigh_as_much_as_asked(folder, monkeypatch, name, lambdas):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=8)
    data.load()
    model = PacTraining(str(folder / "clip"), lambda_v=lambdas[0], lambda_t=lambdas[1]).eval()
    from suisei.models.table import PixelStore

    model.prepare(data.captions, PixelStore(data.images, model.encoder.transform), len(data.images))
    data.attach(None, generated_texts=True, generated_images=True)
    images, texts, made, more = model.features(next(iter(data.val_dataloader())))
    assert (made is None, more is None) == ((name == "none"),) * 2
    scale = model.towers.logit_scale.exp()
    expected = symmetric_info_nce(images, texts, scale)
    if name == "both":
        expected = expected + 0.5 * symmetric_info_nce(made, texts, scale)
        expected = expected + 0.25 * symmetric_info_nce(images, more, scale)
    assert float(model.loss((images, texts, made, more))) == pytest.approx(float(expected), rel=1e-5)


def test_weights_to_start_from(folder, tmp_path):
    """A checkpoint replaces a model's weights; a seed decides new ones; an encoder becomes the text tower."""
    state = new_dual_encoder(
        {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}, seed=5
    ).model.state_dict()
    torch.save(state, tmp_path / "other.pt")
    started = PacTraining(str(folder / "clip"), checkpoint=str(tmp_path / "other.pt"))
    assert torch.equal(started.towers.visual.proj, state["visual.proj"])
    described = Architecture(16, VIT, TEXT)
    new = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        new.append(PacTraining(architecture=described, trainable="all").towers.visual.proj)
    assert torch.equal(new[0], state["visual.proj"])
    assert not torch.equal(new[0], new[1])


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


def test_a_text_encoder_becomes_the_text_tower(folder, tmp_path):
    from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer

    tokenizer = train_tokenizer(["a dog runs", "two cats on a mat", "a red ball"] * 3, 60)
    tokenizer.save_pretrained(tmp_path / "text")
    backbone = build_text_backbone(TinyTextConfig(width=32, layers=1), len(tokenizer), positions=40)
    backbone.save_pretrained(tmp_path / "text")
    described = Architecture(16, VIT, {"context_length": 20})
    model = PacTraining(architecture=described, text_encoder=str(tmp_path / "text"), trainable="image")
    embeddings = model.towers.text.transformer.embeddings.word_embeddings.weight
    assert torch.equal(embeddings, backbone.get_input_embeddings().weight)
    assert model.encoder.tokenizer(["a dog runs"]).shape == (1, 20)


def test_weights_of_timm_fill_the_image_tower(tmp_path):
    import timm

    torch.manual_seed(5)
    trunk = timm.create_model("resnet10t", pretrained=False)
    save_weights(trunk.state_dict(), tmp_path / "trunk.safetensors")
    tower = {
        "timm_model_name": "resnet10t",
        "timm_pool": "avg",
        "timm_proj": "linear",
        "image_size": 32,
    }
    described = Architecture(16, tower, {"context_length": 20, "width": 16, "layers": 1, "heads": 2})
    model = PacTraining(architecture=described, image_weights=str(tmp_path / "trunk.safetensors"))
    assert torch.equal(model.towers.visual.trunk.conv1[0].weight, trunk.conv1[0].weight)
    for name in ("mean", "std"):
        assert model.towers.visual.preprocess_cfg[name] == trunk.pretrained_cfg[name]
    trained = {name for name, weights in model.named_parameters() if weights.requires_grad}
    assert "towers.visual.head.proj.weight" in trained
    assert not any("trunk" in name for name in trained)
    pixels = torch.rand(2, 3, 32, 32)
    projected = project(image_slot(model.towers), image_states(model.towers, pixels))
    torch.testing.assert_close(projected, model.towers.visual(pixels))
    with pytest.raises(ConfigError, match="timm"):
        PacTraining(
            architecture=Architecture(16, VIT, TEXT), image_weights=str(tmp_path / "trunk.safetensors")
        )


@pytest.mark.parametrize("part", ["text_encoder", "image_weights"])
def test_parts_of_a_new_model_are_refused_for_another(folder, part):
    with pytest.raises(ConfigError, match=r"new model.*model\.architecture"):
        PacTraining(str(folder / "clip"), None, **{part: "x"})


def test_a_head_that_pools_is_no_projection():
    tower = {"timm_model_name": "resnet10t", "timm_pool": "rot_attn", "timm_proj": "", "image_size": 32}
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": tower, "text_cfg": TEXT}, seed=0)
    assert image_slot(made.model) is None


def test_frozen_towers_compute_as_in_scoring(folder, monkeypatch):
    found = {}
    for precision in ("fp32", "bf16"):
        monkeypatch.setenv("SUISEI_PRECISION", precision)
        model = PacTraining(str(folder / "clip"), None)
        model.prepare(["a red wall"], torch.zeros(1, 3, 32, 32), 1)
        found[precision] = (model._text_states, model._image_states)
    exact = text_states(model.towers, model._token_rows(torch.tensor([0])))
    torch.testing.assert_close(found["fp32"][0], exact)
    for rounded, whole in zip(found["bf16"], found["fp32"], strict=True):
        assert not torch.equal(rounded, whole)
        torch.testing.assert_close(rounded, whole, rtol=0.05, atol=0.05)


def test_published_weights_are_asked_for_by_their_tag(monkeypatch):
    def stop(name, pretrained, **_):
        raise ConfigError(f"{name} with {pretrained}")

    monkeypatch.setattr("suisei.pacs.dual_module.load_dual_encoder", stop)
    with pytest.raises(ConfigError, match="ViT-L-14 with laion2b_s32b_b82k"):
        PacTraining("ViT-L-14", "laion2b_s32b_b82k")
    with pytest.raises(ConfigError, match="ViT-B-32 with openai"):
        PacTraining()


@pytest.mark.parametrize(("patience", "steps"), [(2, 4), (4, 6)])
def test_training_stops_when_nothing_gets_better(folder, tmp_path, monkeypatch, patience, steps):
    monkeypatch.setattr("suisei.pacs.dual_module.recall_at", lambda *_: torch.tensor(0.5))
    more = [f"--model.model={folder / 'clip'}", "--monitor=val_recall10", f"--patience_steps={patience}"]
    run(arguments(folder, tmp_path / "run", *more))
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["steps"] == steps
    assert report["val_recall10"] == 0.5


def test_images_of_a_file_may_lie_elsewhere(folder, tmp_path):
    path = tmp_path / "moved.jsonl"
    path.write_text((folder / "train.jsonl").read_text())
    data = PairDataModule(str(path), str(folder / "train.jsonl"), root=str(folder), batch_size=4)
    data.load()
    assert data.pairs[0].image == folder / "0.png"


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
