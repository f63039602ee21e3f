"""Values as text and back, as Connect's `Values` does it: headers, and the literal of InsertHeader."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import Any, Final

from ottla.connect import data
from ottla.connect.data import Float32, Instant, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.java.text import (
    ISO_DATE,
    ISO_TIME,
    ISO_TIMESTAMP,
    float32,
    float_text,
    instant_text,
    parse_decimal,
    whole,
)
from ottla.connect.records import SchemaAndValue

_DELIMITERS: Final = frozenset(':,{}[]"')
_NOTHING: Final = SchemaAndValue(None, None)
_WHOLE: Final = ((8, data.INT8), (16, data.INT16), (32, data.INT32), (64, data.INT64))
_RANK: Final = {
    kind: at for at, kind in enumerate((Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64))
}
_TEMPORAL: Final = {
    13: (ISO_TIME, data.TIME_SCHEMA), 24: (ISO_TIMESTAMP, data.TIMESTAMP_SCHEMA), 10: (ISO_DATE, data.DATE_SCHEMA),
}  # fmt: skip
"""Patterns by the length of the text."""
MOST_NESTED: Final = 100
"""Deeper arrays and maps are taken for text."""


def to_text(value: Any, schema: Schema | None = None, *, embedded: bool = False) -> str | None:
    """A value as text. Text inside an array, map or struct is quoted."""
    match value:
        case None:
            return "null" if embedded else None
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            single = schema.type is Type.FLOAT32 if schema is not None else isinstance(value, Float32)
            return float_text(value, single=single)
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"' if embedded else value
        case bytes():
            plain = base64.b64encode(value).decode()
            return f'"{plain}"' if embedded else plain
        case Instant():
            return instant_text(value)
        case list():
            of = schema.value if schema is not None else None
            return f"[{','.join(_inside(item, of) for item in value)}]"
        case dict():
            keys, of = (schema.key, schema.value) if schema is not None else (None, None)
            return "{" + ",".join(f"{_inside(key, keys)}:{_inside(item, of)}" for key, item in value.items()) + "}"
        case Struct():
            pairs = zip(value.schema.members, value.filled(), strict=True)
            return "{" + ",".join(f"{_inside(at.name)}:{_inside(item, at.schema)}" for at, item in pairs) + "}"
    raise DataException(f"Failed to serialize unexpected value type {type(value).__name__}: {value}")


def _inside(value: Any, schema: Schema | None = None) -> str:
    return to_text(value, schema, embedded=True) or ""


def parse_text(text: str | None) -> SchemaAndValue:
    """The value that a text stands for, with its schema: the smallest type of number, a time, an array, a map."""
    if text is None:
        return _NOTHING
    if not text:
        return SchemaAndValue(data.STRING, text)
    return _Parser(text).value(depth=None) or _NOTHING


class _Refused(Exception):
    """An array or a map that breaks off: it is text."""


class _Parser:
    """Reads tokens: a delimiter each, and the text between two of them."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._peeked: str | None = None

    def value(self, *, depth: int | None) -> SchemaAndValue | None:
        """The next value; None for null. `depth` is that of the array or map that it is in."""
        if not self._more():
            return None
        if depth is not None and self._takes('"'):
            return self._quoted()
        for word, literal in (("null", None), ("true", True), ("false", False)):
            if self._is_alone(word, inside=depth is not None):
                return None if literal is None else SchemaAndValue(data.BOOLEAN, literal)
        start = self._mark()
        try:
            for opening, read in (("[", self._array), ("{", self._map)):
                if self._takes(opening):
                    if (depth or 0) >= MOST_NESTED:
                        raise _Refused
                    return read((depth or 0) + 1)
        except _Refused:
            self._rewind(start)
        token = self._next()
        if not token.strip():
            return SchemaAndValue(data.STRING, token)
        found = self._scalar(token.strip())
        if found is None and depth is not None:
            raise _Refused
        return found or SchemaAndValue(data.STRING, self._text)

    def _quoted(self) -> SchemaAndValue:
        """Quoted text. A time is recognised in it, nothing else."""
        parts = []
        while self._more() and not self._takes('"'):
            parts.append(self._next())
        content = "".join(parts)
        return _temporal(content) or SchemaAndValue(data.STRING, content)

    def _scalar(self, token: str) -> SchemaAndValue | None:
        """A time or a number. Colons end tokens, so that a time may be five of them."""
        first = token[0]
        if first.isdigit():
            start = self._mark()
            rest = self._next_four()
            found = _temporal(token + rest) if rest is not None else None
            if found is not None:
                return found
            self._rewind(start)
            found = _temporal(token)
            if found is not None:
                return found
        return _number(token) if first.isdigit() or first in "+-" else None

    def _array(self, depth: int) -> SchemaAndValue:
        items: list[Any] = []
        common = _Common()
        while self._more():
            if self._takes("]"):
                return SchemaAndValue(data.array(common.schema), [_aligned(item, common.schema) for item in items])
            if self._takes(","):
                raise _Refused
            item = self.value(depth=depth)
            common.see(item)
            items.append(None if item is None else item.value)
            start = self._mark()
            if self._takes("]"):
                self._rewind(start)
            elif not self._takes(","):
                raise _Refused
        raise _Refused

    def _map(self, depth: int) -> SchemaAndValue:
        entries: dict[Any, Any] = {}
        keys, values = _Common(), _Common()
        while self._more():
            if self._takes("}"):
                of = values.schema if keys.schema is not None else None
                aligned = {_aligned(key, keys.schema): _aligned(item, of) for key, item in entries.items()}
                return SchemaAndValue(data.map_of(keys.schema, of), aligned)
            if self._takes(","):
                raise _Refused
            key = self.value(depth=depth)
            if key is None or isinstance(key.value, list | dict) or not self._takes(":"):
                raise _Refused
            item = self.value(depth=depth)
            entries[key.value] = None if item is None else item.value
            self._takes(",")
            keys.see(key)
            values.see(item)
        raise _Refused

    def _more(self) -> bool:
        return self._peeked is not None or self._at < len(self._text)

    def _mark(self) -> int:
        return self._at - len(self._peeked or "")

    def _rewind(self, at: int) -> None:
        self._at, self._peeked = at, None

    def _next(self) -> str:
        token, self._peeked = self._peeked, None
        return self._token() if token is None else token

    def _next_four(self) -> str | None:
        start = self._mark()
        for _ in range(4):
            if not self._more():
                self._rewind(start)
                return None
            self._next()
        return self._text[start : self._at]

    def _token(self) -> str:
        start, escaped = self._at, False
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in _DELIMITERS and not escaped:
                self._at += start == self._at
                break
            escaped = char == "\\" and not escaped
            self._at += 1
        return self._text[start : self._at]

    def _takes(self, expected: str) -> bool:
        """Take the next token if it is this one. Blanks before it are skipped."""
        if self._peeked is None:
            if not self._more():
                return False
            self._peeked = self._token()
        while not self._peeked.strip() and self._at < len(self._text):
            self._peeked = self._token()
        if self._peeked.strip() != expected:
            return False
        self._peeked = None
        return True

    def _is_alone(self, word: str, *, inside: bool) -> bool:
        """Take a word. Outside of arrays and maps it must be the whole text."""
        start = self._mark()
        if self._takes(word) and (inside or not self._more()):
            return True
        self._rewind(start)
        return False


class _Common:
    """The one schema that all items of an array fit into, None where there is none."""

    def __init__(self) -> None:
        self.schema: Schema | None = None

    def see(self, item: SchemaAndValue | None) -> None:
        """Widen the schema to that of one more item; null fits into every schema."""
        if item is None or item.schema is None:
            return
        if self.schema is None or self.schema.type is item.schema.type:
            self.schema = item.schema
        elif self.schema.type in _RANK and item.schema.type in _RANK:
            self.schema = max(self.schema, item.schema, key=lambda each: _RANK[each.type])
        else:
            self.schema = None


def _aligned(value: Any, schema: Schema | None) -> Any:
    """An item as the common schema has it."""
    if schema is None or value is None:
        return value
    if schema.type in (Type.FLOAT32, Type.FLOAT64) and isinstance(value, int):
        return float(value)
    return value


def _temporal(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    known = _TEMPORAL.get(len(token))
    if known is None:
        return None
    try:
        return SchemaAndValue(known[1], Instant(known[0].parse(token)))
    except ValueError:
        return None


def _number(token: str) -> SchemaAndValue | None:
    """The smallest type that holds a number."""
    try:
        number = parse_decimal(token)
    except ValueError:
        return None
    _, _, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if number.adjusted() < 20 and number == number.to_integral_value():
        for bits, schema in _WHOLE:
            if whole(number, bits) == number:
                return SchemaAndValue(schema, int(number))
    if exponent:
        single = float32(float(number))
        if math.isfinite(single):
            return SchemaAndValue(data.FLOAT32, single)
        if math.isfinite(float(number)):
            return SchemaAndValue(data.FLOAT64, float(number))
    return SchemaAndValue(data.decimal(-exponent), number)
