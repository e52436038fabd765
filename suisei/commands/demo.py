"""``suisei demo``: a web page on this machine to try metrics on."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from suisei.cli import write_output
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans
from suisei.commands.option_values import filled, whole
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from suisei.demo.scoreboard import Scoreboard

METRICS = ("suisei", "bleu-4", "rouge-l", "chrf", "unigram-f1")
"""What the page shows by default: what runs everywhere and needs no corpus."""
HERE = "127.0.0.1"
_QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "GRADIO_NUM_PORTS": "100"}
_EPILOG = """The page answers on this machine alone, unless --host says otherwise. What visitors give lies in
a temporary folder for an hour at most, and is removed when the command ends. It is not logged or sent
anywhere; of a request for an endpoint that the page does not have, Gradio prints the name.

The first metric is the one that is explained."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command until it is interrupted; returns the exit status."""
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)
    if not (options.model or options.metrics):
        options.metrics = [",".join(METRICS)]
    with temporary_uploads() as folder:
        from suisei.demo.webpage import launch_settings, load_gradio, make_page

        gradio = load_gradio()
        page = make_page(make_board(options))
        settings = launch_settings(
            gradio, host=options.host, port=options.port, megabytes=options.max_upload, folder=folder
        )
        try:
            _, address, _ = page.launch(prevent_thread_lock=True, **settings)
        except OSError as error:
            raise ConfigError(f"--host {options.host} --port {options.port or 'any'}: {error}") from None
        with suppress(KeyboardInterrupt):
            write_output(f"{address}   (end with Ctrl-C)\n")
            page.block_thread()
    return 0


def _end(*_: object) -> None:
    sys.exit(128 + signal.SIGTERM)  # through the blocks that remove what visitors gave


def make_board(options: argparse.Namespace) -> Scoreboard:
    """Return the metrics that were asked for, made.

    Raises:
        ConfigError: an unknown metric, or one that needs a corpus.
        UnavailableError: one that cannot run here.
    """
    from suisei.demo.scoreboard import Scoreboard
    from suisei.scoring.columns import make_metric
    from suisei.scoring.plan import short_labels

    plans = metric_plans(options)
    made = [make_metric(plan) for plan in plans]
    return Scoreboard(dict(zip(short_labels(plans), made, strict=True)))


@contextmanager
def temporary_uploads() -> Iterator[str]:
    """Let Gradio put what visitors give into a folder that is removed at the end; import it inside only."""
    before = {name: os.environ.get(name) for name in (*_QUIET, "GRADIO_TEMP_DIR")}
    with tempfile.TemporaryDirectory(prefix="suisei-demo-") as folder:
        os.environ.update(_QUIET, GRADIO_TEMP_DIR=folder)
        try:
            yield folder
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei demo",
        description="Open a web page to score captions on, beside baselines and with the reasons.",
        epilog=_EPILOG,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("page").add_argument
    add("--host", metavar="ADDRESS", type=filled, default=HERE,
        help=f"0.0.0.0 lets others in (default {HERE})")  # fmt: skip
    add("--port", metavar="N", type=whole(1, 65535), help="(default: the first free one from 7860)")
    add("--max-upload", metavar="MB", type=whole(1, 1024), default=10, help="of a file (default 10)")
    return parser
