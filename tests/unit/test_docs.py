"""README and documentation: links lead somewhere, examples run, commands have the options that are shown."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from suisei.__main__ import COMMANDS, main
from suisei.commands.command_parser import CommandParser
from suisei.errors import ConfigError
from suisei.metrics.registry import get_metric, unavailable_reason
from suisei.models.config import FusionConfig
from suisei.models.inputs import InputColumns
from suisei.models.pooling import POOLINGS
from suisei.version import __version__

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for pattern in ("*.md", "configs/*.md", "data/**/*.md", "docs/**/*.md")
    for path in REPOSITORY.glob(pattern)
)
OVERVIEWS = ("README.md", "README.ja.md", "docs/index.md", "docs/ja.md")
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
FENCE = re.compile(r"^( *)(<!-- runs -->\n *)?```(\w+)[^\n]*\n(.*?)^ *```$", re.S | re.M)


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def blocks(page: str, language: str, *, marked: bool | None = None) -> list[str]:
    """The code of a page; ``marked``: that with <!-- runs --> before it, that without, or both."""
    return [
        re.sub(f"^{found[1]}", "", found[4], flags=re.M)
        for found in FENCE.finditer(text_of(page))
        if found[3] == language and marked in (None, bool(found[2]))
    ]


def commands(page: str) -> list[str]:
    """The lines that start suisei: in blocks for a shell, and whole ones in text and tables."""
    lines = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    cells = re.findall(r"`(suisei \w+ [^`]*--(?:data|config|input) [^`]*)`", FENCE.sub("", text_of(page)))
    found = [re.sub(r"^(?:srun|.*(?:\||[A-Z_]=\S+)) +(?=suisei )", "", line) for line in [*lines, *cells]]
    return [line for line in found if line.startswith("suisei ")]


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(FENCE, "", text_of(page)), re.M)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {re.sub(r"\s+", "-", heading.strip()) for heading in plain}


@pytest.fixture
def beside_the_sample(tmp_path, monkeypatch):
    """A folder with the bundled sample in it, as a checkout has."""
    (tmp_path / "data").symlink_to(REPOSITORY / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def the_model():
    """What runs the model in the package is skipped where the checkout has none."""
    if reason := unavailable_reason("suisei"):
        pytest.skip(f"suisei {reason}")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(FENCE, "", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = ((REPOSITORY / page).parent / name).resolve() if name else REPOSITORY / page
        found = target.is_relative_to(REPOSITORY) and target.exists()
        if not found or (anchor and anchor not in anchors(target.relative_to(REPOSITORY).as_posix())):
            wrong.append(link)
    assert wrong == []


def test_a_wrong_anchor_would_be_noticed():
    assert "the-run's-folder" not in anchors("docs/training.md")
    assert {"the-runs-folder", "in-python"} <= anchors("docs/training.md") | anchors("docs/scoring.md")


@pytest.mark.parametrize("page", ["README.md", "README.ja.md"])
def test_the_first_page_is_short(page):
    assert len(text_of(page).splitlines()) <= 150


@pytest.mark.parametrize("page", OVERVIEWS)
def test_overviews_name_every_command(page):
    assert [name for name in COMMANDS if f"`suisei {name}`" not in text_of(page)] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.startswith("docs/") and blocks(page, "python")]
)
def test_python_examples_run(page, the_model, beside_the_sample):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        try:
            exec(compile(block, page, "exec"), names)  # our own page
        except ModuleNotFoundError as error:  # of another library that a page is about
            if (error.name or "suisei").startswith("suisei"):
                raise
            pytest.skip(f"needs {error.name}")


@pytest.mark.parametrize("page", ["README.md", "README.ja.md"])
def test_the_output_that_is_shown_is_what_comes_out(page, the_model, beside_the_sample, capsys):
    """Another model in the package gives other scores: put them there."""
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {})  # our own page
    shown, printed = (
        re.findall(r"[\d.]+", text) for text in (blocks(page, "text")[0], capsys.readouterr().out)
    )
    np.testing.assert_allclose([float(x) for x in shown], [float(x) for x in printed], atol=0.02)


def test_the_signature_that_is_shown_is_bleus():
    assert f"`{get_metric('bleu-4').signature}`" in text_of("docs/scoring.md")


RUNNING = [
    (page, line) for page in PAGES for block in blocks(page, "sh", marked=True) for line in block.splitlines()
]


@pytest.mark.slow
@pytest.mark.parametrize("line", sorted({line for _, line in RUNNING}))
def test_commands_that_need_nothing_run(line, the_model, beside_the_sample):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = line.replace("suisei ", f"{shlex.quote(sys.executable)} -m suisei ", 1)
    done = subprocess.run(
        program, shell=True, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert len(list(beside_the_sample.iterdir())) > 1 or done.stdout


class ParsedError(Exception):
    """The options were read; nothing more is wanted."""


@pytest.fixture
def only_parsing(monkeypatch):
    real = CommandParser.parse_args

    def parse(self, args=None, namespace=None):
        raise ParsedError(real(self, args, namespace))

    monkeypatch.setattr(CommandParser, "parse_args", parse)


SHOWN = sorted(
    {
        line
        for page in PAGES
        for line in commands(page)
        if not line.startswith(("suisei train", "suisei ablate"))
    }
)


def test_examples_of_commands_are_found():
    assert len(SHOWN) >= 20
    assert any("--save-scores" in line for line in SHOWN)


@pytest.mark.parametrize("line", SHOWN)
def test_commands_have_the_options_that_are_shown(line, only_parsing):
    words = shlex.split(line, comments=True)[1:]
    with pytest.raises(ParsedError):
        main(words)


def test_an_option_that_is_not_there_would_be_noticed(only_parsing, capsys):
    assert main(["score", "--no-such-option", "x"]) == 2


@pytest.mark.slow
def test_training_has_the_settings_that_are_shown(capsys):
    from suisei.commands.train import main as train

    shown = sorted({line for page in PAGES for line in commands(page) if line.startswith("suisei train -")})
    assert len(shown) >= 8
    wrong = []
    for line in shown:
        words = shlex.split(line, comments=True)[2:]
        if {"runs/mine/config.yaml", "NAME"} & set(words):
            continue
        capsys.readouterr()
        try:
            train([*words, "--print_config"])
        except ConfigError as error:
            wrong.append(f"{line}: {error}")
        except SystemExit as stop:
            wrong += [line] if stop.code else missing_in(line, yaml.safe_load(capsys.readouterr().out))
    assert wrong == []


def missing_in(line, settings):
    """Say what keeps the training of a parsed line from starting, of what is found out after parsing."""
    data, trainer = settings["data"], settings["trainer"]
    named = {name for key in ("train", "support") for name in np.atleast_1d(data.get(key) or [])}
    roots = data.get("root")
    sets = {name for name in named - {"scenes"} if not Path(name).suffix}  # what is no file
    lacking = sets - set(roots) if isinstance(roots, dict) else set()
    several = str(trainer.get("devices")) not in ("auto", "1", "None") and data.get("folds")
    problems = [f"{line}: no root for {name}" for name in lacking]
    return problems + [f"{line}: folds in several processes"] * bool(several and data["fold"] is None)


def test_a_line_without_a_root_or_with_all_folds_in_several_processes_would_be_noticed():
    data = {"train": ["shichimi"], "support": "jsts", "root": {"shichimi": "DIR"}, "folds": 5, "fold": None}
    assert missing_in("x", {"data": {**data, "support": None}, "trainer": {"devices": 1}}) == []
    assert missing_in("x", {"data": data, "trainer": {"devices": 4}}) == [
        "x: no root for jsts",
        "x: folds in several processes",
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(notebook):
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, the_model, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    content = nbformat.read(notebook, as_version=4)
    nbformat.validate(content)
    nbclient.NotebookClient(
        content, timeout=900, startup_timeout=300, resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert all(cell.execution_count for cell in content.cells if cell.cell_type == "code")


def test_what_is_cited_is_this_version():
    cited = yaml.safe_load(text_of("CITATION.cff"))
    assert cited["version"] == __version__
    assert f"version = {{{__version__}}}" in text_of("docs/citing.md")
    papers = [paper["title"] for paper in cited["references"]]
    assert len(papers) == 5
    written = re.sub(r"[{}]", "", text_of("docs/citing.md")).lower()
    assert [title for title in papers if title.lower() not in written] == []


def test_extras_that_are_named_exist():
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    named = {
        name
        for page in PAGES
        for names in re.findall(r"pip install (?:-e )?'(?:\.|suisei)\[([\w,-]+)\]'", text_of(page))
        for name in names.split(",")
    }
    assert {"dev", "docs", "java"} <= named
    assert named <= set(extras)
    listed = set(re.findall(r"^\| `([\w-]+)` \|", text_of("docs/install.md"), re.M))
    assert set(extras) - {"ja"} <= listed


@pytest.fixture
def hooks():
    pytest.importorskip("mkdocs")
    found = importlib.util.spec_from_file_location("hooks_of_the_site", REPOSITORY / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_links_of_the_repository_become_links_of_the_site(hooks):
    def shown(page, text):
        return hooks.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, None)

    assert shown("training.md", "[a](../SECURITY.md#x) [b](data.md)") == "[a](security.md#x) [b](data.md)"
    assert shown("changelog.md", "[a](SECURITY.md) [b](#x)") == "[a](security.md) [b](#x)"
    assert shown("scenes.md", "[a](../README.md)") == "[a](data-sets.md)"
    assert shown("api/metrics.md", "[a](../../CONTRIBUTING.md)") == "[a](../contributing.md)"
    assert shown("index.md", "[a](notebooks/meta_evaluate.ipynb)") == "[a](notebooks/meta_evaluate.md)"
    code = "```python\nx[0](data)\n```"
    assert shown("contributing.md", code) == code


def test_a_notebook_is_a_page_with_its_heading_first(hooks):
    text = hooks._notebook(NOTEBOOKS[0])
    assert text.startswith("# ")
    assert text.count("```python") == text.count("```") / 2 >= 3
    assert f'href="{NOTEBOOKS[0].name}"' in text


def test_roles_of_docstrings_are_shown_as_names(hooks):
    html = hooks.on_page_content(
        "<p>see :func:<code>~suisei.load</code>, <code>x</code></p>", None, None, None
    )
    assert html == "<p>see <code>suisei.load</code>, <code>x</code></p>"


def test_the_glossary_of_an_explanation_has_all_numbers_and_no_other():
    fusion = FusionConfig(poolings=tuple(POOLINGS), similarity=True, image_similarity=True, alignment=True)
    glossary = text_of("docs/explain.md").split("## What the numbers are called")[1]
    cells = [row.split("|")[1] for row in glossary.splitlines() if row.startswith("| `")]
    said = [name for cell in cells for name in re.findall("`([^`]+)`", cell)]
    spelt = {name.replace("POOLING", pooling) for name in said for pooling in POOLINGS}
    assert spelt == set(InputColumns.of(fusion, reads_images=True).names)
    assert all(f"`{pooling}`" in glossary.split("POOLING is")[1] for pooling in POOLINGS)
