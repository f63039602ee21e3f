from group_desk import Desk, offers

from ottla.kernel.errors import ErrorCode
from ottla.messages.leave_group import MemberIdentity


def a_group_of(desk: Desk, *instances: str) -> tuple[int, list[str]]:
    """A stable group of static members, the first of them its leader."""
    slots = [desk.join(instance=instance, client=instance) for instance in instances]
    desk.pass_ms(0)
    ids = [slot.result().member_id for slot in slots]
    generation = slots[0].result().generation_id
    syncs = [desk.sync(ids[place], generation, instance=instances[place]) for place in range(1, len(ids))]
    syncs.append(desk.sync(ids[0], generation, {each: each.encode() for each in ids}, instance=instances[0]))
    assert all(not slot.result().error_code for slot in syncs)
    return generation, ids


def test_a_static_member_needs_no_second_round_and_is_named_after_its_instance():
    desk = Desk()
    slot = desk.join(instance="one", client="app")
    desk.pass_ms(0)
    assert slot.result().member_id == "one-uuid1"
    assert slot.result().members[0].group_instance_id == "one"


def test_a_static_member_that_restarts_takes_its_place_without_a_rebalance():
    desk = Desk()
    generation, ids = a_group_of(desk, "one", "two")
    answer = desk.join(instance="two").result()
    assert answer.error_code == ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.members) == (generation, ids[0], [])
    assert not answer.skip_assignment
    assert answer.member_id not in ids
    assert desk.state() == "Stable"
    assert desk.sync(answer.member_id, generation, instance="two").result().assignment == ids[1].encode()


def test_a_leader_that_restarts_leads_on_but_skips_the_assignment():
    desk = Desk()
    generation, _ = a_group_of(desk, "one", "two")
    answer = desk.join(instance="one").result()
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2
    assert answer.generation_id == generation


def test_a_leader_that_cannot_be_told_to_skip_is_not_told_that_it_leads():
    desk = Desk()
    _, ids = a_group_of(desk, "one", "two")
    answer = desk.join(instance="one", version=8).result()
    assert answer.leader == ids[0] != answer.member_id
    assert answer.members == []
    assert not answer.skip_assignment


def test_the_old_id_of_a_restarted_member_is_fenced_everywhere():
    desk = Desk()
    generation, ids = a_group_of(desk, "one", "two")
    desk.join(instance="two")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(ids[1], generation, instance="two") == fenced
    assert desk.sync(ids[1], generation, instance="two").result().error_code == fenced
    assert desk.join(ids[1], instance="two").result().error_code == fenced
    assert desk.commit({("t", 0): 1}, member_id=ids[1], generation=generation, instance="two") == fenced
    left = desk.leave(MemberIdentity(member_id=ids[1], group_instance_id="two"))
    assert left.members[0].error_code == fenced
    assert desk.heartbeat(ids[1], generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_nobody_knows_is_an_unknown_member():
    desk = Desk()
    generation, ids = a_group_of(desk, "one")
    assert desk.heartbeat(ids[0], generation, instance="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(ids[0], instance="other").result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_promised_id_cannot_be_used_by_an_instance():
    desk = Desk()
    desk.stable("a")
    promised = desk.join().result().member_id
    assert desk.join(promised, instance="one").result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_restarts_with_another_choice_of_protocol_makes_the_group_rebalance():
    desk = Desk()
    slots = [desk.join(instance=name, protocols=offers("range", "sticky")) for name in ("one", "two")]
    desk.pass_ms(0)
    leader, follower = (slot.result().member_id for slot in slots)
    desk.sync(follower, 1, instance="two")
    desk.sync(leader, 1, {}, instance="one")
    slot = desk.join(instance="one", protocols=offers("sticky"))
    assert not slot.full
    assert desk.state() == "PreparingRebalance"
    again = desk.join(follower, instance="two", protocols=offers("range", "sticky"))
    assert slot.result().protocol_name == again.result().protocol_name == "sticky"


def test_a_changed_subscription_alone_does_not_make_the_group_rebalance():
    desk = Desk()
    a_group_of(desk, "one", "two")
    answer = desk.join(instance="two", protocols=offers("range", metadata=b"\0\0changed")).result()
    assert answer.error_code == ErrorCode.NONE
    assert desk.state() == "Stable"
    described = {member.group_instance_id: member.member_metadata for member in desk.describe().members}
    assert described["two"] == b"\0\0changed"


def test_a_restart_before_the_assignment_makes_the_group_begin_anew():
    desk = Desk()
    slots = [desk.join(instance=name) for name in ("one", "two")]
    desk.pass_ms(0)
    waiting = desk.sync(slots[1].result().member_id, 1, instance="two")
    again = desk.join(instance="two")
    assert waiting.result().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.state() == "PreparingRebalance"
    desk.join(slots[0].result().member_id, instance="one")
    assert again.result().generation_id == 2


def test_a_restart_while_members_gather_fences_the_join_that_waits():
    desk = Desk()
    first = desk.join(instance="one")
    second = desk.join(instance="one")
    assert first.result().error_code == ErrorCode.FENCED_INSTANCE_ID
    desk.pass_ms(0)
    assert second.result().error_code == ErrorCode.NONE
    assert len(second.result().members) == 1


def test_a_replacement_that_cannot_be_written_leaves_the_old_member_in_its_place():
    desk = Desk()
    generation, ids = a_group_of(desk, "one", "two")
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.join(instance="two", session_ms=20_000).result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    assert desk.heartbeat(ids[1], generation, instance="two") == ErrorCode.NONE
    assert desk.shard.groups["g"].members[ids[1]].session_timeout_ms == 10_000
    desk.pass_ms(9_999)
    assert len(desk.describe().members) == 2


def test_a_replacement_outlives_the_move_of_the_coordinator():
    desk = Desk()
    generation, _ = a_group_of(desk, "one", "two")
    new_id = desk.join(instance="one").result().member_id
    desk.fail_over()
    assert desk.shard.groups["g"].leader == new_id
    assert desk.heartbeat(new_id, generation, instance="one") == ErrorCode.NONE


def test_a_static_member_keeps_its_place_through_a_rebalance_it_sleeps_through():
    desk = Desk()
    _, ids = a_group_of(desk, "one", "two")
    slot = desk.join(ids[0], instance="one", rebalance_ms=5_000)
    desk.join(ids[1], instance="two", rebalance_ms=5_000)
    assert slot.result().generation_id == 2
    desk.sync(ids[0], 2, {}, instance="one")
    desk.sync(ids[1], 2, instance="two")
    again = desk.join(ids[0], instance="one", rebalance_ms=5_000)
    desk.pass_ms(5_000)
    assert again.result().generation_id == 3
    assert [member.group_instance_id for member in again.result().members] == ["one", "two"]


def test_when_only_sleeping_static_members_are_left_the_rebalance_waits_for_their_sessions():
    desk = Desk()
    _, ids = a_group_of(desk, "one", "two")
    desk.leave(MemberIdentity(group_instance_id="one"))
    assert desk.state() == "PreparingRebalance"
    desk.pass_ms(9_999)
    assert desk.state() == "PreparingRebalance"
    desk.pass_ms(1)
    assert desk.state() == "Empty"
    assert desk.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_silent_for_its_session_timeout_is_removed():
    desk = Desk()
    _, ids = a_group_of(desk, "one", "two")
    for _ in range(3):
        desk.pass_ms(4_000)
        desk.heartbeat(ids[0], 1, instance="one")
    assert [member.group_instance_id for member in desk.describe().members] == ["one"]
    fresh = desk.join(instance="two")
    assert not fresh.full


def test_a_restarted_member_that_waits_to_join_is_no_newcomer_that_may_be_given_up():
    desk = Desk(initial_rebalance_delay_ms=15_000)
    desk.join(instance="one")
    desk.pass_ms(1_000)
    again = desk.join(instance="one")
    desk.pass_ms(13_999)
    assert not again.full
    desk.pass_ms(1)
    assert again.result().error_code == ErrorCode.NONE


def test_a_restarted_member_still_has_to_ask_for_its_assignment():
    desk = Desk()
    slots = [desk.join(instance=name, rebalance_ms=5_000) for name in ("one", "two")]
    desk.pass_ms(0)
    leader = slots[0].result().member_id
    desk.sync(leader, 1, {}, instance="one")
    fresh = desk.join(instance="two", rebalance_ms=5_000).result().member_id
    desk.pass_ms(5_000)
    assert desk.heartbeat(fresh, 1, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.state() == "PreparingRebalance"
