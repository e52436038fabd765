"""Names and captions in Markdown, as a reader of Markdown shows them."""

from html.parser import HTMLParser

import pytest

from suisei.metaeval.markdown import markdown_code, markdown_text
from suisei.metaeval.system_tables import example_markdown
from suisei.metaeval.systems import Example
from suisei.metaeval.tables import Cell, Row, Section, Table

NAMES = (
    *("<unk> cat", "a <script>", "*ours*", "_u_", "a_b", "`x`", "[x](y)", "[x][y]", "a|b", "~old~", "a & b"),
    *("&lt;", "back\\", r"\*", r"a\|b", "1 < 2", "C:\\runs", "__init__", "a*b*c", "日本*語*"),
)


class _Shown(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags = [], set()

    def handle_data(self, data):
        self.text.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


def shown(markdown):
    """Return the text that is seen, and the tags."""
    from markdown_it import MarkdownIt

    page = _Shown()
    page.feed(MarkdownIt("gfm-like", {"linkify": False}).render(markdown))
    return "".join(page.text), page.tags


@pytest.mark.parametrize("name", NAMES)
def test_names_are_seen_as_they_are_in_tables_and_examples(name):
    table = Table("T", {"x": name}, (Section("overall", (Row(name, {"x": Cell(0.5)}),)),), (f"of {name}",))
    text, tags = shown(table.to_markdown())
    assert [line for line in text.split("\n") if line] == ["T", "Metric", name, name, "0.500", f"of {name}"]
    assert tags <= {"h2", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    example = Example("i", "image", {name: 0.5}, {name: name}, (name,))
    text, tags = shown(example_markdown({"m": [example]}))
    assert f"{name} 0.500: {name}\n" in text
    assert f"reference: {name}\n" in text
    assert tags <= {"h2", "ul", "li", "strong", "code"}


def test_what_means_nothing_stays_as_it_is():
    for text in ("suisei:runs/a_b/model", "Holm p <= 0.05", "[0.1, 0.2]", "a & b", "#5 (x) - y"):
        assert markdown_text(text) == text


def test_code_is_one_line_and_may_hold_backticks():
    assert shown(markdown_code("a\n`b`"))[0].strip() == "a `b`"


def test_titles_are_seen_as_they_are():
    sections = tuple(Section(title, (Row("m", {"x": Cell(0.5)}),)) for title in ("overall", "system <unk>"))
    text, _ = shown(Table("by *ours*", {"x": "x"}, sections).to_markdown())
    assert text.startswith("by *ours*\n")
    assert "\nsystem <unk>\n" in text
