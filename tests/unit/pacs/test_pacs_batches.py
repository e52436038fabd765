"""What a batch of images with captions holds, and how images are changed in training."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from suisei.errors import ConfigError, DataError
from suisei.pacs.dual_module import PacTraining, recall_at
from suisei.pacs.pair_datamodule import PairDataModule
from suisei.training.contrastive import symmetric_info_nce


def test_states_computed_once_give_the_same_loss(folder):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=8)
    data.load()
    model = PacTraining(str(folder / "clip"), trainable="projections").eval()
    from suisei.models.pixel_store import PixelStore

    pixels = PixelStore(data.images, model.encoder.transform)
    model.prepare(data.captions, pixels, len(data.images))
    data.draw_generated(texts=True, images=True)
    data.attach(None)
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


def test_states_of_more_rows_than_a_chunk_stand_in_their_order(folder):
    model = PacTraining(str(folder / "clip"), trainable="projections")
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    found = model._states(lambda rows: rows[:, None].float(), order, lambda _: None)
    assert found.flatten().tolist() == list(range(600))


@pytest.mark.parametrize(
    ("trainable", "kept"), [("projections", True), ("lora", True), ("image", False), ("all", False)]
)
def test_only_a_temperature_that_learns_is_held_above_a_hundredth(folder, trainable, kept):
    model = PacTraining(str(folder / "clip"), trainable=trainable)
    with torch.no_grad():
        model.towers.logit_scale.fill_(4.75)  # as SigLIP's
    model.on_train_batch_end()
    assert float(model.towers.logit_scale) == pytest.approx(4.75 if kept else math.log(100))


def test_batches_hold_each_image_once_and_any_of_its_captions(folder):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=4, hold_out=1)
    data.load()
    data.draw_generated(texts=True, images=False)
    data.attach(None)
    seen = set()
    loader = data.train_dataloader()
    for epoch in range(20):
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            assert len(set(batch.images.tolist())) == 4
            assert batch.generated_images is None
            seen |= {data.captions[row] for row in batch.texts.tolist()}
    assert seen == {pair.captions[0] for pair in data.pairs}  # the second was held out


@pytest.mark.parametrize("known", [True, False])
def test_a_generated_image_is_drawn_with_the_caption_that_it_was_made_from(folder, known):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()][:4]
    for number, row in enumerate(rows):
        row["generated_images"] = [f"made-{number}.png", f"made-{number + 4}.png"]
        if known:
            row["generated_from"] = row["captions"][::-1]
    rows[3]["captions"].append("without an image")
    path = folder / "origins.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = PairDataModule(str(path), str(path), batch_size=4, captions_per_image=2)
    data.load()
    data.draw_generated(texts=True, images=True)
    data.attach(None)
    loader = data.train_dataloader()
    found = set()
    for epoch in range(30):
        loader.sampler.set_epoch(epoch)
        (batch,) = loader
        texts, made = batch.texts[::2].tolist(), batch.generated_images.tolist()
        both = zip(texts, made, strict=True)
        found |= {(data.captions[text], data.images[image].name) for text, image in both}
    (first,) = data.val_dataloader()
    if known:
        own = [zip(row["generated_from"], row["generated_images"], strict=True) for row in rows]
        matching = {both for images in own for both in images}
        strays = {("without an image", image) for image in rows[3]["generated_images"]}
        assert found == matching | strays
        made = [data.images[row].name for row in first.generated_images]
        assert made == [f"made-{number}.png" for number in range(4, 8)]
    else:
        assert len(found) == 2 * sum(len(row["captions"]) for row in rows)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("captions", r"made nothing, let held-out .*\(data\.hold_out\), or set model\.lambda_t to 0"),
        ("images", r"made nothing, or set model\.lambda_v to 0"),
    ],
)
def test_positives_must_be_there_for_every_image(folder, kind, advice):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    del rows[3][f"generated_{kind}"]
    path, whole = folder / f"no-{kind}.jsonl", folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lacks = rf"1 of 8 images of data\.%s \({path}; the first: {folder / rows[3]['image']}\)"
    added = rf"add them \(suisei positives {kind}\), leave out the rows of which its model"
    for train, validation, lacking in (
        (path, path, f"{lacks % 'train'} and {lacks % 'validation'}"),
        (whole, path, lacks % "validation"),
    ):
        data = PairDataModule(str(train), str(validation), batch_size=4)
        data.load()
        with pytest.raises(ConfigError, match=rf"^{lacking} have no generated_{kind}: {added} {advice}$"):
            data.draw_generated(texts=True, images=True)


def test_images_that_are_trained_on_and_validate_are_said(folder, caplog):
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    for name, own in (("first", rows[:5]), ("last", rows[5:]), ("middle", rows[3:])):
        (folder / f"{name}.jsonl").write_text("".join(own))
    for name, said in (("last", 0), ("middle", 1)):
        data = PairDataModule(str(folder / "first.jsonl"), str(folder / f"{name}.jsonl"), batch_size=4)
        data.load()
        found = [
            text for text in caplog.messages if "data.validation shares 2 images with data.train" in text
        ]
        assert len(found) == said


def test_copies_of_images_that_are_trained_on_are_said(folder, caplog):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for name, copied in (("copy1.png", rows[0]), ("copy2.png", rows[1])):
        (folder / name).write_bytes((folder / copied["image"]).read_bytes())
    parts = {
        "first": rows[:5],
        "last": rows[5:],
        "copied": [*rows[5:], {**rows[0], "image": "copy1.png"}, {**rows[1], "image": "copy2.png"}],
    }
    for name, own in parts.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    PairDataModule(str(folder / "first.jsonl"), str(folder / "last.jsonl"), batch_size=4).load()
    assert caplog.messages == []
    PairDataModule(str(folder / "first.jsonl"), str(folder / "copied.jsonl"), batch_size=4).load()
    (said,) = caplog.messages
    assert said.startswith("data.validation has images of data.train under other names (2, such as ")
    assert f"{folder / 'copy1.png'}, which is {folder / rows[0]['image']} there" in said


@pytest.mark.parametrize("link", [False, True])
def test_copies_of_an_image_are_one_with_the_captions_of_all(folder, caplog, link):
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    original, copy = folder / rows[0]["image"], folder / "copy.png"
    copy.unlink(missing_ok=True)
    if link:
        copy.symlink_to(original)
    else:
        copy.write_bytes(original.read_bytes())
    another = {"image": "copy.png", "captions": ["another", rows[0]["captions"][0]]}
    (folder / "copied.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, another]))
    data = PairDataModule(str(folder / "copied.jsonl"), str(folder / "train.jsonl"), batch_size=4)
    data.load()
    assert len(data.train_part) == len(data.validation_part) == len(rows)
    assert data.pairs[0].image == original
    assert data.pairs[0].captions == (*rows[0]["captions"], "another")
    assert data.pairs[1 : len(rows)] == data.pairs[len(rows) + 1 :]  # the others are as they were
    assert f"data.train: of {len(rows) + 1} image files {len(rows)} differ; copies count" in caplog.text
    assert "data.validation: of" not in caplog.text


def test_a_single_validation_image_is_refused(folder):
    one = folder / "one.jsonl"
    one.write_text((folder / "train.jsonl").read_text().splitlines(keepends=True)[0])
    data = PairDataModule(str(folder / "train.jsonl"), str(one), batch_size=4)
    with pytest.raises(DataError, match=r"one\.jsonl: a single validation image, .*\(data\.validation\)"):
        data.load()


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
    data.attach(None)
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
        data.draw_generated(texts=True, images=False)
        data.attach(None)
        data.trainer = SimpleNamespace(global_rank=rank, world_size=world)
        loader = data.train_dataloader()
        loader.sampler.set_epoch(3)
        return [torch.stack([batch.texts, batch.generated_texts, batch.images]) for batch in loader]

    one, first, second = drawn(0, 1), drawn(0, 2), drawn(1, 2)
    assert len(one) == 2
    for whole, *parts in zip(one, first, second, strict=True):
        assert torch.equal(whole, torch.cat(parts, dim=1))


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


@pytest.mark.parametrize(
    ("trainable", "towers", "visual"),
    [("projections", False, False), ("lora", False, False), ("image", False, True), ("all", True, True)],
)
def test_what_is_frozen_keeps_its_batch_statistics_and_is_computed_once_unless_images_change(
    folder, trainable, towers, visual
):
    plain, cropped = (
        PacTraining(str(folder / "clip"), trainable=trainable, augment=augment) for augment in (False, True)
    )
    assert plain.images_are_frozen == (trainable == "projections")
    assert not cropped.images_are_frozen
    plain.train()
    plain.on_fit_start()
    assert (plain.towers.transformer.training, plain.towers.visual.training) == (towers, visual)


@pytest.mark.parametrize(
    ("processes", "parts"),
    [(1, [(0, 4), (4, 8), (6, 10)]), (2, [(0, 8), (2, 10)]), (3, [(0, 10)])],
)
def test_the_loss_of_validation_is_that_of_full_batches_of_all_images(folder, monkeypatch, processes, parts):
    model = PacTraining(str(folder / "clip"), lambda_v=0.0, lambda_t=0.0)
    images, texts = torch.randn(2, 10, 16, generator=torch.Generator().manual_seed(0))
    model._validation = [(images[i : i + 4], texts[i : i + 4]) for i in (0, 4, 8)]
    model._kinds = [True, True, False, False]
    monkeypatch.setattr(PacTraining, "trainer", SimpleNamespace(world_size=processes))
    logged = {}
    monkeypatch.setattr(model, "log", lambda name, value, **_: logged.update({name: float(value)}))
    with torch.no_grad():
        model.on_validation_epoch_end()
        full = [model.loss((images[i:j], texts[i:j], None, None)) for i, j in parts]
    assert logged["val_loss"] == pytest.approx(float(sum(full) / len(parts)))


@pytest.mark.parametrize(("name", "lambdas"), [("both", (0.5, 0.25)), ("none", (0.0, 0.0))])
def test_generated_positives_weigh_as_much_as_asked(folder, monkeypatch, name, lambdas):
    data = PairDataModule(str(folder / "train.jsonl"), str(folder / "train.jsonl"), batch_size=8)
    data.load()
    model = PacTraining(str(folder / "clip"), lambda_v=lambdas[0], lambda_t=lambdas[1]).eval()
    from suisei.models.pixel_store import PixelStore

    model.prepare(data.captions, PixelStore(data.images, model.encoder.transform), len(data.images))
    data.draw_generated(texts=True, images=True)
    data.attach(None)
    images, texts, made, more = model.features(next(iter(data.val_dataloader())))
    assert (made is None, more is None) == ((name == "none"),) * 2
    scale = model.towers.logit_scale.exp()
    expected = symmetric_info_nce(images, texts, scale)
    if name == "both":
        expected = expected + 0.5 * symmetric_info_nce(made, texts, scale)
        expected = expected + 0.25 * symmetric_info_nce(images, more, scale)
    assert float(model.loss((images, texts, made, more))) == pytest.approx(float(expected), rel=1e-5)


def test_images_of_a_file_may_lie_elsewhere(folder, tmp_path):
    path = tmp_path / "moved.jsonl"
    path.write_text((folder / "train.jsonl").read_text())
    data = PairDataModule(str(path), str(folder / "train.jsonl"), root=str(folder), batch_size=4)
    data.load()
    assert data.pairs[0].image == folder / "0.png"
