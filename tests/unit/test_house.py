"""The house: what imports what, where files stand, and pages that name them."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "suisei"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.slow
def test_the_contracts_of_imports_hold():
    # in a process of its own: it sets up the logging of the whole process anew
    run = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", run], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kept, 0 broken" in done.stdout


def test_few_files_stand_at_the_top():
    assert len(list(PACKAGE.glob("*.py"))) <= 9


def test_file_names_occur_once():
    entry_points = {"__main__.py", "train.py"}  # of a package each; python -m suisei.train calls the command
    twice = {name for name, count in Counter(path.name for path in FILES).items() if count > 1}
    assert twice <= entry_points


def test_type_checkers_of_users_read_the_types():
    assert (PACKAGE / "py.typed").read_bytes() == b""  # without it they ignore an installed package's


PAGES = ["CONTRIBUTING.md", "README.md", "README.ja.md", "SECURITY.md"]
PAGES += sorted(path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:suisei|tests|configs|data|docs)/[\w./-]*\w\.\w+)`", text))
    missing = sorted(name for name in named if "NAME" not in name and not (REPOSITORY / name).exists())
    assert missing == []
    if page == "docs/architecture.md":
        assert len(named) >= 30
