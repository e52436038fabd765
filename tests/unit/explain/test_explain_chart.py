"""What is drawn and said of an explanation."""

from dataclasses import replace
from io import StringIO

import pytest
from PIL import Image
from rich.console import Console

from suisei.data.figures import style
from suisei.errors import ConfigError
from suisei.explain.chart import MOST_INPUTS, explanation_figure, plot_explanation
from suisei.explain.explanation import Explanation, InputEffect, ReferenceEffect, WordEffect
from suisei.explain.wording import MOST_INPUTS as MOST_SHOWN
from suisei.explain.wording import sentences, terminal_parts


@pytest.fixture
def explanation():
    references = (
        ReferenceEffect("a [red] dog", 1, 0.6, 0.55, 0.9, 0.15),
        ReferenceEffect("the mathematical $x_1$ dog of a very, very long reference", 0, 0.5, 0.65, 0.4, 0.05),
    )
    words = (WordEffect("red", 2, 5, 0.4, 0.3), WordEffect("blue", 6, 10, 0.9, -0.2))
    inputs = [InputEffect(f"n{k}", "metrics", 0.1 * k, 0.5, 0.6, 0.1 - 0.01 * k) for k in range(20)]
    inputs.append(InputEffect("unknown", "metrics", None, 0.5, None, None))
    group = InputEffect("all metrics", "metrics", None, None, 0.5, 0.2, 20)
    return Explanation(
        "suisei", "suisei|x", "a red blue dog", "en", "dog.jpg", 0.7, 0.66, 0.3, 0.2,
        references, words, tuple(inputs), (group,),
    )  # fmt: skip


def texts_of(figure):
    return [text.get_text() for axis in figure.axes for text in axis.texts + axis.get_yticklabels()]


def text_of(explanation):
    console = Console(width=80, file=StringIO(), color_system=None)
    for part in terminal_parts(explanation):
        console.print(part)
    return console.file.getvalue()


def test_the_chart_has_every_part(explanation):
    with style():
        figure = explanation_figure(explanation)
        figure.canvas.draw()
    parts, words, numbers = figure.axes
    assert [bar.get_width() for bar in parts.patches] == [0.7, 0.66, 0.3, 0.2, 0.6, 0.5]
    assert [bar.get_width() for bar in words.patches] == [0.3, -0.2]
    assert [text.get_text() for text in words.get_yticklabels()] == ["red", "blue"]
    assert len(numbers.patches) == 1 + MOST_INPUTS
    assert "only reference 2: the mathematical…" in texts_of(figure)
    assert "a red blue dog" in figure.get_suptitle()


def test_the_strongest_words_are_drawn_and_what_is_left_out_is_said(explanation):
    words = tuple(WordEffect(f"w{k}", k, k + 1, 0.7, 0.001 * k * (-1) ** k) for k in range(80))
    nearest = explanation.references[0]
    long = replace(explanation, words=words, references=(nearest,) * 11)
    with style():
        figure = explanation_figure(long)
        figure.canvas.draw()
        parts, drawn, numbers = figure.axes
        assert all(axis._left_title.get_window_extent().x1 < figure.bbox.width for axis in figure.axes)
    assert [text.get_text() for text in drawn.get_yticklabels()] == [f"w{k}" for k in range(50, 80)]
    assert drawn.get_title("left") == "moved by each word (not drawn: 50 of less effect)"
    assert parts.get_title("left") == "score with and without (not drawn: 3 references farther away)"
    assert numbers.get_title("left") == "moved by numbers that went in (not drawn: 12 of less effect)"
    with style():
        assert explanation_figure(explanation).axes[1].get_title("left") == "moved by each word"


def test_what_rounds_to_zero_has_no_sign_in_chart_and_tables(explanation):
    words = (WordEffect("red", 2, 5, 0.7, -0.0004), WordEffect("blue", 6, 10, 0.7, 0.0004))
    still = replace(explanation, words=words)
    with style():
        assert [text.get_text() for text in explanation_figure(still).axes[1].texts] == ["0.000", "0.000"]
    lines = [line.split() for line in text_of(still).splitlines()]
    assert [line[2] for line in lines if line[:1] in (["red"], ["blue"])] == ["0.000", "0.000"]


def test_references_that_begin_alike_are_told_apart(explanation):
    alike = [f"the mathematical dog of a very, very long reference {end}" for end in ("by a", "by b")]
    references = [replace(each, text=text) for each, text in zip(explanation.references, alike, strict=True)]
    changed = replace(explanation, references=tuple(references))
    with style():
        labels = texts_of(explanation_figure(changed))
    assert "only reference 1: the mathematical…" in labels
    assert "only reference 2: the mathematical…" in labels
    shown = " ".join(text_of(changed).split())
    assert shown.index("1: the mathematical") < shown.index("2: the mathematical")


def test_notes_are_under_the_chart(explanation):
    note = "the text encoder read the caption up to “…a red blue”; later words were not left out, and so on"
    with style():
        assert explanation_figure(explanation).get_supxlabel() == ""
        figure = explanation_figure(replace(explanation, notes=("short", note)))
        figure.canvas.draw()
        box = figure._supxlabel.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert box.y1 < figure.axes[-1].get_tightbbox().y0
    assert " ".join(figure.get_supxlabel().split()) == f"short {note}"


def test_another_suffix_is_refused(explanation, tmp_path):
    with pytest.raises(ConfigError, match=r"a\.gif: must end in \.png, \.pdf or \.svg"):
        plot_explanation(tmp_path / "a.gif", explanation)
    assert list(tmp_path.iterdir()) == []


def test_no_label_is_cut_off_or_covered(explanation):
    with style():
        figure = explanation_figure(explanation)
        figure.canvas.draw()
        width = figure.bbox.width
        for axis in figure.axes:
            for text in [*axis.texts, *axis.get_yticklabels()]:
                box = text.get_window_extent()
                assert box.x0 >= 0
                assert box.x1 <= width


def test_files_by_suffix(explanation, tmp_path):
    for name in ("a.png", "a.pdf", "a.svg"):
        plot_explanation(tmp_path / name, explanation)
    assert Image.open(tmp_path / "a.png").format == "PNG"
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert ">red<" in (tmp_path / "a.svg").read_text()


def test_a_bare_explanation_is_drawn_and_said(tmp_path):
    bare = Explanation("length", "length|x", "dog", "en", None, 0.1)
    plot_explanation(tmp_path / "a.png", bare)
    assert sentences(bare) == ["length gives this caption 0.100."]


def test_sentences_name_what_matters_most(explanation):
    said = " ".join(sentences(explanation))
    assert "The image raises it by 0.040, from 0.660 without." in said
    assert "The references raise it by 0.400, from 0.300 without." in said
    assert "helps most is “red”: without it, 0.400" in said
    assert "costs most is “blue”: without it, 0.900" in said
    assert "n0 (0, typically 0.5) raises it most, by 0.100" in said
    cosine = replace(explanation.inputs[0], name="similarity-mean", kind="cosines with references", value=0.9)
    counted = sentences(replace(explanation, inputs=(cosine,)))[-1]
    assert "similarity-mean (0.9, counted from 0.5) raises it most" in counted
    still = replace(explanation, without_image=0.7)
    assert "The image hardly changes it." in sentences(still)


def test_a_terminal_of_80_columns_shows_all_and_no_markup(explanation):
    shown = text_of(explanation)
    assert max(map(len, shown.splitlines())) <= 80
    assert "a [red] dog" in shown
    for wanted in ("without references", "+0.300", "all metrics (20)", "n5", "8 more", "signature: suisei|x"):
        assert wanted in shown
    assert f"n{MOST_SHOWN} " not in shown


def test_numbers_that_are_not_there_are_not_shown(explanation):
    absent = tuple(InputEffect(f"absent{k}", "metrics", None, 0.5, None, None) for k in range(20))
    there = explanation.inputs[:1]
    shown = text_of(replace(explanation, inputs=absent + there))
    assert "n0 " in shown
    assert "absent" not in shown
    assert "more, each of less effect" not in shown
    figure = explanation_figure(replace(explanation, inputs=absent + there))
    assert len(figure.axes[-1].patches) == 2  # with the group
    none = text_of(replace(explanation, inputs=absent, groups=()))
    assert "Numbers that went in" not in none
