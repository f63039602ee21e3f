"""Numbers are read and printed as by Java's Double and Float."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.java_numbers import double_text, float_text, parse_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-100.0, "-100.0"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123_456_789.0, "1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_have_javas_spelling(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (16_777_216.0, "1.6777216E7"), (3.4028234663852886e38, "3.4028235E38"), (1.5e-45, "1.4E-45")],
)
def test_floats_have_no_more_digits_than_32_bits_need(value: float, text: str) -> None:
    assert float_text(struct.unpack(">f", struct.pack(">f", value))[0]) == text


@given(st.floats())
def test_what_is_printed_is_read_again(value: float) -> None:
    again = parse_double(double_text(value))
    assert again == value or (math.isnan(again) and math.isnan(value))


@pytest.mark.parametrize("text", ["1", "+1.", ".5", "-1e3", "2.5E-2", "1d", "1.5f", "NaN", "-Infinity"])
def test_what_java_reads_is_a_number(text: str) -> None:
    parse_double(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "infinity", "1_0", "٣", ".", "e5", "1e", "1 0", "0x10", "1L"])
def test_what_java_does_not_read_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_double(text)
