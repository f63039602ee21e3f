"""Producers count their records and send audit messages with the counts."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.produce.audit_trail import AUDIT_TOPIC, WINDOW_MS, AuditMessage, AuditTrail
from ottla.testing import TestBroker


def a_trail(now=1_000):
    return AuditTrail(host="h", service="s", clock=lambda: now)


class Delivery:
    def __init__(self, fault):
        self._fault = fault

    def result(self, timeout=None):
        if self._fault is not None:
            raise self._fault


class Refusing:
    """A producer whose broker is away."""

    def produce(self, topic, value=None, key=None):
        return Delivery(ClientError("away"))


class Taking:
    def __init__(self):
        self.taken = []

    def produce(self, topic, value=None, key=None):
        self.taken.append((topic, key, AuditMessage.decode(value)))
        return Delivery(None)


EVENTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-(1 << 42), 1 << 42), st.integers(0, 99)), max_size=30)


@given(EVENTS, st.integers(0, 30))
def test_the_deltas_of_all_flushes_add_up_to_what_was_counted(events, cut):
    trail, producer = a_trail(), Taking()
    for part in (events[:cut], events[cut:]):
        for topic, when, size in part:
            trail.count(topic, when, size)
        trail.flush(producer)
    told, sizes = Counter(), Counter()
    for _, _, message in producer.taken:
        told[message.topic, message.window_start] += message.count
        sizes[message.topic, message.window_start] += message.bytes
        assert message.window_end == message.window_start + WINDOW_MS
    assert told == Counter((topic, when // WINDOW_MS * WINDOW_MS) for topic, when, _ in events)
    assert sizes.total() == sum(size for _, _, size in events)
    assert [message.seq for _, _, message in producer.taken] == list(range(1_000, 1_000 + len(producer.taken)))


def test_what_could_not_be_sent_is_sent_again_under_the_same_number():
    trail, producer = a_trail(), Taking()
    trail.count("a", 0, 1)
    with pytest.raises(ClientError, match="away"):
        trail.flush(Refusing())
    trail.count("a", 0, 1, records=2)
    assert trail.flush(producer) == 2
    assert [(each.seq, each.count) for _, _, each in producer.taken] == [(1_000, 1), (1_001, 2)]
    assert trail.flush(producer) == 0


def test_a_delivery_that_failed_is_not_counted():
    trail = a_trail()
    trail.delivered("a", 5, 7, ClientError("timed out"))
    trail.delivered("a", 5, 7, object())
    (message,) = trail.messages()
    assert message.count == 1 and message.bytes == 7


@given(st.text(max_size=5), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_a_message_is_read_as_it_was_written(text, first, second):
    message = AuditMessage("producer", text, first, second, second, first, text, text, first, second)
    assert AuditMessage.decode(message.encode()) == message
    names = "tier topic window_start window_end count bytes host service seq sent_at"
    assert sorted(json.loads(message.encode())) == sorted(names.split())


@pytest.mark.parametrize("body", [None, b"", b"[]", b"{}", b"\xff", b'"x"', b"[" * 100_000])
def test_what_is_no_message_is_refused(body):
    with pytest.raises(ValueError):
        AuditMessage.decode(body)


def test_a_message_with_a_field_of_another_type_is_refused():
    stored = json.loads(AuditMessage("p", "t", 0, 1, 2, 3, "h", "s", 4, 5).encode())
    for name, wrong in (("count", "2"), ("count", True), ("topic", 1), ("seq", 1.5), ("bytes", None)):
        with pytest.raises(ValueError, match=name):
            AuditMessage.decode(json.dumps({**stored, name: wrong}).encode())


def test_a_producer_tells_a_real_broker_what_it_sent():
    with TestBroker() as broker, Producer(broker.bootstrap_servers) as producer:
        trail = a_trail()
        for number in range(5):
            when = number * WINDOW_MS // 2
            producer.produce(
                "orders",
                b"value",
                timestamp=when,
                on_delivery=lambda outcome, when=when: trail.delivered("orders", when, 5, outcome),
            )
        producer.flush()
        assert trail.flush(producer) == 3
        with Consumer(
            broker.bootstrap_servers, consumer=ConsumerSettings("g", auto_offset_reset="earliest")
        ) as consumer:
            consumer.subscribe([AUDIT_TOPIC])
            found = []
            while len(found) < 3:
                found += [AuditMessage.decode(record.value) for record in consumer.poll()]
        assert {each.window_start // WINDOW_MS: each.count for each in found} == {0: 2, 1: 2, 2: 1}


def test_the_guides_producer_tells_what_it_sent(tmp_path):
    guide = (Path(__file__).parents[3] / "docs/guide/lake-audit.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    with TestBroker() as broker:
        exec(compile(program.replace("localhost:9092", broker.bootstrap_servers), "guide", "exec"), {})
        reading = ConsumerSettings("g", auto_offset_reset="earliest")
        with Consumer(broker.bootstrap_servers, consumer=reading) as consumer:
            consumer.subscribe([AUDIT_TOPIC])
            told = 0
            while told < 1000:
                told += sum(AuditMessage.decode(record.value).count for record in consumer.poll())
    assert told == 1000
