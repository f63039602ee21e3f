"""The eight topics of a campaign and their records: values that evolve, poison, records without a value."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import ParseDict
from grpc_tools import protoc

STAGES = 4
"""The number of shapes that the values of a topic take, one after the other."""
FIRST_DAY = datetime(2024, 5, 1, tzinfo=UTC)
JSON_POISON = (
    b"poison",
    b"[1, 2]",
    b'"text"',
    b'{"id": NaN}',
    b'{"id": 1, "ID": 2}',
    b'{"name": "\\ud800"}',
    b'{"far": 99999999999999999999999999}',
    b'{"deep": ' + b"[" * 120 + b"]" * 120 + b"}",
    b'{"deep": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
)
TYPED_POISON = (b"plain", b"\x00\x7f\xff\xff\xffunknown schema", b"\x00")
POISON_EVERY, TOMBSTONE_EVERY = 331, 97


@dataclass(frozen=True)
class Topic:
    name: str
    kind: str
    partitions: int


TOPICS = (
    Topic("clicks", "json", 3),
    Topic("visits", "json", 2),
    Topic("sensors", "json", 2),
    Topic("searches", "json", 2),
    Topic("orders", "avro", 3),
    Topic("payments", "avro", 2),
    Topic("rides", "protobuf", 3),
    Topic("meters", "protobuf", 2),
)


class Made(NamedTuple):
    """A record's value and its meaning; poison has none."""

    value: bytes | None
    document: Mapping[str, object] | None
    poison: bool = False


def maker(topic: Topic, registry_url: str) -> Callable[[int, int], Made]:
    """A function that makes the value of record `number` at a stage."""
    encode = _ENCODERS[topic.kind](topic, registry_url)
    poison = JSON_POISON if topic.kind == "json" else TYPED_POISON

    def make(number: int, stage: int) -> Made:
        if number % POISON_EVERY == POISON_EVERY - 1:
            return Made(poison[number // POISON_EVERY % len(poison)], None, poison=True)
        if number % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1:
            return Made(None, None)
        return Made(*encode(number, stage))

    return make


def _json(topic: Topic, _registry_url: str) -> Callable[[int, int], tuple[bytes, dict[str, object]]]:
    def encode(number: int, stage: int) -> tuple[bytes, dict[str, object]]:
        document: dict[str, object] = {
            "id": number + 1,
            "site": topic.name,
            "share": number % 1000 + (0 if stage < 2 else 0.5),
            "agent": None if stage == 0 else f"agent {number % 89}",
            "place": {"lat": number % 180 - 90 + 0.25, "name": f"place {number % 97}"},
            "tags": [f"tag {each}" for each in range(1 + number % 3)],
            "good": number % 2 == 0,
        }
        document.update((f"came_{each}", number * each) for each in range(1, stage + 1))
        return json.dumps(document).encode(), document

    return encode


def _avro(topic: Topic, registry_url: str) -> Callable[[int, int], tuple[bytes, dict[str, object]]]:
    ids, schemas = [], []
    client = SchemaRegistryClient({"url": registry_url})
    for stage in range(STAGES):
        schema = _avro_schema(topic, stage)
        ids.append(client.register_schema(f"{topic.name}-value", Schema(json.dumps(schema), "AVRO")))
        schemas.append(fastavro.parse_schema(schema))

    def encode(number: int, stage: int) -> tuple[bytes, dict[str, object]]:
        document: dict[str, object] = {
            "id": number + 1 + (2**40 if stage else 0),
            "at": FIRST_DAY + timedelta(milliseconds=number),
            "amount": number / 4,
            "state": ("open", "paid", "sent")[number % 3],
            "buyer": {"name": f"buyer {number % 101}", "age": number % 90},
        }
        if stage >= 2:
            document["note"] = f"note {number}" if number % 2 else None
        if stage >= 3:
            document["lines"] = [f"line {each}" for each in range(1 + number % 2)]
        out = io.BytesIO(b"\x00" + ids[stage].to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, schemas[stage], document)
        return out.getvalue(), document

    return encode


def _avro_schema(topic: Topic, stage: int) -> dict[str, Any]:
    """The identity widens at stage 1, fields come at stages 2 and 3: each schema reads what older ones wrote."""
    buyer = [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]
    states = {"type": "enum", "name": "State", "symbols": ["open", "paid", "sent"]}
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long" if stage else "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": "double"},
        {"name": "state", "type": states},
        {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": buyer}},
    ]
    if stage >= 2:
        fields.append({"name": "note", "type": ["null", "string"], "default": None})
    if stage >= 3:
        lines = {"type": "array", "items": "string"}
        fields.append({"name": "lines", "type": ["null", lines], "default": None})
    return {"type": "record", "name": topic.name.title(), "fields": fields}


def _protobuf(topic: Topic, registry_url: str) -> Callable[[int, int], tuple[bytes, dict[str, object]]]:
    client = SchemaRegistryClient({"url": registry_url})
    texts = [_protobuf_schema(topic, stage) for stage in range(STAGES)]
    ids = [client.register_schema(f"{topic.name}-value", Schema(text, "PROTOBUF")) for text in texts]
    classes = [_message_class(topic, text) for text in texts]

    def encode(number: int, stage: int) -> tuple[bytes, dict[str, object]]:
        document: dict[str, object] = {
            "id": number + 1,
            "name": f"name {number % 103}",
            "fare": number / 4 + 1,
            "start": {"lat": number % 180 + 1.5, "street": f"street {number % 107}"},
        }
        if stage >= 1 and number % 2:
            document["note"] = f"note {number}"
        if stage >= 2:
            document["stops"] = [f"stop {each}" for each in range(1 + number % 3)]
        if stage >= 3:
            document["seats"] = 1 + number % 4
        body = ParseDict(document, classes[stage]()).SerializeToString()
        return b"\x00" + ids[stage].to_bytes(4, "big") + b"\x00" + body, document

    return encode


def _protobuf_schema(topic: Topic, stage: int) -> str:
    later = ["optional string note = 5;", "repeated string stops = 6;", "optional int32 seats = 7;"][:stage]
    return (
        f'syntax = "proto3"; package campaign; message {topic.name.title()} {{ int64 id = 1; string name = 2; '
        f"double fare = 3; Start start = 4; {' '.join(later)} }} message Start {{ double lat = 1; string street = 2; }}"
    )


def _message_class(topic: Topic, text: str) -> Any:
    """The class of the first message, by Google's own compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder) / "schema.proto", Path(folder) / "schema.bin"
        source.write_text(text)
        assert protoc.main(["", f"-I{folder}", f"--descriptor_set_out={compiled}", str(source)]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(files.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"campaign.{topic.name.title()}"))


_ENCODERS = {"json": _json, "avro": _avro, "protobuf": _protobuf}
