"""A plan was begun, and cannot be read any more as planned: topics or records were deleted meanwhile."""

import pytest
from killed_loader import Killed, killed

from ottla import lake
from ottla.kernel.ids import TopicPartition
from ottla.lake.rounds.loader import Loader
from ottla.records.reader import Record

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW_YEAR = 1_356_998_400_000


@pytest.fixture
def begin(load, monkeypatch):
    """Load until the plan is written, and no further."""

    def begun(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(Loader, "_carry_out", killed)
            with pytest.raises(Killed):
                load(*arguments, **options)

    return begun


def deleted(topics, topic, eventually):
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())


def test_a_plan_that_is_done_over_says_how_much_is_left_after_it(load, begin, topics):
    topic = topics.new()
    topics.count(topic, 0, 10)
    begin(topic, max_offsets=4)
    load(topic, max_offsets=4)
    told = [line for line in load.told if line.startswith("round ")]
    assert [line.rpartition("; ")[2] for line in told if "begun" not in line] == [
        "6 offsets behind",
        "2 offsets behind",
        "nothing is left",
    ]


def test_a_plan_is_done_over_without_a_topic_that_was_deleted(load, begin, topics, eventually):
    stays, goes = topics.new(), topics.new()
    topics.count(stays, 0, 3)
    topics.count(goes, 0, 4)
    begin(pattern=f"{stays}|{goes}")
    deleted(topics, goes, eventually)
    with pytest.raises(lake.LakeRefused, match=f"{goes}-0: its topic was deleted before round 0.*`accept_loss=True`"):
        load(pattern=f"{stays}|{goes}")
    loaded = load(pattern=f"{stays}|{goes}", accept_loss=True)
    assert (loaded.rows, loaded.lost) == (3, {TopicPartition(goes, 0): 4})
    topics.count(stays, 0, 2)
    assert load(pattern=f"{stays}|{goes}").rows == 2


def test_a_plan_of_nothing_but_a_deleted_topic_does_not_stop_the_lake(load, begin, topics, eventually):
    stays, goes = topics.new(), topics.new()
    topics.count(goes, 0, 4)
    begin(goes)
    deleted(topics, goes, eventually)
    topics.count(stays, 0, 3)
    assert load(stays, accept_loss=True).rows == 3


def test_a_topic_created_again_is_loaded_from_its_beginning_where_nothing_of_it_was_before(
    load, begin, topics, eventually
):
    topic = topics.new()
    topics.count(topic, 0, 4)
    begin(topic)
    deleted(topics, topic, eventually)
    topics.admin.create_topic(topic, 1)
    topics.cluster.refresh([topic])
    topics.count(topic, 0, 2)
    loaded = load(topic, accept_loss=True)
    assert (loaded.rows, loaded.lost) == (2, {TopicPartition(topic, 0): 4})


@pytest.mark.parametrize(("removed", "rows"), [(60, 40), (100, 0)])
def test_a_plan_is_done_over_without_records_that_retention_removed(load, begin, topics, removed, rows):
    topic = topics.new()
    topics.count(topic, 0, 100)
    begin(topic)
    topics.admin.delete_records({TopicPartition(topic, 0): removed})
    with pytest.raises(lake.LakeRefused, match=f"{topic}-0: retention deleted records before round 0"):
        load(topic)
    loaded = load(topic, accept_loss=True)
    assert (loaded.rows, loaded.lost) == (rows, {TopicPartition(topic, 0): removed})
    topics.count(topic, 0, 5)
    assert load(topic).rows == 5


@pytest.mark.parametrize("options", [{}, {"json": True}, {"format": "delta"}])
def test_a_partition_that_was_emptied_is_accepted_once(load, topics, options):
    topic = topics.new(2)
    for partition in (0, 1):
        topics.fill(topic, partition, [Record(0, NEW_YEAR, b"k", b'{"n":1}')] * 3)
    load(topic, **options)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", b'{"n":2}')] * 5)
    topics.admin.delete_records({TopicPartition(topic, 0): 8})
    with pytest.raises(lake.LakeRefused, match=f"retention deleted 5 offsets of {topic}-0 before.*`accept_loss=True`"):
        load(topic, **options)
    assert load(topic, accept_loss=True, **options).lost == {TopicPartition(topic, 0): 5}
    assert load(topic, **options).rows == 0
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", b'{"n":3}')])
    assert load(topic, **options).rows == 1


def test_losses_of_a_partition_that_was_empty_at_first_are_noticed(load, topics):
    topic = topics.new(2)
    topics.count(topic, 0, 3)
    load(topic)
    topics.count(topic, 1, 9)
    topics.admin.delete_records({TopicPartition(topic, 1): 4})
    with pytest.raises(lake.LakeRefused, match=f"retention deleted 4 offsets of {topic}-1 before.*`accept_loss=True`"):
        load(topic)
    assert load(topic, accept_loss=True).rows == 5
