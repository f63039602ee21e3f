"""Cast: fields, or whole values, as another primitive type, with Java's rules for numbers and text."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import BITS, DATE, DAY_MS, TIME, TIMESTAMP, Instant, Schema, Struct, inferred, java_class
from ottla.connect.data import Type as Kind
from ottla.connect.data import struct as struct_of
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.java.text import (
    float32,
    float_text,
    instant_text,
    narrowed,
    parse_float,
    parse_int,
    text,
    whole,
    wrapped,
)
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms.sides import REPLACE_NULL, Plans, Sided, basics, require_map, require_struct

_TO: Final = (*BITS, Kind.FLOAT32, Kind.FLOAT64, Kind.BOOLEAN, Kind.STRING)
_FROM: Final = (*_TO, Kind.BYTES)
Caster = Callable[[Any], Any]


def casts_of(spec: list[str]) -> dict[str | None, Kind]:
    """The types by field; None stands for the whole value."""
    found: dict[str | None, Kind] = {}
    for mapping in spec:
        parts = mapping.rstrip(":").split(":")
        if len(parts) > 2:
            raise ConfigException.of("renames", spec, f"Invalid rename mapping: {mapping}")
        name = parts[-1].strip()
        kind = Kind.__members__.get(name.upper())
        if kind is None:
            enum = f"No enum constant org.apache.kafka.connect.data.Schema.Type.{name.upper()}"
            raise ConfigException.of(
                f"Invalid type found in casting spec: {name}", f"java.lang.IllegalArgumentException: {enum}"
            )
        if kind not in _TO:
            raise ConfigException(_unsupported("to", kind, _TO))
        found[parts[0].strip() if len(parts) == 2 else None] = kind
    if None in found and len(spec) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return found


def _unsupported(way: str, kind: Kind, supported: tuple[Kind, ...]) -> str:
    known = ", ".join(each.name for each in supported)
    return f"Cast transformation does not support casting {way} {kind.name}; supported types are [{known}]"


def _check(_: str, spec: list[str] | None) -> None:
    if not spec:
        raise ConfigException("Must specify at least one field to cast.")
    casts_of(spec)


class Cast(Sided):
    """Casts the fields that are named, or the whole value."""

    OPTIONS = ConfigDef(
        Option("spec", Type.LIST, importance=Importance.HIGH, check=_check,
               doc="Pairs of field:type, or one type for the whole value: int8, int16, int32, int64, float32, float64, "
                   "boolean, string. Bytes can be cast to string alone, in base64."),
        REPLACE_NULL,
    )  # fmt: skip
    PURPOSE = "cast types"

    def configure(self, options: dict[str, Any]) -> None:
        """Read the types."""
        casts = casts_of(options["spec"])
        self._whole = casts.pop(None, None)
        self._casts: dict[str, Kind] = {name: kind for name, kind in casts.items() if name is not None}
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The map with its fields cast; a field that is not there is null then."""
        if self._whole is not None:
            return self.side.put(record, None, cast(None, value, self._whole))
        made = dict(require_map(value, self.PURPOSE))
        for name, kind in self._casts.items():
            made[name] = cast(None, made.get(name), kind)
        return self.side.put(record, None, made)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The struct with its fields cast."""
        updated, casters = self._plans.of(schema)
        if self._whole is not None:
            return self.side.put(record, updated, cast(schema, value, self._whole))
        of = require_struct(value, schema, self.PURPOSE)
        values = of.filled() if self._fill else of.values.copy()
        for index, caster in casters:
            if values[index] is not None:
                values[index] = caster(values[index])
        return self.side.put(record, updated, Struct(updated, values))

    def _plan(self, schema: Schema) -> tuple[Schema, list[tuple[int, Caster]]]:
        kept = {**basics(schema), "optional": schema.optional}
        if self._whole is not None:
            default = cast(schema, schema.default, self._whole)
            return Schema(self._whole, default=default, **kept), []
        fields, casters = [], []
        for member in schema.fields:
            kind = self._casts.get(member.name)
            if kind is None:
                fields.append((member.name, member.schema))
                continue
            caster = _caster(member.schema, kind)
            default = None if member.schema.default is None else caster(member.schema.default)
            fields.append((member.name, Schema(kind, optional=member.schema.optional, default=default)))
            casters.append((member.index, caster))
        return struct_of(fields, **kept), casters


def _caster(schema: Schema, kind: Kind) -> Caster:
    return lambda value: cast(schema, value, kind)


def cast(schema: Schema | None, value: Any, kind: Kind) -> Any:
    """One value as another type, or `DataException`."""
    if value is None:
        return None
    of = inferred(value) if schema is None else schema.type
    if of is None:
        raise DataException(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not supported by "
            "Connect's data API"
        )
    if of not in _FROM:
        raise DataException(_unsupported("from", of, _FROM))
    if kind is Kind.STRING:
        return _string(schema, value)
    if isinstance(value, Instant):
        value = _plain(schema, value)
    try:
        return _number(value, kind)
    except ValueError:
        raise DataException(f"Value ({text(value, schema)}) was out of range for requested data type") from None


def _plain(schema: Schema | None, value: Instant) -> int:
    """A date in days, a time or a timestamp in milliseconds."""
    if schema is None or schema.name not in (DATE, TIME, TIMESTAMP):
        raise DataException(f"Unexpected type in Cast transformation: class {java_class(value)}")
    return value.ms // DAY_MS if schema.name == DATE else value.ms


def _string(schema: Schema | None, value: Any) -> str:
    match value:
        case Instant():
            return instant_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case float() if schema is not None:
            return float_text(value, single=schema.type is Kind.FLOAT32)
    return text(value)


def _number(value: Any, kind: Kind) -> Any:
    """A number or a boolean; ValueError for text that is none."""
    match value:
        case bool() | int() | float() | Decimal():
            return _from_number(value, kind)
        case str() if kind is Kind.BOOLEAN:
            return value.lower() == "true"
        case str() if kind in BITS:
            return parse_int(value, BITS[kind])
        case str():
            return float32(parse_float(value)) if kind is Kind.FLOAT32 else parse_float(value)
    raise DataException(f"Unexpected type in Cast transformation: class {java_class(value)}")


def _from_number(value: float | Decimal, kind: Kind) -> Any:
    if kind in BITS:
        if isinstance(value, float):
            return narrowed(value, BITS[kind])
        return whole(value, BITS[kind]) if isinstance(value, Decimal) else wrapped(int(value), BITS[kind])
    if kind is Kind.BOOLEAN:
        if isinstance(value, float):
            return not math.isnan(value) and narrowed(value, 64) != 0
        return (whole(value, 64) if isinstance(value, Decimal) else value) != 0
    return float32(float(value)) if kind is Kind.FLOAT32 else float(value)
