"""What is said when a model cannot be had from the Hugging Face hub, and saying it quickly."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from suisei.errors import UnavailableError

PROBE_SECONDS = 5.0
"""How long the hub may take to answer before only local files are looked at."""

OWN_CODE = "custom code"
"""Words of transformers about a model that wants to run code from its repository."""

_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")


@contextmanager
def no_bars() -> Iterator[None]:
    """Keep transformers from drawing a bar of its own: what a command shows is the command's to say."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from drawing a bar and a table of weights; what they say is refused or harmless."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with no_bars():
            yield
    finally:
        logging.set_verbosity(verbosity)


def explain_hub_error(name: str, error: BaseException) -> UnavailableError:
    """Turn whatever a failed download raised into one line that says what to do.

    Args:
        name: the model as the user named it.
        error: the error of huggingface_hub, transformers or open_clip; its causes are read too.

    Returns:
        The error to raise (``raise explain_hub_error(...) from error``).
    """
    kinds = {type(link).__name__ for link in _chain(error)}
    if {"GatedRepoError", "LocalTokenNotFoundError"} & kinds:
        why = "asks for a licence to be accepted on the hub, and for a token in HF_TOKEN"
    elif "RepositoryNotFoundError" in kinds:
        why = "is neither a local folder nor a public model on the hub"
    elif {"RemoteEntryNotFoundError", "RevisionNotFoundError"} & kinds:
        why = "is on the hub, but lacks a file that is needed"
    elif is_hub_error(error):
        why = "is not in the local cache, and the Hugging Face hub cannot be reached"
    elif OWN_CODE in str(error):
        return UnavailableError(
            f"model {name!r} needs Python code of its own, which suisei never runs; use a model whose kind "
            "transformers has itself"
        )
    elif Path(name).is_dir():
        return UnavailableError(
            f"{name}: cannot be loaded ({_first_line(error)}); it must hold config.json, the weights and the "
            "files of its tokenizer or image processor, as save_pretrained writes them"
        )
    else:
        why = f"cannot be loaded ({_first_line(error)})"
    return UnavailableError(
        f"model {name!r} {why}; give the path of a local copy, or point HF_HOME to a cache that holds it "
        "(and set HF_HUB_OFFLINE=1 where there is no network)"
    )


def is_hub_error(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, came from the hub or from the network."""
    return any(
        type(link).__module__.split(".")[0] in {"huggingface_hub", "httpx", "httpx2", "requests", "urllib3"}
        or isinstance(link, ConnectionError | TimeoutError | socket.gaierror)
        for link in _chain(error)
    )


@contextmanager
def hub_guard(name: str) -> Iterator[None]:
    """Load a model inside this: local files alone where the hub is out of reach, one clear error if absent.

    Without it a machine with no network waits for half a minute of retries per file.

    Args:
        name: the model as the user named it.

    Raises:
        UnavailableError: the model is not in the cache and cannot be downloaded.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    if not before and not Path(name).exists() and not _reachable(constants.ENDPOINT):
        constants.HF_HUB_OFFLINE = True
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if not is_hub_error(error) and OWN_CODE not in str(error):
            raise
        raise explain_hub_error(name, error) from error
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def no_hub() -> Iterator[None]:
    """Keep whatever is built inside from asking the hub."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _reachable(endpoint: str) -> bool:
    if any(os.environ.get(variable) for variable in _PROXIES):
        return True  # a direct connection says nothing about the proxy
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=PROBE_SECONDS):
            return True
    except OSError:
        return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
