"""Tables and batches against plain loops."""

import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.data.image_bytes import ImageBytes
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.models.batch import length_spans
from suisei.models.pixel_store import PixelStore
from suisei.models.table import Collator, SampleTable
from tests.unit.models.coloured import image, pixels_of

TEXTS = st.sampled_from(["a dog", "犬", "two dogs", "a cat", "猫がいる"])
SAMPLES = st.lists(
    st.tuples(
        TEXTS, st.lists(TEXTS, max_size=4), st.sampled_from([None, 0, 1, 2]), st.none() | st.integers(1, 5)
    ),
    min_size=1,
    max_size=8,
)


def sample(candidate, references, picture, rating):
    return CaptionSample(
        candidate,
        tuple(references),
        None if picture is None else image(picture),
        None if rating is None else Rating((rating,), 1, 5),
    )


def tokens(text):
    return [0, *(ord(character) for character in text), 2]


def pad(token_ids):
    length = max(len(ids) for ids in token_ids)
    ids = torch.tensor([[*row, *[1] * (length - len(row))] for row in token_ids])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in token_ids])
    return ids, mask


@settings(max_examples=40, deadline=None)
@given(SAMPLES, st.data())
def test_batch_equals_its_samples_one_by_one(rows, data):
    samples = [sample(*row) for row in rows]
    extras = np.arange(len(rows) * 2, dtype=np.float64).reshape(-1, 2)
    table = SampleTable(samples, extras)
    assert len(table) == len(rows)
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))
    store = PixelStore(table.images, pixels_of)
    batch = Collator(table, [tokens(caption) for caption in table.captions], pad, store)(positions)
    assert len(batch) == len(positions)
    assert len(set(batch.caption_rows.tolist())) == len(batch.caption_rows)
    assert len(set(batch.image_rows.tolist())) == len(batch.image_rows)

    def text(local):
        ids = batch.ids[local][batch.mask[local] == 1].tolist()
        assert table.captions[batch.caption_rows[local]] == "".join(map(chr, ids[1:-1]))
        return table.captions[batch.caption_rows[local]]

    used = set()
    for place, position in enumerate(positions):
        candidate, references, picture, rating = rows[position]
        assert text(batch.candidate[place]) == candidate
        present = batch.references[place][batch.reference_mask[place]]
        assert [text(local) for local in present] == references
        used.update([candidate, *references])
        assert bool(batch.image_mask[place]) is (picture is not None)
        if picture is not None:
            assert table.images[batch.image_rows[batch.image[place]]].size == (4 + picture, 4)
            assert torch.equal(batch.pixels[batch.image[place]], pixels_of(image(picture)))
        assert batch.extras[place].tolist() == [2 * position, 2 * position + 1]
        if rating is None:
            assert torch.isnan(batch.target[place])
        else:
            assert float(batch.target[place]) == pytest.approx((rating - 1) / 4)
    assert {table.captions[row] for row in batch.caption_rows} == used
    assert batch.references.shape[1] == max(len(rows[position][1]) for position in positions)


def test_what_a_sample_was_made_of_is_found_in_the_batch_alone():
    table = SampleTable([sample("a dog", ["a cat"], None, 3) for _ in range(4)])
    table.original = np.array([-1, 0, -1, 2])
    collate = Collator(table, [tokens(text) for text in table.captions], pad)
    assert collate([3, 2, 1]).original.tolist() == [1, -1, -1]
    assert collate([0, 1, 2]).original.tolist() == [-1, 0, -1]


def test_pairs_of_captions_stand_behind_the_samples_each_with_its_similarity():
    rated = [("a dog", "two dogs", 0.75), ("a cat", "a dog", 0.25), ("two cats", "a cat", 0.5)]
    samples = [sample("a dog", ["a cat", "two dogs"], None, 3), sample("two cats", [], None, 4)]
    table = SampleTable(samples, pairs=rated)
    batch = Collator(table, [tokens(text) for text in table.captions], pad)([4, 0, 2])
    assert (len(batch), batch.pair_target.tolist()) == (1, [0.5, 0.75])
    texts = [table.captions[row] for row in batch.caption_rows]
    assert [[texts[place] for place in pair] for pair in batch.pairs.tolist()] == [
        ["two cats", "a cat"], ["a dog", "two dogs"],
    ]  # fmt: skip
    assert [texts[place] for place in batch.references[0]] == ["a cat", "two dogs"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 60))
def test_spans_cost_the_least_that_any_cuts_do(lengths, overhead):
    lengths = np.array(sorted(lengths, reverse=True))
    spans = length_spans(lengths, overhead)
    assert [row for start, end, _ in spans for row in range(start, end)] == list(range(len(lengths)))
    assert all(lengths[start] == width for start, _, width in spans)

    def cheapest(start):  # tries every first cut
        ends = range(start + 1, len(lengths) + 1)
        costs = [(end - start) * lengths[start] + overhead + cheapest(end) for end in ends]
        return min(costs, default=0)

    if len(lengths) <= 9:
        assert sum((end - start) * width + overhead for start, end, width in spans) == cheapest(0)


def test_captions_of_a_batch_stand_longest_first_where_they_are_encoded_in_parts():
    texts = ["a b", "a", "a b c d e f g h", "x", "y z"]
    samples = [CaptionSample(texts[0], (texts[1], texts[2])), CaptionSample(texts[3], (texts[4],))]
    table = SampleTable(samples)
    token_ids = [tokens(caption) for caption in table.captions]
    collate = Collator(table, token_ids, pad, overhead=1)
    assert collate.lengths.tolist() == [17, 5]
    batch = collate([1, 0])
    sizes = batch.mask.sum(dim=1)
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)
    assert len(batch.spans) > 1
    assert [table.captions[batch.caption_rows[row]] for row in batch.candidate] == [texts[3], texts[0]]
    whole = Collator(table, token_ids, pad)([1, 0])
    assert whole.spans == ()
    assert sorted(whole.caption_rows.tolist()) == sorted(batch.caption_rows.tolist())


@settings(max_examples=30, deadline=None)
@given(SAMPLES)
def test_every_caption_is_in_the_table_once_in_order_of_appearance(rows):
    table = SampleTable([sample(*row) for row in rows])
    candidates = list(dict.fromkeys(row[0] for row in rows))
    references = [reference for row in rows for reference in row[1]]
    assert table.captions == list(dict.fromkeys([*candidates, *references]))
    for number, (candidate, own, _, _) in enumerate(rows):
        assert table.captions[table.candidate[number]] == candidate
        assert [table.captions[row] for row in table.references[number]] == own


def test_images_are_told_apart_by_content_not_by_name(tmp_path):
    paths = [tmp_path / name for name in ("a.png", "b.png", "c.png")]
    image(0).save(paths[0])
    shutil.copy(paths[0], paths[1])
    image(1).save(paths[2])
    rows = [paths[0], paths[1], None, paths[2], str(paths[0]), image(2), image(2)]
    table = SampleTable([CaptionSample("x", (), source) for source in rows])
    assert table.image.tolist() == [0, 0, -1, 1, 0, 2, 2]
    assert len(table.images) == len(table.image_keys) == len(set(table.image_keys)) == 3


def test_images_in_memory_are_told_apart_whatever_they_are_called(tmp_path):
    contents = []
    for number in (0, 1, 0):
        image(number).save(tmp_path / "a.png")
        contents.append(ImageBytes("a.png", (tmp_path / "a.png").read_bytes()))
    table = SampleTable([CaptionSample("x", (), source) for source in contents])
    assert table.image.tolist() == [0, 1, 0]


def test_a_path_is_read_once_however_often_it_occurs(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    image(0).save(path)
    from suisei.models import table as module

    read = []
    key = module.content_key
    monkeypatch.setattr(module, "content_key", lambda source: read.append(source) or key(source))
    SampleTable([CaptionSample("x", (), path)] * 5 + [CaptionSample("y", (), str(path))])
    assert len(read) == 1


def test_missing_image_is_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.png"):
        SampleTable([CaptionSample("x", (), tmp_path / "absent.png")])


def test_mean_of_several_raters_is_the_target():
    table = SampleTable([CaptionSample("x", (), None, Rating((1, 2, 4), 1, 5))])
    assert table.target.dtype == np.float32
    assert table.target[0] == pytest.approx((0 + 0.25 + 0.75) / 3)


def test_extras_of_another_number_of_samples_are_refused():
    with pytest.raises(DataError, match="2 rows for 1 samples"):
        SampleTable([CaptionSample("x")], np.zeros((2, 3)))


def test_batch_without_images_or_references_has_empty_places():
    batch = Collator(SampleTable([CaptionSample("x"), CaptionSample("y")]))([0, 1])
    assert batch.references.shape == (2, 0)
    assert batch.pixels is None
    assert batch.ids is None
    assert not batch.image_mask.any()
    assert batch.extras.shape == (2, 0)


def test_a_model_without_image_does_not_read_the_images():
    sample = CaptionSample("a cat", ("a dog",), image="no/such/file.png")
    table = SampleTable([sample], with_images=False)
    assert table.image.tolist() == [-1]
    assert table.images == []
