"""What tests of the score command share: captions, and a run of the command."""

from functools import partial

from suisei.commands.score import main
from tests.unit import runs

ENGLISH = ["a red ball on the table", "two small blue dogs", "a dog sleeps on a chair", "three yellow stars"]
JAPANESE = ["赤いボールが机の上にある", "小さな青い犬が二匹いる", "椅子で犬が寝ている", "黄色い星が三つ光る"]

run = partial(runs.run, main)
