"""A broker goes on after a log directory has failed; replicas in it neither lead nor count as in sync."""

from __future__ import annotations

from clusters import Decisions, a_cluster, create, led_by, register, topic_id

from ottla.cluster.broker_commands import BringOnline, FenceBroker, TakeOffline, UnfenceBroker
from ottla.cluster.commands import AlterReassignment, ChangeInSync, ElectLeader, ReplicaEpoch
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_LEADER, BrokerId
from ottla.metadata.snapshot import load_snapshot, take_snapshot

T = topic_id("t")


def a_topic(replicas: int, **configs: str) -> Decisions:
    cluster = a_cluster(1, 2, 3)
    cluster.do(create("t", 4, replicas, **configs))
    return cluster


def lose(cluster: Decisions, index: int, broker: int) -> None:
    cluster.do(TakeOffline(((T, (index,)),)), by=broker)


def test_another_in_sync_replica_leads_and_the_set_is_smaller():
    cluster = a_topic(3)
    index = led_by(cluster, 1)
    before = cluster.partition("t", index)
    lose(cluster, index, 1)
    after = cluster.partition("t", index)
    assert after.leader in (2, 3)
    assert set(after.in_sync) == {2, 3}
    assert after.offline == (1,)
    assert after.leader_epoch == before.leader_epoch + 1
    assert all(cluster.partition("t", other).offline == () for other in range(4) if other != index)


def test_all_that_is_lost_is_one_append_and_said_once():
    cluster = a_topic(3)
    command = TakeOffline(((T, (0, 1, 2, 3)),))
    assert len(cluster.do(command, by=1)) == 1
    assert cluster.ask(command, by=1) == []


def test_the_last_in_sync_stays_so_and_does_not_lead():
    cluster = a_topic(1)
    index = led_by(cluster, 1)
    lose(cluster, index, 1)
    after = cluster.partition("t", index)
    assert (after.leader, after.in_sync, after.offline) == (NO_LEADER, (1,), (1,))


def test_nothing_that_happens_to_brokers_lets_it_lead():
    cluster = a_topic(2)
    index = led_by(cluster, 1)
    other = next(one for one in cluster.partition("t", index).replicas if one != 1)
    cluster.do(FenceBroker(BrokerId(other), cluster.epoch(other)))
    lose(cluster, index, 1)
    assert cluster.partition("t", index).leader == NO_LEADER
    cluster.do(FenceBroker(BrokerId(1), cluster.epoch(1)), by=3)
    cluster.do(UnfenceBroker(BrokerId(1), cluster.epoch(1)), by=1)
    cluster.do(UnfenceBroker(BrokerId(other), cluster.epoch(other)), by=other)
    cluster.do(register(other))
    assert cluster.partition("t", index).leader == NO_LEADER
    for unclean in (False, True):
        outcome = cluster.ask(ElectLeader("t", index, unclean))
        assert not isinstance(outcome, list) or all(
            one.leader != 1 for body in outcome for one in body.partitions
        )  # fmt: skip


def test_it_joins_no_in_sync_set():
    cluster = a_topic(3)
    index = led_by(cluster, 2)
    lose(cluster, index, 1)
    state = cluster.partition("t", index)
    wanted = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in (1, 2, 3))
    refused = cluster.refused(ChangeInSync(T, index, state.leader_epoch, state.partition_epoch, wanted), by=2)
    assert refused.code == ErrorCode.INELIGIBLE_REPLICA


def test_it_stays_eligible_where_the_set_became_too_small():
    """Nothing is committed below min.insync.replicas, so the failed directory holds everything (KIP-966)."""
    cluster = a_topic(3, min_insync_replicas="3")
    index = led_by(cluster, 1)
    lose(cluster, index, 1)
    assert cluster.partition("t", index).eligible == (1,)


def test_the_last_in_sync_leads_once_it_is_online():
    cluster = a_topic(1)
    index = led_by(cluster, 1)
    lose(cluster, index, 1)
    before = cluster.partition("t", index)
    command = BringOnline(((T, (index,)),))
    assert cluster.ask(command, by=2) == []
    cluster.do(command, by=1)
    after = cluster.partition("t", index)
    assert (after.leader, after.in_sync, after.offline) == (1, (1,), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert cluster.ask(command, by=1) == []


def test_one_that_is_online_while_another_leads_may_join_again():
    cluster = a_topic(3)
    index = led_by(cluster, 2)
    lose(cluster, index, 1)
    before = cluster.partition("t", index)
    cluster.do(BringOnline(((T, (index,)),)), by=1)
    state = cluster.partition("t", index)
    assert (state.leader, state.leader_epoch, state.offline) == (2, before.leader_epoch, ())
    assert set(state.in_sync) == {2, 3}
    wanted = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in (1, 2, 3))
    cluster.do(ChangeInSync(T, index, state.leader_epoch, state.partition_epoch, wanted), by=2)
    assert set(cluster.partition("t", index).in_sync) == {1, 2, 3}


def test_one_that_comes_back_short_waits_for_one_that_is_eligible():
    """It may lack what the other one has; where there is no other it is the best there is."""
    cluster = a_topic(2, min_insync_replicas="2")
    index = led_by(cluster, 1)
    other = next(one for one in cluster.partition("t", index).replicas if one != 1)
    cluster.do(FenceBroker(BrokerId(other), cluster.epoch(other)))
    lose(cluster, index, 1)
    before = cluster.partition("t", index)
    assert (before.in_sync, before.eligible) == ((1,), (other,))
    cluster.do(BringOnline(((T, (index,)),), short=((T, (index,)),)), by=1)
    after = cluster.partition("t", index)
    assert (after.leader, after.in_sync, after.eligible) == (NO_LEADER, (), (other,))


def test_a_registration_says_what_is_offline_now():
    cluster = a_topic(1)
    index = led_by(cluster, 1)
    lose(cluster, index, 1)
    cluster.do(register(1)._replace(offline=((T, (index,)),)))
    assert cluster.partition("t", index).leader == NO_LEADER
    cluster.do(register(1))
    after = cluster.partition("t", index)
    assert (after.leader, after.offline) == (1, ())


def test_what_could_not_be_opened_at_a_start_leads_no_more():
    cluster = a_topic(3)
    index = led_by(cluster, 1)
    cluster.do(register(1)._replace(offline=((T, (index,)),)))
    after = cluster.partition("t", index)
    assert after.leader in (2, 3)
    assert (after.offline, set(after.in_sync)) == ((1,), {2, 3})


def test_a_replica_that_is_placed_elsewhere_is_not_offline_any_more():
    cluster = a_topic(1)
    index = led_by(cluster, 1)
    cluster.do(create("u", 1, 2))
    cluster.do(TakeOffline(((topic_id("u"), (0,)),)), by=cluster.partition("u").leader)
    gone = cluster.partition("u").offline[0]
    others = tuple(BrokerId(one) for one in (1, 2, 3) if one != gone)
    cluster.do(AlterReassignment("u", 0, others))
    state = cluster.partition("u")
    in_sync = tuple(ReplicaEpoch(BrokerId(one), cluster.epoch(one)) for one in others)
    cluster.do(ChangeInSync(state.topic_id, 0, state.leader_epoch, state.partition_epoch, in_sync), by=state.leader)
    assert set(cluster.partition("u").replicas) == set(others)
    assert cluster.partition("u").offline == ()
    assert cluster.partition("t", index).offline == ()


def test_a_snapshot_keeps_what_is_offline_and_the_ids_of_directories():
    cluster = a_topic(3)
    cluster.do(register(2)._replace(directories=("A" * 22, "B" * 22)))
    lose(cluster, 0, 1)
    again = load_snapshot(take_snapshot(cluster.state))
    assert again.brokers[BrokerId(2)].directories == ("A" * 22, "B" * 22)
    assert again.partition(T, 0) == cluster.partition("t", 0)
