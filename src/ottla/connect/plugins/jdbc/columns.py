"""Types of columns as schemas of Connect and back, with what turns a value of one into a value of the other."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import type_coerce
from sqlalchemy import types as sql
from sqlalchemy.dialects import mysql, postgresql

from ottla.connect import data
from ottla.connect.data import Instant, Schema, Type
from ottla.connect.errors import ConnectException, DataException
from ottla.connect.plugins.jdbc.database import MYSQL
from ottla.connect.plugins.jdbc.semantic import NAMED

Convert = Callable[[Any], Any]
log = logging.getLogger("ottla.connect")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_GRAINS: Final = {"micros_long": 1, "nanos_long": 1000}
_UTC: Final = ZoneInfo("UTC")


def micros_of(value: datetime, db_zone: ZoneInfo) -> int:
    """Microseconds since 1970 in UTC; a time without a zone stands in the database's."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=db_zone)
    return (aware - _EPOCH) // _MICROSECOND


def datetime_of(micros: int, db_zone: ZoneInfo, *, aware: bool) -> datetime:
    """The time as a column with or without a zone holds it."""
    found = _EPOCH + timedelta(microseconds=micros)
    return found if aware else found.astimezone(db_zone).replace(tzinfo=None)


def zone_of(kind: Any, db_zone: ZoneInfo) -> ZoneInfo:
    """The zone in which a column's times stand: MariaDB's TIMESTAMP is a moment, told in the session's zone, UTC."""
    return _UTC if isinstance(kind, mysql.TIMESTAMP) else db_zone


def as_driven(column: Any) -> Any:
    """A column to select, with values as the driver has them where SQLAlchemy's own lose something.

    It cuts MariaDB's times to one day, forgets the order of a SET, and makes a number of bits.
    """
    if isinstance(column.type, mysql.TIME | mysql.SET | mysql.BIT):
        return type_coerce(column, sql.NullType()).label(column.name)
    return column


def _dated(name: str, value: Any) -> Any:
    """A date as the driver has it: text is one that no calendar has, such as 0000-00-00 in MariaDB."""
    if isinstance(value, str):
        raise ConnectException(
            f"the column {name} has the date {value}, which Connect cannot hold: read it by a query with "
            f"NULLIF({name}, 0), or mend the row"
        )
    return value


def _time_ms(name: str, value: time | timedelta) -> Instant:
    if isinstance(value, timedelta):  # MariaDB
        if not timedelta() <= value < timedelta(days=1):
            raise ConnectException(
                f"the column {name} has the time {value}, but Connect's times are of one day: read it by a query with "
                f"TIME_TO_SEC({name})"
            )
        return Instant(value // timedelta(milliseconds=1))
    return Instant((value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000)


def _day(value: date) -> Instant:
    return Instant((value - date(1970, 1, 1)).days * data.DAY_MS)


def _as_is(value: Any) -> Any:
    return value


def _numeric(kind: Any, name: str, mapping: str) -> tuple[Schema, Convert]:
    scale, precision = kind.scale, kind.precision
    if mapping == "best_fit_eager_double" and (scale is None or scale > 0):
        return data.FLOAT64, float
    if scale is None:
        log.warning("the column %s is a number without a scale: it is read as text, which keeps all digits", name)
        return data.STRING, str
    if mapping != "none" and precision is not None and precision < 19:
        if scale == 0:
            whole = ((2, data.INT8), (4, data.INT16), (9, data.INT32), (18, data.INT64))
            return next(schema for digits, schema in whole if precision <= digits), int
        if mapping != "precision_only":
            return data.FLOAT64, float
    unit = Decimal(1).scaleb(-scale)
    return data.decimal(scale), lambda value: Decimal(value).quantize(unit)


def _integer(kind: Any, dialect: str) -> tuple[Schema, Convert]:
    unsigned = getattr(kind, "unsigned", False)
    if isinstance(kind, sql.BigInteger):
        return (data.decimal(0), Decimal) if unsigned else (data.INT64, _as_is)
    if dialect == "sqlite":  # whole numbers have 64 bits there, whatever they are called
        return data.INT64, _as_is
    if isinstance(kind, mysql.TINYINT):
        return data.INT16 if unsigned else data.INT8, int
    if isinstance(kind, sql.SmallInteger):
        return data.INT32 if unsigned else data.INT16, _as_is
    return data.INT64 if unsigned else data.INT32, _as_is


def read_as(
    kind: Any, name: str, dialect: str, *, numbers: str, grain: str, db_zone: ZoneInfo
) -> tuple[Schema, Convert]:
    """The schema of a column, not optional, and what turns its values into those of Connect."""
    match kind:
        case sql.Boolean():
            return data.BOOLEAN, bool
        case sql.Integer():
            return _integer(kind, dialect)
        case sql.Float():
            short = isinstance(kind, mysql.FLOAT) or (isinstance(kind, sql.REAL) and dialect == "postgresql")
            return data.FLOAT32 if short else data.FLOAT64, float
        case sql.Numeric():
            return _numeric(kind, name, numbers)
        case sql.DateTime():
            zone = zone_of(kind, db_zone)
            if grain in _GRAINS:
                factor = _GRAINS[grain]
                return data.INT64, lambda value: micros_of(_dated(name, value), zone) * factor
            return data.TIMESTAMP_SCHEMA, lambda value: Instant(micros_of(_dated(name, value), zone) // 1000)
        case sql.Date():
            return data.DATE_SCHEMA, lambda value: _day(_dated(name, value))
        case mysql.YEAR():  # the first of January, as Java's drivers have it
            return data.DATE_SCHEMA, lambda value: _day(date(value, 1, 1) if value else _dated(name, "0000"))
        case mysql.BIT() if kind.length in (None, 1):
            return data.INT8, lambda value: int.from_bytes(value, "big")
        case sql.Time():
            return data.TIME_SCHEMA, lambda value: _time_ms(name, value)
        case sql.LargeBinary() | postgresql.BYTEA() | mysql.BIT() | sql.BINARY() | sql.VARBINARY():
            return data.BYTES, bytes
        case mysql.TINYBLOB() | mysql.MEDIUMBLOB() | mysql.LONGBLOB():
            return data.BYTES, bytes
        case sql.JSON():
            return data.STRING, lambda value: json.dumps(value, ensure_ascii=False)
        case sql.ARRAY():
            inner, convert = read_as(kind.item_type, name, dialect, numbers=numbers, grain=grain, db_zone=db_zone)
            return data.array(inner.but(optional=True)), lambda value: [
                None if each is None else convert(each) for each in value
            ]
        case sql.String() | sql.Enum() | sql.Uuid() | postgresql.INET() | postgresql.CIDR() | postgresql.MACADDR():
            return data.STRING, str
    raise ConnectException(
        f"the column {name} has the type {kind}, for which Connect has none: read a view or a query that casts it"
    )


_WRITTEN: Final[dict[Type, Any]] = {
    Type.INT8: sql.SmallInteger, Type.INT16: sql.SmallInteger, Type.INT32: sql.Integer, Type.INT64: sql.BigInteger,
    Type.FLOAT32: sql.REAL, Type.FLOAT64: sql.Double, Type.BOOLEAN: sql.Boolean, Type.BYTES: sql.LargeBinary,
    Type.STRING: sql.Text,
}  # fmt: skip


def written_as(schema: Schema, name: str, dialect: str, *, is_key: bool) -> Any:
    """The type of a new column for a field."""
    match schema.name:
        case data.DECIMAL:
            scale = int((schema.parameters or {})["scale"])
            return sql.Numeric(65 if dialect in MYSQL else 1000 if dialect in ("postgresql", "sqlite") else 38, scale)
        case data.DATE:
            return sql.Date()
        case data.TIME:
            return mysql.TIME(fsp=3) if dialect in MYSQL else sql.Time()
        case data.TIMESTAMP:
            return mysql.DATETIME(fsp=3) if dialect in MYSQL else sql.DateTime()
    if schema.name in NAMED:
        kind = NAMED[schema.name][0]
        kind = kind if isinstance(kind, sql.TypeEngine) else kind()
        return _in_mysql(kind, name) if dialect in MYSQL else kind
    if is_key and dialect in MYSQL and schema.type in (Type.STRING, Type.BYTES):  # an index takes no TEXT and no BLOB
        return sql.String(256) if schema.type is Type.STRING else sql.VARBINARY(256)
    if schema.type is Type.ARRAY and schema.value is not None and dialect == "postgresql":
        return postgresql.ARRAY(written_as(schema.value, name, dialect, is_key=False))
    if schema.type not in _WRITTEN:
        raise DataException(f"the field {name} has the type {schema.type.name}: flatten it before the sink")
    return _WRITTEN[schema.type]()


def _in_mysql(kind: Any, name: str) -> Any:
    """A type with all digits: in MariaDB a time has none behind the second unless that is said."""
    match kind:
        case sql.DateTime():
            return mysql.DATETIME(fsp=6)
        case sql.Time():
            return mysql.TIME(fsp=6)
        case sql.Interval():
            raise DataException(f"the field {name} is a duration, for which MariaDB has no type: create its column")
        case sql.Numeric():
            return sql.Numeric(65, 30)
    return kind


def value_for(kind: Any, schema: Schema | None, value: Any, name: str, db_zone: ZoneInfo) -> Any:
    """A value of Connect as a column takes it; DataException where it cannot."""
    if isinstance(value, Instant):
        try:
            found = datetime_of(value.ms * 1000, zone_of(kind, db_zone), aware=bool(getattr(kind, "timezone", False)))
        except OverflowError:
            raise DataException(f"the field {name} is {value.ms} ms since 1970: no database has that time") from None
        if schema is not None and schema.name in (data.DATE, data.TIME):
            utc = datetime_of(value.ms * 1000, db_zone, aware=True)
            return utc.date() if schema.name == data.DATE else utc.time()
        return found
    if schema is not None and schema.name in NAMED and value is not None:
        try:
            return NAMED[schema.name][1](value)
        except (ValueError, OverflowError) as fault:
            raise DataException(f"the field {name} has the value {value}, which no column takes: {fault}") from None
    if isinstance(value, data.Struct | dict):
        raise DataException(f"the field {name} is a structure of its own: flatten it before the sink")
    return value
