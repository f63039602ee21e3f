"""Registration, fencing, draining, elections, in-sync sets: rules A4, A6, A7 and A8."""

from __future__ import annotations

import pytest
from clusters import Decisions, a_cluster, create, register, topic_id

from ottla.cluster import brokers
from ottla.cluster.broker_commands import BringOnline, DrainBroker, FenceBroker, UnfenceBroker, UnregisterBroker
from ottla.cluster.caretaker import EARLY_PATIENCE_MS, PATIENCE_MS, BrokerIncarnation, Caretaker
from ottla.cluster.command_order import may_share_append
from ottla.cluster.commands import (
    AllocateProducerIds,
    ChangeInSync,
    Command,
    CommandWriter,
    DeposeShortLeader,
    ElectLeader,
    RaiseMetadataVersion,
    ReplicaEpoch,
    ResignLeadership,
    WithdrawReplica,
)
from ottla.cluster.decide import decide
from ottla.cluster.partitions import LONGEST_LEADS, waits_for_longest, without_damaged
from ottla.cluster.upkeep import Upkeep
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import NO_LEADER, TopicId
from ottla.metadata.entries import BrokerFenced, BrokerRegistered, ClusterCreated, FeatureLevelSet, PartitionsChanged
from ottla.metadata.partition_state import NEVER_UNCLEAN
from ottla.metadata.snapshot import load_snapshot, take_snapshot
from ottla.metadata.state import Metadata


def replicated(replicas: int = 3, **configs: str) -> Decisions:
    """One partition of `replicas` replicas, led by broker 1."""
    decisions = a_cluster(*range(1, replicas + 1))
    command = create("orders", -1, -1, **configs)._replace(assignment=(tuple(range(1, replicas + 1)),))
    decisions.do(command)
    return decisions


def fence(decisions: Decisions, number: int) -> None:
    decisions.do(FenceBroker(number, decisions.epoch(number)))


def proposal(decisions: Decisions, *in_sync: int, **other: int) -> ChangeInSync:
    partition = decisions.partition("orders")
    return ChangeInSync(
        topic_id("orders"),
        0,
        other.get("leader_epoch", partition.leader_epoch),
        other.get("partition_epoch", partition.partition_epoch),
        tuple(ReplicaEpoch(number, decisions.epoch(number)) for number in in_sync),
    )


def test_the_first_registration_makes_the_cluster_in_the_same_append():
    decisions = Decisions()
    entries = decisions.do(register(1))
    assert [type(entry) for entry in entries] == [ClusterCreated, FeatureLevelSet, BrokerRegistered]
    assert decisions.state.cluster_id == "a-cluster"
    assert [type(entry) for entry in decisions.do(register(2))] == [BrokerRegistered]


def test_the_version_of_the_registration_is_the_broker_epoch():
    decisions = a_cluster(1)
    assert decisions.epoch(1) == 3
    decisions.do(register(2))
    assert decisions.epoch(2) == 4
    decisions.do(register(1))
    assert decisions.epoch(1) == 5


def test_a_registration_ends_every_leadership_of_the_last_incarnation():
    decisions = replicated()
    before = decisions.partition("orders")
    entries = decisions.do(register(1))
    after = decisions.partition("orders")
    assert [type(entry) for entry in entries] == [BrokerRegistered, PartitionsChanged]
    assert after.leader == 1
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_a_registration_leaves_the_leaderships_of_others_alone():
    decisions = replicated()
    before = decisions.partition("orders")
    decisions.do(register(2))
    assert decisions.partition("orders") == before


def test_a_damaged_replica_neither_leads_nor_counts():
    decisions = replicated()
    decisions.do(register(1, damaged=[(topic_id("orders"), (0,))]))
    partition = decisions.partition("orders")
    assert partition.leader == 2
    assert partition.in_sync == (2, 3)


def test_a_partition_whose_only_replica_is_damaged_has_no_leader():
    decisions = replicated(1)
    decisions.do(register(1, damaged=[(topic_id("orders"), (0,))]))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.last_known) == (NO_LEADER, (), (1,))


def test_a_replica_that_could_not_be_opened_leaves_the_set_while_another_one_counts():
    decisions = replicated()
    decisions.do(register(1)._replace(unreadable=((TopicId(topic_id("orders")), (0,)),)))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.offline) == (2, (2, 3), ())


def test_the_last_replica_stays_offline_where_it_could_not_be_opened_although_another_one_left_just_before():
    """Seed 235734 of three brokers: as it looked, the other was eligible still."""
    decisions = replicated(2, min_insync_replicas="2")
    for number in (1, 2):
        fence(decisions, number)
    assert (decisions.partition("orders").in_sync, decisions.partition("orders").eligible) == ((2,), (1,))
    decisions.do(register(1, short=[(topic_id("orders"), (0,))]))
    decisions.do(register(2)._replace(unreadable=((TopicId(topic_id("orders")), (0,)),)))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.offline) == (NO_LEADER, (2,), (2,))
    decisions.do(BringOnline(((TopicId(topic_id("orders")), (0,)),)), by=2)
    assert decisions.partition("orders").leader == 2


def test_a_short_replica_leaves_the_set_unless_it_is_the_last():
    decisions = replicated(2)
    decisions.do(register(1, short=[(topic_id("orders"), (0,))]))
    assert (decisions.partition("orders").leader, decisions.partition("orders").in_sync) == (2, (2,))
    decisions.do(register(2, short=[(topic_id("orders"), (0,))]))
    assert (decisions.partition("orders").leader, decisions.partition("orders").in_sync) == (2, (2,))


@pytest.mark.parametrize("how", ["short", "damaged"])
def test_a_broker_that_lacks_more_than_fits_into_an_entry_registers(how: str):
    decisions = replicated()
    many = [(number.to_bytes(16, "big"), (0,)) for number in range(20_000)]
    decisions.do(register(1, **{how: [*many, (topic_id("orders"), (0,))]}))
    assert decisions.partition("orders").in_sync == (2, 3)


def test_where_all_come_back_short_the_last_of_those_who_may_lead_leads():
    decisions = replicated(min_insync_replicas="2")
    for number in (1, 2, 3):
        fence(decisions, number)
    assert (decisions.partition("orders").in_sync, decisions.partition("orders").eligible) == ((3,), (2,))
    decisions.do(register(3, short=[(topic_id("orders"), (0,))]))
    decisions.do(register(2, short=[(topic_id("orders"), (0,))]))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync) == (2, (2,))


def test_a_fence_elects_the_next_in_sync_replica_in_the_order_of_assignment():
    decisions = replicated()
    entries = decisions.do(FenceBroker(1, decisions.epoch(1)), by=2)
    assert [type(entry) for entry in entries] == [BrokerFenced, PartitionsChanged]
    partition = decisions.partition("orders")
    assert (partition.leader, partition.leader_epoch, partition.in_sync) == (2, 1, (2, 3))


def test_a_fenced_follower_leaves_the_set_and_the_leader_epoch_stays():
    decisions = replicated()
    fence(decisions, 3)
    partition = decisions.partition("orders")
    assert (partition.leader, partition.leader_epoch, partition.in_sync) == (1, 0, (1, 2))
    assert partition.partition_epoch == 1


def test_the_last_in_sync_replica_stays_in_the_set_and_leads_again_when_it_is_back():
    decisions = replicated()
    for number in (1, 2):
        fence(decisions, number)
    decisions.do(FenceBroker(3, decisions.epoch(3)), by=3)
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync) == (NO_LEADER, (3,))
    decisions.do(register(1))
    assert decisions.partition("orders").leader == NO_LEADER
    decisions.do(register(3))
    assert decisions.partition("orders").leader == 3


def test_leavers_below_the_minimum_stay_eligible_and_may_lead():
    """Nothing is committed below min.insync.replicas, so they hold every committed record (rule A6)."""
    decisions = replicated(min_insync_replicas="2")
    fence(decisions, 1)
    assert decisions.partition("orders").eligible == ()
    fence(decisions, 2)
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.eligible) == (3, (3,), (2,))
    decisions.do(FenceBroker(3, decisions.epoch(3)), by=3)
    decisions.do(register(1))
    assert decisions.partition("orders").leader == NO_LEADER
    decisions.do(register(2))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.eligible) == (2, (2,), (3,))


def test_nobody_stays_eligible_once_the_set_is_large_enough_again():
    decisions = replicated(min_insync_replicas="2")
    fence(decisions, 1)
    fence(decisions, 2)
    decisions.do(register(2))
    decisions.do(proposal(decisions, 3, 2), by=3)
    assert decisions.partition("orders").eligible == ()


def test_an_incomplete_replica_leads_only_where_that_is_allowed():
    for allowed, leader in (("false", NO_LEADER), ("true", 1)):
        decisions = replicated(2, unclean_leader_election_enable=allowed)
        fence(decisions, 1)
        decisions.do(FenceBroker(2, decisions.epoch(2)), by=2)
        decisions.do(register(1))
        partition = decisions.partition("orders")
        assert partition.leader == leader
        assert partition.in_sync == ((1,) if leader == 1 else (2,))


@pytest.mark.parametrize(
    ("started_with", "eligible"), [(("2", "2", "2"), (2,)), (("2", "1", "2"), ()), ((None, "2", "2"), ())]
)
def test_what_all_brokers_were_started_with_counts_where_nothing_else_is_said(started_with, eligible):
    """The smallest value counts: a replica that wrongly stays eligible could lead without committed records."""
    decisions = Decisions()
    for number, value in enumerate(started_with, 1):
        options = {} if value is None else {"min_insync_replicas": value}
        decisions.do(register(number, **options))
    decisions.do(create("orders", -1, -1)._replace(assignment=((1, 2, 3),)))
    fence(decisions, 1)
    fence(decisions, 2)
    assert decisions.partition("orders").eligible == eligible


def test_brokers_that_were_all_started_so_elect_uncleanly():
    for values, leader in ((("true", "true"), 1), (("true", "false"), NO_LEADER)):
        decisions = Decisions()
        for number, value in enumerate(values, 1):
            decisions.do(register(number, unclean_leader_election_enable=value))
        decisions.do(create("orders", -1, -1)._replace(assignment=((1, 2),)))
        fence(decisions, 1)
        decisions.do(FenceBroker(2, decisions.epoch(2)), by=2)
        decisions.do(register(1, unclean_leader_election_enable=values[0]))
        assert decisions.partition("orders").leader == leader


def test_an_unfenced_broker_leads_what_waited_for_it():
    decisions = replicated(1)
    decisions.do(FenceBroker(1, decisions.epoch(1)), by=1)
    assert decisions.partition("orders").leader == NO_LEADER
    decisions.do(UnfenceBroker(1, decisions.epoch(1)))
    partition = decisions.partition("orders")
    assert partition.leader == 1
    assert partition.leader_epoch == 2


def test_a_fence_of_another_incarnation_is_refused():
    decisions = replicated()
    epoch = decisions.epoch(1)
    decisions.do(register(1))
    assert decisions.refused(FenceBroker(1, epoch), by=2).code == ErrorCode.STALE_BROKER_EPOCH
    assert decisions.state.is_live(1)


def test_who_is_not_registered_or_is_fenced_decides_nothing():
    decisions = replicated(2)
    stranger = CommandWriter(9, 1)
    assert isinstance(decide(create("new"), decisions.state, stranger), ApiError)
    old = CommandWriter(1, decisions.epoch(1))
    decisions.do(register(1))
    assert isinstance(decide(create("new"), decisions.state, old), ApiError)
    fence(decisions, 2)
    refused = decisions.refused(create("new"), by=2)
    assert refused.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_draining_broker_hands_over_what_others_can_lead():
    decisions = replicated()
    decisions.do(create("alone", -1, -1)._replace(assignment=((1,),)))
    decisions.do(DrainBroker(1, decisions.epoch(1)))
    assert decisions.partition("orders").leader == 2
    assert decisions.partition("orders").in_sync == (2, 3)
    assert decisions.partition("alone").leader == 1
    assert decisions.refused(proposal(decisions, 2, 3, 1), by=2).code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_changes_its_in_sync_set():
    decisions = replicated()
    decisions.do(proposal(decisions, 1, 3))
    partition = decisions.partition("orders")
    assert (partition.in_sync, partition.partition_epoch, partition.leader_epoch) == ((1, 3), 1, 0)
    decisions.do(proposal(decisions, 1, 2, 3))
    assert decisions.partition("orders").in_sync == (1, 2, 3)
    assert decisions.ask(proposal(decisions, 1, 2, 3)) == []


@pytest.mark.parametrize(
    ("in_sync", "other", "by", "code"),
    [
        ((1, 2), {"leader_epoch": 7}, 1, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": 7}, 1, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {}, 2, ErrorCode.FENCED_LEADER_EPOCH),
        ((2, 3), {}, 1, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_proposal_of_who_does_not_lead_or_knows_too_little_is_refused(in_sync, other, by, code):
    decisions = replicated()
    decisions.do(register(4))
    assert decisions.refused(proposal(decisions, *in_sync, **other), by=by).code == code


def test_an_incarnation_that_is_gone_does_not_join():
    decisions = replicated()
    decisions.do(proposal(decisions, 1, 2))
    stale = proposal(decisions, 1, 2, 3)
    decisions.do(register(3))
    assert decisions.refused(stale).code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_resigns_to_another_in_sync_replica_and_stays_in_the_set():
    decisions = replicated()
    before = decisions.partition("orders")
    decisions.do(ResignLeadership(topic_id("orders"), 0, before.leader_epoch), by=1)
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.leader_epoch) == (2, (1, 2, 3), before.leader_epoch + 1)
    again = ResignLeadership(topic_id("orders"), 0, before.leader_epoch)
    assert decisions.refused(again, by=1).code == ErrorCode.FENCED_LEADER_EPOCH
    assert decisions.refused(again, by=2).code == ErrorCode.FENCED_LEADER_EPOCH


def withdrawn(decisions, by):
    return WithdrawReplica(topic_id("orders"), 0, decisions.partition("orders").leader_epoch), by


def test_a_follower_that_withdraws_is_in_no_set_and_what_it_has_said_is_no_receipt():
    decisions = replicated()
    before = decisions.partition("orders")
    command, by = withdrawn(decisions, 3)
    decisions.do(command, by=by)
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.eligible) == (1, (1, 2), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert decisions.refused(command, by=3).code == ErrorCode.FENCED_LEADER_EPOCH
    assert decisions.ask(withdrawn(decisions, 3)[0], 3) == [], "it is out already"


def test_one_that_withdraws_is_not_eligible_where_few_are_left_in_sync():
    decisions = replicated(min_insync_replicas="3")
    fence(decisions, 2)
    assert decisions.partition("orders").eligible == (2,)
    decisions.do(*withdrawn(decisions, 3))
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.eligible) == (1, (1,), (2,))


def test_a_leader_does_not_withdraw_nor_does_anybody_where_nobody_leads():
    decisions = replicated()
    assert decisions.refused(*withdrawn(decisions, 1)).code == ErrorCode.FENCED_LEADER_EPOCH
    for number in (2, 3, 1):
        fence(decisions, number)
    decisions.do(register(3))
    assert decisions.partition("orders").leader == NO_LEADER
    assert decisions.refused(*withdrawn(decisions, 3)).code == ErrorCode.FENCED_LEADER_EPOCH
    unknown = WithdrawReplica(topic_id("none"), 0, 0)
    assert decisions.refused(unknown, by=3).code == ErrorCode.UNKNOWN_TOPIC_ID


def deposed(decisions):
    return DeposeShortLeader(topic_id("orders"), 0, decisions.partition("orders").leader_epoch)


def test_a_leader_that_lacks_what_was_committed_leaves_the_sets_and_another_leads():
    decisions = replicated()
    before, command = decisions.partition("orders"), deposed(decisions)
    decisions.do(command, by=3)
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.eligible) == (2, (2, 3), ())
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.unclean_epoch == before.unclean_epoch
    assert decisions.refused(command, by=3).code == ErrorCode.FENCED_LEADER_EPOCH, "it is done"
    assert decisions.refused(deposed(decisions), by=2).code == ErrorCode.FENCED_LEADER_EPOCH, "nobody deposes itself"
    assert decisions.refused(deposed(decisions), by=1).code == ErrorCode.INELIGIBLE_REPLICA, "what it knows may be old"


def test_an_eligible_replica_deposes_a_leader_that_was_alone_in_sync():
    decisions = replicated(min_insync_replicas="2")
    for number in (2, 3):
        fence(decisions, number)
    decisions.do(register(3))
    partition = decisions.partition("orders")
    assert (partition.leader, partition.in_sync, partition.eligible) == (1, (1,), (3,))
    decisions.do(deposed(decisions), by=3)
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.eligible) == (3, (3,), ())


def test_a_leader_deposed_by_the_last_eligible_broker_as_it_stops_is_followed_by_it_once_it_is_back():
    decisions = replicated(min_insync_replicas="2")
    for number in (2, 3):
        fence(decisions, number)
    decisions.do(register(3))
    decisions.do(DrainBroker(3, decisions.epoch(3)), by=3)
    decisions.do(deposed(decisions), by=3)
    waiting = decisions.partition("orders")
    assert (waiting.leader, waiting.in_sync, waiting.eligible) == (NO_LEADER, (), (3,))
    assert without_damaged(waiting, 3).last_known == (3,), "an administrator is told whom to ask for"
    decisions.do(register(2))
    assert decisions.partition("orders").leader == NO_LEADER, "broker 2 may lack what was committed"
    decisions.do(register(3))
    after = decisions.partition("orders")
    assert (after.leader, after.in_sync, after.eligible) == (3, (3,), ())


def test_the_last_one_in_sync_cannot_resign():
    decisions = replicated()
    for number in (2, 3):
        fence(decisions, number)
    partition = decisions.partition("orders")
    assert partition.in_sync == (1,)
    refused = decisions.refused(ResignLeadership(topic_id("orders"), 0, partition.leader_epoch), by=1)
    assert refused.code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_the_preferred_leader_comes_back_when_it_is_asked_for_and_in_sync():
    decisions = replicated()
    fence(decisions, 1)
    decisions.do(register(1))
    wanted = ElectLeader("orders", 0, unclean=False)
    assert decisions.refused(wanted).code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    decisions.do(proposal(decisions, 1, 2, 3), by=2)
    decisions.do(wanted)
    assert decisions.partition("orders").leader == 1
    assert decisions.refused(wanted).code == ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_is_for_partitions_without_a_leader():
    decisions = replicated(2)
    wanted = ElectLeader("orders", 0, unclean=True)
    assert decisions.refused(wanted).code == ErrorCode.ELECTION_NOT_NEEDED
    fence(decisions, 1)
    decisions.do(register(3))
    decisions.do(FenceBroker(2, decisions.epoch(2)), by=3)
    assert decisions.refused(wanted, by=3).code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    decisions.do(register(1))
    decisions.do(wanted, by=3)
    assert (decisions.partition("orders").leader, decisions.partition("orders").in_sync) == (1, (1,))


def two_incomplete(**configs: str) -> Decisions:
    """Brokers 1 and 2 have come back, and broker 3, which alone was in sync, dies."""
    decisions = replicated(3, **configs)
    for number in (1, 2):
        decisions.do(FenceBroker(number, decisions.epoch(number)), by=3)
    for number in (1, 2):
        decisions.do(register(number))
    decisions.do(FenceBroker(3, decisions.epoch(3)), by=1)
    return decisions


def test_where_several_incomplete_replicas_live_they_are_asked_before_one_leads():
    decisions = two_incomplete(unclean_leader_election_enable="true")
    state, topic = decisions.state, decisions.state.topic("orders")
    assert decisions.partition("orders").leader == NO_LEADER
    assert waits_for_longest(decisions.partition("orders"), state, topic)
    decisions.do(ElectLeader("orders", 0, unclean=True, if_allowed=True, longest=(2, 1)), by=1)
    assert (decisions.partition("orders").leader, decisions.partition("orders").in_sync) == (2, (2,))
    assert not waits_for_longest(decisions.partition("orders"), state, topic)


def test_where_it_is_not_allowed_nobody_is_asked_and_none_leads():
    decisions = two_incomplete()
    assert not waits_for_longest(decisions.partition("orders"), decisions.state, decisions.state.topic("orders"))
    wanted = ElectLeader("orders", 0, unclean=True, if_allowed=True, longest=(2, 1))
    assert decisions.refused(wanted, by=1).code == ErrorCode.ELECTION_NOT_NEEDED


def test_the_last_incomplete_replica_that_lives_leads_at_once():
    decisions = two_incomplete(unclean_leader_election_enable="true")
    decisions.do(FenceBroker(2, decisions.epoch(2)), by=1)
    assert decisions.partition("orders").leader == 1


def test_a_replica_that_has_died_since_it_was_asked_is_passed_over():
    decisions = two_incomplete()
    decisions.do(ElectLeader("orders", 0, unclean=True, longest=(3, 2, 1)), by=1)
    assert decisions.partition("orders").leader == 2


def test_an_order_of_logs_is_not_used_once_the_partition_has_changed():
    """Another broker has led meanwhile, and may have written to another log."""
    decisions = two_incomplete()
    asked_at = decisions.partition("orders").partition_epoch
    wanted = ElectLeader("orders", 0, unclean=True, longest=(2, 1), asked_at=asked_at)
    decisions.do(register(3))
    decisions.do(FenceBroker(3, decisions.epoch(3)), by=1)
    assert decisions.partition("orders").leader == NO_LEADER
    assert decisions.refused(wanted, by=1).code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    decisions.do(wanted._replace(asked_at=decisions.partition("orders").partition_epoch), by=1)
    assert decisions.partition("orders").leader == 2


def test_while_an_older_broker_is_left_the_first_incomplete_replica_leads_at_once(monkeypatch):
    """A caretaker of an older release would not ask the replicas."""
    monkeypatch.setattr(brokers, "LATEST_METADATA_VERSION", LONGEST_LEADS - 1)
    assert two_incomplete(unclean_leader_election_enable="true").partition("orders").leader == 1


def test_an_unclean_election_is_remembered_by_its_leader_epoch_and_a_clean_one_forgets_nothing():
    decisions = replicated(2)
    fence(decisions, 1)
    assert decisions.partition("orders").unclean_epoch == NEVER_UNCLEAN
    decisions.do(register(3))
    decisions.do(FenceBroker(2, decisions.epoch(2)), by=3)
    decisions.do(register(1))
    decisions.do(ElectLeader("orders", 0, unclean=True), by=3)
    unclean = decisions.partition("orders").leader_epoch
    assert decisions.partition("orders").unclean_epoch == unclean
    decisions.do(register(2))
    decisions.do(proposal(decisions, 1, 2), by=1)
    fence(decisions, 1)
    after = decisions.partition("orders")
    assert (after.leader, after.leader_epoch, after.unclean_epoch) == (2, unclean + 1, unclean)
    assert load_snapshot(take_snapshot(decisions.state)).partition(after.topic_id, 0) == after


def test_an_unregistered_broker_is_fenced_first():
    decisions = replicated()
    decisions.do(UnregisterBroker(1), by=2)
    assert 1 not in decisions.state.brokers
    assert decisions.partition("orders").leader == 2
    assert decisions.refused(UnregisterBroker(1), by=2).code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_blocks_of_producer_ids_never_overlap_and_survive_restarts():
    decisions = a_cluster(1, 2)
    given: list[int] = []
    for by in (1, 2, 1):
        (block,) = decisions.do(AllocateProducerIds(100), by=by)
        given += range(block.first, block.first + block.count)
        decisions.do(register(by))
    assert len(set(given)) == 300


def test_a_broker_of_an_older_release_does_not_join_a_cluster_at_a_later_level():
    decisions = a_cluster(1)
    decisions.state.apply(decisions.state.version + 1, FeatureLevelSet(name="metadata.version", level=99))
    refused = decisions.refused(register(2))
    assert refused.code == ErrorCode.UNSUPPORTED_VERSION
    assert "metadata.version 99" in refused.message


def of_releases(*levels: int) -> Decisions:
    """Brokers 1, 2, ... that each support a metadata.version; the first has made the cluster."""
    decisions = a_cluster(*range(1, len(levels) + 1))
    for entry in decisions.entries:
        if isinstance(entry, FeatureLevelSet):
            entry.level = levels[0]
        elif isinstance(entry, BrokerRegistered):
            entry.metadata_version = levels[entry.broker_id - 1]
    decisions.state = Metadata()
    for version, entry in enumerate(decisions.entries, 1):
        decisions.state.apply(version, entry)
    return decisions


def raised(decisions: Decisions) -> list[Command]:
    return Upkeep(balances=False, interval_ms=1, factors={}).turn(decisions.state, first=True, now_ms=0)


def test_the_level_is_raised_once_every_registered_broker_knows_it():
    decisions = of_releases(1, 2, 1)
    fence(decisions, 1)
    decisions.do(register(1), by=2)
    assert raised(decisions) == [], "broker 3 does not know it"
    fence(decisions, 3)
    assert raised(decisions) == [], "it may come back as it was"
    assert decisions.refused(RaiseMetadataVersion(2), by=2).code == ErrorCode.UNSUPPORTED_VERSION
    decisions.do(register(3), by=3)
    assert raised(decisions) == [RaiseMetadataVersion(2)]
    decisions.do(RaiseMetadataVersion(2), by=2)
    assert decisions.state.metadata_version() == 2
    assert raised(decisions) == decisions.do(RaiseMetadataVersion(2), by=2) == []


def test_nobody_is_fenced_early_while_a_broker_is_left_that_does_not_know_of_it():
    decisions = of_releases(1, 2, 2)
    state, everybody = decisions.state, frozenset({1, 2, 3})
    refusing = frozenset({BrokerIncarnation(1, decisions.epoch(1))})
    assert Caretaker(2).turn(state, everybody, decisions.epoch(2), 0, refusing) == []
    early = FenceBroker(1, decisions.epoch(1), early=True)
    assert decisions.refused(early, by=2).code == ErrorCode.UNSUPPORTED_VERSION
    decisions.do(UnregisterBroker(1), by=2)
    decisions.do(register(1), by=2)
    for command in raised(decisions):
        decisions.do(command, by=2)
    refusing = frozenset({BrokerIncarnation(1, decisions.epoch(1))})
    early = FenceBroker(1, decisions.epoch(1), early=True)
    assert Caretaker(2).turn(state, everybody, decisions.epoch(2), 0, refusing) == [early]
    decisions.do(early, by=2)


def test_the_caretaker_fences_at_once_and_the_others_wait_for_their_turn():
    decisions = a_cluster(1, 2, 3, 4)
    state, live = decisions.state, frozenset({1, 2, 3})
    for number, delay_ms in ((1, 0), (2, PATIENCE_MS), (3, 2 * PATIENCE_MS)):
        caretaker = Caretaker(number)
        wanted = [FenceBroker(4, decisions.epoch(4))]
        epoch = decisions.epoch(number)
        if delay_ms:
            assert caretaker.turn(state, live, epoch, 1000) == []
            assert caretaker.turn(state, live, epoch, 1000 + delay_ms - 1) == []
        assert caretaker.turn(state, live, epoch, 1000 + delay_ms) == wanted


def test_a_broker_that_is_back_before_its_time_is_not_fenced():
    decisions = a_cluster(1, 2, 3)
    caretaker, epoch = Caretaker(2), decisions.epoch(2)
    assert caretaker.turn(decisions.state, frozenset({1, 2}), epoch, 0) == []
    assert caretaker.turn(decisions.state, frozenset({1, 2, 3}), epoch, 1500) == []
    assert caretaker.turn(decisions.state, frozenset({1, 2}), epoch, 2500) == []


def test_a_broker_that_finds_itself_fenced_asks_to_be_unfenced():
    decisions = a_cluster(1, 2)
    fence(decisions, 2)
    epoch = decisions.epoch(2)
    assert Caretaker(2).turn(decisions.state, frozenset({1, 2}), epoch, 0) == [UnfenceBroker(2, epoch)]


def test_only_commands_that_do_not_meet_share_an_append():
    assert may_share_append(create("a"), create("b"))
    assert not may_share_append(create("a.b"), create("a_b"))
    assert not may_share_append(create("a"), FenceBroker(1, 1))
    assert may_share_append(AllocateProducerIds(), ChangeInSync(b"x" * 16, 0, 0, 0, ()))
    assert not may_share_append(AllocateProducerIds(), AllocateProducerIds())
    assert not may_share_append(ChangeInSync(b"x" * 16, 0, 0, 0, ()), ChangeInSync(b"x" * 16, 0, 0, 1, ()))


def test_a_broker_that_refuses_is_fenced_early_by_the_first_who_is_left():
    decisions = a_cluster(1, 2, 3)
    state, everybody = decisions.state, frozenset({1, 2, 3})
    refusing = frozenset({BrokerIncarnation(1, decisions.epoch(1))})
    early = [FenceBroker(1, decisions.epoch(1), early=True)]
    assert Caretaker(2).turn(state, everybody, decisions.epoch(2), 0, refusing) == early
    third, epoch = Caretaker(3), decisions.epoch(3)
    assert third.turn(state, everybody, epoch, 0, refusing) == []
    assert third.turn(state, everybody, epoch, EARLY_PATIENCE_MS, refusing) == early


def test_who_refuses_and_has_lost_its_session_is_fenced_as_ever():
    decisions = a_cluster(1, 2, 3)
    refusing = frozenset({BrokerIncarnation(3, decisions.epoch(3))})
    fences = Caretaker(1).turn(decisions.state, frozenset({1, 2}), decisions.epoch(1), 0, refusing)
    assert fences == [FenceBroker(3, decisions.epoch(3))]


def test_an_early_fence_is_remembered_until_the_broker_is_back():
    decisions = a_cluster(1, 2, 3)
    epoch = decisions.epoch(2)
    decisions.do(FenceBroker(2, epoch, early=True))
    assert decisions.state.brokers[2].fenced_early
    assert load_snapshot(take_snapshot(decisions.state)).brokers[2].fenced_early
    decisions.do(UnfenceBroker(2, epoch), by=2)
    assert not decisions.state.brokers[2].fenced_early


def test_neither_a_draining_broker_nor_one_that_has_come_up_anew_is_fenced_early():
    decisions = a_cluster(1, 2, 3)
    old = BrokerIncarnation(3, decisions.epoch(3) - 1)
    decisions.do(DrainBroker(2, decisions.epoch(2)), by=2)
    refusing = frozenset({old, BrokerIncarnation(2, decisions.epoch(2))})
    assert Caretaker(1).turn(decisions.state, frozenset({1, 2, 3}), decisions.epoch(1), 0, refusing) == []
