"""The model card of a model on the Hugging Face hub: that of the run, below metadata that the hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suisei.data.sample import LANGUAGES, detect_language
from suisei.errors import DataError, ModelError, one_line
from suisei.metaeval.tables import LABELS
from suisei.training.card import without_places
from suisei.training.cautions import SIMULATED

TASK = "image-to-text"
"""What the hub files captioning under."""
TAGS = ("image-captioning", "evaluation", "metric", "suisei")
OWN_PATH = "PATH OF THIS FOLDER"
"""What stands in a run's card for the place of the model."""

_DAMAGE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of the run that made a model.

    Attributes:
        sources: names of the training data, as they were given.
        support: names of what helped beside them.
        given: {part: name} of the validation and test data that were not split off from these.
        figures: {figure: value} of the test split, overall.
        languages: of the captions in the test split.
        model: how the checksum of the model begins that has the figures; "" where the report does not say.
    """

    sources: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    languages: Sequence[str] = ()
    model: str = ""
    support: Sequence[str] = ()
    given: Mapping[str, str] = field(default_factory=dict)


def find_model(folder: Path) -> tuple[Path, Path]:
    """Return the model folder and the run's folder for either of them.

    Raises:
        ModelError: neither is there.
    """
    for model in (folder, folder / "model"):
        if (model / "config.json").is_file():
            return model, (Path.cwd() / model).parent  # also where the folder is "."
    raise ModelError(f"no model at {folder}; give a model folder, or that of a run with 'model' inside")


def read_run(run: Path) -> RunFacts:
    """Return the facts in a run's report.json and test.jsonl; none where there is no report.

    Raises:
        DataError: a file that is not as a run writes it.
    """
    path = run / "report.json"
    if not path.is_file():
        return RunFacts()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = content["results"]["sections"][0]["rows"]
        own: dict[str, Any] = next((row for row in rows if row["label"] == "suisei"), {})
        cells: dict[str, Any] = own.get("cells", {})
        parts = dict(part.partition(":")[::2] for part in str(own.get("signature") or "").split("|"))
        values = {name: cells.get(name, {}).get("value") for name in LABELS}
        sources, support = (
            [str(source) for source in content["data"].get(kind) or ()] for kind in ("sources", "support")
        )
        given = {str(part): str(source) for part, source in dict(content["data"].get("given") or {}).items()}
        figures = {name: float(value) for name, value in values.items() if value is not None}
    except _DAMAGE as error:
        raise DataError(f"{path}: not the report of a run ({type(error).__name__}: {error})") from None
    return RunFacts(sources, figures, _languages(run / "test.jsonl"), parts.get("model", ""), support, given)


def _languages(path: Path) -> list[str]:
    found = set()
    try:
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                row = json.loads(line)
                found.add(str(row.get("language") or detect_language(row["candidate"])))
    except FileNotFoundError:
        return []
    except _DAMAGE as error:
        raise DataError(f"{path}: not the test split of a run ({type(error).__name__}: {error})") from None
    return [language for language in LANGUAGES if language in found]


def hub_card(name: str, card: str, facts: RunFacts, **given: Any) -> str:
    """Return a card with its metadata.

    Args:
        name: ``org/name`` of the model.
        card: the model folder's card. Metadata that somebody has written there is kept.
        facts: of the run.
        given: metadata that the user gives, such as ``license``; None for none.

    Returns:
        The text of README.md.
    """
    body, written = card, dict[str, Any]()
    if card.startswith("---\n"):
        body, written = _written(card)
    # cards of earlier versions say where a file was on the author's machine
    for source in (*facts.sources, *facts.support, *facts.given.values()):
        body = body.replace(source, Path(source).name)
    body = without_places(body)
    data = _metadata(name, facts)
    fields = {**data, **written, **{key: value for key, value in given.items() if value is not None}}
    return f"---\n{_as_yaml(fields)}---\n{body.replace(OWN_PATH, name).lstrip()}"


def _written(card: str) -> tuple[str, dict[str, Any]]:
    """Return a card's text and the metadata above it.

    Raises:
        DataError: that is not YAML of plain values.
    """
    import yaml
    from huggingface_hub import ModelCard

    try:
        parsed = ModelCard(card, ignore_metadata_errors=True)
        return parsed.text, parsed.data.to_dict()
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"the card's metadata, between its lines of ---, is not YAML ({one_line(error)})"
        ) from None


def _metadata(name: str, facts: RunFacts) -> dict[str, Any]:
    from huggingface_hub import EvalResult, ModelCardData

    tested = [facts.given["test"]] if "test" in facts.given else facts.sources
    names = [Path(source).stem for source in tested]
    simulated = " (simulated ratings)" if SIMULATED in tested else ""
    results = [
        EvalResult(
            task_type=TASK,
            task_name="rating image captions",
            dataset_type="-".join(names),
            dataset_name=", ".join(names) + simulated,
            dataset_split="test",
            metric_type=figure,
            metric_name=f"{LABELS[figure]} with human ratings",
            metric_value=round(value, 4),
        )
        for figure, value in facts.figures.items()
    ]
    data = ModelCardData(
        model_name=name,
        language=list(facts.languages) or None,
        library_name="suisei",
        pipeline_tag=TASK,
        tags=list(TAGS),
        eval_results=results or None,
    )
    found: dict[str, Any] = data.to_dict()
    return found


def _as_yaml(fields: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True)
    return text
