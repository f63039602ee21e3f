"""Durations, sizes and moments as people write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.kernel.quantities import duration_ms, fine_duration_ms, moment_ms, moment_text, size_bytes

NOW = 1_790_000_000_000  # 2026-09-21T14:13:20Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("15min", 900_000),
        ("1h", 3_600_000),
        ("1H", 3_600_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("7d", 604_800_000),
        ("7 days", 604_800_000),
        ("2w", 1_209_600_000),
        ("P7D", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("PT0.5S", 500),
    ],
)
def test_a_duration_has_its_unit_behind_its_number(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(("text", "ms"), [("500us", "0.5"), ("1.5 µs", "0.0015"), ("2ms", "2"), ("1s 1us", "1000.001")])
def test_a_fine_duration_keeps_its_fraction(text: str, ms: str) -> None:
    assert fine_duration_ms(text) == Decimal(ms)


def test_a_bare_number_counts_in_the_unit_of_its_place() -> None:
    assert duration_ms("15", bare="ms") == 15
    assert duration_ms("15", bare="s") == 15_000
    with pytest.raises(ValueError, match="lacks a unit"):
        duration_ms("15")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        ("-1h", "not a duration"),
        ("soon", "not a duration"),
        ("1parsec", "parsec is not a unit"),
        ("1h30", "not a duration"),
        ("5M", "minutes or months"),
        ("1month", "differ in length"),
        ("2y", "differ in length"),
        ("0.5ms", "whole number"),
        ("P1M", "not a duration"),
        ("P", "not a duration"),
        ("PT", "not a duration"),
        ("٣h", "not a duration"),
        ("99999999999999w", "too much"),
    ],
)
def test_a_duration_that_leaves_a_choice_or_would_be_rounded_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("100B", 100),
        ("100 bytes", 100),
        ("1k", 1024),
        ("64m", 64 << 20),
        ("64MB", 64 << 20),
        ("64MiB", 64 << 20),
        ("1GiB", 1 << 30),
        ("1.5 GiB", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_sizes_count_in_steps_of_1024(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1", "-1GiB", "1.0001k", "1Gbit", "1x", "1 000", "9999999P", "٣k"])
def test_what_is_not_a_whole_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|too much"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-09-21T14:13:20Z"),
        ("-1h", "2026-09-21T13:13:20Z"),
        ("- 1h30m", "2026-09-21T12:43:20Z"),
        ("2 days ago", "2026-09-19T14:13:20Z"),
        ("today", "2026-09-21T00:00:00Z"),
        ("yesterday", "2026-09-20T00:00:00Z"),
        ("Yesterday 10:00", "2026-09-20T10:00:00Z"),
        ("yesterday 10:00:30", "2026-09-20T10:00:30Z"),
        ("yesterday 10:00+02:00", "2026-09-20T08:00:00Z"),
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31 12:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00.250Z", "2026-01-31T12:00:00.250Z"),
        ("2026-01-31T12:00-05:00", "2026-01-31T17:00:00Z"),
    ],
)
def test_a_moment_is_a_time_or_so_long_ago(text: str, moment: str) -> None:
    assert moment_text(moment_ms(text, NOW)) == moment


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1h", "write -1h"),
        ("10:00", "write today 10:00 or yesterday 10:00"),
        ("tomorrow", "is not a time"),
        ("yesterday noon", "is not a time"),
        ("2026-02-30", "is not a time"),
        ("31.1.2026", "is not a time"),
        ("-1", "lacks a unit"),
        ("-1fortnight", "not a unit"),
        ("-100000d", "before 1970"),
        ("1969-12-31", "before 1970"),
        ("2026-01-31T12:00:00.0001Z", "finer than a millisecond"),
    ],
)
def test_a_moment_that_is_none_is_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        moment_ms(text, NOW)
