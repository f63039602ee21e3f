"""Conversion of records: in a thread where a converter calls out, and in order behind a record that is refused."""

import asyncio
import threading

from ottla.client.model import ConsumedRecord
from ottla.connect.converters import registry
from ottla.connect.data import Schema, Type
from ottla.connect.records import SourceRecord
from ottla.connect.tasks.conversion import Conversion, StageFault

STRING = "org.apache.kafka.connect.storage.StringConverter"
AVRO = {
    "key.converter": STRING, "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://localhost:9",
}  # fmt: skip
TEXT = Schema(Type.STRING)


async def all_of(conversion, records):
    return [made async for _, made in conversion.each(conversion.outgoing, records)]


class SlowRegistry:
    """A registry that answers once `answers` is set."""

    def __init__(self):
        self.asked, self.answers = threading.Event(), threading.Event()

    def register(self, subject, schema):
        self.asked.set()
        assert self.answers.wait(60), "the loop did not run while the registry was asked"
        return 7


def test_a_slow_registry_does_not_hold_up_the_loop(monkeypatch):
    slow = SlowRegistry()
    monkeypatch.setattr(registry, "registry", lambda urls: slow)

    async def story():
        conversion = Conversion(AVRO, {})
        records = [SourceRecord("t", value=each, value_schema=TEXT) for each in ("a", "b")]
        converting = asyncio.create_task(all_of(conversion, records))
        while not slow.asked.is_set():
            await asyncio.sleep(0.01)
        slow.answers.set()
        assert [made.value for made in await converting] == [b"\0\0\0\0\7\2a", b"\0\0\0\0\7\2b"]

    asyncio.run(story())


def test_records_behind_a_refused_one_are_converted_in_their_order():
    number = "org.apache.kafka.connect.converters.IntegerConverter"
    conversion = Conversion({"key.converter": STRING, "value.converter": number}, {})
    made = asyncio.run(all_of(conversion, [SourceRecord("t", value=each) for each in (1, "x", 2, "y")]))
    assert [isinstance(each, StageFault) for each in made] == [False, True, False, True]
    assert [made[0].value, made[2].value] == [b"\0\0\0\1", b"\0\0\0\2"]


def consumed(offset, value, headers=()):
    return ConsumedRecord("t", 3, offset, 1000 + offset, offset % 2, b"k", value, headers, 5)


def test_a_list_of_records_is_converted_at_once_as_it_is_one_by_one():
    chain = {
        "transforms": "wrap,where,drop", "transforms.wrap.type": "HoistField$Value", "transforms.wrap.field": "line",
        "transforms.where.type": "InsertField$Value", "transforms.where.offset.field": "at",
        "transforms.drop.type": "Filter", "transforms.drop.predicate": "marked", "predicates": "marked",
        "predicates.marked.type": "HasHeaderKey", "predicates.marked.name": "h",
    }  # fmt: skip
    conversion = Conversion({"key.converter": STRING, "value.converter": STRING}, chain)
    records = [consumed(1, b"one"), consumed(2, None), consumed(3, b"x", (("h", b"1"),)), consumed(4, b"four")]
    single = [made for record in records if (made := conversion.incoming(record)) is not None]
    assert len(single) == 3 and asyncio.run(conversion.all_incoming(records)) == single


def test_a_list_with_a_record_that_is_refused_is_not_converted_at_once():
    number = "org.apache.kafka.connect.converters.IntegerConverter"
    conversion = Conversion({"key.converter": STRING, "value.converter": number}, {})
    assert asyncio.run(conversion.all_incoming([consumed(1, b"\0\0\0\1"), consumed(2, b"x")])) is None
