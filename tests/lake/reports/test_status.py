"""`ottla lake status` shows what is loaded of each topic, and up to which time it is complete."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernel.ids import TopicId, TopicPartition
from ottla.lake.columns.windows import WINDOW_US, Tally
from ottla.lake.commands.load import command
from ottla.lake.notes.history import Forgotten, History
from ottla.lake.notes.plans import Commit, LoadPlan, Publication, RangeCount
from ottla.lake.reports.status import Ends, TopicStatus, statuses, topic_complete_through, utc_text
from ottla.records.reader import Record
from ottla.rows.plan import OffsetRange

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW = 10**15


def test_the_slowest_partition_says_how_far_a_topic_is_complete():
    commit = Commit(0, {A0: 5, A1: 5}, latest={A0: 70, A1: 50})
    assert topic_complete_through("a", commit, None, NOW) == 50
    assert topic_complete_through("b", commit, None, NOW) is None


def test_a_partition_without_anything_new_counts_as_complete_only_where_the_cluster_says_so():
    commit = Commit(0, {A0: 5, A1: 5}, latest={A0: 70, A1: 50})
    quiet = Ends(90, {A0: 0, A1: 0}, {A0: 8, A1: 5})
    assert topic_complete_through("a", commit, quiet, NOW) == 70
    assert topic_complete_through("a", commit, Ends(90, {A0: 0, A1: 0}, {A0: 5, A1: 5}), NOW) == 90


def test_a_partition_never_loaded_is_complete_where_it_is_empty_and_unknown_where_not():
    commit = Commit(0, {A0: 5}, latest={A0: 70})
    assert topic_complete_through("a", commit, Ends(90, {A0: 0, A1: 3}, {A0: 6, A1: 3}), NOW) == 70
    assert topic_complete_through("a", commit, Ends(90, {A0: 0, A1: 3}, {A0: 6, A1: 4}), NOW) is None


def test_a_partition_whose_records_were_removed_unread_is_complete_up_to_what_was_loaded():
    commit = Commit(0, {A0: 5, A1: 5}, {"a": TopicId(b"0123456789abcdef")}, latest={A0: 70, A1: 80})
    ends = Ends(90, {A0: 9, A1: 5}, {A0: 9, A1: 5})
    assert topic_complete_through("a", commit, ends, NOW) == 70


def test_records_that_came_while_the_cluster_was_asked_are_not_overdue():
    ends = Ends(90, {A0: 0}, {A0: 5}, settled={A0: 7})
    assert ends.overdue(A0, Commit(0, {A0: 5})) == 0
    assert ends.overdue(A0, Commit(0, {A0: 2})) == 3


def test_a_time_in_the_future_counts_as_now():
    assert topic_complete_through("a", Commit(0, {A0: 5}, latest={A0: NOW + 5}), None, NOW) == NOW


@given(st.dictionaries(st.integers(0, 5), st.tuples(*[st.integers(0, 99)] * 4), min_size=1))
def test_asking_the_cluster_never_makes_a_topic_less_complete_than_its_lag_does(partitions):
    places = {TopicPartition("a", number): given for number, given in partitions.items()}
    commit = Commit(0, {each: offset for each, (offset, *_) in places.items()})
    commit = Commit(0, commit.offsets, latest={each: time for each, (_, time, *_) in places.items()})
    ends = Ends(NOW, dict.fromkeys(places, 0), {each: end for each, (_, _, end, _) in places.items()})
    alone, asked = (topic_complete_through("a", commit, each, NOW) for each in (None, ends))
    assert alone == min(time for _, time, *_ in places.values())
    assert asked >= alone
    lagging = [time for offset, time, end, _ in places.values() if end > offset]
    assert asked == min([NOW, *lagging])


def a_round(number, first, last, tally):
    span = OffsetRange("a", 0, first, last)
    rows, dead = sum(tally.rows), sum(tally.dead)
    counts = (RangeCount(span, rows + dead, rows, dead),)
    return Publication(LoadPlan(number, (span,)), (), (), counts, windows={"a": tally})


def test_rows_late_records_and_dead_letters_are_told():
    first = a_round(0, 0, 3, Tally((0, 5), (1, 1), (0, 1), (9, 9), {0: 5 * WINDOW_US}))
    second = a_round(1, 3, 7, Tally((4, 5), (2, 1), (1, 0), (9, 9), {0: 5 * WINDOW_US + 9}))
    committed = Commit().after(first).after(second)
    ends = Ends(NOW, {A0: 0}, {A0: 19}, {"a": b"0123456789abcdef"})
    assert statuses(History(committed, Forgotten(), (first, second)), ["a"], ends, NOW) == [
        TopicStatus("a", 5, 2, 12, 3, 2, "1970-01-01T00:50:00Z", newest_event="1970-01-01T00:50:00Z")
    ]
    later = Forgotten(Commit().after(first), first.windows)
    assert statuses(History(committed, later, (second,)), ["a"], None, NOW) == [
        TopicStatus("a", 5, 1, None, 3, 2, "1970-01-01T00:50:00Z", newest_event="1970-01-01T00:50:00Z")
    ]


def test_times_beyond_the_calendar_are_not_told():
    assert utc_text(1 << 62) is None
    assert utc_text(None) is None


def said(capsys, *arguments):
    assert command(["status", *map(str, arguments), "--format", "json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


@pytest.mark.slow
def test_the_status_of_a_lake_follows_its_loads(load, topics, bootstrap, tmp_path, capsys):
    topic = topics.new(2)
    fine = [Record(0, 1_000_000_000_000 + 600_000 * at, None, b'{"n": %d}' % at) for at in range(3)]
    topics.fill(topic, 0, [*fine, Record(0, 1_000_000_000_000, None, b"poison")])
    topics.fill(topic, 1, [Record(0, 1_000_000_600_000, None, b"{}")])
    load(topic, json=True, dead_letter=topics.new())
    lake = tmp_path / "lake"
    (alone,), _ = said(capsys, "--to", lake)
    assert alone == {
        "topic": topic,
        "rows": 4,
        "rounds": 1,
        "behind": None,
        "late": 0,
        "dead": 1,
        "complete_through": "2001-09-09T01:56:40Z",
        "filtered": 0,
        "newest_event": "2001-09-09T02:06:40Z",
    }
    (asked,), _ = said(capsys, "--to", lake, "-b", bootstrap)
    assert asked["behind"] == 0 and asked["complete_through"] > "2026"
    topics.fill(topic, 0, [Record(0, 1_000_000_000_000, None, b"{}"), Record(0, 1_000_000_600_000, None, b"{}")])
    (waiting,), _ = said(capsys, "--to", lake, "-b", bootstrap)
    assert (waiting["behind"], waiting["complete_through"]) == (2, "2001-09-09T02:06:40Z")
    load(topic, json=True, dead_letter=topics.new())
    (after,), _ = said(capsys, "--to", lake)
    assert (after["rows"], after["rounds"], after["late"], after["dead"]) == (6, 2, 1, 1)
    unreachable, told = said(capsys, "--to", lake, "-b", "localhost:1")
    assert unreachable[0]["behind"] is None and "how far the lake is behind is not known" in told
