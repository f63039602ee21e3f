"""Counts by window of event time, on an executor and added up."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import TopicPartition
from ottla.lake.columns import windows
from ottla.lake.columns.json_columns import EVENT_TIME
from ottla.lake.columns.layout import Layout
from ottla.lake.columns.windows import (
    MOST_WINDOWS,
    OLDER,
    WINDOW_US,
    LeftOut,
    Tally,
    WindowCounter,
    added,
    tallies_from_json,
    window_start,
)
from ottla.lake.notes.history import complete_through, late_of
from ottla.lake.notes.plans import Commit, LoadPlan, Publication, RangeCount
from ottla.rows.arrow import TYPES
from ottla.rows.plan import OffsetRange
from ottla.stores import LakeRefused

COLUMNS = ("key", "value", "partition", "offset", "timestamp")
BY_TIME = Layout()
TIMES = st.integers(-(1 << 60), 1 << 60)


def a_batch(times, *, partition=0, first=0, value=b"vv"):
    count = len(times)
    columns = ([b"k"] * count, [value] * count, [partition] * count, list(range(first, first + count)), times)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, TYPES[name]) for name, column in zip(COLUMNS, columns, strict=True)], list(COLUMNS)
    )


def rows_of(batch, places):
    return pa.Table.from_batches([batch]).take(pa.array(places, pa.int64()))


def counted(times, good, layout=BY_TIME, events=None):
    counter = WindowCounter(layout)
    batch = a_batch(times)
    rows = rows_of(batch, good)
    if events is not None:
        rows = rows.append_column(EVENT_TIME, pa.array(events, pa.int64()))
    counter.add(batch, rows)
    return counter.tally()


@given(st.lists(st.tuples(TIMES, st.booleans()), min_size=1, max_size=40))
def test_every_record_counts_once_in_its_window(records):
    good = [place for place, (_, living) in enumerate(records) if living]
    tally = counted([time for time, _ in records], good)
    rows = Counter(time // WINDOW_US for time, living in records if living)
    dead = Counter(time // WINDOW_US for time, living in records if not living)
    assert tally.windows == tuple(sorted(rows | dead))
    assert tally.rows == tuple(rows[window] for window in tally.windows)
    assert tally.dead == tuple(dead[window] for window in tally.windows)
    assert tally.bytes == tuple(3 * (rows[window] + dead[window]) for window in tally.windows)
    assert tally.latest == {0: max(time for time, _ in records)}


TALLIES = st.lists(
    st.dictionaries(st.integers(-50, 50), st.tuples(*[st.integers(0, 1 << 40)] * 3), max_size=8), max_size=6
)


def a_tally(counts, latest=()):
    columns = [tuple(counts[window][place] for window in sorted(counts)) for place in range(3)]
    return Tally(tuple(sorted(counts)), *columns, dict(latest))


@given(TALLIES)
def test_counts_are_additive_in_any_order(parts):
    tallies = [a_tally(part, {0: number}) for number, part in enumerate(parts)]
    whole = added(tallies)
    assert whole == added(reversed(tallies)) == added([added(tallies[:2]), added(tallies[2:])])
    assert sum(whole.rows) == sum(count[0] for part in parts for count in part.values())
    assert Tally.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_dead_letters_count_by_the_records_time_where_rows_count_by_the_events():
    day = 144 * WINDOW_US
    tally = counted([5 * day, 5 * day, 6 * day], [0, 2], Layout(event_time="at"), [day, 0])
    assert dict(zip(tally.windows, zip(tally.rows, tally.dead, strict=True), strict=True)) == {
        0: (1, 0),
        144: (1, 0),
        720: (0, 1),
    }
    assert tally.latest == {0: day}


def test_a_partition_of_dead_letters_alone_has_no_event_time():
    assert counted([7, 8], [], Layout(event_time="at"), []).latest == {}


def test_wild_times_do_not_make_the_state_grow_for_ever():
    counter = WindowCounter(Layout())
    step = 5_000
    for first in range(0, MOST_WINDOWS + step, step):
        batch = a_batch(np.arange(first, first + step) * WINDOW_US)
        counter.add(batch, rows_of(batch, range(step)))
    tally = counter.tally()
    assert len(tally.windows) == MOST_WINDOWS
    assert tally.windows[0] == OLDER and sum(tally.rows) == MOST_WINDOWS + step
    assert window_start(OLDER).year == 1


def test_late_records_are_those_of_windows_that_the_slowest_partition_had_passed():
    span = OffsetRange("t", 0, 0, 4)
    plan = LoadPlan(1, (span,))
    tally = Tally((0, 1, 2, 3), (1, 2, 4, 8), (0, 0, 0, 0), (9, 9, 9, 9))
    publication = Publication(plan, (), (), (RangeCount(span, 15, 15),), windows={"t": tally, "new": tally})
    before = Commit(0, latest={TopicPartition("t", 0): 2 * WINDOW_US + 5, TopicPartition("t", 1): 9 * WINDOW_US})
    assert complete_through(before) == {"t": 2 * WINDOW_US + 5}
    late = late_of(publication, before)
    assert late["t"].rows == (1, 2) and set(late) == {"t"}
    assert before.after(publication).latest == before.latest


def test_damaged_counts_are_refused():
    with pytest.raises(LakeRefused, match="no counts by window"):
        tallies_from_json({"t": [[1], [2]]})
    with pytest.raises(LakeRefused, match="no counts by window"):
        tallies_from_json([])


def test_filtered_records_are_no_dead_letters_and_stay_counted_when_added_up_and_written_down():
    counter = WindowCounter(BY_TIME)
    batch = a_batch([0, WINDOW_US, WINDOW_US + 1, WINDOW_US + 2])
    counter.add(batch, rows_of(batch, [0]), LeftOut(np.array([1, 3]), np.array([0, 0])))
    tally = counter.tally()
    assert (tally.windows, tally.rows, tally.dead, tally.filtered) == ((0, 1), (1, 0), (0, 1), (0, 2))
    assert tally.records == (1, 3) and tally.latest == {0: WINDOW_US + 2}
    both = added([tally, Tally((1, 2), (5, 1), (0, 0), (9, 9))])
    assert (both.rows, both.filtered, both.records) == ((1, 5, 1), (0, 2, 0), (1, 8, 1))
    assert Tally.from_json(json.loads(json.dumps(both.to_json()))) == both
    assert both.since(1).filtered == (2, 0) and Tally((0,), (1,), (0,), (9,)).records == (1,)


def test_a_filtered_record_counts_in_the_window_of_its_event_time():
    counter = WindowCounter(Layout(("day",), "UTC", "at"))
    batch = a_batch([5, 6])
    rows = rows_of(batch, [0]).append_column(EVENT_TIME, pa.array([3 * WINDOW_US], pa.int64()))
    counter.add(batch, rows, LeftOut(np.array([1]), np.array([7 * WINDOW_US])))
    tally = counter.tally()
    assert (tally.windows, tally.rows, tally.filtered) == ((3, 7), (1, 0), (0, 1))
    assert tally.latest == {0: 7 * WINDOW_US}


def test_missing_keys_and_values_have_no_bytes_also_in_a_part_of_a_column():
    column = pa.array([b"ab", None, b"", b"xyz"])
    assert windows._lengths(column).tolist() == [2, 0, 0, 3]
    assert windows._lengths(column.slice(1, 2)).tolist() == [0, 0]
    assert windows._lengths(pa.array([], pa.binary())).tolist() == []
