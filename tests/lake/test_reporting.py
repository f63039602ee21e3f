"""What a loader tells others: its lag as a consumer group."""

import pytest

from ottla.client.blocking_consumer import Consumer
from ottla.client.consuming import ConsumerSettings
from ottla.kernel.ids import TopicPartition
from ottla.lake.state import LakeRecords
from ottla.lake.stores import open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def shown(topics, group):
    return {each: commit.offset for each, commit in topics.cluster.committed_offsets(group).items()}


def test_the_lag_of_a_lake_shows_in_a_consumer_group(load, topics, tmp_path):
    topic = topics.new(2)
    topics.count(topic, 0, 5)
    topics.count(topic, 1, 3)
    load(topic)
    (name,) = [group.group_id for group in topics.admin.list_groups() if group.group_id.startswith("ottla-lake-")]
    committed = LakeRecords(open_store((tmp_path / "lake").as_uri())).committed()
    assert shown(topics, name) == committed.offsets == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 3}
    topics.count(topic, 0, 2, start=5)
    load(topic, max_offsets=1)
    assert shown(topics, name)[TopicPartition(topic, 0)] == 7


def test_the_group_may_be_named_and_is_told_again_where_it_was_lost(load, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    load(topic, group="mine")
    load(topic, group="another")
    assert shown(topics, "mine") == shown(topics, "another") == {TopicPartition(topic, 0): 5}


def test_a_group_that_has_members_is_left_alone_and_fails_no_load(load, topics, bootstrap, caplog):
    topic = topics.new()
    topics.count(topic, 0, 5)
    with Consumer(bootstrap, consumer=ConsumerSettings("taken", enable_auto_commit=False)) as member:
        member.subscribe([topic])
        while not member.assignment:
            member.poll()
        assert load(topic, group="taken").rows == 5
    assert "do not show in group taken" in caplog.text
    assert shown(topics, "taken") == {}
