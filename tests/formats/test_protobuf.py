"""Protobuf payloads become the columns of google.protobuf's own messages, and a bad payload costs only its row."""

import base64
import importlib
import importlib.resources
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.shop_orders import FILE, WRITER, Order

from ottla.formats import protoc
from ottla.formats.decoder import Decoder, arrow_schema
from ottla.formats.faults import SchemaFault
from ottla.formats.protobuf import ProtobufReader, index_path
from ottla.formats.protobuf_imports import BUILT_IN, WELL_KNOWN
from ottla.formats.protoc import compiled, run_protoc
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))
Other = message_factory.GetMessageClass(FILE.message_types_by_name["Other"])
I32, I64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
U32, U64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
ITEM = st.builds(lambda **given: {name: value for name, value in given.items() if value is not None},
                 name=TEXT, price=st.none() | st.floats(allow_nan=False))  # fmt: skip
TIME = st.fixed_dictionaries(
    {
        "seconds": st.integers(-62_135_596_800, 253_402_300_799),
        "nanos": st.integers(0, 999_999).map(lambda us: us * 1000),
    }
)
FIELDS = {
    "i32": I32, "s32": I32, "x32": I32, "u32": U32, "f32": U32,
    "i64": I64, "s64": I64, "x64": I64, "u64": U64, "f64": U64,
    "flt": st.floats(width=32, allow_nan=False), "dbl": st.floats(allow_nan=False), "flag": st.booleans(),
    "text": TEXT, "raw": st.binary(max_size=4), "color": st.sampled_from([0, 1, 5, 77]), "maybe": I32,
    "many": st.lists(I64, max_size=3), "items": st.lists(ITEM, max_size=3),
    "counts": st.dictionaries(TEXT, I32, max_size=3), "by_number": st.dictionaries(I64, ITEM, max_size=2),
    "left": TEXT, "at": TIME, "lasts": st.fixed_dictionaries({"seconds": st.integers(0, 9), "nanos": st.just(5)}),
    "wrapped": st.fixed_dictionaries({"value": I64}), "times": st.lists(TIME, max_size=2),
}  # fmt: skip
ORDERS = st.lists(st.fixed_dictionaries({}, optional=FIELDS), min_size=1, max_size=5)
ZERO = {
    **dict.fromkeys(("i32", "s32", "x32", "u32", "f32", "i64", "s64", "x64", "u64", "f64", "flt", "dbl"), 0),
    "flag": False, "text": "", "raw": b"", "color": 0, "many": [], "items": [], "counts": {}, "by_number": {},
    "times": [],
}  # fmt: skip


def column(*payloads):
    return pa.array(payloads, pa.binary())


def item_row(item):
    return {"name": item.get("name", ""), "price": item.get("price")}


def time_row(time):
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=time["seconds"], microseconds=time["nanos"] // 1000)


def as_row(order):
    """The row of an order, from its original values."""
    row = {**dict.fromkeys(FILE.message_types_by_name["Order"].fields_by_name), **ZERO, **order}
    row["color"] = {0: "RED", 1: "GREEN", 5: "BLUE"}.get(row["color"], str(row["color"]))
    row["u64"], row["f64"] = Decimal(row["u64"]), Decimal(row["f64"])
    row["flt"] = struct.unpack("<f", struct.pack("<f", row["flt"]))[0]
    row["items"] = [item_row(item) for item in row["items"]]
    row["counts"] = dict(row["counts"])
    row["by_number"] = {number: item_row(item) for number, item in row["by_number"].items()}
    row["at"] = None if row["at"] is None else time_row(row["at"])
    row["times"] = [time_row(time) for time in row["times"]]
    row["wrapped"] = None if row["wrapped"] is None else row["wrapped"]["value"]
    return row


@UNHURRIED
@given(ORDERS)
def test_every_kind_of_field_reads_as_it_was_set(orders):
    payloads = [b"\0" + Order(**order).SerializeToString() for order in orders]
    block = ProtobufReader(WRITER).read(column(*payloads))
    assert block.faults == []
    block.array.validate(full=True)
    found = block.array.to_pylist(maps_as_pydicts="strict")
    assert found == [as_row(order) for order in orders]


@UNHURRIED
@given(ORDERS, st.data())
def test_a_payload_is_a_fault_exactly_where_google_protobuf_refuses_it(orders, data):
    payloads = [bytearray(b"\0" + Order(**order).SerializeToString()) for order in orders]
    victim = payloads[data.draw(st.integers(0, len(payloads) - 1))]
    at = data.draw(st.integers(1, max(1, len(victim) - 1)))
    if data.draw(st.booleans()):
        del victim[at:]
    else:
        victim[at:] = data.draw(st.binary(max_size=4)) + victim[at:]
    block = ProtobufReader(WRITER).read(column(*map(bytes, payloads)))
    for row, payload in enumerate(payloads):
        try:
            order = Order.FromString(bytes(payload[1:]))
        except Exception:
            assert not block.good[row]
            continue
        times = [*order.times, *([order.at] if order.HasField("at") else [])]
        fine = all(0 <= t.nanos < 10**9 and -62_135_596_800 <= t.seconds <= 253_402_300_799 for t in times)
        assert bool(block.good[row]) == fine or order.HasField("free")


def test_a_free_struct_is_json_text():
    order = Order()
    order.free.update({"a": [1, None, {"b": "é"}]})
    (row,) = ProtobufReader(WRITER).read(column(b"\0" + order.SerializeToString())).array.to_pylist()
    assert row["free"] == '{"a": [1.0, null, {"b": "é"}]}'


def test_message_indexes_choose_the_type():
    other = Other(only="x").SerializeToString()
    found = ProtobufReader(WRITER, message="shop.Other")
    block = found.read(
        column(b"\x02\x02" + other, b"\0" + other, b"\x04\x02\x00", b"\x02\x0a", b"\x04", b"\x02\x02\x0a")
    )
    assert block.array.to_pylist() == [{"only": "x"}]
    reasons = dict(block.faults)
    assert "a message shop.Order where shop.Other is read" in reasons[1]
    assert "shop.Other.Deep" in reasons[2] and "no message at [5]" in reasons[3]
    assert "ends inside the message indexes" in reasons[4] and 5 in reasons
    assert index_path(FILE.message_types_by_name["Other"].nested_types_by_name["Deep"]) == b"\x04\x02\x00"
    long_form = b"\x02\x00" + Order(i32=3).SerializeToString()
    assert ProtobufReader(WRITER).read(column(long_form)).array.field("i32").to_pylist() == [3]


def test_proto2_tells_unset_from_default_and_wants_what_is_required():
    text = 'syntax="proto2"; message M { required int32 a=1; optional int32 b=2; optional int32 c=3 [default=7]; }'
    found = ProtobufReader(WriterSchema("PROTOBUF", text))
    block = found.read(column(b"\0\x08\x01", b"\0\x08\x01\x10\x00\x18\x00", b"\0"))
    assert block.array.to_pylist() == [{"a": 1, "b": None, "c": 7}, {"a": 1, "b": 0, "c": 0}]
    assert block.faults == [(2, "not of its Protobuf schema: required fields are missing: a")]


def test_imports_are_found_among_the_references():
    address = 'syntax="proto3"; package x; import "google/protobuf/timestamp.proto"; message Address { string city=1; }'
    text = 'syntax="proto3"; import "geo/address.proto"; message M { x.Address to=1; }'
    found = ProtobufReader(WriterSchema("PROTOBUF", text, (("geo/address.proto", address),)))
    assert found.read(column(b"\0\x0a\x03\x0a\x01z", b"\0")).array.to_pylist() == [{"to": {"city": "z"}}, {"to": None}]


def test_a_schema_is_compiled_once_and_another_reference_of_the_same_name_anew(monkeypatch):
    ran = []

    def counted(main, sources):
        ran.append(sources)
        return run_protoc(main, sources)

    monkeypatch.setattr(protoc, "run_protoc", counted)
    text = 'syntax = "proto3"; import "once.proto"; message M { Once o = 1; }'
    kinds = []
    for kind in ("int32", "int32", "string"):
        reference = f'syntax = "proto3"; message Once {{ {kind} n = 1; }}'
        file = compiled(WriterSchema("PROTOBUF", text, (("once.proto", reference),)))
        kinds.append(file.message_types_by_name["M"].fields_by_name["o"].message_type.fields_by_name["n"].type)
    assert (kinds, len(ran)) == ([5, 5, 9], 2)


def test_a_serialized_descriptor_is_read_as_its_text_is():
    text = base64.b64encode(FILE.serialized_pb).decode()
    payload = column(b"\0" + Order(i64=5).SerializeToString())
    again = ProtobufReader(WriterSchema("PROTOBUF", text))
    assert again.read(payload).array.equals(ProtobufReader(WRITER).read(payload).array)


@pytest.mark.parametrize("serialized", [False, True])
def test_imports_that_need_no_reference_are_found(serialized):
    text = """syntax="proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
    import "google/protobuf/descriptor.proto"; import "google/protobuf/type.proto";
    extend google.protobuf.FieldOptions { int32 own = 50001; }
    message M { string name=1 [(confluent.field_meta).tags="PII", (own)=3]; confluent.type.Decimal price=2; }"""
    if serialized:
        text = _descriptor_of(text)
    found = ProtobufReader(WriterSchema("PROTOBUF", text)).read(column(b"\0\x0a\x01a\x12\x02\x10\x05"))
    assert found.array.to_pylist() == [{"name": "a", "price": {"value": b"", "precision": 5, "scale": 0}}]


def test_a_renamed_field_is_found_by_its_number_and_a_new_one_has_its_default():
    old = WriterSchema("PROTOBUF", 'syntax="proto3"; message M { string name=1; }')
    new = WriterSchema("PROTOBUF", 'syntax="proto3"; message M { string title=1; int32 n=2; optional int32 o=3; }')
    decoder = Decoder("protobuf", {1: old, 2: new}.__getitem__, arrow_schema(new))
    decoded = decoder.decode(framed(1, [b"\0\x0a\x01a"]))
    assert decoded.table.to_pylist() == [{"title": "a", "n": 0, "o": None}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax="proto3"; message M { M next=1; }', "contains itself"),
        ('syntax="proto3"; message M { int32 a=1 }', "protoc refuses"),
        ('syntax="proto3"; import "gone.proto"; message M {}', "gone.proto"),
        ('syntax="proto3";', "defines no message"),
        ('syntax="proto3"; message M {}', "no field that could be a column"),
    ],
)
def test_a_schema_that_cannot_be_columns_is_refused_with_a_reason(text, reason):
    with pytest.raises(SchemaFault, match=reason):
        ProtobufReader(WriterSchema("PROTOBUF", text))


def test_numbers_that_protobuf_keeps_for_itself_are_refused_in_imports_too():
    kept = 'syntax="proto3"; message K { message L { int32 mine=19500; } }'
    for schema in (
        WriterSchema("PROTOBUF", kept),
        WriterSchema("PROTOBUF", 'syntax="proto3"; import "k.proto"; message M { int32 a=1; }', (("k.proto", kept),)),
    ):
        with pytest.raises(SchemaFault, match=r"protoc refuses .* the field mine has the number 19500"):
            compiled(schema)


def test_a_reference_cannot_be_written_outside_its_directory():
    for name in ("../evil.proto", "/tmp/evil.proto"):
        with pytest.raises(SchemaFault, match="cannot be imported by the name"):
            compiled(WriterSchema("PROTOBUF", 'syntax="proto3"; message M {}', ((name, 'syntax="proto3";'),)))


def test_names_that_no_files_can_have_are_faults_of_the_schema():
    empty = 'syntax="proto3";'
    for names in (("x.proto", "x.proto/y.proto"), ("y/x.proto", "y"), ("a" * 300,), ("\ud800.proto",)):
        with pytest.raises(SchemaFault, match="cannot be imported by the name"):
            compiled(WriterSchema("PROTOBUF", empty + " message M {}", tuple((name, empty) for name in names)))


@pytest.mark.parametrize("name", ["Timestamp", "Int64Value", "Struct"])
def test_a_schema_that_defines_messages_of_protobufs_own_is_refused(name):
    text = f'syntax="proto2"; package google.protobuf; message {name} {{ optional string a=1; }}'
    text += f" message M {{ optional {name} m=1; }}"
    file = FileDescriptorProto.FromString(compiled(WriterSchema("PROTOBUF", text)).serialized_pb)
    file.name = "google/protobuf/struct.proto"
    for source in (text, base64.b64encode(file.SerializeToString()).decode()):
        with pytest.raises(SchemaFault, match=f"defines google.protobuf.{name} itself"):
            ProtobufReader(WriterSchema("PROTOBUF", source), message="M")


def test_no_reference_replaces_a_file_of_protobufs_own():
    """protoc ends the process at another descriptor.proto."""
    text = """syntax="proto3"; import "google/protobuf/descriptor.proto"; import "google/protobuf/timestamp.proto";
    message M { int32 a=1 [deprecated=true, json_name="b"]; google.protobuf.Timestamp at=2; }"""
    other = 'syntax="proto2"; package google.protobuf; message Other {}'
    names = [f"google/{slash}protobuf/{name}.proto" for slash in ("", "/") for name in ("descriptor", "timestamp")]
    replaced = tuple((name, other) for name in names)
    for schema in (WriterSchema("PROTOBUF", text, replaced), WriterSchema("PROTOBUF", _descriptor_of(text), replaced)):
        (row,) = ProtobufReader(schema).read(column(b"\0\x08\x01")).array.to_pylist()
        assert row == {"a": 1, "at": None}


def _descriptor_of(text):
    return base64.b64encode(compiled(WriterSchema("PROTOBUF", text)).serialized_pb).decode()


def test_the_files_of_protobufs_own_are_all_known():
    folder = importlib.resources.files("grpc_tools") / "_proto"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.proto")} == WELL_KNOWN


def test_the_imports_that_need_no_reference_are_those_of_google():
    for name in (name for name in BUILT_IN if name.startswith("google/type/")):
        text = f'syntax = "proto3"; import "{name}"; message M {{ int32 id = 1; }}'
        ours = compiled(WriterSchema("PROTOBUF", text)).pool.FindFileByName(name)
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        assert _shape(ours) == _shape(module.DESCRIPTOR), name


def _shape(file):
    """The messages and enums of a file, without its options."""
    found = FileDescriptorProto()
    file.CopyToProto(found)
    return list(found.message_type), list(found.enum_type), found.package
