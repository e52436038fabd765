"""What commands write: never over an input or another output, never in the place of a device or a link."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from suisei.__main__ import main
from suisei.data import outputs
from suisei.data.outputs import check_outputs, raise_first, write_texts
from suisei.data.paths import descriptor_of, is_stream
from suisei.errors import ConfigError, DataError
from suisei.pacs.positive_writer import PositiveWriter, Recipe

CAPTIONS = ["a red ball", "two dogs run", "a cat sleeps on a mat", "the sun", "a man rides", "three stars"]


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with rated captions, scores from elsewhere and what stands for a model."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(n), "candidate": text, "references": [text, "a dog"], "rating": n / 5, "group": str(n % 3)}
        for n, text in enumerate(CAPTIONS)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "other.jsonl").write_text("".join(json.dumps({"id": r["id"], "x": 1}) + "\n" for r in rows))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    return tmp_path


COMMANDS = {
    "score": ["score", "--metrics", "length", "--input", "in.jsonl"],
    "evaluate": ["evaluate", "--metrics", "length", "--bootstrap", "0", "--data", "in.jsonl"],
    "probe": ["probe", "--metrics", "length", "--bootstrap", "0", "--data", "in.jsonl"],
}
PART = [*COMMANDS["score"][:-1], "a.jsonl.part"]
JOIN = ["positives", "join", "in.jsonl", "--positives", "other.jsonl"]
FILES = {
    "score": ["--output", "--summary"],
    "evaluate": ["--json", "--markdown", "--latex", "--plot", "--save-scores"],
    "probe": ["--json", "--markdown", "--latex"],
}
OPTIONS = [(command, option) for command, options in FILES.items() for option in options]


def same(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def linked(folder, kind):
    """Return another name of the input."""
    if kind == "itself":
        return "in.jsonl"
    if kind == "dotted":
        return "./model/../in.jsonl"
    if kind == "absolute":
        return str(folder / "in.jsonl")
    name = folder / "name.jsonl"
    if kind == "symbolic link":
        name.symlink_to("in.jsonl")
    else:
        os.link(folder / "in.jsonl", name)
    return "name.jsonl"


@pytest.mark.parametrize(("command", "option"), OPTIONS)
@pytest.mark.parametrize("kind", ["itself", "dotted", "absolute", "symbolic link", "hard link"])
def test_the_input_is_never_written_over(here, capsys, command, option, kind):
    name = linked(here, kind)
    before = same(here)
    assert run(*COMMANDS[command], option, name) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"suisei: {option} {name} is the input")
    assert error.count("\n") == 1
    assert same(here) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "score",
            "--metrics",
            "length",
            "--input",
            "in.jsonl",
            "--output",
            "a.jsonl",
            "--summary",
            "./a.jsonl",
        ],
        [
            "score",
            "--metrics",
            "length",
            "--input",
            "in.jsonl",
            "--output",
            "a.csv",
            "--summary",
            "a.csv.part",
        ],
        [*COMMANDS["score"], "--output", "a.csv", "--summary", "a.csv.part.json"],
        [*COMMANDS["evaluate"], "--json", "a.jsonl", "--save-scores", "a.jsonl"],
        [*COMMANDS["evaluate"], "--json", "a.x", "--plot", "model/../a.x"],
        [*COMMANDS["evaluate"], "--markdown", "a.x", "--latex", "link.x"],
        [*COMMANDS["probe"], "--markdown", "a.x", "--json", "a.x"],
    ],
)
def test_two_outputs_are_not_one_file(here, capsys, arguments):
    (here / "link.x").symlink_to("a.x")
    before = same(here)
    assert run(*arguments) == 2
    assert "give another name" in capsys.readouterr().err
    assert same(here) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*COMMANDS["evaluate"], "--scores", "other.jsonl", "--json", "other.jsonl"],
            "(--scores other.jsonl)",
        ),
        ([*COMMANDS["evaluate"], "--model", "model", "--json", "model/config.json"], "is a file of --model"),
        ([*COMMANDS["score"], "--model", "model", "--summary", "model/config.json"], "is a file of --model"),
        ([*COMMANDS["probe"], "--root", "model", "--json", "model/config.json"], "is a file of --root"),
        ([*COMMANDS["score"], "--summary", "photo.png"], "is an image or a video"),
        (
            [*COMMANDS["score"][:-1], "a.jsonl.part", "--output", "a.jsonl"],
            "is the input (--input a.jsonl.part)",
        ),
        ([*PART, "--output", "a.jsonl", "--resume"], "is the input"),
        (["positives", "join", "in.jsonl", "--positives", "other.jsonl", "--output", "in.jsonl"], "(DATA in"),
        (
            ["positives", "join", "in.jsonl", "--positives", "other.jsonl", "--output", "other.jsonl"],
            "--positives",
        ),
    ],
)
def test_what_else_is_read_is_never_written_over(here, capsys, arguments, message):
    (here / "a.jsonl.part").write_bytes((here / "in.jsonl").read_bytes())
    before = same(here)
    extra = [] if arguments[0] == "positives" or "--input" not in arguments else ["--format", "jsonl"]
    assert run(*arguments, *extra) == 2
    assert message in capsys.readouterr().err
    assert same(here) == before


def test_an_image_of_the_data_is_not_plotted_over(here, capsys):
    from PIL import Image

    Image.new("RGB", (5, 5)).save(here / "photo.png")
    rows = [
        json.loads(line) | {"image": "photo.png"} for line in (here / "in.jsonl").read_text().splitlines()
    ]
    (here / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = same(here)
    assert run(*COMMANDS["evaluate"], "--plot", "photo.png") == 2
    assert "photo.png is an image or video of the data" in capsys.readouterr().err
    assert same(here) == before


@pytest.mark.parametrize(("command", "option"), OPTIONS)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model", "is a folder; give the name of a file"),
        ("nowhere/a.jsonl", "its folder does not exist"),
        ("in.jsonl/a.jsonl", "Not a directory"),
        ("loop.jsonl", "Too many levels of symbolic links"),
        ("x" * 300 + ".jsonl", "File name too long"),
        ("", "is empty"),
    ],
)
def test_what_cannot_be_written_is_one_line(here, capsys, command, option, name, message):
    (here / "loop.jsonl").symlink_to("loop.jsonl")
    assert run(*COMMANDS[command], option, name) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("command", "option"), [("evaluate", "--save-idf"), ("probe", "--plots")])
@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl/deeper", "link", "link/deeper", "loop"])
def test_a_folder_to_write_into_is_no_file(here, capsys, command, option, name):
    for link, target in (("link", "nowhere"), ("loop", "loop")):
        (here / link).symlink_to(target)
    assert run(*COMMANDS[command], option, name) == 2
    said = "no folder" if name.startswith("in.") else "is a link to what is not there"
    assert f"{said}; give the name of a folder" in capsys.readouterr().err


def test_the_manifest_is_not_appended_to_the_data(here, capsys):
    (here / "captions.jsonl").write_bytes(b'{"image": "photo.png", "caption": "no line end"}')
    before = same(here)
    assert run("positives", "captions", "captions.jsonl", "--output", ".") == 2
    assert "is the input (DATA captions.jsonl)" in capsys.readouterr().err
    assert same(here) == before


@pytest.mark.parametrize("content", ['{"caption": "somebody else\'s"}', 'no item\n{"kind": "capt', "x"])
def test_another_file_of_the_manifests_name_is_not_cut(tmp_path, content):
    path = tmp_path / "captions.jsonl"
    path.write_text(content)
    with (
        pytest.raises(DataError, match=r"not an item of a manifest|not valid JSON"),
        PositiveWriter(tmp_path, "captions"),
    ):
        pass
    assert path.read_text() == content


def test_the_item_that_was_being_written_is_cut_off(tmp_path):
    with PositiveWriter(tmp_path, "captions") as writer:
        writer.begin(Recipe("tiny", "1", 0, {}))
        writer.add_caption("a", "a dog")
    whole = (tmp_path / "captions.jsonl").read_bytes()
    for rest in (b"{", b'{"kind": "captions", "sour'):
        (tmp_path / "captions.jsonl").write_bytes(whole + rest)
        with PositiveWriter(tmp_path, "captions") as writer:
            assert writer.done == {"a"}
        assert (tmp_path / "captions.jsonl").read_bytes() == whole


def device(path):
    """Make a node of the null device, as root alone can."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device node can be made here ({error})")
    return path


def ending(option: str) -> str:
    """Return what the file of an option is called like: a figure has the suffix of its format."""
    return "png" if option == "--plot" else "jsonl"


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_a_device_is_written_to_and_stays(here, command, option):
    device(here / "null.jsonl")
    assert run(*COMMANDS[command], option, "null.jsonl") == 0
    assert stat.S_ISCHR((here / "null.jsonl").stat().st_mode)
    assert not list(here.glob("*.part*"))


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_a_pipe_is_written_to_and_stays(here, command, option):
    pipe, read = here / f"pipe.{ending(option)}", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert run(*COMMANDS[command], option, pipe.name) == 0
    reader.join(20)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    file = here / f"file.{ending(option)}"
    assert run(*COMMANDS[command], option, file.name) == 0
    assert read[0]
    if option not in ("--summary", "--json"):  # which hold the time, and their own name
        assert read == [file.read_bytes()]


@pytest.mark.parametrize(("command", "option"), OPTIONS)
@pytest.mark.parametrize("there", [False, True])
def test_a_link_stays_and_what_it_names_is_written(here, command, option, there):
    target, link = here / "model" / f"real.{ending(option)}", here / f"link.{ending(option)}"
    if there:
        target.write_text("old")
    link.symlink_to(target)
    assert run(*COMMANDS[command], option, link.name) == 0
    assert link.is_symlink()
    assert target.read_bytes() not in (b"", b"old")


@pytest.mark.parametrize("command", ["evaluate", "probe"])
def test_one_output_that_fails_loses_neither_the_others_nor_the_tables(here, capsys, monkeypatch, command):
    from pathlib import Path

    real = Path.write_bytes

    def full(path, content):
        if ".json" in path.name:
            raise OSError(28, "No space left on device")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run(*COMMANDS[command], "--json", "a.json", "--markdown", "a.md") == 2
    shown = capsys.readouterr()
    assert "suisei: a.json: cannot be written: No space left on device" in shown.err
    assert "length" in shown.out
    assert "length" in (here / "a.md").read_text()
    assert not list(here.glob(".a.json*"))
    assert not (here / "a.json").exists()


def test_a_name_that_is_no_text_is_written_as_json_can_hold_it(here, capsys):
    name = os.fsdecode(b"bad\xff.jsonl")
    (here / name).write_bytes((here / "in.jsonl").read_bytes())
    arguments = ["--metrics", "length", "--bootstrap", "0", "--data", name]
    assert run("evaluate", *arguments, "--json", "a.json", "--markdown", "a.md") == 0
    assert json.loads((here / "a.json").read_text())["command"]["data"] == name
    assert "bad" in capsys.readouterr().out


def test_plots_of_two_metrics_have_two_names():
    from suisei.commands.probe_plots import file_names
    from suisei.probes.outcomes import Scored

    labels = ["suisei:a/b", "suisei:a:b", "suisei:a-b", "x" * 300, "length"]
    names = file_names([Scored(label, lambda _: None, "") for label in labels])
    assert len(set(names)) == len(labels)
    assert max(map(len, names)) < 100
    assert not any("/" in name for name in names)


def test_descriptors_have_many_names(tmp_path):
    (tmp_path / "link").symlink_to("/dev/stdout")
    assert descriptor_of("/dev/stdout") == descriptor_of("/dev/fd/1") == descriptor_of("/proc/self/fd/1") == 1
    assert descriptor_of("/dev/../dev/stdin") == 0
    assert descriptor_of(tmp_path / "link") == 1
    assert descriptor_of(tmp_path / "absent") is None
    assert is_stream("/dev/null")
    assert not is_stream(tmp_path)
    assert not is_stream(tmp_path / "absent")


def test_check_outputs_accepts_what_is_harmless(tmp_path):
    (tmp_path / "in.jsonl").write_text("a")
    for name in ("old.json", "old.png"):
        (tmp_path / name).write_text("a")
    check_outputs(
        [
            ("--json", tmp_path / "old.json"),
            ("--latex", None),
            ("--plot", "/dev/null"),
            ("--summary", "/dev/null"),
        ],
        [("--input", tmp_path / "in.jsonl"), ("--data", "scenes"), ("--scores", None)],
        pictures=[("--plot", tmp_path / "old.png")],
        folders=[("--plots", tmp_path / "new" / "deep"), ("--save-idf", None)],
        sealed=[("--model", tmp_path / "absent"), ("--model", "mini")],
    )
    with pytest.raises(ConfigError, match="--json -: give the name of a file"):
        check_outputs([("--json", "-")])


def test_inputs_are_looked_at_once_for_all_outputs(tmp_path, monkeypatch):
    """A set in shards has hundreds of thousands, on a disk that may be far away."""
    seen = []
    original = outputs._file_status
    monkeypatch.setattr(outputs, "_file_status", lambda path: seen.append(str(path)) or original(path))
    names = [str(tmp_path / name) for name in ("a.tar", "b.tar", "s.json", "u.npy")]
    for name in names:
        Path(name).write_bytes(b"x")
    read, written = [("--input", name) for name in names[:2]], [("--out", name) for name in names[2:]]
    outputs.check_outputs(written, read)
    assert sorted(seen) == names
    with pytest.raises(ConfigError, match=f"--plot {names[1]} is the input .--input {names[1]}."):
        outputs.check_outputs([*written, ("--plot", names[1])], read)


def test_texts_are_all_tried_and_problems_raised_together(tmp_path):
    problems = write_texts(
        [(tmp_path / "no" / "a", "x"), (None, "y"), (tmp_path / "b", "z"), (tmp_path, "w")]
    )
    assert (tmp_path / "b").read_text() == "z"
    assert len(problems) == 2
    with pytest.raises(DataError, match=r"No such file or directory; .*is a folder"):
        raise_first(problems)
    raise_first([])
