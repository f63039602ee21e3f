"""Values behind the id of their schema in a registry: all but the format itself, with Confluent's option names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from ottla.client.registry_client import (
    PASSWORD,
    TOKEN,
    USER,
    RegistryClient,
    RegistryRefusal,
    RegistryUnavailable,
    registry,
    registry_urls,
)
from ottla.connect.checks import understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.converters.common import CONVERTER_TYPE
from ottla.connect.data import Schema
from ottla.connect.errors import ConfigException, DataException, RetriableException
from ottla.connect.records import SchemaAndValue
from ottla.formats.faults import UnknownSchema
from ottla.formats.writer import WriterSchema

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]
_MAGIC: Final = b"\0"
_PREFIX_BYTES: Final = 5
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


def _strategy(name: str) -> str:
    short = name.removeprefix(_STRATEGY_PACKAGE)
    if short not in _STRATEGIES:
        raise ValueError(f"there are {', '.join(_STRATEGIES)}")
    return short


def _no_secrets(name: str, value: Any) -> None:
    if value:
        raise ConfigException(
            f"Configuration '{name}' would show credentials in REST answers and topics: set {USER} and {PASSWORD}, or "
            f"{TOKEN}, in the worker's environment"
        )


class RegistryConverter:
    """Writes values behind the id of their schema, which it registers; reads what others wrote so."""

    KIND: ClassVar[str]
    calls_out: ClassVar[bool] = True
    """A task converts in a thread: the registry is asked for schemas, and may be slow."""
    OPTIONS: ClassVar[ConfigDef] = ConfigDef(
        CONVERTER_TYPE,
        Option("schema.registry.url", Type.LIST, importance=Importance.HIGH, doc="The registry's URLs.",
               check=understood(lambda urls: registry_urls(",".join(urls)))),
        Option("auto.register.schemas", Type.BOOLEAN, True, doc="Register schemas that the registry does not have."),
        Option("use.latest.version", Type.BOOLEAN, False, Importance.LOW,
               "Write with the latest schema of the subject. Needs auto.register.schemas=false."),
        Option("key.subject.name.strategy", Type.STRING, "TopicNameStrategy", doc="The subject of keys.",
               check=understood(_strategy)),
        Option("value.subject.name.strategy", Type.STRING, "TopicNameStrategy", doc="The subject of values.",
               check=understood(_strategy)),
        Option("basic.auth.user.info", Type.PASSWORD, None, doc="Refused: credentials come from the environment.",
               check=_no_secrets),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any], client: RegistryClient | None = None) -> None:
        options = self.options = self.OPTIONS.parse(given)
        self._part = "key" if options["converter.type"] == "key" else "value"
        self._strategy = _strategy(options[f"{self._part}.subject.name.strategy"])
        self._registers: bool = options["auto.register.schemas"]
        if self._registers == options["use.latest.version"]:
            raise ConfigException(
                "Set auto.register.schemas=true to register schemas, or auto.register.schemas=false and "
                "use.latest.version=true to write with registered ones"
            )
        self._client = client or registry(registry_urls(",".join(options["schema.registry.url"])))
        self._readers: dict[int, tuple[Schema, Read]] = {}
        self._writers: dict[tuple[str, Schema], tuple[bytes, Write]] = {}

    def schema_text(self, schema: Schema) -> str:
        """The schema to register for a Connect schema."""
        raise NotImplementedError

    def writer(self, written: WriterSchema, schema: Schema) -> Write:
        """Writes values of a Connect schema by a registered one."""
        raise NotImplementedError

    def reader(self, written: WriterSchema) -> tuple[Schema, Read]:
        """The Connect schema of a registered one, and what reads its payloads."""
        raise NotImplementedError

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value behind its schema's id."""
        if value is None and (schema is None or schema.optional):
            return None
        if schema is None:
            name = type(self).__name__
            raise DataException(f"{name} needs a schema: data without one cannot be written in {self.KIND}")
        subject = self._subject(topic, schema)
        known = self._writers.get((subject, schema))
        if known is None:
            known = self._writers[subject, schema] = self._writer(subject, schema)
        prefix, write = known
        return prefix + write(value)

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value behind a schema's id, with that schema."""
        if content is None:
            return SchemaAndValue(None, None)
        number, payload = self.parts(topic, content)
        known = self._readers.get(number)
        if known is None:
            known = self._readers[number] = self.reader(self.written(number))
        schema, read = known
        return SchemaAndValue(schema, read(payload))

    def parts(self, topic: str, content: bytes) -> tuple[int, bytes]:
        """The id of a value's schema, and what stands behind it."""
        if len(content) < _PREFIX_BYTES or content[:1] != _MAGIC:
            first = content[:_PREFIX_BYTES].hex()
            raise DataException(
                f"Failed to deserialize data for topic {topic} to {self.KIND}: {first} is not the prefix of a schema id"
            )
        return int.from_bytes(content[1:_PREFIX_BYTES], "big"), content[_PREFIX_BYTES:]

    def written(self, number: int) -> WriterSchema:
        """The registered schema of an id."""
        return self._checked(self._asked(lambda: self._client.schema(number)))

    def _subject(self, topic: str, schema: Schema) -> str:
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{self._part}"
        if schema.name is None:
            raise DataException(f"{self._strategy} needs schemas with a name; SetSchemaMetadata gives one")
        return schema.name if self._strategy == "RecordNameStrategy" else f"{topic}-{schema.name}"

    def _writer(self, subject: str, schema: Schema) -> tuple[bytes, Write]:
        if self._registers:
            written = WriterSchema(self.KIND, self.schema_text(schema))
            number = self._asked(lambda: self._client.register(subject, written))
        else:
            latest = self._asked(lambda: self._client.latest(subject))
            number, written = latest.schema_id, latest.schema
        return _MAGIC + int(number).to_bytes(4, "big"), self.writer(self._checked(written), schema)

    def _checked(self, written: WriterSchema) -> WriterSchema:
        if written.kind != self.KIND:
            raise DataException(f"the schema is of the kind {written.kind}, not {self.KIND}")
        return written

    def _asked(self, ask: Any) -> Any:
        """The registry's answer. One that does not answer may do so later."""
        try:
            return ask()
        except RegistryUnavailable as fault:
            raise RetriableException(str(fault)) from fault
        except (RegistryRefusal, UnknownSchema) as fault:
            raise DataException(str(fault)) from fault
