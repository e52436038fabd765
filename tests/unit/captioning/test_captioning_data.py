"""Which images and captions are read, which of them meet in a batch, and what a frozen tower says of them."""

import gzip
import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from suisei.captioning.caption_data import CaptionedImages
from suisei.captioning.caption_model import Decoding
from suisei.captioning.caption_sources import CaptionedImage, _told_apart, load_captioned
from suisei.captioning.caption_writing import ImageGrids
from suisei.captioning.grid_store import GridStore
from suisei.captioning.grid_tower import GridTower
from suisei.captioning.word_pretraining import WordPretraining, piece_shares, pretrain_tower
from suisei.encoders.feature_file import DiskCache
from suisei.encoders.image import ImageEncoder
from suisei.errors import ConfigError, DataError
from suisei.models.pixel_store import PixelStore


def karpathy(folder, pictures):
    path = folder / "dataset.json"
    images = [
        {"filename": picture.name, "split": split, "sentences": [{"raw": f"a {picture.stem} picture"}]}
        for picture, split in zip(pictures, ["train", "restval", "val", "test", "train", "test"], strict=True)
    ]
    path.write_text(json.dumps({"images": images, "dataset": "mine"}))
    return path


def test_a_karpathy_split_gives_the_parts_asked_for(tmp_path, pictures):
    path = karpathy(tmp_path, pictures)
    found = load_captioned(f"{path}:train+restval")
    assert [image.id for image in found] == ["red.png", "green.png", "black.png"]
    assert found[0].captions == ("a red picture",)
    with pytest.raises(ConfigError, match="name its parts"):
        load_captioned(str(path))
    with pytest.raises(ConfigError, match="no part 'dev'"):
        load_captioned(f"{path}:dev")


@pytest.mark.parametrize("sentences", [5, True, None, "a dog", {"raw": "a dog"}, ["a dog"], [{"raw": 5}]])
def test_sentences_that_are_no_list_of_texts_are_refused(tmp_path, pictures, sentences):
    path = tmp_path / "dataset.json"
    image = {"filename": pictures[0].name, "split": "train", "sentences": sentences}
    path.write_text(json.dumps({"images": [image]}))
    with pytest.raises(DataError, match=r"image 1: sentences must be a list of objects whose raw is a text"):
        load_captioned(f"{path}:train")


@pytest.mark.parametrize("layout", ["karpathy", "coco", "pairs"])
@pytest.mark.parametrize(
    ("caption", "message"),
    [("a \ud83d", "broken character"), ("\u200b", "is empty"), ("a" * 10_001, "10,001 characters")],
)
def test_captions_that_could_not_be_scored_are_refused_by_their_place(
    tmp_path, pictures, layout, caption, message
):
    name, second = pictures[1].name, ["fine", caption]
    rows = [{"image": pictures[0].name, "captions": ["fine"]}, {"image": name, "captions": second}]
    if layout == "karpathy":
        sentences = [{"raw": text} for text in second]
        content = {"images": [{"filename": name, "split": "test", "sentences": sentences}]}
    else:
        annotations = [{"image_id": 7, "caption": text} for text in second]
        content = {"images": [{"id": 7, "file_name": name}], "annotations": annotations}
    path = tmp_path / ("rows.jsonl" if layout == "pairs" else "rows.json")
    path.write_text("\n".join(map(json.dumps, rows if layout == "pairs" else [content])))
    place = {"karpathy": "image 1: sentence 2", "coco": "annotation 2", "pairs": "row 2: captions 2"}
    with pytest.raises(DataError, match=rf"{place[layout]}.*{message}"):
        load_captioned(f"{path}:test" if layout == "karpathy" else str(path))


def test_coco_annotations_give_all_captions_of_an_image(tmp_path, pictures):
    path = tmp_path / "annotations.json"
    images = [{"id": number, "file_name": picture.name} for number, picture in enumerate(pictures)]
    annotations = [
        {"id": 1, "image_id": 0, "caption": "red"},
        {"id": 2, "image_id": 2, "caption": "青い"},
        {"id": 3, "image_id": 0, "caption": "very red"},
    ]
    path.write_text(json.dumps({"images": images, "annotations": annotations}))
    found = load_captioned(str(path))
    assert [(image.image, image.captions, image.languages) for image in found] == [
        (pictures[0], ("red", "very red"), ("en", "en")),
        (pictures[2], ("青い",), ("ja",)),
    ]
    with pytest.raises(ConfigError, match="no Karpathy split"):
        load_captioned(f"{path}:train")


def test_files_of_the_same_name_in_two_folders_have_ids_of_their_own(tmp_path, pictures):
    path, rows = tmp_path / "pairs.jsonl", [{"image": pictures[2].name, "captions": ["one of its own"]}]
    for picture in pictures[:2]:
        (tmp_path / picture.stem).mkdir()
        picture.rename(tmp_path / picture.stem / "1.png")
        rows.append({"image": f"{picture.stem}/1.png", "captions": [f"a {picture.stem} picture"]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = load_captioned(str(path))
    assert [image.id for image in found] == [pictures[2].name, *(str(image.image) for image in found[1:])]
    assert len({image.id for image in found}) == 3


def test_an_image_whose_path_is_anothers_id_has_another_id(tmp_path):
    image = CaptionedImage(tmp_path / "1.png", ("a",), ("en",), "1")
    others = [
        replace(image, image=tmp_path / "2.png"),
        replace(image, id=str(image.image), image=tmp_path / "3.png"),
    ]
    found = _told_apart([image, *others])
    assert [each.id for each in found] == [str(tmp_path / f"{number}.png") for number in (1, 2, 3)]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.JSONL", "pairs.jsonl.gz"])
def test_the_folder_of_images_is_that_of_pairs_whatever_their_name(captioned, tmp_path, name):
    content = captioned.read_bytes()
    path = tmp_path / "elsewhere" / name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    found = load_captioned(str(path), images=str(tmp_path))
    assert {image.image.parent for image in found} == {tmp_path}


def test_json_lines_and_a_language(captioned):
    assert len(load_captioned(str(captioned))) == 4
    found = load_captioned(str(captioned), language="ja")
    assert [image.id for image in found] == ["blue.png", "white.png"]


def test_rated_data_gives_references_by_image():
    found = load_captioned("scenes")
    assert len({image.image for image in found}) == len(found) == 300
    assert all(len(set(image.captions)) == len(image.captions) for image in found)
    spoken = {language for image in found for language in image.languages}
    assert spoken == {"en", "ja"}


def test_the_scale_of_ratings_is_not_read(tmp_path, pictures):
    (tmp_path / "rows.csv").write_text("image,caption,MOS,rating_scale\nred.png,a dog,4,1-5\n")
    assert [image.captions for image in load_captioned(str(tmp_path / "rows.csv"))] == [("a dog",)]


def test_an_image_that_rows_name_in_two_ways_is_one(tmp_path, pictures):
    folder = pictures[0].parent
    names = [pictures[0].name, str(pictures[0]), f"../{folder.name}/{pictures[0].name}"]
    rows = [{"candidate": f"caption {number}", "image": name} for number, name in enumerate(names)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [image] = load_captioned(str(path), images=os.path.relpath(folder))
    assert image.captions == ("caption 0", "caption 1", "caption 2")


def test_the_same_images_validate_however_rows_name_them(tmp_path, pictures):
    folder = pictures[0].parent
    parts = []
    for full in ((), range(0, 6, 2), range(6)):
        rows = [
            {"candidate": "a", "image": str(picture) if number in full else picture.name}
            for number, picture in enumerate(pictures)
        ]
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        data = CaptionedImages(str(path), images=os.path.relpath(folder), validation_share=0.5)
        data.load(seed=0)
        parts.append([image.image.name for image in data.validation_part])
    assert parts[0] == parts[1] == parts[2]


@pytest.mark.parametrize("other", ["copy", "link"])
def test_names_of_one_image_are_on_one_side_of_the_split(tmp_path, pictures, other, caplog):
    rows = []
    for picture in pictures[:4]:
        twin = picture.with_name(f"other-{picture.name}")
        twin.symlink_to(picture) if other == "link" else twin.write_bytes(picture.read_bytes())
        rows += [{"candidate": "a", "image": path.name} for path in (picture, twin)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for seed in range(5):
        data = CaptionedImages(str(path), images=str(pictures[0].parent), validation_share=0.25)
        data.load(seed)
        names = [
            {image.id.removeprefix("other-") for image in part}
            for part in (data.train_part, data.validation_part)
        ]
        assert not names[0] & names[1]
        assert len(data.train_part) + len(data.validation_part) == 8
    assert not caplog.text


def test_an_image_alone_is_none_to_train_on_beside_one_that_validates(tmp_path, pictures):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"image": pictures[0].name, "captions": ["a"]}))
    with pytest.raises(DataError, match=r"of 1 image none is left to train on: 1 image validates; name more"):
        CaptionedImages(str(path), images=str(tmp_path)).load(0)


def test_missing_images_are_counted_and_named(tmp_path, pictures):
    path = karpathy(tmp_path, pictures)
    pictures[4].unlink()
    with pytest.raises(DataError, match=r"1 of 2 image files are not there, such as .*black\.png"):
        load_captioned(f"{path}:train")


def module(captioned, **settings):
    data = CaptionedImages(
        str(captioned), validation_share=0.25, batch_size=2, captions_per_image=1, **settings
    )
    data.load(seed=0)
    return data


def test_captions_are_learned_no_longer_than_they_can_be_written(captioned):
    longest = CaptionedImages(str(captioned), max_length=1000).max_length
    assert Decoding("beam", max_length=longest).max_length == 1000
    with pytest.raises(ConfigError, match=r"data\.max_length is 1001; it must be an integer from 2 to 1,000"):
        CaptionedImages(str(captioned), max_length=1001)


def test_every_epoch_draws_other_captions_and_a_resumed_one_the_same(captioned, build_captioner):
    def batches(data, epoch, first=0):
        loader = data.train_dataloader()
        loader.sampler.set_epoch(epoch)
        loader.load_state_dict({"epoch": epoch, "batches": first})
        return [(batch.images.tolist(), batch.tokens.tolist(), batch.starts.tolist()) for batch in loader]

    model = build_captioner()
    data = module(captioned)
    data.attach(model, None, None)
    epochs = [batches(data, epoch) for epoch in range(6)]
    assert [sorted(row for images, _, _ in epoch for row in images) for epoch in epochs] == [[0, 1, 2]] * 6
    assert len({str(epoch) for epoch in epochs}) > 2
    assert batches(data, 3, first=1) == epochs[3][1:]


def test_captions_that_are_cut_are_counted_and_said(captioned, build_captioner, caplog):
    model = build_captioner()
    for longest, said in ((16, 0), (3, 1)):
        data = module(captioned, max_length=longest)
        data.attach(model, None, None)
        assert (
            caplog.text.count(f"captions have more tokens than the captioner (data.max_length {longest})")
            == said
        )
    assert "such as 'A green picture .'" in caplog.text


def test_a_batch_holds_the_captions_of_its_images_and_their_language(captioned, build_captioner):
    model = build_captioner()
    data = module(captioned)
    data.attach(model, None, None)
    for batch in data.train_dataloader():
        for row, tokens, start in zip(batch.images, batch.tokens, batch.starts, strict=True):
            image = data.train_part[row]
            said = model.texts(tokens[None])[0][0]
            assert said in [caption.lower().rstrip(" .。") for caption in image.captions]
            assert start.item() == model.first(1, image.languages[0]).item()


def test_validation_holds_all_captions_and_shares_no_image_with_training(captioned, build_captioner):
    data = module(captioned)
    data.attach(build_captioner(), None, None)
    (batch,) = data.val_dataloader()
    assert batch.tokens.shape[:2] == (1, 2)
    assert not {i.image for i in data.train_part} & {i.image for i in data.validation_part}
    both = CaptionedImages(str(captioned), validation=str(captioned))
    with pytest.raises(DataError, match="shares 4 images"):
        both.load(0)


def test_validation_in_a_language_that_training_has_not_is_refused(tmp_path, pictures):
    training, validation = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    training.write_text(json.dumps({"image": pictures[0].name, "captions": ["red"]}))
    row = {"image": pictures[2].name, "captions": ["blue", "青い"]}
    validation.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    message = r"dev\.jsonl: 1 validation .*\(ja\), such as '青い' of blue\.png; .*data\.language"
    with pytest.raises(DataError, match=message):
        CaptionedImages(str(training), str(validation)).load(0)
    kept = CaptionedImages(str(training), str(validation), language="en")
    kept.load(0)
    assert kept.validation_part[0].captions == ("blue",)


@pytest.mark.parametrize("most", [2**30, 0])
def test_kept_grids_are_what_the_tower_says(build_captioner, pictures, tmp_path, most):
    model = build_captioner()
    disk = DiskCache(tmp_path / "cache", 10**9)
    seen = []
    store = GridStore(
        model.tower, pictures, mirrored=True, disk=disk, folder=tmp_path, advance=seen.append, most=most
    )
    pixels = model.read(pictures)
    rows = torch.tensor([4, 0, 6 + 2])
    wanted = torch.stack([*model.grid(pixels[[4, 0]]), *model.grid(pixels[[2]].flip(-1))])
    torch.testing.assert_close(store[rows], wanted, atol=5e-3, rtol=5e-3)
    assert sum(seen) == 12
    again = GridStore(model.tower, pictures, mirrored=True, disk=disk, folder=tmp_path, advance=seen.append)
    assert sum(seen) == 12  # from the disk
    assert torch.equal(again[rows], store[rows])
    assert bool(list(tmp_path.glob(".grids-*"))) == (most == 0)
    del store
    assert not list(tmp_path.glob(".grids-*"))


def test_grids_beyond_the_first_chunk_are_those_of_their_images(build_captioner, pictures, monkeypatch):
    model = build_captioner()
    whole = GridStore(model.tower, pictures, half=False)
    monkeypatch.setattr("suisei.captioning.grid_store.CHUNK", 2)
    parts = GridStore(model.tower, pictures, half=False)
    rows = torch.arange(6)
    torch.testing.assert_close(parts[rows], whole[rows], atol=1e-5, rtol=1e-5)
    assert len(torch.unique(whole[rows], dim=0)) == 6


def test_grids_before_and_after_the_last_norm_are_kept_apart(pictures, tmp_path):
    transformer = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
    architecture = {"embed_dim": 16, "quick_gelu": False, "vision_cfg": transformer}
    image, disk = ImageEncoder.from_architecture(architecture), DiskCache(tmp_path / "cache", 10**9)
    encoded, seen = [], []
    for last_norm in (False, True, False):
        store = GridStore(GridTower(image, last_norm), pictures[:4], disk=disk, advance=seen.append)
        encoded.append(sum(seen))
        assert len(store[torch.arange(4)]) == 4
    assert encoded == [4, 8, 8]


def test_grids_that_were_asked_for_in_several_calls_are_those_of_their_images(
    build_captioner, pictures, monkeypatch
):
    """Of a captioner that is not one of our own, whose grids no store keeps."""
    own = build_captioner()
    other = SimpleNamespace(tower_is_frozen=True, device=own.device, read=own.read, grid=own.grid)
    monkeypatch.setattr(sys.modules[ImageGrids.__module__], "IMAGES_PER_CALL", 2)
    done = []
    grids = ImageGrids(other, pictures[:5], advance=done.append)
    expected = own.grid(own.read(pictures[:5]))
    torch.testing.assert_close(grids[torch.arange(5)], expected, atol=1e-5, rtol=1e-5)
    assert done == [2, 2, 1]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_damaged_image_is_found_ahead_where_no_grids_are_kept(
    build_captioner, pictures, monkeypatch, tmp_path, frozen
):
    own = build_captioner()
    other = SimpleNamespace(tower_is_frozen=frozen, device=own.device, read=own.read, grid=own.grid)
    module = sys.modules[ImageGrids.__module__]
    monkeypatch.setattr(module, "IMAGES_PER_CALL", 2)
    monkeypatch.setattr(module, "MOST_GRID_BYTES", 0)
    done = []
    grids = ImageGrids(other, pictures[:3], advance=done.append)
    assert (len(grids), sum(done)) == (3, 3)
    weight = torch.ones(1, requires_grad=True)
    other.grid = lambda pixels: own.grid(pixels) * weight
    assert grids[torch.tensor([0])].requires_grad is not frozen
    (tmp_path / "cut.png").write_bytes(pictures[0].read_bytes()[:60])
    with pytest.raises(DataError, match=r"1 of 4 images cannot be read: .*cut\.png"):
        ImageGrids(other, [*pictures[:3], tmp_path / "cut.png"])


def test_the_shares_of_pieces_are_counted_by_caption():
    shares = piece_shares([[[1, 2, 2], [1]], [[2]]])
    assert shares.tolist() == [[1.0, 0.5], [0.0, 1.0]]


def test_pre_training_on_words_tells_colours_apart(build_captioner, pictures):
    model = build_captioner()
    pixels = PixelStore(pictures[:4], model.tower.image.preprocess)
    before = [weights.clone() for weights in model.tower.parameters()]
    losses = pretrain_tower(
        model.tower,
        pixels,
        [[[4]], [[5]], [[6]], [[7]]],
        WordPretraining(epochs=30, batch_size=4, learning_rate=3e-3),
        seed=0,
        change=lambda images: images,
    )
    assert losses[-1] < losses[0] / 2
    after = list(model.tower.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert not any(weights.requires_grad for weights in after)
