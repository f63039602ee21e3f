"""Protobuf schemas: compiled, printed, sent as descriptors."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ottla.formats.compatibility import InvalidSchema
from ottla.formats.protobuf_text import protobuf_text
from ottla.registry.parsing import parse
from ottla.registry.protoc import parse_protobuf, serialized

RICH = """
syntax = "proto2";
package a.b;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/any.proto";
option java_package = "com.x";
option optimize_for = SPEED;
message Outer {
  option deprecated = true;
  required int32 id = 1 [default = -5, deprecated = true];
  optional string text = 2 [default = "a\\"b\\\\", json_name = "other"];
  repeated int32 numbers = 3 [packed = true];
  map<string, Inner> inners = 4;
  oneof choice { string one = 5; Inner two = 6; }
  optional group Result = 7 { optional string url = 8; }
  message Inner { optional google.protobuf.Timestamp at = 1; extensions 100 to 199; }
  enum Colour { option allow_alias = true; RED = 0; CRIMSON = 0; BLUE = 5 [deprecated = true]; reserved 7, 9 to 11; }
  optional Colour colour = 9 [default = BLUE];
  optional bytes raw = 10 [default = "\\001\\377"];
  reserved 20, 30 to 40, 1000 to max;
  reserved "old";
  extend Inner { optional int32 more = 101; }
}
extend Outer.Inner { repeated string tags = 100; }
service S { rpc Call (Outer) returns (stream Outer.Inner) { option deprecated = true; } }
"""


def test_what_is_printed_compiles_to_the_same_descriptor() -> None:
    _, schema = parse_protobuf(RICH, {})
    _, again = parse_protobuf(protobuf_text(schema.file), {})
    assert again.file == schema.file


@pytest.mark.parametrize("head", ['syntax = "proto3";', 'edition = "2023";'])
def test_newer_syntaxes_are_printed_too(head: str) -> None:
    body = "message M { int32 a = 1; repeated string b = 2; oneof c { bool d = 3; } map<int32, bytes> e = 4; }"
    optional = " message N { optional int32 a = 1; }" if "proto3" in head else ""
    _, schema = parse_protobuf(head + body + optional, {})
    _, again = parse_protobuf(protobuf_text(schema.file), {})
    assert again.file == schema.file


def test_a_descriptor_in_base64_is_stored_as_source() -> None:
    _, schema = parse_protobuf(RICH, {})
    source, again = parse_protobuf(serialized(schema), {})
    assert source.startswith('syntax = "proto2";')
    assert again.file == schema.file


OWN_OPTIONS = """
syntax = "proto3";
package p;
import "confluent/meta.proto";
import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { Own own = 50001; repeated int32 nums = 50002; double d = 50003; bytes b = 50004; }
extend google.protobuf.MessageOptions { Kind kind = 50001; }
enum Kind { A = 0; B = 1; }
message Own { string s = 1; repeated Own more = 2; map<string, int32> m = 3; }
message M {
  option (kind) = B;
  string s = 1 [(confluent.field_meta) = { tags: "PII", params: [{ key: "a", value: "b" }] }, (nums) = 3, (nums) = 4];
  string t = 2
    [(own) = { s: "x\\n", more: { s: "\\"" }, more: {}, m: { key: "k", value: 7 } }, (d) = -inf, (b) = "\\001"];
}
"""


def test_options_of_extensions_are_printed_too() -> None:
    _, schema = parse_protobuf(OWN_OPTIONS, {})
    _, again = parse_protobuf(protobuf_text(schema.file, schema.imports), {})
    assert again.file == schema.file


def test_a_descriptor_with_options_of_extensions_is_stored_as_source() -> None:
    field = 'string s = 1 [(confluent.field_meta).doc = "d"];'
    text = f'syntax = "proto3"; import "confluent/meta.proto"; message M {{ {field} }}'
    _, schema = parse_protobuf(text, {})
    source, again = parse_protobuf(serialized(schema), {})
    assert source.startswith('syntax = "proto3";')
    assert again.file == schema.file


def test_another_tag_makes_another_schema() -> None:
    """Else a field that became secret would be registered as the version in which it was not."""
    public = OWN_OPTIONS.replace("PII", "PUBLIC")
    assert parse("PROTOBUF", OWN_OPTIONS).key != parse("PROTOBUF", public).key
    assert '"PUBLIC"' in parse("PROTOBUF", public, normalized=True).text


def test_spelling_does_not_make_another_schema() -> None:
    one = parse("PROTOBUF", 'syntax = "proto3"; message M { int32 a = 1; string b = 2; }')
    two = parse("PROTOBUF", '// words\nsyntax = "proto3";\nmessage M {\n  string b = 2;\n  int32 a = 1;\n}\n')
    assert one.text != two.text
    assert one.key == two.key


def test_imports_are_those_of_the_references() -> None:
    text = 'syntax = "proto3"; import "lib/other.proto"; message M { lib.Other other = 1; }'
    other = 'syntax = "proto3"; package lib; message Other { int32 a = 1; }'
    with pytest.raises(InvalidSchema, match=r"lib/other\.proto"):
        parse_protobuf(text, {})
    _, schema = parse_protobuf(text, {"lib/other.proto": other})
    assert ".lib.Other" in schema.all_messages()
    encoded = serialized(parse_protobuf(other, {})[1])
    assert ".lib.Other" in parse_protobuf(text, {"lib/other.proto": encoded})[1].all_messages()


@pytest.mark.parametrize("name", ["google/protobuf/descriptor.proto", "google/./protobuf//descriptor.proto"])
def test_no_reference_replaces_a_file_of_protobufs_own(name: str) -> None:
    """protoc ends the process at another descriptor.proto."""
    other = 'syntax = "proto2"; package google.protobuf; message Other {}'
    text = """syntax = "proto3"; import "google/protobuf/descriptor.proto"; option java_package = "a";
    message M { option deprecated = true; int32 a = 1 [deprecated = true]; }"""
    _, schema = parse_protobuf(text, {name: other})
    assert ".google.protobuf.FileOptions" in schema.all_messages()


def test_faults_name_line_and_column() -> None:
    with pytest.raises(InvalidSchema, match="line 2, column 25"):
        parse_protobuf('syntax = "proto3";\nmessage M { int32 a = 1 }', {})


@pytest.mark.parametrize("name", ["/etc/x.proto", "../x.proto", "a/../../x.proto"])
def test_no_import_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(InvalidSchema, match="relative path"):
        parse_protobuf('syntax = "proto3"; message M {}', {name: 'syntax = "proto3";'})


def test_random_base64_is_no_schema() -> None:
    with pytest.raises(InvalidSchema):
        parse_protobuf(
            base64.b64encode(FileDescriptorProto(dependency=["nowhere.proto"]).SerializeToString()).decode(), {}
        )


def a_message(**parts: object) -> FileDescriptorProto:
    return FileDescriptorProto(syntax="proto3", message_type=[{"name": "M", **parts}])


MAP = {"name": "m", "number": 1, "label": 3, "type": 11, "type_name": ".M.E"}


@pytest.mark.parametrize(
    "descriptor",
    [
        a_message(field=[{"name": "a", "number": 1, "type": 5, "oneof_index": 7}]),
        a_message(field=[{"name": "g", "number": 1, "type": 10, "type_name": ".M.G"}]),
        a_message(field=[MAP], nested_type=[{"name": "E", "options": {"map_entry": True}}]),
        a_message(name="M { int32 a = 1; } message N"),
        a_message(field=[{"name": "a = 1; int32 b", "number": 2, "type": 5}]),
    ],
)
def test_a_descriptor_that_contradicts_itself_is_no_schema(descriptor: FileDescriptorProto) -> None:
    with pytest.raises(InvalidSchema):
        parse_protobuf(base64.b64encode(descriptor.SerializeToString()).decode(), {})


def deep_option(opening: str, closing: str, times: int) -> str:
    head = 'syntax = "proto3"; import "google/protobuf/descriptor.proto"; message M { M m = 1; }'
    head += " extend google.protobuf.FileOptions { M o = 50000; }"
    return f"{head} option (o) = {{ {opening * times} {closing * times} }};"


@pytest.mark.parametrize("braces", ["{}", "<>"])
def test_values_of_options_are_not_nested_without_end(braces: str) -> None:
    """protoc overflows its stack at 30,000 of them, and the process with it."""
    opening, closing = f"m {braces[0]}", braces[1]
    parse("PROTOBUF", deep_option(opening, closing, 90))
    with pytest.raises(InvalidSchema, match="nested more than 100 deep"):
        parse("PROTOBUF", deep_option(opening, closing, 500))


def test_braces_in_strings_and_comments_do_not_nest() -> None:
    braces = "{" * 200
    text = f'syntax = "proto3"; // {braces}\n/* {braces}\n */ message M {{ string s = 1 [json_name = "\\"{braces}"]; }}'
    parse("PROTOBUF", text)
