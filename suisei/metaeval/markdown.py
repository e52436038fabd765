"""Names and captions within Markdown, shown as they are."""

from __future__ import annotations

import re

_ACTIVE = re.compile(
    r"[`*~]|(?<![^\W_])_|_(?![^\W_])"  # code, bold, struck out; _ within a word is none of it
    r"|<(?=[A-Za-z/!?])|&(?=#?\w+;)"  # HTML, in which "<unk>" would not be seen
    r"|\](?=[(\[])"  # a link
    r"|\\(?=[!-/:-@\[-`{-~]|$)"
)


def markdown_text(text: object) -> str:
    r"""Return text on one line, escaped where Markdown would take a character for other than itself.

    >>> print(markdown_text("a <unk> of *cats*"))
    a \<unk> of \*cats\*
    """
    return _ACTIVE.sub(r"\\\g<0>", " ".join(str(text).split())).replace("|", r"\|")


def markdown_code(text: object) -> str:
    """Return text on one line as code."""
    line = " ".join(str(text).split())
    return f"`` {line} ``" if "`" in line else f"`{line}`"
