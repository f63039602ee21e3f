import pytest
from group_desk import Desk, offers, subscription

from ottla.kernel.errors import ErrorCode
from ottla.messages.join_group import JoinGroupRequestProtocol


def error(slot) -> ErrorCode:
    return ErrorCode(slot.result().error_code)


def test_a_group_without_a_name_is_refused():
    assert error(Desk().join(group="")) == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int):
    assert error(Desk().join(session_ms=session_ms)) == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_its_bounds_is_taken(session_ms: int):
    assert error(Desk().join(session_ms=session_ms)) == ErrorCode.MEMBER_ID_REQUIRED


def test_an_id_in_a_group_that_is_not_there_is_unknown():
    answer = Desk().join("somebody").result()
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.member_id == "somebody"


def test_an_id_that_the_group_did_not_give_out_is_unknown():
    desk = Desk()
    desk.stable("a")
    assert error(desk.join("somebody")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_client_is_given_an_id_and_asked_to_come_back_with_it():
    desk = Desk()
    answer = desk.join(version=4, client="app").result()
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "app-uuid1"
    joined = desk.join(answer.member_id, version=4)
    desk.pass_ms(0)
    assert joined.result().error_code == ErrorCode.NONE
    assert joined.result().generation_id == 1


def test_a_client_of_the_old_kind_joins_at_once():
    desk = Desk()
    slot = desk.join(version=3, client="old")
    desk.pass_ms(0)
    answer = slot.result()
    assert (answer.error_code, answer.member_id, answer.leader) == (0, "old-uuid1", "old-uuid1")


def test_an_id_given_out_and_never_used_is_forgotten_after_the_session_timeout():
    desk = Desk()
    member_id = desk.join().result().member_id
    assert desk.state() == "Empty"
    desk.pass_ms(9_999)
    assert desk.state() == "Empty"
    desk.pass_ms(1)
    assert desk.state() == "Dead"
    assert error(desk.join(member_id)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_takes_the_session_timeout_for_the_rebalance_timeout():
    desk = Desk()
    desk.join(version=0, rebalance_ms=-1)
    assert desk.shard.groups["g"].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", offers("range")), ("consumer", [])])
def test_the_first_member_must_name_a_type_and_a_protocol(protocol_type, protocols):
    desk = Desk()
    slot = desk.join(protocol_type=protocol_type, protocols=protocols)
    assert error(slot) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.shard.groups == {}


def test_a_member_of_another_type_or_without_a_common_protocol_is_refused():
    desk = Desk()
    desk.stable("a")
    assert error(desk.join(protocol_type="connect")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(desk.join(protocols=offers("sticky"))) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_known_member_that_comes_back_with_nothing_in_common_is_refused():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    assert error(desk.join(ids[1], protocols=offers("sticky"))) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_first_member_leads_and_alone_learns_of_the_others():
    desk = Desk()
    first, second = (
        desk.join_by_id(client="a"),
        desk.join_by_id(client="b", protocols=offers("range", metadata=b"\0\0b")),
    )
    desk.pass_ms(0)
    leader, follower = first[1].result(), second[1].result()
    assert leader.leader == follower.leader == first[0]
    assert [(member.member_id, member.metadata) for member in leader.members] == [
        (first[0], subscription("t")),
        (second[0], b"\0\0b"),
    ]
    assert follower.members == []
    assert leader.protocol_name == "range"
    assert leader.protocol_type == "consumer"
    assert desk.state() == "CompletingRebalance"


def test_members_vote_for_a_protocol_that_all_know():
    desk = Desk()
    votes = [["a", "b", "c"], ["b", "c"], ["c", "b"], ["b", "c", "d"]]
    slots = [desk.join_by_id(client=str(place), protocols=offers(*names))[1] for place, names in enumerate(votes)]
    desk.pass_ms(0)
    assert {slot.result().protocol_name for slot in slots} == {"b"}


def test_a_tie_goes_to_the_choice_of_who_came_first():
    desk = Desk()
    slots = [desk.join_by_id(protocols=offers(*names))[1] for names in (["x", "y"], ["y", "x"])]
    desk.pass_ms(0)
    assert slots[0].result().protocol_name == "x"


def test_a_member_that_names_a_protocol_twice_counts_once():
    desk = Desk()
    desk.join_by_id(protocols=offers("x", "x", "y"))
    assert error(desk.join(protocols=offers("x"))) == ErrorCode.MEMBER_ID_REQUIRED
    assert error(desk.join(protocols=offers("z"))) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# The first rebalance of a group


def test_the_first_rebalance_waits_for_more_members():
    desk = Desk(initial_rebalance_delay_ms=3_000)
    _, slot = desk.join_by_id()
    desk.pass_ms(2_999)
    assert not slot.full
    desk.pass_ms(1)
    assert slot.result().generation_id == 1


def test_each_newcomer_extends_the_wait_up_to_the_rebalance_timeout():
    desk = Desk(initial_rebalance_delay_ms=3_000)
    slots = [desk.join_by_id(rebalance_ms=10_000)[1]]
    for _ in range(4):
        desk.pass_ms(2_000)
        slots.append(desk.join_by_id(rebalance_ms=10_000)[1])
    assert desk.now_ms == 8_000
    assert not any(slot.full for slot in slots)
    desk.pass_ms(1_999)
    assert not slots[0].full
    desk.pass_ms(1)
    assert {slot.result().generation_id for slot in slots} == {1}


def test_the_wait_ends_with_a_period_in_which_nobody_came():
    desk = Desk(initial_rebalance_delay_ms=3_000)
    _, first = desk.join_by_id()
    desk.pass_ms(2_000)
    _, second = desk.join_by_id()
    desk.pass_ms(3_999)
    assert not first.full
    desk.pass_ms(1)
    assert first.result().generation_id == second.result().generation_id == 1


def test_the_first_rebalance_does_not_wait_for_ids_given_out():
    desk = Desk()
    _, slot = desk.join_by_id(client="a")
    desk.join(client="b")
    desk.pass_ms(0)
    assert slot.full


# Later rebalances


def test_a_newcomer_makes_a_stable_group_rebalance():
    desk = Desk()
    generation, ids = desk.stable("a")
    _, slot = desk.join_by_id(client="b")
    assert desk.state() == "PreparingRebalance"
    assert desk.heartbeat(ids[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.join(ids[0])
    assert again.result().generation_id == slot.result().generation_id == generation + 1
    assert desk.state() == "CompletingRebalance"


def test_a_later_rebalance_waits_for_ids_given_out():
    desk = Desk()
    _, ids = desk.stable("a")
    promised = desk.join(client="b").result().member_id
    again = desk.join(ids[0])
    assert not again.full
    last = desk.join(promised)
    assert again.full
    assert last.full


def test_an_id_given_out_that_expires_lets_the_rebalance_complete():
    desk = Desk()
    _, ids = desk.stable("a")
    desk.join(client="b")
    again = desk.join(ids[0])
    desk.pass_ms(10_000)
    assert again.result().generation_id == 2


def test_members_that_do_not_come_back_within_the_rebalance_timeout_are_left_behind():
    desk = Desk()
    _, ids = desk.stable("a", "b", rebalance_ms=20_000, session_ms=30_000)
    again = desk.join(ids[0], rebalance_ms=20_000, session_ms=30_000)
    desk.pass_ms(19_999)
    assert not again.full
    desk.pass_ms(1)
    assert [member.member_id for member in again.result().members] == [ids[0]]
    assert desk.heartbeat(ids[1], 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_come_back_is_replaced():
    desk = Desk()
    _, ids = desk.stable("a", "b", rebalance_ms=20_000, session_ms=30_000)
    again = desk.join(ids[1], protocols=offers("range", metadata=b"\0\0new"), rebalance_ms=20_000, session_ms=30_000)
    desk.pass_ms(20_000)
    assert again.result().leader == ids[1]


def test_the_longest_rebalance_timeout_of_all_members_counts():
    desk = Desk()
    _, ids = desk.stable("a", rebalance_ms=20_000, session_ms=100_000)
    slot = desk.join_by_id(client="b", rebalance_ms=40_000, session_ms=100_000)[1]
    desk.pass_ms(39_999)
    assert not slot.full
    desk.pass_ms(1)
    assert slot.result().generation_id == 2
    assert desk.heartbeat(ids[0], 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_joins_again_makes_a_stable_group_rebalance():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    desk.join(ids[0])
    assert desk.state() == "PreparingRebalance"


def test_a_follower_that_joins_again_unchanged_is_told_the_generation():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    answer = desk.join(ids[1]).result()
    assert (answer.generation_id, answer.leader, answer.members) == (generation, ids[0], [])
    assert desk.state() == "Stable"


def test_a_follower_that_has_changed_makes_a_stable_group_rebalance():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    slot = desk.join(ids[1], protocols=offers("range", metadata=b"\0\0other"))
    assert not slot.full
    assert desk.state() == "PreparingRebalance"


def test_a_member_that_lost_its_answer_gets_it_again_before_the_assignment():
    desk = Desk()
    leader, slot = desk.join_by_id(client="a")
    follower, _ = desk.join_by_id(client="b")
    desk.pass_ms(0)
    assert desk.join(leader).result() == slot.result()
    assert desk.join(follower).result().members == []
    assert desk.state() == "CompletingRebalance"


def test_a_member_that_changes_before_the_assignment_makes_the_group_begin_anew():
    desk = Desk()
    leader, _ = desk.join_by_id(client="a")
    follower, _ = desk.join_by_id(client="b")
    desk.pass_ms(0)
    waiting = desk.sync(follower, 1)
    desk.join(leader, protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0new")])
    assert desk.state() == "PreparingRebalance"
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_join_of_the_same_member_frees_the_first():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    first = desk.join(ids[0])
    second = desk.join(ids[0])
    assert first.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.full
    desk.join(ids[1])
    assert second.result().generation_id == 2


def test_generations_are_counted_up_one_by_one():
    desk = Desk()
    _, ids = desk.stable("a")
    for expected in (2, 3, 4):
        assert desk.join(ids[0]).result().generation_id == expected
        assert desk.sync(ids[0], expected, {}).result().error_code == ErrorCode.NONE


def test_a_new_member_that_waits_too_long_for_the_others_is_given_up():
    desk = Desk(new_member_join_timeout_ms=5_000)
    desk.stable("a", session_ms=20_000)
    _, slot = desk.join_by_id(client="b", session_ms=20_000)
    desk.pass_ms(5_000)
    assert error(slot) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(desk.describe().members) == 1


def test_a_member_that_waits_to_join_again_does_not_time_out():
    desk = Desk()
    _, ids = desk.stable("a", "b")
    slot = desk.join(ids[0])
    for _ in range(5):
        desk.pass_ms(9_000)
        assert desk.heartbeat(ids[1], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not slot.full
    desk.join(ids[1])
    assert len(slot.result().members) == 2


def test_a_member_has_a_whole_session_from_when_its_join_is_answered():
    desk = Desk()
    _, ids = desk.stable("a", "b", session_ms=10_000)
    desk.join(ids[0])
    desk.pass_ms(9_000)
    desk.heartbeat(ids[1], 1)
    desk.pass_ms(900)
    desk.join(ids[1])
    desk.pass_ms(9_999)
    assert desk.state() == "CompletingRebalance"
    assert desk.heartbeat(ids[0], 2) == ErrorCode.NONE
    desk.pass_ms(1)
    assert [member.member_id for member in desk.describe().members] == [ids[0]]


# The size of a group


def test_a_full_group_turns_newcomers_away_and_keeps_its_members():
    desk = Desk(max_size=2)
    _, ids = desk.stable("a", "b")
    answer = desk.join(version=3).result()
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.member_id == ""
    assert desk.join(ids[1]).result().error_code == ErrorCode.NONE
    assert desk.state() == "Stable"


def test_in_a_full_rebalance_the_last_to_come_is_turned_away():
    desk = Desk(max_size=2)
    desk.join(version=3, client="a")
    second = desk.join(version=3, client="b")
    assert error(desk.join(version=3, client="c")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.pass_ms(0)
    assert len(desk.describe().members) == 2
    assert second.result().error_code == ErrorCode.NONE


def test_a_member_that_waits_in_a_full_rebalance_may_ask_again():
    desk = Desk(max_size=1)
    member_id, _ = desk.join_by_id()
    again = desk.join(member_id)
    assert not again.full
    desk.pass_ms(0)
    assert error(again) == ErrorCode.NONE


def test_a_group_loaded_over_the_limit_rebalances_and_shrinks():
    desk = Desk()
    _, ids = desk.stable("a", "b", "c")
    desk.settings = type(desk.settings)(initial_rebalance_delay_ms=0, max_size=2)
    desk.fail_over()
    assert desk.state() == "PreparingRebalance"
    first, second = desk.join(ids[0]), desk.join(ids[1])
    assert error(desk.join(ids[2])) == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.pass_ms(60_000)
    assert error(first) == error(second) == ErrorCode.NONE
    assert len(desk.describe().members) == 2
