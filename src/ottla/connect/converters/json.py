"""JsonConverter: values as JSON, with their schema beside them or without one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.checks import one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Width
from ottla.connect.config_def import Type as Kind
from ottla.connect.converters.common import CONVERTER_TYPE
from ottla.connect.converters.json_reading import EnvelopeHeads, Read, loaded, reader
from ottla.connect.converters.json_schema import from_json, schema_text
from ottla.connect.converters.json_writing import Form, Write, writer
from ottla.connect.data import Schema
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.records import SchemaAndValue

_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


class JsonConverter:
    """Writes and reads values as JSON."""

    OPTIONS = ConfigDef(
        CONVERTER_TYPE,
        Option("schemas.enable", Kind.BOOLEAN, True, Importance.HIGH,
               "Write each value's schema beside it, and expect one.", group="Schemas", order=0, width=Width.MEDIUM,
               display="Enable Schemas"),
        Option("schemas.cache.size", Kind.INT, 1000, Importance.HIGH, "The number of schemas to remember.",
               group="Schemas", order=1, width=Width.MEDIUM, display="Schema Cache Size"),
        Option("schema.content", Kind.STRING, None, Importance.HIGH,
               "The schema of all values that are read, in JsonConverter's form; values have none beside them then.",
               understood(lambda text: json.loads(text) if text else None), group="Schemas", order=2,
               width=Width.MEDIUM, display="Schema Content"),
        Option("decimal.format", Kind.STRING, "BASE64", Importance.LOW, "Write decimals in base64 or as numbers.",
               one_of("NUMERIC", "BASE64", any_case=True), group="Serialization", order=0, width=Width.MEDIUM,
               display="Decimal Format"),
        Option("replace.null.with.default", Kind.BOOLEAN, True, Importance.LOW,
               "Take a field's default where the field is null and has one.", group="Serialization", order=1,
               width=Width.MEDIUM, display="Replace null with default"),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = self.OPTIONS.parse(given)
        self._enabled: bool = options["schemas.enable"]
        self.numeric = options["decimal.format"].upper() == "NUMERIC"
        self._form = Form(numeric=self.numeric, fill=options["replace.null.with.default"])
        self._most = max(options["schemas.cache.size"], 1)
        self._written: dict[Schema | None, tuple[str, Write]] = {}
        self._readers: dict[Schema | None, Read] = {}
        self._read: dict[str, Schema | None] = {}
        self._heads = EnvelopeHeads(self._most)
        self._fixed: Schema | None = None
        if options["schema.content"]:
            try:
                self._fixed = from_json(json.loads(options["schema.content"]), self._value)
            except DataException as fault:
                raise ConfigException.of("schema.content", options["schema.content"], str(fault)) from None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value."""
        if schema is None and value is None:
            return None
        before, write = self._writer(schema)
        return _encoded(f"{before}{write(value)}}}" if self._enabled else write(value))

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value of bytes, and its schema. No bytes are a tombstone, with schemas too (KAFKA-3832)."""
        if content is None:
            return SchemaAndValue(self._fixed, None)
        if self._fixed is not None or not self._enabled:
            return SchemaAndValue(self._fixed, self._value(self._fixed, loaded(content) if content else None))
        opened = self._heads.opened(topic, content)
        if opened is not None:
            schema, payload = opened
            return SchemaAndValue(schema, self._value(schema, payload))
        document = loaded(content) if content else None
        if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
            raise DataException(_ENVELOPE)
        schema = self._schema(document["schema"])
        self._heads.note(topic, content, schema)
        return SchemaAndValue(schema, self._value(schema, document["payload"]))

    def read_as(self, schema: Schema | None, content: bytes) -> Any:
        """The value of JSON that has no schema beside it."""
        return self._value(schema, loaded(content))

    def _writer(self, schema: Schema | None) -> tuple[str, Write]:
        """The text before the payload of a schema's values, and what writes the payload."""
        known = self._written.get(schema)
        if known is None:
            if len(self._written) >= self._most:
                self._written.clear()
            before = f'{{"schema":{schema_text(schema, self._written_value)},"payload":' if self._enabled else ""
            known = self._written[schema] = before, writer(schema, self._form)
        return known

    def _written_value(self, schema: Schema, value: Any) -> str:
        return writer(schema, self._form)(value)

    def _schema(self, document: Any) -> Schema | None:
        """The schema of an envelope; None where it says null."""
        key = json.dumps(document, default=str)
        if key not in self._read:
            if len(self._read) >= self._most:
                self._read.clear()
            self._read[key] = from_json(document, self._value)
        return self._read[key]

    def _value(self, schema: Schema | None, node: Any) -> Any:
        """The value that plain JSON stands for."""
        read = self._readers.get(schema)
        if read is None:
            if len(self._readers) >= self._most:
                self._readers.clear()
            read = self._readers[schema] = reader(schema, fill=self._form.fill)
        return read(node)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise DataException(
            f"Converting Kafka Connect data to byte[] failed due to serialization error: {fault}"
        ) from None
