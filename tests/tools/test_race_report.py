"""The race computes ratios in the right direction, and reports missed goals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.lines import Figure, Figures, Line
from bench.report import BAR, Outcome, Race, amount, bar, ceilings_of_missed, rows, shares_of_missed, spread
from bench.rig import Rig

RATE = Figure("rate", "produce", "records/s", at_least=2.0)
COST = Figure("cost", "  broker CPU", "s", more_is_better=False, at_most=1.1)


def measured(rig: Rig, contestant: str) -> Figures:
    raise AssertionError("a report measures nothing")


def outcome(ours: float, theirs: float) -> Outcome:
    made = Outcome(Line("line", (RATE, COST), measured))
    for name, value in (("ottla", ours), ("kafka", theirs)):
        made.runs[name] = [{"rate": value * part, "cost": value * part} for part in (0.9, 1.0, 1.1)]
    made.ratios = {"rate": ours / theirs, "cost": ours / theirs}
    return made


def test_a_ratio_is_ours_over_theirs_and_is_held_to_what_is_wanted() -> None:
    rate, cost = rows(outcome(300.0, 100.0))
    assert rate[1:6] == ("300 ±10%", "100 ±10%", "3.00", "≥ 2", "yes")
    assert cost[3:6] == ("3.00 (less is better)", "≤ 1.1", "no")
    assert rows(outcome(100.0, 100.0))[0][5] == "no"


@pytest.mark.parametrize(("ratio", "more"), [(3.0, True), (1 / 3, False)])
def test_the_bar_goes_right_where_ours_is_ahead(ratio: float, more: bool) -> None:
    ahead = bar(ratio, more)
    assert ahead.index("|") == BAR // 2 and "█" in ahead.partition("|")[2]
    behind = bar(1 / ratio, more)
    assert "▒" in behind.partition("|")[0] and "█" not in behind


def test_an_even_race_has_no_bar_and_a_line_that_failed_says_why() -> None:
    assert bar(1.0, True).strip() == "|"
    failed = Outcome(Line("line", (RATE,), measured), fault="RuntimeError: the broker ended")
    assert rows(failed)[0][5:] == ("failed", "RuntimeError: the broker ended")


def test_numbers_are_short_and_spread_is_half_the_distance_of_the_extremes() -> None:
    assert [amount(value) for value in (1_234_567, 45_678, 1234, 0.4567)] == ["1.23 M", "45.7 k", "1234", "0.457"]
    assert spread([90.0, 100.0, 130.0]) == "±20%"


def test_a_line_that_is_not_reached_says_how_many_cores_its_client_and_its_broker_kept_busy() -> None:
    def timed(ratio: float) -> Outcome:
        made = Outcome(Line("line", (RATE,), measured), ratios={"rate": ratio})
        for name, broker in (("ottla", 0.3), ("kafka", 0.6)):
            run = {"seconds": 2.0, "client_cpu_seconds": 2.4, "client_busiest_thread_seconds": 1.9,
                   "broker_cpu_per_million": broker, "records": 2e6}  # fmt: skip
            made.runs[name] = [run] * 3
        return made

    assert shares_of_missed(Race({}, [timed(1.9)])) == [
        "| produce | 1.20 | 0.95 | 0.30 | 1.50 | 1.20 | 0.95 | 0.60 | 1.80 |"
    ]
    assert shares_of_missed(Race({}, [timed(2.1), outcome(100.0, 100.0)])) == []


def test_a_figure_that_is_not_reached_stands_beside_what_the_bare_server_reaches() -> None:
    missed = outcome(150.0, 100.0)
    bare = Outcome(replace(missed.line, name="bare-line", ceiling_of="line"), ratios={"rate": 1.8, "cost": 0.5})
    assert ceilings_of_missed(Race({}, [bare, missed])) == [
        "| produce | ≥ 2 | 1.50 | 1.80 |",
        "| produce: broker CPU | ≤ 1.1 | 1.50 | 0.50 |",
    ]
    assert ceilings_of_missed(Race({}, [missed]))[0] == "| produce | ≥ 2 | 1.50 | - |"
    assert ceilings_of_missed(Race({}, [outcome(300.0, 100.0)])) == ["| produce: broker CPU | ≤ 1.1 | 3.00 | - |"]


def test_a_figure_that_stands_by_itself_is_named_without_its_line() -> None:
    late = replace(COST, key="late", title="produce, p99")
    missed = Outcome(Line("line", (RATE, late), measured), ratios={"rate": 3.0, "late": 1.2})
    assert ceilings_of_missed(Race({}, [missed])) == ["| produce, p99 | ≤ 1.1 | 1.20 | - |"]
