"""Figures as files: the format of the suffix, and no boxes in the place of Japanese."""

import re
import warnings

import pytest
from PIL import Image

from suisei.data import figures
from suisei.data.figures import check_figure, east_asian_font, lay_out, new_figure, save_figure, style
from suisei.errors import ConfigError, DataError


def titled(text):
    with style():
        figure = new_figure((3, 2))
        figure.subplots().set_title(text)
        return figure


@pytest.fixture
def no_font(monkeypatch):
    monkeypatch.setattr(figures, "_FAMILIES", ("a family that nobody has",))
    east_asian_font.cache_clear()
    yield
    east_asian_font.cache_clear()


def test_the_suffix_decides(tmp_path):
    figure = titled("dogs")
    for name in ("a.png", "a.PDF", "a.svg", "bare"):
        save_figure(figure, tmp_path / name)
    assert Image.open(tmp_path / "a.png").format == Image.open(tmp_path / "bare").format == "PNG"
    pdf = (tmp_path / "a.PDF").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf  # which journals refuse
    assert re.search(r"<text[^>]*>dogs</text>", (tmp_path / "a.svg").read_text())


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg"])
def test_a_name_that_is_no_text_is_drawn_with_escapes(name, tmp_path):
    for draw in (lay_out, lambda figure: save_figure(figure, tmp_path / name)):
        figure = titled("\udc83.jsonl")
        draw(figure)
        assert figure.axes[0].get_title() == "\\udc83.jsonl"


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg"])
def test_the_same_figure_gives_the_same_bytes(name, tmp_path):
    save_figure(titled("dogs"), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save_figure(titled("dogs"), tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


@pytest.mark.parametrize("name", ["a.jpg", "a.eps", "a", "a.png.txt"])
def test_another_suffix_is_refused(name):
    with pytest.raises(ConfigError, match=rf"--plot {name}: must end in \.png, \.pdf or \.svg"):
        check_figure("--plot", name)
    check_figure("--plot", "/dev/stdout")
    check_figure("--plot", "a.SVG")


@pytest.mark.parametrize("name", ["a.png", "a.pdf"])
def test_without_a_font_japanese_is_refused_with_what_to_install(name, tmp_path, no_font):
    with pytest.raises(
        DataError, match=r"no font here .*'犬が走る'.*fonts-noto-cjk.*matplotlib-fontja.*\.svg"
    ):
        save_figure(titled("犬が走る"), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_svg_needs_no_font_and_leaves_room(tmp_path, no_font):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(titled("犬が走る"), tmp_path / "a.svg")
    save_figure(titled("dogs"), tmp_path / "b.svg")
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.svg", "b.svg")]
    widths = [float(re.search(r'width="([\d.]+)pt"', text)[1]) for text in texts]
    assert ">犬が走る<" in texts[0]
    assert widths[0] > widths[1]


def test_a_character_that_no_font_has_is_named_once(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_TOLD", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_figure(titled("\U0001f999 llava"), tmp_path / "a.svg")
        assert caught == []
        save_figure(titled("\U0001f999 llava"), tmp_path / "a.png")
        save_figure(titled("\U0001f999"), tmp_path / "a.pdf")
        save_figure(titled("\U0001f999\U0001f9ec"), tmp_path / "b.png")
    first, second = (str(each.message) for each in caught)
    assert first.startswith("no font here has \U0001f999 (U+1F999): a box is drawn; SVG needs no font")
    assert second.startswith("no font here has \U0001f9ec (U+1F9EC): ")


def test_a_font_that_is_there_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_FAMILIES", ("STIXGeneral",))  # which matplotlib brings
    east_asian_font.cache_clear()
    try:
        assert east_asian_font() == "STIXGeneral"
        figure = titled("犬")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has no kanji after all
            save_figure(figure, tmp_path / "a.png")
        assert "STIXGeneral" in figure.axes[0].title.get_fontfamily()
    finally:
        east_asian_font.cache_clear()


def test_fonts_of_packages_are_found_without_importing_them(tmp_path, monkeypatch):
    package = tmp_path / "a_font_package"
    (package / "fonts").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "fonts" / "x.ttf").write_bytes(b"no font at all")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(figures, "_FONT_PACKAGES", ("a_font_package", "absent_font_package"))
    assert figures._packaged_fonts() == [str(package / "fonts" / "x.ttf")]
    monkeypatch.setattr(figures, "_FAMILIES", ("a family that nobody has",))
    east_asian_font.cache_clear()
    assert east_asian_font() is None  # a broken font is none
    east_asian_font.cache_clear()
