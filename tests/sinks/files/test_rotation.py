"""When the files of a partition are finished."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ottla.connect import data
from ottla.connect.errors import DataException
from ottla.connect.records import SinkRecord
from ottla.sinks.files.partitioners import by_fields, by_time, next_rotation_ms, span_start, time_of
from ottla.sinks.files.rotation import Filling, Rotation

HOUR = 3_600_000


def a_filling(*, due_ms=None, **rotation):
    return Filling(Rotation(**{"flush_size": 3, **rotation}), due_ms)


def test_all_files_are_full_together_and_the_offset_behind_them_may_be_committed():
    filling = a_filling()
    filling.add("a", 10, None, None)
    filling.add("b", 11, None, None)
    assert (filling.is_full, filling.committable) == (False, 10)
    filling.add("a", 14, None, None)
    assert filling.is_full
    assert {name: (span.first, span.last) for name, span in filling.spans.items()} == {"a": (10, 14), "b": (11, 11)}
    filling.finished()
    assert (filling.count, filling.committable) == (0, 15)


def test_a_record_that_goes_into_no_file_is_committable_once_no_file_is_open():
    filling = a_filling()
    filling.pass_over(4)
    assert filling.committable == 5
    filling.add("a", 5, None, None)
    filling.pass_over(6)
    assert filling.committable == 5


def test_another_schema_in_the_same_folder_ends_the_files():
    filling = a_filling()
    filling.add("a", 0, data.STRING, None)
    assert not filling.ends_before("a", data.STRING, None, 0)
    assert not filling.ends_before("b", data.INT32, None, 0)
    assert filling.ends_before("a", data.INT32, None, 0)


def test_a_record_much_later_than_the_first_ends_the_files_and_on_s3_another_folder_too():
    for new_folder in (True, False):
        filling = a_filling(interval_ms=10, new_folder=new_folder)
        filling.add("a", 0, None, 100)
        assert not filling.ends_before("a", None, 109, 0)
        assert filling.ends_before("a", None, 110, 0)
        assert filling.ends_before("b", None, 101, 0) is new_folder


def test_the_clock_ends_files_of_a_schedule_and_an_interval_measured_by_it():
    filling = a_filling(due_ms=50)
    assert not filling.is_due(60)
    filling.add("a", 0, None, None)
    assert [filling.is_due(now) for now in (49, 50)] == [False, True]
    filling = a_filling(interval_ms=10, by_clock=True)
    filling.add("a", 0, None, 100)
    assert [filling.is_due(now) for now in (109, 110)] == [False, True]


def test_a_schedule_begins_anew_at_midnight_of_the_zone():
    vienna = ZoneInfo("Europe/Vienna")
    now = datetime(2026, 3, 28, 22, 30, tzinfo=UTC).timestamp() * 1000  # 23:30 there
    assert next_rotation_ms(int(now), 25 * 60_000, vienna) == now + 15 * 60_000
    assert next_rotation_ms(int(now), 7 * HOUR, vienna) == now + 30 * 60_000


def test_spans_count_from_local_midnight_also_where_clocks_are_changed():
    vienna = ZoneInfo("Europe/Vienna")
    at = int(datetime(2026, 10, 25, 22, 30, tzinfo=UTC).timestamp() * 1000)
    assert span_start(at, 24 * HOUR, vienna).isoformat() == "2026-10-25T00:00:00+02:00"
    assert span_start(at, HOUR, vienna).isoformat() == "2026-10-25T23:00:00+01:00"
    assert by_time("YYYY/MM/dd", 24 * HOUR, vienna)(None, at) == "2026/10/25"


def a_record(value, schema=None):
    return SinkRecord("t", 0, None, None, schema, value, 77)


def test_the_time_of_a_record_is_its_own_or_that_of_a_field():
    nested = data.struct([("at", data.TIMESTAMP_SCHEMA)])
    outer = data.struct([("in", nested)])
    value = data.Struct.of(outer, **{"in": data.Struct.of(nested, at=data.Instant(5))})
    assert time_of("Record", "")(a_record(1), 9) == 77
    assert time_of("Wallclock", "")(a_record(1), 9) == 9
    assert time_of("RecordField", "in.at")(a_record(value, outer), 9) == 5
    assert time_of("RecordField", "a.b")(a_record({"a": {"b": "1970-01-01T01:00:00.002+01:00"}}), 9) == 2


@pytest.mark.parametrize("value", [{"a": "soon"}, {"a": True}, {"a": None}, {"b": 1}, 3])
def test_a_record_without_a_time_in_its_field_is_refused(value):
    with pytest.raises(DataException, match="a"):
        time_of("RecordField", "a")(a_record(value), 9)


def test_folders_by_fields_show_values_as_java_does():
    schema = data.struct([("c", data.OPTIONAL_STRING), ("n", data.INT32), ("b", data.BOOLEAN)])
    record = a_record(data.Struct.of(schema, c=None, n=7, b=True), schema)
    assert by_fields(["c", "n", "b"], "/")(record, 0) == "c=null/n=7/b=true"


@pytest.mark.parametrize("value", ["a/../../etc", "a//b", "a\nb", 1.5, None])
def test_a_field_that_cannot_be_part_of_a_name_is_refused(value):
    with pytest.raises(DataException, match="the field c"):
        by_fields(["c"], "/")(a_record({"c": value}), 0)
