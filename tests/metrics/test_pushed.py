"""Metrics that clients push: OTLP read, and shown with the labels of their clients."""

from __future__ import annotations

import pytest
from tests.metrics.otlp_building import gauge, pair, part, pushed, sums, varint

from ottla.metrics.exposition import render
from ottla.metrics.otlp import MOST_FIELDS, MOST_NAME_BYTES, BadOtlp, Point, read_metrics
from ottla.metrics.pushed import (
    MOST_CLIENTS,
    MOST_LABELS,
    MOST_NAMES,
    MOST_POINTS,
    MOST_POINTS_IN_ALL,
    PushedMetrics,
)

ABOUT = ("app", "librdkafka 2.11", "127.0.0.1")


def test_gauges_and_sums_are_read_with_their_labels() -> None:
    content = pushed(
        gauge("org.apache.kafka.x", 1.5, pair(7, "topic", part(1, b"t")), pair(7, "n", varint(3 << 3) + varint(7))),
        sums("y", -3, temporality=1),
        resource=pair(1, "group_id", part(1, b"g")),
    )
    found = read_metrics(content)
    assert found.points == [
        Point("org.apache.kafka.x", (("group_id", "g"), ("n", "7"), ("topic", "t")), 1.5, False, False),
        Point("y", (("group_id", "g"),), -3.0, True, True),
    ]
    assert found.left_out == 0


def test_histograms_are_counted_and_left_out() -> None:
    found = read_metrics(pushed(part(2, part(1, b"h") + part(9, b""))))
    assert (found.points, found.left_out) == ([], 1)


@pytest.mark.parametrize(
    "content",
    [b"\x0a\x05ab", b"\x0a", b"\x0b", b"\x80" * 11, bytes(pushed(part(2, part(1, b"\xff") + part(5, b""))))],
)
def test_what_is_no_otlp_is_refused(content: bytes) -> None:
    with pytest.raises(BadOtlp):
        read_metrics(memoryview(content))


def test_more_fields_than_a_turn_may_take_are_refused() -> None:
    with pytest.raises(BadOtlp, match="fields"):
        read_metrics(memoryview(b"\x08\x00" * (MOST_FIELDS + 1)))


def test_attributes_of_a_resource_count_for_each_of_its_points() -> None:
    about = b"".join(pair(1, str(number), part(1, b"v")) for number in range(1000))
    assert len(read_metrics(pushed(*[gauge("x", 1)] * 50, resource=about)).points) == 50
    with pytest.raises(BadOtlp, match="fields"):
        read_metrics(pushed(*[gauge("x", 1)] * 100, resource=about))


@pytest.mark.parametrize("longer", [0, 1])
def test_names_longer_than_the_bound_are_refused(longer: int) -> None:
    name = "n" * (MOST_NAME_BYTES + longer)
    for content in pushed(gauge(name, 1)), pushed(gauge("x", 1, pair(7, name, b""))):
        if not longer:
            assert len(read_metrics(content).points) == 1
            continue
        with pytest.raises(BadOtlp, match=f"a name of {len(name)} bytes"):
            read_metrics(content)


def point(name: str, value: float, *, delta: bool = False, **labels: str) -> Point:
    return Point(name, tuple(sorted(labels.items())), value, delta, delta)


def test_values_are_shown_with_the_labels_of_their_client_and_never_as_the_brokers_own() -> None:
    held = PushedMetrics()
    held.take("id-1", ABOUT, [point("ottla_requests_total", 1, client_id="forged"), point("a.b", 2, topic="t")], [""])
    held.take("id-2", ABOUT, [point("org.apache.kafka.a.b", 3, node_id='1"')], [""])
    lines = render(held.samples()).splitlines()
    about = 'client_id="app",client_software_name="librdkafka 2.11",client_address="127.0.0.1"'
    assert f'kafka_client_a_b{{client_instance_id="id-1",{about},node_id="",topic="t"}} 2' in lines
    assert f'kafka_client_a_b{{client_instance_id="id-2",{about},node_id="1\\"",topic=""}} 3' in lines
    forged = f'kafka_client_ottla_requests_total{{client_instance_id="id-1",{about},pushed_client_id="forged"}} 1'
    assert forged in lines
    assert sum(line.startswith("# TYPE kafka_client_a_b ") for line in lines) == 1


def test_growths_add_up_and_sums_replace_one_another() -> None:
    held = PushedMetrics()
    for value in (2, 3):
        held.take("id", ABOUT, [point("grown", value, delta=True), point("whole", value)], [""])
    assert {sample.metric.name: sample.value for sample in held.samples()} == {
        "kafka_client_grown": 5,
        "kafka_client_whole": 3,
    }


def test_a_client_shows_what_was_asked_for_within_the_bounds() -> None:
    held = PushedMetrics()
    held.take("id", ABOUT, [point("a.x", 1), point("b.x", 1), point("a.y", float("nan"))], ["a."])
    assert ([sample.metric.name for sample in held.samples()], held.left_out) == (["kafka_client_a_x"], 2)
    held.take("id", ABOUT, [point("a.x", 1, n=str(n)) for n in range(MOST_POINTS)], ["a."])
    assert (len(list(held.samples())), held.left_out) == (MOST_POINTS, 3)
    for number in range(MOST_CLIENTS):
        held.take(str(number), ABOUT, [point("a.x", 1)], ["a."])
    assert (len(held), held.left_out) == (MOST_CLIENTS, 4)
    held.forget("id")
    held.take("last", ABOUT, [point("a.x", 1)], ["a."])
    assert len(held) == MOST_CLIENTS


def test_all_clients_together_show_no_more_points_and_names_than_the_bounds() -> None:
    held = PushedMetrics()
    for client in range(MOST_POINTS_IN_ALL // MOST_POINTS + 1):
        held.take(str(client), ABOUT, [point("x", 1, n=str(n)) for n in range(MOST_POINTS)], [""])
    assert (len(list(held.samples())), held.left_out) == (MOST_POINTS_IN_ALL, MOST_POINTS)
    held.forget("0")
    for client in range(3):
        held.take(f"named {client}", ABOUT, [point(f"y{client}.{n}", 1) for n in range(MOST_POINTS)], [""])
    assert len({sample.metric.name for sample in held.samples()}) == 1 + MOST_POINTS
    for client in range(5):
        held.forget(str(client))
    held.take("more", ABOUT, [point(f"z.{n}", 1) for n in range(MOST_POINTS)], [""])
    assert len({sample.metric.name for sample in held.samples()}) == MOST_NAMES


def test_a_metric_is_shown_with_no_more_labels_than_the_bound() -> None:
    held = PushedMetrics()
    held.take("id", ABOUT, [point("x", 1, **{f"label{n}": "v"}) for n in range(MOST_LABELS + 5)], [""])
    held.take("other", ABOUT, [point("x", 1, **{f"of_another{n}": "v" for n in range(MOST_LABELS)})], [""])
    assert (len(list(held.samples())), held.left_out) == (MOST_LABELS, 6)
    held.forget("id")
    held.take("other", ABOUT, [point("x", 1, **{f"of_another{n}": "v" for n in range(MOST_LABELS)})], [""])
    assert (len(list(held.samples())), held.left_out) == (1, 6)
