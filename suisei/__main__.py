"""The console command ``suisei`` and ``python -m suisei``: picks a subcommand, imports only that."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from suisei.cli import keep_memory, run_command, spare_cores, write_output
from suisei.errors import ConfigError
from suisei.version import __version__

COMMANDS = {
    "train": "train a model on human ratings and report correlations",
    "score": "score captions with a model or with any set of metrics",
    "explain": "say why a caption has its score: image, references, each word, each number",
    "compare": "compare captioning systems: scores, intervals, tests, where they differ",
    "caption": "write captions of images with a captioner",
    "rerank": "choose one of several captions of each image, by the others or by the image",
    "evaluate": "measure how well metrics agree with human ratings",
    "examine": "measure metrics on every benchmark and probe whose data is there, on one page",
    "report": "write one page out of trainings and results, with figures and pictures",
    "ablate": "train a model without one part at a time, and say what each is worth",
    "probe": "test that a metric notices what it should, and minds nothing else",
    "add-images": "have a model that reads captions look at images too",
    "add-model": "weigh a second model beside a model",
    "add-bridge": "have a caption beside references in the other language score as beside its own",
    "compact": "make a trained model small enough to ship, and say what that changes",
    "positives": "generate captions and images to train PAC-S with",
    "demo": "open a web page to score captions on, beside baselines",
    "push": "write a model to the Hugging Face hub, with a card that it reads",
    "cache": "show or remove the features that are kept between runs",
    "metrics": "list the metrics, what each needs, and why one is unavailable",
}
"""What each command does; its module in suisei.commands has its name, with _ for -."""
_QUICK = {"train": "train_help"}
"""Commands whose own module is slow to import, and what answers for them until there is work to do."""

RENAMED = {"sanity": "probe"}
"""Commands that were called otherwise in the version before."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``suisei COMMAND ...``; returns the exit status."""
    return run_command(_dispatch, argv)


def _dispatch(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        write_output(_usage())
        return 0
    name, *rest = arguments
    spare_cores()
    keep_memory()
    if name in ("-V", "--version"):
        write_output(f"suisei {__version__}\n")
        return 0
    if name in RENAMED:
        new = RENAMED[name]
        message = f"'suisei {name}' is called 'suisei {new}' now; the old name goes with the next version"
        warnings.warn(message, UserWarning, stacklevel=1)
        name = new
    if name not in COMMANDS:
        near = difflib.get_close_matches(name.strip("-").lower(), COMMANDS, 1)
        hint = f", did you mean {near[0]!r}?" if near else ";"
        raise ConfigError(f"no command {name[:60]!r}{hint} There are: {', '.join(COMMANDS)}")
    status: int = import_module(f"suisei.commands.{_QUICK.get(name, name).replace('-', '_')}").main(rest)
    return status


def _usage() -> str:
    lines = ["usage: suisei COMMAND [options]", "", "Rates image captions the way people do.", ""]
    lines += [f"  {name:<10} {summary}" for name, summary in COMMANDS.items()]
    lines += ["", "suisei COMMAND --help shows the options that most people use, --help all every one.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
