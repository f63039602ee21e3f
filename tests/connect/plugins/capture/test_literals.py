"""PostgreSQL's text of values that Python's own types do not reach, or that have several forms."""

from decimal import Decimal

import pytest

from ottla.connect.plugins.capture import literals
from ottla.connect.plugins.capture.literals import Interval


@pytest.mark.parametrize(("text", "days"), [
    ("1970-01-01", 0), ("2024-02-29", 19782), ("0044-03-15 BC", -735160), ("0001-01-01", -719162),
    ("5874897-12-31", 2145042905), ("4714-11-24 BC", -2440588), ("infinity", 2**31 - 1), ("-infinity", -(2**31)),
])  # fmt: skip
def test_a_date_of_any_year_is_counted_in_days(text, days):
    assert literals.days_of(text) == days


@pytest.mark.parametrize(("text", "micros"), [
    ("1970-01-01 00:00:00", 0), ("1969-12-31 23:59:59.999999+00", -1), ("2024-02-29 12:34:56.5", 1709210096500000),
    ("10000-01-01 00:00:00+00", 253402300800000000), ("0001-12-31 23:59:59+00 BC", -62135596801000000),
])  # fmt: skip
def test_a_timestamp_of_any_year_is_counted_in_microseconds(text, micros):
    assert literals.micros_of(text) == micros


@pytest.mark.parametrize(("text", "micros"), [
    ("24:00:00", 86_400_000_000), ("12:34:56.789+02", 38_096_789_000), ("00:30:00-00:45", 4_500_000_000),
    ("00:30:00+01", 84_600_000_000),
])  # fmt: skip
def test_a_time_with_a_zone_is_turned_into_utc_within_the_day(text, micros):
    assert literals.micros_of_day(text) == micros


@pytest.mark.parametrize(("text", "parts", "iso"), [
    ("1 year 2 mons 3 days 04:05:06.789", Interval(14, 3, 14_706_789_000), "P1Y2M3DT4H5M6.789S"),
    ("-1 days -00:00:01", Interval(0, -1, -1_000_000), "P0Y0M-1DT0H0M-1S"),
    ("-1 years -2 mons +3 days", Interval(-14, 3, 0), "P-1Y-2M3DT0H0M0S"),
    ("00:00:00", Interval(0, 0, 0), "P0Y0M0DT0H0M0S"), ("1 mon 100:00:00.5", Interval(1, 0, 360_000_500_000),
                                                       "P0Y1M0DT100H0M0.5S"),
])  # fmt: skip
def test_an_interval_is_read_and_has_its_iso_form(text, parts, iso):
    assert Interval.of(text) == parts
    assert parts.iso() == iso


def test_a_month_is_as_long_as_in_the_mean_of_four_years():
    assert Interval(1, 0, 0).average_micros() == 2_629_800_000_000


@pytest.mark.parametrize(("text", "items"), [
    ("{}", []), ("{1,NULL,3}", ["1", None, "3"]), ('{"a,b","c\\"d","e\\\\f",NULL,"NULL"}', ["a,b", 'c"d', "e\\f", None,
                                                                                         "NULL"]),
    ("[0:1]={7,8}", ["7", "8"]), ('{""}', [""]),
])  # fmt: skip
def test_an_array_is_taken_apart(text, items):
    assert literals.items_of(text) == items


def test_an_array_of_two_dimensions_is_refused():
    with pytest.raises(ValueError, match="several dimensions"):
        literals.items_of("{{1,2},{3,4}}")


def test_pairs_of_an_hstore_keep_quotes_and_nulls():
    assert literals.hstore_of('"a"=>"1", "b\\"c"=>NULL, "d"=>"NULL"') == {"a": "1", 'b"c': None, "d": "NULL"}


@pytest.mark.parametrize(("number", "content"), [(0, "00"), (127, "7f"), (128, "0080"), (-1, "ff"), (-129, "ff7f")])
def test_a_whole_number_has_the_bytes_of_javas_big_integer(number, content):
    assert literals.unscaled(number).hex() == content


def test_bits_lie_lowest_first_and_money_loses_its_signs():
    assert literals.bits_of("110011001100") == b"\xcc\x0c"
    assert literals.money_of("-$1,234.56") == Decimal("-1234.56")


@pytest.mark.parametrize(("days", "text"), [
    (0, "1970-01-01"), (-735160, "-0043-03-15"), (2145042905, "+5874897-12-31"), (-719528, "0000-01-01"),
])  # fmt: skip
def test_a_date_is_written_as_java_writes_it(days, text):
    assert literals.iso_date(days) == text
