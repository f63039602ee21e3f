import pytest
from group_desk import Desk, offers, subscription

from ottla.kernel.errors import ErrorCode
from ottla.messages.describe_groups import DescribeGroupsResponse
from ottla.schema.codec import encode


def test_a_stable_group_is_described_with_all_its_members():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    described = desk.describe()
    assert (described.error_code, described.group_id, described.group_state) == (0, "g", "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first = described.members[0]
    assert (first.member_id, first.client_id, first.client_host) == (ids[0], "a", "/h")
    assert (first.member_metadata, first.member_assignment) == (subscription("t"), ids[0].encode())


def test_while_it_rebalances_a_group_shows_no_protocol_and_no_metadata():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    desk.join(ids[0])
    described = desk.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]


def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_an_error():
    gone = Desk().describe(version=6)
    assert (gone.group_state, gone.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert gone.error_message == "Group g not found."
    older = Desk().describe(version=5)
    assert (older.group_state, older.error_code, older.error_message) == ("Dead", 0, None)


def test_a_group_of_a_long_name_that_is_not_there_is_answered_in_a_sentence_that_can_be_encoded():
    name = "x" * 0x7FFF
    gone = Desk().describe(group=name, version=6)
    assert (gone.group_id, gone.error_code) == (name, ErrorCode.GROUP_ID_NOT_FOUND)
    assert gone.error_message.startswith("Group xxx") and gone.error_message.endswith("xxx not found.")
    assert encode(DescribeGroupsResponse(groups=[gone]), 6)


def test_groups_are_listed_by_state_in_any_case():
    desk = Desk()
    desk.stable("a", group="stable")
    desk.commit({("t", 0): 1}, group="simple")
    desk.join(version=3, group="gathering")
    assert {(group.group_id, group.group_state, group.group_type) for group in desk.list()} == {
        ("stable", "Stable", "classic"),
        ("simple", "Empty", "classic"),
        ("gathering", "PreparingRebalance", "classic"),
    }
    assert [group.group_id for group in desk.list(states=[" STABLE "])] == ["stable"]
    assert len(desk.list(states=["empty", "PreparingRebalance"])) == 2
    assert desk.list(states=["nonsense"]) == []


def test_groups_are_listed_by_type_in_any_case():
    desk = Desk()
    desk.stable("a")
    assert len(desk.list(types=["Classic"])) == 1
    assert desk.list(types=["consumer"]) == []
    assert desk.list(types=["nonsense"]) == []
    assert len(desk.list(types=["consumer", "classic"])) == 1


def test_an_empty_group_is_deleted_with_its_offsets():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    desk.commit({("t", 0): 5, ("u", 1): 6}, member_id=member, generation=generation)
    assert desk.delete() == ErrorCode.NON_EMPTY_GROUP
    desk.leave(member)
    assert desk.delete() == ErrorCode.NONE
    assert desk.state() == "Dead"
    assert desk.committed() == {}
    replayed = desk.replayed()
    assert replayed.groups == {}
    assert not replayed.offsets.holds("g")
    assert desk.delete() == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_group_with_members_is_not_deleted(state: str):
    desk = Desk(initial_rebalance_delay_ms=0 if state != "PreparingRebalance" else 100)
    if state == "Stable":
        desk.stable("a")
    else:
        desk.join(version=3)
        desk.pass_ms(0)
    assert desk.state() == state
    assert desk.delete() == ErrorCode.NON_EMPTY_GROUP


def test_a_deletion_that_cannot_be_written_deletes_nothing():
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    slot = desk.ticket()
    desk.carry_out(desk.shard.delete_group("g", slot))
    assert slot.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.committed() == {("t", 0): 5}


# The move of a coordinator


def test_members_of_a_stable_group_go_on_after_the_move_and_have_a_whole_session_to_be_heard():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    desk.pass_ms(9_999)
    desk.fail_over()
    assert desk.describe().group_state == "Stable"
    assert desk.sync(ids[1], generation).result().assignment == ids[1].encode()
    desk.pass_ms(9_999)
    assert desk.heartbeat(ids[0], generation) == ErrorCode.NONE
    desk.pass_ms(1)
    assert [member.member_id for member in desk.describe().members] == [ids[0]]


def test_a_rebalance_under_way_is_lost_with_the_move_and_the_last_generation_stands():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    desk.join(ids[0])
    assert len(desk.shard.parked()) == 1
    desk.fail_over()
    assert desk.state() == "Stable"
    assert desk.heartbeat(ids[1], generation) == ErrorCode.NONE


def test_a_loaded_group_takes_newcomers_who_speak_its_protocol():
    desk = Desk()
    desk.stable("a", protocols=offers("range", "sticky"))
    desk.fail_over()
    assert desk.join(protocols=offers("sticky")).result().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.join(protocols=offers("sticky", "range")).result().error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_remembers_its_generation_and_its_type_over_the_move():
    desk = Desk()
    generation, ids = desk.stable("a")
    desk.leave(ids[0])
    desk.fail_over()
    assert (desk.list()[0].protocol_type, desk.state()) == ("consumer", "Empty")
    assert desk.stable("b")[0] == generation + 2
