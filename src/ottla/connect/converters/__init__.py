"""Converters between the bytes of a topic and Connect's data, by the names of their Java classes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from ottla.connect.converters.avro import AvroConverter
from ottla.connect.converters.common import Converter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.json_schema_registry import JsonSchemaConverter
from ottla.connect.converters.protobuf_options import OPTIONS as PROTOBUF
from ottla.connect.converters.simple import (
    NUMBERS,
    BooleanConverter,
    ByteArrayConverter,
    NumberConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from ottla.connect.errors import ConfigException
from ottla.connect.plugin import Plugin, by_class

_PACKAGE: Final = "org.apache.kafka.connect."


def _protobuf(given: Mapping[str, Any]) -> Converter:
    """Protobuf's own package is loaded by those alone who use it."""
    if find_spec("google.protobuf") is None or find_spec("grpc_tools") is None:
        raise ConfigException("ProtobufConverter needs a package more: pip install 'ottla[formats]'")
    from ottla.connect.converters.protobuf import ProtobufConverter

    return ProtobufConverter(given)


CONVERTERS: Final[dict[str, Plugin[Converter]]] = by_class(
    Plugin("converter", _PACKAGE + "json.JsonConverter", JsonConverter.OPTIONS, JsonConverter),
    Plugin("converter", _PACKAGE + "storage.StringConverter", StringConverter.OPTIONS, StringConverter),
    Plugin("converter", _PACKAGE + "converters.ByteArrayConverter", ByteArrayConverter.OPTIONS, ByteArrayConverter),
    Plugin("converter", _PACKAGE + "converters.BooleanConverter", BooleanConverter.OPTIONS, BooleanConverter),
    Plugin("converter", "io.confluent.connect.avro.AvroConverter", AvroConverter.OPTIONS, AvroConverter),
    Plugin(
        "converter", "io.confluent.connect.json.JsonSchemaConverter", JsonSchemaConverter.OPTIONS, JsonSchemaConverter
    ),
    Plugin("converter", "io.confluent.connect.protobuf.ProtobufConverter", PROTOBUF, _protobuf),
    *(
        Plugin("converter", f"{_PACKAGE}converters.{name}", NumberConverter.OPTIONS, make)
        for name, make in NUMBERS.items()
    ),
)
"""All converters of keys and values, by their Java class. They convert headers too."""
HEADER_CONVERTERS: Final[dict[str, Plugin[Converter]]] = CONVERTERS | by_class(
    Plugin(
        "header_converter", _PACKAGE + "storage.SimpleHeaderConverter", SimpleHeaderConverter.OPTIONS,
        SimpleHeaderConverter,
    ),
)  # fmt: skip
"""All converters of headers, by their Java class."""
