"""JSON with its JSON Schema in a registry: there and back, documents of others, and refusals."""

from __future__ import annotations

import json
from decimal import Decimal

import jsonschema
import pytest
from tests.registry_server import RegistryServer

from ottla.client.registry_client import RegistryClient
from ottla.connect import data
from ottla.connect.converters.json_schema_registry import JsonSchemaConverter
from ottla.connect.data import Instant, Schema, Struct, Type, array, map_of, struct
from ottla.connect.errors import DataException

INNER = struct([("x", data.INT8)], name="Inner", optional=True)
ORDER = struct(
    [
        ("zone", data.STRING),
        ("id", data.INT64),
        ("small", Schema(Type.INT16, optional=True)),
        ("count", Schema(Type.INT32, default=7)),
        ("price", data.decimal(2)),
        ("at", data.TIMESTAMP_SCHEMA),
        ("ratio", data.FLOAT32),
        ("raw", data.BYTES),
        ("tags", array(data.OPTIONAL_STRING)),
        ("counts", map_of(data.STRING, data.INT64)),
        ("inner", INNER),
    ],
    name="Order", version=3, doc="An order.", parameters={"a": "b"},
)  # fmt: skip
VALUE = Struct(
    ORDER,
    ["eu", 1 << 40, None, -5, Decimal("-1.50"), Instant(1700000000123), 0.5, b"\xff", ["a", None], {"a": 1},
     Struct(INNER, [1])],
)  # fmt: skip


@pytest.fixture
def server():
    with RegistryServer() as started:
        yield started


def converter(server, **options):
    given = {"converter.type": "value", "schema.registry.url": server.url, **options}
    return JsonSchemaConverter(given, RegistryClient((server.url,)))


@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
def test_a_value_of_every_type_goes_there_and_back(server, form):
    content = converter(server, **{"decimal.format": form}).from_connect("orders", ORDER, VALUE)
    back = converter(server).to_connect("orders", content)
    assert back.schema == ORDER
    assert back.value == VALUE
    assert server.ids[1]["schemaType"] == "JSON"


@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
def test_a_payload_is_valid_json_of_its_schema(server, form):
    content = converter(server, **{"decimal.format": form}).from_connect("orders", ORDER, VALUE)
    document = json.loads(server.ids[1]["schema"])
    payload = json.loads(content[5:])
    jsonschema.validate(payload, document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**payload, "id": "x"}, document)


def test_documents_of_others_are_understood(server):
    document = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "kind": {"enum": ["A", "B"]},
            "place": {"$ref": "#/definitions/place"},
            "score": {"type": "number", "default": 1},
        },
        "required": ["kind"],
        "definitions": {"place": {"type": "object", "title": "Place", "properties": {"x": {"type": "integer"}}}},
    }
    number = server.register("t-value", document, "JSON")
    payload = b"\0" + number.to_bytes(4, "big") + b'{"name":null,"kind":"A","place":{"x":1}}'
    found = converter(server).to_connect("t", payload)
    assert [(each.name, each.schema.type, each.schema.optional) for each in found.schema.fields] == [
        ("name", Type.STRING, True), ("kind", Type.STRING, False), ("place", Type.STRUCT, False),
        ("score", Type.FLOAT64, False),
    ]  # fmt: skip
    assert found.value.get("place").get("x") == 1
    assert found.value.get("score") == 1.0
    loose = converter(server, **{"use.optional.for.nonrequired": "true"}).to_connect("t", payload)
    assert [each.schema.optional for each in loose.schema.fields] == [True, False, True, True]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "oneOf of 2 types has no schema in Connect"),
        ({"type": ["string", "integer"]}, "of the types string, integer"),
        ({"type": "object"}, "has no schema in Connect"),
        ({"$ref": "http://other/schema"}, "only references within it are known"),
        ({"$ref": "#/nowhere"}, "which is not there"),
        ({"$ref": "#"}, "refers to itself"),
        (True, "A JSON Schema is an object"),
    ],
)
def test_a_document_that_connect_has_no_schema_for_is_refused(server, document, message):
    number = server.register("t-value", json.dumps(document), "JSON")
    with pytest.raises(DataException) as refusal:
        converter(server).to_connect("t", b"\0" + number.to_bytes(4, "big") + b"1")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (struct([("x", data.STRING)]), "has Schema{INT64} where the value has Schema{STRING} at x"),
        (struct([("x", Schema(Type.INT64, optional=True))]), "allows no null where the value may have one at x"),
        (struct([("x", data.INT64), ("y", data.INT8)]), "has no field y"),
        (struct([]), "requires a field x"),
    ],
)
def test_a_value_must_fit_the_latest_schema(server, schema, message):
    server.register("t-value", {"type": "object", "properties": {"x": {"type": "integer"}}}, "JSON")
    latest = {"auto.register.schemas": "false", "use.latest.version": "true"}
    small = struct([("x", data.INT8)])
    assert converter(server, **latest).from_connect("t", small, Struct(small, [1])) == b'\0\0\0\0\1{"x":1}'
    with pytest.raises(DataException) as refusal:
        converter(server, **latest).from_connect("t", schema, Struct(schema))
    assert message in str(refusal.value)


def test_a_schema_of_another_kind_is_refused(server):
    server.register("t-value", '"string"', "AVRO")
    with pytest.raises(DataException, match="the schema is of the kind AVRO, not JSON"):
        converter(server).to_connect("t", b"\0\0\0\0\1x")


def test_maps_whose_keys_are_no_text_are_refused(server):
    with pytest.raises(DataException, match="keys that are text alone"):
        converter(server).from_connect("t", map_of(data.INT8, data.INT8), {1: 2})
