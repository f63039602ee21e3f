"""The .proto text of a Connect schema, with the types, parameters and imports that Confluent's converter gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import Final

from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from ottla.connect.errors import DataException

_NAMESPACE: Final = "io.confluent.connect.protobuf."
TAG, ENUM, UNION = _NAMESPACE + "Tag", _NAMESPACE + "Enum", _NAMESPACE + "Union."
"""Parameters of a field with its number and with its enumeration, and the beginning of the name of a oneof's schema."""
LOGICAL: Final = {
    DECIMAL: "confluent.type.Decimal", DATE: "google.type.Date", TIME: "google.type.TimeOfDay",
    TIMESTAMP: "google.protobuf.Timestamp",
}  # fmt: skip
_IMPORTS: Final = {
    "confluent.type.Decimal": "confluent/type/decimal.proto", "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto", "confluent.field_meta": "confluent/meta.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.protobuf.": "google/protobuf/wrappers.proto",
}  # fmt: skip
SCALARS: Final = {
    Type.INT8: "int32", Type.INT16: "int32", Type.INT32: "int32", Type.INT64: "int64", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "bool", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
WRAPPERS: Final = {
    "int32": "Int32Value", "int64": "Int64Value", "float": "FloatValue", "double": "DoubleValue", "bool": "BoolValue",
    "string": "StringValue", "bytes": "BytesValue",
}  # fmt: skip
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MOST_NESTED: Final = 60


def proto_text(schema: Schema, *, optional: bool, wrappers: bool) -> str:
    """The file whose one message a struct is; DataException for what Protobuf cannot hold.

    Values that may be missing are `optional` fields, or messages of google.protobuf where `wrappers` says so.
    """
    if schema.type is not Type.STRUCT:
        raise DataException(f"a Protobuf message is a struct, not {schema.type.name}: HoistField makes one")
    package, _, name = (schema.name or "ConnectDefault1").rpartition(".")
    body = _Message(optional=optional, wrappers=wrappers).text(schema, _name(name), "")
    imports = sorted({file for part, file in _IMPORTS.items() if _uses(body, part)})
    head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
    return "\n".join([*head, *(f'import "{file}";' for file in imports), body, ""])


def _uses(body: str, part: str) -> bool:
    return re.search(r"google\.protobuf\.\w+Value\b", body) is not None if part[-1] == "." else part in body


def _name(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise DataException(f"{name!r} is no name in Protobuf: letters, digits and _ are, and a letter comes first")
    return name


class _Message:
    """Writes messages of one file."""

    def __init__(self, *, optional: bool, wrappers: bool) -> None:
        self._optional, self._wrappers = optional, wrappers

    def text(self, schema: Schema, name: str, indent: str, depth: int = 0) -> str:
        """A message with the types defined for its fields."""
        if depth > MOST_NESTED:
            raise DataException(f"the schema nests more than {MOST_NESTED} structs")
        inner, lines = indent + "  ", []
        defined: dict[str, Schema] = {}
        number = iter(numbers(schema))
        for member in schema.members:
            if (union := member.schema.name or "").startswith(UNION):
                lines.append(f"{inner}oneof {_name(union.removeprefix(UNION))} {{")
                lines += [
                    f"{inner}  {self._field(each.name, each.schema, next(number), defined, label='')}"
                    for each in member.schema.members
                ]
                lines.append(f"{inner}}}")
            else:
                lines.append(inner + self._field(member.name, member.schema, next(number), defined, label=None))
        for own, kind in defined.items():
            is_enum = kind.type is Type.STRING
            lines.append(enum_text(own, kind, inner) if is_enum else self.text(kind, own, inner, depth + 1))
        return "\n".join([f"{indent}message {name} {{", *lines, f"{indent}}}"])

    def _field(self, name: str, schema: Schema, number: int, defined: dict[str, Schema], *, label: str | None) -> str:
        """The line of a field; `label` is given in a oneof."""
        if schema.type is Type.ARRAY:
            kind = self._type(name, _given(schema.value), defined, nullable=False)
            label, about = "repeated ", _meta(_given(schema.value))
        elif schema.type is Type.MAP:
            key, value = _given(schema.key), _given(schema.value)
            if SCALARS.get(key.type) not in ("int32", "int64", "bool", "string"):
                raise DataException(
                    f"the keys of the map {name} are {key.type.name}: Protobuf has text and whole numbers"
                )
            kind = f"map<{SCALARS[key.type]}, {self._type(name, value, defined, nullable=False)}>"
            label, about = "", ""
        else:
            nullable = schema.optional and label is None
            kind, about = self._type(name, schema, defined, nullable=nullable), _meta(schema)
            scalar = kind in WRAPPERS or schema.type is Type.STRING
            label = "optional " if nullable and self._optional and scalar and "." not in kind else ""
        return f"{label}{kind} {_name(name)} = {number}{about};"

    def _type(self, name: str, schema: Schema, defined: dict[str, Schema], *, nullable: bool) -> str:
        if schema.name in LOGICAL:
            return LOGICAL[schema.name]
        if schema.type in (Type.ARRAY, Type.MAP):
            raise DataException(
                f"{name}: an array or a map of arrays or maps is no field in Protobuf: put a struct between"
            )
        if schema.type is Type.STRUCT or ENUM in (schema.parameters or {}):
            wanted = (schema.parameters or {}).get(ENUM) or (schema.name or name[:1].upper() + name[1:]).rpartition(
                "."
            )[2]
            own = _name(wanted + "Message" * (wanted == name))
            while defined.get(own, schema.but(optional=False)) != schema.but(optional=False):
                own += "_"  # another type of that name stands in this message
            defined[own] = schema.but(optional=False)
            return own
        scalar = SCALARS[schema.type]
        return f"google.protobuf.{WRAPPERS[scalar]}" if nullable and self._wrappers else scalar


def numbers(schema: Schema) -> list[int]:
    """The numbers of a message's fields, those of a oneof among them: as they were in Protobuf, or in their order."""
    fields: list[Schema] = []
    for member in schema.members:
        is_union = (member.schema.name or "").startswith(UNION)
        fields += [each.schema for each in member.schema.members] if is_union else [member.schema]
    given = [(each.parameters or {}).get(TAG) for each in fields]
    taken = {int(each) for each in given if each is not None}
    free = (each for each in count(1) if each not in taken)
    return [next(free) if each is None else int(each) for each in given]


def enum_text(name: str, schema: Schema, indent: str) -> str:
    """An enumeration; the symbols of its schema's parameters in the order of their numbers."""
    parameters: Mapping[str, str] = schema.parameters or {}
    symbols = {each[len(ENUM) + 1 :]: int(number) for each, number in parameters.items() if each.startswith(f"{ENUM}.")}
    lines = [
        f"{indent}  {_name(symbol)} = {number};" for symbol, number in sorted(symbols.items(), key=lambda one: one[1])
    ]
    return "\n".join([f"{indent}enum {name} {{", *lines, f"{indent}}}"])


def _given(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataException("an array or a map of nulls alone has no type in Protobuf")
    return schema


def _meta(schema: Schema) -> str:
    """The parameters of a field that its type does not say."""
    params = {}
    if schema.type in (Type.INT8, Type.INT16) and schema.name not in LOGICAL:
        params["connect.type"] = schema.type.value
    if schema.name == DECIMAL:
        params["scale"] = (schema.parameters or {}).get("scale", "0")
    shown = ", ".join(f'{{key: "{name}", value: "{value}"}}' for name, value in params.items())
    return f" [(confluent.field_meta) = {{params: [{shown}]}}]" if params else ""
