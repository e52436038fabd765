"""Benchmarks of pairs, and of captions with hallucinations, on a few rows in their published layouts."""

import json
from collections import Counter

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.coco_captions import CocoCaptions, without_caption
from suisei.data.benchmarks.sugarcrepe import KINDS as SUGARCREPE_KINDS
from suisei.data.judged import PairCaption
from suisei.errors import DataError

COCO = {
    "annotations": [
        {"image_id": 7, "caption": "A dog runs. "},
        {"image_id": 7, "caption": "Two dogs play"},
        {"image_id": 8, "caption": "A cat"},
    ]
}


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")


def preferences(samples):
    return {sample.id: dict(sample.preferred) for sample in samples}


@pytest.fixture
def sugarcrepe(tmp_path):
    for kind in SUGARCREPE_KINDS:
        record = {
            "filename": "000000000007.jpg",
            "caption": "a dog runs",
            "negative_caption": f"a cat {kind}",
        }
        write(tmp_path / f"{kind}.json", {"0": record, "3": {**record, "filename": "000000000099.jpg"}})
    return tmp_path


def test_a_pair_is_two_samples_that_know_of_each_other(sugarcrepe):
    samples = BENCHMARKS["sugarcrepe"].read(sugarcrepe)
    assert len(samples) == 2 * 2 * len(SUGARCREPE_KINDS)
    first, second = samples[:2]
    assert isinstance(first, PairCaption)
    assert (first.candidate, second.candidate) == ("a dog runs", "a cat add_att")
    assert (first.id, second.id, first.pair, second.pair) == (
        "add_att/1/1",
        "add_att/1/2",
        *["add_att/1"] * 2,
    )
    assert (first.preferred, second.preferred) == ((("add_att", 1.0),), (("add_att", 0.0),))
    assert (first.rating.mean, second.rating.mean) == (1, 0)
    assert (first.group, first.language, first.image, first.references) == (
        "000000000007.jpg",
        "en",
        None,
        (),
    )


def test_references_are_the_captions_of_coco_beside_the_files_but_for_the_right_one(sugarcrepe):
    write(sugarcrepe / "captions_val2017.json", COCO)
    samples = BENCHMARKS["sugarcrepe"].read(sugarcrepe)
    assert [sample.references for sample in samples[:4]] == [("Two dogs play",)] * 2 + [()] * 2


def test_captions_of_karpathys_layout(tmp_path):
    write(tmp_path / "reference_captions.json", {"7": ["A dog runs", "a b"]})
    captions = CocoCaptions.find(tmp_path, "captions_val2014.json")
    assert captions.of("COCO_val2014_000000000007.jpg") == ("A dog runs", "a b")
    assert captions.of("v7w_9.jpg") == captions.of("no number.png") == ()
    assert not CocoCaptions.find(tmp_path / "elsewhere", "captions_val2014.json")
    assert without_caption(("A  Dog .", "a dog", "dog"), "a dog.") == ("dog",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"annotations": [{"caption": "x"}]}, "annotation 1: the image's id must be a number"),
        ({"annotations": [{"image_id": 7, "caption": ""}]}, "the caption of image 7 is empty"),
        ({"seven": ["a"]}, "image id 'seven' is no number"),
        ([{"captions": ["a", "b"]}], "its rows name no images"),
        ({"annotations": 3}, "'annotations' must be a list"),
    ],
)
def test_captions_of_coco_that_are_not_laid_out_so(tmp_path, content, message):
    write(tmp_path / "captions_val2014.json", content)
    with pytest.raises(DataError, match=rf"captions_val2014.json.*{message}"):
        CocoCaptions.find(tmp_path, "captions_val2014.json")


def test_images_are_optional_and_one_that_is_absent_costs_its_pair(sugarcrepe, tmp_path):
    folder = tmp_path / "val2017"
    folder.mkdir()
    (folder / "000000000007.jpg").write_bytes(b"x")
    read = BENCHMARKS["sugarcrepe"].read
    with pytest.raises(
        DataError, match=r"add_att.json, row 2: the image file .*000000000099.jpg is not there"
    ):
        read(sugarcrepe)
    skipped = []
    samples = read(sugarcrepe, on_error="skip", skipped=skipped)
    assert {sample.image for sample in samples} == {folder / "000000000007.jpg"}
    assert (len(samples), len(skipped)) == (14, 7)


def test_valse_keeps_the_rows_that_people_confirmed(tmp_path):
    row = {
        "dataset": "FOIL dataset",
        "image_file": "COCO_val2014_000000000007.jpg",
        "caption": "a dog runs",
        "foil": "a cat runs",
        "mturk": {"foil": 0, "caption": 2, "other": 1},
    }
    rejected = {**row, "mturk": {"foil": 2, "caption": 1, "other": 0}}
    write(tmp_path / "foil-it.json", {"11": row, "12": rejected})
    other = {**row, "dataset": "visual7w", "image_file": "v7w_7.jpg"}
    write(tmp_path / "existence.json", {"e1": other})
    write(tmp_path / "captions_val2014.json", COCO)
    samples = BENCHMARKS["valse"].read(tmp_path)
    assert preferences(samples) == {
        "existence/e1/1": {"existence": 1},
        "existence/e1/2": {"existence": 0},
        "foil-it/11/1": {"foil-it": 1},
        "foil-it/11/2": {"foil-it": 0},
    }
    # the number in the name of another collection's image is not COCO's
    assert [sample.references for sample in samples] == [(), (), ("Two dogs play",), ("Two dogs play",)]
    write(tmp_path / "existence.json", {"e1": {**other, "mturk": {}}})
    with pytest.raises(DataError, match=r"existence.json, row 1: caption must be a number, got None"):
        BENCHMARKS["valse"].read(tmp_path)
    (tmp_path / "existence.json").unlink()
    (tmp_path / "foil-it.json").unlink()
    with pytest.raises(DataError, match=r"found none.*Heidelberg-NLP"):
        BENCHMARKS["valse"].read(tmp_path)


def test_the_caption_that_a_right_one_of_plurals_was_made_of_is_no_reference(tmp_path):
    row = {
        "dataset": "coco2017",
        "image_file": "000000000007.jpg",
        "orig_caption": "a dog runs",
        "caption": "exactly one dog runs",
        "foil": "a number of dogs run",
        "mturk": {"foil": 0, "caption": 3, "other": 0},
    }
    write(tmp_path / "plurals.json", {"1": row})
    write(tmp_path / "captions_val2017.json", COCO)
    samples = BENCHMARKS["valse"].read(tmp_path)
    assert [sample.references for sample in samples] == [("Two dogs play",)] * 2
    write(tmp_path / "plurals.json", {"1": {**row, "orig_caption": None}})
    with pytest.raises(DataError, match=r"plurals.json, row 1: orig_caption must be text, got None"):
        BENCHMARKS["valse"].read(tmp_path)


NOCAPS = {
    "image_path": "0013ea2087020901.jpg",
    "references": ["A baby stands.", "A child."],
    "baseline": "A kid in a shirt. ",
    "foil": "A kid in a skirt. ",
    "replacement": ["shirt", "skirt"],
    "domain": "in-domain",
}


def test_nocaps_foil(tmp_path):
    write(tmp_path / "nocaps-val-foil.json", [NOCAPS, {**NOCAPS, "domain": "near-domain"}])
    samples = BENCHMARKS["nocaps-foil"].read(tmp_path)
    assert [sample.candidate for sample in samples[:2]] == ["A kid in a shirt.", "A kid in a skirt."]
    assert samples[0].references == ("A baby stands.", "A child.")
    assert [dict(sample.preferred) for sample in samples[::2]] == [{"in-domain": 1}, {"near-domain": 1}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"foil": None}, "row 1: foil must be text, got None"),
        ({"references": "one"}, "row 1: references must be a list of text, got 'one'"),
        ({"references": [" "]}, "row 1: reference 1 is empty"),
    ],
)
def test_what_is_wrong_with_a_pair_is_named_and_costs_both_captions(tmp_path, change, message):
    write(tmp_path / "nocaps-val-foil.json", [{**NOCAPS, **change}, NOCAPS])
    with pytest.raises(DataError, match=rf"nocaps-val-foil.json, {message}"):
        BENCHMARKS["nocaps-foil"].read(tmp_path)
    skipped = []
    assert len(BENCHMARKS["nocaps-foil"].read(tmp_path, on_error="skip", skipped=skipped)) == 2
    assert len(skipped) == 1


def test_hat(tmp_path):
    record = {
        "sample_id": "s1",
        "caption": "A sign with a detour.",
        "contains_hallucination": True,
        "image_path": "COCO_val2014_000000016903.jpg",
        "references": ["A sign."],
    }
    path = tmp_path / "hat-trainval.json"
    write(path, [record, {**record, "sample_id": "s2", "contains_hallucination": False}])
    samples = BENCHMARKS["hat"].read(tmp_path)
    assert [(sample.id, sample.rating.mean) for sample in samples] == [("s1", 0), ("s2", 1)]
    write(path, [{**record, "contains_hallucination": "yes"}])
    with pytest.raises(DataError, match="row 1: contains_hallucination must be true or false, got 'yes'"):
        BENCHMARKS["hat"].read(tmp_path)
    write(path, [record, record])
    with pytest.raises(DataError, match="row 2: s1 occurs twice"):
        BENCHMARKS["hat"].read(tmp_path)


FOIL = {
    "images": [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}],
    "annotations": [
        {"id": 31, "image_id": 7, "caption": "A dog runs.", "foil": False, "foil_word": "ORIG"},
        {"id": 31, "image_id": 7, "caption": "A cat runs.", "foil": True, "foil_word": "cat"},
        {"id": 31, "image_id": 7, "caption": "A cow runs.", "foil": True, "foil_word": "cow"},
    ],
}


def test_foil_pairs_every_foil_with_its_caption(tmp_path):
    write(tmp_path / "foilv1.0_test_2017.json", FOIL)
    assert {sample.references for sample in BENCHMARKS["foil"].read(tmp_path)} == {()}
    captions = [{"image_id": 7, "caption": text} for text in ("A dog runs.", "b", "c", "d", "e", "f")]
    write(tmp_path / "captions_val2014.json", {"annotations": captions})
    samples = BENCHMARKS["foil"].read(tmp_path)
    assert [sample.candidate for sample in samples] == [
        "A dog runs.",
        "A cat runs.",
        "A dog runs.",
        "A cow runs.",
    ]
    assert [sample.pair for sample in samples] == ["31-1", "31-1", "31-2", "31-2"]
    assert samples[0].references == ("b", "c", "d", "e")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [{"id": 7}]}, "expected 'images' with id and file_name"),
        ({"images": []}, "row 2: its image 7 is not in the file"),
        ({"annotations": FOIL["annotations"][1:]}, "row 1: its right caption 31 is not in the file"),
        ({"annotations": [{"id": 1, "foil": "no"}]}, "foil must be true or false"),
    ],
)
def test_foil_problems_are_named(tmp_path, change, message):
    write(tmp_path / "foilv1.0_test_2017.json", {**FOIL, **change})
    with pytest.raises(DataError, match=message):
        BENCHMARKS["foil"].read(tmp_path)


def iiw(**verdicts):
    return {
        "IIW": "A long description by a person.",
        "IIW-P5B": "A long description by a model.",
        "iiw-human-sxs-gpt4v": {"metrics/Specificity": "GPT-4V is marginally better"},
        "iiw-human-sxs-iiw-p5b": {f"metrics/{name}": text for name, text in verdicts.items()},
        "image/key": "aar_test_04600",
        "objects": [],
    }


def test_iiw_400_has_a_preference_per_respect(tmp_path):
    record = iiw(
        Comprehensiveness="IIW-P5B is marginally better",
        Hallucination="IIW-Human is substantially better",
        Specificity="Neutral",
    )
    unjudged = {"IIW": "Another description.", "image/key": "aar_test_04790", "objects": []}
    (tmp_path / "data.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(unjudged) + "\n")
    first, second = BENCHMARKS["iiw-400"].read(tmp_path)
    assert dict(first.preferred) == {"Comprehensiveness": 0.25, "Hallucination": 1.0, "Specificity": 0.5}
    assert dict(second.preferred) == {"Comprehensiveness": 0.75, "Hallucination": 0.0, "Specificity": 0.5}
    assert (first.group, first.references) == ("aar_test_04600.jpg", ())
    for verdict in ("GPT-4V is marginally better", "IIW-Human is somewhat better", None):
        (tmp_path / "data.jsonl").write_text(json.dumps(iiw(Specificity=verdict)) + "\n")
        with pytest.raises(DataError, match=r"row 1: metrics/Specificity must be Neutral or like"):
            BENCHMARKS["iiw-400"].read(tmp_path)
    (tmp_path / "data.jsonl").write_text(json.dumps(iiw()) + "\n")
    with pytest.raises(DataError, match="holds no verdict"):
        BENCHMARKS["iiw-400"].read(tmp_path)


@pytest.mark.realdata
def test_real_sugarcrepe(shared):
    samples = BENCHMARKS["sugarcrepe"].read(shared / "data" / "benchmarks" / "sugarcrepe")
    kinds = Counter(kind for sample in samples[::2] for kind, _ in sample.preferred)
    assert list(kinds.values()) == [692, 2062, 788, 1652, 1406, 666, 245]


@pytest.mark.realdata
def test_real_valse_with_the_references_of_karpathys_test_split(shared, tmp_path):
    folder = shared / "data" / "benchmarks"
    for path in (folder / "valse").glob("*.json"):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "reference_captions.json").symlink_to(
        folder / "coco-karpathy-systems" / "reference_captions.json"
    )
    samples = BENCHMARKS["valse"].read(tmp_path)
    foils = [sample for sample in samples if sample.pair.startswith("foil-it/")]
    assert len(foils) == 2 * 943
    referenced = [sample for sample in foils if sample.references]
    assert 0 < len(referenced) < len(foils)
    assert {len(sample.references) for sample in referenced} <= {4, 5}
    plurals = [s for s in samples if s.pair.startswith("plurals/") and s.references]
    assert {len(sample.references) for sample in plurals} == {4}


@pytest.mark.realdata
def test_real_hat(shared):
    samples = BENCHMARKS["hat"].read(shared / "data" / "benchmarks" / "aloha")
    assert Counter(sample.rating.mean for sample in samples) == {1: 265, 0: 135}
    assert min(len(sample.references) for sample in samples) == 5
