"""Markers of complete months, days and hours, and their late records."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import TopicPartition
from ottla.lake.columns.layout import Layout
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.windows import OLDER, WINDOW_US, Tally, window_start
from ottla.lake.notes.history import Forgotten, History
from ottla.lake.notes.plans import Commit, LoadPlan, Publication
from ottla.lake.readers import topic_schema
from ottla.lake.reports.markers import LoaderMarkers, marker_name
from ottla.lake.reports.periods import Periods, closed, counts_by_period
from ottla.records.reader import Record
from ottla.stores import LakeRefused, open_store

DAY = 144
DAY_US = DAY * WINDOW_US
EMPTY = History(Commit(), Forgotten(), ())
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"])


@given(st.sampled_from(["month", "day", "hour"]), ZONES, st.integers(0, 150 * 365 * DAY))
def test_every_window_of_a_period_begins_before_the_period_ends(unit, zone, window):
    periods = Periods(unit, zone)
    period = periods.of_window(window)
    begins = (window_start(window) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert begins < periods.end_us(period)
    assert periods.end_us(period) - begins <= {"month": 32, "day": 2, "hour": 1}[unit] * DAY_US
    assert periods.next(period) > period


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 24), ("Europe/Berlin", 25)])
def test_the_day_on_which_clocks_are_set_back_is_longer(zone, hours):
    begin = datetime(2025, 10, 26, tzinfo=ZoneInfo(zone))
    end = Periods("day", zone).end_us(("2025-10-26",))
    assert end == (begin.astimezone(UTC) + timedelta(hours=hours)).timestamp() * 1e6


@given(st.dictionaries(st.integers(-(10**7), 10**7), st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_no_record_is_lost_between_windows_and_periods(counts):
    windows = tuple(sorted(counts))
    rows, dead = (tuple(counts[window][place] for window in windows) for place in range(2))
    found = counts_by_period(Tally((OLDER, *windows), (5, *rows), (0, *dead), (0,) * (len(windows) + 1)), DAYS)
    assert sum(count.rows for count in found.values()) == sum(rows)
    assert sum(count.dead for count in found.values()) == sum(dead)


DAYS = Periods("day", "UTC")


def test_a_period_is_closed_at_its_end_and_one_at_the_calendars_end_never():
    given = [("1970-01-01",), ("1970-01-02",), ("9999-12-31",)]
    assert list(closed(given, DAYS, DAY_US - 1)) == []
    assert list(closed(given, DAYS, DAY_US)) == [("1970-01-01",)]
    assert list(closed(given, DAYS, 1 << 62)) == [("1970-01-01",), ("1970-01-02",)]


def names(*partition_by, **shape):
    return marker_name(
        LakeShape(layout=Layout(partition_by), **shape), "t", ("2013-01-31", "07")[: 1 + ("hour" in partition_by)]
    )


def test_a_marker_lies_in_its_folder_where_that_is_one_of_time_alone():
    assert names("day") == "topic=t/date=2013-01-31/_COMPLETE"
    assert names("hour", "f") == "topic=t/date=2013-01-31/hour=07/_COMPLETE"
    assert names("f", "day") == names() == names("day", format="delta") == "_ottla/complete/t/date=2013-01-31.json"


def a_round(number, counts, dead=0):
    windows = tuple(sorted(counts))
    rows = tuple(counts[window] for window in windows)
    letters = tuple(dead if window == windows[0] else 0 for window in windows)
    return Publication(LoadPlan(number, ()), (), (), (), windows={"t": Tally(windows, rows, letters, rows)})


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path.as_uri())


def body(store, day):
    stored = store.read(f"topic=t/date={day}/_COMPLETE")
    return None if stored is None else json.loads(stored)


def test_a_day_is_marked_once_it_is_over_and_late_records_make_a_new_body(store):
    markers = LoaderMarkers(store, LakeShape(), EMPTY)
    markers.committed(a_round(0, {0: 5, DAY - 1: 2, DAY: 1}, dead=1))
    assert markers.caught_up(Commit(0), DAY_US) == 0 and body(store, "1970-01-01") is None
    assert markers.caught_up(Commit(0), DAY_US + WINDOW_US) == 1
    first = {
        "topic": "t",
        "period": "date=1970-01-01",
        "rows": 7,
        "dead": 1,
        "late": 0,
        "complete_through": "1970-01-02T00:00:00Z",
        "round": 0,
    }
    assert body(store, "1970-01-01") == first and body(store, "1970-01-02") is None
    assert markers.caught_up(Commit(0), DAY_US + WINDOW_US) == 0
    markers.committed(a_round(1, {3: 4}))
    assert markers.caught_up(Commit(1), DAY_US + 2 * WINDOW_US) == 1
    assert body(store, "1970-01-01") == {
        **first,
        "rows": 11,
        "late": 4,
        "complete_through": "1970-01-02T00:10:00Z",
        "round": 1,
    }


def test_a_loader_that_starts_again_goes_on_with_the_markers_that_stand(store):
    rounds = (a_round(0, {0: 5}), a_round(1, {0: 2}))
    first = LoaderMarkers(store, LakeShape(), EMPTY)
    first.committed(rounds[0])
    first.caught_up(Commit(0), 2 * DAY_US)
    for lost in ([], ["_ottla/complete/t/_index.json"]):
        store.remove(lost)
        history = History(Commit(1), Forgotten(), rounds)
        assert LoaderMarkers(store, LakeShape(), history).caught_up(Commit(1), 3 * DAY_US) == (1 if not lost else 0)
        assert (body(store, "1970-01-01")["rows"], body(store, "1970-01-01")["late"]) == (7, 2)


def test_by_an_event_field_the_newest_event_says_how_far_a_topic_is(store):
    shape = LakeShape(values="json", layout=Layout(event_time="at"))
    markers = LoaderMarkers(store, shape, EMPTY)
    markers.committed(a_round(0, {0: 5, DAY: 1}))
    now = 20_000 * DAY_US
    at = {TopicPartition("t", 0): DAY_US - 1, TopicPartition("t", 1): 7}
    assert markers.caught_up(Commit(0, latest=at), now) == 0
    assert markers.caught_up(Commit(0, latest={**at, TopicPartition("t", 1): DAY_US}), now) == 1
    assert body(store, "1970-01-02") is None


def test_a_damaged_marker_is_named(store):
    store.create("topic=t/date=1970-01-01/_COMPLETE", b"{")
    markers = LoaderMarkers(store, LakeShape(), EMPTY)
    markers.committed(a_round(0, {0: 5}))
    with pytest.raises(LakeRefused, match="_COMPLETE is damaged"):
        markers.caught_up(Commit(0), 2 * DAY_US)


@pytest.mark.spark
@pytest.mark.slow
def test_a_load_with_markers_is_read_as_one_without(load, topics, spark, tmp_path):
    import pyarrow.dataset

    topic = topics.new()
    topics.fill(topic, 0, [Record(0, day * 86_400_000, None, b'{"n": 1}') for day in (1, 1, 2)])
    load(topic, json=True, markers=True)
    folder = tmp_path / f"lake/topic={topic}"
    marks = {path.parent.name: json.loads(path.read_text())["rows"] for path in folder.glob("*/_COMPLETE")}
    assert marks == {"date=1970-01-02": 2, "date=1970-01-03": 1}
    topics.fill(topic, 0, [Record(0, 86_400_000, None, b'{"n": 1}')])
    load(topic, json=True, markers=True)
    late = json.loads((folder / "date=1970-01-02/_COMPLETE").read_text())
    assert (late["rows"], late["late"]) == (3, 1)
    schema = topic_schema(tmp_path / "lake", topic).columns
    assert pyarrow.dataset.dataset(folder, schema=schema).to_table().num_rows == 4
    assert spark.read.parquet(str(folder)).count() == 4
