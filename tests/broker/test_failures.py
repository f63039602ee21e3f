"""Failures that stop a broker, and those that it goes on with."""

from __future__ import annotations

import errno

from ottla.broker.failures import Failures
from ottla.kernel.errors import InvariantBroken

EIO = OSError(errno.EIO, "broken", "/a/t-0")


def test_the_first_reason_stops_the_broker_and_no_later_one_is_told() -> None:
    told: list[str] = []
    failures = Failures(told.append)
    failures.stop_for("one")
    failures.stop_for("two")
    assert told == ["one"] and failures.reason == "one"


def test_a_disk_that_others_make_up_for_stops_nothing() -> None:
    told: list[str] = []
    failures = Failures(told.append)
    failures.go_on_without = lambda error: None
    failures.disk_failed(EIO)
    assert told == [] and failures.reason is None


def test_a_disk_without_which_the_broker_cannot_go_on_stops_it() -> None:
    told: list[str] = []
    failures = Failures(told.append)
    failures.go_on_without = lambda error: f"no other disk than {error.filename}"
    failures.disk_failed(EIO)
    assert told == ["no other disk than /a/t-0"]


def test_a_broker_that_stops_takes_no_more_directories_offline() -> None:
    asked: list[OSError] = []
    failures = Failures(lambda why: None)
    failures.go_on_without = asked.append
    failures.stop_for("the store is damaged")
    failures.disk_failed(EIO)
    assert asked == []


def test_a_disk_that_fails_before_the_directories_are_known_stops_the_broker() -> None:
    told: list[str] = []
    Failures(told.append).disk_failed(EIO)
    (why,) = told
    assert "broken" in why


def test_an_untrue_state_is_told_with_where_it_was_found() -> None:
    told: list[str] = []
    failures = Failures(told.append)
    try:
        raise InvariantBroken("two segments overlap")
    except InvariantBroken as error:
        failures.broken(error)
    (why,) = told
    assert "two segments overlap" in why and "test_failures.py" in why
