"""``suisei average``: one model whose weights are the mean of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suisei.cli import write_output
from suisei.commands.options import CommandParser
from suisei.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = CommandParser(
        prog="suisei average",
        description="Make one model of several that the same recipe trained, such as the folds of a run.\n"
        "It costs what one costs, and often agrees with people better than each. Vocabulary, idf and what\n"
        "the extra inputs were fitted to are the first model's.",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="model folders, two or more")
    parser.add_argument("--output", metavar="DIR", required=True, help="the new model folder")
    options = parser.parse_args(argv)
    folders, output = [Path(model) for model in options.models], Path(options.output)
    _check(folders, output)
    _write(folders, output)
    write_output(f"{output}: mean of {len(folders)} models\n")
    return 0


def _check(folders: Sequence[Path], output: Path) -> None:
    if len(folders) < 2:
        raise ConfigError("an average takes at least two models; name another folder")
    if output.exists():
        raise ConfigError(f"--output {output} exists; name a new folder, or remove it first")
    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise ConfigError("a model is named twice; every folder counts once")


def _write(folders: Sequence[Path], output: Path) -> None:
    from suisei.metrics.extras import check_names
    from suisei.models.averaging import average_models
    from suisei.models.folder import load_model, save_model

    models = [load_model(folder, check_names) for folder in folders]
    regressor = average_models(models)
    card = models[0].path / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else "# A SuiSei model\n"
    parts = "\n".join(
        f"- {folder.name}: {model.checksum[:12]}" for folder, model in zip(folders, models, strict=True)
    )
    what = f"The weights are the mean of {len(models)} models; what else stands here is of the first."
    note = f"\n## Average\n\n{what}\n\n{parts}\n"
    save_model(output, regressor, extras=models[0].extras, card=text.rstrip() + "\n" + note)
