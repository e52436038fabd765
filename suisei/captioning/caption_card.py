"""The card of a trained captioner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES
from suisei.version import __version__

_FIGURES = {"cider": "CIDEr (0 to 10)", "bleu-4": "BLEU-4", "rouge-l": "ROUGE-L", "empty": "empty captions"}


def card(facts: Mapping[str, Any], config: Any) -> str:
    """Return the card's Markdown.

    Args:
        facts: what ``report.json`` says.
        config: the resolved settings of the run.
    """
    languages = " and ".join(LANGUAGE_NAMES[code] for code in facts["languages"])
    tower = config.model.tower
    eyes = f"`{tower.name}`, {'trained with it' if tower.train else 'frozen'}"
    sources = ", ".join(f"{part}: {name}" for part, name in facts["sources"].items() if name)
    images = facts["images"]
    trained = counted(images["train"], "training image")
    tested = f", {images['test']:,} for the test" if images["test"] else ""
    skipped = f" Left out: {counted(facts['skipped_rows'], 'bad row')}." if facts["skipped_rows"] else ""
    return f"""# A captioner

Writes captions of images in {languages}. Trained with suisei {__version__} by cross-entropy.

    suisei caption --model FOLDER --images FOLDER_OF_IMAGES --output captions.jsonl

## Data
{sources}. {trained}, {images["validation"]:,} for validation, which chose the
weights{tested}.{skipped}

## Figures
{_table(facts)}
Of captions by {facts["decoding"]}; CIDEr's idf is of the references of the same images.

## Training
{counted(facts["steps"], "step")} in {facts["minutes"]:.1f} minutes, seed {facts["seed"]};
{facts["weights"]:,} weights; tower {eyes}.

```json
{json.dumps(vars(config.model), indent=2, ensure_ascii=False, default=vars)}
```

## Limits
It knows images and captions like those it was trained on, and says something of every image, true or not:
count on neither names nor numbers nor text in a picture. It may repeat its training captions word for word.
"""


def _table(facts: Mapping[str, Any]) -> str:
    rows = [
        (part, language, figures)
        for part in ("validation", "test")
        for language, figures in facts.get(part, {}).items()
    ]
    lines = [f"| images | language | {' | '.join(_FIGURES.values())} |", "|---" * (2 + len(_FIGURES)) + "|"]
    for part, language, figures in rows:
        cells = " | ".join(_cell(figures[name]) for name in _FIGURES)
        lines.append(f"| {part} | {LANGUAGE_NAMES[language]} | {cells} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}".removesuffix(".000")
