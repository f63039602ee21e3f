"""Objects of JSON, rows of CSV and of files as values of a schema's columns: what does not fit is refused by name."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from ottla.formats.evolution import UNION_MEMBER, converted
from ottla.formats.faults import BadPayload
from ottla.formats.iso_times import is_finer

Fit = Callable[[Any, str], Any]
"""(value, path of it for errors) -> the value as its column has it."""


def fitting(kind: pa.DataType, *, text: bool = False) -> Fit:
    """Makes values of a column's type. `text`: values are text that stands for numbers and truth values, as in CSV."""
    make = _maker(kind, text=text)

    def fit(value: Any, path: str) -> Any:
        if value is None or (text and value == "" and not pa.types.is_string(kind)):
            return None
        return make(value, path)

    return fit


def _maker(kind: pa.DataType, *, text: bool) -> Fit:
    types = pa.types
    if types.is_struct(kind):
        is_union = kind.num_fields > 0 and all(field.name.startswith(UNION_MEMBER) for field in kind)
        return _union(kind, text=text) if is_union else _struct(kind, text=text)
    if types.is_map(kind):
        return _map(fitting(kind.item_type, text=text))
    if types.is_list(kind):
        return _list(fitting(kind.value_type, text=text))
    if types.is_integer(kind):
        return _integer(kind, text=text)
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_floating(kind):
        return _real(kind, text=text)
    if types.is_boolean(kind):
        return _truth(text=text)
    if types.is_timestamp(kind):
        return _timestamp(kind)
    simple: list[tuple[bool, Fit]] = [
        (types.is_string(kind), _string),
        (types.is_binary(kind), _binary),
        (types.is_date(kind), _iso(date, "a day")),
        (types.is_time(kind), _iso(time, "a time of day")),
    ]
    return next((make for fits, make in simple if fits), _nothing(kind))


def _refused(path: str, value: Any, wanted: str) -> BadPayload:
    return BadPayload(f"{path} is {wanted} in the schema, not {value!r}")


def _struct(kind: pa.DataType, *, text: bool) -> Fit:
    fits = {field.name: fitting(field.type, text=text) for field in kind}
    missing = converted(pa.array([{}], pa.struct([])), kind).to_pylist()[0] if fits else {}

    def make(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _refused(path, value, "an object")
        for name in value:
            if name not in fits:
                near = get_close_matches(name, fits, n=1)
                hint = f": did you mean {near[0]}?" if near else f"; it has {', '.join(fits)}"
                raise BadPayload(f"{path}.{name} is not in the schema{hint}")
        made = {
            name: fit(value[name], f"{path}.{name}") if name in value else missing[name] for name, fit in fits.items()
        }
        return made

    return make


def _union(kind: pa.DataType, *, text: bool) -> Fit:
    """The first branch that takes a value as it is, else the first that takes it as text."""
    branches = [(field.name, fitting(field.type)) for field in kind]
    if text:
        branches += [(field.name, fitting(field.type, text=True)) for field in kind]

    def make(value: Any, path: str) -> Any:
        for name, fit in branches:
            try:
                return {**dict.fromkeys(field.name for field in kind), name: fit(value, path)}
            except BadPayload:
                continue
        raise _refused(path, value, f"one of {', '.join(field.name[len(UNION_MEMBER) :] for field in kind)}")

    return make


def _map(item: Fit) -> Fit:
    def make(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _refused(path, value, "a map")
        return [(name, item(each, f"{path}.{name}")) for name, each in value.items()]

    return make


def _list(item: Fit) -> Fit:
    def make(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _refused(path, value, "a list")
        return [item(each, f"{path}[{at}]") for at, each in enumerate(value)]

    return make


def _integer(kind: pa.DataType, *, text: bool) -> Fit:
    signed = pa.types.is_signed_integer(kind)
    low = -(1 << (kind.bit_width - 1)) if signed else 0
    high = 1 << (kind.bit_width - 1 if signed else kind.bit_width)

    def make(value: Any, path: str) -> Any:
        found = value
        if text and isinstance(value, str):
            try:
                found = int(value)
            except ValueError:
                raise _refused(path, value, "a whole number") from None
        if isinstance(found, bool) or not isinstance(found, int):
            raise _refused(path, value, "a whole number")
        if not low <= found < high:
            raise _refused(path, value, f"a whole number of {kind.bit_width} bits")
        return found

    return make


def _real(kind: pa.DataType, *, text: bool) -> Fit:
    short = pa.types.is_float32(kind)

    def make(value: Any, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | (str if text else int)):
            raise _refused(path, value, "a number")
        try:
            found = float(value)
        except (ValueError, OverflowError):
            raise _refused(path, value, "a number") from None
        try:
            held = struct.unpack("<f", struct.pack("<f", found))[0] if short else found
        except OverflowError:
            raise _refused(path, value, "a number of 32 bits") from None
        if (whole := _whole(value)) is not None and held != whole:
            raise BadPayload(f"{path} is a floating-point number in the schema, which cannot hold {value}")
        return found

    return make


def _whole(value: int | float | Decimal | str) -> int | None:
    """The whole number that a value is, each digit of which counts; None for others."""
    try:
        return int(value) if isinstance(value, int | str) or value == int(value) else None
    except (ValueError, OverflowError):
        return None


def _decimal(kind: pa.DataType) -> Fit:
    def make(value: Any, path: str) -> Any:
        if isinstance(value, bool | float) or not isinstance(value, int | Decimal | str):
            raise _refused(path, value, "a decimal")
        try:
            found = Decimal(value)
            fits = found.is_finite() and found == found.quantize(Decimal(1).scaleb(-kind.scale))
        except InvalidOperation:
            fits = False
        if not fits or found.adjusted() + 1 > kind.precision - kind.scale:
            raise _refused(path, value, f"a decimal of {kind.precision} digits, {kind.scale} behind the point")
        return found

    return make


def _truth(*, text: bool) -> Fit:
    def make(value: Any, path: str) -> Any:
        if text and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise _refused(path, value, "true or false")
        return value

    return make


def _timestamp(kind: pa.DataType) -> Fit:
    parse = _iso(datetime, "a time by ISO 8601")

    def make(value: Any, path: str) -> Any:
        found: datetime = parse(value, path)
        if kind.tz is None:
            if found.tzinfo is not None:
                raise _refused(path, value, "a local time without a zone")
            return found
        if found.tzinfo is None:
            raise _refused(path, value, "a time with its zone (Z is UTC)")
        return found.astimezone(UTC)

    return make


def _iso(kind: type[Any], wanted: str) -> Fit:
    def make(value: Any, path: str) -> Any:
        if isinstance(value, kind) and (kind is not date or not isinstance(value, datetime)):
            return value
        try:
            found = kind.fromisoformat(value)
        except (ValueError, TypeError):
            raise _refused(path, value, wanted) from None
        if is_finer(value):
            raise BadPayload(f"{path} is '{value}', and a value of its type has no digits beyond microseconds")
        return found

    return make


def _string(value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise _refused(path, value, "text")
    return value


def _binary(value: Any, path: str) -> Any:
    """Bytes; text is their Base64."""
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise _refused(path, value, "bytes in Base64") from None


def _nothing(kind: pa.DataType) -> Fit:
    def make(value: Any, path: str) -> Any:
        raise BadPayload(f"{path} is of the type {kind}, which is not written from text")

    return make
