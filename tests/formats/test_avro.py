"""Avro payloads become the columns that fastavro's values would make, and a bad payload costs only its own row."""

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.formats.avro_cases import as_row, has_column, payload_of, read_by_fastavro, records

from ottla.formats import avro as avro_module
from ottla.formats.avro import AvroReader
from ottla.formats.avro_blocks import BlockReader, why_not
from ottla.formats.avro_columns import finished
from ottla.formats.avro_rows import RowReader
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.writer import WriterSchema

UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))


def reader(schema):
    return AvroReader(WriterSchema("AVRO", json.dumps(schema)))


def column(payloads):
    return pa.array(payloads, pa.binary())


def record(*fields):
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def field(kind, *payloads):
    """Read payloads of a record with one field; return the values, and the faults by row."""
    block = reader(record(("f", kind))).read(column(payloads))
    return [None if row is None else row["f"] for row in block.array.to_pylist()], dict(block.faults)


@pytest.fixture(autouse=True)
def blocks_of_any_size(monkeypatch):
    monkeypatch.setattr(avro_module, "ROWS_ALONE", 0)


@UNHURRIED
@given(records())
def test_every_schema_reads_as_fastavro_reads_it(case):
    schema, values = case
    assume(has_column(schema))
    payloads = [payload_of(schema, value) for value in values]
    block = reader(schema).read(column(payloads))
    assert block.faults == [] and bool(block.good.all())
    block.array.validate(full=True)
    assert block.array.to_pylist() == [as_row(schema, read_by_fastavro(schema, payload)) for payload in payloads]


@UNHURRIED
@given(records())
def test_blocks_and_single_rows_give_the_same(case):
    schema, values = case
    assume(has_column(schema))
    node = reader(schema).node
    assume(not why_not(node))
    payloads = column([payload_of(schema, value) for value in values])
    at_once = finished(node, BlockReader(node).read(payloads))
    plain = [RowReader(node).read(payload) for payload in payloads.to_pylist()]
    alone = finished(node, pa.array(plain, avro_module.plain_type(node)))
    assert at_once.equals(alone)


@UNHURRIED
@given(records(), st.data())
def test_a_damaged_payload_is_read_as_the_strict_reader_reads_it(case, data):
    """Bytes are changed, cut off and moved between payloads: blocks never accept what single rows refuse."""
    schema, values = case
    assume(has_column(schema))
    payloads = [bytearray(payload_of(schema, value)) for value in values] * 3
    for _ in range(data.draw(st.integers(1, 3))):
        victim = payloads[data.draw(st.integers(0, len(payloads) - 1))]
        at = data.draw(st.integers(0, max(0, len(victim) - 1)))
        damage = data.draw(st.sampled_from(["change", "cut", "lend", "add"]))
        if damage == "change" and victim:
            victim[at] = data.draw(st.integers(0, 255))
        elif damage == "cut":
            del victim[at:]
        elif damage == "lend":
            follower = payloads[(payloads.index(victim) + 1) % len(payloads)]
            follower[:0] = victim[at:]
            del victim[at:]
        else:
            victim += data.draw(st.binary(min_size=1, max_size=3))
    found = reader(schema)
    block = found.read(column([bytes(payload) for payload in payloads]))
    alone = [found.read(column([bytes(payload)])) for payload in payloads]
    strict = RowReader(found.node)
    for row, (payload, single) in enumerate(zip(payloads, alone, strict=True)):
        try:
            strict.read(bytes(payload))
        except BadPayload:
            assert not block.good[row]
        assert bool(single.good[0]) == bool(block.good[row])
    assert block.array.equals(pa.concat_arrays([single.array for single in alone]))


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("string", b"\x0aab", "a length of 5 where 2 bytes are left"),
        ("string", b"\x07ab", "a length of -4"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01ab", "where 2 bytes are left"),
        ("string", b"\x04\xff\xfe", "not UTF-8"),
        ("boolean", b"\x02", "a boolean of the byte 2"),
        ("boolean", b"", "ends inside a boolean"),
        ("double", b"abc", "ends inside a double"),
        (["null", "int"], b"\x04\x0a", "branch 2 of a union of 2"),
        (["int", "null"], b"\x01\x0a", "branch -1 of a union of 2"),
        ("int", b"\x80\x80\x80\x80\x80\x80\x01", "where an int of 32 bits is expected"),
        ("long", b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("long", b"\x80", "ends inside a number"),
        ("int", b"\x02\x04", "1 bytes behind the end"),
        ({"type": "array", "items": "int"}, b"\x03\x12\x02\x04\x00", "not as long as it says"),
        ({"type": "array", "items": "int"}, b"\x01\x63\x04\x00", "a block of a list with a size of -50 bytes"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "items without bytes"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02", "index 1 of the enum e"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "before midnight"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "more than 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x00", "a decimal of no bytes"),
    ],
)
def test_each_fault_has_its_reason_and_costs_only_its_row(kind, payload, reason):
    found = reader(record(("number", "int"), ("f", kind)))
    block = found.read(column([b"\x02" + payload, b"", b"\x04" + payload, b"\x80"]))
    assert not block.good.any() and len(block.array) == 0
    assert reason in block.faults[0][1] and reason in block.faults[2][1]
    assert block.faults[1][1] == "not of its Avro schema: field number: it ends inside a number"


def test_one_bad_payload_among_many_costs_only_its_row():
    found = reader(record(("number", "int"), ("text", ["null", "string"])))
    payloads = [
        payload_of(record(("number", "int"), ("text", ["null", "string"])), {"number": at, "text": "x"})
        for at in range(3000)
    ]
    payloads[1234] = b"\x02\x02\x7f"
    payloads[2999] = payloads[2999] + b"\x00"
    block = found.read(column(payloads))
    assert [row for row, _ in block.faults] == [1234, 2999]
    assert block.array.field("number").to_pylist() == [at for at in range(3000) if at not in (1234, 2999)]


def test_payloads_that_borrow_bytes_from_their_neighbours_are_faults():
    """Together they are as long as two good ones, and polars reads them without an error."""
    kind = record(("a", "string"), ("b", "string"))
    good = payload_of(kind, {"a": "one", "b": "two"})
    shifted = [good + good[:4], good[4:]]
    assert BlockReader(reader(kind).node).read(column([good, good])) is not None
    block = reader(kind).read(column([good, *shifted, good]))
    assert [row for row, _ in block.faults] == [1, 2]
    assert block.array.to_pylist() == [{"a": "one", "b": "two"}] * 2


def test_longer_encodings_than_necessary_are_read():
    two_blocks = b"\x02\x02\x02\x04\x00"
    with_size = b"\x03\x04\x02\x04\x00"
    found, faults = field({"type": "array", "items": "int"}, two_blocks, with_size, b"\x84\x00\x02\x04\x00")
    assert found == [[1, 2]] * 3 and faults == {}


def test_a_key_twice_in_a_map_keeps_the_last():
    found, faults = field({"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x04\x00")
    assert found == [[("a", 2)]] and faults == {}


def test_unions_of_several_types_are_structs_and_read_alone():
    kind = ["null", "string", {"type": "record", "name": "n.p", "fields": [{"name": "x", "type": "int"}]}]
    found, _ = field(kind, b"\x00", b"\x02\x02a", b"\x04\x06")
    assert found == [None, {"member_string": "a", "member_p": None}, {"member_string": None, "member_p": {"x": 3}}]
    assert reader(record(("f", kind))).why_slow == "a union of several types"


def test_branches_of_one_simple_name_are_told_apart_by_their_namespaces():
    kind = [{"type": "fixed", "name": f"{space}.id", "size": 1} for space in ("a", "b")]
    assert [each.name for each in reader(record(("f", kind))).type.field(0).type] == ["member_a_id", "member_b_id"]


def test_a_value_that_is_no_record_is_one_column():
    block = AvroReader(WriterSchema("AVRO", '"string"')).read(column([b"\x02a", b"\x04bc", b"\x09"]))
    assert block.array.to_pylist() == ["a", "bc"] and [row for row, _ in block.faults] == [2]


def test_lists_of_items_without_bytes_cost_no_more_than_their_own_bytes():
    lists = 300_000
    inner = b"\x80\x80\x08\x00"  # 65,536 nulls
    payload = b"\x02" + b"\xc0\xcf\x24" + inner * lists + b"\x00"
    found = reader(record(("number", "int"), ("f", {"type": "array", "items": {"type": "array", "items": "null"}})))
    assert found.read(column([payload])).array.to_pylist() == [{"number": 1}]


def test_durations_and_fixed_uuids_are_readable():
    found, _ = field(
        {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}, b"\x01\0\0\0\xff\xff\xff\xff\x02\0\0\0"
    )
    assert found == [{"months": 1, "days": (1 << 32) - 1, "milliseconds": 2}]
    found, _ = field({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, bytes(range(16)))
    assert found == ["00010203-0405-0607-0809-0a0b0c0d0e0f"]


def test_a_timestamp_too_great_for_microseconds_is_a_fault():
    payload = payload_of(record(("f", "long")), {"f": 1 << 60})
    _, faults = field({"type": "long", "logicalType": "timestamp-millis"}, payload)
    assert "beyond what 64 bits of microseconds hold" in faults[0]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]}]}', "contains itself"),
        ("{", "not JSON"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"Missing"}]}', "undefined name: Missing"),
        ('["null",["int"]]', "a union directly inside a union"),
        ('["null","null"]', "a union has null twice"),
        ('{"type":"record","name":"r"}', "record r has no list of fields"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"null"}]}', "no field that could be a column"),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "the field a twice",
        ),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":"int","default":"x"}]}',
            'the default "x" is no int',
        ),
        ("[" * 5000 + "]" * 5000, "not JSON|directly inside a union|nested"),
    ],
)
def test_a_schema_that_cannot_be_columns_is_refused_with_a_reason(schema, reason):
    with pytest.raises(SchemaFault, match=reason):
        AvroReader(WriterSchema("AVRO", schema))


def test_names_that_multiply_without_end_are_refused():
    fields = [
        {"name": f"l{at}", "type": {"type": "record", "name": f"r{at}", "fields": [{"name": "x", "type": "int"}]}}
        if not at
        else {
            "name": f"l{at}",
            "type": {
                "type": "record",
                "name": f"r{at}",
                "fields": [{"name": f"f{each}", "type": f"r{at - 1}"} for each in range(10)],
            },
        }
        for at in range(12)
    ]
    with pytest.raises(SchemaFault, match="more than 5000 parts"):
        AvroReader(WriterSchema("AVRO", json.dumps({"type": "record", "name": "top", "fields": fields})))


def test_names_of_references_are_known():
    address = '{"type":"record","name":"shop.Address","fields":[{"name":"city","type":"string"}]}'
    order = '{"type":"record","name":"shop.Order","fields":[{"name":"to","type":"Address"}]}'
    found = AvroReader(WriterSchema("AVRO", order, (("shop.Address", address),)))
    assert found.read(column([b"\x02x"])).array.to_pylist() == [{"to": {"city": "x"}}]
