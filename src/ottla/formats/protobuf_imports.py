"""Imports of Protobuf sources that need no reference."""

from __future__ import annotations

BUILT_IN = {
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
"""Imports that clients take for granted, as google/protobuf/*.proto, which grpcio-tools has."""

WELL_KNOWN = frozenset(
    f"google/protobuf/{name}.proto"
    for name in (
        *("any", "api", "compiler/plugin", "cpp_features", "descriptor", "duration", "empty", "field_mask"),
        *("go_features", "java_features", "source_context", "struct", "timestamp", "type", "wrappers"),
    )
)
"""The files that protoc brings. No reference replaces one: protoc ends the process where descriptor.proto is another,
and readers know the messages of some by heart."""
