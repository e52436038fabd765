"""Readers and protocols of the video benchmarks, on small made-up files of their layouts."""

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from suisei.data.benchmarks.activitynet_foil import read_training_captions as foil_captions
from suisei.data.benchmarks.activitynet_foil import references_of
from suisei.data.benchmarks.pickled import read_pickled_array
from suisei.data.benchmarks.vatex import limit_references, read_training_captions
from suisei.data.load import load_data
from suisei.data.sample import Rating
from suisei.data.video import VideoSample
from suisei.errors import DataError
from suisei.metaeval.video_protocols import foil_table, vatex_table
from suisei.scoring.columns import ScoreColumn

VIDEOS = ["b_000_010", "b_000_010", "a_000_010", "a_000_010"]
RATINGS = np.array([[1, 2, 5, 4], [2, 2, 5, 3], [1, 3, 4, 4]])


def dump(path, value, protocol=4):
    path.write_bytes(pickle.dumps(value, protocol=protocol))


@pytest.fixture
def vatex(tmp_path):
    dump(tmp_path / "candidates_list.pkl", np.array([f"caption {n}" for n in range(4)]))
    dump(tmp_path / "gts_list.pkl", np.array([[f"reference {n} {m}" for m in range(9)] for n in range(4)]))
    dump(tmp_path / "human_scores.pkl", RATINGS.reshape(-1))
    dump(tmp_path / "video_ids.pkl", np.array(VIDEOS))
    (tmp_path / "vatex_train_en_annotations.json").write_text('{"x": ["a dog", "a cat"], "y": ["two"]}')
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in set(VIDEOS):
        (folder / f"{name}.mp4").touch()
    return tmp_path


def test_vatex_is_read(vatex):
    samples = load_data("vatex-eval", root=vatex, images=vatex / "videos")
    assert [sample.candidate for sample in samples] == [f"caption {n}" for n in range(4)]
    assert samples[1].rating.values == (2, 2, 3)
    assert samples[1].video == vatex / "videos" / "b_000_010.mp4"
    assert (samples[1].group, samples[1].id) == ("b_000_010", "b_000_010/2")
    assert len(samples[3].references) == 9
    assert limit_references(samples, 1)[3].references == ("reference 3 0",)
    assert limit_references(samples, 0)[3].references == ()
    with pytest.raises(DataError, match="fewer than 10"):
        limit_references(samples, 10)
    assert read_training_captions(vatex) == ["a dog", "a cat", "two"]


def test_vatex_without_videos_is_text(vatex):
    assert {sample.video for sample in load_data("vatex-eval", root=vatex)} == {None}


def test_vatex_problems_are_named(vatex):
    (vatex / "videos" / "a_000_010.mp4").unlink()
    with pytest.raises(DataError, match=r"row 3.*a_000_010.*is not there"):
        load_data("vatex-eval", root=vatex, images=vatex / "videos")
    assert len(load_data("vatex-eval", root=vatex, images=vatex / "videos", on_error="skip")) == 2
    dump(vatex / "human_scores.pkl", RATINGS[:, :3])
    with pytest.raises(DataError, match=r"human_scores\.pkl: expected 3 x 4 ratings"):
        load_data("vatex-eval", root=vatex)
    dump(vatex / "human_scores.pkl", RATINGS * 2)
    with pytest.raises(DataError, match="outside the scale"):
        load_data("vatex-eval", root=vatex)
    (vatex / "video_ids.pkl").unlink()
    with pytest.raises(DataError, match=r"has no video_ids\.pkl.*github"):
        load_data("vatex-eval", root=vatex)


def test_a_video_name_stays_in_its_folder(vatex):
    dump(vatex / "video_ids.pkl", np.array(["../a"] * 4))
    with pytest.raises(DataError, match="not a plain file name"):
        load_data("vatex-eval", root=vatex, images=vatex / "videos")


class Evil:
    def __reduce__(self):
        return os.mkdir, (Evil.target,)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        np.array([["a", "bc"], ["", "日本"]]),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1.5, 2.5], dtype=">f4"),
        [["a", "b"], ["c", "d"]],
        [np.float64(1.5), 2],
        np.array([["a", "b"], ["c", "d"]], dtype=object),
    ],
)
def test_arrays_come_back_as_they_were(tmp_path, value, protocol):
    dump(tmp_path / "array.pkl", value, protocol)
    found = read_pickled_array(tmp_path / "array.pkl")
    assert found.tolist() == np.array(value).tolist()


def test_code_in_a_pickle_is_not_run(tmp_path):
    Evil.target = str(tmp_path / "made")
    for value in (Evil(), [np.arange(3), Evil()], np.array([Evil()], dtype=object)):
        dump(tmp_path / "evil.pkl", value)
        with pytest.raises(DataError, match=r"evil\.pkl.*mkdir"):
            read_pickled_array(tmp_path / "evil.pkl")
    assert not (tmp_path / "made").exists()


BAD_PICKLES = [{1: 2}, np.dtype("f8"), [["a"], ["b", "c"]], {"a"}]


@pytest.mark.parametrize(
    "content", [b"", b"x", pickle.dumps(np.arange(9))[:-20], *(pickle.dumps(value) for value in BAD_PICKLES)]
)
def test_other_pickles_are_refused(tmp_path, content):
    (tmp_path / "bad.pkl").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.pkl"):
        read_pickled_array(tmp_path / "bad.pkl")


def test_vatex_protocol_averages_annotators():
    generator = np.random.default_rng(0)
    ratings = generator.integers(1, 6, (40, 3))
    samples = [VideoSample("a", rating=Rating(tuple(row), 1, 5)) for row in ratings]
    scores = generator.random(40)
    scores[1] = scores[0] + 1e-6
    rounded = np.around(scores, 4)
    cells = vatex_table({None: [ScoreColumn("mine", scores)]}, samples).row("mine").cells
    found = {kind: cells[kind].value for kind in ("tau-b", "spearman")}
    assert found["tau-b"] == pytest.approx(np.mean([stats.kendalltau(rounded, c)[0] for c in ratings.T]))
    assert found["spearman"] == pytest.approx(np.mean([stats.spearmanr(rounded, c)[0] for c in ratings.T]))
    with pytest.raises(DataError, match="each annotator"):
        vatex_table({}, [VideoSample("a"), *samples[1:]])


@pytest.fixture
def foil(tmp_path):
    def write(name, value):
        (tmp_path / name).write_text(json.dumps(value))

    right = {"v_1": [{"sentence": "a dog runs"}, {"sentence": "it stops"}], "v_2": [{"sentence": "a man"}]}
    wrong = {"v_1": [{"sentence": "a cat runs"}, {"sentence": "it stops"}], "v_2": [{"sentence": "a box"}]}
    write("final_right_video_sentences.json", {"results": right})
    write("final_foil_video_sentences.json", {"results": wrong})
    times = {"v_1": {"duration": 30.0, "timestamps": [[0, 9.8], [9.8, 30]], "sentences": ["x", "y"]},
             "v_2": {"duration": 10.0, "timestamps": [[0, 10]], "sentences": ["z"]}}  # fmt: skip
    write("anet_entities_test_1.json", times)
    others = {"v_1": {"timestamps": [[0, 5], [8, 30]], "sentences": ["early", "late"]},
              "v_2": {"timestamps": [[90, 99]], "sentences": ["far"]}}  # fmt: skip
    write("anet_entities_test_2.json", others)
    write("train.json", {"t": {"sentences": ["a b", " ".join(["w"] * 67), " ".join(["w"] * 66)]}})
    return tmp_path


def test_foil_is_read(foil):
    samples = load_data("activitynet-foil", root=foil)
    assert [sample.id for sample in samples] == [
        "v_1/1/right", "v_1/2/right", "v_1/1/foil", "v_1/2/foil", "v_2/1/right", "v_2/1/foil",
    ]  # fmt: skip
    first = samples[0]
    assert (first.candidate, first.references, first.segment) == ("a dog runs", ("early",), (0.0, 9.8))
    assert (samples[2].candidate, samples[2].rating.mean, first.rating.mean) == ("a cat runs", 0.0, 1.0)
    assert samples[1].references == ("late",)
    assert samples[4].references == ("far",)  # nothing overlaps, so all count
    assert [len(text.split()) for text in foil_captions(foil)] == [2, 66]


def test_overlap_is_counted_in_whole_seconds():
    assert references_of((0, 3), ("a",), [(0, 9)]) == ("a",)  # 4 of 10 is not over 0.4, but all are taken
    assert references_of((0, 3), ("a", "b"), [(0, 9), (0, 3)]) == ("b",)
    assert references_of((0, 4), ("a", "b"), [(0, 9), (50, 60)]) == ("a",)


def test_foil_protocol_compares_paragraph_means(foil):
    samples = load_data("activitynet-foil", root=foil)
    column = ScoreColumn("mine", np.array([0.9, 0.1, 0.3, 0.4, 0.5, 0.5]))
    cells = foil_table([column], samples).row("mine").cells
    assert [cells[key].value for key in ("accuracy", "n", "ties")] == [0.5, 2, 1]
    single = foil_table([ScoreColumn("mine", np.arange(5.0))], samples[:-1]).row("mine")  # v_2 has no twin
    assert (single.cells["n"].value, single.info["videos_skipped"]) == (1, 1)


def test_metrics_of_text_have_published_figures_of_videos(foil):
    samples = [VideoSample("a", rating=Rating((1, 2, 3), 1, 5)) for _ in range(4)]
    columns = {count: [ScoreColumn("cider", np.arange(4.0))] for count in (1, 9)}
    rows = {
        section.title: {row.label: row for row in section.rows}
        for section in vatex_table(columns, samples).sections
    }
    for title, cider, bert in (("1 reference", 0.226, 0.237), ("9 references", 0.361, 0.378)):
        assert rows[title]["cider"].value("spearman-published") == cider
        assert rows[title]["bertscore"].value("spearman-published") == bert
    foils = foil_table([], load_data("activitynet-foil", root=foil))
    shown = {row.label: row.value("published") for row in foils.overall.rows}
    assert {name: shown[name] for name in ("bleu-1", "rouge-l", "cider")} == {
        "bleu-1": 0.601, "rouge-l": 0.567, "cider": 0.779
    }  # fmt: skip


def test_published_figures_of_videos_are_those_of_the_backbone(foil):
    generator = np.random.default_rng(0)
    rated = [VideoSample("a", rating=Rating(tuple(row), 1, 5)) for row in generator.integers(1, 6, (9, 3))]
    sentences = load_data("activitynet-foil", root=foil)
    expected = {"ViT-B-32@openai": (0.232, 0.895), "ViT-L-14@openai": (0.267, 0.890), "other": (None, None)}
    for backbone, (tau, accuracy) in expected.items():
        column = ScoreColumn("em-score:model", generator.random(len(rated)), backbone=backbone)
        table = vatex_table({0: [column]}, rated)
        section = next(section for section in table.sections if section.title == "0 references")
        rows = {row.label: row for row in section.rows}
        assert rows["em-score:model"].value("tau-b-published") == (tau and pytest.approx(tau))
        assert ("em-score" in rows) == (backbone != "ViT-B-32@openai")
        assert not any("@" in label for label in rows)
        foils = foil_table([replace(column, scores=generator.random(len(sentences)))], sentences)
        assert foils.row("em-score:model").value("published") == (accuracy and pytest.approx(accuracy))
        assert any("table 8" in note for note in (*table.notes, *foils.notes))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("anet_entities_test_1.json", "{", "not valid JSON"),
        ("anet_entities_test_1.json", '{"v_1": {"timestamps": [[1]]}}', "v_1.*timestamps"),
        ("anet_entities_test_1.json", '{"v_1": {"timestamps": [[1, Infinity]]}}', "v_1.*timestamps"),
        ("anet_entities_test_1.json", '{"v_1": {"timestamps": [[NaN, 2]]}}', "v_1.*timestamps"),
        (
            "anet_entities_test_2.json",
            '{"v_1": {"timestamps": [[1, 2]], "sentences": []}}',
            "differ in number",
        ),
        ("final_foil_video_sentences.json", '{"results": {"v_1": []}}', "not the same videos"),
        ("final_foil_video_sentences.json", "[]", "expected an object"),
    ],
)
def test_foil_problems_are_named(foil, name, content, message):
    (foil / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load_data("activitynet-foil", root=foil)
