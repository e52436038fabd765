"""``suisei rerank``: what is written and said."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from suisei.commands.rerank import main
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from suisei.scoring import reranking
from tests.unit.runs import read_rows, write_rows

ROWS = [
    {"id": f"{image}.png#{number}", "image": f"{image}.png", "candidate": text, "references": ["own"]}
    for image, texts in {
        "0007": ["a dog runs on grass", "a cat sleeps", "a dog runs on the grass"],
        "0008": ["two men sit"],
        "0009": ["犬が走る", "犬が草の上を走る", "猫が寝る"],
    }.items()
    for number, text in enumerate(texts, 1)
]


@pytest.fixture
def rows(tmp_path):
    for image in ("0007", "0008", "0009"):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{image}.png")
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def run(rows, output, *options):
    return main([*map(str, ("--input", rows, "--output", output, *options))])


def test_a_row_per_image_under_its_own_id_as_it_was(rows, tmp_path, capsys):
    output = tmp_path / "best.jsonl"
    assert run(rows, output, "--metrics", "chrf") == 0
    written = read_rows(output)
    assert [row["id"] for row in written] == ["0007.png", "0008.png", "0009.png"]
    assert [row["candidate"] for row in written] == [
        "a dog runs on the grass",
        "two men sit",
        "犬が草の上を走る",
    ]
    assert all(row["references"] == ["own"] for row in written)
    assert [row["image"] for row in written] == ["0007.png", "0008.png", "0009.png"]
    said = " ".join(capsys.readouterr().err.split())
    assert "3 images, 7 captions" in said
    assert "1 image with one caption, which was taken" in said
    assert "signature: chrf|" in said


def test_ids_that_are_not_those_of_samples_stay(tmp_path):
    names = ["a#1", "b#1", "c#x", "c#y", "d#1"]
    rows = [
        {"id": name, "group": group, "candidate": text}
        for name, group, text in zip(names, "iijjk", ["a dog", "a dog runs", "x", "x", "y"], strict=True)
    ]
    run(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "best.jsonl", "--metrics", "chrf")
    assert {row["id"] for row in read_rows(tmp_path / "best.jsonl")} <= set(names)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_tables(rows, tmp_path, suffix):
    output = tmp_path / f"best.{suffix}"
    run(rows, output, "--metrics", "cider")
    with output.open(encoding="utf-8", newline="") as stream:
        written = list(csv.DictReader(stream, delimiter="\t" if suffix == "tsv" else ","))
    assert [row["id"] for row in written] == ["0007.png", "0008.png", "0009.png"]


def test_results_of_coco(rows, tmp_path):
    output = tmp_path / "best.json"
    run(rows, output, "--metrics", "chrf")
    results = json.loads(output.read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [7, 8, 9]
    assert results[2]["caption"] == "犬が草の上を走る"


def test_results_of_coco_are_of_the_images_whose_captions_have_ids_of_their_own(tmp_path):
    rows = [
        {"id": f"cap-{number}", "image_id": image, "candidate": text}
        for number, (image, text) in enumerate(
            [(7, "a dog"), (7, "a dog runs"), (8, "a cat"), (8, "a big cat")]
        )
    ]
    run(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "best.json", "--metrics", "chrf")
    results = json.loads((tmp_path / "best.json").read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [7, 8]
    run(tmp_path / "rows.jsonl", tmp_path / "best.jsonl", "--metrics", "chrf")
    assert [row["id"] for row in read_rows(tmp_path / "best.jsonl")] == ["cap-1", "cap-3"]


def test_a_group_of_several_images_is_no_image_of_coco(rows, tmp_path):
    grouped = write_rows(tmp_path / "grouped.jsonl", [{**row, "group": "a scene"} for row in ROWS])
    run(grouped, tmp_path / "best.json", "--metrics", "chrf")
    results = json.loads((tmp_path / "best.json").read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [7, 8, 9]
    some = [
        {**row, "group": row["image"]} if "7" in row["image"] or "9" in row["image"] else row for row in ROWS
    ]
    run(write_rows(grouped, some), tmp_path / "best.json", "--metrics", "chrf")
    results = json.loads((tmp_path / "best.json").read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [7, 8, 9]


def test_an_image_with_captions_in_both_languages_is_said_and_keeps_ids_apart(tmp_path, capsys):
    name = "COCO_val2014_000000000001.png"
    for image in (name, "COCO_val2014_000000000002.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / image)
    texts = {
        name: ["赤い球", "赤い球がある", "HELLO"],
        "COCO_val2014_000000000002.png": ["赤い箱", "赤い箱がある"],
    }
    rows = [
        {"id": f"{image}#{number}", "image": image, "candidate": text}
        for image, own in texts.items()
        for number, text in enumerate(own, 1)
    ]
    given = write_rows(tmp_path / "rows.jsonl", rows)
    run(given, tmp_path / "best.jsonl", "--metrics", "chrf")
    ids = [row["id"] for row in read_rows(tmp_path / "best.jsonl")]
    assert [name_.partition("#")[0] for name_ in ids] == [name, name, "COCO_val2014_000000000002.png"]
    assert len(set(ids)) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "2 images, 5 captions" in said
    assert "1 image with captions in Japanese and in English: one of each was chosen" in said
    assert "1 image with one caption in a language, which was taken" in said
    run(given, tmp_path / "best.json", "--metrics", "chrf")
    results = json.loads((tmp_path / "best.json").read_text(encoding="utf-8"))
    assert [row["image_id"] for row in results] == [1, 1, 2]


def test_the_model_in_the_package_chooses_where_none_is_named(rows, tmp_path, capsys):
    output = tmp_path / "best.jsonl"
    assert run(rows, output) == 0
    assert {row["candidate"] for row in read_rows(output)} & {"a cat sleeps", "猫が寝る"} == set()
    said = " ".join(capsys.readouterr().err.split())
    assert "scores beside the others of their image" in said
    assert "signature: suisei|" in said


def test_by_itself(rows, tmp_path, capsys):
    output = tmp_path / "best.jsonl"
    assert run(rows, output, "--metrics", "length", "--by", "itself") == 0
    assert [row["candidate"] for row in read_rows(output)] == [
        "a dog runs on the grass",
        "two men sit",
        "犬が草の上を走る",
    ]
    assert "scores by themselves" in capsys.readouterr().err


def test_bad_rows_stop_it_or_are_left_out(rows, tmp_path, capsys):
    write_rows(rows, [*ROWS, {"id": "x", "image": "0008.png", "error": "decoded to nothing"}])
    with pytest.raises(DataError, match="row 8: no caption"):
        run(rows, tmp_path / "best.jsonl", "--metrics", "chrf")
    assert not (tmp_path / "best.jsonl").exists()
    assert run(rows, tmp_path / "best.jsonl", "--metrics", "chrf", "--on-error", "skip") == 0
    assert len(read_rows(tmp_path / "best.jsonl")) == 3
    assert "1 bad row" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("best.jsonl", ["--metrics", "chrf,cider"], "captions are chosen by one metric"),
        ("best.txt", [], r"the name must end in \.jsonl, \.csv, \.tsv, \.parquet, or \.json for COCO"),
        ("best.jsonl.gz", [], "the name must end in"),
        ("rows.jsonl", [], "--output"),
        ("best.jsonl", ["--metrics", "length"], "reads no references"),
    ],
)
def test_what_does_not_go_together_is_refused(rows, tmp_path, output, options, message):
    before = rows.read_bytes()
    with pytest.raises(ConfigError, match=message):
        run(rows, tmp_path / output, *options)
    assert rows.read_bytes() == before


def test_a_run_that_was_interrupted_goes_on_from_what_is_kept(rows, tmp_path, capsys, monkeypatch):
    from suisei.cli import run_command
    from suisei.metrics.rouge import RougeL

    monkeypatch.setattr(reranking, "_BLOCK", 4)
    assert run(rows, tmp_path / "whole.jsonl", "--metrics", "rouge-l") == 0
    score, calls = RougeL._score, []

    def stopped(self, samples, **options):
        calls.append(len(samples))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score(self, samples, **options)

    arguments = ["--input", rows, "--output", tmp_path / "best.jsonl", "--metrics", "rouge-l"]
    keep = [*map(str, [*arguments, "--keep", tmp_path / "kept"])]
    with monkeypatch.context() as patch:
        patch.setattr(RougeL, "_score", stopped)
        assert run_command(main, keep) == 130
    assert f"scores are in {tmp_path / 'kept'}, and the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "best.jsonl").exists()
    calls = [None, None]
    monkeypatch.setattr(RougeL, "_score", stopped)
    assert run_command(main, keep) == 0
    assert len(calls) == 3
    assert (tmp_path / "best.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_folder_that_keeps_no_scores_is_refused_before_the_input_is_read(tmp_path):
    (tmp_path / "kept").touch()
    with pytest.raises(ConfigError, match=r"--keep .*kept"):
        run(
            tmp_path / "absent.jsonl",
            tmp_path / "best.jsonl",
            "--metrics",
            "rouge-l",
            "--keep",
            tmp_path / "kept",
        )


class Seeing(Metric):
    """Scores captions of one image alone."""

    name = "seeing"
    needs = frozenset({"image"})

    def _score(self, samples, *, batch_size, progress):
        return np.array([1.0 if "0009" in str(sample.image) else np.nan for sample in samples])


class Blind(Seeing):
    """Refuses everything."""

    name = "blind"

    def _score(self, samples, *, batch_size, progress):
        raise DataError("the picture is damaged")


class Breaking(Seeing):
    """Has a defect."""

    name = "breaking"

    def _score(self, samples, *, batch_size, progress):
        raise KeyError("weights")


@pytest.fixture
def fakes(monkeypatch):
    for made in (Seeing, Blind, Breaking):
        monkeypatch.setitem(REGISTRY, made.name, Entry(f"{__name__}:{made.__name__}", ("image",), "a fake"))


def test_a_metric_that_can_score_nothing_writes_nothing(rows, fakes, tmp_path):
    plain = write_rows(tmp_path / "plain.jsonl", [{"group": "a", "candidate": text} for text in ("x", "y")])
    output = tmp_path / "best.jsonl"
    with pytest.raises(DataError, match="seeing gave no caption a score: no image"):
        run(plain, output, "--metrics", "seeing", "--by", "itself")
    for options in ([], ["--keep", tmp_path / "kept"]):
        with pytest.raises(DataError, match="blind gave no caption a score: the picture is damaged"):
            run(rows, output, "--metrics", "blind", "--by", "itself", *options)
        with pytest.raises(DataError, match=r"breaking failed: KeyError: 'weights'"):
            run(rows, output, "--metrics", "breaking", "--by", "itself", *options)
    assert not output.exists()


def test_an_image_whose_captions_have_no_score_is_named(rows, fakes, tmp_path, capsys):
    (tmp_path / "0008.png").unlink()
    write_rows(
        rows,
        [*ROWS, {"id": "x", "group": "g", "candidate": "a"}, {"id": "y", "group": "g", "candidate": "b"}],
    )
    assert (
        run(rows, tmp_path / "best.jsonl", "--metrics", "seeing", "--by", "itself", "--on-error", "skip") == 1
    )
    assert [row["candidate"] for row in read_rows(tmp_path / "best.jsonl")] == [
        "a dog runs on grass", "犬が走る", "a",
    ]  # fmt: skip
    said = " ".join(capsys.readouterr().err.split())
    assert "2 images whose captions got no score, so that the first was taken, such as 0007.png#1" in said
    assert "2 scores could not be had, the first: no image" in said
    assert "1.0000 of the chosen" in said
