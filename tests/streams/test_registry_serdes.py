"""Avro, Protobuf and JSON Schema through a registry, in topologies too."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.formats.writer import WriterSchema
from ottla.streams import (
    MemoryRegistry,
    ProcessingError,
    Serde,
    SerdeError,
    StreamsBuilder,
    TopologyError,
    TopologyTest,
    avro,
    json_schema,
    protobuf,
)
from ottla.streams.engine.task import Task
from ottla.streams.on_error import chosen
from ottla.streams.values import Input, Place

ORDER = json.dumps({
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
})  # fmt: skip
VALUE = {"id": 7, "note": "x", "at": datetime(2026, 1, 1, tzinfo=UTC), "counts": {"a": 3}}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; map<string, int32> counts = 3; }'
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}})


def all_kinds(registry: MemoryRegistry) -> list[tuple[Serde, dict[str, Any]]]:
    return [
        (avro(ORDER, subject="a-value", registry=registry), VALUE),
        (protobuf(PROTO, subject="p-value", registry=registry), {"id": 7, "note": "x", "counts": {"a": 3}}),
        (json_schema(JSON_SCHEMA, subject="j-value", registry=registry), {"id": 7, "note": "x"}),
    ]


def test_values_of_every_kind_come_back_and_stand_behind_the_id_of_their_schema() -> None:
    registry = MemoryRegistry()
    for number, (serde, value) in enumerate(all_kinds(registry), 1):
        written = serde.to_bytes(value)
        assert written is not None
        assert written[:5] == b"\0" + number.to_bytes(4, "big")
        assert serde.from_bytes(written) == value
    assert registry.latest("p-value").schema == WriterSchema("PROTOBUF", PROTO)


def test_a_serde_without_a_schema_writes_with_the_latest_of_its_subject_and_one_without_a_subject_only_reads() -> None:
    registry = MemoryRegistry()
    written = avro(ORDER, subject="a-value", registry=registry).to_bytes(VALUE)
    assert avro(subject="a-value", registry=registry).to_bytes(VALUE) == written
    reader = avro(registry=registry)
    assert reader.from_bytes(written) == VALUE
    with pytest.raises(SerdeError, match="it only reads: name subject="):
        reader.to_bytes(VALUE)
    with pytest.raises(SerdeError, match="no subject b-value"):
        avro(subject="b-value", registry=registry).to_bytes(VALUE)
    with pytest.raises(TopologyError, match="name its subject"):
        avro(ORDER)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": 1}, "no place for colour"),
        ({"id": 1.5}, "1.5"),
        ({"id": True}, "Expected integer"),
        ({"id": None}, "field id is null"),
        ({"at": datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)}, "digits beyond milliseconds"),
    ],
)
def test_a_value_that_the_schema_cannot_hold_whole_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SerdeError, match=says):
        avro(ORDER, subject="a-value", registry=MemoryRegistry()).to_bytes(VALUE | change)


def test_bytes_that_are_not_of_the_serde_are_told_apart_from_those_that_are() -> None:
    registry = MemoryRegistry()
    serde, other = (all_kinds(registry)[at] for at in (0, 1))
    good, foreign = serde[0].to_bytes(VALUE), other[0].to_bytes(other[1])
    found = serde[0].from_bytes_of([good, b"{}", None, foreign, b"\0\0\0\0\x63x", good[:-3] if good else None, good])
    assert [found[0], found[2], found[6]] == [VALUE, None, VALUE]
    said = [str(found[at]) for at in (1, 3, 4, 5)]
    for text, part in zip(said, ("no schema id", "of the kind PROTOBUF", "has no schema 99", "Avro"), strict=True):
        assert part in text


def test_a_topology_reads_and_writes_through_a_registry_in_memory() -> None:
    registry = MemoryRegistry()
    orders = avro(ORDER, subject="orders-value", registry=registry)
    builder = StreamsBuilder(value=orders)
    builder.stream("orders").map_values(lambda order: order | {"id": order["id"] + 1}).to("next")
    topology = builder.build()
    test = TopologyTest(topology)
    test.pipe_input("orders", "k", VALUE, 0)
    assert test.read_records("next") == [("k", VALUE | {"id": 8})]
    task = Task(topology, on_error=chosen("skip"))
    written = orders.to_bytes(VALUE)
    task.feed(*(Input(Place("orders", 0, at), b"k", data, 0) for at, data in enumerate((written, b"bad", written))))
    results = task.take(0)
    assert [orders.from_bytes(output.value)["id"] for output in results.outputs] == [8, 8]
    assert [fault.read.place.offset for fault in results.faults if fault.read] == [1]


def test_a_registry_that_does_not_answer_ends_the_run_whatever_is_chosen_for_records() -> None:
    class Gone(MemoryRegistry):
        def schema(self, name: int | str) -> WriterSchema:
            from ottla.client.registry_client import RegistryUnavailable

            raise RegistryUnavailable("no registry answers")

    builder = StreamsBuilder(value=avro(registry=Gone()))
    builder.stream("orders").to("next")
    task = Task(builder.build(), on_error=chosen("skip"))
    with pytest.raises(ProcessingError, match="no registry answers"):
        task.feed(Input(Place("orders", 0, 0), b"k", b"\0\0\0\0\1x", 0))
