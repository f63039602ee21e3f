"""Schemas called compatible are parsed by google.protobuf without loss; and tests of each rule."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.formats.protobuf_compatibility import protobuf_incompatibilities
from ottla.registry.protoc import parse_protobuf

INTS = ("int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "fixed32", "sfixed64", "E")
SCALARS = (*INTS, "float", "double", "string", "bytes", "Inner")
LABELS = ("", "", "optional ", "repeated ")


def kinds(reader: str, writer: str) -> list[str]:
    return [each.kind for each in protobuf_incompatibilities(parsed(reader)[1], parsed(writer)[1])]


def parsed(body: str) -> Any:
    head = "" if body.startswith("syntax") else 'syntax = "proto3"; package p; '
    return parse_protobuf(head + body, {})


def message_class(body: str, name: str = "M") -> Any:
    file = FileDescriptorProto()
    file.CopyFrom(parsed(body)[1].file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"p.{name}"))


@st.composite
def bodies(draw: st.DrawFn) -> list[tuple[int, str, str, bool]]:
    """Number, label, type, in the oneof: for each field of M."""
    numbers = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True))
    fields = []
    for number in sorted(numbers):
        in_oneof = draw(st.sampled_from([False, False, True]))
        fields.append(
            (number, "" if in_oneof else draw(st.sampled_from(LABELS)), draw(st.sampled_from(SCALARS)), in_oneof)
        )
    return fields


@st.composite
def changed(draw: st.DrawFn, fields: list[tuple[int, str, str, bool]]) -> list[tuple[int, str, str, bool]]:
    made = []
    for number, label, kind, in_oneof in fields:
        choice = draw(st.sampled_from(["keep", "keep", "drop", "type", "label", "oneof"]))
        if choice == "type":
            made.append((number, label, draw(st.sampled_from(SCALARS)), in_oneof))
        elif choice == "label" and not in_oneof:
            made.append((number, draw(st.sampled_from(LABELS)), kind, False))
        elif choice == "oneof":
            made.append((number, "", kind, not in_oneof))
        elif choice != "drop":
            made.append((number, label, kind, in_oneof))
    return made


def source(fields: list[tuple[int, str, str, bool]]) -> str:
    inside = [f"{kind} f{number} = {number};" for number, _, kind, in_oneof in fields if in_oneof]
    plain = [f"{label}{kind} f{number} = {number};" for number, label, kind, in_oneof in fields if not in_oneof]
    oneof = f"oneof choice {{ {' '.join(inside)} }}" if inside else ""
    return f"message M {{ {' '.join(plain)} {oneof} }} message Inner {{ int32 x = 1; }} enum E {{ A = 0; B = 1; }}"


def value(draw: Any, kind: str) -> Any:
    signed, unsigned = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1)
    long, unsigned_long = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
    known = {
        "int32": signed,
        "sint32": signed,
        "int64": long,
        "sint64": long,
        "sfixed64": long,
        "uint32": unsigned,
        "fixed32": unsigned,
        "uint64": unsigned_long,
        "bool": st.booleans(),
        "E": st.integers(0, 5),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "string": st.text(max_size=4),
        "bytes": st.binary(max_size=4),
    }
    return draw(known.get(kind, signed))


@settings(max_examples=250)
@given(st.data())
def test_a_compatible_reader_parses_what_was_written(data: st.DataObject) -> None:
    fields = data.draw(bodies())
    new = data.draw(changed(fields))
    writer, reader = source(fields), source(new)
    assume(not kinds(reader, writer))
    sent = message_class(writer)()
    for number, label, kind, in_oneof in fields:
        if in_oneof and sent.WhichOneof("choice"):
            continue
        drawn = [value(data.draw, kind) for _ in range(2 if "repeated" in label else 1)]
        if "repeated" in label and kind == "Inner":
            for x in drawn:
                getattr(sent, f"f{number}").add(x=x)
        elif "repeated" in label:
            getattr(sent, f"f{number}").extend(drawn)
        elif kind == "Inner":
            getattr(sent, f"f{number}").x = drawn[0]
        else:
            setattr(sent, f"f{number}", drawn[0])
    read = message_class(reader).FromString(sent.SerializeToString())
    after = {number: (label, kind) for number, label, kind, _ in new}
    for number, label, kind, _ in fields:
        if after.get(number) == (label, kind):
            got, was = getattr(read, f"f{number}"), getattr(sent, f"f{number}")
            assert str(got) == str(was), f"f{number}"


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("message M { int64 a = 1; }", "message M { int32 a = 1; }"),
        ("message M { bytes a = 1; }", "message M { string a = 1; }"),
        ("message M { int32 b = 1; }", "message M { int32 a = 1; }"),
        ("message M { int32 a = 1; string b = 2; }", "message M { int32 a = 1; }"),
        ("message M { }", "message M { int32 a = 1; }"),
        ("message M { repeated string a = 1; }", "message M { string a = 1; }"),
        ("message M { oneof o { int32 a = 1; } }", "message M { int32 a = 1; }"),
        ("message M { E e = 1; } enum E { A = 0; }", "message M { E e = 1; } enum E { A = 0; B = 1; }"),
        ("message M { } message N { }", "message M { }"),
        ("message M { map<string, int64> a = 1; }", "message M { map<string, int32> a = 1; }"),
    ],
)
def test_allowed_changes(reader: str, writer: str) -> None:
    assert kinds(reader, writer) == []


PROTO2 = 'syntax = "proto2"; package p; '


@pytest.mark.parametrize(
    ("reader", "writer", "kind"),
    [
        ("message M { string a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
        ("message M { sint32 a = 1; }", "message M { int32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
        ("message M { string a = 1; }", "message M { bytes a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
        ("message M { N a = 1; } message N { }", "message M { int32 a = 1; } message N { }", "FIELD_KIND_CHANGED"),
        ("message M { N a = 1; } message N { } message O { }",
         "message M { O a = 1; } message N { } message O { }", "FIELD_NAMED_TYPE_CHANGED"),
        ("message M { }", "message M { } message N { }", "MESSAGE_REMOVED"),
        ("message M { repeated int32 a = 1; }", "message M { int32 a = 1; }", "FIELD_NUMERIC_LABEL_CHANGED"),
        ("message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { int32 a = 1; int32 b = 2; }",
         "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
        ("message M { oneof o { int32 a = 1; } }", "message M { oneof o { int32 a = 1; int32 b = 2; } }",
         "ONEOF_FIELD_REMOVED"),
        (PROTO2 + "message M { required int32 a = 1; }", PROTO2 + "message M { optional int32 a = 1; }",
         "REQUIRED_FIELD_ADDED"),
        ('syntax = "proto3"; package q; message M { }', "message M { }", "PACKAGE_CHANGED"),
        ("message M { map<string, string> a = 1; }", "message M { map<string, int32> a = 1; }",
         "FIELD_SCALAR_KIND_CHANGED"),
        ("message M { int32 a = 1; map<string, int32> b = 2; }", "message M { int32 a = 1; repeated N b = 2; } "
         "message N { string key = 1; int32 value = 2; }", "FIELD_KIND_CHANGED"),
    ],
)  # fmt: skip
def test_refused_changes(reader: str, writer: str, kind: str) -> None:
    assert kind in kinds(reader, writer)
