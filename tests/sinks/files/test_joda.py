"""Patterns of Joda."""

from datetime import datetime

import pytest

from ottla.sinks.files.joda import time_pattern

TIME = datetime(2026, 1, 3, 0, 5, 9, 7000)


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "year=2026/month=01/day=03/hour=00"),
        ("yy-M-d", "26-1-3"),
        ("MMM MMMM EEE EEEE", "Jan January Sat Saturday"),
        ("hh kk KK a", "12 24 00 AM"),
        ("mm:ss.SSS", "05:09.007"),
        ("'o''clock' D e", "o'clock 3 6"),
        ("xxxx-ww", "2026-01"),
    ],
)
def test_a_pattern_shows_a_time_as_joda_does(pattern, shown):
    assert time_pattern(pattern)(TIME) == shown


@pytest.mark.parametrize(("pattern", "fault"), [("YYYY'", "place 5 is not closed"), ("qq", "the letter q is unknown")])
def test_a_pattern_that_is_not_understood_is_refused(pattern, fault):
    with pytest.raises(ValueError, match=fault):
        time_pattern(pattern)
