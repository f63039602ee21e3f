"""The folder of a record: by its partition, by fields of its value, or by its time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from ottla.connect.data import DAY_MS, TIMESTAMP, Instant, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.records import SinkRecord
from ottla.sinks.files.joda import time_pattern

HOUR_MS: Final = 3_600_000
TimeOf = Callable[[SinkRecord, int], int]
"""The time of a record in milliseconds; its second argument is the present time."""
FolderOf = Callable[[SinkRecord, int], str]
"""The folder of a record below that of its topic; its second argument is the record's time."""
_EPOCH: Final = datetime(1970, 1, 1)
_WHOLE: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def time_of(extractor: str, field: str) -> TimeOf:
    """Reads the time of records: `Wallclock`, `Record`, or `RecordField`."""
    if extractor == "Wallclock":
        return lambda record, now_ms: now_ms
    if extractor == "Record":
        return _own_time
    return lambda record, now_ms: _time_in(record, field)


def _own_time(record: SinkRecord, now_ms: int) -> int:
    if record.timestamp is None:
        raise DataException("the record has no timestamp: set timestamp.extractor=Wallclock or RecordField")
    return record.timestamp


def _time_in(record: SinkRecord, path: str) -> int:
    value, schema = record.value, record.value_schema
    for name in path.split("."):
        if isinstance(value, Struct):
            member = value.schema.field(name)
            if member is None:
                raise DataException(f"the value has no field {path}: set timestamp.field")
            value, schema = value.get(name), member.schema
        elif isinstance(value, Mapping) and name in value:
            value, schema = value[name], schema.value if schema is not None else None
        else:
            raise DataException(f"the value has no field {path}: set timestamp.field")
    match value:
        case Instant() if schema is None or schema.name == TIMESTAMP:
            return value.ms
        case int() if not isinstance(value, bool) and (schema is None or schema.type in (Type.INT32, Type.INT64)):
            return value
        case str():
            return _parsed(value, path)
    raise DataException(f"the field {path} holds no time: give a timestamp, milliseconds since 1970, or ISO 8601")


def _parsed(text: str, path: str) -> int:
    """ISO 8601; a time without a zone is taken for UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise DataException(f"the field {path} holds {text!r}, which is no time of ISO 8601") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def by_partition(record: SinkRecord, time_ms: int) -> str:
    """`partition=0`."""
    return f"partition={record.original_partition}"


def by_fields(names: list[str], delimiter: str) -> FolderOf:
    """`country=AT/shop=7`."""
    return lambda record, time_ms: delimiter.join(f"{name}={_text_of(record, name)}" for name in names)


def _text_of(record: SinkRecord, name: str) -> str:
    value, kind = record.value, None
    if isinstance(value, Struct):
        member = value.schema.field(name)
        if member is None:
            raise DataException(f"the value has no field {name}, by which partition.field.name divides")
        value, kind = value.get(name), member.schema.type
    elif isinstance(value, Mapping) and name in value:
        value = value[name]
    else:
        raise DataException(f"the value has no field {name}, by which partition.field.name divides")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) or (isinstance(value, int) and kind in (None, *_WHOLE)):
        return _safe(str(value), name)
    if value is None and kind is Type.STRING:
        return "null"  # as in Confluent's
    raise DataException(f"the field {name} holds a {type(value).__name__}: divide by text, whole numbers or booleans")


def _safe(text: str, name: str) -> str:
    """A value that leads to no other folder than one below the topic's."""
    if not text.isprintable() or any(part in ("", ".", "..") for part in text.split("/")[1:]):
        raise DataException(f"the field {name} holds {text[:80]!r}, which cannot be part of a file's name")
    return text


def by_time(pattern: str, duration_ms: int, zone: ZoneInfo) -> FolderOf:
    """`year=2026/month=11/day=28`: the beginning of the span of time that the record is in, by a pattern."""
    show = time_pattern(pattern)

    def folder(record: SinkRecord, time_ms: int) -> str:
        try:
            return show(span_start(time_ms, duration_ms, zone))
        except (OverflowError, ValueError, OSError):
            raise DataException(f"the record's time {time_ms} ms is beyond the years 1 to 9999") from None

    return folder


def span_start(time_ms: int, duration_ms: int, zone: ZoneInfo) -> datetime:
    """The local time at which the span begins. Spans count from local midnight, so a day is the zone's day."""
    local = (_EPOCH + timedelta(milliseconds=time_ms)).replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    local_ms = (local - _EPOCH) // timedelta(milliseconds=1)
    start = _EPOCH + timedelta(milliseconds=_toward_zero(local_ms, duration_ms))
    return start.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)  # a start that clocks skip moves on


def _toward_zero(number: int, unit: int) -> int:
    """A multiple of the unit, rounded as Java divides."""
    return number // unit * unit if number >= 0 else -(-number // unit * unit)


def next_rotation_ms(now_ms: int, interval_ms: int, zone: ZoneInfo) -> int:
    """The next time of a schedule that begins anew at each midnight of the zone."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    start = round(midnight.timestamp() * 1000)
    tomorrow = (midnight.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=zone)
    return min(start + ((now_ms - start) // interval_ms + 1) * interval_ms, round(tomorrow.timestamp() * 1000))


DAILY: Final = ("'year'=YYYY{0}'month'=MM{0}'day'=dd", DAY_MS)
HOURLY: Final = ("'year'=YYYY{0}'month'=MM{0}'day'=dd{0}'hour'=HH", HOUR_MS)
