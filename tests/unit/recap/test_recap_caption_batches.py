"""Batches with captions made wrong: one kind each, never the caption itself, the same after a restart."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.errors import ConfigError, DataError
from suisei.recap.caption_batches import LatentData
from suisei.recap.negatives import KINDS, other_caption, shuffled_caption
from suisei.training.resumable_data import require_full_batch

ENGLISH = [
    "A brown dog runs across the green field .",
    "Two men in red shirts play football on a beach .",
    "A child is jumping into a blue swimming pool",
    "An old woman sits beside a window and reads",
]
JAPANESE = ["茶色い犬が緑の野原を走っている。", "赤いシャツの男性が二人、浜辺でサッカーをしている。"]


@pytest.mark.parametrize("caption", [*ENGLISH, *JAPANESE])
def test_a_permutation_always_changes_the_caption_and_keeps_its_words(caption):
    for seed in range(40):
        made = shuffled_caption(caption, seed)
        assert made is not None
        assert made != caption
        assert sorted(made.lower().replace(" ", "")) == sorted(caption.lower().replace(" ", ""))
    assert len({shuffled_caption(caption, seed) for seed in range(10)}) > 3


@pytest.mark.parametrize("caption", ["dog", "a dog", "犬", "dog dog dog dog"])
def test_a_caption_too_short_to_be_wrong_has_no_permutation(caption):
    assert shuffled_caption(caption, 0) is None


def test_the_other_caption_is_of_another_image_and_says_something_else():
    captions, owners = ["a dog", "one dog", "a dog", "a cat"], [0, 0, 1, 2]
    rng = np.random.default_rng(0)
    assert {other_caption(0, captions, owners, rng) for _ in range(30)} == {"a cat"}
    assert other_caption(0, ["a", "b"], [0, 0], rng) is None


@pytest.fixture
def made(tmp_path):
    rows = []
    for number, caption in enumerate([*ENGLISH, *JAPANESE, "猫"]):
        Image.new("RGB", (40, 40), (30 * number, 90, 200)).save(tmp_path / f"{number}.png")
        captions = [caption] if caption == "猫" else [caption, f"{caption} again"]
        rows.append({"image": f"{number}.png", "captions": captions})
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(batch_size=3, contrasted=True, seed=0):
        pairs = str(tmp_path / "pairs.jsonl")
        data = LatentData(pairs, pairs, batch_size=batch_size)
        data.load()
        features = torch.arange(len(data.images), dtype=torch.float32)[:, None]
        data.attach(features, code_points, contrasted=contrasted, seed=seed)
        return data

    return make


def code_points(texts):
    return [[ord(letter) for letter in text] for text in texts]


def texts_of(ids, mask):
    return ["".join(chr(c) for c in row[kept].tolist()) for row, kept in zip(ids, mask, strict=True)]


def test_a_batch_has_negatives_of_one_kind(made):
    data, kinds = made(), set()
    for epoch in range(6):
        loader = data.train_dataloader()
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            kinds.add(batch.kind)
            right = texts_of(batch.ids, batch.mask)
            wrong = texts_of(batch.negative_ids, batch.negative_mask)
            for own, other, there in zip(right, wrong, batch.there.tolist(), strict=True):
                same_words = sorted(own.lower().replace(" ", "")) == sorted(other.lower().replace(" ", ""))
                assert (own != other) == there
                assert same_words == (batch.kind == "shuffled" or not there)
    assert kinds == set(KINDS)


def test_features_are_those_of_the_captions_image(made):
    data = made(contrasted=False)
    batch = next(iter(data.val_dataloader()))
    assert texts_of(batch.ids, batch.mask)[2] == ENGLISH[2]
    assert batch.features[2, 0] == data.owners["validation"][data.firsts[2]]
    assert batch.negative_ids is None


def test_in_shuffled_batches_too_each_caption_has_its_own_image(made):
    data = made(contrasted=False)
    owner = dict(zip(data.captions["train"], data.owners["train"], strict=True))
    batches = list(data.train_dataloader())
    texts = [text for batch in batches for text in texts_of(batch.ids, batch.mask)]
    assert texts != sorted(texts, key=data.captions["train"].index)
    assert [row.item() for batch in batches for row in batch.features] == [owner[text] for text in texts]


def test_validation_has_every_first_caption_with_both_kinds_always_alike(made):
    data = made()
    once, again = (list(data.val_dataloader()) for _ in range(2))
    assert [batch.kind for batch in once] == ["other"] * 3 + ["shuffled"] * 3
    assert sum(len(batch.ids) for batch in once) == 2 * 7
    for left, right in zip(once, again, strict=True):
        assert torch.equal(left.negative_ids, right.negative_ids)
    assert not once[-1].there[-1]  # 猫 cannot be shuffled
    assert texts_of(once[-1].negative_ids, once[-1].negative_mask)[-1] == "猫"


def test_training_goes_on_with_the_batches_it_would_have_had(made):
    whole = [batch.negative_ids for batch in made().train_dataloader()]
    data = made()
    first = iter(data.train_dataloader())
    next(first), next(first)
    state, rest = data.state_dict(), made()
    rest.load_state_dict(state)
    left = [batch.negative_ids for batch in rest.train_dataloader()]
    assert len(left) == len(whole) - 2
    assert all(torch.equal(a, b) for a, b in zip(left, whole[2:], strict=True))
    other = [batch.negative_ids for batch in made(seed=1).train_dataloader()]
    assert not all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(other, whole, strict=True))


def test_too_few_captions_for_a_batch_are_refused(made):
    with pytest.raises(ConfigError, match="13 training captions do not fill a batch of 14"):
        made(batch_size=14)
    with pytest.raises(ConfigError, match=r"1 training image does not fill a batch of 2; lower data\.batch"):
        require_full_batch(1, "images", 2)


def test_captions_of_a_copy_are_of_the_image_itself(made, tmp_path):
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    with (tmp_path / "pairs.jsonl").open("a") as file:
        file.write(json.dumps({"image": "copy.png", "captions": ["A dog on grass"]}) + "\n")
    data = made()
    owner = data.owners["train"][data.captions["train"].index("A dog on grass")]
    assert data.images[owner] == tmp_path / "0.png"
    assert len(set(data.owners["train"])) == 7


def test_damaged_images_stop_the_reading_or_are_left_out(made, tmp_path, caplog):
    assert made().skipped == []
    source = str(tmp_path / "pairs.jsonl")
    (tmp_path / "2.png").write_bytes((tmp_path / "2.png").read_bytes()[:50])
    (tmp_path / "3.png").unlink()
    with pytest.raises(DataError, match=r"no file of 1 image: .*3\.png"):
        LatentData(source, source, batch_size=3).load()
    data = LatentData(source, source, batch_size=3, on_error="skip")
    data.load()
    assert [image.name for image in data.images] == ["0.png", "1.png", "4.png", "5.png", "6.png"] * 2
    assert data.skipped_facts["skipped_rows"] == 4  # two of each part
    assert str(data.skipped_facts["first_skipped"]).endswith(f"there is no file {tmp_path / '3.png'}")
    assert "4 bad rows skipped, the first: " in caplog.text
    with pytest.raises(ConfigError, match=r"data\.on_error"):
        LatentData(source, source, on_error="leave")
