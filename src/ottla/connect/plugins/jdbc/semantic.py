"""Debezium's named types as the sink's values and columns: times of several grains, decimals of any scale, JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import types as sql

_EPOCH: Final = datetime(1970, 1, 1)  # a timestamp without a zone, as the column has it
_EPOCH_DAY: Final = date(1970, 1, 1)


def _timestamp(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _time(micros: int) -> time | timedelta | str:
    if not 0 <= micros <= 86_400_000_000:  # MariaDB has times of 838 hours, and below zero
        return timedelta(microseconds=micros)
    return "24:00:00" if micros == 86_400_000_000 else _timestamp(micros).time()


def _zoned(text: str) -> datetime | str:
    """A time with a zone; one that Python's calendar does not have stays text, which PostgreSQL reads."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return text


def _variable(value: Any) -> Decimal:
    return Decimal(int.from_bytes(value.get("value"), "big", signed=True)).scaleb(-value.get("scale"))


Read = Callable[[Any], Any]
_NAMED: Final[dict[str, tuple[Any, Read]]] = {
    "time.Date": (sql.Date, lambda days: _EPOCH_DAY + timedelta(days=days)),
    "time.Time": (sql.Time, lambda ms: _time(ms * 1000)),
    "time.MicroTime": (sql.Time, _time),
    "time.NanoTime": (sql.Time, lambda nanos: _time(nanos // 1000)),
    "time.Timestamp": (sql.DateTime, lambda ms: _timestamp(ms * 1000)),
    "time.MicroTimestamp": (sql.DateTime, _timestamp),
    "time.NanoTimestamp": (sql.DateTime, lambda nanos: _timestamp(nanos // 1000)),
    "time.ZonedTimestamp": (sql.DateTime(timezone=True), _zoned),
    "time.MicroDuration": (sql.Interval, lambda micros: timedelta(microseconds=micros)),
    "data.VariableScaleDecimal": (sql.Numeric, _variable),
    "data.Json": (sql.JSON, json.loads),
    "data.Uuid": (sql.Uuid, uuid.UUID),
}
NAMED: Final = {f"io.debezium.{name}": each for name, each in _NAMED.items()}
"""The type of a new column, and what turns a value into Python's, by the name of a schema."""
