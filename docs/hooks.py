"""What mkdocs cannot do alone: pages that stand elsewhere in the repository, notebooks, roles in docstrings.

Links everywhere are those of the repository, so that they also hold where its files are read as they are;
here they become links of the site.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "configs/README.md": "experiments.md",
    "data/README.md": "data-sets.md",
    "data/scenes/README.md": "scenes.md",
}
"""Files of the repository that are pages of the site."""
CARD = "<!-- the card of the model in the package -->"

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_ROLE = re.compile(r":(?:py:)?(?:attr|class|data|func|meth|mod):<code>~?([^<]*)</code>")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand elsewhere, and one for each notebook."""
    for source, page in ELSEWHERE.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = _notebook(Path(notebook.abs_src_path or ""))
        files.append(File.generated(config, _site(f"docs/{notebook.src_uri}") or "", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    if CARD in markdown:
        markdown = markdown.replace(CARD, _card())
    source = next((file for file, name in ELSEWHERE.items() if name == here), f"docs/{here}")

    def of_the_site(link: re.Match[str]) -> str:
        target = _site(posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1])))
        return link[1] if target is None else posixpath.relpath(target, posixpath.dirname(here) or ".")

    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.S | re.M)
    parts[::2] = [_LINK.sub(of_the_site, part) for part in parts[::2]]  # the others are code
    return "".join(parts)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Show the roles of docstrings as the names that they hold."""
    return _ROLE.sub(r"<code>\1</code>", html)


def _site(path: str) -> str | None:
    """Return the page of a file of the repository; None for one that has none."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if not path.startswith("docs/"):
        return None
    return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))


def _card() -> str:
    """Return the card of the model in the package, a level lower; nothing where it is not there yet."""
    cards = [card.read_text(encoding="utf-8") for card in sorted(REPOSITORY.glob("suisei/*/README.md"))]
    return re.sub(r"^(?=#+ )", "#", "\n".join(cards), flags=re.M)


def _notebook(path: Path) -> str:
    """Return a notebook as Markdown: code without outputs; the tests run it."""
    text = [f'<a href="{path.name}" download>This page as a notebook</a>']
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            source = f"```python\n{source}\n```"
        text.insert(len(text) if number else 0, source)  # the heading comes first
    return "\n\n".join(text) + "\n"
