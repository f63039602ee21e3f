from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.lake.columns.json_columns import EVENT_TIME
from ottla.lake.columns.layout import Layout, event_times, folder, groups, parse_layout
from ottla.lake.rounds.settings import load_settings
from ottla.stores import LakeRefused

HOUR = 3_600_000_000


def a_table(*microseconds, **columns):
    times = pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.array(range(len(microseconds)), pa.int64())
    return pa.table({**columns, "timestamp": times, "row": rows})


def grouped(table, layout):
    columns = {name: name for name in layout.fields}
    return [(values, part.column("row").to_pylist()) for values, part in groups(table, layout, columns)]


def us(text):
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


@pytest.mark.parametrize(
    ("unit", "path"),
    [
        ("none", "topic=t/"),
        ("month", "topic=t/month=2013-01/"),
        ("day", "topic=t/date=2013-01-31/"),
        ("hour", "topic=t/date=2013-01-31/hour=23/"),
    ],
)
def test_folders_are_by_the_time_of_the_records(unit, path):
    layout = parse_layout(unit, time_zone="UTC", event_time="", json=False)
    ((values, _),) = grouped(a_table(us("2013-01-31T23:59:59")), layout)
    assert folder("t", layout, values) == path


def test_the_rows_of_a_group_keep_their_order_and_the_groups_have_that_of_time():
    day = 24 * HOUR
    table = a_table(2 * day, 0, 2 * day + 1, day, 5)
    assert grouped(table, Layout(("day",))) == [
        (("1970-01-01",), [1, 4]),
        (("1970-01-02",), [3]),
        (("1970-01-03",), [0, 2]),
    ]


def test_days_are_those_of_the_time_zone():
    table = a_table(us("2013-07-01T22:30:00"), us("2013-12-31T22:30:00"))
    assert [values for values, _ in grouped(table, Layout(("day",), "Europe/Berlin"))] == [
        ("2013-07-02",),
        ("2013-12-31",),
    ]


def test_fields_divide_too_and_a_missing_value_has_a_folder_of_its_own():
    table = a_table(0, HOUR, 0, 0, carrier=pa.array(["UA", "B 6/=", None, "UA"]), n=pa.array([1, 2, 1, 1]))
    layout = Layout(("hour", "carrier", "n"))
    assert grouped(table, layout) == [
        (("1970-01-01", "00", "UA", "1"), [0, 3]),
        (("1970-01-01", "00", None, "1"), [2]),
        (("1970-01-01", "01", "B 6/=", "2"), [1]),
    ]
    assert folder("t", layout, ("1970-01-01", "01", "B 6/=", None)) == (
        "topic=t/date=1970-01-01/hour=01/carrier=B 6%2F%3D/n=__HIVE_DEFAULT_PARTITION__/"
    )


def test_times_that_no_calendar_has_lie_at_its_ends():
    table = a_table(-(1 << 62), 1 << 62)
    assert [values for values, _ in grouped(table, Layout(("day",)))] == [("0001-01-01",), ("9999-12-31",)]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_every_day_of_the_calendar_is_its_own(zone):
    """Databases write 9999-12-31 for ever."""
    days = ["0001-01-02", "9999-12-30", "9999-12-31"]
    times = [us(f"{day}T12:00:00") for day in days]
    shift = {"UTC": 0, "Pacific/Kiritimati": 14, "Pacific/Pago_Pago": -11}[zone]
    found = grouped(a_table(*(time - shift * HOUR for time in times[1:])), Layout(("day",), zone))
    assert found == [((day,), [row]) for row, day in enumerate(days[1:])]
    ends = a_table(us("0001-01-01T00:00:00"), us("9999-12-31T23:59:59"))
    assert {values[0] for values, _ in grouped(ends, Layout(("day",), zone))} <= {"0001-01-01", *days}


def test_the_first_and_the_last_day_have_every_hour():
    table = a_table(us("0001-01-01T00:00:00"), us("9999-12-31T23:59:59.999999"))
    found = [values for values, _ in grouped(table, Layout(("hour",)))]
    assert found == [("0001-01-01", "00"), ("9999-12-31", "23")]


@pytest.mark.parametrize("unit", ["month", "day", "hour"])
def test_the_first_and_the_last_day_of_the_calendar_have_folders_of_their_own(unit):
    table = a_table(us("0001-01-01"), us("0001-01-02") - 1, us("9999-12-31"), us("9999-12-31T23:59:59.999999"))
    found = dict(grouped(table, Layout((unit,))))
    first, last = {"month": ("0001-01", "9999-12"), "day": ("0001-01-01", "9999-12-31")}.get(unit, ("", ""))
    if unit == "hour":
        assert list(found) == [
            *(("0001-01-01", hour) for hour in ("00", "23")),
            *(("9999-12-31", hour) for hour in ("00", "23")),
        ]
    else:
        assert list(found) == [(first,), (last,)]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_whose_local_day_is_outside_the_calendar_lies_on_its_first_or_last_day(zone):
    table = a_table(us("0001-01-01"), us("9999-12-31T23:59:59.999999"))
    assert [values for values, _ in grouped(table, Layout(("day",), zone))] == [("0001-01-01",), ("9999-12-31",)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["0001-01-01", "9999-12-31T23:59:59.999999Z"]),
        pa.array(["0001-01-01T00:00:00+00:00", "9999-12-31 23:59:59.999999"]),
        pa.array([-62_135_596_800_000, 253_402_300_799_999]),
        pa.array([-62_135_596_800_000.0, 253_402_300_799_999.0]),
    ],
)
def test_event_times_reach_from_the_first_day_of_the_calendar_to_the_last(column):
    found, good = event_times(pa.chunked_array([column]))
    assert good.all() and found[0] == us("0001-01-01") and found[1] // 1000 == us("9999-12-31T23:59:59.999") // 1000


def test_the_event_time_counts_where_there_is_one():
    table = a_table(0, 0).append_column(EVENT_TIME, pa.array([HOUR, 0], pa.int64()))
    assert grouped(table, Layout(("hour",), "UTC", "at")) == [(("1970-01-01", "00"), [1]), (("1970-01-01", "01"), [0])]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["2013-01-01T05:00:00Z", "x", None]), [us("2013-01-01T05:00:00"), None, None]),
        (pa.array(["2013-01-01T05:00:00+02:00"]), [us("2013-01-01T03:00:00")]),
        (pa.array(["2013-01-01 05:00:00", "2013-01-01"]), [us("2013-01-01T05:00:00"), us("2013-01-01")]),
        (pa.array(["0000-12-31"]), [None]),
        (pa.array(["0000-12-31", "20130101"]), [None, us("2013-01-01")]),
        (pa.array([1_500, None]), [1_500_000, None]),
        (pa.array([1e300, float("nan"), 1.5]), [None, None, 1_500]),
        (pa.array([True]), [None]),
    ],
)
def test_event_times_are_iso_texts_or_milliseconds(column, expected):
    found, good = event_times(pa.chunked_array([column]))
    assert [time if fine else None for time, fine in zip(found, good, strict=True)] == expected


def test_an_empty_text_is_a_missing_value_only_in_a_folders_name():
    table = a_table(0, 0, 0, 0, f=pa.array(["", None, "__HIVE_DEFAULT_PARTITION__", ""]))
    assert [values for values, _ in grouped(table, Layout(("f",)))] == [(None,)]
    found = [(values, rows.num_rows) for values, rows in groups(table, Layout(("f",)), {"f": "f"}, exact=True)]
    assert found == [((None,), 1), (("",), 2), (("__HIVE_DEFAULT_PARTITION__",), 1)]


@pytest.mark.parametrize(
    ("partition_by", "more", "why"),
    [
        ("day,hour", {}, "one of month, day, hour"),
        ("a,a", {}, "each field once"),
        ("", {}, "write none"),
        ("none,a", {}, "write none"),
        ("a", {"json": False}, "need values with columns"),
        ("day", {"event_time": "at", "json": False}, "need values with columns"),
        ("day", {"time_zone": "Mars/Phobos"}, "no such zone"),
        ("day", {"time_zone": "../etc"}, "no such zone"),
        ("day", {"time_zone": "Europe"}, "no such zone"),
        ("offset", {}, "the lake has a column offset of its own"),
        ("day,Date", {}, "the lake has a column Date of its own"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(partition_by, more, why):
    with pytest.raises(LakeRefused, match=why):
        parse_layout(partition_by, **{"time_zone": "UTC", "event_time": "", "json": True, **more})


def test_more_groups_than_are_sensible_are_refused():
    table = a_table(*[0] * 10_001, id=pa.array(range(10_001)))
    with pytest.raises(LakeRefused, match="makes 10,001 folders"):
        grouped(table, Layout(("id",)))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "a", "b", ""])), min_size=1, max_size=30))
def test_every_row_is_in_one_group_and_each_group_in_the_rows_order(rows):
    table = a_table(*[hour * HOUR for hour, _ in rows], f=pa.array([text for _, text in rows], pa.string()))
    found = grouped(table, Layout(("f", "hour")))
    assert sorted(row for _, part in found for row in part) == list(range(len(rows)))
    assert all(part == sorted(part) for _, part in found)
    for values, part in found:
        assert {(rows[row][1] or None, f"{rows[row][0]:02d}") for row in part} == {(values[0], values[2])}


def test_a_field_whose_folders_readers_pass_over_does_not_divide_plain_files(tmp_path):
    options = {"json": True, "partition_by": "_type"}
    with pytest.raises(LakeRefused, match="pass over folders whose names begin with _"):
        load_settings(["t"], tmp_path, options)
    assert load_settings(["t"], tmp_path, {**options, "format": "delta"}).shape.layout.fields == ("_type",)
