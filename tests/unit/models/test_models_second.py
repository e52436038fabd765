"""A second model in a folder: asked of what it should be, weighed as it says, and checked like the first."""

import copy
import gc
import json
import pickle
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from suisei.__main__ import main
from suisei.data.sample import CaptionSample
from suisei.demo.panels import explanation_panel
from suisei.errors import ModelError
from suisei.explain.wording import parts_of, sentences
from suisei.metrics.loading import load
from suisei.models.folder import save_model, save_pair
from suisei.models.folder_checks import PAIRED
from suisei.models.second import Second, Weighing

WEIGHING = Weighing(("en",), 0.3)
SAMPLES = [
    CaptionSample("two dogs run in the park", ("A red ball lies on the table.", "the cat sat on a mat")),
    CaptionSample("犬が公園を走っている。", ("赤いボールが机の上にある",)),
    CaptionSample("the cat sat on a mat", ("two dogs run in the park",)),
    CaptionSample("two dogs run in the park", ("two dogs run", "犬が公園を走っている。")),
]


def read(folder):
    return load(folder, device="cpu", precision="fp32", cache="off")


@pytest.fixture(scope="module")
def parts(build_regressor, tmp_path_factory):
    """Folders of a first model, a second one, and both."""
    root = tmp_path_factory.mktemp("pair")
    cosine = {"text": {"layers": "last"}, "image": False, "poolings": ["mean"], "blocks": []}
    start = {"start": "cosine", "extra_hidden": 4}
    first = build_regressor(similarity=True, alignment=True, head=start, **cosine)
    second = build_regressor(seed=1, head={"start": "cosine"}, **cosine)
    for name, model, slope in (("first", first, 1.0), ("second", second, 3.0)):
        model.start.references.put(slope, 0.9, 0.5)
        save_model(root / name, model, card="# A model\n")
    pair(root / "first", root / "second", root / "both")
    return root / "first", root / "second", root / "both"


def pair(first, second, new, weighing=WEIGHING):
    own, other = read(first).model, read(second).model
    beside = Second(weighing, other.path, other.within, other.checksum)
    save_pair(new, own, beside, card="# Both\n")


@pytest.fixture
def both(parts, tmp_path):
    return shutil.copytree(parts[2], tmp_path / "both")


def test_scores_are_weighed_in_the_languages_and_elsewhere_the_first_s(parts):
    first, second, both = (read(folder).score(SAMPLES) for folder in parts)
    expected = expit(0.7 * logit(first) + 0.3 * logit(second))
    np.testing.assert_allclose(both[[0, 2]], expected[[0, 2]], rtol=1e-6)
    assert both[1] == first[1]
    assert both[3] == first[3]  # one of its references is in another language
    assert abs(both[0] - first[0]) > 1e-3


def test_a_second_is_asked_without_the_image(parts, pictures, monkeypatch):
    """Its share was fitted on references alone."""
    metric, seen = read(parts[2]), []
    metric.score(SAMPLES[:1])
    (second,) = metric._seconds.opened.values()
    score = second.score
    monkeypatch.setattr(second, "score", lambda own, **given: seen.extend(own) or score(own, **given))
    shown = replace(SAMPLES[0], image=pictures[0])
    assert metric.score([shown]).tolist() == metric.score(SAMPLES[:1]).tolist()
    assert seen == [SAMPLES[0]] * 2


def test_a_candidate_without_references_is_the_first_s_alone(parts, build_regressor, pictures, tmp_path):
    seeing = {"text": {"layers": "last"}, "poolings": ["mean"], "blocks": []}
    save_model(tmp_path / "seeing", build_regressor(similarity=True, head={"start": "cosine"}, **seeing))
    pair(tmp_path / "seeing", parts[1], tmp_path / "both")
    first, both = read(tmp_path / "seeing"), read(tmp_path / "both")
    shown = [CaptionSample("two dogs run", (), image=pictures[0]), CaptionSample("two dogs run", ())]
    assert both.score(shown)[0] == first.score(shown)[0]
    assert np.isnan(both.score(shown)[1])
    assert not both._seconds.opened  # which was never asked


def test_the_second_is_read_once_by_whichever_thread_asks_first(parts):
    metric = read(parts[2])
    metric.score(SAMPLES[1:2])
    assert not metric._seconds.opened
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: metric.score(SAMPLES).tolist(), range(4)))
    assert found == [found[0]] * 4
    assert read(parts[2]).score(SAMPLES).tolist() == found[0]


def test_a_pair_nobody_holds_is_gone_at_once(parts):
    """Without waiting for the collector of cycles, which a few gigabytes do not call."""
    metric = read(parts[2])
    metric.score(SAMPLES)
    copied = copy.deepcopy(metric)
    kept = [weakref.ref(metric), weakref.ref(metric.regressor), weakref.ref(copied)]
    gc.disable()
    try:
        del metric, copied
        assert [reference() for reference in kept] == [None] * 3
    finally:
        gc.enable()


def test_a_pickled_pair_scores_the_same(parts):
    metric = read(parts[2])
    fresh = pickle.loads(pickle.dumps(metric))
    expected = metric.score(SAMPLES).tolist()
    assert fresh.score(SAMPLES).tolist() == expected
    assert pickle.loads(pickle.dumps(metric)).score(SAMPLES).tolist() == expected


def test_a_pickled_pair_needs_no_folder(both):
    metric = read(both)
    pickled, expected = pickle.dumps(metric), metric.score(SAMPLES).tolist()
    shutil.rmtree(both)
    assert pickle.loads(pickled).score(SAMPLES).tolist() == expected


def test_the_second_is_found_from_another_working_folder(both, tmp_path, monkeypatch):
    expected = read(both).score(SAMPLES).tolist()
    monkeypatch.chdir(both.parent)
    metric = read(both.name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert metric.score(SAMPLES).tolist() == expected


def test_the_signature_says_that_there_is_a_second(parts):
    first, _, both = map(read, parts)
    assert "|second:en|" in both.signature
    assert "second" not in first.signature
    assert first.settings()["model"] != both.settings()["model"]


def test_an_explanation_is_of_the_weighed_score(parts):
    metric = read(parts[2])
    found = metric.explain(SAMPLES[0])
    assert found.score == pytest.approx(float(metric.score(SAMPLES[:1])[0]), abs=1e-6)
    replaced, _ = metric.score_replaced(SAMPLES, np.full((4, len(metric.input_columns())), np.nan))
    np.testing.assert_allclose(replaced, metric.score(SAMPLES), atol=1e-6)


def test_an_explanation_says_what_the_second_model_does(parts):
    first, second, both = map(read, parts)
    found = both.explain(SAMPLES[0])
    alone, other = (float(own.score(SAMPLES[:1])[0]) for own in (first, second))
    assert abs(found.score - alone) > 0.001
    assert found.second.without == pytest.approx(alone, abs=1e-6)
    assert found.second.says == pytest.approx(other, abs=1e-6)
    assert found.second.share == WEIGHING.share
    assert found.second.moved == pytest.approx(found.score - alone, abs=1e-6)
    assert found.as_dict()["second"]["share"] == WEIGHING.share
    assert ("without the second model", found.second.without) in parts_of(found)
    assert any(
        line.startswith(f"The second model says {other:.3f}; its share is 0.300") for line in sentences(found)
    )
    assert "the second model</" in explanation_panel(found)
    for metric, sample in ((both, SAMPLES[1]), (first, SAMPLES[0])):  # Japanese, of which it is not asked
        found = metric.explain(sample)
        assert found.second is None
        assert "second" not in " ".join([*sentences(found), *(name for name, _ in parts_of(found))])


def test_the_first_is_stored_as_it_was(parts):
    first, second, both = parts
    for name in ("model.safetensors", "idf.json", "tokenizer/tokenizer.json"):
        assert (both / name).read_bytes() == (first / name).read_bytes()
        assert (both / "second" / name).read_bytes() == (second / name).read_bytes()
    config = json.loads((both / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == PAIRED  # a version that knows no second model refuses it


def test_a_second_has_no_second(parts, tmp_path):
    with pytest.raises(ModelError, match="two models would be weighed beside the first in English"):
        pair(parts[2], parts[1], tmp_path / "new")
    with pytest.raises(ModelError, match="has a second model itself"):
        pair(parts[0], parts[2], tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer/tokenizer.json"])
def test_a_file_of_the_second_that_is_missing_or_altered_is_named(both, name):
    path = both / "second" / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelError, match=rf"second/{name} was altered"):
        read(both)
    path.unlink()
    with pytest.raises(ModelError, match=rf"second/{name} is missing"):
        read(both)


def test_a_file_that_nobody_signed_is_refused(both):
    (both / "second" / "extras.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"second/extras.json is not among the checksums"):
        read(both)


def test_a_second_that_was_replaced_meanwhile_is_refused(both, parts):
    metric = read(both)
    shutil.rmtree(both / "second")
    shutil.copytree(parts[0], both / "second")
    with pytest.raises(ModelError, match="was altered since the model was loaded"):
        metric.score(SAMPLES)


def test_a_folder_inside_that_has_a_second_itself_is_refused(both, parts, resign):
    shutil.rmtree(both / "second")
    shutil.copytree(parts[2], both / "second")

    def sign(config):
        files = [own for own in (both / "second").rglob("*") if own.is_file() and own.name != "README.md"]
        config["sha256"] |= {own.relative_to(both).as_posix(): "" for own in files}

    (both / "second" / "README.md").unlink()
    resign(both, sign)
    with pytest.raises(ModelError, match="has a second model itself"):
        read(both).score(SAMPLES)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("share", float("nan"), "second.share"),
        ("share", 1.1, "second.share"),
        ("share", "1", "second.share"),
        ("languages", [], "second.languages"),
        ("languages", ["fr"], "second.languages"),
        ("path", "/etc", "no setting 'path'"),
    ],
)
def test_a_weighing_that_cannot_be_is_refused(both, resign, key, value, message):
    resign(both, lambda config: config["second"].update({key: value}))
    with pytest.raises(ModelError, match=message):
        read(both)


@pytest.mark.parametrize("edit", [lambda c: c.pop("second"), lambda c: c.update(second=3)])
def test_a_weighing_that_is_none_is_refused(both, resign, edit):
    resign(both, edit)
    with pytest.raises(ModelError, match="must be settings by name"):
        read(both)


def test_without_the_checksum_of_the_second_nothing_is_read(both, resign):
    resign(both, lambda config: config["sha256"].pop("second/config.json"))
    with pytest.raises(ModelError, match=r"lacks the checksum of second/config.json"):
        read(both)


def test_compact_keeps_the_second(parts, tmp_path):
    rows = [{"candidate": s.candidate, "references": list(s.references)} for s in SAMPLES]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    main(["compact", str(parts[2]), "--output", str(tmp_path / "small"), "--whole-vocabulary", "--bits", "8",
          "--data", str(tmp_path / "rows.jsonl")])  # fmt: skip
    small, whole = read(tmp_path / "small"), read(parts[2])
    np.testing.assert_allclose(small.score(SAMPLES), whole.score(SAMPLES), atol=0.02)
    assert [own.weighing for own in small.model.seconds] == [WEIGHING]


def test_add_images_asks_for_the_first_alone(parts, tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text("{}\n", encoding="utf-8")
    rows = str(tmp_path / "rows.jsonl")
    assert main(["add-images", str(parts[2]), "--tower", "ViT-B-32", "--pairs", rows, "--data", rows,
                 "--output", str(tmp_path / "new")]) == 2  # fmt: skip
    assert "add images to the first, then the second" in capsys.readouterr().err


def test_scores_of_0_and_1_are_weighed_and_a_missing_second_changes_nothing():
    first = np.array([1.0, 0.0, 1.0, 0.4, np.nan])
    second = np.array([0.0, 0.0, 1.0, np.nan, 0.4])
    found = Weighing(("en",), 0.5).combined(first, second)
    np.testing.assert_allclose(found, [0.5, 1e-6, 1 - 1e-6, 0.4, np.nan], rtol=1e-9)


def test_references_in_the_letters_of_a_candidate_are_of_its_stated_language():
    japanese = CaptionSample("STOP", ("STOP", "止まれの標識"), language="ja")
    unsaid = CaptionSample("STOP", ("STOP", "止まれの標識"))
    assert Weighing(("ja",), 0.3).asked([japanese, unsaid]) == [0]
    assert Weighing(("en",), 0.3).asked([japanese, unsaid]) == []
