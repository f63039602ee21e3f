"""Batches take a tenth of a second, within bounds."""

from __future__ import annotations

from ottla.streams.pace import LEAST, Pace


def test_batches_grow_to_what_a_tenth_of_a_second_takes() -> None:
    pace = Pace(10_000)
    for _ in range(20):
        pace.took(pace.records, pace.records / 50_000)
    assert pace.records == 5_000


def test_batches_shrink_where_records_become_slow_but_not_below_the_least() -> None:
    pace = Pace(10_000)
    for rate in (1_000_000, 1_000_000, 8_000):
        pace.took(pace.records, pace.records / rate)
    assert pace.records == 800
    pace.took(pace.records, 60)
    assert pace.records == LEAST


def test_a_batch_that_was_not_full_says_nothing_about_the_rate() -> None:
    pace = Pace(10_000)
    pace.took(3, 0.000_001)
    assert pace.records == LEAST


def test_the_callers_bound_holds() -> None:
    pace = Pace(7)
    pace.took(7, 0.0)
    assert pace.records == 7
