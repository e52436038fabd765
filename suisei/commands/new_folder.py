"""Where a command writes a new model folder, and the last touch to it."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.data.outputs import check_outputs, check_spelt
from suisei.data.paths import is_inside
from suisei.data.writers import replacing_folder
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from suisei.metrics.suisei import SuiSeiMetric

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What names, if anything, the file that was copied."""


def check_new_folder(output: str, models: Sequence[str]) -> None:
    """Refuse a folder that is there, cannot be made, or would lie in a model's, whose files are listed.

    Args:
        output: the new folder.
        models: those that it is made of, as they were named; one on the hub has no folder to lie in.

    Raises:
        ConfigError: another folder must be named.
    """
    if Path(output).exists():
        raise ConfigError(f"--output {output} exists; name a new folder, or remove it first")
    for model in models:
        if Path(model).is_dir() and is_inside(model, output):
            raise ConfigError(f"--output {output} lies in the model {model}, which it would make unreadable")
    check_spelt(f"--output {output}", output)
    check_outputs([], folders=[("--output", output)])


@contextmanager
def new_folder(output: str) -> Iterator[Path]:
    """Give a folder to make a model in, which is in its place when the block ends well.

    Args:
        output: the place.

    Raises:
        DataError: it cannot be written, such as on a full disk.
    """
    try:
        with replacing_folder(Path(output)) as folder:
            yield folder
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DataError(f"--output {output}: cannot be written: {error.strerror}") from None


def loaded_and_signed(folder: Path, *, cache: str | None = None) -> SuiSeiMetric:
    """Return a new model folder loaded, once its card has the signature of its scores.

    Args:
        folder: the folder, whose card no checksum covers.
        cache: where features are kept between runs.
    """
    from suisei.metrics.loading import load
    from suisei.training.small_card import signed_card

    new = load(folder, device="cpu", precision="fp32", cache=cache)
    path = folder / "README.md"
    path.write_text(signed_card(path.read_text(encoding="utf-8"), new.signature), encoding="utf-8")
    return new
