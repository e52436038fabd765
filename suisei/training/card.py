"""The model card, written from the facts of the run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES
from suisei.metrics.training_data import BEFORE, learned_sentence
from suisei.training.cautions import as_markdown
from suisei.version import __version__

_PLACE = re.compile(r'"([a-z-]+:)?((?:/|~/|\.{1,2}/|[A-Za-z]:[\\/])[^"]*)"')
"""A path among the settings that a card shows, such as that of an encoder, or of a metric's own model."""
NO_SCORE = "A caption without all that the model compares it with, references or image, has no score."
"""What is true of a model that starts from the cosine."""
_NAMES = {"train": "training", "validation": "validation", "test": "test"}


def model_card(report: dict[str, Any], results: str, settings: dict[str, Any]) -> str:
    """Return the card's Markdown, which names files without their folder: others get it with the model.

    Args:
        report: the run's report (data, training, machine).
        results: the table of results as Markdown, headed at level 2.
        settings: the model's settings.
    """
    training = report["training"]
    data = _without_folders(report["data"])
    shown = without_places(json.dumps(settings, indent=2, ensure_ascii=False, default=str))
    return f"""# A SuiSei model

Rates how well a caption describes an image, from 0 to 1. Trained with suisei {__version__}.

```python
import suisei

metric = suisei.load("PATH OF THIS FOLDER")
metric.score(["a caption"]{_beside(data)})
```

## Data

{describe_data(data)}

{as_markdown(report.get("cautions", ()))}{results}
## Training

{describe_training(training)}
- {training["trainable_parameters"]:,} trainable parameters

```json
{shown}
```

## Limits

- Scores follow the people who rated the training data, on images and captions like theirs. On another kind of
  image or another style of caption, measure the agreement first: `suisei evaluate`.
- {_reading(data, settings)}
- {_languages(data.get("languages", {}))}
- {_missing(data, settings)}
- A difference between two systems needs a test, not two numbers: `suisei compare`.
"""


def without_places(card: str) -> str:
    """Return a card's text with the last part alone of every path among its settings."""
    return _PLACE.sub(lambda found: f'"{found[1] or ""}{PurePath(found[2]).name}"', card)


def _without_folders(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report says of its data with files named without their folder; data sets keep theirs."""
    kinds = ("sources", "support", "learned_before")
    listed = {kind: [Path(name).name for name in data.get(kind) or ()] for kind in kinds}
    given = {part: Path(name).name for part, name in data.get("given", {}).items()}
    return {**data, **listed, "given": given}


def _reading(data: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what the model does with an image, and how often it saw one."""
    if "image" not in data.get("reads", ()):
        return "It does not look at the image."
    if _start(settings) == "cosine" and not data.get("image_beside_references"):
        return (
            "It looks at the image only where there are no references; beside references it changes nothing."
        )
    if not data.get("images"):
        return (
            "It looks at an image where one is given, but no rated training sample had one: measure it first."
        )
    share = f"{data['images']:,} of its {counted(data['samples']['train'], 'rated training sample')}"
    return f"It reads an image where one is given; {share} had one."


def _start(settings: Mapping[str, Any]) -> str | None:
    """Return where the score starts, ``model.head.start``."""
    head = settings.get("head")
    return head.get("start") if isinstance(head, Mapping) else getattr(head, "start", None)


def _beside(data: Mapping[str, Any]) -> str:
    """Return what the card's example gives beside the candidate: what the training had."""
    references = ', references=[["what a person wrote"]]' if _referenced(data) else ""
    return references + ', images=["image.jpg"]' * ("image" in data.get("reads", ()))


def _referenced(data: Mapping[str, Any]) -> bool:
    """Return whether a rated training sample had references; reports of earlier versions do not say."""
    return data.get("references") != 0


def _missing(data: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Return what becomes of a caption that lacks references or image."""
    if _start(settings):  # true too of the model that suisei add-images makes of it
        return NO_SCORE
    if not _referenced(data):
        return "No rated training sample had references: measure it beside them first."
    absent = "References and image" if "image" in data.get("reads", ()) else "References"
    return f"{absent} may be missing, at some loss of agreement; a candidate alone says little."


def _languages(counts: Mapping[str, int]) -> str:
    """Return which languages the model learned to rate, and which it did not."""
    learned = [f"{counts[key]:,} {name}" for key, name in LANGUAGE_NAMES.items() if counts.get(key)]
    never = [name for key, name in LANGUAGE_NAMES.items() if not counts.get(key)]
    if not learned:
        return "Which languages it learned from is not recorded."
    text = f"It learned from ratings of {' and '.join(learned)} captions"
    return f"{text}, and from none in {' or '.join(never)}: measure it there first." if never else f"{text}."


def describe_data(data: dict[str, Any]) -> str:
    """Return a paragraph on the data of a run: where from, how much, how split."""
    given = {part: f" of {source}" for part, source in data.get("given", {}).items()}
    counts = ", ".join(
        f"{counted(count, f'{_NAMES[part]} sample')}{given.get(part, '')} in "
        f"{counted(data['groups'][part], 'group')}"
        for part, count in data["samples"].items()
    )
    text = f"{', '.join(data['sources'])}: {counts}. A group, usually an image, is in one part only. "
    if data.get("support"):
        text += f"Learned from besides, not as ratings of captions: {', '.join(data['support'])}. "
    if data.get("learned_before"):
        text += learned_sentence(BEFORE, data["learned_before"]) + " "
    if data.get("left_out"):
        text += describe_left_out(data["left_out"]) + " "
    return f"{text}The test split was read once, at the end.{_ratings(data.get('ratings', {}))}"


def _ratings(facts: Mapping[str, Any]) -> str:
    """Return a sentence, after a space, on the ratings that were learned from; "" where nothing is known."""
    if not facts:
        return ""
    scales = [f"{low:g} to {high:g}" for low, high in facts["scales"]]
    least, most = facts["raters"]
    raters = f"{least}" if least == most else f"{least} to {most}"
    low, high = facts["scales"][0]
    meant = f"; a score of 0.5 stands for {(low + high) / 2:g}" if len(scales) == 1 else ""
    return (
        f" It learned from ratings from {' and from '.join(scales)}, {raters} for each caption{meant}: a "
        "score is the rating to be expected, rescaled to 0 to 1."
    )


def describe_left_out(left_out: Mapping[str, int]) -> str:
    """Return a sentence on the samples that a split with disjoint captions leaves out, by part."""
    *first, last = [part for part in _NAMES if part in left_out]
    counts = ", ".join(f"{left_out[part]:,} {_NAMES[part]}" for part in first)
    return (
        f"No candidate caption is tested that was trained on: left out are {counts} and "
        f"{counted(left_out[last], f'{_NAMES[last]} sample')} whose candidate is of another part."
    )


def describe_training(training: dict[str, Any]) -> str:
    """Return what a run did, as a Markdown list."""
    ranked = ", against ratings mixed with their ranks (model.head.rank_share)" * bool(training.get("ranks"))
    count = training.get("processes", 1)
    several = f", processes {count}" * (count > 1)
    lines = [
        f"epochs {training['epochs']}, steps {training['steps']:,}, "
        f"minutes {training['minutes']:.1f}{several}",
        f"seed {training['seed']}, precision {training['precision']}",
        f"weights: {_chosen(training['best_validation'])}{ranked}",
    ]
    if training.get("synthetic_samples"):
        lines.append(
            f"degraded captions, rated by rule, trained on besides: {training['synthetic_samples']:,}"
        )
    if training["skipped_rows"]:
        lines.append(f"bad rows left out: {training['skipped_rows']:,}")
    lines += [f"{name}: not compared, {why}" for name, why in training["unavailable_baselines"].items()]
    return "\n".join(f"- {line}" for line in lines)


def _chosen(best: Mapping[str, float | None]) -> str:
    """Return which weights were kept, and by what figure of the validation."""
    if not best:
        return "those of the last step, which no validation came in time to choose"
    name, value = next(iter(best.items()))
    name = name.removeprefix("val_")
    if value is None:
        return f"those of the last step, since validation's {name} was never defined"
    return f"the best on validation, {name} {value:.3f}"
