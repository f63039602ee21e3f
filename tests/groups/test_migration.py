"""Groups with members change their protocol: the moment, the entries, and the answers to members."""

from __future__ import annotations

from typing import Any

import pytest
from tests.groups.both_protocols import ALL, kinds, live, nobody_shares
from tests.groups.classic_client import ClassicClient, places
from tests.groups.consumer_desk import Client, ConsumerDesk, SomeTopics, error_of
from tests.groups.group_desk import offers, subscription

from ottla.client.consume.group_protocol import decode_assignment
from ottla.groups.entries import decode_entry
from ottla.groups.group import GroupState
from ottla.groups.values import Caller, ConsumerGroupSettings, MigrationPolicy
from ottla.kernel.errors import ErrorCode
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ottla.messages.group_records import GroupMetadataValue
from ottla.messages.join_group import JoinGroupRequestProtocol
from ottla.messages.leave_group import MemberIdentity

EAGER_AND_COOPERATIVE = pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])


def two_classic(desk: ConsumerDesk, *, cooperative: bool = False) -> tuple[ClassicClient, ClassicClient]:
    clients = ClassicClient(desk, cooperative=cooperative), ClassicClient(desk, cooperative=cooperative)
    live(desk, *clients)
    assert [len(places(client)) for client in clients] == [2, 2] and kinds(desk) == {"classic"}
    return clients


@EAGER_AND_COOPERATIVE
def test_a_group_is_rolled_to_the_consumer_protocol_and_back_member_by_member(cooperative: bool):
    desk = ConsumerDesk()
    members: list[Any] = list(two_classic(desk, cooperative=cooperative))
    seen = []
    for place in (0, 1):
        members[place].leave()
        members[place] = Client(desk, f"m{place}")
        live(desk, *members)
        assert set().union(*map(places, members)) == ALL
        seen.append(kinds(desk))
    for place in (0, 1):
        members[place].leave()
        members[place] = ClassicClient(desk, cooperative=cooperative)
        live(desk, *members)
        assert set().union(*map(places, members)) == ALL
        seen.append(kinds(desk))
    assert seen == [{"consumer"}, {"consumer"}, {"consumer"}, {"classic"}]
    assert desk.state() == "Stable"


@EAGER_AND_COOPERATIVE
def test_classic_members_stay_when_a_consumer_member_joins_and_leaves(cooperative: bool):
    desk = ConsumerDesk()
    first, second = two_classic(desk, cooperative=cooperative)
    ids = {first.member_id, second.member_id}
    third = Client(desk, "m")
    live(desk, first, second, third)
    assert kinds(desk) == {"consumer"} and desk.group().state_name == "Stable"
    assert sorted(len(places(client)) for client in (first, second, third)) == [1, 1, 2]
    assert set(desk.group().members) == ids | {"m"}
    third.leave()
    live(desk, first, second)
    assert kinds(desk) == {"classic"} and set(desk.shard.groups["g"].members) == ids
    assert places(first) | places(second) == ALL


def test_the_entries_of_both_kinds_stand_in_one_append_in_the_order_of_kafka():
    desk = ConsumerDesk()
    first, second = two_classic(desk)
    before = len(desk.log)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    decision = desk.shard.consumer_heartbeat(request, Caller("c", "/h", 1), desk.ticket(), desk.now)
    assert decision.whole, "a part of it would be another group"
    desk.carry_out(decision)
    names = [type(entry.key).__name__ for entry in map(_entry, desk.log[before:])]
    assert names[:9] == [
        "GroupMetadataKey",
        *["ConsumerGroupMemberMetadataKey"] * 2,
        "ConsumerGroupMetadataKey",
        *["ConsumerGroupTargetAssignmentMemberKey"] * 2,
        "ConsumerGroupTargetAssignmentMetadataKey",
        *["ConsumerGroupCurrentMemberAssignmentKey"] * 2,
    ]
    assert _entry(desk.log[before]).value is None, "the tombstone of the classic group"
    member = _entry(desk.log[before + 1]).value
    assert isinstance(member, ConsumerGroupMemberMetadataValue) and member.classic_member_metadata is not None
    assert member.classic_member_metadata.session_timeout_ms == 10_000
    assert [each.name for each in member.classic_member_metadata.supported_protocols] == ["eager"]
    before = len(desk.log)
    desk.beat("m", -1)
    *tombstones, last = map(_entry, desk.log[before:])
    assert all(entry.value is None for entry in tombstones)
    assert {getattr(entry.key, "member_id", None) for entry in tombstones} == {
        None, "m", first.member_id, second.member_id,
    }  # fmt: skip
    assert isinstance(last.value, GroupMetadataValue)
    assert (last.value.protocol_type, last.value.protocol, last.value.generation) == ("consumer", "eager", 2)
    held = [decode_assignment(each.assignment) for each in last.value.members]
    assert {tuple(place) for places in held for place in places} == ALL


def _entry(record: tuple[bytes, bytes | None]) -> Any:
    return decode_entry(*record)


# When


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_the_policy_decides_in_which_direction_a_group_may_go(policy: MigrationPolicy):
    desk = ConsumerDesk(migration_policy=policy)
    two_classic(desk)
    refused = error_of(desk.join_consumer("m")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused == (policy in (MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED))
    assert kinds(desk) == {"classic" if refused else "consumer"}
    other = ConsumerDesk(migration_policy=policy)
    other.join_consumer("m")
    classic = ClassicClient(other)
    live(other, classic, rounds=6)
    other.beat("m", -1)
    stays = policy in (MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED)
    assert kinds(other) == {"consumer" if stays else "classic"}
    live(other, classic)
    assert places(classic) == ALL


def test_a_group_of_another_protocol_type_stays_classic():
    desk = ConsumerDesk()
    desk.stable("c", protocol_type="connect")
    assert error_of(desk.join_consumer("m")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert kinds(desk) == {"classic"}


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1"])
def test_a_group_whose_members_cannot_be_read_stays_classic(metadata: bytes):
    desk = ConsumerDesk()
    offered = offers("range")
    offered[0].metadata = metadata
    member_id, slot = desk.join_by_id(protocols=offered)
    desk.pass_ms(0)
    desk.sync(member_id, slot.result().generation_id, {member_id: b""})
    assert error_of(desk.join_consumer("m")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.state() == "Stable"


def test_an_unreadable_member_is_refused_by_a_consumer_group():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    offered = offers("range")
    offered[0].metadata = b"\0\1\0"
    answer = desk.join("x", protocols=offered).result()
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL and set(desk.group().members) == {"m"}


def test_a_group_that_is_too_large_for_the_other_protocol_stays_what_it_is():
    desk = ConsumerDesk(consumer_max_size=1, max_size=1)
    classic = ClassicClient(desk)
    live(desk, classic)
    desk.join_consumer("m")
    assert kinds(desk) == {"classic"}, "two members are too many"
    desk = ConsumerDesk(max_size=1)
    desk.join_consumer("m")
    live(desk, ClassicClient(desk), ClassicClient(desk), rounds=8)
    desk.beat("m", -1)
    assert kinds(desk) == {"consumer"}


def test_an_upgrade_that_cannot_be_written_leaves_the_group_as_it_was():
    desk = ConsumerDesk()
    first, second = two_classic(desk)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    slot = desk.ticket()
    desk.carry_out(desk.shard.consumer_heartbeat(request, Caller("c", "/h", 1), slot, desk.now))
    assert slot.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    live(desk, first, second)
    assert kinds(desk) == {"classic"} and places(first) | places(second) == ALL


def test_a_departure_that_cannot_be_written_is_tried_again_when_the_session_ends():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    classic = ClassicClient(desk)
    live(desk, classic, rounds=8)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    live(desk, classic, rounds=50)
    desk.refusing = None
    assert kinds(desk) == {"consumer"}
    live(desk, classic, rounds=90)
    assert kinds(desk) == {"classic"} and places(classic) == ALL


# What members are told


def test_members_that_wait_in_a_classic_group_are_told_to_join_the_new_one():
    desk = ConsumerDesk()
    generation, (first, second) = _stable(desk)
    joining = desk.join(first, protocols=_offered())
    assert not joining.full, "the other has to join as well"
    desk.join_consumer("m")
    assert joining.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(second, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.sync(first, generation).result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    desk.pass_ms(5_000)
    assert desk.heartbeat(first, generation) == ErrorCode.REBALANCE_IN_PROGRESS, "its session began anew"


def test_a_member_that_waits_for_its_first_generation_is_not_taken_over_but_may_join():
    desk = ConsumerDesk(initial_rebalance_delay_ms=3_000)
    member_id, slot = desk.join_by_id(protocols=_offered())
    desk.join_consumer("m")
    assert slot.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(desk.group().members) == {"m"}
    assert desk.join(member_id, protocols=_offered()).result().generation_id == 3
    desk.pass_ms(4_000)
    assert set(desk.group().members) == {"m", member_id}


def test_a_cooperative_member_keeps_what_it_has_yet_to_give_up_over_an_upgrade():
    desk = ConsumerDesk()
    first = ClassicClient(desk, cooperative=True)
    live(desk, first, rounds=8)
    second = ClassicClient(desk, cooperative=True)
    while len(places(first)) == 4 and not (first.owned != first._told and first._synced):
        second.step()
        first.step()
    assert len(places(first)) == 4 and len(first._told.get("t", ())) == 2, "told to give up two, and not done so"
    third = Client(desk, "m")
    for _ in range(3):
        third.beat()
        nobody_shares(first, second, third)
    live(desk, first, second, third)
    assert desk.group().state_name == "Stable" and places(first) | places(second) | places(third) == ALL


def test_a_generation_that_is_over_is_refused_in_a_consumer_group():
    desk = ConsumerDesk()
    generation, (first, _) = _stable(desk)
    desk.join_consumer("m")
    joined = desk.join(first, protocols=_offered()).result()
    assert joined.generation_id == generation + 1 and joined.leader == "" and joined.protocol_name == "range"
    assert desk.heartbeat(first, generation) == ErrorCode.ILLEGAL_GENERATION
    assert desk.sync(first, generation).result().error_code == ErrorCode.ILLEGAL_GENERATION
    wrong = desk.sync(first, generation + 1, protocol_type="consumer", protocol="other").result()
    assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.commit({("t", 0): 5}, member_id=first, generation=generation) == ErrorCode.ILLEGAL_GENERATION
    assert desk.commit({("t", 0): 5}, member_id=first, generation=generation + 1, version=7) != ErrorCode.NONE
    assert desk.committed() == {("t", 0): 5}


def test_a_classic_member_joins_a_consumer_group_by_an_id_that_it_is_given():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    assert desk.join(protocol_type="connect").result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member_id, slot = desk.join_by_id(protocols=_offered())
    assert slot.result().member_id == member_id
    assert desk.join(protocols=_offered(), version=3).result().member_id not in ("", member_id)
    assert desk.join("x", protocols=offers("other")).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    described = {each.member_id: each.member_type for each in desk.describe_consumer().members}
    assert described["m"] == 1 and described[member_id] == 0 and len(described) == 3


def test_a_full_consumer_group_takes_no_classic_member():
    desk = ConsumerDesk(consumer_max_size=1)
    desk.join_consumer("m")
    assert desk.join("x").result().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_assignment_is_told_in_the_version_that_the_member_speaks():
    desk = ConsumerDesk()
    desk.join_consumer("m", "u")
    for version in (0, 1, 3, 7):
        member_id = f"x{version}"
        metadata = subscription("t", version=0) if not version else _padded(version)
        joined = desk.join(member_id, protocols=offers("range", metadata=metadata)).result()
        answer = desk.sync(member_id, joined.generation_id).result()
        assert answer.error_code == ErrorCode.NONE
        assert int.from_bytes(answer.assignment[:2], "big") == min(version, 3)
        assert {tuple(place) for place in decode_assignment(answer.assignment)} == ALL
        desk.leave(member_id)


# Time


def test_a_classic_member_that_is_not_heard_of_is_removed_after_its_own_session_timeout():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    classic = ClassicClient(desk)
    live(desk, classic, rounds=8)
    desk.pass_ms(8_000)
    assert len(desk.group().members) == 2
    desk.pass_ms(2_000)
    assert set(desk.group().members) == {"m"}


def test_a_classic_member_that_does_not_join_again_in_time_is_removed():
    desk = ConsumerDesk()
    generation, (first, second) = _stable(desk, rebalance_ms=20_000)
    desk.join_consumer("m")
    for _ in range(4):
        for member_id in (first, second):
            assert desk.heartbeat(member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        desk.pass_ms(5_000)
    assert set(desk.group().members) == {"m"}


def test_a_classic_member_that_does_not_ask_for_its_assignment_is_removed():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    joined = desk.join("x", protocols=_offered(), rebalance_ms=20_000).result()
    for _ in range(4):
        desk.heartbeat("x", joined.generation_id)
        desk.pass_ms(5_000)
    assert set(desk.group().members) == {"m"}


def test_the_group_becomes_classic_when_the_last_consumer_member_is_not_heard_of():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    classic = ClassicClient(desk)
    live(desk, classic, rounds=90)
    assert kinds(desk) == {"classic"} and places(classic) == ALL


def test_members_are_not_called_back_while_the_next_target_has_to_wait():
    desk = ConsumerDesk(consumer=ConsumerGroupSettings(assignment_interval_ms=10_000))
    desk.join_consumer("m")
    joined = desk.join("x", protocols=_offered()).result()
    assert joined.generation_id == 2, "the target of the first member still stands"
    assert desk.sync("x", 2).result().error_code == ErrorCode.NONE
    assert desk.heartbeat("x", 2) == ErrorCode.NONE
    desk.pass_ms(9_900)
    assert desk.heartbeat("x", 2) == ErrorCode.NONE
    desk.pass_ms(200)
    assert desk.heartbeat("x", 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.join("x", protocols=_offered()).result().generation_id == 3


def test_a_failover_right_after_a_downgrade_loses_no_partition():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    classic = ClassicClient(desk)
    consumer = Client(desk, "m2")
    live(desk, classic, consumer, rounds=6)
    desk.beat("m", -1)
    live(desk, classic, consumer, rounds=6)
    consumer.leave()
    assert kinds(desk) == {"classic"} and len(places(classic)) == 2
    desk.fail_over()
    classic.disconnect()
    live(desk, classic)
    assert places(classic) == ALL, "the new coordinator has them join again"


def test_the_new_coordinator_of_a_mixed_group_goes_on_with_both_kinds_of_members():
    desk = ConsumerDesk()
    first, second = two_classic(desk)
    third = Client(desk, "m")
    live(desk, first, second, third)
    before = [places(client) for client in (first, second, third)]
    epoch = desk.group().epoch
    desk.fail_over()
    live(desk, first, second, third)
    assert [places(client) for client in (first, second, third)] == before and desk.group().epoch == epoch


# Static members


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions():
    desk = ConsumerDesk()
    static, other = ClassicClient(desk, instance="i"), ClassicClient(desk)
    live(desk, static, other)
    had = places(static)
    rolled = Client(desk, "m", instance="i")
    live(desk, rolled, other)
    assert kinds(desk) == {"consumer"} and places(rolled) == had
    static.step()
    assert static.fenced, "its place is taken"
    back = ClassicClient(desk, instance="i")
    back.step()
    assert kinds(desk) == {"classic"}, "the last of the consumer protocol is replaced"
    live(desk, back, other)
    assert error_of(rolled.beat()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert places(back) | places(other) == ALL and desk.shard.groups["g"].state is GroupState.STABLE


def test_a_static_classic_member_of_a_consumer_group_is_known_by_its_instance():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    static = ClassicClient(desk, instance="i")
    live(desk, static, rounds=8)
    old = static.member_id
    joined = desk.join(instance="i", protocols=_offered("eager")).result()
    assert joined.member_id not in ("", old)
    assert desk.heartbeat(old, 3, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    assert desk.join(old, instance="i", protocols=_offered("eager")).result().error_code == ErrorCode.FENCED_INSTANCE_ID
    unknown = desk.join("x", instance="j", protocols=_offered("eager")).result()
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    gone = desk.leave(MemberIdentity(member_id="", group_instance_id="i"), "nobody")
    assert [each.error_code for each in gone.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(desk.group().members) == {"m"}


def test_topics_that_grow_reach_classic_members_of_a_consumer_group():
    desk = ConsumerDesk(topics=SomeTopics(t=2))
    classic, consumer = ClassicClient(desk), Client(desk, "m")
    live(desk, classic, consumer)
    desk.topics.make("t", 6)
    live(desk, classic, consumer)
    assert [len(places(classic)), len(places(consumer))] == [3, 3]


def _offered(name: str = "range") -> list[JoinGroupRequestProtocol]:
    return offers(name, metadata=subscription("t"))


def _padded(version: int) -> bytes:
    """A subscription with a newer version number but only the fields of version 0, as some clients write it."""
    return subscription("t", version=version)


def _stable(desk: ConsumerDesk, **options: Any) -> tuple[int, list[str]]:
    """A stable group of two members without partitions."""
    joins = [desk.join_by_id(protocols=_offered(), **options) for _ in range(2)]
    desk.pass_ms(0)
    generation = joins[0][1].result().generation_id
    for member_id, slot in reversed(joins):
        assert not desk.sync(member_id, generation, {}).full or slot.result().leader == member_id
    return generation, [member_id for member_id, _ in joins]
