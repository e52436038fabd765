"""The model in the package: what every command and ``suisei.load()`` use where none is named."""

from __future__ import annotations

from pathlib import Path

from suisei.errors import UnavailableError
from suisei.metrics.tokenizers import mecab_reason

NAME = "suisei-small"
_FOLDER = Path(__file__).resolve().parents[1] / "small"


def default_model() -> Path:
    """Return the folder of the model in the package.

    Raises:
        UnavailableError: this installation has none.
    """
    reason = _absent()
    if reason:
        raise UnavailableError(f"metric 'suisei' {reason}")
    return _FOLDER


def default_model_reason() -> str | None:
    """Return why the model in the package cannot be used here, or None if it can."""
    return _absent() or mecab_reason()


def _absent() -> str | None:
    if (_FOLDER / "config.json").is_file():
        return None
    return (
        f"needs {NAME}, and this installation has none at {_FOLDER}: name a model, suisei:DIR or --model DIR"
    )
