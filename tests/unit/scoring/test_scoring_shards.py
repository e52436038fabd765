"""A set in shards: a file per shard, whole or absent; nothing is scored twice, nothing lost to breakage."""

import gzip
import json

import numpy as np
import pytest

from suisei.cli import run_command
from suisei.commands.score import main
from suisei.errors import ConfigError, DataError
from suisei.scoring.uids import UID, write_best
from tests.unit.scoring.shard_runs import CAPTION, METRICS, run, samples, table, write_tar


def test_a_shard_becomes_a_file_of_keys_uids_and_scores(folder, capsys):
    found = run(folder, "--summary", str(folder / "summary.json"))
    assert list(found) == ["00000", "00001", "00002"]
    rows = table(found["00001"])
    assert [row["key"] for row in rows] == [str(n) for n in range(10, 15)]
    assert [int(row["uid"], 16) for row in rows] == list(range(10, 15))
    assert list(rows[0]) == ["key", "uid", "length", "unigram-f1", "error"]
    assert [row["length"] for row in rows] == pytest.approx([0.5, 0.6, 0.1, 0.2, 0.3])
    assert rows[1]["unigram-f1"] == 1.0
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["shards"], summary["rows"], summary["scored_now"]) == (3, 15, 15)
    everything = [row["length"] for path in found.values() for row in table(path)]
    assert summary["metrics"]["length"]["mean"] == pytest.approx(np.mean(everything))
    assert "15 rows" in capsys.readouterr().err


def test_scores_are_those_of_a_file_of_rows(folder):
    found = run(folder)
    rows = [
        {"id": key, "candidate": caption, "references": [CAPTION, f"number {key}"]}
        for shard in range(3)
        for key, caption in samples(10 * shard).items()
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        main([*METRICS, "--input", str(folder / "rows.jsonl"), "--output", str(folder / "rows.out.jsonl")])
        == 0
    )
    expected = [json.loads(line) for line in (folder / "rows.out.jsonl").read_text().splitlines()]
    scored = [row for path in found.values() for row in table(path)]
    assert [(row["key"], row["length"], row["unigram-f1"]) for row in scored] == [
        (row["id"], row["length"], row["unigram-f1"]) for row in expected
    ]


def test_other_metrics_are_not_mixed_into_a_folder(folder):
    run(folder)
    with pytest.raises(ConfigError, match="other signatures"):
        main(["--metrics", "length", "--input", str(folder / "in/*.tar"), "--output", str(folder / "out")])
    with pytest.raises(ConfigError, match="other window"):
        run(folder, "--window", "7")


def test_what_is_broken_is_named_and_loses_nothing_else(folder, capsys):
    write_tar(folder / "in" / "00001.tar", samples(10), cut=5 * 1024)
    (folder / "in" / "00002.tar").write_bytes(b"no archive" * 100)
    write_tar(folder / "in" / "00003.tar", {"1": "", "2": CAPTION})
    options = ("--summary", str(folder / "summary.json"))
    found = run(folder, *options, shards="{00000..00004}.tar", status=1)
    assert list(found) == ["00000", "00001", "00003"]
    assert [row["key"] for row in table(found["00001"])] == ["10", "11"]
    bad, good = table(found["00003"])
    assert "empty" in bad["error"]
    assert (bad["length"], good["length"], good["error"]) == (None, 0.6, None)
    summary = json.loads((folder / "summary.json").read_text())
    assert [path[-9:] for path in summary["broken_shards"]] == ["00001.tar"]
    assert [path[-9:] for path in summary["failed_shards"]] == ["00002.tar", "00004.tar"]
    assert "cut off" in next(iter(summary["broken_shards"].values()))
    assert "no tar archive" in summary["failed_shards"][str(folder / "in/00002.tar")]
    assert "no such file" in summary["failed_shards"][str(folder / "in/00004.tar")]
    assert sum(summary["bad_rows"].values()) == 1
    said = capsys.readouterr().err
    assert "2 shards failed" in said
    assert "00004.tar: no such file" in said
    for shard in (1, 2, 4):
        write_tar(folder / "in" / f"{shard:05d}.tar", samples(10 * shard))
    assert list(run(folder, shards="{00000..00004}.tar")) == ["00000", "00001", "00002", "00003", "00004"]


def test_the_rows_without_a_score_are_bad_ones_and_those_that_a_metric_skips(tmp_path, capsys):
    good = {"candidate": CAPTION, "references": [CAPTION]}
    rows = [good, {**good, "references": []}, {**good, "candidate": ""}, {**good, "candidate": 7}]
    (tmp_path / "in").mkdir()
    for shard, kept in enumerate((rows, rows[2:])):
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        (tmp_path / "in" / f"{shard}.jsonl").write_text(lines)
    run(tmp_path, shards="*.jsonl")
    said = capsys.readouterr().err
    assert "length: 2 scores, mean 0.6000; 4 rows without (" in said
    assert "unigram-f1: 1 score, mean 1.0000; 5 rows without (" in said
    (tmp_path / "in" / "0.jsonl").unlink()
    run(tmp_path, shards="{1..1}.jsonl", status=1)
    assert "length: 0 scores, mean -; 2 rows without (" in capsys.readouterr().err


def test_metrics_that_learn_from_a_corpus_see_all_shards(folder):
    arguments = [
        "--metrics",
        "cider",
        "--input",
        str(folder / "in" / "*.tar"),
        "--output",
        str(folder / "out"),
    ]
    assert main(arguments) == 0
    settings = json.loads((folder / "out" / "scores.json").read_text())
    assert settings["signatures"]["cider"].endswith("|fit:references-of-15-samples")


def test_shards_are_scored_anew_where_another_one_changed_what_a_metric_learned(tmp_path):
    def write(number, captions):
        rows = [{"candidate": "a red ball", "references": [caption]} for caption in captions]
        (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    arguments = ["--metrics", "cider", "--input", str(tmp_path / "{0..1}.jsonl"), "--output"]
    write(0, ["a red ball", "the red box"])
    write(1, ["a red cube", "a dog runs"])
    assert main([*arguments, str(tmp_path / "out")]) == 0
    before = table(tmp_path / "out" / "0.parquet")
    write(1, ["one dog", "two dogs sleep"])  # as many
    assert main([*arguments, str(tmp_path / "out")]) == 0
    assert main([*arguments, str(tmp_path / "fresh")]) == 0
    assert table(tmp_path / "out" / "0.parquet") == table(tmp_path / "fresh" / "0.parquet") != before


def test_without_pyarrow_scores_are_lines_of_json(folder, monkeypatch):
    from suisei.commands import score_shards

    monkeypatch.setattr(score_shards, "_kind", lambda: "jsonl")
    run(folder)
    rows = [json.loads(line) for line in (folder / "out" / "00000.jsonl").read_text().splitlines()]
    assert rows[0] == {
        "key": "0", "uid": "0" * 32, "length": 0.1, "unigram-f1": rows[0]["unigram-f1"], "error": None
    }  # fmt: skip
    options = ("--keep-top", "0.2", "--keep-by", "length", "--uids", str(folder / "u.npy"))
    run(folder, *options)  # the kind is that of the folder
    assert [int(uid["f1"]) for uid in np.load(folder / "u.npy")] == [4, 11, 23]


def test_the_best_share_is_what_the_resharder_reads(folder):
    """Sorted by value, of dtype u8,u8: the first and the last 16 digits of a uid, in this order."""
    uids = [f"{high:016x}{low:016x}" for high, low in ((1, 5), (0, 9), (2**63, 1), (0, 2**64 - 1), (7, 7))]
    scores = [0.5, 0.9, 0.7, 0.5, 0.1]
    rows = [{"uid": uid, "m": score} for uid, score in zip(uids, scores, strict=True)]
    rows += [{"uid": "not hexadecimal", "m": 1.0}, {"uid": None, "m": 1.0}, {"uid": "f" * 32, "m": None}]
    path = folder / "scores.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = write_best([path], "m", 0.6, folder / "out.npy")
    assert (kept.kept, kept.scored, kept.unnamed, kept.least) == (3, 5, 2, 0.5)
    array = np.load(folder / "out.npy", allow_pickle=False)
    expected = np.array(
        [(0, 9), (0, 2**64 - 1), (2**63, 1)], np.dtype("u8,u8")
    )  # of two equal the smaller uid
    assert array.dtype == expected.dtype == UID
    assert array.tolist() == expected.tolist()
    assert len(write_best([path], "m", 1e-9, folder / "out.npy") and np.load(folder / "out.npy")) == 1
    with pytest.raises(DataError, match="no sample has both"):
        write_best([], "m", 0.5, folder / "none.npy")
    kept = write_best([path], "m", 0.4, folder / "out.npy", higher_is_better=False)
    assert (kept.least, np.load(folder / "out.npy").tolist()) == (0.5, [(0, 2**64 - 1), (7, 7)])
    rows = [{"uid": f"{n:032x}", "m": n / 100} for n in range(100)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert write_best([path], "m", 0.29, folder / "out.npy").kept == 29  # 0.29 * 100 is 28.999...


def test_of_a_distance_the_lowest_scores_are_kept(tmp_path, capsys):
    captions = ("a dog a dog a dog", "a dog runs", "a a a a")
    rows = [{"uid": f"{n:032x}", "caption": caption} for n, caption in enumerate(captions)]
    (tmp_path / "0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["--input", str(tmp_path / "{0..0}.jsonl"), "--output", str(tmp_path / "out")]
    options = ["--metrics", "repetition-1", "--keep-top", "0.4", "--uids", str(tmp_path / "u.npy")]
    assert main([*given, *options]) == 0
    assert np.load(tmp_path / "u.npy").tolist() == [(0, 1)]
    assert "by repetition-1, from 0.0000 down" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep-top", "0.3"], "go together"), (["--uids", "u.npy"], "go together"),
        (["--keep-top", "0", "--uids", "u.npy"], "above 0"),
        (["--keep-top", "2", "--uids", "u.npy"], "keep-top"),
        (["--keep-top", "0.3", "--uids", "u.npy"], "--keep-by length or unigram-f1"),
        (["--keep-top", "0.3", "--uids", "u.npy", "--keep-by", "x"], "no such metric"),
        (["--keep-by", "length"], "give those too"), (["--resume"], "skipped anyway"),
        (["--references", "r.json"], "not for sets in shards"),
        (["--format", "jsonl"], "not for sets in shards"),
        (["--engine", "spark"], "spark"), (["--output", "-"], "--output DIR"),
        (["--output", "s.jsonl"], r"s\.jsonl: the scores of shards take a folder; leave \.jsonl out"),
        (["--images", "nowhere"], "no such folder"), (["--devices", "2", "--processes", "2"], "one of them"),
    ],
)  # fmt: skip
def test_wrong_options_are_one_line_before_any_work(folder, options, message, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=message):
        run(folder, *options)
    assert not (folder / "out").exists()


def test_options_of_shards_need_shards(folder):
    (folder / "rows.jsonl").write_text(json.dumps({"candidate": "a"}) + "\n")
    with pytest.raises(ConfigError, match="for sets in shards"):
        main([*METRICS, "--input", str(folder / "rows.jsonl"), "--keep-top", "0.3"])
    out = str(folder / "out")
    assert (
        main(
            [
                "--metrics",
                "length",
                "--input",
                str(folder / "rows.jsonl"),
                "--engine",
                "local",
                "--output",
                out,
            ]
        )
        == 0
    )
    assert [path.name for path in (folder / "out").glob("*.parquet")] == ["rows.parquet"]


def test_scores_of_two_shards_are_never_one_file(folder):
    write_tar(folder / "in" / "a" / "00000.tar", samples(90))
    write_tar(folder / "in" / "b" / "00000.tar", samples(80))
    found = run(folder, shards="{a,b}/*.tar")
    assert sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*.parquet")) == [
        "a/00000.parquet", "b/00000.parquet",
    ]  # fmt: skip
    assert found
    rows = folder / "in" / "00000.jsonl"
    rows.write_text(json.dumps({"candidate": "a"}) + "\n")
    with pytest.raises(ConfigError, match="would be one file"):
        run(folder, shards="00000.{tar,jsonl}")
    with pytest.raises(ConfigError, match="would overwrite"):
        main(
            ["--metrics", "length", "--input", str(rows), "--engine", "local", "--output", str(folder / "in")]
        )


def test_shards_whose_names_have_dots_have_scores_of_their_own(folder):
    for name in ("part.0.jsonl", "part.1.jsonl", "part.1.jsonl.gz"):
        content = (json.dumps({"candidate": "a " * 3}) + "\n").encode()
        (folder / "in" / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    run(folder, shards="part.{0,1}.jsonl")
    names = {path.name for path in (folder / "out").iterdir() if path.name.startswith("part")}
    assert names == {f"part.{n}{end}" for n in (0, 1) for end in (".parquet", "_stats.json")}
    run(folder, shards="part.{0,1}.jsonl")
    with pytest.raises(ConfigError, match="would be one file"):
        run(folder, shards="part.1.jsonl*")


def test_scores_of_shards_that_the_input_does_not_name_are_said(folder, capsys):
    """A shard that was taken out of the set leaves its scores, which are read with the others."""
    summary = folder / "s.json"
    run(folder, "--summary", str(summary))
    assert "does not name" not in capsys.readouterr().err
    assert json.loads(summary.read_text())["other_scores"] == []
    run(folder, "--summary", str(summary), shards="{00000..00001}.tar")
    other = str(folder / "out" / "00002_stats.json")
    said = f"has scores of shards that --input does not name: 1, such as {other}; they stay"
    assert said in capsys.readouterr().err
    assert json.loads(summary.read_text())["other_scores"] == [other]


def test_the_metadata_beside_archives_are_not_overwritten(folder):
    beside = {folder / "in" / name: name.encode() for name in ("00000.parquet", "00000_stats.json")}
    for path, content in beside.items():
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="give another folder"):
        main([*METRICS, "--input", str(folder / "in" / "*.tar"), "--output", str(folder / "in")])
    assert {path: path.read_bytes() for path in beside} == beside


def test_the_log_of_shards_has_what_that_of_a_file_has(folder, capsys):
    assert run_command(main, [
        *METRICS, "--input", str(folder / "in" / "*.tar"), "--output", str(folder / "out"), "--log-json", "-",
    ]) == 0  # fmt: skip
    told = {event["event"]: event for event in map(json.loads, capsys.readouterr().err.splitlines())}
    assert list(told) == ["start", "stage", "done", "summary", "note", "end"]
    assert (told["done"]["stage"], told["done"]["done"], told["done"]["total"]) == ("scoring", 3, 3)
    assert (told["summary"]["rows"], told["summary"]["metrics"]["length"]["n"]) == (15, 15)


def test_how_loud_shards_are(folder, capsys):
    arguments = [*METRICS, "--input", str(folder / "in" / "*.tar"), "--output"]
    assert run_command(main, [*arguments, str(folder / "loud"), "--verbose"]) == 0
    assert "scoring: 3 of 3 shards, " in capsys.readouterr().err
    assert run_command(main, [*arguments, str(folder / "quiet"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
