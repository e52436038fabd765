"""The columns of the extra inputs: their order, what the model computes, and what is blanked."""

import numpy as np
import torch

from suisei.models.config import FusionConfig
from suisei.models.inputs import ALIGNMENTS, InputColumns, blank

NEEDS = {"bleu-4": {"references"}, "length": (), "ref-clip-s": {"references", "image"}}
ALL = {"extra_inputs": list(NEEDS), "alignment": True, "similarity": True, "image_similarity": True}


def columns(reads_images=True, **settings):
    return InputColumns.of(FusionConfig(**settings), reads_images=reads_images)


def test_every_column_has_a_name_and_a_place():
    made = columns(**ALL)
    kinds = ("largest", "mean", "smallest")
    similar = [f"similarity-{kind}-{pooling}" for kind in kinds for pooling in ("idf", "mean")]
    seen = ["image-similarity-idf", "image-similarity-mean"]
    assert list(made.names) == [*NEEDS, *ALIGNMENTS, *similar, *seen]
    assert made.names[made.given] == (*NEEDS, *ALIGNMENTS)
    assert made.names[made.computed] == (*similar, *seen)
    assert len(set(made.names)) == len(made.names)


def test_a_model_without_images_has_no_cosine_with_one():
    assert columns(False, **ALL).names == columns(**{**ALL, "image_similarity": False}).names
    assert columns().names == ()


def test_what_is_blanked_without_references_or_image():
    made = columns(**ALL)
    assert made.needing("references", NEEDS) == [0, 2, *range(3, 3 + len(ALIGNMENTS))]
    assert made.needing("image", NEEDS) == [2]
    given = torch.ones(2, 3)
    blank(given, torch.tensor([False, True]), [0, 2])
    assert given.isnan().tolist() == [[False] * 3, [True, False, True]]


def test_parts_are_put_together_in_the_order_of_the_names():
    made = columns(**ALL)
    measured = made.scores({name: np.full(2, place) for place, name in reversed(list(enumerate(NEEDS)))}, 2)
    assert measured.dtype == np.float32
    assert measured[0].tolist() == [0, 1, 2]
    assert InputColumns().scores({}, 2).shape == (2, 0)
    given = torch.from_numpy(made.with_aligned(measured, np.full((2, len(ALIGNMENTS)), 3)))
    whole = made.complete(given, torch.full((2, 6), 4.0), torch.full((2, 2), 5.0))
    places = [*range(3), *[3] * len(ALIGNMENTS), *[4] * 6, *[5] * 2]
    assert whole.tolist() == [places, places]
    assert whole.shape[1] == len(made.names)


def test_cosines_are_found_where_they_stand_and_others_stay_as_they_are():
    whole, given = torch.arange(12.0).reshape(2, 6), torch.ones(2, 1)
    both = columns(extra_inputs=["length"], similarity=True, image_similarity=True, poolings=["idf"])
    for made, similar, seen in (
        (both, whole[:, 1:4], whole[:, 4:5]),
        (columns(similarity=True, poolings=["idf"]), whole[:, :3], given),
        (columns(extra_inputs=["length"], image_similarity=True, poolings=["idf"]), given, whole[:, 1:2]),
        (columns(), given, given),
    ):
        found = made.cosines(whole[:, : len(made.names)], given, given)
        assert [part.tolist() for part in found] == [similar.tolist(), seen.tolist()]


def test_a_column_that_is_not_known_yet_is_not_blanked():
    given = torch.ones(1, 2)
    blank(given, torch.tensor([True]), [1, 2, 5])
    assert given.isnan().tolist() == [[False, True]]


def test_the_regressor_s_statistics_stand_where_the_columns_say(build_regressor):
    model = build_regressor(extra_inputs=["length"], similarity=True)
    assert model.columns.names[0] == "length"
    assert len(model.extra_mean) == len(model.columns.names)
    assert model.extra_mean[model.columns.given].tolist() == [0]
    assert set(model.extra_mean[model.columns.computed].tolist()) == {0.5}
