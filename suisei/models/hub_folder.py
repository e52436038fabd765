"""Model folders on the Hugging Face hub: fetched by name into the hub's cache, and written there.

What is fetched is a closed list: the files that config.json has checksums of, as far as their names are those
that a model folder may hold. None of them is a pickle or a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suisei.encoders.hub_errors import hub_guard, is_hub_error
from suisei.errors import ConfigError, ModelError, UnavailableError, one_line
from suisei.models.folder_checks import read_config
from suisei.ranges import shown
from suisei.version import __version__

CONFIG, CARD = "config.json", "README.md"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_FILE = re.compile(
    r"second(-2)?/config\.json|(second(-2)?/)?(model\.safetensors|idf\.json|extras\.(json|safetensors|txt)"
    r"|(tokenizer|extras/[a-z0-9+-]+)(/\w[\w-]*){0,2}/\w[\w.-]*\.(json|safetensors|txt|model))",
    re.ASCII,
)


def is_hub_name(name: str | Path) -> bool:
    """Return whether ``org/name`` is meant: such a text, and nothing of that name on the disk."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and not Path(name).exists()


def checked_hub_name(name: str) -> str:
    """Return a name that the hub can have.

    Raises:
        ConfigError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{shown(name)} is no name on the hub; it must be ORGANIZATION/NAME or USER/NAME")
    return name


def fetch_model(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model on the hub, downloaded unless the hub's cache has it.

    Args:
        name: ``org/name``.
        revision: a branch, tag or commit; None for the newest of the main branch. All files are of the one
            commit that it stands for at the first of them.

    Raises:
        UnavailableError: it is neither in the cache nor can it be downloaded.
        ModelError: it is no model of suisei's, or names a file that no such model holds.
    """
    from huggingface_hub import hf_hub_download

    with hub_guard(name):
        folder = Path(hf_hub_download(name, CONFIG, revision=revision)).parent
        for file in model_files(folder, within=cache_of(folder)):
            if file != CONFIG:
                hf_hub_download(name, file, revision=folder.name)
    return folder


def cache_of(folder: Path) -> Path:
    """Return the folder of one model in the hub's cache, where the files of its snapshots really are."""
    return folder.parent.parent


def model_files(folder: Path, *, within: Path | None = None) -> list[str]:
    """Return the names of a model folder's files, the card aside, which it need not hold yet.

    Args:
        folder: the folder, of which config.json is read.
        within: where links may lead to, see :func:`suisei.models.folder.load_model`.

    Raises:
        ModelError: config.json is none of suisei's, or names another file.
    """
    names = [name for name in read_config(folder, within)["sha256"] if name != CONFIG]
    wrong = next((name for name in names if not _FILE.fullmatch(name)), None)
    if wrong is not None:
        raise ModelError(f"{folder}: config.json names {shown(wrong)}, which is no file of a model folder")
    return [CONFIG, *sorted(names)]


def push_model(
    folder: Path, name: str, card: str, *, private: bool = False, revision: str | None = None
) -> str:
    """Write a model folder to the hub as one commit; parts of an older model that it replaces go.

    Args:
        folder: a model folder.
        name: ``org/name``; made where it is not there.
        card: what becomes its README.md.
        private: of a repository that is made.
        revision: the branch, made where it is not there; None for the main one.

    Returns:
        The address of the commit.

    Raises:
        UnavailableError: the hub cannot be reached, or refuses.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    files = model_files(folder)
    api = HfApi(library_name="suisei", library_version=__version__)
    with _writing(name):
        api.create_repo(name, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        there = api.list_repo_files(name, revision=revision)
        old = [file for file in there if _FILE.fullmatch(file) and file not in files]
        done = api.create_commit(
            name,
            [
                *(CommitOperationAdd(file, folder / file) for file in files),
                CommitOperationAdd(CARD, card.encode()),
                *(CommitOperationDelete(file) for file in old),
            ],
            commit_message=f"Model of suisei {__version__}",
            revision=revision,
        )
    return str(done.commit_url)


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """Turn what the hub's client raises while it writes into one line."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if not is_hub_error(error):
            raise
        raise UnavailableError(f"{name} cannot be written to: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403) or type(error).__name__ == "LocalTokenNotFoundError":
        return "log in with a token that may write there ('hf auth login', or HF_TOKEN)"
    if status is None and isinstance(error, OSError):
        return "the Hugging Face hub cannot be reached; --dry-run shows what would be pushed"
    return one_line(error)
