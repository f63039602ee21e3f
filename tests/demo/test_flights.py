"""The demo's events have the same content as its files."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from ottla.demo import flights
from ottla.demo.lake import checksum


@pytest.fixture(scope="module")
def topics() -> dict[str, flights.Events]:
    return {events.topic: events for events in flights.all_events()}


def test_every_row_of_the_files_is_an_event(topics: dict[str, flights.Events]) -> None:
    assert {name: len(events.values) for name, events in topics.items()} == {
        "airlines": 16,
        "weather": 26_115,
        "flights": 336_776,
    }


@pytest.mark.parametrize("topic", ["airlines", "weather", "flights"])
def test_the_json_values_hold_exactly_what_the_rows_hold(topics: dict[str, flights.Events], topic: str) -> None:
    events = topics[topic]
    sample = range(0, len(events.values), max(1, len(events.values) // 20_000))
    rows = pd.DataFrame([json.loads(events.values[number]) for number in sample])
    assert checksum(rows) == checksum(events.rows.iloc[list(sample)])


def test_the_event_time_of_a_flight_is_its_scheduled_departure(topics: dict[str, flights.Events]) -> None:
    first = pd.Timestamp("2013-01-01T10:15:00Z")
    assert topics["flights"].times_ms[0] == first.timestamp() * 1000
    assert topics["flights"].keys[0] == b"UA1545"


def test_flights_that_never_departed_have_no_departure(topics: dict[str, flights.Events]) -> None:
    without = [json.loads(value)["dep_delay"] for value in topics["flights"].values].count(None)
    assert without == 8_255
