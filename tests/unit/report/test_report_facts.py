"""Where a result comes from, as a page says it."""

from suisei.report.stored import as_yaml, facts_of


def test_signatures_of_all_sections_are_facts_each_once():
    rows = [("a", "one"), ("b", "two")]
    sections = [
        {"title": title, "rows": [{"label": label, "cells": {}, "signature": signature}]}
        for title in ("overall", "system: x")
        for label, signature in rows
    ]
    facts = dict(facts_of({"table": {"title": "t", "sections": sections}}))
    assert facts["Signatures"] == "a: one\nb: two"


def test_facts_leave_out_what_is_not_set():
    assert as_yaml({"a": None, "b": [], "c": 0, "d": "犬"}) == "c: 0\nd: 犬\n"
    assert dict(facts_of({"metrics": {"cider": "cider|x"}, "command": {"data": "d"}})) == {
        "Signatures": "cider: cider|x",
        "Options": "data: d\n",
    }
