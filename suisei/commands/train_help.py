"""The short help of ``suisei train``, which needs none of the libraries that training does.

Every other command line is handed to :mod:`suisei.commands.train`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext

from suisei.cli import terminated_like_interrupted, write_output
from suisei.errors import SuiseiError
from suisei.training.first_process import started_by_another
from suisei.training.setting_names import as_settings

_UNKNOWN = "unrecognized arguments: "
_OTHERS = {
    "--column": "training has no --column: rename the column in the file",
    "--rating-scale": "in training it is --data.rating_scale '[LOW,HIGH]'",
    "--images": "in training it is --data.images DIR",
    "--on-error": "in training it is --data.on_error skip",
    "--any-path": "in training, set SUISEI_ANY_PATH=1",
}
"""What is said of options that the other commands have and training has not."""

TEXT = """usage: suisei train [--config FILE] [--SETTING VALUE ...]

Train on human ratings, then report correlations on the test split. Without a config it trains a small model
on the bundled sample.

settings that most people use:
  --config FILE               settings in YAML; shipped ones by name: scenes, small, suisei, pacs, captioner,
                              self_critical, recap_latent, ...
  --data.train FILE           ratings: .jsonl, .csv, .tsv, .parquet, or the name of a benchmark
  --data.images DIR           where the images are (default: beside the file)
  --data.rating_scale '[1,5]' lowest and highest rating (default: 0 to 1)
  --data.test FILE            what is tested on (default: a tenth of --data.train)
  --data.folds N              cross-validate instead
  --data.on_error skip        leave bad rows out (default: stop at the first)
  --output DIR                the run's folder (default: runs/CONFIG)
  --trainer.max_epochs N      at most
  --ckpt_path last            go on with the run in --output that was interrupted

examples:
  suisei train --data.train ratings.csv --data.rating_scale '[1,5]' --data.images photos --output runs/mine
  suisei train --config suisei --data.train ratings.jsonl --data.images photos
  suisei train --config runs/mine/config.yaml --ckpt_path last
  suisei train --config captioner --data.train flickr8k-train --data.root FLICKR8K
  suisei train --config self_critical --model runs/captioner/model --reward cider --data.root FLICKR8K

suisei train --help all lists every setting of the config's task (it takes some seconds), --print_config all
values as YAML. Settings of a config can be given on the command line. --quiet, --verbose and --log-json FILE
say how much is told of the run, as for the other commands.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Show the short help, or run the command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    asked = next((number for number, word in enumerate(arguments) if word in ("-h", "--help")), None)
    if asked is not None and arguments[asked + 1 : asked + 2] != ["all"]:
        write_output(TEXT)
        return 0
    if asked is not None:
        del arguments[asked + 1]
    # Others than the first process end without a word: it is the first that says something.
    with nullcontext() if started_by_another() else terminated_like_interrupted():
        from suisei.commands.train import main as train  # takes seconds

        try:
            return train(arguments)
        except SuiseiError as error:
            text = in_settings(str(error))
            if text == str(error):
                raise
            raise type(error)(text) from error


def in_settings(text: str) -> str:
    """Return an error with the settings of this command, where the readers name options of the others."""
    if text.startswith(_UNKNOWN):  # what follows is what was typed, and stays so
        typed = dict.fromkeys(word.partition("=")[0] for word in text.split())
        return "; ".join([text, *(_OTHERS[word] for word in typed if word in _OTHERS)])
    return as_settings(text)
