"""What tests of the score command share: rows of JSON in files, and a run of the command."""

import json
from pathlib import Path

from suisei.cli import run_command
from suisei.commands.score import main

ENGLISH = ["a red ball on the table", "two small blue dogs", "a dog sleeps on a chair", "three yellow stars"]
JAPANESE = ["赤いボールが机の上にある", "小さな青い犬が二匹いる", "椅子で犬が寝ている", "黄色い星が三つ光る"]


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def run(*arguments):
    return run_command(main, [str(argument) for argument in arguments])
