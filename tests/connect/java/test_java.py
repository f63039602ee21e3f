"""Java's dates, regular expressions and texts of numbers, as Python has them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.connect import data
from ottla.connect.data import Float32, Instant, Schema, Struct, struct
from ottla.connect.java.calendar import CUTOVER_DAY, day_number, moment
from ottla.connect.java.dates import DatePattern
from ottla.connect.java.regex import BadReplacement, NoSuchGroup, compiled, replacement
from ottla.connect.java.text import (
    float32,
    float_text,
    narrowed,
    parse_decimal,
    parse_float,
    parse_int,
    scaled,
    text,
    unscaled,
    whole,
    wrapped,
)

MOMENT = 1700000000123
"""Tuesday, 14 November 2023, 22:13:20.123."""


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("yyyyMMdd", "20231114"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T22:13:20.123Z"),
        ("EEE dd MMM yyyy G w W D F u a K k h z Z X", "Tue 14 Nov 2023 AD 46 3 318 2 2 PM 10 22 10 UTC +0000 Z"),
        ("EEEE, d MMMM yy zzzz", "Tuesday, 14 November 23 Coordinated Universal Time"),
        ("yy'x'''", "23x'"),
        ("h 'o''clock'", "10 o'clock"),
    ],
)
def test_a_time_is_written_by_a_pattern(pattern, written):
    assert DatePattern(pattern).format(MOMENT) == written


@pytest.mark.parametrize(
    ("pattern", "text", "written"),
    [
        ("yyyy-MM-dd", "2024-02-29", "2024-02-29 00:00:00.000"),
        ("yyyy-MM-dd", "2024-02-30", "2024-03-01 00:00:00.000"),
        ("yyyy-MM-dd", "2024-2-9 and more", "2024-02-09 00:00:00.000"),
        ("yyyyMMddHHmm", "202402091530", "2024-02-09 15:30:00.000"),
        ("d MMM yyyy h:m a", "9 february 2024 12:05 AM", "2024-02-09 00:05:00.000"),
        ("yyyy-MM-dd HH:mm Z", "2024-02-09 15:30 +0130", "2024-02-09 14:00:00.000"),
        ("yyyy-MM-dd HH:mm z", "2024-02-09 15:30 PST", "2024-02-09 23:30:00.000"),
        ("yyyy-MM-dd'T'HHX", "2024-02-09T15-05", "2024-02-09 20:00:00.000"),
        ("D yyyy", "60 2024", "2024-02-29 00:00:00.000"),
        ("w yyyy E", "7 2024 Wed", "2024-02-14 00:00:00.000"),
        ("YYYY w u", "2024 7 3", "2024-02-14 00:00:00.000"),
        ("F MM yyyy E", "2 02 2024 Wed", "2024-02-14 00:00:00.000"),
        ("S", "5", "1970-01-01 00:00:00.005"),
    ],
)
def test_a_time_is_read_as_leniently_as_java_reads_it(pattern, text, written):
    assert DatePattern("yyyy-MM-dd HH:mm:ss.SSS").format(DatePattern(pattern).parse(text)) == written


@pytest.mark.parametrize(
    ("pattern", "text"), [("yyyy-MM-dd", "29.02.2024"), ("yyyy", ""), ("MMM", "Foo"), ("HHmm", "7"), ("X", "nowhere")]
)
def test_text_that_does_not_match_is_refused(pattern, text):
    with pytest.raises(ValueError, match=r".*"):
        DatePattern(pattern).parse(text)


def test_a_year_of_two_digits_lies_within_80_years_before_now():
    now = DatePattern("yyyy-MM-dd").parse("2026-11-28")
    short = DatePattern("dd/MM/yy", now_ms=now)
    full = DatePattern("yyyy-MM-dd")
    assert [full.format(short.parse(day)) for day in ("01/01/46", "01/12/46", "01/01/47", "01/01/26")] == [
        "2046-01-01", "1946-12-01", "1947-01-01", "2026-01-01",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [("bbb", "Illegal pattern character 'b'"), ("'open", "Unterminated quote"), ("XXXX", "invalid ISO 8601 format")],
)
def test_a_pattern_that_java_does_not_know_is_refused(pattern, fault):
    with pytest.raises(ValueError, match=fault):
        DatePattern(pattern)


def test_the_calendar_is_julian_before_its_reform():
    last = moment((CUTOVER_DAY - 1) * data.DAY_MS)
    first = moment(CUTOVER_DAY * data.DAY_MS)
    assert [(at.year, at.month, at.day, at.weekday) for at in (last, first)] == [(1582, 10, 4, 4), (1582, 10, 15, 5)]
    assert day_number(1582, 10, 4) == CUTOVER_DAY - 1
    assert DatePattern("G yyyy").format(-(10**14)) == "BC 1200"


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        (r"(\w+)-(\w+)", "orders-eu", True),
        (r"(?i)ORDERS-\p{Lower}{2}", "orders-eu", True),
        (r"\Qa.b\E", "axb", False),
        (r"\p{Alpha}+\P{Digit}", "ab-", True),
        (r"[\p{Upper}_]+", "A_B", True),
        (r"[^\d.]+", "a1", False),
        (r"\x41\u0042\x{43}\t", "ABC\t", True),
        (r"a.b", "a\nb", False),
        (r"(?s)a.b", "a\nb", True),
        (r"(?<word>a+)\k<word>", "aaaa", True),
        (r"a*+a", "aaa", False),
        (r"é\w", "éa", True),
        (r"\w", "é", False),
        (r"x{2,3}", "xxx", True),
    ],
)
def test_a_regular_expression_of_java_matches_whole_names(pattern, subject, matches):
    assert (compiled(pattern).fullmatch(subject) is not None) == matches


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(", "Unclosed group near index 1\n("),
        ("[a-z&&[^b]]", "is not supported"),
        (r"\p{IsGreek}", "is not supported"),
        (r"(?x)a b", "is not supported"),
        ("a(?i)b", "is not supported"),
        ("[a", "Unclosed character class"),
        ("a{", "Illegal repetition"),
        (r"(?<n>a)\k<n", "missing trailing"),
        (r"\y", "Illegal/unsupported escape sequence"),
        ("*", "nothing to repeat"),
        ("\\", "Unexpected end"),
    ],
)
def test_a_regular_expression_that_is_not_known_is_refused_when_it_is_read(pattern, fault):
    with pytest.raises(ValueError, match=r".*") as refusal:
        compiled(pattern)
    assert fault in str(refusal.value)


@pytest.mark.parametrize(
    ("template", "made"),
    [("$2_$1", "eu_orders"), ("$1\\$", "orders$"), ("${a}", "orders"), ("$12", "orders2"), ("", ""), ("a\\b", "ab")],
)
def test_a_replacement_takes_groups(template, made):
    pattern = compiled(r"(?<a>\w+)-(\w+)")
    found = pattern.fullmatch("orders-eu")
    assert replacement(template, pattern.groups, frozenset(pattern.groupindex))(found) == made


@pytest.mark.parametrize(
    ("template", "error", "message"),
    [
        ("$3", NoSuchGroup, "No group 3"),
        ("${b}", BadReplacement, "No group with name {b}"),
        ("$", BadReplacement, "Illegal group reference: group index is missing"),
        ("x\\", BadReplacement, "character to be escaped is missing"),
    ],
)
def test_a_replacement_of_a_missing_group_fails_at_a_match(template, error, message):
    pattern = compiled("(a)(b)")
    with pytest.raises(error) as refusal:
        replacement(template, pattern.groups, frozenset())(pattern.fullmatch("ab"))
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("number", "written"),
    [(0.1, "0.1"), (1.0, "1.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (1e-3, "0.001"), (1.5e-5, "1.5E-5"),
     (-0.0, "-0.0"), (123456789.25, "1.2345678925E8"), (float("inf"), "Infinity"), (float("nan"), "NaN")],
)  # fmt: skip
def test_a_double_is_written_as_java_writes_it(number, written):
    assert float_text(number) == written


def test_a_float_of_32_bits_has_its_own_digits():
    assert float_text(float32(0.1), single=True) == "0.1"
    assert float_text(float32(0.1)) == "0.10000000149011612"
    assert float32(1e300) == float("inf")


@pytest.mark.parametrize("text", ["1_0", "", "0x", "1e"])
def test_text_that_is_no_number_in_java_is_none_here(text):
    for read in (parse_float, parse_decimal, lambda given: parse_int(given, 32)):
        with pytest.raises(ValueError, match=r".*"):
            read(text)


def test_numbers_are_read_and_narrowed_as_in_java():
    assert parse_float(" 1.5e3f ") == 1500.0
    assert parse_float("0x1p3") == 8.0
    assert parse_int("-128", 8) == -128
    with pytest.raises(ValueError, match="128"):
        parse_int("128", 8)
    with pytest.raises(ValueError, match="1e3000000000"):
        parse_decimal("1e3000000000")
    assert [wrapped(300, 8), wrapped(-129, 8), wrapped(1 << 40, 32)] == [44, 127, 0]
    assert [narrowed(-2.75, 8), narrowed(1e20, 64), narrowed(1e20, 8), narrowed(float("nan"), 32)] == [
        -2, (1 << 63) - 1, -1, 0,
    ]  # fmt: skip
    assert [whole(Decimal("1e400"), 64), whole(Decimal("-7.9"), 16)] == [0, -7]


def test_a_decimal_keeps_all_its_digits():
    number = 12345678901234567890123456789012345678901234567890
    assert scaled(number, 3).as_tuple().exponent == -3
    assert unscaled(scaled(-number, 3)) == -number


def test_a_value_is_shown_as_java_shows_it():
    point = struct([("x", data.FLOAT32), ("n", data.OPTIONAL_STRING)])
    assert text({"a": [1, None, True], "d": Instant(MOMENT)}) == "{a=[1, null, true], d=Tue Nov 14 22:13:20 UTC 2023}"
    assert text(Struct(point, [float32(0.1), None])) == "Struct{x=0.1}"
    assert text(Float32(0.5)) == "0.5"
    assert text(1.0, Schema(data.Type.FLOAT64)) == "1.0"
