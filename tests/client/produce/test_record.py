"""Records as `produce` takes them: text where bytes are meant, headers as a dict; all else is refused by name."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.client import Consumer, Producer, TopicPartition, aio
from ottla.client.produce.record import read_record


def read(value: Any = None, key: Any = None, headers: Any = ()) -> Any:
    return read_record("t", value, key, headers, None, None)


@pytest.mark.parametrize("given", ["é", "é".encode(), bytearray("é".encode()), memoryview("é".encode())])
def test_text_and_bytes_of_every_kind_are_taken(given: Any):
    assert read(given, given) == ("é".encode(), "é".encode(), [])


def test_an_array_behind_a_view_is_taken_as_its_bytes():
    numbers = memoryview(bytes(range(8))).cast("I")
    assert read(numbers)[0] == bytes(range(8))


@pytest.mark.parametrize(
    "headers",
    [
        {"a": "1", "b": b"2", "c": None},
        [("a", "1"), ("b", b"2"), ("c", None)],
        (pair for pair in [("a", b"1"), ["b", "2"], ("c", None)]),
    ],
)
def test_headers_are_a_dict_or_pairs_with_text_or_bytes(headers: Any):
    assert read(headers=headers)[2] == [("a", b"1"), ("b", b"2"), ("c", None)]


@pytest.mark.parametrize("headers", [None, (), [], {}])
def test_no_headers_are_none(headers: Any):
    assert read(headers=headers)[2] == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value": {"a": 1}}, r"the value of a record is bytes, text or None, not \{'a': 1\}, .* json\.dumps"),
        ({"value": 5}, r"the value of a record is .* not 5, which is of type int: .* str\("),
        ({"value": ["x" * 200]}, r"not \['x+\.\.\., which is of type list"),
        ({"key": 5.5}, "the key of a record is .* not 5.5"),
        ({"headers": 5}, "headers are a dict, or pairs of name and value, not 5"),
        ({"headers": 0}, "headers are a dict, or pairs of name and value, not 0"),
        ({"headers": "ab"}, "headers are a dict, or pairs of name and value, not 'ab'"),
        ({"headers": ["ab"]}, "headers are a dict, or pairs of name and value, not 'ab'"),
        ({"headers": [("a", "b", "c")]}, "headers are a dict"),
        ({"headers": {b"a": "1"}}, "the name of a header is text, not b'a'"),
        ({"headers": {"a": 1}}, "the header 'a' is bytes, text or None, not 1"),
    ],
)
def test_what_is_neither_text_nor_bytes_is_refused_with_the_way_out(given: dict[str, Any], said: str):
    with pytest.raises(TypeError, match=said):
        read(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": b"t"}, "the topic is text, not b't'"),
        ({"topic": ""}, "the topic is text, not ''"),
        ({"partition": "0"}, "the partition is a number, or None .* not '0'"),
        ({"partition": True}, "the partition is a number"),
        ({"timestamp": 1.5}, "the timestamp is a whole number of milliseconds since 1970, not 1.5"),
        ({"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}, r"int\(when\.timestamp\(\) \* 1000\)"),
        ({"on_delivery": "tell"}, "on_delivery is a function of the outcome, or None, not 'tell'"),
    ],
)
def test_a_place_that_is_none_is_refused_before_a_broker_is_asked(given: dict[str, Any], said: str):
    with Producer("localhost:1") as producer, pytest.raises(TypeError, match=said):
        producer.produce(**{"topic": "t", "value": "x", **given})


def test_both_faces_write_text_and_dicts_as_bytes(ours: str, name: str):
    async def produce_one() -> None:
        async with aio.Producer(ours) as producer:
            await (await producer.produce(name, "two", "key", headers={"n": "é"}))

    with Producer(ours) as producer:
        producer.produce(name, "one", "key", headers={"n": "é"}).result(60)
    asyncio.run(produce_one())
    with Consumer(ours, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(name, 0)])
        found: list[Any] = []
        while len(found) < 2:
            found += consumer.poll(10_000)
    assert [(each.key, each.value) for each in found] == [(b"key", b"one"), (b"key", b"two")]
    assert {each.headers for each in found} == {(("n", "é".encode()),)}
