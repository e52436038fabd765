"""Metrics against people's scores of systems: few systems, all their orders, files that do not fit."""

import math

import numpy as np
import pytest

from suisei.errors import DataError
from suisei.metaeval.resampling import Interval
from suisei.metaeval.system_agreement import agreement_table, checked_human_scores, system_agreements
from suisei.metaeval.systems import MetricOutcome, SystemScore

HUMAN = {"a": 0.1, "b": 0.4, "c": 0.5, "d": 0.9}


def outcome(values, label="bleu-4", **fields):
    systems = {name: SystemScore(value, Interval(None, None)) for name, value in values.items()}
    return MetricOutcome(label, n=9, systems=systems, **fields)


def test_the_right_order_and_how_often_chance_finds_it():
    found = system_agreements([outcome({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})], HUMAN)[0]
    assert found.coefficients["spearman"] == pytest.approx(1)
    assert found.coefficients["pearson"] == pytest.approx(
        np.corrcoef([1, 2, 3, 4], list(HUMAN.values()))[0, 1]
    )
    assert found.p_value == pytest.approx(1 / math.factorial(4))


def test_means_that_differ_in_their_last_digit_are_ties():
    values = {"a": 0.42421366807331723, "b": 0.4242136680733171, "c": 0.4242136680733172, "d": 0.9}
    found = system_agreements([outcome(values)], HUMAN)[0]
    assert found.coefficients["spearman"] == pytest.approx(0.7746, abs=1e-4)
    assert found.coefficients["tau-b"] == pytest.approx(0.7071, abs=1e-4)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_what_scores_are_multiplied_by_changes_nothing(scale):
    values = {"a": 0.2, "b": 0.4, "c": 0.5, "d": 0.3}
    one, other = (
        system_agreements([outcome({name: value * by for name, value in values.items()})], HUMAN)[0]
        for by in (1.0, scale)
    )
    assert other.coefficients == pytest.approx(one.coefficients)
    assert other.p_value == one.p_value
    assert other.metric_scores == pytest.approx([value * scale for value in values.values()])


def test_a_distance_is_turned_round_and_a_failed_metric_left_out():
    distance = outcome({"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}, "distance", higher_is_better=False)
    failed = MetricOutcome("failed", error="why")
    (found,) = system_agreements([distance, failed], HUMAN)
    assert found.coefficients["tau-b"] == pytest.approx(1)
    (note,) = (note for note in agreement_table([found]).notes if "sign" in note)
    assert note == "distance: lower is better, so scores count with their sign turned"
    plain = agreement_table(system_agreements([outcome(dict(HUMAN))], HUMAN))
    assert not any("sign" in note for note in plain.notes)


def test_orders_that_agree_as_well_but_for_rounding_count():
    human = {"a": 0.7, "b": 0.9, "c": 0.6, "d": 0.5}
    (found,) = system_agreements([outcome({"a": 0.0, "b": 2.0, "c": 1.0, "d": 1.0})], human)
    assert found.p_value == pytest.approx(12 / 24)  # two of them are below it in the last digit


def test_of_many_systems_some_orders_are_drawn():
    human = {str(n): float(n) for n in range(9)}
    found = system_agreements([outcome({str(n): n * 1.0 for n in range(9)})], human)[0]
    assert 0 < found.p_value < 0.002
    table = agreement_table([found])
    assert table.overall.rows[0].cells["p"].text() == "<0.001"
    (note,) = [note for note in table.notes if note.startswith("p (orders)")]
    assert note.startswith("p (orders): share of 5,040 orders of the systems, drawn at random")
    few = agreement_table(system_agreements([outcome(HUMAN)], HUMAN)).notes
    assert any(note.startswith("p (orders): share of all orders of the systems whose") for note in few)


def test_the_table_says_how_few_systems_there_are():
    same = outcome(dict.fromkeys("abcd", 1.0), "same")
    table = agreement_table(system_agreements([outcome(HUMAN), same], HUMAN))
    assert "4 systems: one order in 24 is right by chance alone" in table.notes
    row = table.row("bleu-4")
    assert row.cells["n"].value == 4
    assert row.as_dict()["points"][0] == {"system": "a", "metric": 0.1, "human": 0.1}
    assert "all 4 values" in table.row("same").cells["spearman"].reason
    assert agreement_table([]) is None


def test_why_a_metric_has_no_figure_is_a_note():
    same = outcome(dict.fromkeys("abcd", 1.0), "same")
    notes = agreement_table(system_agreements([outcome(HUMAN), same], HUMAN)).notes
    assert [note for note in notes if "undefined" in note] == [
        "same: undefined: its scores of all 4 systems are equal"
    ]
    notes = agreement_table(system_agreements([outcome(HUMAN)], dict.fromkeys("abcd", 3.0))).notes
    assert "bleu-4: undefined: people's scores of all 4 systems are equal" in notes
    assert not any("by chance" in note for note in notes)


def test_systems_that_people_rate_alike_leave_fewer_orders():
    tied = {"a": 3.0, "b": 2.0, "c": 2.0}
    (found,) = system_agreements([outcome({"a": 0.7, "b": 0.5, "c": 0.5})], tied)
    assert found.p_value == pytest.approx(1 / 3)
    assert "3 systems: one order in 3 is right by chance alone" in agreement_table([found]).notes


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"a": 1, "b": 2, "x": 3}, "scores of 2 of the systems a, b, c, d, and a correlation takes three"),
        ({"a": "good"}, "the score of 'a' must be a number, got str"),
        ({"a": float("nan")}, "the score of 'a' is nan; leave the system out"),
        ({"a": float("inf")}, "the score of 'a' is inf; leave the system out"),
    ],
)
def test_files_that_do_not_fit(found, message):
    with pytest.raises(DataError, match=message):
        checked_human_scores(found, list("abcd"), "--human h.json")


def test_systems_of_the_file_that_are_not_compared_are_left_out():
    assert checked_human_scores({**HUMAN, "x": 1}, list("dcba"), "h") == dict(reversed(HUMAN.items()))
