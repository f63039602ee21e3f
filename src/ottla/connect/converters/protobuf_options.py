"""The options of ProtobufConverter, by Confluent's names."""

from __future__ import annotations

from typing import Final

from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.converters.registry import RegistryConverter

OPTIONS: Final = RegistryConverter.OPTIONS.joined(
    ConfigDef(
        Option("optional.for.nullables", Type.BOOLEAN, True, Importance.MEDIUM,
               "Write a value that may be missing as an optional field; else a null becomes 0 or empty."),
        Option("wrapper.for.nullables", Type.BOOLEAN, False, Importance.MEDIUM,
               "Write a value that may be missing as google.protobuf.StringValue and the like, and read these so."),
        Option("enhanced.protobuf.schema.support", Type.BOOLEAN, False, Importance.MEDIUM,
               "Names of schemas have the package of their message."),
    )
)  # fmt: skip
