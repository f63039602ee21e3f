"""A topic that is deleted and made anew under its readers."""

from __future__ import annotations

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.kernel.ids import TopicPartition


def a_topic(bootstrap: str, name: str, *values: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(name)
    with Producer(bootstrap) as producer:
        for value in values:
            producer.produce(name, value)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(ours: str, name: str) -> None:
    """Records of the new topic below the offset in the old one were once skipped."""
    a_topic(ours, name, "a", "b")
    with Consumer(ours, consumer=ConsumerSettings(auto_offset_reset="earliest")) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        read: list[str] = []
        while len(read) < 2:
            read += [(record.value or b"").decode() for record in consumer.poll(50)]
        with Admin(ours) as admin:
            assert admin.delete_topics([name]) == {name: None}
        a_topic(ours, name, "A", "B", "C")
        while len(read) < 5:
            read += [(record.value or b"").decode() for record in consumer.poll(50)]
    assert read == ["a", "b", "A", "B", "C"]
