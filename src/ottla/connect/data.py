"""Connect's data model: schemas, structs, and what fits into which. Values are plain Python where that says enough.

Integers are `int`, floats `float`, bytes `bytes`, arrays `list`, maps `dict`, decimals `decimal.Decimal`; dates, times
and timestamps are one `Instant`, as they are one class in Java. A whole number without a schema is Java's Long, a
float a Double; `Float32` marks the Float that a transformation made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from ottla.connect.errors import DataException, SchemaBuilderException

DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DAY_MS: Final = 86_400_000


class Type(Enum):
    """The type of a schema. Members have Java's names; the values are those of JsonConverter's schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    __hash__ = object.__hash__  # an enumeration's own is slow: schemas are keys of dictionaries


BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, slots=True)
class Instant:
    """A date, a time of day or a timestamp: milliseconds since 1970 in UTC, beyond what `datetime` can hold."""

    ms: int


class Float32(float):
    """A float of 32 bits in data without a schema."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A named place in a struct."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The type of a value, whether it may be missing, and what is said about it. Equal by all of its parts."""

    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    members: tuple[Field, ...] = ()
    key: Schema | None = None
    value: Schema | None = None
    places: dict[str, Field] = field(init=False, repr=False)
    defaults: tuple[tuple[int, Any], ...] = field(init=False, repr=False)
    """Members that have a default, by index."""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places: dict[str, Field] = {}
        for member in self.members:
            if member.name in places:
                raise SchemaBuilderException(f"Cannot create field because of field name duplication {member.name}")
            places[member.name] = member
        object.__setattr__(self, "places", places)
        defaults = tuple((each.index, each.schema.default) for each in self.members if each.schema.default is not None)
        object.__setattr__(self, "defaults", defaults)
        names = tuple((each.name, each.schema) for each in self.members)
        parts = (self.type, self.optional, self.name, self.version, self.doc, names, self.key, self.value)
        object.__setattr__(self, "_hash", hash(parts))
        if self.default is not None:
            try:
                validate(self if self.type is not Type.STRUCT else self.but(default=None), self.default)
            except DataException as fault:
                raise SchemaBuilderException("Invalid default value") from fault

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or self._hash != other._hash:
            return False
        return (
            (self.type, self.optional, self.name, self.version, self.doc, self.key, self.value)
            == (other.type, other.optional, other.name, other.version, other.doc, other.key, other.value)
            and self.default == other.default
            and self.parameters == other.parameters
            and self.members == other.members
        )

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.name}}}" if self.name is not None else f"Schema{{{self.type.name}}}"

    def field(self, name: str) -> Field | None:
        """The member of a struct by its name."""
        if self.type is not Type.STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        return self.places.get(name)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The members of a struct."""
        if self.type is not Type.STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        return self.members

    def but(self, **changes: Any) -> Schema:
        """A schema with other parts."""
        return replace(self, **changes)


def struct(fields: Iterable[tuple[str, Schema]], **parts: Any) -> Schema:
    """The schema of a struct with these fields in this order."""
    members = tuple(Field(name, index, schema) for index, (name, schema) in enumerate(fields))
    return Schema(Type.STRUCT, members=members, **parts)


def array(value: Schema | None, **parts: Any) -> Schema:
    """The schema of an array."""
    return Schema(Type.ARRAY, value=value, **parts)


def map_of(key: Schema | None, value: Schema | None, **parts: Any) -> Schema:
    """The schema of a map."""
    return Schema(Type.MAP, key=key, value=value, **parts)


def decimal(scale: int, **parts: Any) -> Schema:
    """The schema of decimals with so many digits behind the point."""
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale)}, **parts)


INT8, INT16, INT32, INT64 = Schema(Type.INT8), Schema(Type.INT16), Schema(Type.INT32), Schema(Type.INT64)
FLOAT32, FLOAT64 = Schema(Type.FLOAT32), Schema(Type.FLOAT64)
BOOLEAN, STRING, BYTES = Schema(Type.BOOLEAN), Schema(Type.STRING), Schema(Type.BYTES)
OPTIONAL_STRING = Schema(Type.STRING, optional=True)
DATE_SCHEMA = Schema(Type.INT32, name=DATE, version=1)
TIME_SCHEMA = Schema(Type.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA = Schema(Type.INT64, name=TIMESTAMP, version=1)


class Struct:
    """The values of a struct's fields, in the schema's order."""

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: list[Any] | None = None) -> None:
        self.schema = schema
        self.values = [None] * len(schema.fields) if values is None else values

    @classmethod
    def of(cls, schema: Schema, **values: Any) -> Struct:
        """A struct with these values; each is checked, and those that are not named are null."""
        made = cls(schema)
        for name, value in values.items():
            made.put(name, value)
        return made.validated()

    def get(self, name: str) -> Any:
        """The value of a field, or its default where it is null."""
        member = self._member(name)
        value = self.values[member.index]
        return member.schema.default if value is None else value

    def put(self, name: str, value: Any) -> None:
        """Set a field to a value that fits its schema."""
        member = self._member(name)
        validate(member.schema, value, name)
        self.values[member.index] = value

    def filled(self) -> list[Any]:
        """A copy of the values with defaults in place of nulls."""
        values = self.values.copy()
        for index, default in self.schema.defaults:
            if values[index] is None:
                values[index] = default
        return values

    def validated(self) -> Struct:
        """The struct itself, once each value is known to fit its field. Null is fine where there is a default."""
        for member, value in zip(self.schema.members, self.values, strict=True):
            if value is not None or member.schema.default is None:
                validate(member.schema, value, member.name)
        return self

    def _member(self, name: str) -> Field:
        member = self.schema.places.get(name)
        if member is None:
            raise DataException(f"{name} is not a valid field name")
        return member

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = zip(self.schema.members, self.values, strict=True)
        return f"Struct{{{','.join(f'{member.name}={value}' for member, value in pairs if value is not None)}}}"


_CLASSES: Final[dict[Type, tuple[type, ...]]] = {
    **dict.fromkeys(BITS, (int,)),
    Type.FLOAT32: (float, Float32),
    Type.FLOAT64: (float, Float32),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes,),
    Type.ARRAY: (list,),
    Type.MAP: (dict,),
    Type.STRUCT: (Struct,),
}
_LOGICAL: Final = {DATE: (Instant,), TIME: (Instant,), TIMESTAMP: (Instant,), DECIMAL: (Decimal,)}


def validate(schema: Schema, value: Any, name: str | None = None) -> None:
    """Raise `DataException` unless the value fits the schema. `name` is the field's."""
    if value is None:
        if not schema.optional:
            where = f': "{name}", schema type: {schema.type.name}' if name is not None else ""
            raise DataException(f"Invalid value: null used for required field{where}")
        return
    kind = schema.type
    if type(value) not in (_LOGICAL.get(schema.name) or _CLASSES[kind] if schema.name else _CLASSES[kind]) or (
        type(value) is int and not -(1 << BITS[kind] - 1) <= value < 1 << BITS[kind] - 1
    ):
        about = f' "{schema.name}"' if schema.name is not None else ""
        where = f' for field: "{name}"' if name is not None else ""
        raise DataException(
            f"Invalid Java object for schema{about} with type {kind.name}: class {java_class(value)}{where}"
        )
    if kind is Type.STRUCT:
        if value.schema != schema:
            raise DataException("Struct schemas do not match.")
        value.validated()
    elif kind is Type.ARRAY and schema.value is not None:
        for item in value:
            validate(schema.value, item, name)
    elif kind is Type.MAP and schema.key is not None and schema.value is not None:
        for key, item in value.items():
            validate(schema.key, key, name)
            validate(schema.value, item, name)


_JAVA_CLASSES: Final = {
    str: "java.lang.String", bool: "java.lang.Boolean", float: "java.lang.Double", Float32: "java.lang.Float",
    bytes: "[B", list: "java.util.ArrayList", dict: "java.util.HashMap", Instant: "java.util.Date",
    Decimal: "java.math.BigDecimal", Struct: "org.apache.kafka.connect.data.Struct",
}  # fmt: skip
_BOXES: Final = {
    Type.INT8: "java.lang.Byte", Type.INT16: "java.lang.Short", Type.INT32: "java.lang.Integer",
    Type.FLOAT32: "java.lang.Float",
}  # fmt: skip


def java_class(value: Any, schema: Schema | None = None) -> str:
    """The Java class that would hold a value, for messages in Kafka's words."""
    if value is None:
        return "null"
    if schema is not None and type(value) in (int, float) and schema.type in _BOXES:
        return _BOXES[schema.type]
    if type(value) is int:
        return "java.lang.Long" if -(1 << 63) <= value < 1 << 63 else "java.math.BigInteger"
    return _JAVA_CLASSES.get(type(value), type(value).__name__)


def inferred(value: Any) -> Type | None:
    """The type of a value without a schema, or None where it could be several."""
    if type(value) is int:
        return Type.INT64 if -(1 << 63) <= value < 1 << 63 else None
    return _INFERRED.get(type(value))


_INFERRED: Final[dict[type, Type]] = {
    str: Type.STRING, bool: Type.BOOLEAN, float: Type.FLOAT64, Float32: Type.FLOAT32, bytes: Type.BYTES,
    list: Type.ARRAY, dict: Type.MAP, Struct: Type.STRUCT,
}  # fmt: skip
