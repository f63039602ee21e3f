"""A load warns where retention may delete records before they are loaded."""

import time

import pytest

from ottla.client.blocking.cluster import Cluster
from ottla.lake.rounds.past_due import overdue, past_due
from ottla.records.reader import Record
from ottla.rows.plan import OffsetRange
from ottla.rows.selection import Selection
from ottla.rows.survey import FetchRetries, Survey

NEW_YEAR = 1_356_998_400_000


@pytest.mark.parametrize(("first_kept", "old"), [(-1, 6), (4, 0), (0, 0), (7, 3), (50, 6)])
def test_offsets_in_front_of_the_first_young_record_are_overdue(first_kept, old):
    assert overdue(OffsetRange("t", 0, 4, 10), first_kept) == old


def sentences(bootstrap, topic, start, end, now_ms):
    with Cluster(bootstrap) as cluster:
        survey = Survey(cluster, Selection(topics=(topic,)), read_committed=True, retries=FetchRetries())
        return past_due((OffsetRange(topic, 0, start, end),), survey, now_ms)


def test_history_with_its_own_timestamps_is_warned_of_where_the_topic_keeps_a_week(bootstrap, topics):
    now_ms = time.time_ns() // 1_000_000
    topic = topics.new(retention_ms="604800000")
    topics.fill(topic, 0, [Record(0, now_ms, None, b"x")])
    assert sentences(bootstrap, topic, 0, 1, now_ms) == []
    (told,) = sentences(bootstrap, topic, 0, 1, now_ms + 8 * 86_400_000)
    assert told.startswith(f"1 record of {topic} not loaded yet has a timestamp older")
    assert "retention.ms (7 days)" in told and f"ottla topic alter {topic} --config retention.ms=-1" in told


@pytest.mark.parametrize("configs", [{"retention_ms": "-1"}, {"cleanup_policy": "compact"}])
def test_a_topic_without_retention_by_time_is_not_warned_of(bootstrap, topics, configs):
    topic = topics.new(**configs)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", b"x")])
    assert sentences(bootstrap, topic, 0, 1, time.time_ns() // 1_000_000) == []


def test_a_cluster_that_does_not_tell_costs_the_warning_alone(bootstrap):
    with Cluster(bootstrap) as cluster:
        survey = Survey(cluster, Selection(topics=("none",)), read_committed=True, retries=FetchRetries(attempts=0))
        assert past_due((OffsetRange("no-such-topic", 0, 0, 5),), survey, 0) == []
