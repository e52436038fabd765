"""The bundled bilingual sample: rendered scenes, captions good and bad, and simulated ratings.

``python -m suisei.data.scenes --out DIR --seed 0`` writes ``captions.jsonl`` and ``images/`` byte for
byte as they are shipped in ``data/scenes``. Everything is made here: the scenes
(:mod:`suisei.data.scenes.world`), the images (:mod:`suisei.data.scenes.render`), the captions
(:mod:`suisei.data.scenes.captions_ja`, :mod:`suisei.data.scenes.captions_en`), and the faults, the
written rubric and the raters (:mod:`suisei.data.scenes.faults`). The ratings are simulated: they show
that a model learns and uses what it is given, and say nothing of people.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suisei.cli import run_command
from suisei.data.scenes.faults import (
    FAULTS,
    GRAMMARS,
    Unsaid,
    break_grammar,
    rate,
    raters,
    repeat,
    rubric,
    true_message,
)
from suisei.data.scenes.render import encode_png, render
from suisei.data.scenes.world import Dice, Message, Scene, describe, leave_out, make_scene, overlook

SCENES = 300
LANGUAGES = ("ja", "en")
ROWS_PER_LANGUAGE = 4
RATING_SCALE = (1, 5)

SYSTEM_WEIGHTS = {
    "faithful": 9,
    "partial": 7,
    "wrong-object": 6,
    "wrong-colour": 6,
    "wrong-count": 4,
    "wrong-relation": 4,
    "wrong-background": 3,
    "wrong-size": 1,
    "hallucinated-object": 4,
    "missing-object": 4,
    "repetition": 3,
    "broken-grammar": 3,
    "other-scene": 10,
}
"""How often each way of making a candidate is tried; one row in each four is always faithful or partial."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate before it is rated."""

    tokens: list[str]
    value: int
    system: str


def generate(seed: int = 0) -> list[tuple[bytes, list[Row]]]:
    """Make the sample.

    Args:
        seed: every choice follows from it; 0 gives the shipped sample.

    Returns:
        One pair per scene: the PNG's bytes, and the rows about it as they stand in the JSONL. A row's
        ``id`` is its place in a random order of all rows.
    """
    dice = Dice(seed)
    scenes = [make_scene(dice) for _ in range(SCENES)]
    biases = raters(dice)
    made = []
    for number, scene in enumerate(scenes):
        rows = [row for language in LANGUAGES for row in _rows(scene, scenes, language, biases, dice)]
        for row in rows:
            row["image"] = f"images/{number + 1:04d}.png"
            row["group"] = f"scene-{number + 1:04d}"
        made.append((encode_png(render(scene)), rows))
    _number([row for _, rows in made for row in rows], dice)
    return made


def _number(rows: list[Row], dice: Dice) -> None:
    for position, row in enumerate(dice.shuffled(rows)):
        row["id"] = f"{position + 1:04d}"


def _rows(scene: Scene, scenes: list[Scene], language: str, biases: list[int], dice: Dice) -> list[Row]:
    """Return the rows of one scene in one language, each of another system."""
    pool = _references(scene, language, dice)
    rows: list[Row] = []
    systems: set[str] = set()
    while len(rows) < ROWS_PER_LANGUAGE:
        references = dice.shuffled(pool)[:2]
        system = dice.weighted(SYSTEM_WEIGHTS) if rows else dice.choice(("faithful", "partial"))
        draft = _draft(system, scene, scenes, [message for message, _ in references], language, dice)
        texts = [text for _, text in references]
        if draft is None or system in systems or GRAMMARS[language].join(draft.tokens) in texts:
            continue
        systems.add(system)
        rows.append(_row(draft, texts, language, rate(draft.value, biases, dice)))
    return rows


def _row(draft: Draft, references: list[str], language: str, rating: list[int]) -> Row:
    return {
        "id": "",
        "candidate": GRAMMARS[language].join(draft.tokens),
        "references": references,
        "image": "",
        "rating": rating,
        "rating_scale": list(RATING_SCALE),
        "language": language,
        "system": draft.system,
        "group": "",
    }


def _references(scene: Scene, language: str, dice: Dice) -> list[tuple[Message, str]]:
    """Return four true captions, all different, each of which leaves something out.

    One thing is left out by all four, as people overlook the same things.
    """
    grammar = GRAMMARS[language]
    overlooked = overlook(scene, dice)
    pool: dict[str, Message] = {}
    while len(pool) < 4:
        message = leave_out(overlooked(describe(scene, dice)), dice, dice.choice((0, 0, 1, 1)))
        pool.setdefault(grammar.join(grammar.caption(message, dice)), message)
    return [(message, text) for text, message in pool.items()]


def _draft(
    system: str, scene: Scene, scenes: list[Scene], references: list[Message], language: str, dice: Dice
) -> Draft | None:
    """Return a candidate of the given kind, or None where the scene does not allow it."""
    grammar = GRAMMARS[language]
    if system == "other-scene":
        scene_told = dice.choice([other for other in scenes if other is not scene])
        message = true_message(scene_told, dice, dice.below(3))
        return Draft(grammar.caption(message, dice), rubric(scene, message), system)
    things = {"faithful": 0, "partial": dice.choice((1, 2, 2, 3))}.get(system, dice.choice((0, 0, 0, 1)))
    message = true_message(scene, dice, things)
    if system in FAULTS:
        false = FAULTS[system](scene, message, Unsaid(references), dice)
        if false is None:
            return None
        return Draft(grammar.caption(false, dice), rubric(scene, false), system)
    tokens = grammar.caption(message, dice)
    if system == "repetition":
        return Draft(repeat(tokens, language, dice), rubric(scene, message, repeated=True), system)
    if system == "broken-grammar":
        return Draft(break_grammar(tokens, language, dice), rubric(scene, message, broken=True), system)
    return Draft(tokens, rubric(scene, message), system)


def write(folder: str | Path, seed: int = 0) -> None:
    """Write ``captions.jsonl`` and ``images/*.png`` into a folder, which is made if need be."""
    folder = Path(folder)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for image, about in generate(seed):
        (folder / about[0]["image"]).write_bytes(image)
        rows += about
    rows.sort(key=lambda row: row["id"])
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "captions.jsonl").write_bytes(lines.encode("utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    """Write the sample from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m suisei.data.scenes", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--out", required=True, type=Path, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0, help="0, the default, gives the shipped sample")
    arguments = parser.parse_args(argv)
    write(arguments.out, arguments.seed)
    sys.stdout.write(f"wrote {SCENES} scenes to {arguments.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
