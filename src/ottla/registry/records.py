"""Keys and values of the registry's topic, byte for byte as Confluent's registry writes them.

Compaction compares keys by their bytes, so the order of the JSON keys is part of the format: another registry that
takes over must overwrite our records, and we its.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.jobs.json_records import compact_json, json_object
from ottla.registry.identity import fingerprint

Json = Any
"""A parsed JSON document."""

MOST = 2**31 - 1
"""The greatest id and version: the wire format of values has four bytes for an id, and Java reads them signed."""
_MD5_BYTES = 16
CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT = "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT"
_SUBJECT_KINDS = frozenset({CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT})


@dataclass(frozen=True, slots=True)
class SchemaKey:
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """Configuration, mode or deletion of a subject; `subject` None: of the whole registry."""

    kind: str
    subject: str | None


@dataclass(frozen=True, slots=True)
class ContextKey:
    context: str
    tenant: str = "default"


@dataclass(frozen=True, slots=True)
class NoopKey:
    """A record without meaning to other registries. Ours keeps the greatest ids in its value."""


@dataclass(frozen=True, slots=True)
class OtherKey:
    """A key that this registry does not know; its record is left alone."""

    content: bytes


Key = SchemaKey | SubjectKey | ContextKey | NoopKey | OtherKey


@dataclass(frozen=True, slots=True)
class Reference:
    """Another subject's version that a schema uses, and the name by which the schema uses it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """One version of one subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json = None
    rule_set: Json = None
    deleted: bool = False
    md5: bytes = field(default=b"", compare=False)

    @property
    def guid_bytes(self) -> bytes:
        """Identifies the content, whatever its subject and id: MD5 as Confluent's registry makes it."""
        return self.md5 or fingerprint(self.schema, self.references, self.metadata, self.rule_set)


@dataclass(frozen=True, slots=True)
class SubjectConfig:
    """A value of CONFIG: compatibilityLevel, normalize, alias and others by Confluent's names."""

    values: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ModeValue:
    mode: str


@dataclass(frozen=True, slots=True)
class DeletedThrough:
    """A value of DELETE_SUBJECT: all versions up to this one are soft-deleted."""

    version: int


@dataclass(frozen=True, slots=True)
class ClearedSubject:
    """A value of CLEAR_SUBJECT: soft-deleted versions before it are gone, so that their ids may be imported again."""


@dataclass(frozen=True, slots=True)
class ContextValue:
    """A value of CONTEXT: the context of the key has subjects."""


@dataclass(frozen=True, slots=True)
class GreatestIds:
    """A value of NOOP: the greatest id that each context ever gave out, which lasts when its record is gone."""

    ids: Mapping[str, int]


Value = SchemaValue | SubjectConfig | ModeValue | DeletedThrough | ClearedSubject | ContextValue | GreatestIds | None
Record = tuple[Key, Value]


class UnreadableRegistryRecord(ValueError):
    """A record in the topic that is not a registry's."""


def encode_key(key: Key) -> bytes:
    if isinstance(key, OtherKey):
        return key.content
    if isinstance(key, SchemaKey):
        return _dump({"keytype": "SCHEMA", "subject": key.subject, "version": key.version, "magic": 1})
    if isinstance(key, ContextKey):
        return _dump({"keytype": "CONTEXT", "tenant": key.tenant, "context": key.context, "magic": 0})
    if isinstance(key, NoopKey):
        return _dump({"keytype": "NOOP", "magic": 0})
    subject = {} if key.subject is None else {"subject": key.subject}
    return _dump({"keytype": key.kind, **subject, "magic": 0})


def decode_key(content: bytes) -> Key:
    raw = _load(content)
    kind = raw.get("keytype")
    subject, version = raw.get("subject"), raw.get("version")
    if kind == "SCHEMA" and isinstance(subject, str) and isinstance(version, int) and abs(version) <= MOST:
        return SchemaKey(subject, version)
    if kind in _SUBJECT_KINDS and (subject is None or isinstance(subject, str)):
        return SubjectKey(kind, subject or None)
    if kind == "CONTEXT" and isinstance(raw.get("context"), str):
        return ContextKey(raw["context"], raw.get("tenant") or "default")
    return NoopKey() if kind == "NOOP" else OtherKey(content)


def encode_value(key: Key, value: Value) -> bytes | None:
    """The bytes of a value; None, a tombstone, for None."""
    if value is None:
        return None
    if isinstance(key, ContextKey):
        return _dump({"tenant": key.tenant, "context": key.context})
    if isinstance(value, SchemaValue):
        return _dump(_schema_fields(value))
    if isinstance(value, GreatestIds):
        return _dump({"greatestIds": dict(value.ids)})
    assert isinstance(key, SubjectKey)
    subject = {} if key.subject is None else {"subject": key.subject}
    if isinstance(value, SubjectConfig):
        return _dump({**subject, **value.values})
    if isinstance(value, ModeValue):
        return _dump({**subject, "mode": value.mode})
    if isinstance(value, ClearedSubject):
        return _dump(subject)
    assert isinstance(value, DeletedThrough)
    return _dump({**subject, "version": value.version})


def _schema_fields(value: SchemaValue) -> dict[str, Json]:
    made: dict[str, Json] = {"subject": value.subject, "version": value.version, "id": value.id}
    made["md5"] = base64.b64encode(value.guid_bytes).decode()
    if value.schema_type != "AVRO":
        made["schemaType"] = value.schema_type
    if value.references:
        made["references"] = [reference_fields(each) for each in value.references]
    if value.metadata is not None:
        made["metadata"] = value.metadata
    if value.rule_set is not None:
        made["ruleSet"] = value.rule_set
    return made | {"schema": value.schema, "deleted": value.deleted}


def reference_fields(reference: Reference) -> dict[str, Json]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def decode_value(key: Key, content: bytes | None) -> Value:
    """A value for its key; UnreadableRegistryRecord where it is none."""
    if content is None or isinstance(key, OtherKey):
        return None
    if isinstance(key, ContextKey):
        return ContextValue()
    raw = _load(content)
    try:
        if isinstance(key, SchemaKey):
            return _decode_schema(key, raw)
        if isinstance(key, NoopKey):
            return GreatestIds({str(name): _int32(number) for name, number in raw.get("greatestIds", {}).items()})
        if key.kind == CONFIG:
            return SubjectConfig({name: each for name, each in raw.items() if name != "subject" and each is not None})
        if key.kind == MODE:
            return ModeValue(str(raw["mode"]))
        return DeletedThrough(int(raw["version"])) if key.kind == DELETE_SUBJECT else ClearedSubject()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise UnreadableRegistryRecord(f"{content[:200]!r}: {fault}") from fault


def _decode_schema(key: SchemaKey, raw: dict[str, Json]) -> SchemaValue:
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in raw.get("references") or ()
    )
    schema, metadata, rule_set = str(raw["schema"]), raw.get("metadata"), raw.get("ruleSet")
    if not isinstance(metadata, dict | None) or not isinstance(rule_set, dict | None):
        raise TypeError("metadata and rule sets are objects")
    known = base64.b64decode(raw["md5"]) if raw.get("md5") else b""
    return SchemaValue(
        key.subject,
        key.version,
        _int32(raw["id"]),
        schema,
        str(raw.get("schemaType") or "AVRO"),
        references,
        metadata,
        rule_set,
        bool(raw.get("deleted", False)),
        known if len(known) == _MD5_BYTES else fingerprint(schema, references, metadata, rule_set),
    )


def _int32(number: Json) -> int:
    """A number that Java's int holds, as other registries and all serializers have it."""
    found = int(number)
    if not -MOST - 1 <= found <= MOST:
        raise ValueError(f"{found} is out of range")
    return found


def _dump(content: Json) -> bytes:
    return compact_json(content, "surrogatepass")


def _load(content: bytes) -> dict[str, Json]:
    try:
        return json_object(content)
    except ValueError as fault:
        raise UnreadableRegistryRecord(f"{content[:200]!r} is {fault}") from fault
