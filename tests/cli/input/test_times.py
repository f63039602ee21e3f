"""Times as people write them become milliseconds; what is none is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from ottla.cli.input.times import InputTimes


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (1425168000, 1425168000000),
        ("1425168000", 1425168000000),
        (1425168000.5, 1425168000500),
        (Decimal("1425168000.9999"), 1425168000999),
        (1425168000123, 1425168000123),
        (1425168000123456, 1425168000123),
        (1425168000123456789, 1425168000123),
        (0, 0),
        ("2015-03-01", 1425168000000),
        ("2015-03-01 01:00", 1425171600000),
        ("2015-03-01T01:00:00.1239Z", 1425171600123),
        ("2015-03-01T01:00:00,5+01:00", 1425168000500),
        ("2015-03-01T01:00:00+0100", 1425168000000),
        ("9999-12-31T23:59:59.999Z", 253402300799999),
        (datetime(2015, 3, 1, tzinfo=UTC), 1425168000000),
        (datetime(2015, 3, 1), 1425168000000),
        (date(2015, 3, 1), 1425168000000),
    ],
)
def test_a_time_is_read_in_the_unit_of_its_size(value: object, milliseconds: int) -> None:
    assert InputTimes().milliseconds(value) == milliseconds


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2015-02-30",
        "2015-03-01T25:00",
        "1969-12-31",
        -1,
        True,
        None,
        [],
        float("nan"),
        float("inf"),
        10**30,
    ],
)
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"no time|before 1970"):
        InputTimes().milliseconds(value)


def test_numbers_of_one_input_are_of_one_unit() -> None:
    times = InputTimes()
    assert times.milliseconds(1425168000) == 1425168000000
    with pytest.raises(ValueError, match="looks like a time in ms, those before it are in s: give --time-unit"):
        times.milliseconds(1425168000000)
    given = InputTimes("ms")
    assert given.milliseconds(86_400_000) == 86_400_000
    assert given.milliseconds(1425168000000) == 1425168000000
