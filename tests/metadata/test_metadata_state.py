"""Applying entries: the visible state, the versions of changed topics, and illegal entries."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.ids import NO_LEADER
from ottla.kernel.seams import StoredSnapshot
from ottla.metadata import entries as log
from ottla.metadata.partition_state import entry_of, partition_of
from ottla.metadata.snapshot import load_snapshot, split_partitions, take_snapshot
from ottla.metadata.state import ALL_BROKERS, BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, Metadata
from ottla.schema.codec import MalformedMessage

ORDERS = b"orders.........."


def applied(*bodies: log.Body, state: Metadata | None = None) -> Metadata:
    state = state or Metadata()
    for body in bodies:
        state.apply(state.version + 1, body)
    return state


def registered(number: int) -> log.BrokerRegistered:
    return log.BrokerRegistered(
        broker_id=number,
        incarnation=bytes([number]) * 16,
        host=f"host{number}",
        listeners=[log.ListenerEntry(name="PLAINTEXT", host="h", port=9092)],
    )


def partition(index: int, *, epoch: int = 0, leader: int = 1) -> log.PartitionEntry:
    return log.PartitionEntry(
        topic_id=ORDERS, partition=index, leader=leader, partition_epoch=epoch, replicas=[1, 2], in_sync=[1, 2]
    )


def a_topic(partitions: int = 2) -> list[log.Body]:
    return [
        log.TopicCreated(topic_id=ORDERS, name="orders", configs=[log.ConfigChange(name="retention.ms", value="5")]),
        log.PartitionsCreated(partitions=[partition(index) for index in range(partitions)]),
        log.TopicReady(topic_id=ORDERS),
    ]


def test_a_registrations_version_is_the_broker_epoch():
    state = applied(log.ClusterCreated(cluster_id="c"), registered(1), registered(2))
    assert (state.brokers[1].epoch, state.brokers[2].epoch) == (2, 3)


def test_the_caretaker_is_the_live_broker_of_the_lowest_epoch():
    state = applied(registered(1), registered(2))
    assert state.caretaker() == 1
    applied(registered(1), state=state)
    assert state.caretaker() == 2
    applied(log.BrokerFenced(broker_id=2, epoch=2), state=state)
    assert state.caretaker() == 1
    applied(log.BrokerFenced(broker_id=1, epoch=3), state=state)
    assert state.caretaker() == NO_LEADER


def test_a_fence_of_an_incarnation_that_is_gone_changes_nothing():
    state = applied(registered(1), registered(1), log.BrokerFenced(broker_id=1, epoch=1))
    assert not state.brokers[1].fenced


def test_a_draining_broker_is_live_but_not_active():
    state = applied(registered(1), log.BrokerDraining(broker_id=1, epoch=1))
    assert state.is_live(1)
    assert not state.is_active(1)


def test_a_topics_version_is_that_of_the_last_entry_that_touched_it():
    state = applied(*a_topic(), log.FeatureLevelSet(name="x", level=1))
    assert state.topic("orders").version == 3
    applied(log.PartitionsChanged(partitions=[partition(1, epoch=1, leader=2)]), state=state)
    assert state.topic("orders").version == 5
    changes = [log.ConfigChange(name="retention.ms", value="9")]
    applied(log.ConfigsSet(resource_type=TOPIC_RESOURCE, resource_name="orders", changes=changes), state=state)
    assert state.topic("orders").version == 6


def test_a_broker_that_comes_or_goes_touches_the_topics_of_which_it_has_replicas():
    """Metadata answers about these topics name offline replicas."""
    state = applied(registered(1), registered(2), registered(3), *a_topic())
    applied(log.BrokerFenced(broker_id=3, epoch=3), state=state)
    assert state.topic("orders").version == 6
    applied(log.BrokerFenced(broker_id=2, epoch=2), state=state)
    assert state.topic("orders").version == 8


def test_changes_name_what_was_touched_since_they_were_taken():
    state = applied(registered(1), *a_topic())
    changes = state.take_changes()
    assert changes.topics == {ORDERS}
    assert changes.brokers
    assert state.take_changes().topics == frozenset()
    set_for_all = log.ConfigsSet(
        resource_type=BROKER_RESOURCE, resource_name=ALL_BROKERS, changes=[log.ConfigChange(name="a", value="b")]
    )
    applied(set_for_all, log.TopicDeleted(topic_id=ORDERS), state=state)
    changes = state.take_changes()
    assert changes.configs == {(BROKER_RESOURCE, ALL_BROKERS)}
    assert changes.topics == {ORDERS}
    assert not changes.brokers


def test_options_of_groups_are_kept_and_go_when_the_last_is_taken_away():
    def edit(value: str | None) -> log.ConfigsSet:
        changes = [log.ConfigChange(name="consumer.session.timeout.ms", value=value)]
        return log.ConfigsSet(resource_type=GROUP_RESOURCE, resource_name="g", changes=changes)

    state = applied(edit("50000"))
    assert state.config(GROUP_RESOURCE, "g") == {"consumer.session.timeout.ms": "50000"}
    applied(edit(None), state=state)
    assert state.configs == {}


@pytest.mark.parametrize(
    "body",
    [
        log.PartitionsChanged(partitions=[partition(0, epoch=0)]),
        log.PartitionsCreated(partitions=[partition(7)]),
    ],
)
def test_an_entry_that_contradicts_the_state_stops_the_broker(body):
    with pytest.raises(InvariantBroken):
        applied(*a_topic(), body)


def test_a_partition_is_the_same_as_an_entry_and_as_a_state():
    entry = partition(3, epoch=4)
    entry.eligible, entry.adding, entry.removing, entry.last_known = [4], [5], [6], [7]
    assert entry_of(partition_of(entry)) == entry


def test_a_snapshot_cut_at_any_byte_is_refused_or_ends_between_entries():
    state = applied(registered(1), *a_topic())
    taken = take_snapshot(state)
    refused = 0
    for end in range(len(taken.body)):
        try:
            load_snapshot(StoredSnapshot(taken.version, taken.body[:end]))
        except MalformedMessage:
            refused += 1
    assert refused > len(taken.body) * 0.9
    assert take_snapshot(load_snapshot(taken)) == taken


def test_a_run_of_partitions_fits_into_an_entry_however_many_replicas_they_have():
    wide = partition_of(partition(0))._replace(replicas=tuple(range(200)), in_sync=tuple(range(200)))
    for many in ([wide] * 2000, [partition_of(partition(0))] * 9000):
        runs = list(split_partitions(many))
        assert sum(map(len, runs)) == len(many)
        for run in runs:
            data = log.encode_entry(log.PartitionsCreated(partitions=run), broker_epoch=1, sequence=1)
            assert len(data) <= log.ENTRY_LIMIT


def test_a_feature_at_another_level_is_a_change():
    state = applied(*a_topic())
    state.take_changes()
    assert not state.take_changes().any
    state.apply(state.version + 1, log.FeatureLevelSet(name="x", level=1))
    changes = state.take_changes()
    assert changes.features and changes.any
    assert not state.take_changes().any
