"""confluent-kafka-python's registry client, serializers and deserializers, unmodified."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.registry.server import RegistryThread

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
WIDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)


@pytest.fixture
def client(registry: RegistryThread) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_travels_and_evolves(client: SchemaRegistryClient) -> None:
    old = AvroSerializer(client, ORDER)({"id": 7}, context("orders"))
    new = AvroSerializer(client, WIDER)({"id": 8, "note": "x"}, context("orders"))
    assert old[:5] == b"\x00\x00\x00\x00\x01"
    assert new[:5] == b"\x00\x00\x00\x00\x02"
    reader = AvroDeserializer(client, WIDER)
    assert reader(old, context("orders")) == {"id": 7, "note": None}
    assert reader(new, context("orders")) == {"id": 8, "note": "x"}
    assert client.get_versions("orders-value") == [1, 2]


def test_avro_with_a_reference(client: SchemaRegistryClient) -> None:
    client.register_schema("order", Schema(ORDER, "AVRO"))
    text = '{"type":"record","name":"Shipment","fields":[{"name":"order","type":"shop.Order"}]}'
    schema = Schema(text, "AVRO", [SchemaReference("shop.Order", "order", 1)])
    sent = AvroSerializer(client, schema)({"order": {"id": 3}}, context("shipments"))
    assert AvroDeserializer(client)(sent, context("shipments")) == {"order": {"id": 3}}
    with pytest.raises(SchemaRegistryError) as refusal:
        client.delete_subject("order")
    assert refusal.value.error_code == 42206


def test_json_travels(client: SchemaRegistryClient) -> None:
    schema = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}'
    sent = JSONSerializer(schema, client)({"id": 7}, context("json-orders"))
    assert JSONDeserializer(schema, schema_registry_client=client)(sent, context("json-orders")) == {"id": 7}
    assert client.get_latest_version("json-orders-value").schema.schema_type == "JSON"


def order_class() -> Any:
    """A message class as protoc would generate it, with an import."""
    file = FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_travels(client: SchemaRegistryClient) -> None:
    order = order_class()
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    sent = serializer(order(id=7), context("proto-orders"))
    deserializer = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    assert deserializer(sent, context("proto-orders")).id == 7
    registered = client.get_latest_version("proto-orders-value").schema
    assert registered.schema_type == "PROTOBUF"
    assert "message Order {" in registered.schema_str
    again = ProtobufSerializer(order, client, {"use.deprecated.format": False, "auto.register.schemas": False})
    assert again(order(id=8), context("proto-orders"))[:5] == sent[:5]


def test_everything_that_the_client_can_ask(client: SchemaRegistryClient) -> None:
    schema = Schema(ORDER, "AVRO")
    schema_id = client.register_schema("a/b c", schema)
    registered = client.lookup_schema("a/b c", schema)
    assert (registered.subject, registered.version, registered.schema_id) == ("a/b c", 1, schema_id)
    assert client.get_schema(schema_id).schema_str == ORDER
    assert registered.guid is not None
    assert client.get_schema_by_guid(registered.guid).schema_str == ORDER
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.get_subjects() == ["a/b c"]
    assert client.get_subjects(subject_prefix="a/") == ["a/b c"]
    assert client.get_version("a/b c", 1).schema.schema_str == ORDER
    assert client.get_subjects_by_schema_id(schema_id) == ["a/b c"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(schema_id)] == [("a/b c", 1)]
    assert client.get_referenced_by("a/b c", 1) == []
    assert client.get_contexts() == ["."]
    assert client.test_compatibility("a/b c", Schema(WIDER, "AVRO"))
    assert not client.test_compatibility("a/b c", Schema('"int"', "AVRO"))
    assert client.test_compatibility_all_versions("a/b c", Schema(WIDER, "AVRO"))
    client.set_compatibility("a/b c", "FULL")
    assert client.get_compatibility("a/b c") == "FULL"
    client.update_mode("a/b c", "READONLY")
    assert client.get_mode("a/b c") == "READONLY"
    client.update_mode("a/b c", "READWRITE")
    client.update_global_mode("READWRITE")
    assert client.get_global_mode() == "READWRITE"
    assert client.delete_version("a/b c", 1) == 1
    assert client.delete_subject("a/b c", permanent=True) == [1]
    assert client.get_subjects(deleted=True) == []


def test_metadata_is_found_again(client: SchemaRegistryClient) -> None:
    from confluent_kafka.schema_registry import Metadata, MetadataProperties

    marked = Schema(ORDER, "AVRO", [], Metadata(None, MetadataProperties({"major": "1"}), None))
    client.register_schema("a", marked)
    client.register_schema("a", Schema(WIDER, "AVRO", [], Metadata(None, MetadataProperties({"major": "2"}), None)))
    assert client.get_latest_with_metadata("a", {"major": "1"}).version == 1
    assert client.get_latest_with_metadata("a", {"major": "2"}).version == 2
