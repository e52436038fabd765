"""The table model, its renderings in files, and tables of correlations."""

import io
import json
import re

import pytest
from rich.console import Console

from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.metaeval.terminal import FittedTable
from tests.unit.metaeval.simulated import rated


@pytest.fixture
def table():
    rows = (
        Row("a_b|50%", {"x": Cell(0.123456, 0.1, 0.2, signature="sig"), "n": Cell(16992)}, "a|tok:x"),
        Row("broken & out", error="Java died\nat line 3"),
        Row("worse", {"x": Cell(-0.5, -0.6, -0.4)}),
        Row(HUMAN, {"x": Cell(None, reason="not available: one rater")}),
    )
    return Table("T_1 #5", {"x": "tau-c", "n": "n"}, (Section("overall", rows),), ("a note",), {"seed": 0})


def test_markdown(table):
    lines = table.to_markdown().splitlines()
    assert lines[0] == "## T_1 #5"
    assert lines[2:4] == ["| Metric | tau-c | n |", "|:---|---:|---:|"]
    assert lines[4] == r"| a_b\|50% | 0.123 [0.100, 0.200] | 16,992 |"
    assert "- broken & out: Java died at line 3" in lines
    assert "- human: not available: one rater" in lines


def test_a_name_that_begins_as_an_argument_does_not_end_the_latex_row_before_it():
    rows = tuple(Row(name, {"x": Cell(0.5)}) for name in ("[ours]", "*theirs"))
    latex = Table("T", {"x": "of metrics [words]"}, (Section("overall", rows),)).to_latex()
    assert "\\midrule\n{}[ours] & 0.500 \\\\\n{}*theirs & 0.500 \\\\\n" in latex
    assert r"\shortstack[r]{of metrics\\{}[words]}" in latex


def test_a_signature_is_one_line():
    table = Table("T", {"x": "x"}, (Section("overall", (Row("m", signature="a\nb|from:s.csv"),)),))
    assert "- signature: `a b|from:s.csv`\n" in table.to_markdown()
    assert "% signature: a b|from:s.csv\n" in table.to_latex()


def test_signatures_of_every_section_are_listed_once():
    sections = (
        Section("0 references", (Row("m", signature="m"),)),
        Section("9 references", (Row("n", signature="n|refs:9"), Row("m", signature="m"))),
        Section("system: a", (Row("o", signature="o"),)),
    )
    table = Table("T", {"x": "x"}, sections)
    listed = "- signature: `m`\n- signature: `n|refs:9`\n"
    assert table.to_markdown().endswith(f"{listed}- signature: `o`\n")
    assert table.to_markdown(by_system=False).endswith(listed)
    assert table.to_latex().endswith("% signature: m\n% signature: n|refs:9\n")


def test_scopes_say_why_they_lack_what_all_samples_have_and_nothing_twice():
    one, other = "no interval: one group", "tau-c needs at least two points"
    x, y = Cell(0.5, reason=one), Cell(None, reason="constant")
    sections = (
        Section("overall", (Row("m", {"x": x, "y": y, "z": Cell(0.1)}), Row("dead", error="no Java"))),
        Section("language: English", (Row("m", {"x": x, "y": y, "z": Cell(0.2)}), Row("dead", error="gone"))),
        Section(
            "language: Japanese",
            (Row("m", {"x": x, "y": Cell(None, reason="constant 0"), "z": Cell(None, reason=other)}),),
        ),
        Section("system: s", (Row("m", error="no scores"),)),
    )
    notes = Table("T", {"x": "x", "y": "y", "z": "z"}, sections).all_notes()
    assert notes[:3] == [f"m: {one}", "m: constant", "dead: no Java"]
    assert notes[3:] == [f"m (language: Japanese): {other}", "m (system: s): no scores"]


def test_a_section_that_is_not_of_all_samples_speaks_for_itself_alone():
    lost, low, other = "no score", "no share: -0.105 may be chance", "no share: 0.011 may be chance"
    bleu, rouge = "bleu-4, Japanese", "rouge-l, Japanese"
    sections = (
        Section(
            bleu, (Row("swap", {"x": Cell(None, reason=low)}), Row("omit", {"x": Cell(None, reason=lost)}))
        ),
        Section(
            rouge, (Row("swap", {"x": Cell(None, reason=other)}), Row("omit", {"x": Cell(None, reason=lost)}))
        ),
        Section("chrf, Japanese", (Row("swap", {"x": Cell(0.5)}), Row("half", error="gone"))),
    )
    notes = Table("T", {"x": "x"}, sections).all_notes()
    assert notes == [
        f"swap ({bleu}): {low}",
        f"omit ({bleu}; {rouge}): {lost}",
        f"swap ({rouge}): {other}",
        "half (chrf, Japanese): gone",
    ]
    assert Table("T", {"x": "x"}, sections[:2]).all_notes()[1] == f"omit: {lost}"  # of every section
    assert Table("T", {"x": "x"}, sections[:1]).all_notes() == [f"swap: {low}", f"omit: {lost}"]


def test_what_is_best_is_bold_in_every_rendering_and_nothing_else_is():
    best = Row("a", {"x": Cell(-0.5, -0.6, -0.4), "y": Cell(0.9)}, info={"best": ["x"]})
    table = Table("T", {"x": "x", "y": "y"}, (Section("overall", (best, Row("b", {"x": Cell(0.7)}))),))
    assert "| a | **-0.500 [-0.600, -0.400]** | 0.900 |" in table.to_markdown()
    assert table.to_markdown().count("**") == 2
    assert r"a & \textbf{$-$0.500} & 0.900 \\" in table.to_latex()
    assert table.to_latex().count("textbf") == 1
    for width in (160, 24):  # intervals beside figures, and below them
        console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
        console.print(FittedTable(table))
        marked = re.findall("\x1b\\[1m([^\x1b]*)", console.export_text(styles=True))
        assert [text.split()[0] for text in marked if "0." in text][:1] == ["-0.500"]
        assert not any("0.900" in text or "0.700" in text for text in marked)


def test_latex_escapes_and_balances(table):
    text = table.to_latex()
    assert r"a\_b\textbar{}50\% & 0.123 & 16,992 \\" + "\n" + r"& {\scriptsize [0.100, 0.200]} & " in text
    assert r"Metric & $\tau_c$ & n \\" in text
    assert r"worse & $-$0.500 & -- \\" + "\n" + r"& {\scriptsize [$-$0.600, $-$0.400]} &  \\[2pt]" in text
    assert r"broken \& out & -- & -- \\" in text
    assert r"\caption{T\_1 \#5}" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert all(line.startswith("%") for line in text.split(r"\end{table}")[1].strip().splitlines())


def test_latex_is_small_only_where_intervals_need_it_and_breaks_long_headings():
    rows = (Row("m", {"x": Cell(0.5)}),)
    table = Table("T", {"x": "Kendall tau-b published", "y": "Kendall tau-c"}, (Section("overall", rows),))
    text = table.to_latex()
    assert r"footnotesize" not in text
    assert r"Metric & \shortstack[r]{Kendall $\tau_b$\\published} & Kendall $\tau_c$ \\" in text
    rows = (Row("m", {"x": Cell(0.5, 0.4, 0.6)}),)
    assert r"\footnotesize" in Table("T", {"x": "r"}, (Section("overall", rows),)).to_latex()


def test_tiny_p_values_are_not_shown_as_zero():
    assert Cell(1e-9, is_p_value=True).text() == "<0.001"
    assert Cell(0.001, is_p_value=True).text() == "0.001"
    assert Cell(1e-9).text() == "0.000"
    assert Cell(-1e-4, -0.0004, 0.2).text() == "0.000 [0.000, 0.200]"
    assert Cell(-0.0006).text() == "-0.001"


def test_json_has_full_precision_and_reasons(table):
    content = json.loads(json.dumps(table.as_dict(), allow_nan=False))
    rows = content["sections"][0]["rows"]
    assert content["seed"] == 0
    assert rows[0]["cells"]["x"] == {"value": 0.123456, "low": 0.1, "high": 0.2, "signature": "sig"}
    assert rows[0]["signature"] == "a|tok:x"
    assert rows[1]["error"].startswith("Java died")
    assert rows[3]["cells"]["x"] == {"value": None, "reason": "not available: one rater"}


def test_latex_has_a_table_per_section_and_leaves_systems_out_unless_asked():
    rows = (Row("m", {"x": Cell(0.5)}),)
    titles = ["overall", "language: ja", "system: s", "1 reference"]
    table = Table("T", {"x": "r"}, tuple(Section(title, rows) for title in titles), ("a note",))
    text = table.to_latex()
    assert text.count(r"\begin{table}") == text.count(r"\toprule") == 3
    captions = [line for line in text.splitlines() if line.startswith(r"\caption")]
    assert captions == [r"\caption{T (overall)}", r"\caption{T (language: ja)}", r"\caption{T (1 reference)}"]
    assert text.count("% a note") == 1
    assert "% left out: 1 section (system)" in text
    assert table.to_latex(["system"]).count(r"\begin{table}") == 2
    assert "% left out" not in table.to_latex(["overall", "language", "system"])


def test_papers_get_names_and_no_paths():
    labels = ["suisei:/home/me/runs/a/model", "suisei:runs/b/model", "suisei:/home/me/runs/a/model > cider"]
    rows = tuple(Row(label, {"x": Cell(0.5)}) for label in labels)
    text = Table("T", {"x": "r"}, (Section("overall", rows),)).to_latex()
    assert "suisei:a & " in text
    assert "suisei:b & " in text
    assert r"suisei:a \textgreater{} cider & " in text
    assert "/home" not in text


def test_written_tables_carry_signatures_and_can_leave_systems_out():
    samples, quality = rated(systems=("s", "t"))
    result = evaluation_table({"q": quality}, samples, signatures={"q": "q|tok:x"})
    assert result.to_markdown().count("- signature: `q|tok:x`") == 1
    assert result.to_latex().count("% signature: q|tok:x") == 1
    assert "### system: t" in result.to_markdown()
    assert "system: t" not in result.to_markdown(by_system=False)


def test_unknown_row_is_named(table):
    with pytest.raises(KeyError, match="no row 'c'"):
        table.row("c")


def test_a_rows_number_is_none_where_there_is_no_cell_or_nothing_in_it():
    row = Row("a", {"pearson": Cell(0.5), "tau-c": Cell(None, reason="ties"), "n": Cell(0)})
    assert [row.value(key) for key in ("pearson", "tau-c", "n", "spearman")] == [0.5, None, 0, None]
