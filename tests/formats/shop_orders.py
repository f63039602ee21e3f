"""A protobuf schema with every kind of field, compiled by protoc, for tests that read and write its messages."""

from google.protobuf import message_factory

from ottla.formats.protoc import compiled
from ottla.formats.writer import WriterSchema

RICH = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";

message Order {
  int32 i32 = 1; sint32 s32 = 2; sfixed32 x32 = 3; uint32 u32 = 4; fixed32 f32 = 5;
  int64 i64 = 6; sint64 s64 = 7; sfixed64 x64 = 8; uint64 u64 = 9; fixed64 f64 = 10;
  float flt = 11; double dbl = 12; bool flag = 13; string text = 14; bytes raw = 15;
  enum Color { RED = 0; GREEN = 1; BLUE = 5; }
  Color color = 16;
  optional int32 maybe = 17;
  repeated int64 many = 18;
  repeated Item items = 19;
  map<string, int32> counts = 20;
  map<int64, Item> by_number = 21;
  oneof either { string left = 22; Item right = 23; }
  google.protobuf.Timestamp at = 24;
  google.protobuf.Duration lasts = 25;
  google.protobuf.Int64Value wrapped = 26;
  google.protobuf.Struct free = 27;
  repeated google.protobuf.Timestamp times = 28;
  message Item { string name = 1; optional double price = 2; }
}
message Other { string only = 1; message Deep { int32 n = 1; } }
"""
WRITER = WriterSchema("PROTOBUF", RICH)
FILE = compiled(WRITER)
Order = message_factory.GetMessageClass(FILE.message_types_by_name["Order"])
