"""VATEX-EVAL and ActivityNet-FOIL on the command line, with tiny videos and a tiny dual encoder."""

import json
import pickle

import numpy as np
import pytest
from scipy import stats

from suisei.cli import run_command
from suisei.commands.evaluate import main
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.load import load_data
from suisei.metaeval.video_protocols import columns_by_references
from suisei.metrics.video_pacs import VideoScore
from suisei.scoring.columns import ScoreColumn
from suisei.scoring.plan import MetricPlan

pytest.importorskip("av", reason="needs the extra video")
WORDS = [
    "dog",
    "cat",
    "man",
    "box",
    "runs",
    "sleeps",
    "cooks",
    "eggs",
    "green",
    "red",
    "ball",
    "sings",
    "water",
]
CORPUS = ["a man cooks eggs", "a dog runs", "a dog sleeps on a mat!", "the eggs are green"]
VIDEOS = [f"v_{n}" for n in range(5)]


@pytest.fixture
def videos(tmp_path, write_video, coloured_blocks):
    folder = tmp_path / "videos"
    folder.mkdir()
    for number, name in enumerate(VIDEOS):
        generator = np.random.default_rng(number)
        pictures = (coloured_blocks(generator, 2, 2) for _ in range(12))
        write_video(folder / f"{name}.mp4", pictures, rate=2)
    return folder


def sentences(count, seed):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, 4)) for _ in range(count)]


@pytest.fixture
def vatex(tmp_path, videos):
    count = 3 * len(VIDEOS)

    def dump(name, value):
        (tmp_path / name).write_bytes(pickle.dumps(value, protocol=4))

    dump("candidates_list.pkl", np.array(sentences(count, 1)))
    dump("gts_list.pkl", np.array([sentences(9, 100 + n) for n in range(count)]))
    dump("human_scores.pkl", np.random.default_rng(2).integers(1, 6, 3 * count))
    dump("video_ids.pkl", np.repeat(VIDEOS, 3))
    (tmp_path / "vatex_train_en_annotations.json").write_text(json.dumps({"x": CORPUS}))
    return tmp_path


@pytest.fixture
def foil(tmp_path, videos):
    def write(name, value):
        (tmp_path / name).write_text(json.dumps(value))

    for seed, side in enumerate(("right", "foil")):
        texts = {v: [{"sentence": s} for s in sentences(2, 10 * n + seed)] for n, v in enumerate(VIDEOS)}
        write(f"final_{side}_video_sentences.json", {"results": texts})
    times = {
        v: {"timestamps": [[0, 2.5], [2.5, 6]], "sentences": sentences(2, n)} for n, v in enumerate(VIDEOS)
    }
    write("anet_entities_test_1.json", times)
    write("anet_entities_test_2.json", times)
    write("train.json", {"t": {"sentences": CORPUS}})
    return tmp_path


def evaluate(data, root, model, *arguments, metrics="em-score,ref-em-score"):
    specs = ",".join(f"{name}:{model}" if "em-score" in name else name for name in metrics.split(","))
    seeds = [("--metric-option", f"{name}.seed=3") for name in metrics.split(",") if "em-score" in name]
    given = ["--data", data, "--root", root, "--images", root / "videos", "--metrics", specs]
    out = root.parent / f"{root.name}-out.json"  # what is in the data's folder already is not written over
    given += ["--bootstrap", 20, "--device", "cpu", "--precision", "fp32", "--json", out]
    given += [word for pair in seeds for word in pair]
    code = run_command(main, [str(word) for word in (*given, *arguments)])
    return code, json.loads(out.read_text()) if out.exists() else None


def plain_scores(samples, model, references):
    metric = VideoScore(model=str(model), seed=3, variant="em-score", references=references, precision="fp32",
                        device="cpu")  # fmt: skip
    metric.fit_captions(CORPUS, corpus="plain")
    return metric.score(samples)


def rows_of(table, title):
    section = next(section for section in table["sections"] if section["title"] == title)
    return {row["label"].partition(":")[0]: row for row in reversed(section["rows"])}  # ours come first


def test_vatex_figures_equal_a_plain_computation(vatex, tiny_clip, capsys):
    code, report = evaluate("vatex-eval", vatex, tiny_clip)
    assert code == 0
    samples = load_data("vatex-eval", root=vatex, images=vatex / "videos")
    ratings = np.array([sample.rating.values for sample in samples]).T
    one = [type(s)(s.candidate, s.references[:1], video=s.video) for s in samples]
    expected = {
        ("0 references", "em-score"): plain_scores(samples, tiny_clip, False),
        ("1 reference", "ref-em-score"): plain_scores(one, tiny_clip, True),
        ("9 references", "ref-em-score"): plain_scores(samples, tiny_clip, True),
    }
    protocol = report["protocol"]
    assert [section["title"] for section in protocol["sections"]] == [title for title, _ in expected]
    for (title, name), scores in expected.items():
        row = rows_of(protocol, title)[name]
        rounded = np.around(scores, 4)
        for kind, function in (("tau-b", stats.kendalltau), ("spearman", stats.spearmanr)):
            figure = np.mean([function(rounded, column)[0] for column in ratings])
            cell = row["cells"][kind]
            assert cell["value"] == pytest.approx(figure)
            assert cell["low"] <= cell["value"] <= cell["high"]
        assert (row["cells"]["n"]["value"], row["cells"]["videos"]["value"]) == (15, 5)
        assert "idf:vatex-train-4" in row["signature"]
    assert "tau-b-published" not in rows_of(protocol, "1 reference")["ref-em-score"]["cells"]  # not ViT-B/32
    (alone,) = [row for row in protocol["sections"][1]["rows"] if row["label"] == "ref-em-score"]
    assert alone["cells"]["tau-b-published"]["value"] == 0.286
    assert rows_of(protocol, "0 references")["video-pac-s"]["cells"] == {
        "tau-b-published": {"value": 0.251}, "spearman-published": {"value": 0.326},
    }  # fmt: skip
    assert "Protocol of VATEX-EVAL" in capsys.readouterr().out


def test_every_output_is_written_and_idf_weights_can_be_read_again(vatex, tiny_clip):
    outputs = ["--markdown", vatex / "o.md", "--latex", vatex / "o.tex", "--plot", vatex / "o.png"]
    options = {"metrics": "em-score,ref-em-score,cider"}  # the last's weights are of what is scored
    code, first = evaluate(
        "vatex-eval", vatex, tiny_clip, *outputs, "--save-idf", vatex / "idf", "--no-published", **options
    )
    assert code == 0
    assert rows_of(first["protocol"], "9 references")["cider"]["cells"]["tau-b"]["value"] is not None
    assert "## Protocol of VATEX-EVAL" in (vatex / "o.md").read_text()
    assert "9 references" in (vatex / "o.tex").read_text()
    assert (vatex / "o.png").read_bytes()[:4] == b"\x89PNG"
    assert "published" not in json.dumps(first["protocol"])
    saved = {path.name.partition("_")[0]: path for path in (vatex / "idf").iterdir()}
    assert set(saved) == {"em-score", "ref-em-score"}
    (vatex / "vatex_train_en_annotations.json").unlink()
    again = [word for name, path in saved.items() for word in ("--metric-option", f"{name}.idf={path}")]
    _, second = evaluate("vatex-eval", vatex, tiny_clip, *again, "--no-published", **options)
    assert second["protocol"]["sections"] == first["protocol"]["sections"]


def test_without_the_training_captions_it_says_where_idf_weights_come_from(vatex, tiny_clip, capsys):
    (vatex / "vatex_train_en_annotations.json").unlink()
    code, report = evaluate("vatex-eval", vatex, tiny_clip, metrics="em-score")
    assert code == 0
    (note,) = [note for note in report["notes"] if "idf weights" in note]
    assert "references of the 15 evaluated samples, not from vatex-train as published" in note
    assert "has no vatex_train_en_annotations.json" in note
    row = rows_of(report["protocol"], "0 references")["em-score"]
    assert row["signature"].endswith("|fit:references-of-15-samples")


def test_a_broken_video_costs_its_own_rows(vatex, tiny_clip, capsys):
    evaluate("vatex-eval", vatex, tiny_clip, "--save-scores", vatex / "whole.jsonl")
    (vatex / "videos" / "v_2.mp4").write_bytes(b"no video at all")
    code, report = evaluate("vatex-eval", vatex, tiny_clip, "--save-scores", vatex / "some.jsonl")
    assert code == 1
    for table in (report, report["protocol"]):
        cells = [
            row["cells"]
            for section in table["sections"]
            for row in section["rows"]
            if "em-score" in row["label"]
        ]
        assert {cell["n"]["value"] for cell in cells if "n" in cell} <= {12, 36}
    assert rows_of(report["protocol"], "9 references")["ref-em-score"]["cells"]["n"]["value"] == 12
    assert sum("v_2.mp4: not a video that can be decoded" in note for note in report["notes"]) == 2
    assert any("3 of 15 samples without score" in note for note in report["notes"])
    named = next(iter(report["refused"].values()))
    assert [each["id"] for each in named] == ["v_2/1", "v_2/2", "v_2/3"]
    before, after = ([json.loads(line) for line in (vatex / f"{name}.jsonl").read_text().splitlines()]
                     for name in ("whole", "some"))  # fmt: skip
    for first, second in zip(before, after, strict=True):
        if first["id"].startswith("v_2"):
            assert set(second.values()) == {first["id"], None}
        else:
            assert second == first
    assert "v_2.mp4" in capsys.readouterr().err
    assert evaluate("vatex-eval", vatex, tiny_clip, "--on-error", "skip", metrics="em-score")[0] == 0


def test_videos_are_decoded_once_for_all_metrics(vatex, tiny_clip, monkeypatch):
    from suisei.metrics import video_pacs

    decoded, real = [], video_pacs.iter_frames
    monkeypatch.setattr(
        video_pacs, "iter_frames", lambda path, **options: decoded.append(path) or real(path, **options)
    )
    evaluate("vatex-eval", vatex, tiny_clip)
    assert len(decoded) == len(VIDEOS)


def test_text_metrics_have_their_figures_too(vatex, tiny_clip):
    scores = vatex / "mine.jsonl"
    ids = [f"{video}/{number}" for video in VIDEOS for number in (1, 2, 3)]
    scores.write_text("".join(json.dumps({"id": i, "mine": n % 4}) + "\n" for n, i in enumerate(ids)))
    code, report = evaluate("vatex-eval", vatex, tiny_clip, "--scores", scores, metrics="rouge-l,length")
    assert code == 0
    protocol = report["protocol"]
    assert "rouge-l" not in rows_of(protocol, "0 references")
    one, nine = (rows_of(protocol, title)["rouge-l"] for title in ("1 reference", "9 references"))
    assert one["cells"]["tau-b"]["value"] != nine["cells"]["tau-b"]["value"]
    assert "length" in rows_of(protocol, "0 references")
    assert "length" not in rows_of(protocol, "9 references")
    assert list(rows_of(protocol, "scores from a file")) == ["mine"]


def test_fewer_references_than_the_protocol_has_are_said(vatex):
    samples = load_data("vatex-eval", root=vatex)
    few = [type(s)(s.candidate, s.references[:2], rating=s.rating) for s in samples]
    asked = []

    def score(plan, limited, count):
        asked.append(count)
        return ScoreColumn(plan.spec, np.arange(len(limited)) + count)

    column = ScoreColumn("cider", np.zeros(len(few)))
    found, notes = columns_by_references([MetricPlan("cider")], [column], few, score)
    assert list(found) == asked == [1]
    assert notes == ["no figures with 9 references: a sample has only 2"]


def test_foil_accuracy_equals_a_plain_computation(foil, tiny_clip, capsys):
    code, report = evaluate("activitynet-foil", foil, tiny_clip, "--plot", foil / "o.png")
    assert code == 0
    samples = load_data("activitynet-foil", root=foil, images=foil / "videos")
    for name, references in (("em-score", False), ("ref-em-score", True)):
        scores = plain_scores(samples, tiny_clip, references)
        right = 0
        for video in VIDEOS:
            mean = {side: np.mean([v for v, s in zip(scores, samples, strict=True) if (s.group, s.system) ==
                                   (video, side)]) for side in ("right", "foil")}  # fmt: skip
            right += mean["right"] > mean["foil"]
        row = rows_of(report, "overall")[name]
        assert row["cells"]["accuracy"]["value"] == pytest.approx(right / len(VIDEOS))
        assert row["cells"]["n"]["value"] == len(VIDEOS)
        assert "idf:activitynet-train-4" in row["signature"]
    assert "published" not in rows_of(report, "overall")["ref-em-score"]["cells"]  # it is not ViT-B/32
    (alone,) = [row for row in report["sections"][0]["rows"] if row["label"] == "ref-em-score"]
    assert alone["cells"]["published"]["value"] == 0.924
    assert (foil / "o.png").stat().st_size > 1000
    shown = " ".join(capsys.readouterr().out.split())
    assert "Protocol of ActivityNet-FOIL" in shown
    assert "em-score.frames=null takes all frames, the default ten" in shown


def test_foil_leaves_out_a_broken_video_and_says_so(foil, tiny_clip):
    _, whole = evaluate("activitynet-foil", foil, tiny_clip, metrics="em-score")
    (foil / "videos" / "v_4.mp4").write_bytes(b"")
    code, report = evaluate("activitynet-foil", foil, tiny_clip, metrics="em-score,length-ratio")
    assert code == 1
    rows = rows_of(report, "overall")
    assert rows["em-score"]["cells"]["n"]["value"] == 4
    assert rows["em-score"]["videos_skipped"] == 1
    assert rows["length-ratio"]["cells"]["n"]["value"] == 5
    assert any("1 video without score left out" in note for note in report["notes"])
    assert any("v_4.mp4: the video file is empty" in note for note in report["notes"])
    for video in VIDEOS[:4]:
        (foil / "videos" / f"{video}.mp4").unlink()
        (foil / "videos" / f"{video}.mp4").touch()
    _, report = evaluate("activitynet-foil", foil, tiny_clip, metrics="em-score")
    cell = rows_of(report, "overall")["em-score"]["cells"]["accuracy"]
    assert cell == {"value": None, "reason": "no video has a score for every sentence"}
    assert rows_of(whole, "overall")["em-score"]["cells"]["n"]["value"] == 5


def test_a_paragraph_whose_rows_were_skipped_costs_its_video_alone(foil, tiny_clip):
    path = foil / "final_foil_video_sentences.json"
    content = json.loads(path.read_text())
    for entry in content["results"]["v_1"]:
        entry["sentence"] = " "
    path.write_text(json.dumps(content))
    code, report = evaluate("activitynet-foil", foil, tiny_clip, "--on-error", "skip", metrics="length-ratio")
    assert code == 0
    assert rows_of(report, "overall")["length-ratio"]["cells"]["n"]["value"] == 4
    assert any("1 video without score left out" in note for note in report["notes"])
    assert any("2 bad rows skipped" in note for note in report["notes"])


@pytest.mark.parametrize("option", [["--compare"], ["--averaging", "item"], ["--raters", "mean"]])
def test_foil_refuses_options_for_ratings(foil, tiny_clip, capsys, option):
    code, report = evaluate("activitynet-foil", foil, tiny_clip, *option)
    assert (code, report) == (2, None)
    assert f"leave out {option[0]}" in capsys.readouterr().err


def test_help_names_every_benchmark(capsys):
    with pytest.raises(SystemExit):
        main(["--help", "all"])
    text = capsys.readouterr().out
    assert all(name in text for name in BENCHMARKS)
