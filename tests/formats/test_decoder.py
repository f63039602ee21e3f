"""The decoder turns columns of framed values, written with several schemas, into rows of one schema."""

import json

import pyarrow as pa
import pytest
from tests.formats.avro_cases import payload_of

from ottla.formats.decoder import Decoder, arrow_schema
from ottla.formats.faults import UnknownSchema
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema


def record(*fields, name="r"):
    fields = [{"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields]
    return {"type": "record", "name": name, "fields": fields}


OLD = record(("id", "int"), ("name", "string"))
NEW = record(
    ("id", "long"),
    ("label", "string", {"aliases": ["name"], "default": ""}),
    ("tags", {"type": "array", "items": "string"}, {"default": ["none"]}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, {"default": "\u0001\u0000"}),
    ("seen", ["null", {"type": "long", "logicalType": "timestamp-millis"}], {"default": None}),
)
SCHEMAS = {1: OLD, 2: NEW}


def find(schema_id):
    if schema_id not in SCHEMAS:
        raise UnknownSchema("the registry has no such id")
    return WriterSchema("AVRO", json.dumps(SCHEMAS[schema_id]))


def old(number, name="n"):
    return framed(1, [payload_of(OLD, {"id": number, "name": name})])[0].as_py()


def new(number):
    value = {"id": number, "label": "l", "tags": [], "price": 250, "seen": 1000}
    return framed(2, [payload_of(NEW, value)])[0].as_py()


def column(*values):
    return pa.array(values, pa.binary())


def test_rows_come_back_in_their_order_and_faults_with_their_rows():
    values = column(old(0), new(1), None, b"\x00\x00", old(2), b"\x00\x00\x00\x00\x09x", old(3)[:-1], new(4))
    decoded = Decoder("avro", find, arrow_schema(find(2))).decode(values)
    assert decoded.good.tolist() == [True, True, True, False, True, False, False, True]
    assert decoded.table.column("id").to_pylist() == [0, 1, None, 2, 4]
    assert decoded.values.is_null().to_pylist() == [False, False, True, False, False]
    reasons = dict(decoded.faults)
    assert sorted(reasons) == [3, 5, 6]
    assert reasons[5] == "schema 9 is not known: the registry has no such id"
    assert "field name: a length of 1 where 0 bytes are left" in reasons[6]


def test_an_older_writer_is_read_by_aliases_defaults_and_wider_types():
    decoded = Decoder("avro", find, arrow_schema(find(2))).decode(column(old(7, "seven")))
    (row,) = decoded.table.to_pylist()
    assert (row["id"], row["label"], row["tags"], str(row["price"]), row["seen"]) == (
        7,
        "seven",
        ["none"],
        "2.56",
        None,
    )


def test_a_newer_writer_leaves_out_what_the_target_lacks_and_says_what_would_hold_it():
    target = pa.schema([("id", pa.int64()), ("name", pa.string())])
    decoded = Decoder("avro", find, target).decode(column(new(1), old(2)))
    assert decoded.table.to_pylist() == [{"id": 1, "name": "l"}, {"id": 2, "name": "n"}]
    assert decoded.wanted.names == ["id", "label", "tags", "price", "seen"]
    again = Decoder("avro", find, decoded.wanted).decode(column(new(1), old(2)))
    assert again.wanted.equals(decoded.wanted)
    assert again.table.column("tags").to_pylist() == [[], ["none"]]


def test_a_type_that_does_not_fit_the_target_is_a_fault_of_its_rows_alone():
    decoded = Decoder("avro", find, arrow_schema(find(1))).decode(column(old(1), new(2)))
    assert decoded.good.tolist() == [True, False]
    assert decoded.faults[0][1] == (
        "schema 2 cannot be read: value.id: int64 is written, int32 is wanted; start again to take up newer types"
    )
    assert decoded.wanted.field("id").type == pa.int64()


def test_without_a_target_all_schemas_of_the_values_are_joined():
    decoded = Decoder("avro", find).decode(column(old(1), new(2)))
    assert decoded.table.column("id").to_pylist() == [1, 2] and decoded.table.schema.equals(decoded.wanted)
    assert decoded.table.num_columns == 5


def test_bytes_that_become_text_cost_only_the_rows_that_are_none():
    SCHEMAS[3] = record(("name", "bytes"))
    values = framed(3, [payload_of(SCHEMAS[3], {"name": name}) for name in (b"a", b"\xff", b"b")])
    decoded = Decoder("avro", find, pa.schema([("name", pa.string())])).decode(values)
    assert decoded.table.column("name").to_pylist() == ["a", "b"] and [row for row, _ in decoded.faults] == [1]


@pytest.mark.parametrize("kind", ["array", "map"])
def test_bytes_in_lists_and_maps_that_become_text_cost_only_their_rows(kind):
    part = "items" if kind == "array" else "values"
    SCHEMAS[3] = record(("names", {"type": kind, part: "bytes"}))
    held = [[name] if kind == "array" else {"k": name} for name in (b"a", b"\xff", b"b")]
    values = framed(3, [payload_of(SCHEMAS[3], {"names": names}) for names in held])
    wanted = pa.list_(pa.string()) if kind == "array" else pa.map_(pa.string(), pa.string())
    decoded = Decoder("avro", find, pa.schema([("names", wanted)])).decode(values)
    kept = [["a"], ["b"]] if kind == "array" else [[("k", "a")], [("k", "b")]]
    assert decoded.table.column("names").to_pylist() == kept and [row for row, _ in decoded.faults] == [1]


def test_a_union_that_gained_branches_takes_older_values():
    SCHEMAS[4] = record(("x", "int"))
    SCHEMAS[5] = record(("x", ["string", "long"]))
    decoded = Decoder("avro", find, arrow_schema(find(5))).decode(framed(4, [b"\x06"]))
    assert decoded.table.to_pylist() == [{"x": {"member_string": None, "member_long": 3}}]


def test_fields_inside_lists_and_maps_evolve_too():
    SCHEMAS[6] = record(("l", {"type": "array", "items": record(("a", "int"), name="i")}))
    SCHEMAS[7] = record(
        ("l", {"type": "array", "items": record(("b", "int", {"default": 9}), ("a", "long"), name="i")})
    )
    SCHEMAS[8] = record(("l", {"type": "map", "values": record(("a", "int"), name="i")}))
    SCHEMAS[9] = record(("l", {"type": "map", "values": record(("a", "double"), name="i")}))
    lists = Decoder("avro", find, arrow_schema(find(7)))
    decoded = lists.decode(framed(6, [payload_of(SCHEMAS[6], {"l": [{"a": 1}, {"a": 2}]}), b"\x00"]))
    assert decoded.table.column("l").to_pylist() == [[{"b": 9, "a": 1}, {"b": 9, "a": 2}], []]
    maps = Decoder("avro", find, arrow_schema(find(9)))
    decoded = maps.decode(framed(8, [payload_of(SCHEMAS[8], {"l": {"k": {"a": 1}}})]))
    assert decoded.table.column("l").to_pylist() == [[("k", {"a": 1.0})]]
    del SCHEMAS[9]


def test_payloads_without_a_prefix_are_read_with_the_schema_given():
    decoded = Decoder("avro", bare=find(1)).decode(column(old(5)[5:], None, b""))
    assert decoded.table.to_pylist() == [{"id": 5, "name": "n"}, {"id": None, "name": None}]
    assert [row for row, _ in decoded.faults] == [2]


def test_text_is_checked_and_bytes_are_not():
    values = column(b"a", b"\xff", None, "é".encode())
    text = Decoder("text").decode(values)
    assert text.table.to_pylist() == [{"value": "a"}, {"value": None}, {"value": "é"}]
    assert [row for row, _ in text.faults] == [1]
    assert Decoder("binary").decode(values).table.column("value").to_pylist() == values.to_pylist()


def test_a_schema_of_another_kind_is_named():
    decoded = Decoder("avro", lambda _: WriterSchema("PROTOBUF", "")).decode(column(old(1)))
    assert decoded.faults == [(0, "schema 1 cannot be read: it is of the kind PROTOBUF, not AVRO")]


def test_no_values_are_no_rows():
    assert Decoder("avro", find, arrow_schema(find(1))).decode(column()).table.num_rows == 0
    assert Decoder("text").decode(column()).table.num_rows == 0


def test_a_kind_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="there are avro, protobuf, json, text, binary"):
        Decoder("yaml")
    with pytest.raises(ValueError, match="need a schema or a registry"):
        Decoder("avro")
