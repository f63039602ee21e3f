"""Conversion of records: in a thread where a converter calls out, and in order behind a record that is refused."""

import asyncio
import threading

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
