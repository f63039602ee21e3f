"""Subscriptions to clients' metrics, with the time given: who is asked for what, and who may push when."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.broker.requests.telemetry import MOST_INSTANCES, ClientSubscription, Telemetry
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.metadata.state import CLIENT_METRICS_RESOURCE
from ottla.metrics.otlp import Point

ID, OTHER = b"i" * 16, b"o" * 16
ABOUT = {"client_id": "app-1", "client_software_name": "librdkafka", "client_source_port": "5"}
EARLY, UNKNOWN = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_SUBSCRIPTION_ID
MOST = 100


def telemetry(**subscriptions: dict[str, str]) -> Telemetry:
    one = Telemetry()
    subscribe(one, **subscriptions)
    return one


def subscribe(one: Telemetry, **subscriptions: dict[str, str]) -> None:
    one.subscribe({(CLIENT_METRICS_RESOURCE, name): texts for name, texts in subscriptions.items()})


def asked(one: Telemetry, now_ms: int = 0, instance: bytes = ID) -> ClientSubscription:
    found = one.ask(instance, ABOUT, now_ms)
    assert isinstance(found, ClientSubscription), found
    return found


def push(one: Telemetry, now_ms: int, number: int, *, codec: int = 0, size: int = 1, **more: Any) -> ErrorCode:
    found = one.may_push(ID, ABOUT, now_ms, (number, codec, size), MOST, **{"terminating": False, **more})
    return found.code if isinstance(found, ApiError) else ErrorCode.NONE


def test_without_a_subscription_nothing_is_asked_for() -> None:
    assert asked(telemetry())[1:] == ((), 300_000)


def test_a_client_is_asked_for_what_all_subscriptions_that_fit_want_as_often_as_the_most_eager() -> None:
    one = telemetry(
        a={"metrics": "x.,y.", "interval.ms": "5000"},
        b={"metrics": "y.,z.", "interval.ms": "900", "match": "client_id=app-.*,client_software_name=librdkafka"},
        c={"metrics": "*", "interval.ms": "100", "match": "client_id=app"},
    )
    assert asked(one)[1:] == (("x.", "y.", "z."), 900)


def test_a_subscription_to_everything_takes_the_place_of_others() -> None:
    assert asked(telemetry(a={"metrics": "x."}, b={"metrics": "*"})).metrics == ("*",)


def test_a_subscription_can_be_about_one_client_instance() -> None:
    one = telemetry(a={"metrics": "x.", "match": "client_instance_id=69696969-6969-6969-6969-696969696969"})
    assert (asked(one).metrics, asked(one, instance=OTHER).metrics) == (("x.",), ())


def test_a_client_asks_once_in_its_interval() -> None:
    one = telemetry(a={"metrics": "x.", "interval.ms": "1000"})
    assert asked(one, 0) == asked(one, 1000)
    assert one.ask(ID, ABOUT, 1999) == EARLY
    assert asked(one, 2000)


def test_a_client_pushes_after_it_asked_and_then_once_in_its_interval() -> None:
    one = telemetry(a={"metrics": "x.", "interval.ms": "1000"})
    number = asked(one, 0).subscription_id
    assert [push(one, now_ms, number) for now_ms in (10, 500, 1010)] == [0, EARLY, 0]
    assert push(one, 1020, number, terminating=True) == 0
    assert push(one, 9000, number) == ErrorCode.INVALID_REQUEST


def test_a_client_with_an_old_subscription_asks_again_at_once() -> None:
    one = telemetry(a={"metrics": "x.", "interval.ms": "1000"})
    number = asked(one, 0).subscription_id
    subscribe(one, a={"metrics": "z.", "interval.ms": "1000"})
    assert push(one, 10, number) == UNKNOWN
    now = asked(one, 20)
    assert (now.metrics, now.subscription_id != number) == (("z.",), True)
    assert push(one, 30, now.subscription_id) == 0


def test_a_client_that_a_restarted_broker_does_not_know_goes_on() -> None:
    number = asked(telemetry(a={"metrics": "x."})).subscription_id
    assert push(telemetry(a={"metrics": "x."}), 0, number) == 0


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": MOST + 1}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"size": MOST, "codec": 4}, ErrorCode.NONE),
    ],
)
def test_pushes_that_cannot_be_taken_are_refused(more: dict[str, int], error: ErrorCode) -> None:
    one = telemetry(a={"metrics": "x."})
    assert push(one, 10, asked(one, 0).subscription_id, **more) == error


@pytest.mark.parametrize("instance", [bytes(16), bytes(15) + b"\x01"])
def test_an_instance_id_that_no_broker_gives_is_refused(instance: bytes) -> None:
    refused = telemetry().may_push(instance, ABOUT, 0, (0, 0, 0), MOST, terminating=False)
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.INVALID_REQUEST


def test_clients_that_are_silent_for_three_intervals_are_forgotten_with_their_metrics() -> None:
    one = telemetry(a={"metrics": "x.", "interval.ms": "30000"})
    number = asked(one, 0).subscription_id
    assert push(one, 0, number) == 0
    one.pushed.take("69696969-6969-6969-6969-696969696969", ("", "", ""), [Point("x", (), 1, False, False)], [""])
    one.forget_silent(90_000)
    assert len(one.pushed) == 1
    one.forget_silent(90_001)
    assert len(one.pushed) == 0


def test_one_client_above_the_bound_makes_the_longest_silent_one_forgotten_and_no_other() -> None:
    one = telemetry(a={"metrics": "x."})
    for number in range(MOST_INSTANCES):
        asked(one, 0, number.to_bytes(16, "big"))
    for number in range(3):
        one.pushed.take(str(UUID(int=number)), ("", "", ""), [Point("x", (), 1, False, False)], [""])
    hours_later_ms = 36_000_000
    asked(one, hours_later_ms, bytes(16))
    asked(one, hours_later_ms, OTHER)
    assert len(one.pushed) == 2
    one.forget_silent(hours_later_ms)
    assert len(one.pushed) == 1
