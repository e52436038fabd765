"""Tables of results on a console."""

import pytest
from rich.console import Console

from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.metaeval.terminal import FittedTable

CORRELATED = {"p": "Pearson", "s": "Spearman", "b": "Kendall tau-b", "c": "Kendall tau-c", "n": "n"}


def render(table, width=160):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(FittedTable(table))
    return console.export_text()


def correlated(*labels, value=0.5):
    cells = {key: Cell(value, value - 0.03, value + 0.03) for key in "psbc"}
    return Table(
        "T",
        CORRELATED,
        (Section("overall", tuple(Row(each, {**cells, "n": Cell(16992)}) for each in labels)),),
    )


def test_terminal_with_and_without_room_for_intervals():
    row = Row("a_b|50%", {"x": Cell(0.123456, 0.1, 0.2), "n": Cell(16992)})
    table = Table("T_1 #5", {"x": "tau-c", "n": "n"}, (Section("overall", (row,)),))
    assert "0.123 [0.100, 0.200]" in render(table)
    narrow = [line.rstrip() for line in render(table, width=40).splitlines()]
    place = next(number for number, line in enumerate(narrow) if "a_b|50%" in line)
    assert narrow[place].split() == ["a_b|50%", "0.123", "16,992"]
    assert narrow[place + 1].split() == ["[0.100,", "0.200]"]


@pytest.mark.parametrize(("width", "value"), [(80, 0.5), (80, -0.5), (70, 0.5), (60, -0.5)])
def test_no_interval_vanishes_in_a_narrow_terminal(width, value):
    text = render(correlated("suisei", "suisei:runs/a-long-name/model", value=value), width)
    assert max(map(len, text.splitlines())) <= width
    joined = "".join(text.split())
    for end in (value - 0.03, value + 0.03):
        assert joined.count(f"{end:.3f}") == 8
    if (width, value) == (80, 0.5):
        assert text.count("[0.470, 0.530] [0.470, 0.530] [0.470, 0.530] [0.470, 0.530]") == 2


def test_terminal_leaves_out_many_systems():
    row = Row("m", {"x": Cell(0.7)})
    sections = [Section("overall", (row,)), Section("language: ja", (row,))]
    sections += [Section(f"system: s{i}", (row,)) for i in range(7)]
    text = render(Table("T", {"x": "tau-c"}, tuple(sections)))
    assert "language: ja" in text
    assert "system: s0" not in text
    assert "7 sections by system are in the written reports" in text
    assert "system: s0" in Table("T", {"x": "tau-c"}, tuple(sections)).to_markdown()
    assert "system: s0" in render(Table("T", {"x": "tau-c"}, tuple(sections[:8])))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_many_columns_of_few_rows_are_turned_where_they_have_no_room(width):
    names = [f"metric-{n} (lower is better)" for n in range(12)]
    columns = {key: heading for n in names for key, heading in ((n, n), (f"{n} rank", "rank"))}
    cells = {key: Cell(1) if "rank" in key else Cell(0.5, 0.41, 0.62) for key in columns}
    rows = tuple(Row(label, cells, info={"best": names[:1]}) for label in ("start", "tuned"))
    table = Table("T", columns, (Section("systems", rows),), ("a note",), row_heading="System")
    lines = [line.rstrip() for line in render(table, width).splitlines()]
    for name in names:
        (place,) = (n for n, line in enumerate(lines) if name in line)
        assert lines[place].split("│")[-3:-1] == [" 0.500 [0.410, 0.620] "] * 2, lines[place]
        assert "rank" in lines[place + 1]
    assert lines[-1] == "· a note"
    assert "start" in lines[2]
    wide = render(table, 1000)
    assert sum("metric-3" in line for line in wide.splitlines()) == 1
    assert "System" in wide


@pytest.mark.parametrize("width", [40, 80, 120])
def test_many_rows_and_columns_are_shown_a_few_columns_at_a_time_and_no_figure_is_cut(width):
    columns = {str(n): f"metric-{n}" for n in range(18)}
    cells = {key: Cell(0.5 + n / 1000, 0.412, 0.623) for n, key in enumerate(columns)}
    rows = tuple(Row(f"system-{n}", cells) for n in range(12))
    lines = render(Table("T", columns, (Section("all", rows),), ("a note",)), width).splitlines()
    words = " ".join(lines).split()
    assert max(map(len, lines)) <= width
    assert words.count("T") == words.count("note") == 1
    for name in columns.values():
        assert words.count(name) == 1
    for n in range(18):
        assert words.count(f"{0.5 + n / 1000:.3f}") == 12
    assert words.count("[0.412,") == words.count("0.623]") == 12 * 18
