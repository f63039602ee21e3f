"""A record as an action of the bulk API, a schema as a mapping, and the meaning of the answer. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from ottla.connect.data import DATE, DAY_MS, DECIMAL, TIME, TIMESTAMP, Float32, Instant, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.java.text import float_text
from ottla.connect.records import SinkRecord

_TYPES: Final = {
    Type.INT8: "byte", Type.INT16: "short", Type.INT32: "integer", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.BYTES: "binary",
}  # fmt: skip
_LOGICAL: Final = {DATE: "date", TIMESTAMP: "date", TIME: "keyword", DECIMAL: "double"}
_TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
_REFUSED: Final = (400, 413)
"""Answers about a document. Others are about the index or the cluster, and may pass: a full disk, a lost index."""
_CONFLICT: Final = 409
_MOST_LETTERS: Final = 255


@dataclass(frozen=True, slots=True)
class Action:
    """One record's lines in a bulk request."""

    record: SinkRecord
    index: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Writing:
    """The options by which records become actions."""

    key_ignore: bool = False
    topics_without_key: frozenset[str] = frozenset()
    """Topics whose keys are ignored."""
    upsert: bool = False
    null_values: str = "fail"
    """`ignore`, `delete` or `fail`."""
    compact_maps: bool = True
    version_header: str = ""
    conflicts: int = 5
    """The times that the server tries an update again that met another one."""
    stream: str = ""
    """The pattern of a data stream's name, with `${topic}`; empty for indexes."""
    time_fields: tuple[str, ...] = ()
    """Fields from which a data stream's `@timestamp` comes."""

    def index(self, topic: str) -> str:
        """The index or data stream of a topic."""
        if self.stream:
            return self.stream.replace("${topic}", topic).lower()
        name = topic.lower().lstrip("-_")
        if name in ("", ".", "..") or len(name) > _MOST_LETTERS:
            raise DataException(f"the topic {topic} has no name that an index could have")
        return name

    def action(self, record: SinkRecord) -> Action | None:
        """The action of a record, None for one that is left out; DataException for one that cannot be a document."""
        index, keyless = self.index(record.topic), self.key_ignore or record.topic in self.topics_without_key
        if record.value is None:
            if self.null_values == "ignore" or (self.null_values == "delete" and record.key is None):
                return None
            if self.null_values == "fail":
                raise DataException("the value is null: set behavior.on.null.values to ignore or delete")
        number = f"{record.original_topic}+{record.original_partition}+{record.offset}"
        meta: dict[str, Any] = {"_index": index, "_id": number if keyless else document_id(record)}
        versioned = not keyless and not self.stream
        if versioned and (record.value is None or not self.upsert):
            meta |= {"version": self._version(record), "version_type": "external"}
        if record.value is None:
            return Action(record, index, _lines({"delete": meta}))
        document = self._document(record)
        if self.upsert:
            meta["retry_on_conflict"] = self.conflicts
            return Action(record, index, _lines({"update": meta}, {"doc": document, "doc_as_upsert": True}))
        return Action(record, index, _lines({"create" if self.stream else "index": meta}, document))

    def _version(self, record: SinkRecord) -> int:
        if not self.version_header:
            return record.offset
        found = next((each.value for each in record.headers if each.key == self.version_header), None)
        try:
            version = int(found) if isinstance(found, str | int) else -1
        except ValueError:
            version = -1
        if version < 0:
            raise DataException(f"the header {self.version_header} holds {found!r}, which is no version")
        return version

    def _document(self, record: SinkRecord) -> Any:
        made = plain(record.value_schema, record.value, compact=self.compact_maps)
        if not isinstance(made, dict):
            raise DataException(f"a document is an object, and the value is a {type(record.value).__name__}")
        if self.stream and "@timestamp" not in made:
            times = [made[name] for name in self.time_fields if name in made]
            made["@timestamp"] = times[0] if times else record.timestamp
        return made


def document_id(record: SinkRecord) -> str:
    """The id of a document: the record's key as text."""
    key = record.key
    if key is None:
        raise DataException("the record has no key to be the document's id: set key.ignore=true")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise DataException(f"a document's id is text or a whole number, and the key is a {type(key).__name__}")
    return str(key)


def _lines(*parts: Any) -> bytes:
    try:
        return b"".join(json.dumps(part, ensure_ascii=False, allow_nan=False).encode() + b"\n" for part in parts)
    except ValueError as fault:  # NaN, infinity, half of a surrogate pair
        raise DataException(f"the value has no form in JSON: {fault}") from None


def plain(schema: Schema | None, value: Any, *, compact: bool) -> Any:
    """A value as JSON has it. Dates and times of day are text, decimals become doubles."""
    match value:
        case Instant():
            return _time(schema, value)
        case Decimal():
            return float(value)
        case Float32() | float():
            single = isinstance(value, Float32) or (schema is not None and schema.type is Type.FLOAT32)
            return float(float_text(value, single=True)) if single and value - value == 0 else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Struct():
            pairs = zip(value.schema.members, value.filled(), strict=True)
            return {member.name: plain(member.schema, item, compact=compact) for member, item in pairs}
        case list():
            of = schema.value if schema is not None else None
            return [plain(of, item, compact=compact) for item in value]
        case dict():
            return _map(schema, value, compact=compact)
    return value


def _time(schema: Schema | None, value: Instant) -> Any:
    name = schema.name if schema is not None else TIMESTAMP
    try:
        if name == DATE:
            return (date(1970, 1, 1) + timedelta(days=value.ms // DAY_MS)).isoformat()
    except OverflowError:
        raise DataException(f"the date {value.ms} ms is beyond the years 1 to 9999") from None
    if name == TIME:
        return datetime.fromtimestamp(value.ms % DAY_MS / 1000, UTC).time().isoformat("milliseconds")
    return value.ms


def _map(schema: Schema | None, value: Mapping[Any, Any], *, compact: bool) -> Any:
    keys, of = (schema.key, schema.value) if schema is not None else (None, None)
    if (compact or schema is None) and all(isinstance(key, str) for key in value):
        return {key: plain(of, item, compact=compact) for key, item in value.items()}
    return [
        {"key": plain(keys, key, compact=compact), "value": plain(of, item, compact=compact)}
        for key, item in value.items()
    ]


def mapping(schema: Schema, *, compact: bool) -> dict[str, Any]:
    """The mapping of a schema."""
    if schema.name in _LOGICAL:
        return {"type": _LOGICAL[schema.name]}
    match schema.type:
        case Type.STRUCT:
            return {"properties": {each.name: mapping(each.schema, compact=compact) for each in schema.members}}
        case Type.ARRAY if schema.value is not None:
            return mapping(schema.value, compact=compact)
        case Type.MAP if not (compact and schema.key is not None and schema.key.type is Type.STRING):
            parts = {"key": schema.key, "value": schema.value}
            return {"properties": {name: mapping(of, compact=compact) for name, of in parts.items() if of is not None}}
        case Type.MAP | Type.ARRAY:
            return {"type": "object"} if schema.type is Type.MAP else {}
        case Type.STRING:
            return dict(_TEXT)
    return {"type": _TYPES[schema.type]}


class Outcome(Enum):
    """The fate of one action."""

    TAKEN = "taken"
    NEWER = "the document is there in this version or a newer one"
    LATER = "it may be taken later"
    REFUSED = "it will never be taken"


def outcomes(content: bytes, actions: Sequence[Action]) -> list[tuple[Outcome, str]]:
    """The outcome of each action, with the server's reason; ValueError for content that is no answer to them."""
    items = json.loads(content)["items"]
    if len(items) != len(actions):
        raise ValueError(f"{len(actions)} actions have {len(items)} answers")
    return [_outcome(next(iter(item.values()))) for item in items]


def _outcome(item: Mapping[str, Any]) -> tuple[Outcome, str]:
    error, status = item.get("error"), item["status"]
    if not error:
        return Outcome.TAKEN, ""
    reason = f"{error.get('type')}: {error.get('reason')}" if isinstance(error, dict) else str(error)
    cause = error.get("caused_by") if isinstance(error, dict) else None
    reason += f" ({cause['reason']})" if isinstance(cause, dict) and cause.get("reason") else ""
    if status == _CONFLICT:
        return Outcome.NEWER, reason
    return (Outcome.REFUSED if status in _REFUSED else Outcome.LATER), reason
