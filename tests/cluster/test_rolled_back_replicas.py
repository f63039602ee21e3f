"""A broker registers with an older state of a log directory: replicas in it neither lead nor count as in sync."""

from __future__ import annotations

from clusters import Decisions, a_cluster, create, led_by, register, topic_id

from ottla.cluster.broker_commands import AcceptedStore, FenceBroker, RolledBack
from ottla.cluster.commands import ElectLeader
from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch
from ottla.metadata.broker_state import HeldDirectory
from ottla.metadata.snapshot import load_snapshot, take_snapshot

T = topic_id("t")
HELD = HeldDirectory("a directory", bytes(range(16)))


def stopped(*brokers: int, replicas: int = 3, **configs: str) -> Decisions:
    """A topic of one partition, led by broker 1; these brokers stop one after the other."""
    cluster = a_cluster(1, 2, 3)
    cluster.do(create("t", 3, replicas, **configs))
    for broker in brokers:
        stop(cluster, broker)
    return cluster


def stop(cluster: Decisions, broker: int) -> None:
    cluster.do(FenceBroker(BrokerId(broker), cluster.epoch(broker), stopped=True), by=broker)


def come_back(cluster: Decisions, broker: int, index: int, *found: str, expected: str = "lost") -> None:
    """With an older directory that holds one partition."""
    rolled_back = RolledBack(((T, (index,)),), found, expected)
    cluster.do(register(broker)._replace(rolled_back=(rolled_back,)))


def test_it_leaves_the_in_sync_set_in_the_append_of_the_registration():
    cluster = stopped()
    index = led_by(cluster, 1)
    come_back(cluster, 1, index)
    after = cluster.partition("t", index)
    assert after.leader in (2, 3) and set(after.in_sync) == {2, 3} and after.eligible == ()
    assert after.awaited == ""


def test_it_leads_nothing_where_all_others_are_down():
    cluster = stopped(**{"min.insync.replicas": "3"})
    index = led_by(cluster, 1)
    for broker in (1, 2, 3):
        stop(cluster, broker)
    assert cluster.partition("t", index).in_sync == (3,)
    come_back(cluster, 3, index)
    waiting = cluster.partition("t", index)
    assert waiting.leader == NO_LEADER and waiting.in_sync == () and set(waiting.eligible) == {1, 2}
    assert waiting.awaited == ""
    cluster.do(register(2))
    assert cluster.partition("t", index).leader == 2


def test_the_last_one_waits_and_the_snapshot_says_for_what():
    cluster = stopped(replicas=1)
    index = led_by(cluster, 2)
    come_back(cluster, 2, index, "old", expected="lost+")
    for state in (cluster.state, load_snapshot(take_snapshot(cluster.state))):
        waiting = state.partition(T, index)
        assert waiting is not None
        assert (waiting.leader, waiting.in_sync, waiting.last_known, waiting.awaited) == (NO_LEADER, (), (2,), "lost+")
    cluster.do(register(2))  # the copy again, as it is the one that is known now
    assert cluster.partition("t", index).leader == NO_LEADER


def test_the_directory_that_is_awaited_brings_it_back():
    cluster = stopped(replicas=1)
    index = led_by(cluster, 2)
    come_back(cluster, 2, index, "old", expected="lost+")
    come_back(cluster, 2, index, "lost", expected="the copy")
    assert cluster.partition("t", index).leader == NO_LEADER  # of that run, but from before its clean close
    come_back(cluster, 2, index, "lost", "lost+", expected="the copy")
    back = cluster.partition("t", index)
    assert (back.leader, back.in_sync, back.last_known, back.awaited) == (2, (2,), (), "")


def test_an_administrator_accepts_the_older_one():
    cluster = stopped(replicas=1)
    index = led_by(cluster, 2)
    come_back(cluster, 2, index, "old")
    cluster.do(ElectLeader("t", index, unclean=True))
    accepted = cluster.partition("t", index)
    assert (accepted.leader, accepted.in_sync, accepted.awaited) == (2, (2,), "")
    come_back(cluster, 2, index, "lost")  # the lost directory is back, and older
    assert cluster.partition("t", index).leader == NO_LEADER


def test_the_last_that_was_in_sync_is_taken_first_by_an_unclean_election():
    cluster = stopped()
    index = led_by(cluster, 3)
    for broker in (1, 2, 3):
        stop(cluster, broker)
    last = cluster.partition("t", index).in_sync
    cluster.do(register(1))
    cluster.do(register(2))
    come_back(cluster, 3, index, "old")
    assert last == (3,)
    cluster.do(ElectLeader("t", index, unclean=True))
    assert cluster.partition("t", index).leader == 3


def test_a_replica_that_waits_already_waits_on_when_it_is_found_damaged():
    cluster = stopped(replicas=1)
    index = led_by(cluster, 2)
    come_back(cluster, 2, index, "old")
    cluster.do(register(2, damaged=((T, (index,)),)))
    waiting = cluster.partition("t", index)
    assert (waiting.last_known, waiting.awaited) == ((2,), "lost")


def test_what_is_known_of_directories_is_in_the_state_and_its_snapshot():
    cluster = a_cluster(1, 2)
    cluster.do(register(1)._replace(held=(HELD,)))
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1), stopped=True, closed=("a directory", "another")), by=1)
    for state in (cluster.state, load_snapshot(take_snapshot(cluster.state))):
        assert state.brokers[BrokerId(1)].held == (HELD._replace(closed=True),)
    cluster.do(register(1)._replace(held=(HELD,)))
    assert cluster.state.brokers[BrokerId(1)].held == (HELD,)


def test_numbers_go_on_far_beyond_those_of_a_store_that_was_lost():
    cluster = stopped()
    index = led_by(cluster, 1)
    before, producers = cluster.partition("t", index), cluster.state.next_producer_id
    newest = ((T, index, LeaderEpoch(70)),)
    cluster.do(register(2)._replace(accepted_store=AcceptedStore(newest)))
    after = cluster.partition("t", index)
    assert after.leader == before.leader  # in a new epoch
    assert after.leader_epoch > 70 + 10_000
    assert after.partition_epoch == before.partition_epoch + 1
    assert cluster.state.next_producer_id > producers + 1_000_000
