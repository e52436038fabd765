"""What the readers of files advise, in the words of ``suisei train``: options of other commands are settings.

No library is imported, for the short help needs it too.
"""

from __future__ import annotations

import re

_SETTINGS = (
    ("--rating-scale LOW HIGH", "--data.rating_scale '[LOW,HIGH]'"),
    (r"--images DIR\) or", "--data.images DIR, of pairs --data.root DIR) or"),
    ("--images DIR", "--data.images DIR"),
    ("--on-error", "--data.on_error"),
    (r"--column image=(?!\S)", "call the column 'group', by which the data are split, in the file"),
    (r"--column \w+=\)", "rename the column)"),
    (r"--column \w+=\S*", "rename the column"),
    ("pass --any-path", "set SUISEI_ANY_PATH=1"),
)
"""What the readers of files advise, and what it is called in training."""


def as_settings(text: str) -> str:
    """Return a message with the settings of a training, where readers name options of other commands."""
    for pattern, setting in _SETTINGS:
        text = re.sub(pattern, setting, text)
    return text
