"""The time for which Spark's connections wait for a broker where none answers, counted in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from ottla.client.core.effects import Ask, Pause
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import BrokerUnreachable
from ottla.client.model import ClientSettings
from ottla.rows import connections
from ottla.rows.connections import client_settings
from ottla.rows.kafka_settings import KafkaSettings
from ottla.spark import sender
from ottla.spark.batch import plan_batch
from ottla.spark.marker import SparkTask
from ottla.spark.once import write_once
from ottla.spark.options import sink_options, source_options
from ottla.spark.reader import read_ranges
from ottla.spark.writer import write_rows

SPARKS = client_settings(KafkaSettings("boot:1"))


def waited_ms(settings: ClientSettings, *, connecting_ms: int) -> float:
    """The time until the first request fails, where each attempt to connect takes `connecting_ms` and fails."""
    now_ms = 0.0
    plan = ClusterPlan("boot:1", settings, lambda: now_ms)
    story = plan.refresh(["t"])
    effect = story.send(None)
    with pytest.raises(BrokerUnreachable, match="no broker answers at boot:1"):
        while True:
            if isinstance(effect, Pause):
                now_ms += effect.ms
                effect = story.send(None)
            else:
                assert isinstance(effect, Ask)
                now_ms += connecting_ms
                effect = story.throw(BrokerUnreachable("cannot connect"))
    return now_ms


def test_brokers_that_refuse_are_tried_for_as_long_as_the_bound_says() -> None:
    bound_ms = SPARKS.bootstrap_timeout_ms
    assert bound_ms / 2 < waited_ms(SPARKS, connecting_ms=1) <= bound_ms + 1
    assert waited_ms(ClientSettings(), connecting_ms=1) > bound_ms + 1, "the client's own bound is longer"


def test_an_address_that_takes_no_connection_leaves_a_fifth_of_ten_seconds_to_spark() -> None:
    assert waited_ms(SPARKS, connecting_ms=SPARKS.connect_timeout_ms) <= 8_000


@pytest.fixture
def away(monkeypatch):
    """No broker takes the next two requests that any could answer; who is not patient gives up after the first."""
    left, ask_any, settings = [0], ClusterPlan.ask_any, connections.client_settings

    async def refused_while_away(plan, *request, **limits):
        left[0] -= 1
        if left[0] >= 0:
            raise BrokerUnreachable("no broker answers")
        return await ask_any(plan, *request, **limits)

    def impatient(kafka, *, patient=False):
        chosen = settings(kafka, patient=patient)
        return chosen if patient else replace(chosen, bootstrap_timeout_ms=0)

    def leave() -> None:
        connections._kept.clear()
        sender._kept.clear()
        left[0] = 2

    monkeypatch.setattr(connections, "client_settings", impatient)
    monkeypatch.setattr(ClusterPlan, "ask_any", refused_while_away)
    yield leave
    connections._kept.clear()


def test_the_tasks_of_a_planned_read_wait_for_brokers_that_are_away(bootstrap, topics, away):
    topic = topics.new()
    topics.count(topic, 0, 3)
    options = source_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, streaming=False)
    ranges = plan_batch(options.survey(), options, [])
    away()
    with pytest.raises(BrokerUnreachable):
        plan_batch(options.survey(), options, [])
    away()
    assert sum(batch.num_rows for batch in read_ranges(ranges, options)) == 3


def test_a_query_that_has_written_before_waits_for_brokers_that_are_away(bootstrap, topics, away):
    topic = topics.new()
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"a"], pa.binary())})
    to = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    options, once = sink_options(to), sink_options({**to, "delivery": "exactly-once"})
    write_once(once, SparkTask("q", 0, 0), iter([rows]))
    away()
    with pytest.raises(BrokerUnreachable):
        write_rows(options, iter([rows]))
    away()
    assert write_rows(options, iter([rows]), patient=True).rows == 1
    away()
    assert write_once(once, SparkTask("q", 1, 0), iter([rows])).rows == 1


def test_a_broker_that_is_connected_has_the_time_to_answer_that_the_options_say() -> None:
    settings = client_settings(KafkaSettings("boot:1", request_timeout_ms=25_000))
    assert settings.request_timeout_ms == 25_000
    assert settings.connect_timeout_ms > 3_000, "two lost first packets may be sent again"
