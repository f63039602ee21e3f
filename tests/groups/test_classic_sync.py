import pytest
from group_desk import Desk, offers, subscription

from ottla.kernel.errors import ErrorCode
from ottla.messages.leave_group import MemberIdentity


def gathered(desk: Desk, *clients: str, **options) -> list[str]:
    """A group that waits for its assignment; the first is the leader, the generation is 1."""
    joins = [desk.join_by_id(client=client, **options) for client in clients]
    desk.pass_ms(0)
    return [member_id for member_id, _ in joins]


# SyncGroup


def test_every_member_gets_its_part_once_the_leader_has_brought_it():
    desk = Desk()
    leader, follower, forgotten = gathered(desk, "a", "b", "c")
    waiting, also_waiting = desk.sync(follower, 1), desk.sync(forgotten, 1)
    assert not waiting.full
    answer = desk.sync(leader, 1, {leader: b"l", follower: b"f"}).result()
    assert (answer.error_code, answer.assignment) == (0, b"l")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert waiting.result().assignment == b"f"
    assert also_waiting.result().assignment == b""
    assert desk.state() == "Stable"


def test_a_member_that_asks_late_or_twice_gets_its_part_too():
    desk = Desk()
    leader, follower = gathered(desk, "a", "b")
    desk.sync(leader, 1, {follower: b"f"})
    assert desk.sync(follower, 1).result().assignment == b"f"
    assert desk.sync(follower, 1).result().assignment == b"f"


def test_a_second_sync_of_the_same_member_frees_the_first():
    desk = Desk()
    leader, follower = gathered(desk, "a", "b")
    first, second = desk.sync(follower, 1), desk.sync(follower, 1)
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    desk.sync(leader, 1, {follower: b"f"})
    assert second.result().assignment == b"f"


def test_an_assignment_for_somebody_who_is_no_member_is_not_kept():
    desk = Desk()
    (leader,) = gathered(desk, "a")
    desk.sync(leader, 1, {leader: b"l", "stranger": b"s"})
    assert [member.member_id for member in desk.describe().members] == [leader]


def test_who_may_not_sync():
    desk = Desk()
    assert desk.sync("m", 1).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.sync("m", 1, group="").result().error_code == ErrorCode.INVALID_GROUP_ID
    (leader,) = gathered(desk, "a")
    assert desk.sync("m", 1).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.sync(leader, 0).result().error_code == ErrorCode.ILLEGAL_GENERATION
    assert desk.sync(leader, 2).result().error_code == ErrorCode.ILLEGAL_GENERATION
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.sync(leader, 1, protocol_type="connect", protocol="range").result().error_code == wrong
    assert desk.sync(leader, 1, protocol_type="consumer", protocol="sticky").result().error_code == wrong
    assert desk.sync(leader, 1, {}, protocol_type="consumer", protocol="range").result().error_code == ErrorCode.NONE


def test_during_a_rebalance_nobody_may_sync():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    desk.join(ids[0])
    assert desk.sync(ids[1], generation).result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_never_asks_for_its_assignment_is_removed_after_the_rebalance_timeout():
    desk = Desk()
    leader, silent = gathered(desk, "a", "b", rebalance_ms=20_000, session_ms=60_000)
    desk.sync(leader, 1, {})
    assert desk.state() == "Stable"
    desk.pass_ms(19_999)
    assert desk.state() == "Stable"
    desk.pass_ms(1)
    assert desk.state() == "PreparingRebalance"
    assert [member.member_id for member in desk.describe().members] == [leader]
    assert desk.heartbeat(silent, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(leader, rebalance_ms=20_000, session_ms=60_000).result().generation_id == 2


def test_a_leader_that_never_assigns_is_removed_and_who_waited_begins_anew():
    desk = Desk()
    _, follower = gathered(desk, "a", "b", rebalance_ms=20_000, session_ms=60_000)
    waiting = desk.sync(follower, 1)
    desk.pass_ms(20_000)
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    answer = desk.join(follower, rebalance_ms=20_000, session_ms=60_000).result()
    assert answer.leader == follower


def test_once_all_have_asked_nobody_is_removed_for_not_asking():
    desk = Desk()
    _, ids = desk.stable("a", "b", rebalance_ms=20_000, session_ms=60_000)
    desk.pass_ms(25_000)
    assert desk.state() == "Stable"
    assert len(desk.describe().members) == len(ids)


def test_waiting_for_the_leader_does_not_cost_a_member_its_session():
    desk = Desk()
    leader, follower = gathered(desk, "a", "b")
    waiting = desk.sync(follower, 1)
    desk.pass_ms(9_000)
    desk.heartbeat(leader, 1)
    desk.pass_ms(9_000)
    desk.sync(leader, 1, {follower: b"f"})
    assert waiting.result().assignment == b"f"
    desk.pass_ms(9_999)
    assert follower in desk.shard.groups["g"].members
    desk.pass_ms(1)
    assert follower not in desk.shard.groups["g"].members


def test_an_assignment_that_cannot_be_written_fails_all_who_wait_and_the_group_begins_anew():
    desk = Desk()
    leader, follower = gathered(desk, "a", "b")
    waiting = desk.sync(follower, 1)
    desk.refusing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert desk.sync(leader, 1, {}).result() == ErrorCode.NOT_COORDINATOR
    assert waiting.result() == ErrorCode.NOT_COORDINATOR
    desk.refusing = None
    assert desk.state() == "PreparingRebalance"
    desk.join(leader)
    assert desk.join(follower).result().generation_id == 2


def test_when_a_generation_fails_before_its_assignment_the_old_assignments_are_gone():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    desk.join(ids[0])
    desk.join(ids[1])
    assert [member.member_assignment for member in desk.describe().members] == [each.encode() for each in ids]
    desk.leave(ids[1])
    assert [member.member_assignment for member in desk.describe().members] == [b""]


# Heartbeat


def test_heartbeats_keep_a_session_alive_and_silence_ends_it():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    for _ in range(4):
        desk.pass_ms(6_000)
        desk.heartbeat(ids[0], generation)
    assert [member.member_id for member in desk.describe().members] == [ids[0]]
    assert desk.state() == "PreparingRebalance"
    assert desk.heartbeat(ids[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_what_a_heartbeat_is_told_in_each_state():
    desk = Desk()
    assert desk.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
    leader, follower = gathered(desk, "a", "b")
    assert desk.heartbeat(leader, 1) == ErrorCode.NONE
    assert desk.heartbeat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    desk.sync(follower, 1)
    desk.sync(leader, 1, {})
    assert desk.heartbeat(leader, 1) == ErrorCode.NONE
    desk.join(leader)
    assert desk.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    desk.leave(leader, follower)
    assert desk.state() == "Empty"
    assert desk.heartbeat(follower, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_another_generation_keeps_nobody_alive():
    desk = Desk()
    generation, ids = desk.stable("a")
    desk.pass_ms(9_000)
    assert desk.heartbeat(ids[0], generation + 1) == ErrorCode.ILLEGAL_GENERATION
    desk.pass_ms(1_000)
    assert desk.state() == "Empty"


def test_after_standing_still_nobody_is_to_blame_for_having_been_unheard():
    desk = Desk()
    generation, ids = desk.stable("a")
    desk.pass_ms(9_000)
    desk.now_ms += 30_000
    desk.shard.postpone(30_000)
    desk.tick()
    assert desk.heartbeat(ids[0], generation) == ErrorCode.NONE
    desk.pass_ms(10_000)
    assert desk.state() == "Empty"


# LeaveGroup


def test_a_member_that_leaves_makes_the_others_rebalance_at_once():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    left = desk.leave(ids[1])
    assert [(member.member_id, member.error_code) for member in left.members] == [(ids[1], ErrorCode.NONE)]
    assert desk.heartbeat(ids[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.join(ids[0]).result().generation_id == 2


def test_the_last_member_leaves_an_empty_group_of_the_next_generation():
    desk = Desk()
    generation, ids = desk.stable("a")
    desk.leave(ids[0])
    described = desk.describe()
    assert (described.group_state, described.members, described.protocol_type) == ("Empty", [], "consumer")
    assert desk.replayed().groups["g"].generation == generation + 1
    assert desk.stable("b")[0] == generation + 2


def test_each_of_many_that_leave_hears_how_it_went():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    promised = desk.join().result().member_id
    desk.join(instance="i")
    instance = MemberIdentity(group_instance_id="i")
    no_instance = MemberIdentity(group_instance_id="nobody")
    left = desk.leave(ids[0], promised, "stranger", instance, no_instance, MemberIdentity())
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error_code for member in left.members] == [0, 0, unknown, 0, unknown, unknown]
    assert [member.member_id for member in left.members[:3]] == [ids[0], promised, "stranger"]
    assert left.members[3].group_instance_id == "i"
    assert [member.member_id for member in desk.describe().members] == [ids[1]]


def test_leaving_a_group_that_is_not_there_is_unknown_for_each():
    left = Desk().leave("a", MemberIdentity(group_instance_id="i"))
    assert left.error_code == ErrorCode.NONE
    assert [member.error_code for member in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert Desk().leave("a", group="").error_code == ErrorCode.INVALID_GROUP_ID


def test_who_leaves_while_its_join_waits_is_answered():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    waiting = desk.join(ids[0])
    desk.leave(ids[0])
    assert waiting.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(ids[1]).result().leader == ids[1]


def test_who_leaves_while_its_sync_waits_is_answered():
    desk = Desk()
    leader, follower = gathered(desk, "a", "b")
    waiting = desk.sync(follower, 1)
    desk.leave(follower)
    assert waiting.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.state() == "PreparingRebalance"
    assert desk.join(leader).result().generation_id == 2


def test_the_last_to_be_waited_for_completes_the_rebalance_by_leaving():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    waiting = desk.join(ids[0])
    desk.leave(ids[1])
    assert [member.member_id for member in waiting.result().members] == [ids[0]]


def test_a_promised_id_that_is_given_back_is_waited_for_no_longer():
    desk = Desk()
    promised = desk.join().result().member_id
    assert desk.leave(promised).members[0].error_code == ErrorCode.NONE
    assert desk.shard.groups == {}
    assert desk.shard.next_deadline_ms is None


@pytest.mark.parametrize("names", [("cooperative-sticky", "range"), ("anything",)])
def test_assignments_and_metadata_are_opaque(names):
    desk = Desk()
    member_id, slot = desk.join_by_id(protocols=offers(*names, metadata=b"\xff\x00garbage"))
    desk.pass_ms(0)
    assert slot.result().members[0].metadata == b"\xff\x00garbage"
    assert desk.sync(member_id, 1, {member_id: b"\x00\xff"}).result().assignment == b"\x00\xff"


def test_what_a_member_said_when_it_joined_again_is_what_another_broker_reads():
    """The log once kept the first entry: a new coordinator read the member's old timeouts and topics from it."""
    desk = Desk()
    generation, (member_id,) = desk.stable("a")
    desk.join(member_id, protocols=offers("range", metadata=subscription("other")), rebalance_ms=5_000)
    desk.sync(member_id, generation + 1, {member_id: b"mine"})
    read = desk.replayed().groups["g"]
    assert read.members[member_id].rebalance_timeout_ms == 5_000
    assert read.is_subscribed("other")
    assert not read.is_subscribed("t")
