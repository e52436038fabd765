"""Results as they lie on the disk: the folder of a training, and the JSON that commands write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suisei.data.json_files import read_json
from suisei.data.load import load_data
from suisei.data.paths import Allowed
from suisei.data.raters import raters_joined
from suisei.errors import ConfigError, DataError, SuiseiError, one_line
from suisei.metaeval.correlation_tables import versions
from suisei.metaeval.protocols import measured_places
from suisei.metaeval.settings import Resampling
from suisei.metaeval.table_reading import read_table
from suisei.metaeval.tables import Table
from suisei.report.parts import CAUTION, Rated, Result
from suisei.scoring import scorefile
from suisei.scoring.run_scores import SAMPLES, SCORES, read_scores, samples_of_run
from suisei.training.learning_curve import read_curves

_OWN_FACTS = ("command", "settings", "versions", "data", "training", "machine", "resampling")
_SHARED_FACTS = ("settings", "versions")
_FACTS = {"command": "Options", "versions": "Versions of what computed the figures"}


def read_result(path: str | Path, allowed: Allowed | None = None) -> Result:
    """Return what a page is told of a training's folder, or of a JSON file of a command.

    Args:
        path: the folder or file.
        allowed: what the data behind a JSON may name beside images in their folder.

    Raises:
        ConfigError: the path is neither.
        DataError: a file cannot be read, or is not what a command writes.
    """
    path = Path(path)
    if not path.is_dir() and path.suffix.lower() != ".json":
        raise ConfigError(f"{path}: give the folder of a training, or a JSON file of evaluate, compare, ...")
    try:
        return _read_run(path) if path.is_dir() else _read_file(path, allowed)
    except RecursionError:
        raise DataError(f"{path}: what its JSON holds is nested too deeply to be shown") from None


def _read_file(path: Path, allowed: Allowed | None) -> Result:
    content = _read_json(path)
    tables = _tables(content, path)
    if not tables:
        raise DataError(
            f"{path}: holds no table; give the JSON that evaluate, compare, ... wrote with --json"
        )
    rated, notes = _rated_of(content, allowed)
    rated = None if rated is None else _oriented(rated, tables)
    facts, resampling = facts_of(content), _resampling(content)
    notes += _notes_beside(content, tables)
    return Result(path.stem, tables, rated, facts=facts, notes=notes, resampling=resampling)


def _notes_beside(content: Mapping[str, Any], tables: Mapping[str, Table]) -> list[str]:
    """Return the notes of a JSON that no table has: a list, or in an examination a list per benchmark."""
    value = content.get("notes")
    named = value.items() if isinstance(value, dict) else [("", value)]
    told = {note for table in tables.values() for note in table.notes}
    notes = [
        f"{name}: {note}" if name else note
        for name, own in named
        if isinstance(own, list)
        for note in own
        if isinstance(note, str) and note not in told
    ]
    return list(dict.fromkeys(notes))


def _resampling(content: Mapping[str, Any]) -> Resampling:
    """Return how a JSON says that its figures were resampled; as usual where it does not."""
    settings = content.get("settings")
    found = [settings.get(name) for name in ("n_resamples", "seed")] if isinstance(settings, dict) else []
    whole = [value for value in found if isinstance(value, int) and value >= 0]
    return Resampling(*whole) if len(whole) == 2 else Resampling()


def _read_run(folder: Path) -> Result:
    report = folder / "report.json"
    if not report.is_file():
        raise ConfigError(
            f"{folder}: has no report.json; give the folder of a finished training, or a JSON file"
        )
    content = _read_json(report)
    folds = content.get("folds")
    rated = _tested(folder, len(folds) if isinstance(folds, list) else 0)
    config = folder / "config.yaml"
    facts = facts_of(content) or [("report.json", as_yaml(content))]  # what other trainings say of theirs
    if config.is_file():
        facts.append(("config.yaml", config.read_text(encoding="utf-8", errors="replace")))
    title = f"Training: {folder.resolve().name}"
    said = content.get("cautions")
    notes = [f"{CAUTION}{each}" for each in said if isinstance(each, str)] if isinstance(said, list) else []
    if folds:
        notes.append("learning curves are in the folders of the folds: suisei report on one of them")
    return Result(title, _tables(content, report), rated, read_curves(folder / "logs"), facts, notes=notes)


def _tested(folder: Path, folds: int) -> Rated | None:
    """Return the samples that a training was tested on with their scores; None where they were removed."""
    if not (folder / SCORES).is_file() or not (folder / ("fold-0" if folds else "") / SAMPLES).is_file():
        return None
    samples, scores = samples_of_run(folder, folds), read_scores(folder)
    found = len(next(iter(scores.values()), ()))
    if found != len(samples):
        raise DataError(f"{folder / SCORES}: {found:,} scores of {len(samples):,} test samples; train again")
    return Rated(samples, scores)


def _rated_of(content: Mapping[str, Any], allowed: Allowed | None) -> tuple[Rated | None, list[str]]:
    """Return the samples behind a JSON and their scores, where both are where they were."""
    command = content.get("command")
    if not isinstance(command, dict) or not command.get("data"):
        return None, []
    saved = command.get("save_scores")
    names = ("root", "images", "on_error", "columns", "references")
    try:
        if not saved or not Path(str(saved)).is_file():
            return None, ["single predictions are not shown: the scores were not kept (--save-scores FILE)"]
        settings: dict[str, Any] = {name: command[name] for name in names if command.get(name)}
        if command.get("rating_scale"):
            settings["rating_scale"] = tuple(command["rating_scale"])
        read = load_data(str(command["data"]), allowed=allowed, **settings)
        measured = [read[place] for place in measured_places(str(command["data"]), read)]
        joined = raters_joined(str(command["data"]), measured)
        if not joined.samples:
            return None, []
        scores, _ = scorefile.read_scores(str(saved), joined.samples, [(len(measured), joined.rows)])
        return Rated(joined.samples, scores), []
    except (AttributeError, OSError, SuiseiError, TypeError, ValueError) as error:  # such as an odd path
        return None, [f"single predictions are not shown: {one_line(error)}"]


def _oriented(rated: Rated, tables: Mapping[str, Table]) -> Rated:
    """Return distances, which are kept as they are, with their sign turned, as in the tables beside them."""
    from suisei.scoring.columns import NEGATED

    rows = [row for table in tables.values() for section in table.sections for row in section.rows]
    distances = {row.label for row in rows if row.signature and row.signature.endswith(NEGATED)}
    turned = {label: -scores if label in distances else scores for label, scores in rated.scores.items()}
    return replace(rated, scores=turned, distances=distances)


def _read_json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no object; give the JSON that a command wrote with --json")
    return content


def _tables(content: Mapping[str, Any], path: Path) -> dict[str, Table]:
    """Return the tables of a JSON: itself, those among its values, of its ``tables`` and its ``comparison``.

    Raises:
        DataError: one is malformed.
    """
    found = {"results": content} if _is_table(content) else {}
    compared = content.get("comparison")  # of a captioner that was tuned with what it was before
    for holder in (content, compared if isinstance(compared, dict) else {}):
        inner = holder.get("tables")
        for values in (holder, inner if isinstance(inner, dict) else {}):
            found |= {name: value for name, value in values.items() if _is_table(value)}
    try:
        tables = {name: read_table(value) for name, value in found.items()}
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return {name: _of_what(name, table) for name, table in tables.items()} if "overview" in tables else tables


def _of_what(name: str, table: Table) -> Table:
    """Return a table of an examination, where it is of probes with the language in its title."""
    measured, _, kind = name.partition("/")
    language = measured.removeprefix("probes, ")
    return replace(table, title=f"{table.title}: {language}") if kind and language != measured else table


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("sections"), list) and "title" in value


def facts_of(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return where a result comes from, as its JSON says it: signatures, settings, data, environment."""
    facts = [("Signatures", "\n".join(dict.fromkeys(_signatures(content))))]
    for name in _OWN_FACTS:
        values = [content.get(name)] + [v.get(name) for v in content.values() if _is_table(v)]
        value = next((value for value in values if isinstance(value, dict) and value), None)
        if value is None and name in _SHARED_FACTS:
            value = _shared(name, _inner_tables(content))
        if value:
            facts.append((_FACTS.get(name, name.capitalize()), as_yaml(value)))
    return [fact for fact in facts if fact[1]]


def _inner_tables(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ``tables`` of a JSON, such as those of an examination."""
    inner = content.get("tables")
    return [value for value in inner.values() if _is_table(value)] if isinstance(inner, dict) else []


def _shared(name: str, tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all computed tables say alike; what was published says no versions."""
    computed = [table for table in tables if table.get("versions")]
    said = [value for table in computed if isinstance(value := table.get(name), dict)]
    first = said[0] if said else {}
    return {key: value for key, value in first.items() if all(each.get(key) == value for each in said)}


def as_yaml(value: Any) -> str:
    """Return settings as people read them; what is not set is left out."""
    import yaml

    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if each not in (None, [], {}, "")}
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100)


def _signatures(content: Any) -> list[str]:
    """Return the signatures of the rows of all tables, and of metrics that are named beside them."""
    found: list[str] = []
    tables = [content, *content.values(), *_inner_tables(content)] if isinstance(content, dict) else []
    for table in filter(_is_table, tables):
        for section in table["sections"]:
            rows = section.get("rows", ()) if isinstance(section, dict) else ()
            found += [
                f"{row.get('label')}: {row['signature']}"
                for row in rows
                if isinstance(row, dict) and row.get("signature")
            ]
    named = content.get("metrics")
    if isinstance(named, dict):
        found += [f"{name}: {signature}" for name, signature in named.items()]
    return found


def environment() -> str:
    """Return the versions and the machine that a result was computed with, a line each."""
    import os
    import platform
    from importlib import metadata

    lines = {**versions(), "system": platform.platform(), "CPU threads": str(os.cpu_count())}
    for name in ("scipy", "scikit-learn", "torch", "transformers", "open_clip_torch", "sacrebleu", "fugashi"):
        try:
            lines[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            lines[name] = "not installed"
    return "\n".join(f"{name}: {value}" for name, value in lines.items())
