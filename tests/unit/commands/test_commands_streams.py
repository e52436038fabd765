"""Standard streams that are full, closed, pipes or files: no traceback, and nothing lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from suisei.cli import run_command, write_output
from suisei.errors import DataError

LENGTH = ["score", "--metrics", "length", "--window", "50"]
pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and /dev/fd")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("streams") / "in.jsonl"
    rows = [{"id": f"r{n}", "candidate": f"a dog {n}", "rating": n % 7 / 6} for n in range(3000)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shell(line, *arguments, folder):
    """Run a line of bash, in which S is ``python -m suisei``."""
    script = f'S() {{ "{sys.executable}" -m suisei "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *map(str, arguments)],
        capture_output=True,
        cwd=folder,
        check=False,
        text=True,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("where", ["> /dev/full", ">&-"])
@pytest.mark.parametrize(
    "command",
    [
        "",
        "--version",
        "score --help",
        "metrics",
        "metrics --json",
        "cache --cache .",
        "score --metrics length --input $1",
        "evaluate --metrics length --bootstrap 0 --data $1 --json a.json",
        "probe --metrics length --bootstrap 0 --data $1 --json a.json",
    ],
)
def test_an_output_that_takes_nothing_is_one_line(data, tmp_path, command, where):
    done = shell(f"S {command} {where}", data, folder=tmp_path)
    if command != "score --help" or where != ">&-":  # argparse keeps silent where it cannot write
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("suisei: standard output cannot be written: ")
    assert "--json a" not in command or json.loads((tmp_path / "a.json").read_text())


@pytest.mark.parametrize(
    "command",
    ["score --metrics length --input $1", "evaluate --metrics length --data $1 --json a.json", "metrics"],
)
def test_a_reader_that_goes_away_is_no_error(data, tmp_path, command):
    done = shell(f"S {command} | head -n 1; exit ${{PIPESTATUS[0]}}", data, folder=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert "--json" not in command or (tmp_path / "a.json").exists()


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", ">&- 2>&- <&-"])
def test_scores_are_written_whatever_becomes_of_messages(data, tmp_path, closed):
    shell(f"S {' '.join(LENGTH)} --input $1 --output o.jsonl {closed}", data, folder=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"r{n}" for n in range(3000)]


SOURCES = {
    "standard input by its name": "cat $1 | S {score} --input /dev/stdin",
    "standard input by its number": "cat $1 | S {score} --input /dev/fd/0",
    "redirected": "S {score} --input /dev/stdin < $1",
    "a substituted process": "S {score} --input <(cat $1)",
    "a link": "ln -s /dev/stdin in; cat $1 | S {score} --input in",
    "a pipe": "mkfifo in.jsonl; cat $1 > in.jsonl & S {score} --input in.jsonl",
    "a pipe without a format": "mkfifo in; cat $1 > in & S {score} --input in",
    "evaluated": "S evaluate --metrics length --data <(cat $1) --save-scores o.jsonl 1>&2; cat o.jsonl",
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_stream_can_be_read(data, tmp_path, source):
    done = shell(SOURCES[source].format(score=" ".join(LENGTH)), data, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [f"r{n}" for n in range(3000)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("S {score} --input - <&-", "standard input is closed"),
        ("S {score} --input /dev/stdin <&-", "standard input is closed"),
        ("S {score} --metrics cider --input - <&-", "standard input is closed"),
        ("S {score} --metrics cider --input <(cat $1)", "can be read only once"),
        ("S {score} --metrics cider --input /dev/stdin < <(cat $1)", "standard input can be read only once"),
        (
            "S {score} --format parquet --input <(cat $1)",
            "Parquet cannot be read from standard input or a pipe",
        ),
        ("S {score} --input - < /dev/null", "the file is empty"),
        (
            "echo id,candidate | S {score} --input -",
            "standard input is read as JSON Lines, or as --format says",
        ),
        ("cp $1 x.jsonl; S {score} --input x.jsonl >> x.jsonl", "--output /dev/stdout is the input"),
        ("cp $1 x.jsonl; S {score} --input - < x.jsonl >> x.jsonl", "--output /dev/stdout is the input"),
        ("cp $1 x.jsonl; S {score} --input - --summary x.jsonl < x.jsonl", "--summary x.jsonl is the input"),
        ("S {score} --input $1 --output /dev/stdout --resume", "--resume needs an --output file"),
    ],
)
def test_what_a_stream_cannot_do_is_one_line(data, tmp_path, line, message):
    done = shell(line.format(score=" ".join(LENGTH)), data, folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_outputs_named_by_descriptors_keep_what_was_printed(data, tmp_path):
    evaluate = "S evaluate --metrics length --bootstrap 0 --data $1"
    done = shell(
        f"{evaluate} --json /dev/stdout > all.txt; {evaluate} --json a.json > table.txt",
        data,
        folder=tmp_path,
    )
    assert done.returncode == 0
    parts = [(tmp_path / name).read_text() for name in ("a.json", "table.txt")]
    assert (tmp_path / "all.txt").read_text() == "".join(parts).replace('"a.json"', '"/dev/stdout"')
    done = shell(f"S {' '.join(LENGTH)} --input $1 --output /dev/fd/3 3> o.txt >&2", data, folder=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "o.txt").read_text().count("\n") == 3000


def test_rows_on_standard_output_are_utf8_in_every_locale(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"id": "犬😀", "candidate": "犬"}) + "\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "suisei", *LENGTH, "--input", str(path)],
        capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout.decode())["id"] == "犬😀"


def test_an_error_is_one_line_whatever_a_name_holds(capsys):
    def command(argv):
        raise DataError("a\nb\x1b[31m\r\udcff, row 1:  犬\u3000x")

    assert run_command(command) == 2
    assert capsys.readouterr().err == "suisei: a b\\x1b[31m \\udcff, row 1:  犬\u3000x\n"


def test_an_unexpected_error_of_the_system_names_its_file(capsys, tmp_path):
    def command(argv):
        (tmp_path / "absent").read_text()
        return 0

    assert run_command(command) == 2
    assert capsys.readouterr().err == f"suisei: {tmp_path / 'absent'}: No such file or directory\n"


def test_a_current_folder_that_was_removed_is_told(data, tmp_path):
    line = 'mkdir gone; cd gone; rmdir ../gone; S score --metrics length --input "$1" --output out.jsonl'
    done = shell(line, data, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("suisei: the current folder was removed; go to another one")


def test_text_for_standard_output_is_written_at_once(capsys):
    write_output("犬\n")
    assert capsys.readouterr().out == "犬\n"
