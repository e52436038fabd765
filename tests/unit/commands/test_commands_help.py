"""Help that is short and quick, and what is said after a slip."""

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from suisei.__main__ import COMMANDS, main
from suisei.commands import train_help
from suisei.commands.command_parser import COMMON, CommandParser
from suisei.errors import ConfigError


def shown(capsys, *arguments):
    try:
        status = main(list(arguments))
    except SystemExit as end:
        status = end.code
    assert not status
    return capsys.readouterr().out


def stand_in(monkeypatch, run):
    """Let something else be the command that trains, which takes seconds to import."""
    monkeypatch.setitem(sys.modules, "suisei.commands.train", SimpleNamespace(main=run))


def options_in(text):
    """The options that have an entry of their own."""
    return set(re.findall(r"^  (?:-\w[^,]*, )?(--[\w-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", ["score", "evaluate", "compare", "probe"])
def test_help_shows_ten_options_and_help_all_every_one(capsys, command):
    short = shown(capsys, command, "--help")
    every = shown(capsys, command, "--help", "all")
    assert len(options_in(short) - {"--help"}) == 10
    assert options_in(short) < options_in(every)
    assert f"suisei {command} --help all shows all {len(options_in(every)) - 1} options" in short
    assert "examples:" in short
    assert "Exit status" not in short
    assert "Exit status" in every
    assert shown(capsys, command, "-h") == short


@pytest.mark.parametrize("command", ["cache", "metrics", "ablate"])
def test_few_options_are_all_shown(capsys, command):
    assert shown(capsys, command, "--help") == shown(capsys, command, "--help", "all")


def test_help_after_other_options_and_of_a_command_inside_a_command(capsys):
    assert shown(capsys, "score", "--metrics", "bleu-1", "--help") == shown(capsys, "score", "--help")
    assert "--beams" in shown(capsys, "positives", "captions", "--help", "all")
    assert "--output" in shown(capsys, "positives", "captions", "--help")


def test_help_takes_all_or_nothing(capsys):
    assert main(["score", "--help", "everything"]) == 2
    assert "--help: takes nothing or 'all', got 'everything'" in capsys.readouterr().err


def test_a_parser_without_a_list_shows_what_most_commands_have_in_common():
    parser = CommandParser(prog="x")
    for name in ("--output", "--odd", *(f"--rare-{n}" for n in range(12))):
        parser.add_argument(name)
    parser.add_argument("--needed", required=True)
    assert "--output" in COMMON
    assert options_in(parser.short_help()) == {"--help", "--output", "--needed"}
    assert "--odd" in parser.format_help()


def test_files_stand_before_and_after_options():
    parser = CommandParser(prog="x")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output")
    found = parser.parse_args(["a", "b", "--output", "o", "c"])
    assert (found.files, found.output) == ([Path("a"), Path("b"), Path("c")], "o")
    with pytest.raises(ConfigError, match="--outptu is no option, did you mean --output"):
        parser.parse_args(["a", "--outptu", "o"])


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_the_list_of_commands(capsys, arguments):
    text = shown(capsys, *arguments)
    assert all(f"  {name} " in text for name in COMMANDS)
    assert "--help all" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scroe"], "no command 'scroe', did you mean 'score'?"),
        (["Evaluate"], "no command 'Evaluate', did you mean 'evaluate'?"),
        (["score", "--inptu", "x"], "--inptu is no option, did you mean --input?"),
        (["score", "--input", "x", "--metrcs=bleu-4"], "--metrcs is no option, did you mean --metrics?"),
        (
            ["score", "--input", "x", "--on_error", "skip"],
            "--on_error is no option, did you mean --on-error?",
        ),
        (["evaluate", "--data", "x", "-metrics", "bleu-4"], "-metrics is no option, did you mean --metrics?"),
        (["compare", "a", "b", "--refernces", "x"], "--refernces is no option, did you mean --references?"),
        (["positives", "captions", "x", "--ouptut", "y"], "did you mean --output?"),
        (["cache", "--claer"], "did you mean --clear?"),
        (["metrics", "--jsn"], "did you mean --json?"),
    ],
)
def test_a_slip_is_one_line_with_what_was_meant(capsys, arguments, message):
    assert main(arguments) == 2
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
    assert message in found.err


def test_no_suggestion_for_what_is_near_to_nothing():
    parser = CommandParser(prog="x")
    parser.add_argument("--output")
    with pytest.raises(ConfigError, match=r"unrecognized arguments: --zzzzzz \(see x --help\)"):
        parser.parse_args(["--zzzzzz"])


def test_the_help_of_training_imports_nothing_heavy():
    code = (
        "import sys; from suisei.__main__ import main; assert main(['train', '--help']) == 0; "
        "assert main(['train', '--config', 'scenes', '-h']) == 0; "
        "print([name for name in ('torch', 'lightning', 'jsonargparse', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert done.stdout.count("suisei train --help all") == 2


def test_everything_else_goes_to_training(monkeypatch):
    seen = []
    stand_in(monkeypatch, lambda arguments: seen.append(arguments) or 0)
    assert train_help.main(["--help", "all"]) == 0
    assert train_help.main(["--data.train", "all"]) == 0
    assert seen == [["--help"], ["--data.train", "all"]]


@pytest.mark.slow
def test_the_help_of_training_names_settings_that_there_are(capsys):
    named = set(re.findall(r"^  (--[\w.]+)", train_help.TEXT, re.MULTILINE))
    assert len(named) == 10
    every = shown(capsys, "train", "--help", "all")
    assert {name for name in named if not re.search(rf"{re.escape(name)}[ =]", every)} == set()


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        (
            "fix it, or say the right scale: --rating-scale LOW HIGH, or a column rating_scale",
            "scale: --data.rating_scale '[LOW,HIGH]', or a column rating_scale",
        ),
        ("the folder that holds the images (--images DIR)", "(--data.images DIR)"),
        (
            "holds the images (--images DIR) or, if you trust the file, pass --any-path",
            "(--data.images DIR, of pairs --data.root DIR) or, if you trust the file, set SUISEI_ANY_PATH=1",
        ),
        ("say which: --column candidate=caption", "say which: rename the column"),
        ("do without: --column image=", "call the column 'group', by which the data are split, in the file"),
        ("say which: --column image=file", "say which: rename the column"),
        ("(to do without: --column id=) (line 3)", "(to do without: rename the column) (line 3)"),
        ("(--on-error skip leaves bad rows out)", "(--data.on_error skip leaves bad rows out)"),
    ],
)
def test_training_is_advised_in_its_own_settings(advice, expected):
    assert train_help.in_settings(advice).endswith(expected)


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("--column rating=stars --column candidate=my_cap", "; training has no --column: rename the column"),
        ("--on-error skip", "; in training it is --data.on_error skip"),
        ("--images=photos", "; in training it is --data.images DIR"),
        ("--colum rating=stars", ""),
    ],
)
def test_what_was_typed_in_training_is_shown_as_it_was_typed(typed, advice):
    told = train_help.in_settings(f"unrecognized arguments: {typed} (suisei train --help)")
    assert told.startswith(f"unrecognized arguments: {typed} (suisei train --help){advice}")
    assert told.count(";") == bool(advice)


def test_training_on_ratings_off_their_scale_advises_its_own_setting(tmp_path, monkeypatch, capsys):
    from suisei.data.formats import read_samples

    path = tmp_path / "rated.jsonl"
    path.write_text('{"candidate": "a dog", "rating": 4}\n')
    stand_in(monkeypatch, lambda arguments: len(read_samples(path)))
    assert main(["train", "--data.train", str(path)]) == 2
    error = capsys.readouterr().err
    assert "row 1: rating 4 is outside the rating scale 0 to 1" in error
    assert "--data.rating_scale '[LOW,HIGH]'" in error
    assert "--rating-scale" not in error


class StoppedError(Exception):
    """Stops a command where it would read its options."""


def parsers(parser):
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"train"}))
def test_an_option_says_its_default(command, monkeypatch):
    def stop(parser, *_, **__):
        raise StoppedError(parser)

    monkeypatch.setattr(CommandParser, "parse_known_args", stop)
    with pytest.raises(StoppedError) as stopped:
        main([command])
    silent = [
        action.option_strings
        for parser in parsers(stopped.value.args[0])
        for action in parser._actions
        if isinstance(action, argparse._StoreAction) and action.option_strings
        if action.default not in (None, argparse.SUPPRESS, []) or action.dest in ("rating_scale", "device")
        if "default" not in action.help
    ]
    assert not silent


@pytest.mark.parametrize("first", [None, "1"])
def test_a_request_to_terminate_while_training_is_imported_is_like_ctrl_c(first, monkeypatch, capsys):
    """Of the process that a person started: those that it starts itself leave the word to it."""
    ended = []

    def else_handled(*_):
        ended.append("otherwise")
        raise KeyboardInterrupt

    class Importing:
        def __getattr__(self, name):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setitem(sys.modules, "suisei.commands.train", Importing())
    if first is not None:
        monkeypatch.setenv("SUISEI_FIRST_PROCESS", first)
    before = signal.signal(signal.SIGTERM, else_handled)
    try:
        assert main(["train"]) == 130
        assert signal.getsignal(signal.SIGTERM) is else_handled
    finally:
        signal.signal(signal.SIGTERM, before)
    assert bool(ended) == (first is not None)
    assert capsys.readouterr().err == "suisei: interrupted\n"
