"""The page: one file, whose only script is its own, in which all text stays text."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.table_reading import read_table
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.report.contents import _bars, _system_scores, part_of, probe_figures
from suisei.report.html import render, write_page
from suisei.report.parts import Block, Figure, Part, Rated, Result
from suisei.report.vector import inline_svg, save_figures

VOID = {"meta", "img", "br", "link"}


class Reader(HTMLParser):
    """Collects the elements, their attributes and their text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(result):
    return render("A page", [part_of(result)])


def test_text_of_others_stays_text(page):
    read = Reader(page)
    assert read.open == []
    assert len(read.named("script")) == 1
    assert "alert(" not in "".join(read.texts["script"])
    assert "alert(1)" in "".join(read.texts["bdi"])  # it is shown
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert not read.named("b") + read.named("i")
    assert [
        image for image in read.named("img") if not image["src"].startswith("data:image/jpeg;base64,")
    ] == []


def test_marks_of_direction_act_inside_of_isolated_text_alone(page):
    for before in re.findall(r"(<[a-z]+)[^<>]*>[^<>]*\u202e", page):
        assert before in ("<bdi", "<pre", "<title")
    svg = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert svg
    assert "\u202e" not in svg


def test_the_page_asks_for_nothing(page):
    read = Reader(page)
    assert read.named("link") == []
    places = [a[k] for _, a in read.elements for k in ("src", "href", "xlink:href", "action") if k in a]
    assert all(place.startswith(("#", "data:image/")) for place in places)
    assert "@import" not in page
    assert re.findall(r"url\((?!#)", page) == []


def test_only_the_script_of_the_page_may_run(page):
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = Reader(page).named("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert f"script-src 'sha256-{digest}'" in policy["content"]
    assert "default-src 'none'" in policy["content"]


def test_every_name_is_used_once_and_every_reference_leads_to_one(page):
    ids = [attributes["id"] for _, attributes in Reader(page).elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(ids) > 50  # those of the figures too
    wanted = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', page))
    assert wanted <= set(ids)


def test_what_can_be_seen_can_be_heard(page):
    read = Reader(page)
    assert all(attributes.get("alt") for attributes in read.named("img"))
    drawn = read.named("svg")
    assert drawn
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in drawn)
    heads = [a for a in read.named("th") if a["scope"] == "col"]
    assert heads
    assert all(head["aria-sort"] == "none" for head in heads)
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_headings_are_there_for_what_there_is(page, result):
    titles = [
        "Results",
        "Predicted against human",
        "Calibration",
        "Learning curves",
        "Best and worst predictions",
    ]
    assert [block.title for block in part_of(result).blocks] == [*titles, "Where it comes from"]
    bare = part_of(Result("bare", {"results": result.tables["results"]}))
    assert [block.title for block in bare.blocks] == ["Results"]


def test_what_is_not_drawn_is_said():
    def block(systems, metrics):
        samples = [
            CaptionSample("a", rating=Rating((float(n % 5),), 0, 4), system=f"s{n % systems}", id=str(n))
            for n in range(60)
        ]
        scores = {f"m{n}": np.linspace(0, 1, 60) for n in range(metrics)}
        blocks = part_of(Result("t", {}, Rated(samples, scores))).blocks
        return {each.title: each for each in blocks}

    many, few = block(41, 8), block(40, 6)
    assert many["Predicted against human"].notes == [
        "the first 6 of 8 metrics are drawn; tables have all",
        "by system, metrics are drawn for up to 40 systems; there are 41",
    ]
    assert many["Best and worst predictions"].cards[0].note.endswith("; 7 of 8 metrics are shown")
    shown = [len(each["Best and worst predictions"].cards[0].cards[0].figures) for each in (many, few)]
    assert shown == [1 + 7, 1 + 6]  # what people said is the first
    assert few["Predicted against human"].notes == []
    assert "metrics are shown" not in few["Best and worst predictions"].cards[0].note


def test_japanese_is_marked_as_japanese(page):
    assert re.search(r'<p class="candidate" lang="ja"><bdi>赤いボールがある</bdi>', page)


def test_bold_is_what_is_significantly_best():
    rows = [Row("a", {"x": Cell(0.5), "y": Cell(0.9)}, info={"best": ["x"]}), Row("b", {"x": Cell(0.4)})]
    page = render("t", [], Table("t", {"x": "X", "y": "Y"}, (Section("overall", tuple(rows)),)))
    assert re.findall(r"<strong>([\d.]+)<", page) == ["0.500"]


def test_folded_sections_whose_titles_have_commas_can_be_told_apart():
    sections = tuple(Section(f"m{number}, Japanese", (Row("a"),)) for number in range(5))
    page = render("t", [], Table("t", {"x": "X"}, sections))
    assert "2 more: <bdi>m3, Japanese</bdi>; <bdi>m4, Japanese</bdi></summary>" in page


def test_a_number_that_is_absent_says_why():
    rows = (Row("a", {"x": Cell(None, reason="one <rater>")}), Row("b", error="no & file"))
    page = render("t", [], Table("t", {"x": "X"}, (Section("overall", rows),)))
    assert 'title="one &lt;rater&gt;"' in page
    assert '<span class="reason">no &amp; file</span>' in page
    assert "<li><bdi>a: one &lt;rater&gt;</bdi></li>" in page


def test_why_a_row_is_empty_is_said_once():
    table = Table("T", {"x": "x"}, (Section("all", (Row("m", error="no such model"),)),))
    assert "no such model" in table.all_notes()[0]  # of Markdown and the terminal, whose rows say nothing
    assert render("t", [], table).count("no such model") == 1


def test_a_figure_without_anything_to_show_is_left_out():
    from suisei.metaeval.plots import plot_curves

    figure = Figure("f", "Nothing", "", lambda path: plot_curves(path, {}))
    assert "<figure" not in render("t", [Part("p", [Block("b", figures=[figure])])])


def test_text_in_figures_is_text_in_the_colours_of_the_page(result):
    figure = part_of(result).blocks[0].figures[0]
    svg = inline_svg(figure, "p")
    assert re.search(r"<text[^>]*>suisei</text>", svg)
    assert "&lt;b onmouseover=alert(3)&gt;$x$&lt;/b&gt;" in svg  # two dollars make no formula
    assert "var(--blue)" in svg
    assert not re.search(r"#(000000|2b6ca3|ffffff)\b", svg)
    assert "<style" not in svg


@pytest.mark.parametrize("mark", ["\x07", "\u202e", "\ud800"])
def test_what_acts_on_other_text_is_shown_as_unknown_in_figures(mark):
    typical = {"before": 0.4, "after": 0.1, "original": "a dog", "changed": "a a dog"}
    quantiles = dict.fromkeys(("0.05", "0.25", "0.5", "0.75", "0.95"), 0.1)
    info = {"quantiles": quantiles, "examples": {"typical": typical}}
    section = Section(f"s{mark}", (Row(f"m{mark}", {"lower": Cell(0.5)}, info=info),))
    table = Table("Probe", {"lower": "scores lower"}, (section,))
    figures = part_of(Result("t", {"degradations": table})).blocks[0].figures
    drawn = [inline_svg(figure, "p") for figure in figures]
    assert "m\ufffd" in drawn[0]
    assert not any(mark in svg for svg in drawn)


def test_what_is_rounded_to_nothing_has_no_sign():
    quantiles = dict.fromkeys(("0.05", "0.25", "0.5", "0.75", "0.95"), -0.0)
    typical = {"before": -0.4, "after": -0.0001, "original": "a dog", "changed": "a a dog"}
    row = Row("m", {"lower": Cell(0.5)}, info={"quantiles": quantiles, "examples": {"typical": typical}})
    table = Table("Probe", {"lower": "scores lower"}, (Section("English", (row,)),))
    block = part_of(Result("t", {"degradations": table})).blocks[0]
    assert block.figures[1].text == "m median 0.000"
    assert "(-0.400 to 0.000)" in block.texts[0][1]


def test_fifty_thousand_rows_make_a_small_page():
    rng = np.random.default_rng(0)
    human = rng.integers(0, 5, 50_000)
    samples = [
        CaptionSample("a dog", ("a cat",), rating=Rating((float(value),), 0, 4), group=str(place // 10))
        for place, value in enumerate(human.tolist())
    ]
    scores = {f"m{n}": np.clip(human / 4 + rng.normal(0, 0.2, len(human)), 0, 1) for n in range(3)}
    page = render("t", [part_of(Result("big", {}, Rated(samples, scores)))])
    assert len(page.encode()) < 15_000_000 / 10
    assert "data:image/png" in page  # dense clouds are pictures, not 50,000 circles


def test_figures_for_papers_are_written_in_three_kinds(result, tmp_path):
    write_page(None, tmp_path / "figures", "t", [Part("p", part_of(result).blocks[:1])])
    suffixes = {path.suffix for path in (tmp_path / "figures").iterdir()}
    assert suffixes == {".svg", ".pdf", ".png"}
    (drawn,) = (tmp_path / "figures").glob("agreement-1-*-kendall-tau-c.pdf")
    assert drawn.read_bytes().startswith(b"%PDF")


def test_files_of_figures_name_their_metric_and_stay_short(rated, tmp_path):
    long = "指標" * 100
    named = Rated(rated.samples, {"suisei": rated.scores["suisei"], long: rated.scores["suisei"]})
    blocks = [block for block in part_of(Result("t", {}, named)).blocks if block.title != "Calibration"]
    write_page(None, tmp_path, "t", [Part("p", blocks)])
    names = {path.stem for path in tmp_path.iterdir()}
    scopes = {name.split("-")[2] for name in names if name.startswith("predicted-1-")}
    assert scopes
    assert {f"predicted-1-{scope}-suisei" for scope in scopes} < names
    assert {name.split("-")[2] for name in names if name.startswith("predicted-2-")} == scopes
    assert max(len(name.encode()) for name in names) <= 200


@pytest.mark.parametrize(
    ("section", "said"), [("overall", "T, tau-c"), ("recall, of people", "T, recall, of people, tau-c")]
)
def test_a_chart_of_one_section_among_several_says_which(section, said):
    rows = (Row("a", {"tau-c": Cell(0.5)}),)
    table = Table("T", {"tau-c": "tau-c"}, (Section(section, rows), Section("other", rows)))
    assert [figure.title for figure in _bars([table])] == [said]


def test_a_chart_shows_the_column_that_the_command_says():
    rows = (Row("a", {"pearson": Cell(0.5), "tau-c": Cell(0.4)}),)
    table = Table("T", {"pearson": "Pearson", "tau-c": "tau-c"}, (Section("overall", rows),))
    assert [figure.title for figure in _bars([table])] == ["T, tau-c"]
    said = read_table(replace(table, meta={"plotted": "pearson"}).as_dict())
    assert [figure.title for figure in _bars([said])] == ["T, Pearson"]
    unknown = read_table(replace(table, meta={"plotted": "x"}).as_dict())
    assert [figure.title for figure in _bars([unknown])] == ["T, tau-c"]


def test_scores_of_two_comparisons_are_files_of_two_names():
    rows = (Row("a", {"chrf": Cell(0.5), "chrf rank": Cell(1)}),)
    table = Table("T", {"chrf": "chrf", "chrf rank": "rank"}, (Section("overall", rows),))
    assert [figure.name for figure in _system_scores([table, table])] == ["scores-1-chrf", "scores-2-chrf"]


def test_files_of_bars_name_their_table_and_coefficient():
    rows = (Row("a", {"tau-c": Cell(0.5)}),)
    table = Table("By scale: toys", {"tau-c": "Kendall tau-c"}, (Section("recall", rows), Section("b", rows)))
    assert [figure.name for figure in _bars([table])] == ["agreement-1-by-scale-toys-recall-kendall-tau-c"]


@pytest.mark.parametrize("column", ["lower", "rho"])
@pytest.mark.parametrize("letter", ["é", "𠮷"])
def test_files_of_probes_with_a_long_title_have_names_of_their_own(column, letter, tmp_path):
    sections = tuple(Section(name, (Row("a", {column: Cell(0.5)}),)) for name in ("English", "Japanese"))
    figures = probe_figures(Table(letter * 120, {column: "x"}, sections))
    save_figures(tmp_path, [("", replace(each, draw=lambda path: path.write_text("x"))) for each in figures])
    assert len(list(tmp_path.glob("*-1-English.svg"))) == len(list(tmp_path.glob("*-2-Japanese.svg"))) == 1


def test_files_of_several_parts_begin_with_the_number_of_their_part(tmp_path):
    figure = Figure("f", "A figure", "", lambda path: path.write_text("x"))
    write_page(None, tmp_path, "t", [Part("p", [Block("b", figures=[figure])])] * 2)
    assert {path.stem for path in tmp_path.iterdir()} == {"1-f", "2-f"}
