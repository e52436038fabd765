"""Scores and reasons as HTML."""

import re
from html import unescape

from suisei.demo.panels import STYLE, explanation_panel, score_panel
from suisei.demo.scoreboard import Shown
from suisei.explain.explanation import Explanation, ReferenceEffect, WordEffect

HOSTILE = '<script>alert("x")</script>'


def test_bars_are_as_long_as_the_scores():
    lines = [Shown("suisei", "s", 0.25, 0.25), Shown("chrf", "c", 62.5, 0.625), Shown("length", "l", 7.0)]
    panel = score_panel([*lines, Shown("bleu-4", "b", reason="no references")])
    assert re.findall(r"width: ([\d.]+)%", panel) == ["25.0", "62.5"]
    assert re.findall(r'class="value">([^<]*)<', panel) == ["0.250", "62.5", "7.0", "–"]
    assert "no references" in panel
    assert panel.count("row first") == 1


def made(candidate, words, **rest):
    effects, end = [], 0
    for text, moved in words:
        start = candidate.index(text, end)
        end = start + len(text)
        effects.append(WordEffect(text, start, end, 0.5, moved))
    return Explanation("suisei", "suisei|x", candidate, "en", None, 0.5, words=tuple(effects), **rest)


def test_words_are_tinted_by_what_they_do():
    panel = explanation_panel(made("two  dogs run.", [("two", 0.2), ("dogs", -0.1), ("run", 0.001)]))
    words = panel.partition('<div class="words">')[2].partition("</div>")[0]
    assert unescape(re.sub("<[^>]*>", "", words)) == "two  dogs run."
    strong, weak, flat = re.findall(r"<span ([^>]*)>", words)
    assert "color-mix(in srgb, #68a3d6 85%, white)" in strong
    assert "color-mix(in srgb, #e99a62 50%, white)" in weak
    assert [re.search('class="([^"]*)"', each)[1] for each in (strong, weak, flat)] == [
        "helps",
        "costs",
        "flat",
    ]
    assert re.search(r"span\.costs {[^}]*border-bottom", STYLE)  # not by colour alone
    assert 'aria-label="two: +0.200"' in strong
    assert 'aria-label="dogs: −0.100"' in weak
    assert "Blue words raise the score, orange ones, underlined, lower it" in panel


def test_effects_and_parts_are_in_tables():
    effects = tuple(ReferenceEffect(text, n, 0.4, 0.3, None, 0.2) for n, text in enumerate(("near", "far")))
    panel = explanation_panel(
        made(
            "a dog", [("a", None), ("dog", 0.1)], references=effects, without_references=0.7, notes=("known",)
        )
    )
    assert "<td>the references</td>" in panel
    assert "−0.200" in panel
    assert panel.index("near") < panel.index(">far<")
    assert "known" in panel
    assert "the image" not in panel.partition("With and without")[2]


def test_what_rounds_to_zero_has_no_sign():
    panel = explanation_panel(made("a dog", [("a", -0.0004), ("dog", 0.0004)], without_references=0.5004))
    assert 'aria-label="a: 0.000"' in panel
    assert 'aria-label="dog: 0.000"' in panel
    assert '<td>the references</td><td class="n">0.000</td>' in panel


def test_nothing_of_a_visitors_text_is_markup():
    effects = tuple(ReferenceEffect(HOSTILE, n, None, None, None, None) for n in range(2))
    panel = explanation_panel(
        made(
            f"a {HOSTILE}", [("a", 0.1), ('"x"', 0.1), ("script", 0.2)], references=effects, notes=(HOSTILE,)
        )
    )
    assert "<script" not in panel
    assert 'aria-label="&quot;x&quot;: +0.100"' in panel
    assert "<script" not in score_panel([Shown(HOSTILE, HOSTILE, reason=HOSTILE)])
