"""TimestampConverter: a time as text, a Unix time, a date, a time of day or a timestamp."""

from __future__ import annotations

from typing import Any, Final

from ottla.connect.checks import one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import (
    DATE,
    DATE_SCHEMA,
    DAY_MS,
    INT64,
    STRING,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Instant,
    Schema,
    Struct,
    java_class,
    struct,
)
from ottla.connect.data import Type as Kind
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.java.dates import DatePattern
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms.sides import REPLACE_NULL, Copying, Plans, Sided, basics, require_map, require_struct

_SCHEMAS: Final = {
    "string": STRING, "unix": INT64, "Date": DATE_SCHEMA, "Time": TIME_SCHEMA, "Timestamp": TIMESTAMP_SCHEMA,
}  # fmt: skip
_LOGICAL: Final = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}
_PLAIN: Final = {Kind.STRING: "string", Kind.INT64: "unix"}
_PER_MS: Final = {
    "nanoseconds": (1_000_000, 1),
    "microseconds": (1000, 1),
    "milliseconds": (1, 1),
    "seconds": (1, 1000),
}
"""Units in so many milliseconds."""
_LONG: Final = (1 << 63) - 1


class TimestampConverter(Sided):
    """Converts one field, or the whole value."""

    OPTIONS = ConfigDef(
        Option("field", Type.STRING, "", Importance.HIGH, "The field; nothing: the whole value."),
        Option("target.type", Type.STRING, importance=Importance.HIGH,
               check=one_of("string", "unix", "Date", "Time", "Timestamp"), doc="The form that the time gets."),
        Option("format", Type.STRING, "", doc="A pattern of Java's SimpleDateFormat, in UTC, for times as text."),
        Option("unix.precision", Type.STRING, "milliseconds", Importance.LOW,
               "The unit of Unix times, read or written. Parts below a millisecond are lost.",
               one_of("nanoseconds", "microseconds", "milliseconds", "seconds")),
        REPLACE_NULL,
    )  # fmt: skip
    PASSES_NULL = False
    PURPOSE = "converting timestamp formats"

    def configure(self, options: dict[str, Any]) -> None:
        """Read the pattern."""
        self._field, self._target = options["field"], options["target.type"]
        self._units, self._ms = _PER_MS[options["unix.precision"]]
        self._fill = options["replace.null.with.default"]
        pattern = options["format"]
        self._pattern: DatePattern | None = None
        if pattern.strip():
            try:
                self._pattern = DatePattern(pattern)
            except ValueError as fault:
                raise ConfigException.of(
                    "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
                    + pattern, f"java.lang.IllegalArgumentException: {fault}",
                ) from None  # fmt: skip
        elif self._target == "string":
            raise ConfigException(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        self._plans = Plans(self._plan)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The converted value, or the map with its field converted."""
        if value is None or not self._field:
            return self.side.put(record, None, self._converted(value, None))
        made = dict(require_map(value, self.PURPOSE))
        made[self._field] = self._converted(made.get(self._field), None)
        return self.side.put(record, None, made)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The converted value, or the struct with its field converted."""
        if not self._field:
            updated = _SCHEMAS[self._target].but(optional=schema.optional)
            return self.side.put(record, updated, self._converted(value, form_of(schema)))
        if value is not None:
            require_struct(value, schema, self.PURPOSE)
        updated, copying = self._plans.of(schema)
        if value is None:
            return self.side.put(record, updated, None)
        return self.side.put(record, updated, self._struct(value, updated, copying))

    def _struct(self, value: Struct, updated: Schema, copying: Copying) -> Struct:
        values = copying.values(value)
        member = value.schema.places.get(self._field)
        if member is not None:
            values[member.index] = self._converted(values[member.index], form_of(member.schema))
        return Struct(updated, values)

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        target = _SCHEMAS[self._target]
        fields = [
            (each.name, target.but(optional=each.schema.optional) if each.name == self._field else each.schema)
            for each in schema.fields
        ]
        updated = struct(fields, optional=schema.optional, **basics(schema))
        same = tuple(zip(schema.members, updated.members, strict=True))
        copying = Copying(schema, same, fill=self._fill)
        if schema.default is not None:
            updated = updated.but(default=self._struct(schema.default, updated, copying))
        return updated, copying

    def _converted(self, value: Any, form: str | None) -> Any:
        """A time in the target's form; `form` is that of the value, None where its class must say."""
        if value is None:
            return None
        ms = self._read(value, form or _form_of(value))
        match self._target:
            case "string":
                assert self._pattern is not None, "text needs a pattern"
                return self._pattern.format(ms)
            case "unix":
                return max(-_LONG - 1, min(_LONG, _toward_zero(ms * self._units, self._ms)))
            case "Date":
                return Instant(ms - ms % DAY_MS)
            case "Time":
                return Instant(ms % DAY_MS)
        return Instant(ms)

    def _read(self, value: Any, form: str) -> int:
        """A time in milliseconds since 1970."""
        match form, value:
            case "string", str():
                if self._pattern is None:
                    raise DataException("TimestampConverter needs the option 'format' to read times that are text")
                try:
                    return self._pattern.parse(value)
                except ValueError:
                    raise DataException(
                        f"Could not parse timestamp: value ({value}) does not match pattern ({self._pattern.pattern})"
                    ) from None
            case "unix", int():
                return max(-_LONG - 1, min(_LONG, _toward_zero(value * self._ms, self._units)))
            case (("Date" | "Time" | "Timestamp"), Instant()):
                return value.ms
        noun = {"string": "string timestamp to be a String", "unix": "Unix timestamp to be a Long"}
        expected = noun.get(form, f"{form} to be a java.util.Date")
        raise DataException(f"Expected {expected}, but found class {java_class(value)}")


def form_of(schema: Schema) -> str:
    """The form of times that have this schema."""
    form = _LOGICAL.get(schema.name or "") or _PLAIN.get(schema.type)
    if form is None:
        raise ConnectException(f"Schema {schema} does not correspond to a known timestamp type format")
    return form


def _form_of(value: Any) -> str:
    """The form of a time without a schema."""
    match value:
        case Instant():
            return "Timestamp"
        case str():
            return "string"
        case int() if not isinstance(value, bool):
            return "unix"
    raise DataException(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")


def _toward_zero(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)
