"""The score command on files, with a small model of random weights and the text metrics."""

import csv
import io
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import suisei
from suisei.commands.score import main
from suisei.errors import DataError
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from tests.unit.commands.score_runs import ENGLISH, JAPANESE, read, run, write

CAPTIONS = ENGLISH + JAPANESE


@pytest.fixture(scope="session")
def model(tmp_path_factory, build_regressor):
    import torch

    from suisei.models.folder import save_model

    regressor = build_regressor()
    with torch.no_grad():
        for parameter in regressor.members.parameters():
            parameter.mul_(4)  # spreads the scores of random weights
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder, regressor)
    return folder


@pytest.fixture
def records(tmp_path):
    """Forty rows with ids, two references each and an image in every second row."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(5):
        pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    generator = random.Random(0)
    rows = []
    for number in range(40):
        captions = ENGLISH if number % 2 else JAPANESE
        row = {
            "id": f"c{number}",
            "candidate": generator.choice(captions),
            "references": generator.sample(captions, 2),
        }
        rows.append(row | ({"image": f"images/{number % 5}.png"} if number % 4 < 2 else {}))
    return rows


@pytest.fixture
def captions(tmp_path, records):
    return write(tmp_path / "captions.jsonl", records)


def test_scores_equal_the_python_interface_and_keep_order_and_ids(tmp_path, model, captions, records):
    assert run("--model", model, "--input", captions, "--output", tmp_path / "s.jsonl") == 0
    rows = read(tmp_path / "s.jsonl")
    assert [list(row) for row in rows] == [["id", "suisei"]] * 40
    assert [row["id"] for row in rows] == [record["id"] for record in records]
    images = [tmp_path / record["image"] if "image" in record else None for record in records]
    expected = suisei.load(model).score(
        [record["candidate"] for record in records], [record["references"] for record in records], images
    )
    assert np.std(expected) > 1e-3
    assert [row["suisei"] for row in rows] == pytest.approx(expected, abs=1e-6)


def test_windows_and_batches_do_not_change_scores(tmp_path, model, captions):
    metrics = ["--metrics", f"bleu-1,bleu-4,rouge-l,cider,unigram-f1,chrf,suisei:{model}"]
    found, corpora = [], []
    for number, sizes in enumerate([(4096, 64), (7, 3), (1, 1)]):
        output, summary = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.json"
        sizes = ["--window", sizes[0], "--batch-size", sizes[1]]
        assert run(*metrics, "--input", captions, "--output", output, "--summary", summary, *sizes) == 0
        found.append([list(row.values())[1:] for row in read(output)])
        corpora.append([entry["corpus"] for entry in json.loads(summary.read_text())["metrics"].values()])
    assert np.shape(found) == (3, 40, 7)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)
    np.testing.assert_allclose(corpora[1], corpora[0], atol=1e-5)
    np.testing.assert_allclose(corpora[2], corpora[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "jsonl"])
@pytest.mark.parametrize("written", ["csv", "tsv", "jsonl"])
def test_every_input_and_output_format_gives_the_same(tmp_path, captions, kind, written):
    from suisei.data.formats import read_samples, write_samples

    samples = read_samples(captions)
    write_samples(tmp_path / f"in.{kind}", samples)
    output = tmp_path / f"out.{written}"
    assert run("--metrics", "rouge-l,length", "--input", tmp_path / f"in.{kind}", "--output", output) == 0
    if written == "jsonl":
        rows = read(output)
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
    rows = read(tmp_path / "o.jsonl")
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


def test_standard_input_to_standard_output(tmp_path, captions, records):
    done = command("--metrics", "length", "--input", "-", cwd=tmp_path, input=captions.read_bytes())
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [row["id"] for row in rows] == [record["id"] for record in records]
    assert b"length" in done.stderr


def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path):
    rows = [{"candidate": f"a red ball {number}"} for number in range(20_000)]
    data = write(tmp_path / "many.jsonl", rows)
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
            (row, "got 1 sample(s) with references to learn that from; fit it on a corpus of many images; "
             "2 of the 3 rows are bad, the first problem: {}, row 1: rating 3 is"),
        ]
    ):  # fmt: skip
        source = write(tmp_path / f"{number}.jsonl", [{**row, "rating": 3}] * 2 + [last])
        assert run("--metrics", "cider", "--input", source, "--output", tmp_path / "o.jsonl", *more) == 2
        assert message.format(source) in capsys.readouterr().err


def test_a_file_that_is_unusable_says_so_while_cider_learns_from_it(tmp_path, capsys):
    source = tmp_path / "a.csv"
    source.write_bytes("candidate,rating\na dog,3\n犬が草の上を走っている,3\n".encode("cp932"))
    assert run("--metrics", "cider", "--input", source, "--on-error", "skip") == 2
    assert "line 3 is in Shift_JIS" in capsys.readouterr().err


def test_cider_from_a_pipe_is_refused_and_from_a_redirected_file_works(tmp_path, captions):
    done = command("--metrics", "cider", "--input", "-", input=captions.read_bytes())
    assert done.returncode == 2
    assert b"standard input can be read only once" in done.stderr
    with captions.open("rb") as stream:
        done = command("--metrics", "cider", "--input", "-", cwd=tmp_path, stdin=stream)
    assert done.returncode == 0, done.stderr
    assert b"|fit:references-of-40-samples" in done.stderr
    assert run("--metrics", "cider", "--input", captions, "--output", tmp_path / "o.jsonl") == 0
    assert (tmp_path / "o.jsonl").read_bytes() == done.stdout


BAD_ROWS = {
    "empty": ('{"id": "bad-1", "candidate": " "}', "candidate is empty"),
    "nan": ('{"id": "bad-2", "candidate": "a", "rating": NaN}', "rating is NaN"),
    "scale": ('{"id": "bad-3", "candidate": "a", "rating": 7}', "outside the rating scale"),
    "image": ('{"id": "bad-4", "candidate": "a", "image": "no.png"}', "'no.png' is not there"),
    "cut image": ('{"id": "bad-5", "candidate": "a", "image": "images/cut.png"}', "cut.png"),
    "column": ('{"id": "bad-6", "candidat": "a"}', "no column 'candidate'"),
    "json": ('{"id": "bad-7", "candidate": "a"', "not valid JSON"),
    "bytes": ('{"id": "bad-8", "candidate": "\udcff"}', "not valid UTF-8"),
    "long": ('{"id": "bad-9", "candidate": "%s"}' % ("x" * 100_000), "100,000 characters"),
    "twice": ('{"id": "c3", "candidate": "a"}', "'c3' is used by an earlier row"),
    "blank": ("", "blank"),
    "list": ("[]", "expected a JSON object"),
}


@pytest.fixture
def broken(tmp_path, records):
    """Captions with each kind of bad row in the middle, in one file."""
    whole = (tmp_path / "images" / "0.png").read_bytes()
    (tmp_path / "images" / "cut.png").write_bytes(whole[: len(whole) // 2])

    def make(*kinds):
        good = [json.dumps(record, ensure_ascii=False) for record in records]
        lines = good[:20] + [BAD_ROWS[kind][0] for kind in kinds] + good[20:]
        path = tmp_path / "broken.jsonl"
        path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
        return path

    return make


def test_bad_rows_are_skipped_with_reasons_and_nothing_else_is_lost(tmp_path, model, captions, broken):
    summary = tmp_path / "summary.json"
    whole = ["--model", model, "--summary", summary, "--on-error", "skip"]
    assert run(*whole, "--input", captions, "--output", tmp_path / "whole.jsonl") == 0
    assert run(*whole, "--input", broken(*BAD_ROWS), "--output", tmp_path / "s.jsonl", "--window", 23) == 0
    rows, count = read(tmp_path / "s.jsonl"), len(BAD_ROWS)
    bad = rows[20 : 20 + count]
    for row, (kind, (_, message)) in zip(bad, BAD_ROWS.items(), strict=True):
        assert row["suisei"] is None, kind
        assert message in row["error"], kind
    good = rows[:20] + rows[20 + count :]
    expected = read(tmp_path / "whole.jsonl")
    assert [row["id"] for row in good] == [row["id"] for row in expected]
    np.testing.assert_allclose([r["suisei"] for r in good], [r["suisei"] for r in expected], atol=1e-5)
    content = json.loads(summary.read_text(encoding="utf-8"))
    assert content["rows"] == 40 + count
    assert content["metrics"]["suisei"]["n"] == 40
    assert sum(content["bad_rows"].values()) == count - 1
    assert content["bad_rows"]["candidate is empty"] == 1
    assert sum(content["metrics"]["suisei"]["skipped"].values()) == 1  # the image that is cut off


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_stops_a_strict_run_which_keeps_what_it_has(tmp_path, model, broken, capsys, kind):
    output = tmp_path / "s.jsonl"
    assert run("--model", model, "--input", broken(kind), "--output", output, "--window", 8) == 2
    message = capsys.readouterr().err
    assert "row 21" in message
    assert BAD_ROWS[kind][1] in message
    assert "--resume" in message
    assert not output.exists()
    assert [row["id"] for row in read(f"{output}.part")] == [f"c{number}" for number in range(20)]


def test_a_strict_run_goes_on_after_the_row_is_mended(tmp_path, captions, broken):
    whole, output = tmp_path / "whole.jsonl", tmp_path / "s.jsonl"
    arguments = ["--metrics", "bleu-4,chrf,length", "--summary", tmp_path / "sum.json", "--window", 6]
    assert run(*arguments, "--input", captions, "--output", whole) == 0
    expected = json.loads((tmp_path / "sum.json").read_text())
    assert run(*arguments, "--input", broken("empty"), "--output", output) == 2
    broken()  # the same file without the bad row
    assert (
        run(*arguments, "--input", tmp_path / "broken.jsonl", "--output", output) == 2
    )  # refuses to overwrite
    assert run(*arguments, "--input", tmp_path / "broken.jsonl", "--output", output, "--resume") == 0
    assert output.read_bytes() == whole.read_bytes()
    assert json.loads((tmp_path / "sum.json").read_text())["metrics"] == expected["metrics"]
    assert sorted(path.name for path in tmp_path.glob("s.jsonl*")) == ["s.jsonl"]


class Counting(Metric):
    """Length of the caption; keeps what it was called with, and stops the process when told to."""

    name = "counting"
    seen: list = []  # noqa: RUF012 - shared by all instances on purpose
    stop_at: int | None = None

    def _score(self, samples, *, batch_size, progress):
        if Counting.stop_at is not None and len(Counting.seen) >= Counting.stop_at:
            raise KeyboardInterrupt
        Counting.seen += [sample.id for sample in samples]
        return np.array([float(len(sample.candidate)) for sample in samples])


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(REGISTRY, "counting", Entry(f"{__name__}:Counting", (), "a fake"))
    monkeypatch.setattr(Counting, "seen", [])
    monkeypatch.setattr(Counting, "stop_at", None)
    return Counting


def test_a_killed_run_goes_on_where_it_was(tmp_path, captions, records, counting):
    output = tmp_path / "s.csv"
    arguments = ["--metrics", "counting", "--input", captions, "--output", output, "--window", 6]
    counting.stop_at = 18
    assert run(*arguments) == 130
    with Path(f"{output}.part").open("ab") as stream:
        stream.write(b"c18,24")  # a row that was cut off in the middle
    counting.stop_at = None
    assert run(*arguments, "--resume") == 0
    assert counting.seen == [record["id"] for record in records]  # none twice, none left out
    with output.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["id"], float(row["counting"])) for row in rows] == [
        (record["id"], len(record["candidate"])) for record in records
    ]
    assert run(*arguments, "--resume") == 0  # is complete: nothing happens
    assert len(counting.seen) == 40


def test_resuming_on_changed_input_is_refused(tmp_path, captions, records, counting, capsys):
    output = tmp_path / "s.jsonl"
    arguments = ["--metrics", "counting", "--output", output, "--window", 6, "--resume"]
    counting.stop_at = 18
    assert run(*arguments, "--input", captions) == 130
    counting.stop_at = None
    assert run(*arguments, "--input", write(tmp_path / "other.jsonl", records[1:])) == 2
    assert "the input has changed" in capsys.readouterr().err
    assert run(*arguments, "--input", write(tmp_path / "short.jsonl", records[:10])) == 2
    assert "8 rows more than" in capsys.readouterr().err
    assert len(read(f"{output}.part")) == 18


def test_rows_are_written_as_windows_finish(tmp_path, captions, counting):
    output = tmp_path / "s.jsonl"
    counting.stop_at = 30
    assert run("--metrics", "counting", "--input", captions, "--output", output, "--window", 10) == 130
    assert len(read(f"{output}.part")) == 30


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
    data = write(tmp_path / "in.jsonl", [{"candidate": text} for text in texts])
    output = tmp_path / "o.jsonl"
    assert run("--metrics", "dying,length", "--input", data, "--output", output, "--window", 2) == 1
    rows = read(output)
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
    source, summary = write(tmp_path / "in.jsonl", rows), tmp_path / "summary.json"
    options = ["--metrics", "bleu-1", "--input", source, "--summary", summary, "--window", window]
    assert run(*options, "--output", tmp_path / "a.jsonl") == 0
    note = "of the rows 2 have no reference in the candidate's language"
    assert note in capsys.readouterr().err
    assert json.loads(summary.read_text(encoding="utf-8"))["rows_across_languages"] == 2
    write(source, rows[1:2])
    assert run(*options, "--output", tmp_path / "b.jsonl") == 0
    assert "candidate's language" not in capsys.readouterr().err


def test_samples_without_references_are_counted_not_stopped_at(tmp_path):
    data = write(
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
    assert read(tmp_path / "o.jsonl")[1]["error"] == "rouge-l: no references"
    entry = json.loads(summary.read_text())["metrics"]["rouge-l"]
    assert (entry["n"], entry["mean"], entry["skipped"]) == (1, 1.0, {"no references": 1})


def test_missing_files_are_named(tmp_path, model):
    with pytest.raises(DataError, match=r"nowhere\.jsonl"):
        main(["--metrics", "length", "--input", str(tmp_path / "nowhere.jsonl")])
    data = write(tmp_path / "in.jsonl", [{"candidate": "a"}])
    (model / "idf.json").rename(model / "away")
    try:
        assert run("--model", model, "--input", data) == 2
    finally:
        (model / "away").rename(model / "idf.json")


def test_warnings_come_once_and_not_in_every_window(tmp_path, model, capsys):
    data = write(tmp_path / "in.jsonl", [{"candidate": text} for text in CAPTIONS])
    output = tmp_path / "o.jsonl"
    assert run("--model", model, "--input", data, "--output", output, "--window", 2) == 0
    assert capsys.readouterr().err.count("scored from the candidate alone") == 1


def test_scores_can_be_evaluated(tmp_path):
    from suisei.data.formats import read_samples
    from suisei.scoring.scorefile import read_scores

    rows = [{"candidate": f"{word} ball", "references": ["a ball"]} for word in ("a", "red", "the")]
    data = write(tmp_path / "in.jsonl", [*rows, {"candidate": "x"}])
    for output in (tmp_path / "o.jsonl", tmp_path / "o.csv"):
        assert run("--metrics", "rouge-l", "--input", data, "--output", output) == 0
        columns, note = read_scores(output, read_samples(data))
        assert list(columns) == ["rouge-l"]
        assert np.isfinite(columns["rouge-l"][:3]).all()
        assert math.isnan(columns["rouge-l"][3])
        assert "joined by row number" in note


def test_the_same_caption_in_later_windows_is_encoded_once(tmp_path, model, captions, monkeypatch):
    from suisei.encoders.text import TextEncoder

    encoded = []
    tokenize = TextEncoder.tokenize
    monkeypatch.setattr(
        TextEncoder, "tokenize", lambda self, texts: [encoded.extend(texts), tokenize(self, texts)][1]
    )
    output = tmp_path / "o.jsonl"
    assert run("--model", model, "--input", captions, "--output", output, "--window", 5) == 0
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


def test_device_and_precision_go_to_the_metrics_that_take_them(tmp_path, model, captions):
    summary = tmp_path / "s.json"
    arguments = ["--metrics", f"length,suisei:{model}", "--precision", "bf16", "--device", "cpu"]
    assert run(*arguments, "--input", captions, "--output", tmp_path / "o.csv", "--summary", summary) == 0
    signatures = {k: v["signature"] for k, v in json.loads(summary.read_text())["metrics"].items()}
    assert "dtype:bf16" in signatures["suisei"]
    assert "bf16" not in signatures["length"]


def test_without_any_score_quiet_runs_say_why_too(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", [{"candidate": text} for text in ENGLISH])
    none = "bleu-1: 4 rows without score: no references"
    for metrics, code, said in (("bleu-1", 1, none), ("bleu-1,length", 0, "")):
        assert run("--metrics", metrics, "--input", source, "--output", tmp_path / "o.csv", "--quiet") == code
        assert capsys.readouterr().err.strip("· \n") == said


def test_rows_that_a_model_scores_by_the_image_alone_are_counted_beside_others(captions, model, capsys):
    source, rows = captions, read(captions)
    note = "an image and no references: "
    assert run("--model", model, "--input", source, "--output", source.with_name("a.jsonl")) == 0
    assert note not in capsys.readouterr().err
    looked = [row | {"references": []} if "image" in row else row for row in rows]
    write(source, looked)
    for metrics in (["--model", model], ["--metrics", "bleu-1"]):
        assert run(*metrics, "--input", source, "--output", source.with_name("b.jsonl")) == 0
        count = sum("image" in row for row in looked)
        assert (f"of the rows {count} have {note}" in capsys.readouterr().err) == (metrics[0] == "--model")
    write(source, [row for row in looked if "image" in row])
    assert run("--model", model, "--input", source, "--output", source.with_name("c.jsonl")) == 0
    assert note not in capsys.readouterr().err
