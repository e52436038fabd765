"""Rows of kinds whose scores do not compare: counted and said of shards as of a file."""

import json

import pytest
from PIL import Image

from suisei.commands.score import main

KINDS = (
    "rows",
    "rows_across_languages",
    "rows_in_other_scripts",
    "rows_in_marks",
    "rows_with_references",
    "rows_with_an_image_alone",
)


@pytest.fixture
def rows(tmp_path):
    """A file of rows, and two shards of the same."""
    Image.new("RGB", (8, 8)).save(tmp_path / "i.png")
    rows = [
        {"candidate": "a red ball", "references": ["赤いボール"], "image": "i.png"},
        {"candidate": "a red ball", "references": ["a ball"]},
        {"candidate": "a red ball", "references": ["赤いボール", "the ball"]},
        {"candidate": "a red ball", "references": [], "image": "i.png"},
        {"candidate": "犬", "references": ["a dog"]},
        {"candidate": "", "references": ["a dog"]},
        {"candidate": "개가 달린다", "references": ["a dog"]},
        {"candidate": "공이 빨갛다", "references": ["a red ball"]},
        {"candidate": '"a red ball"', "references": ["a red ball"]},
    ]
    for name, part in (("all", rows), ("0", rows[:3]), ("1", rows[3:])):
        text = "".join(json.dumps(row) + "\n" for row in part)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def counted(folder, capsys, shards, output, *options):
    """Return the counts of a run and what it says of kinds of rows."""
    given = [*map(str, options), "--input", str(folder / shards), "--output", str(folder / output)]
    capsys.readouterr()
    assert main([*given, "--summary", str(folder / "s.json")]) == 0
    summary = json.loads((folder / "s.json").read_text(encoding="utf-8"))
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("· of the rows ")]
    return [summary[kind] for kind in KINDS], said


def test_kinds_of_rows_are_counted_in_shards_as_in_a_file(rows, capsys, model_folder):
    options = ("--model", model_folder)
    whole = counted(rows, capsys, "all.jsonl", "all.out.jsonl", *options, "--on-error", "skip")
    assert whole[0] == [9, 2, 2, 1, 7, 1]
    told = (
        "2 have no reference in the candidate",
        "2 have a caption that is neither",
        "1 has a candidate that stands in quotation marks, brackets or asterisks, or behind the mark of a",
        "1 has an image",
    )
    assert [part in note for part, note in zip(told, whole[1], strict=True)] == [True] * 4
    for _ in range(2):  # those of shards that were finished before, too
        assert counted(rows, capsys, "{0..1}.jsonl", "out", *options) == whole
