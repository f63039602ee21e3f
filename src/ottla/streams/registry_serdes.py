"""Serdes of Avro, Protobuf and JSON Schema: values behind their schema's id, as Confluent's serdes write them.

Values are those of the columns that the schema stands for: dicts, lists, numbers, text, bytes, dates and times.
Arrow is loaded with the first value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from ottla.client.registry_client import Registered, RegistryUnavailable, registry_urls
from ottla.client.registry_client import registry as shared_client
from ottla.config.profiles import DEFAULT_REGISTRY
from ottla.formats.faults import UnknownSchema
from ottla.formats.writer import WriterSchema
from ottla.streams.errors import ProcessingError, TopologyError
from ottla.streams.serdes import Serde, whole

ReadAll = Callable[[list[bytes]], list[Any]]
Write = Callable[[Any], bytes]


class Schemas(Protocol):
    """The part of a registry's client that serdes use; MemoryRegistry stands in for it in tests."""

    def schema(self, name: int | str) -> WriterSchema:
        """The schema of an id or a GUID, or UnknownSchema."""

    def latest(self, subject: str) -> Registered:
        """The latest version of a subject, or UnknownSchema."""

    def register(self, subject: str, schema: WriterSchema) -> int:
        """The id of a schema, which is registered if it is new."""


class MemoryRegistry:
    """A registry in this process, for tests of topologies; every schema is compatible."""

    def __init__(self) -> None:
        self._schemas: list[WriterSchema] = []
        self._subjects: dict[str, list[int]] = {}

    def schema(self, name: int | str) -> WriterSchema:
        """The schema of an id."""
        if isinstance(name, str) or not 1 <= name <= len(self._schemas):
            raise UnknownSchema(f"the registry in memory has no schema {name}")
        return self._schemas[name - 1]

    def latest(self, subject: str) -> Registered:
        """The latest version of a subject."""
        if subject not in self._subjects:
            raise UnknownSchema(f"the registry in memory has no subject {subject}")
        versions = self._subjects[subject]
        return Registered(subject, len(versions), versions[-1], self._schemas[versions[-1] - 1])

    def register(self, subject: str, schema: WriterSchema) -> int:
        """The id of a schema; the same text has one id in all subjects."""
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id


def avro(schema: str = "", *, subject: str = "", registry: str | Schemas = DEFAULT_REGISTRY) -> Serde:
    """Avro. Written with `schema`, registered in `subject` at the first value; without one, with the subject's latest.

    A serde without a subject only reads. Values are read as their writers' schemas say.
    """
    return _Values("AVRO", schema, subject, registry).serde()


def json_schema(schema: str = "", *, subject: str = "", registry: str | Schemas = DEFAULT_REGISTRY) -> Serde:
    """JSON with a schema, as `avro`."""
    return _Values("JSON", schema, subject, registry).serde()


def protobuf(
    schema: str = "", *, subject: str = "", message: str = "", registry: str | Schemas = DEFAULT_REGISTRY
) -> Serde:
    """Protobuf, as `avro`; `message` is written if the file has several, else its first one."""
    return _Values("PROTOBUF", schema, subject, registry, message).serde()


class _Values:
    """Readers by schema id, and the writer, each made at its first value."""

    def __init__(self, kind: str, schema: str, subject: str, registry: str | Schemas, message: str = "") -> None:
        if schema and not subject:
            raise TopologyError(
                f"the {kind} schema is to be registered: name its subject, such as subject='orders-value'"
            )
        self._kind, self._schema, self._subject, self._message = kind, schema, subject, message
        self._schemas = shared_client(registry_urls(registry, "registry=")) if isinstance(registry, str) else registry
        self._readers: dict[int | str, ReadAll] = {}
        self._writer: Write | None = None

    def serde(self) -> Serde:
        """The two directions; the name changes with the subject, so that graphs can be compared."""
        name = f"{self._kind.lower()} {self._subject}".rstrip()
        return Serde(name, self._write, lambda data: whole(self._read_all([data])[0]), self._read_all)

    def _read_all(self, datas: list[bytes]) -> list[Any]:
        """The values, those of one schema together; a ValueError in the place of one that cannot be read."""
        places: dict[int | str, list[int]] = {}
        values: list[Any] = [ValueError("no schema id stands before the value (a zero byte and four of the id)")] * len(
            datas
        )
        for at, data in enumerate(datas):
            if (name := _schema_name(data)) is not None:
                places.setdefault(name, []).append(at)
        for name, mine in places.items():
            try:
                read = self._reader(name)
            except ValueError as fault:
                found: list[Any] = [fault] * len(mine)
            else:
                found = read([datas[at][5 if isinstance(name, int) else 17 :] for at in mine])
            for at, value in zip(mine, found, strict=True):
                values[at] = value
        return values

    def _reader(self, name: int | str) -> ReadAll:
        if name not in self._readers:
            from ottla.streams.columns import reading

            self._readers[name] = reading(self._of_kind(_asked(lambda: self._schemas.schema(name))))
        return self._readers[name]

    def _write(self, value: Any) -> bytes:
        if self._writer is None:
            self._writer = self._made()
        return self._writer(value)

    def _made(self) -> Write:
        from ottla.streams.columns import writing

        if not self._subject:
            raise ValueError("it only reads: name subject= (and schema=) to write")
        if self._schema:
            schema = WriterSchema(self._kind, self._schema)
            write = writing(schema, self._message)  # refuses a schema before it is registered
            schema_id = _asked(lambda: self._schemas.register(self._subject, schema))
        else:
            found = _asked(lambda: self._schemas.latest(self._subject))
            schema_id, write = found.schema_id, writing(self._of_kind(found.schema), self._message)
        prefix = b"\0" + int(schema_id).to_bytes(4, "big")
        return lambda value: prefix + write(value)

    def _of_kind(self, schema: WriterSchema) -> WriterSchema:
        if schema.kind != self._kind:
            raise ValueError(f"its schema is of the kind {schema.kind}")
        return schema


def _schema_name(data: bytes) -> int | str | None:
    if len(data) >= 5 and data[0] == 0:
        return int.from_bytes(data[1:5], "big")
    return str(UUID(bytes=data[1:17])) if len(data) >= 17 and data[0] == 1 else None


def _asked(ask: Callable[[], Any]) -> Any:
    """The registry's answer. A registry that does not answer ends the run: no record is at fault."""
    try:
        return ask()
    except RegistryUnavailable as fault:
        raise ProcessingError(str(fault)) from fault
    except UnknownSchema as fault:
        raise ValueError(str(fault)) from fault
