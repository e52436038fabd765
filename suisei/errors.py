"""The errors that suisei raises on purpose.

Each message names what is wrong (file, row, field, value) and what to do about it. Commands print
the message in one line and exit with status 2; a traceback therefore always means a defect.
"""


class SuiseiError(Exception):
    """Base class of every error raised on purpose."""


class DataError(SuiseiError, ValueError):
    """Input data breaks a rule: a wrong column, an empty candidate, an unreadable image."""


class ConfigError(SuiseiError, ValueError):
    """A setting or a combination of settings cannot work."""


class ModelError(SuiseiError, ValueError):
    """A model folder or checkpoint is missing a part, or a part does not fit the others."""


class UnavailableError(SuiseiError, RuntimeError):
    """Something outside the package is missing: an extra, Java, a server, a model on the hub."""


def one_line(error: BaseException, most: int | None = 300) -> str:
    """Return what an error says, on one line; the name of its class where it says nothing.

    Args:
        error: the error.
        most: how many characters at most; None for all.
    """
    return (" ".join(str(error).split()) or type(error).__name__)[:most]
