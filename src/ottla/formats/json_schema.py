"""JSON payloads of one writer's JSON Schema as one Arrow array: by Arrow's own parser in blocks, else row by row.

A block holds one object per row, from { to }, so that no object can reach over the newline between two; where there
are as many objects as rows, each row is one. Without `validate` a value must fit its column and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from ottla.formats.arrays import whole
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.iso_times import FINER, Nanoseconds, check_calendar, is_finer
from ottla.formats.json_nodes import (
    UTC_MICROS,
    Entries,
    Items,
    JsonText,
    Members,
    Node,
    Scalar,
    arrow_type,
    in_blocks,
    parse,
)
from ottla.formats.json_numbers import Real, may_lose_digits
from ottla.formats.rows import ValueBlock
from ottla.formats.wire import extents
from ottla.formats.writer import WriterSchema

ROWS_ALONE = 32
MOST_FAILURES = 12
_NO_NUMBER = re.compile(rb"[:,\[]\s*-?(?:NaN|Inf)")
_WORDS = {pa.string(): "a string", pa.int64(): "an integer", pa.float64(): "a number", pa.bool_(): "a boolean"}


class JsonReader:
    """Reads payloads of one writer's schema."""

    def __init__(
        self,
        writer: WriterSchema,
        *,
        validate: bool = False,
        exact: bool = False,
        nanoseconds: Nanoseconds = "cut",
    ) -> None:
        document, self._node = parse(writer.text, dict(writer.named_references))
        self.type = arrow_type(self._node)
        self._exact = exact
        self._strict = Strict(numbers=exact, times=nanoseconds != "cut")
        self._valid = _validator(document, writer) if validate else None
        self._blocks = isinstance(self._node, Members) and in_blocks(self._node) and not validate

    def read(self, payloads: pa.Array) -> ValueBlock:
        """All payloads (none of them null); an array of those that are good."""
        good = np.ones(len(payloads), dtype=np.bool_)
        faults: list[tuple[int, str]] = []
        arrays = [pa.nulls(0, self.type)]
        spans, failures = [(0, len(payloads))] if len(payloads) else [], 0
        while spans:
            start, end = spans.pop()
            part = payloads.slice(start, end - start)
            if not self._blocks or end - start <= ROWS_ALONE or failures >= MOST_FAILURES:
                arrays.append(self._alone(part, start, good, faults))
            elif (found := self._at_once(part)) is not None:
                arrays.append(found)
            else:
                failures += 1
                middle = (start + end) // 2
                spans += [(middle, end), (start, middle)]
        return ValueBlock(pa.concat_arrays(arrays), good, faults)

    def _at_once(self, payloads: pa.Array) -> pa.Array | None:
        """The values by one call of Arrow's parser; None where it stumbles or one row is not one object."""
        starts, lengths, content = extents(payloads)
        if bool(np.any(lengths < 2)):
            return None
        ends = starts + lengths - 1
        if not bool(np.all(content[starts] == ord("{")) and np.all(content[ends] == ord("}"))):
            return None
        try:
            payloads.cast(pa.string())  # Arrow's parser does not look whether text is UTF-8
            lines = pc.binary_join_element_wise(payloads, b"", b"\n")
            places, sizes, _ = extents(lines)
            text = lines.buffers()[2].slice(int(places[0]), int(places[-1] + sizes[-1] - places[0]))
            if _may_hold_no_number(text):
                return None
            wanted = pa.schema(list(_as_parsed(self._node)))
            table = pa_json.read_json(
                pa.BufferReader(text),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=max(text.size, 1)),
                parse_options=pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(payloads):
                return None
            if self._exact and any(may_lose_digits(column, text) for column in table.columns):
                return None
            found = _finished(self._node, whole(table.to_struct_array()))
            check_calendar(found)
            return found
        except pa.ArrowInvalid:
            return None

    def _alone(
        self, payloads: pa.Array, first: int, good: np.ndarray[Any, np.dtype[np.bool_]], faults: list[tuple[int, str]]
    ) -> pa.Array:
        values = []
        for row, payload in enumerate(payloads.to_pylist(), first):
            try:
                value = self._value(payload)
                pa.array([value], self.type)  # a number of 70 bits has no place in its column
                values.append(value)
            except (BadPayload, pa.ArrowInvalid, OverflowError, UnicodeError) as fault:
                good[row] = False
                faults.append((row, f"not of its JSON Schema: {fault}"))
        return pa.array(values, self.type)

    def _value(self, payload: bytes) -> Any:
        try:
            found = json.loads(payload.decode(), parse_constant=_refuse_constant, parse_float=Real)
        except (ValueError, RecursionError) as fault:
            raise BadPayload(f"not JSON: {fault}") from None
        if self._valid is not None:
            self._valid(json.loads(payload))
        if found is None:
            raise BadPayload("null")
        return _fitting(self._node, found, "value", self._strict)


def _may_hold_no_number(text: pa.Buffer) -> bool:
    """True if NaN or Infinity may stand where a value does: Arrow's parser takes them, JSON has none."""
    content = text.to_pybytes()
    return (b"NaN" in content or b"Inf" in content) and _NO_NUMBER.search(content) is not None


def _as_parsed(node: Node) -> pa.DataType:
    """The type that Arrow's parser is asked for: times stay text, since it reads fewer of them than there are."""
    match node:
        case Members():
            return pa.struct([(name, _as_parsed(member)) for name, member in node.fields])
        case Items():
            return pa.list_(_as_parsed(node.item))
    return pa.string() if pa.types.is_temporal(arrow_type(node)) else arrow_type(node)


def _finished(node: Node, array: pa.Array) -> pa.Array:
    """The parsed values with times made of their texts; pa.ArrowInvalid leaves those to single rows."""
    return array if array.type == arrow_type(node) else array.cast(arrow_type(node))


@dataclass(frozen=True, slots=True)
class Strict:
    """Numbers, or times, are refused whose columns would drop digits of them."""

    numbers: bool
    times: bool


def _fitting(node: Node, value: Any, path: str, strict: Strict) -> Any:
    """The value as its column takes it, or `BadPayload`."""
    if value is None:
        return None
    match node:
        case Scalar():
            return _scalar(node.type, value, path, strict)
        case JsonText():
            return _text(value, path)
        case Members():
            if isinstance(value, dict):
                return {name: _fitting(part, value.get(name), f"{path}.{name}", strict) for name, part in node.fields}
        case Items():
            if isinstance(value, list):
                return [_fitting(node.item, item, f"{path}[]", strict) for item in value]
        case Entries():
            if isinstance(value, dict):
                inner = node.value
                return [(name, _fitting(inner, item, f"{path}.{name}", strict)) for name, item in value.items()]
    declared = "an array" if isinstance(node, Items) else "an object"
    raise BadPayload(f"{path} is {json.dumps(value)[:60]}, where {declared} is declared")


def _text(value: Any, path: str) -> str:
    try:
        return _dumped(value)
    except OverflowError:
        raise BadPayload(f"{path} holds a number that is too large") from None
    except RecursionError:
        raise BadPayload(f"{path} is nested too deep") from None


def _dumped(value: Any) -> str:
    """The value as JSON in which each number has the digits that it came with."""
    match value:
        case dict():
            members = [f"{json.dumps(name, ensure_ascii=False)}: {_dumped(item)}" for name, item in value.items()]
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join([_dumped(item) for item in value])}]"
        case Real():
            if math.isinf(value):
                raise OverflowError
            return value.text
    return json.dumps(value, ensure_ascii=False)


def _scalar(kind: pa.DataType, value: Any, path: str, strict: Strict) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and value in (math.inf, -math.inf):
        raise BadPayload(f"{path} is a number that is too large")
    if kind == pa.int64() and number and value == int(value):
        return _whole(value, path)
    if kind == pa.float64() and number:
        if strict.numbers and isinstance(value, int) and int(float(value)) != value:
            raise BadPayload(f"{path} is {value}, a whole number that a double cannot hold")
        return float(value)
    if (kind == pa.string() and isinstance(value, str)) or (kind == pa.bool_() and isinstance(value, bool)):
        return value
    if pa.types.is_temporal(kind) and isinstance(value, str):
        return _time(kind, value, path, exact=strict.times)
    raise BadPayload(f"{path} is {json.dumps(value)[:60]}, where {_WORDS.get(kind, 'a time as text')} is declared")


def _whole(value: Any, path: str) -> int:
    """A whole number, also one that is written with a fraction of zeros or an exponent."""
    found = Decimal(value.text) if isinstance(value, Real) else value
    if found != int(found):
        raise BadPayload(f"{path} is {value.text}, where an integer is declared")
    return int(found)


def _time(kind: pa.DataType, text: str, path: str, *, exact: bool) -> date | datetime:
    if exact and is_finer(text):
        raise BadPayload(f"{path} is '{text[:60]}', and {FINER}")
    try:
        if kind != UTC_MICROS:
            return date.fromisoformat(text)
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadPayload(f"{path} is '{text[:60]}', which is no {'time' if kind == UTC_MICROS else 'date'}") from None


def _validator(document: Any, writer: WriterSchema) -> Callable[[Any], None]:
    import jsonschema_rs

    named = [(name, json.loads(text)) for name, text in writer.named_references]
    try:
        registry = jsonschema_rs.Registry(named) if named else None
        validator = jsonschema_rs.validator_for(document, registry=registry)
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise SchemaFault(f"the JSON Schema cannot be used to validate: {fault}") from None

    def check(value: Any) -> None:
        for error in validator.iter_errors(value):
            place = "/".join(str(part) for part in error.instance_path)
            raise BadPayload(f"{error.message}" + (f" at {place}" if place else ""))

    return check


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
