"""Systems whose rows stand under the ids of their images."""

import pytest

from suisei.data.formats import read_samples
from suisei.data.system_outputs import load_systems
from suisei.errors import DataError


def captions(systems):
    return {name: [sample.candidate for sample in samples] for name, samples in systems.samples.items()}


def test_rows_under_ids_are_read_as_rows_where_they_hold_more_than_a_caption(save):
    rows = {n: {"caption": "old", "prediction": f"new {n}", "references": [f"r {n}"]} for n in ("1", "2")}
    plain = save("b.json", {"2": {"caption": "b two"}, "1": {"caption": "b one"}})
    systems = load_systems([save("a.json", rows), plain])
    assert captions(systems) == {"a": ["new 1", "new 2"], "b": ["b one", "b two"]}
    assert [sample.references for sample in systems.samples["b"]] == [("r 1",), ("r 2",)]
    assert any("'prediction' for the candidate; ignored: 'caption'" in note for note in systems.notes)
    either = save("c.json", {n: {"prediction": "x", "hypothesis": "y"} for n in ("1", "2")})
    with pytest.raises(DataError, match=r"candidate may be prediction, hypothesis; .*--column candidate="):
        load_systems([either, plain])


@pytest.mark.parametrize("others", [range(1, 41), range(1, 21)])
def test_rows_under_the_ids_of_their_images_are_not_joined_by_ids_of_their_own(others, save):
    images = range(11, 31)  # of which range(1, 21) has fewer than there are numbers of rows in it
    rows = {str(i): {"id": n, "caption": f"of {i}", "references": ["r"]} for n, i in enumerate(images, 1)}
    plain = {str(image): f"of {image}" for image in others}
    for files in (
        (save("a.json", rows), save("b.json", plain)),
        (save("b.json", plain), save("a.json", rows)),
    ):
        systems = load_systems(files)
        assert systems.keys == tuple(str(image) for image in images if image in others)
        assert captions(systems)["a"] == captions(systems)["b"]
        assert "systems are joined by group" in systems.notes


@pytest.mark.parametrize(
    "row",
    [
        {"prediction": ["a dog"]},
        {"prediction": {"caption": "a dog"}},
        {"prediction": [{"caption": "a dog"}], "references": ["r"]},
        {"caption": ["a dog"], "references": ["r"]},
    ],
)
def test_rows_under_ids_say_their_captions_as_captions_by_image_may(row, save):
    plain = save("b.json", {"2": "b two", "1": "b one", "3": "b three"})
    systems = load_systems([save("a.json", {" 1": row, "2 ": row}), plain])
    assert captions(systems) == {"a": ["a dog", "a dog"], "b": ["b one", "b two"]}
    with pytest.raises(DataError, match="row 1: prediction must be text, got list"):
        load_systems([save("a.json", {"1": {"prediction": ["a", "b"]}, "2": row}), plain])


@pytest.mark.parametrize(
    "content",
    [
        {"1": [{"caption": "a 1", "references": ["r"]}], "2": [{"caption": "a 2", "references": ["r"]}]},
        [{"1": {"caption": "a 1", "references": ["r"]}}, {"2": {"caption": "a 2", "references": ["r"]}}],
        {"1": {"caption": "a 1"}, "2": {"caption": "a 2", "references": ["r"]}},
        {"1": "a 1", "2": {"caption": "a 2", "references": ["r"]}},
    ],
)
def test_references_of_rows_under_ids_are_read_wherever_the_first_stands(content, save):
    a = save("a.json", content)
    systems = load_systems([a, save("b.json", {"2": "b 2", "1": "b 1"})])
    assert captions(systems) == {"a": ["a 1", "a 2"], "b": ["b 1", "b 2"]}
    own = [sample.references for sample in read_samples(a, note=str)]
    assert [sample.references for sample in systems.samples["b"]] == own
    assert own[1] == ("r",)
