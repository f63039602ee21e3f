"""Groups of all kinds share one name space: classic members meet consumer groups, and the other way round."""

from __future__ import annotations

from typing import Any

import pytest
from tests.groups.consumer_desk import ConsumerDesk, error_of

from ottla.groups.values import MigrationPolicy
from ottla.kernel.errors import ErrorCode
from ottla.messages.leave_group import MemberIdentity


def listed(desk: ConsumerDesk, *, states: list[str] | None = None, types: list[str] | None = None) -> dict[str, Any]:
    return {each.group_id: (each.group_type, each.group_state) for each in desk.list(states, types)}


def a_stable_classic_group(desk: ConsumerDesk, group: str = "g") -> str:
    return desk.stable("c", group=group)[1][0]


def test_a_consumer_member_is_refused_by_a_classic_group_that_has_members_where_the_policy_says_so():
    desk = ConsumerDesk(migration_policy=MigrationPolicy.DISABLED)
    a_stable_classic_group(desk)
    assert error_of(desk.join_consumer("m")) == ErrorCode.GROUP_ID_NOT_FOUND
    assert listed(desk) == {"g": ("classic", "Stable")}


def test_a_consumer_member_takes_over_an_empty_classic_group_with_its_offsets():
    desk = ConsumerDesk()
    member_id = a_stable_classic_group(desk)
    desk.commit({("t", 0): 7}, member_id=member_id, generation=1)
    desk.leave(member_id)
    assert desk.join_consumer("m").member_epoch == 2
    assert listed(desk) == {"g": ("consumer", "Stable")} and desk.committed() == {("t", 0): 7}
    assert not desk.shard.groups and not desk.replayed().groups
    assert set(desk.replayed().consumers.groups) == {"g"}


def test_a_group_of_offsets_alone_becomes_a_consumer_group():
    desk = ConsumerDesk()
    desk.commit({("t", 0): 7})
    desk.join_consumer("m")
    assert listed(desk) == {"g": ("consumer", "Stable")} and not desk.replayed().groups


def test_a_member_of_the_consumer_protocol_does_not_heartbeat_or_sync_by_the_classic_apis():
    desk = ConsumerDesk()
    desk.join_consumer("m", instance="i")
    assert desk.heartbeat("m", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.sync("m", 2).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by", ["m", MemberIdentity(member_id="", group_instance_id="i")], ids=["id", "instance"])
def test_an_administrator_removes_a_member_of_the_consumer_protocol(by: str | MemberIdentity):
    desk = ConsumerDesk()
    epoch = desk.join_consumer("m", instance="i").member_epoch
    desk.join_consumer("other")
    left = desk.leave(by, MemberIdentity(member_id="other", group_instance_id="i"), "nobody")
    codes = [each.error_code for each in left.members]
    assert codes == [ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(desk.group().members) == set(desk.replayed().consumers.groups["g"].members) == {"other"}
    assert error_of(desk.beat("m", epoch)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_takes_over_an_empty_consumer_group_with_its_offsets():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.commit({("t", 0): 7}, member_id="m", generation=2)
    desk.beat("m", -1)
    a_stable_classic_group(desk)
    assert listed(desk) == {"g": ("classic", "Stable")} and desk.committed() == {("t", 0): 7}
    replayed = desk.replayed()
    assert set(replayed.groups) == {"g"} and not replayed.consumers.groups


def test_groups_are_listed_by_type_and_state():
    desk = ConsumerDesk()
    a_stable_classic_group(desk, "old")
    desk.join_consumer("m")
    both = {"old": ("classic", "Stable"), "g": ("consumer", "Stable")}
    assert listed(desk) == both and listed(desk, states=["stable"]) == both
    assert listed(desk, types=["Consumer"]) == {"g": ("consumer", "Stable")}
    assert listed(desk, types=["classic"], states=["Empty"]) == {}


def test_describe_groups_does_not_know_a_consumer_group():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    described = desk.describe()
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert desk.describe_consumer("none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.describe_consumer("").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_consumer_group_is_described_with_what_is_yet_to_be_revoked():
    desk = ConsumerDesk()
    desk.join_consumer("a", client="app", rack="r1")
    desk.join_consumer("b", instance="i")
    desk.beat("a", 2, client="app")
    group = desk.describe_consumer()
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Reconciling", 3, 3, "uniform",
    )  # fmt: skip
    first, second = group.members
    assert (first.member_id, first.member_epoch, first.client_id, first.rack_id, first.member_type) == (
        "a", 2, "app", "r1", 1,
    )  # fmt: skip
    assert [(each.topic_name, each.partitions) for each in first.assignment.topic_partitions] == [("t", [0, 1, 2, 3])]
    assert [(each.topic_name, each.partitions) for each in first.target_assignment.topic_partitions] == [("t", [0, 1])]
    assert (second.instance_id, second.subscribed_topic_names, second.assignment.topic_partitions) == ("i", ["t"], [])


def test_only_an_empty_group_is_deleted_and_nothing_of_it_is_left():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.commit({("t", 0): 7}, member_id="m", generation=2)
    assert desk.delete() == ErrorCode.NON_EMPTY_GROUP
    desk.beat("m", -1)
    assert desk.delete() == ErrorCode.NONE
    for shard in (desk.shard, desk.replayed()):
        assert not shard.all_groups() and not shard.offsets.holds("g")


def test_an_empty_consumer_group_expires_with_its_offsets():
    desk = ConsumerDesk(offsets_retention_ms=3_600_000)
    desk.fail_over()
    desk.join_consumer("m")
    desk.commit({("t", 0): 7, ("u", 0): 8}, member_id="m", generation=2)
    for _ in range(110):
        desk.pass_ms(40_000)
        desk.beat("m", 2)
    assert desk.committed() == {("t", 0): 7}, "no member reads the other topic"
    desk.beat("m", -1)
    desk.pass_ms(4_000_000)
    assert not desk.shard.all_groups() and not desk.replayed().all_groups()


def test_offsets_of_a_subscribed_topic_are_not_deleted():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.commit({("t", 0): 7, ("u", 0): 8}, member_id="m", generation=2)
    assert desk.delete_offsets("t", [0]).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert desk.delete_offsets("u", [0]).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert desk.committed() == {("t", 0): 7}


def test_offsets_have_a_group_while_a_classic_member_that_replaces_a_consumer_group_still_joins():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.commit({("t", 0): 7}, member_id="m", generation=2)
    desk.beat("m", -1)
    desk.join_by_id()
    desk.fail_over()
    assert listed(desk) == {"g": ("classic", "Empty")} and desk.committed() == {("t", 0): 7}
    assert desk.delete() == ErrorCode.NONE and desk.committed() == {} and desk.replayed().all_groups() == []
