"""``suisei push``: a model folder onto the Hugging Face hub, with a card that the hub can read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from suisei.cli import say, write_output
from suisei.commands.command_parser import CommandParser
from suisei.commands.option_values import filled
from suisei.errors import ConfigError

_EPILOG = """examples:
  suisei push runs/mine my-name/my-metric --license cc-by-nc-4.0 --dry-run
  suisei push runs/mine/model my-name/my-metric --license cc-by-nc-4.0 --private

What is pushed is the model folder, nothing else of the run. Data, figures and languages in the card's
metadata are those of the run (report.json and test.jsonl beside the model); figures of another model than
this one, of which it was made by 'suisei compact', say, are left out. Metadata that you have written into the
model folder's README.md is kept. The licence is yours to choose, within the terms of the data that you
trained on.

suisei.load("my-name/my-metric") and suisei score --model my-name/my-metric then fetch it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    from rich.console import Console

    from suisei.adapters.hub_card import find_model, hub_card, read_run
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model, load_second, read_card
    from suisei.models.folder_checks import read_config
    from suisei.models.hub_folder import checked_hub_name, model_files, push_model

    name = checked_hub_name(options.name)
    folder, run = find_model(Path(options.folder))
    config = read_config(folder)  # before the report: runs of captioners and of RECAP have others
    facts = read_run(run)
    if facts.figures and not config["sha256"].get("config.json", "").startswith(facts.model):
        facts = replace(facts, figures={})  # this one was made of it by suisei compact, say
        said = f"{run / 'report.json'} has figures of another model; the card has none"
        say(Console(stderr=True), said, "yellow")
    text = read_card(folder) or "# A SuiSei model\n"
    card = hub_card(name, text, facts, license=options.license, language=_languages(options))
    _check(card)
    model = load_model(folder, check_names)  # what does not load here loads nowhere
    for second in model.seconds:
        load_second(second, check_names, model)
    if options.dry_run:
        sizes = [(file, (folder / file).stat().st_size) for file in model_files(folder)]
        lines = [f"{size:>13,}  {file}" for file, size in [*sizes, ("README.md", len(card.encode()))]]
        write_output(f"would be pushed to {name}:\n" + "\n".join(lines) + f"\n\n{_metadata(card)}\n")
        return 0
    address = push_model(folder, name, card, private=options.private, revision=options.revision)
    write_output(f'{address}\nsuisei.load("{name}") fetches it\n')
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei push",
        description="Write a model folder to the Hugging Face hub, as one commit.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("folder", metavar="DIR", type=filled, help="a model folder, or the run's folder that holds it")
    add("name", metavar="ORG/NAME", type=filled, help="of the model on the hub; made where it is not there")
    add(
        "--license",
        metavar="ID",
        type=filled,
        help="as the hub names it, such as cc-by-nc-4.0",
    )
    add("--language", metavar="ja,en", type=filled, help="(default: those of the run's test split)")
    add("--revision", metavar="BRANCH", type=filled, help="(default: the main one)")
    add("--private", action="store_true", help="if it is made: visible to you alone")
    add("--dry-run", action="store_true", help="check all, say what would be pushed, and contact nobody")
    return parser


def _languages(options: argparse.Namespace) -> list[str] | None:
    if options.language is None:
        return None
    return [language.strip() for language in options.language.split(",") if language.strip()]


def _metadata(card: str) -> str:
    return card.split("---\n")[1].rstrip()


def _check(card: str) -> None:
    """Refuse a card without what a reader must know, and what nobody but the user can say."""
    import yaml

    data = yaml.safe_load(_metadata(card))
    if not data.get("license"):
        raise ConfigError(
            "the card names no licence: give one by --license, such as apache-2.0 or cc-by-nc-4.0, within "
            "the terms of the data that the model was trained on"
        )
    if not data.get("language"):
        raise ConfigError("no run stands beside the model that says its languages: give --language ja,en")
