"""The score command on files, with a small model of random weights and the text metrics."""

import csv
import io
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import suisei
from suisei.commands.score import main
from suisei.errors import DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from tests.unit.commands.score_runs import ENGLISH, JAPANESE, run
from tests.unit.runs import read_rows, write_rows

CAPTIONS = ENGLISH + JAPANESE


def test_scores_equal_the_python_interface_and_keep_order_and_ids(tmp_path, model, caption_file, records):
    assert run("--model", model, "--input", caption_file, "--output", tmp_path / "s.jsonl") == 0
    rows = read_rows(tmp_path / "s.jsonl")
    assert [list(row) for row in rows] == [["id", "suisei"]] * 40
    assert [row["id"] for row in rows] == [record["id"] for record in records]
    images = [tmp_path / record["image"] if "image" in record else None for record in records]
    expected = suisei.load(model).score(
        [record["candidate"] for record in records], [record["references"] for record in records], images
    )
    assert np.std(expected) > 1e-3
    assert [row["suisei"] for row in rows] == pytest.approx(expected, abs=1e-6)


def test_windows_and_batches_do_not_change_scores(tmp_path, model, caption_file):
    metrics = ["--metrics", f"bleu-1,bleu-4,rouge-l,cider,unigram-f1,chrf,suisei:{model}"]
    found, corpora = [], []
    for number, sizes in enumerate([(4096, 64), (7, 3), (1, 1)]):
        output, summary = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.json"
        sizes = ["--window", sizes[0], "--batch-size", sizes[1]]
        assert run(*metrics, "--input", caption_file, "--output", output, "--summary", summary, *sizes) == 0
        found.append([list(row.values())[1:] for row in read_rows(output)])
        corpora.append([entry["corpus"] for entry in json.loads(summary.read_text())["metrics"].values()])
    assert np.shape(found) == (3, 40, 7)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)
    np.testing.assert_allclose(corpora[1], corpora[0], atol=1e-5)
    np.testing.assert_allclose(corpora[2], corpora[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl"])
@pytest.mark.parametrize("written", ["csv", "tsv", "jsonl"])
def test_every_input_and_output_format_gives_the_same(tmp_path, caption_file, kind, written):
    from suisei.data.formats import read_samples, write_samples

    samples = read_samples(caption_file)
    write_samples(tmp_path / f"in.{kind}", samples)
    output = tmp_path / f"out.{written}"
    assert run("--metrics", "rouge-l,length", "--input", tmp_path / f"in.{kind}", "--output", output) == 0
    if written == "jsonl":
        rows = read_rows(output)
    else:
        with output.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, delimiter="," if written == "csv" else "\t"))
        assert {row["error"] for row in rows} == {""}
    assert [row["id"] for row in rows] == [sample.id for sample in samples]
    expected = suisei.get_metric("rouge-l").score(samples)
    assert [float(row["rouge-l"]) for row in rows] == expected.tolist()


def test_comet_columns_and_rows_without_id(tmp_path):
    data = tmp_path / "in.csv"
    data.write_text("src,mt,ref\na cat,a dog,a cat sits\na cat,the cat,a cat sits\n", encoding="utf-8")
    assert run("--metrics", "unigram-f1", "--input", data, "--output", tmp_path / "o.jsonl") == 0
    rows = read_rows(tmp_path / "o.jsonl")
    assert [row["id"] for row in rows] == [1, 2]
    expected = suisei.get_metric("unigram-f1").score(["a dog", "the cat"], [["a cat", "a cat sits"]] * 2)
    assert [row["unigram-f1"] for row in rows] == expected.tolist()


def command(*arguments, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "suisei", "score", *map(str, arguments)],
        capture_output=True,
        env=environment,
        check=False,
        **options,
    )


def test_standard_input_to_standard_output(tmp_path, caption_file, records):
    done = command("--metrics", "length", "--input", "-", cwd=tmp_path, input=caption_file.read_bytes())
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["id"] for row in rows] == [record["id"] for record in records]
    assert b"length" in done.stderr


def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path):
    rows = [{"candidate": f"a red ball {number}"} for number in range(20_000)]
    data = write_rows(tmp_path / "many.jsonl", rows)
    script = f'"{sys.executable}" -m suisei score --metrics length --window 100 --input "{data}" | head -n 1'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert json.loads(done.stdout)["id"] == 1
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--on-error", "skip"]])
def test_where_cider_has_too_few_rows_to_learn_from_the_bad_ones_are_named(tmp_path, capsys, more):
    row = {"candidate": "a dog", "references": ["the dog"]}
    for number, (last, message) in enumerate(
        [
            ({**row, "rating": 3}, "none of the 3 rows is usable; the first problem: {}, row 1: rating 3 is"),
            (row, "got 1 sample with references to learn that from; fit it on a corpus of many images; "
             "2 of the 3 rows are bad, the first problem: {}, row 1: rating 3 is"),
        ]
    ):  # fmt: skip
        source = write_rows(tmp_path / f"{number}.jsonl", [{**row, "rating": 3}] * 2 + [last])
        assert run("--metrics", "cider", "--input", source, "--output", tmp_path / "o.jsonl", *more) == 2
        assert message.format(source) in capsys.readouterr().err


def test_a_file_that_is_unusable_says_so_while_cider_learns_from_it(tmp_path, capsys):
    source = tmp_path / "a.csv"
    source.write_bytes("candidate,rating\na dog,3\n犬が草の上を走っている,3\n".encode("cp932"))
    assert run("--metrics", "cider", "--input", source, "--on-error", "skip") == 2
    assert "line 3 is in Shift_JIS" in capsys.readouterr().err


def test_cider_from_a_pipe_is_refused_and_from_a_redirected_file_works(tmp_path, caption_file):
    done = command("--metrics", "cider", "--input", "-", input=caption_file.read_bytes())
    assert done.returncode == 2
    assert b"standard input can be read only once" in done.stderr
    with caption_file.open("rb") as stream:
        done = command("--metrics", "cider", "--input", "-", cwd=tmp_path, stdin=stream)
    assert done.returncode == 0, done.stderr
    assert b"|fit:references-of-40-samples" in done.stderr
    assert run("--metrics", "cider", "--input", caption_file, "--output", tmp_path / "o.jsonl") == 0
    assert (tmp_path / "o.jsonl").read_bytes() == done.stdout


class Dying(Metric):
    """Dies at the first caption about stars."""

    name = "dying"

    def _score(self, samples, *, batch_size, progress):
        if any("stars" in sample.candidate for sample in samples):
            raise OSError("the child process went away")
        return np.ones(len(samples))


def test_a_metric_that_dies_half_way_loses_only_its_column(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(REGISTRY, "dying", Entry(f"{__name__}:Dying", (), "a fake"))
    texts = ["a", "b", "stars", "d"]
    data = write_rows(tmp_path / "in.jsonl", [{"candidate": text} for text in texts])
    output = tmp_path / "o.jsonl"
    assert run("--metrics", "dying,length", "--input", data, "--output", output, "--window", 2) == 1
    rows = read_rows(output)
    assert [row["dying"] for row in rows] == [1, 1, None, None]
    assert all(isinstance(row["length"], float) for row in rows)
    assert rows[3]["error"] == "dying: OSError: the child process went away"
    assert "dying failed: OSError" in capsys.readouterr().err


@pytest.mark.parametrize("window", [1, 100])
def test_rows_across_languages_are_counted(tmp_path, capsys, window):
    rows = [
        {"candidate": JAPANESE[0], "references": ENGLISH[:2]},
        {"candidate": JAPANESE[1], "references": [ENGLISH[1], JAPANESE[2]]},
        {"candidate": ENGLISH[0], "references": [JAPANESE[0]]},
        {"candidate": ENGLISH[0], "references": []},
    ]
    source, summary = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "summary.json"
    options = ["--metrics", "bleu-1", "--input", source, "--summary", summary, "--window", window]
    assert run(*options, "--output", tmp_path / "a.jsonl") == 0
    note = "of the rows 2 have no reference in the candidate's language"
    assert note in capsys.readouterr().err
    assert json.loads(summary.read_text(encoding="utf-8"))["rows_across_languages"] == 2
    write_rows(source, rows[1:2])
    assert run(*options, "--output", tmp_path / "b.jsonl") == 0
    assert "candidate's language" not in capsys.readouterr().err


def test_samples_without_references_are_counted_not_stopped_at(tmp_path):
    data = write_rows(
        tmp_path / "in.jsonl",
        [{"candidate": "a ball", "references": ["a ball"]}, {"candidate": "a ball"}],
    )
    summary = tmp_path / "s.json"
    assert (
        run(
            "--metrics",
            "rouge-l,length",
            "--input",
            data,
            "--output",
            tmp_path / "o.jsonl",
            "--summary",
            summary,
        )
        == 0
    )
    assert read_rows(tmp_path / "o.jsonl")[1]["error"] == "rouge-l: no references"
    entry = json.loads(summary.read_text())["metrics"]["rouge-l"]
    assert (entry["n"], entry["mean"], entry["skipped"]) == (1, 1.0, {"no references": 1})


def test_missing_files_are_named(tmp_path, model):
    with pytest.raises(DataError, match=r"nowhere\.jsonl"):
        main(["--metrics", "length", "--input", str(tmp_path / "nowhere.jsonl")])
    data = write_rows(tmp_path / "in.jsonl", [{"candidate": "a"}])
    (model / "idf.json").rename(model / "away")
    try:
        assert run("--model", model, "--input", data) == 2
    finally:
        (model / "away").rename(model / "idf.json")


def test_warnings_come_once_and_not_in_every_window(tmp_path, model, capsys):
    data = write_rows(tmp_path / "in.jsonl", [{"candidate": text} for text in CAPTIONS])
    output = tmp_path / "o.jsonl"
    assert run("--model", model, "--input", data, "--output", output, "--window", 2) == 0
    assert capsys.readouterr().err.count("scored from the candidate alone") == 1


def test_scores_can_be_evaluated(tmp_path):
    from suisei.data.formats import read_samples
    from suisei.scoring.scorefile import read_scores

    rows = [{"candidate": f"{word} ball", "references": ["a ball"]} for word in ("a", "red", "the")]
    data = write_rows(tmp_path / "in.jsonl", [*rows, {"candidate": "x"}])
    for output in (tmp_path / "o.jsonl", tmp_path / "o.csv"):
        assert run("--metrics", "rouge-l", "--input", data, "--output", output) == 0
        columns, note = read_scores(output, read_samples(data))
        assert list(columns) == ["rouge-l"]
        assert np.isfinite(columns["rouge-l"][:3]).all()
        assert math.isnan(columns["rouge-l"][3])
        assert "joined by row number" in note


def test_the_same_caption_in_later_windows_is_encoded_once(tmp_path, model, caption_file, monkeypatch):
    from suisei.encoders.text import TextEncoder

    encoded = []
    tokenize = TextEncoder.tokenize
    monkeypatch.setattr(
        TextEncoder, "tokenize", lambda self, texts: [encoded.extend(texts), tokenize(self, texts)][1]
    )
    output = tmp_path / "o.jsonl"
    assert run("--model", model, "--input", caption_file, "--output", output, "--window", 5) == 0
    tried_when_loaded = ["a 犬"]
    assert sorted(encoded) == sorted([*CAPTIONS, *tried_when_loaded])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path):
    script = """
import resource, sys
from suisei.commands.score import main
status = main(sys.argv[1:])
sys.stderr.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\\n")
sys.exit(status)
"""
    peaks = []
    for count in (10_000, 200_000):
        data = tmp_path / f"{count}.jsonl"
        with data.open("w") as stream:
            for number in range(count):
                row = {
                    "id": str(number),
                    "candidate": f"a red ball {number}",
                    "references": [f"ball {number}"],
                }
                stream.write(json.dumps(row) + "\n")
        arguments = ["--metrics", "bleu-4,rouge-l", "--input", data, "--output", tmp_path / f"o{count}.csv"]
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        peaks.append(int(io.BytesIO(done.stderr).read().split()[-1]) / 1024)
    assert peaks[1] < peaks[0] + 60, peaks  # MiB; 200,000 rows held would be some 300


def test_device_and_precision_go_to_the_metrics_that_take_them(tmp_path, model, caption_file):
    summary = tmp_path / "s.json"
    arguments = ["--metrics", f"length,suisei:{model}", "--precision", "bf16", "--device", "cpu"]
    assert run(*arguments, "--input", caption_file, "--output", tmp_path / "o.csv", "--summary", summary) == 0
    signatures = {k: v["signature"] for k, v in json.loads(summary.read_text())["metrics"].items()}
    assert "dtype:bf16" in signatures["suisei"]
    assert "bf16" not in signatures["length"]


def test_without_any_score_quiet_runs_say_why_too(tmp_path, capsys):
    source = write_rows(tmp_path / "in.jsonl", [{"candidate": text} for text in ENGLISH])
    none = "bleu-1: 4 rows without score: no references"
    for metrics, code, said in (("bleu-1", 1, none), ("bleu-1,length", 0, "")):
        assert run("--metrics", metrics, "--input", source, "--output", tmp_path / "o.csv", "--quiet") == code
        assert capsys.readouterr().err.strip("· \n") == said


def test_rows_that_a_model_scores_by_the_image_alone_are_counted_beside_others(caption_file, model, capsys):
    source, rows = caption_file, read_rows(caption_file)
    note = "an image and no references: "
    assert run("--model", model, "--input", source, "--output", source.with_name("a.jsonl")) == 0
    assert note not in capsys.readouterr().err
    looked = [row | {"references": []} if "image" in row else row for row in rows]
    write_rows(source, looked)
    for metrics in (["--model", model], ["--metrics", "bleu-1"]):
        assert run(*metrics, "--input", source, "--output", source.with_name("b.jsonl")) == 0
        count = sum("image" in row for row in looked)
        assert (f"of the rows {count} have {note}" in capsys.readouterr().err) == (metrics[0] == "--model")
    write_rows(source, [row for row in looked if "image" in row])
    assert run("--model", model, "--input", source, "--output", source.with_name("c.jsonl")) == 0
    assert note not in capsys.readouterr().err
