"""Bad videos, images, captions and checkpoints on the command line: named, and nothing else is lost."""

import json
import math
import os
import pickle
import re
import shutil
import sys
import warnings
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.cli import run_command
from suisei.commands import evaluate, positives, score
from suisei.data.formats import read_samples, write_samples
from suisei.data.images import content_key
from suisei.data.item_seeds import text_key
from suisei.data.paths import ANYWHERE
from suisei.data.video import VideoSample
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.errors import DataError
from suisei.metrics.video_pacs import VideoScore
from suisei.pacs.positive_writer import PositiveWriter, Recipe
from suisei.scoring.parallel import CollectedWarnings
from tests.unit.runs import read_rows, run, write_rows

pytest.importorskip("av", reason="needs the extra video")


def rolling(frames, size=16):
    """A picture that rolls by a row per frame."""
    picture = np.random.default_rng(frames).integers(0, 255, (size, size, 3), dtype=np.uint8)
    return (np.roll(picture, number, axis=0) for number in range(frames))


@pytest.fixture(scope="module")
def films(tmp_path_factory, write_video):
    folder = tmp_path_factory.mktemp("films")
    for name, frames, rate in (("good", 12, 5), ("one", 1, 5), ("hour", 3600, 1)):
        write_video(folder / f"{name}.mp4", rolling(frames), rate=rate, keyframes=10)
    (folder / "broken.mp4").write_bytes((folder / "good.mp4").read_bytes()[:400])
    return folder


@pytest.fixture
def rows(tmp_path, films):
    for file in films.iterdir():
        shutil.copy(file, tmp_path)
    names = ["good", "broken", "one", "hour", "good"]
    return [
        {"id": f"{n}", "candidate": f"a dog {n}", "video": f"{name}.mp4", "references": ["a dog", "the cat"]}
        for n, name in enumerate(names)
    ]


def score_rows(tmp_path, rows, metric, *arguments):
    out = tmp_path / "scores.jsonl"
    source = write_rows(tmp_path / "in.jsonl", rows)
    code = run(score.main, "--input", source, "--output", out, "--metrics", metric, "--device", "cpu",
               "--precision", "fp32", *arguments)  # fmt: skip
    part = out if out.exists() else out.with_name("scores.jsonl.part")
    return code, read_rows(part) if part.exists() else []


def em_score(model):
    return ["--metric-option", "em-score.seed=3"], f"em-score:{model}"


def test_videos_in_a_file_are_scored_around_the_broken_one(tmp_path, rows, tiny_clip, monkeypatch):
    from suisei.metrics import video_pacs

    held, real = [], video_pacs.iter_frames

    def counted(path, **options):
        for picture in real(path, **options):
            held.append(path.name)
            yield picture

    monkeypatch.setattr(video_pacs, "iter_frames", counted)
    options, metric = em_score(tiny_clip)
    code, found = score_rows(tmp_path, rows, metric, "--on-error", "skip", *options)
    assert code == 0
    assert [row["id"] for row in found] == ["0", "1", "2", "3", "4"]
    assert "broken.mp4: not a video that can be decoded" in found[1]["error"]
    assert found[1]["em-score"] is None
    assert held.count("hour.mp4") == 10  # not its 3,600
    given = [VideoSample(row["candidate"], row["references"], video=tmp_path / row["video"]) for row in rows]
    direct = VideoScore(model=str(tiny_clip), variant="em-score", seed=3, device="cpu", precision="fp32")
    direct.fit(given)
    scores, refused = direct.score_each(given)
    assert list(refused) == [1]
    assert np.isnan(scores[1])
    expected = [math.nan if row["em-score"] is None else row["em-score"] for row in found]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    with pytest.raises(DataError, match=r"broken\.mp4"):
        direct.score(given)


def test_a_strict_run_stops_at_the_broken_video_and_keeps_what_it_has(tmp_path, rows, tiny_clip, capsys):
    options, metric = em_score(tiny_clip)
    code, found = score_rows(tmp_path, rows, metric, *options)
    assert code == 2
    assert [row["id"] for row in found] == ["0"]
    error = capsys.readouterr().err
    assert "row 2: " in error
    assert "broken.mp4" in error
    assert "--on-error skip" in error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"video": "absent.mp4"}, "row 3: video 'absent.mp4' is not there"),
        ({"segment": [5, 2]}, "row 3: segment must be 0 <= start < end in seconds, got 5 to 2"),
        ({"segment": "soon"}, "row 3: segment must be two numbers of seconds"),
        ({"video": None, "segment": [0, 1]}, "row 3: segment is given without a video"),
        ({"segment": [50, 60]}, "row 3: .*one.mp4: the segment 50 to 60 s begins after the video's end"),
    ],
)
def test_bad_fields_are_named_with_their_row(tmp_path, rows, tiny_clip, change, message):
    options, metric = em_score(tiny_clip)
    rows[2] |= change
    code, found = score_rows(tmp_path, rows, metric, "--on-error", "skip", *options)
    assert code == 0
    assert re.search(message.removeprefix("row 3: "), found[2]["error"])
    assert all(found[n]["em-score"] is not None for n in (0, 3, 4))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.parquet"])
def test_samples_with_videos_come_back_as_they_were(tmp_path, films, name):
    shutil.copy(films / "one.mp4", tmp_path)
    samples = [
        VideoSample("a dog", ("x",), video=tmp_path / "one.mp4", segment=(0, 2.5), id="1"),
        VideoSample("a cat", video=films / "good.mp4", id="2"),
        VideoSample("nothing to see", id="3"),
    ]
    write_samples(tmp_path / name, samples)
    found = read_samples(tmp_path / name, allowed=ANYWHERE)
    assert [getattr(each, "video", None) for each in found] == [s.video for s in samples]
    assert found[0].segment == (0.0, 2.5)
    assert found[0].references == ("x",)


def test_an_overlong_caption_is_cut_with_one_warning(tmp_path, rows, tiny_clip):
    options, metric = em_score(tiny_clip)
    rows = [{**row, "candidate": f"{'word ' * 90}{n}"} for n, row in enumerate(rows[:1] * 6)]
    for number, row in enumerate(rows):
        row["id"] = f"r{number}"
    with pytest.warns(UserWarning, match=r"2 captions with more tokens than \S+tiny reads") as caught:
        code, found = score_rows(tmp_path, rows, metric, "--window", 2, *options)
    assert code == 0
    assert len({row["em-score"] for row in found}) == 1
    assert sum("more tokens" in str(warning.message) for warning in caught) == 1
    refuse = ["--metric-option", "em-score.overlong=refuse", "--on-error", "skip"]
    rows[4]["candidate"] = "a dog"
    code, found = score_rows(tmp_path, rows, metric, *options, *refuse)
    assert [row["em-score"] is None for row in found] == [True] * 4 + [False, True]
    assert "shorten it, or use overlong=cut" in found[0]["error"]


def test_a_warning_of_a_command_is_one_line(capsys):
    def command(argv):
        del argv
        for file in (sys.modules["suisei.commands.score"].__file__, "elsewhere.py"):
            sys.stderr.write(warnings.formatwarning(UserWarning("look"), UserWarning, file, 1))
        return 0

    usual = warnings.formatwarning
    assert run_command(command) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "suisei: look"
    assert second.startswith("elsewhere.py:1: UserWarning")
    assert warnings.formatwarning is usual


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "out of memory; let the process have more, or give it less to do"),
        (
            MemoryError("Unable to allocate 8 GiB"),
            "out of memory; let the process have more, or give it less to do (Unable to allocate 8 GiB)",
        ),
        (
            ImportError("libtorch.so: failed to map segment from shared object"),
            "libtorch.so: failed to map segment from shared object: too little memory, or a file system from "
            "which no program may be run",
        ),
    ],
)
def test_too_little_memory_is_one_line(error, message, capsys):
    assert run_command(Mock(side_effect=error)) == 2
    assert capsys.readouterr().err == f"suisei: {message}\n"
    with pytest.raises(ImportError, match="no module"):
        run_command(Mock(side_effect=ImportError("no module")))


def test_large_images_are_told_of_by_our_limit_alone():
    handler, said = CollectedWarnings(), []
    kinds = (Image.DecompressionBombWarning, UserWarning)

    def command(_):
        said.extend(warnings.formatwarning("look", kind, "Image.py", 1) for kind in kinds)
        return 0

    assert run_command(command) == 0
    for kind in kinds:
        handler.show("look", kind, "Image.py", 1)
    assert [bool(text) for text in said] == [False, True]
    assert handler.taken() == [("look", ())]


@pytest.fixture
def pictures(tmp_path):
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    return [
        {"id": f"p{n}", "candidate": f"a dog {n}", "image": f"{n}.png", "rating": (n * 3 % 5) / 4}
        for n in range(6)
    ]


def evaluate_rows(tmp_path, rows, metrics, *arguments):
    out, scores = tmp_path / "out.json", tmp_path / "s.jsonl"
    source = write_rows(tmp_path / "rated.jsonl", rows)
    code = run(evaluate.main, "--data", source, "--metrics", metrics, "--bootstrap", 0, "--json", out,
               "--save-scores", scores, "--device", "cpu", "--precision", "fp32", *arguments)  # fmt: skip
    return code, json.loads(out.read_text()), read_rows(scores)


def test_unreadable_images_cost_their_own_rows(tmp_path, pictures, tiny_clip, capsys):
    options = ["--metric-option", "clip-s.seed=1"]
    _, _, whole = evaluate_rows(tmp_path, pictures, f"clip-s:{tiny_clip},length", *options)
    (tmp_path / "1.png").write_bytes((tmp_path / "1.png").read_bytes()[:60])
    (tmp_path / "4.png").write_bytes(b"")
    code, report, some = evaluate_rows(tmp_path, pictures, f"clip-s:{tiny_clip},length", *options)
    assert code == 1
    column = f"clip-s:{tiny_clip}"
    assert [row[column] is None for row in some] == [False, True, False, False, True, False]
    kept = [n for n in range(6) if n not in (1, 4)]
    assert [some[n] for n in kept] == [whole[n] for n in kept]
    assert [row["length"] for row in some] == [row["length"] for row in whole]
    cells = {row["label"]: row["cells"] for row in report["sections"][0]["rows"]}
    assert (cells[column]["n"]["value"], cells["length"]["n"]["value"]) == (4, 6)
    assert [each["id"] for each in report["refused"][column]] == ["p1", "p4"]
    (note,) = [note for note in report["notes"] if "2 of 6 samples without score" in note]
    assert "1.png" in note
    assert "4.png: the image file is empty (0 bytes)" in note
    assert "4.png" in capsys.readouterr().err
    assert evaluate_rows(tmp_path, pictures, f"clip-s:{tiny_clip}", "--on-error", "skip", *options)[0] == 0


def test_pac_s_says_once_that_it_cuts_captions(tmp_path, pictures, tiny_clip):
    for row in pictures[:3]:
        row["candidate"] += " and a cat" * 60
    with pytest.warns(UserWarning, match="3 captions with more tokens") as caught:
        code, _, scores = evaluate_rows(
            tmp_path, pictures, "pac-s", "--metric-option", f"pac-s.model={json.dumps(str(tiny_clip))}",
            "--metric-option", "pac-s.seed=1",
        )  # fmt: skip
    assert code == 0
    assert sum("more tokens" in str(warning.message) for warning in caught) == 1
    assert all(row["pac-s"] is not None for row in scores)


class Code:
    def __reduce__(self):
        return os.mkdir, (Code.target,)


@pytest.mark.parametrize("kind", ["torch", "pickle"])
def test_a_checkpoint_with_code_is_refused_and_not_run(tmp_path, pictures, tiny_clip, capsys, kind):
    Code.target = str(tmp_path / "made")
    path = tmp_path / "evil.pth"
    if kind == "torch":
        state = load_dual_encoder(str(tiny_clip), seed=1, device="cpu").model.state_dict()
        torch.save({**state, "extra": Code()}, path)
    else:
        path.write_bytes(pickle.dumps(Code(), protocol=2))
    model_option = ["--metric-option", f"pac-s.model={json.dumps(str(tiny_clip))}"]
    code, report, scores = evaluate_rows(tmp_path, pictures, f"pac-s:{path},length", *model_option)
    assert code == 1
    errors = {row["label"]: row.get("error") for row in report["sections"][0]["rows"]}
    assert f"{path}: refused" in errors[f"pac-s:{path}"]
    assert "could run code" in errors[f"pac-s:{path}"]
    assert all(row["length"] is not None for row in scores)
    for row in pictures:
        del row["rating"]
    code, found = score_rows(tmp_path, pictures, f"pac-s:{path}", *model_option)
    assert (code, found) == (2, [])
    assert "evil.pth: refused" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.fixture
def made(tmp_path, pictures):
    """Training images with a generated caption each and a generated image of the first caption."""
    folder = tmp_path / "made"
    for kind in ("captions", "images"):
        with PositiveWriter(folder, kind) as writer:
            writer.begin(Recipe("tiny", "1", 0, {}))
            for row in pictures if kind == "captions" else pictures[:2]:
                if kind == "captions":
                    writer.add_caption(content_key(tmp_path / row["image"]), "a generated dog")
                else:
                    picture = Image.new("RGB", (8, 8), "red")
                    writer.add_image(text_key(row["candidate"]), picture, caption=row["candidate"])
    rows = [{key: row[key] for key in ("id", "candidate", "image")} | {"rating": 1} for row in pictures]
    return folder, write_rows(tmp_path / "pairs.jsonl", rows)


def break_missing(folder):
    next((folder / "images").rglob("*.png")).unlink()


def break_altered(folder):
    Image.new("RGB", (8, 8), "blue").save(next((folder / "images").rglob("*.png")))


def break_duplicate(folder):
    path = folder / "captions.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines(keepends=True)[0])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (break_missing, "1 generated images are missing: .*images.jsonl, line"),
        (break_altered, "images.jsonl, line .: .* is not the image that was generated"),
        (break_duplicate, "captions.jsonl, line 7: source file-.* occurs twice"),
    ],
)
def test_a_bad_manifest_of_positives_writes_nothing(tmp_path, made, capsys, broken, message):
    folder, data = made
    target = tmp_path / "train.jsonl"
    arguments = ("join", data, "--positives", folder, "--output", target)
    assert run(positives.main, *arguments) == 0
    whole = target.read_text()
    assert whole.count("a generated dog") == 6
    broken(folder)
    capsys.readouterr()
    assert run(positives.main, *arguments) == 2
    assert re.search(message, capsys.readouterr().err)
    assert target.read_text() == whole


def test_a_path_of_an_image_that_can_be_none_is_refused_where_positives_are_joined(tmp_path, made, capsys):
    folder, _ = made
    rows = write_rows(tmp_path / "rows.jsonl", [{"image": "a\0/0.png", "caption": "a dog"}])
    arguments = ("join", rows, "--positives", folder, "--output", tmp_path / "train.jsonl", "--any-path")
    assert run(positives.main, *arguments) == 2
    told = capsys.readouterr().err
    assert "cannot be read: " in told
    assert "embedded null" in told  # what comes before it depends on Python's version
