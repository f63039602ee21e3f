import pytest
from group_desk import TOPIC_ID, Desk, offers

from ottla.groups.entries import offset_entry
from ottla.groups.values import GroupDecision
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import Moment
from ottla.messages.group_records import OffsetCommitValue
from ottla.messages.offset_commit import OffsetCommitResponse

DAY_MS = 24 * 3_600_000


def errors(answer: OffsetCommitResponse | ErrorCode) -> list[ErrorCode]:
    assert isinstance(answer, OffsetCommitResponse)
    return [ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions]


# OffsetCommit and OffsetFetch


def test_a_consumer_without_a_group_protocol_commits_and_reads_back():
    desk = Desk()
    assert errors(desk.commit({("t", 0): 5, ("t", 1): 6, ("u", 0): 7}, metadata="note", leader_epoch=3)) == [0, 0, 0]
    answer = desk.fetch({"t": [0, 9], "other": [0]})
    (first, unknown), (other,) = (topic.partitions for topic in answer.topics)
    assert (first.committed_offset, first.metadata, first.committed_leader_epoch, first.error_code) == (5, "note", 3, 0)
    assert (unknown.committed_offset, unknown.metadata, unknown.error_code) == (-1, "", 0)
    assert other.committed_offset == -1
    assert desk.committed() == {("t", 0): 5, ("t", 1): 6, ("u", 0): 7}
    assert desk.list()[0].protocol_type == ""


def test_a_null_note_reads_back_as_an_empty_one():
    desk = Desk()
    desk.commit({("t", 0): 5}, metadata=None)
    assert desk.fetch({"t": [0]}).topics[0].partitions[0].metadata == ""


def test_the_last_commit_stands_even_if_it_goes_back():
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.commit({("t", 0): 2})
    assert desk.committed() == {("t", 0): 2}


def test_groups_do_not_see_one_anothers_offsets():
    desk = Desk()
    desk.commit({("t", 0): 5}, group="a")
    assert desk.committed("b") == {}
    assert desk.fetch({"t": [0]}, group="b").topics[0].partitions[0].committed_offset == -1


def test_a_note_too_long_is_refused_and_the_others_are_kept():
    desk = Desk(offset_metadata_max_bytes=4)
    assert errors(desk.commit({("t", 0): 5}, metadata="12345")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert desk.committed() == {}
    assert errors(desk.commit({("t", 0): 5}, metadata="1234")) == [ErrorCode.NONE]
    assert errors(desk.commit({("t", 0): 5}, metadata="🦦🦦")) == [ErrorCode.NONE]
    assert errors(desk.commit({("t", 0): 5}, metadata="🦦🦦x")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_a_member_commits_in_its_generation_and_in_no_other():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    assert errors(desk.commit({("t", 0): 5}, member_id=member, generation=generation)) == [ErrorCode.NONE]
    wrong = ErrorCode.ILLEGAL_GENERATION
    assert desk.commit({("t", 0): 6}, member_id=member, generation=generation - 1) == wrong
    assert desk.commit({("t", 0): 6}, member_id=member, generation=-1) == wrong
    assert desk.commit({("t", 0): 6}, member_id="x", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.commit({("t", 0): 6}, generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        desk.commit({("t", 0): 6}, member_id=member, generation=generation, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert desk.committed() == {("t", 0): 5}


def test_who_is_no_member_may_commit_only_while_the_group_is_empty():
    desk = Desk()
    _, (member,) = desk.stable("a")
    assert desk.commit({("t", 0): 5}) == ErrorCode.UNKNOWN_MEMBER_ID
    desk.leave(member)
    assert errors(desk.commit({("t", 0): 5})) == [ErrorCode.NONE]
    assert errors(desk.commit({("t", 0): 6}, member_id=member)) == [ErrorCode.NONE]


def test_a_member_may_commit_while_others_gather_but_not_before_it_has_its_assignment():
    desk = Desk()
    generation, ids = desk.stable("a", "b")
    desk.join(ids[0])
    assert errors(desk.commit({("t", 0): 5}, member_id=ids[1], generation=generation)) == [ErrorCode.NONE]
    desk.join(ids[1])
    answer = desk.commit({("t", 0): 6}, member_id=ids[1], generation=generation + 1)
    assert answer == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.commit({("t", 0): 6}, member_id=ids[1], generation=generation) == ErrorCode.ILLEGAL_GENERATION


def test_a_commit_keeps_a_session_alive():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    for _ in range(3):
        desk.pass_ms(9_000)
        desk.commit({("t", 0): 5}, member_id=member, generation=generation)
    assert desk.state() == "Stable"


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)])
def test_a_member_of_a_group_that_is_not_there_cannot_commit(version: int, error: ErrorCode):
    assert Desk().commit({("t", 0): 5}, member_id="m", generation=3, version=version) == error


def test_a_commit_that_cannot_be_written_changes_nothing():
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.refusing = ErrorCode.KAFKA_STORAGE_ERROR
    assert desk.commit({("t", 0): 6}) == ErrorCode.NOT_COORDINATOR
    assert desk.commit({("t", 0): 6}, group="new") == ErrorCode.NOT_COORDINATOR
    desk.refusing = ErrorCode.MESSAGE_TOO_LARGE
    assert desk.commit({("t", 0): 6}) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.committed() == {("t", 0): 5}
    assert [group.group_id for group in desk.list()] == ["g"]


def test_a_topic_made_anew_under_the_same_name_has_no_offsets():
    desk = Desk()
    desk.commit({("t", 0): 5})
    assert desk.fetch({"t": [0]}, topic_id=TOPIC_ID).topics[0].partitions[0].committed_offset == 5
    assert desk.fetch({"t": [0]}, topic_id=bytes(16)).topics[0].partitions[0].committed_offset == 5
    assert desk.fetch({"t": [0]}, topic_id=b"x" * 16).topics[0].partitions[0].committed_offset == -1


def test_offsets_outlive_the_move_of_the_coordinator():
    desk = Desk()
    desk.commit({("t", 0): 5}, metadata="note", leader_epoch=2)
    generation, ids = desk.stable("a")
    desk.commit({("t", 1): 9}, member_id=ids[0], generation=generation)
    before = desk.fetch()
    desk.fail_over()
    assert desk.fetch() == before
    assert errors(desk.commit({("t", 1): 10}, member_id=ids[0], generation=generation)) == [ErrorCode.NONE]


# Transactions that commit offsets


def pending(desk: Desk, offset: int, producer: int, at: int) -> None:
    value = OffsetCommitValue(offset=offset, commit_timestamp=1)
    desk.shard.apply(offset_entry("g", "t", 0, value), at, producer)


def test_offsets_of_an_open_transaction_are_not_seen_and_are_unstable_for_who_asks():
    desk = Desk()
    desk.commit({("t", 0): 5})
    pending(desk, 8, producer=7, at=1)
    assert desk.committed() == {("t", 0): 5}
    answer = desk.fetch({"t": [0, 1]}, require_stable=True).topics[0].partitions
    assert [each.error_code for each in answer] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]
    assert desk.fetch({"t": [0]}).topics[0].partitions[0].committed_offset == 5


@pytest.mark.parametrize(("committed", "offset"), [(True, 8), (False, 5)])
def test_the_marker_decides_what_an_open_transaction_comes_to(committed: bool, offset: int):
    desk = Desk()
    desk.commit({("t", 0): 5})
    pending(desk, 8, producer=7, at=1)
    desk.shard.apply_marker(7, committed=committed)
    answer = desk.fetch({"t": [0]}, require_stable=True).topics[0].partitions[0]
    assert (answer.error_code, answer.committed_offset) == (0, offset)


def test_a_plain_commit_after_it_outlasts_a_transaction_that_commits_later():
    desk = Desk()
    pending(desk, 8, producer=7, at=0)
    desk.log.append((b"", None))
    desk.commit({("t", 0): 5})
    desk.shard.apply_marker(7, committed=True)
    assert desk.committed() == {("t", 0): 5}


def test_a_tombstone_ends_what_open_transactions_hold_there():
    desk = Desk()
    pending(desk, 8, producer=7, at=0)
    desk.shard.apply(offset_entry("g", "t", 0, None), 1)
    desk.shard.apply_marker(7, committed=True)
    assert desk.committed() == {}
    assert not desk.shard.offsets.holds("g")


# OffsetDelete and deleted topics


def test_offsets_of_a_topic_that_no_member_reads_are_deleted():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    desk.commit({("t", 0): 5, ("u", 0): 6, ("u", 1): 7}, member_id=member, generation=generation)
    answer = desk.delete_offsets("u", [0, 5])
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == [(0, 0), (5, 0)]
    assert desk.committed() == {("t", 0): 5, ("u", 1): 7}
    assert {key for key, value in desk.log if value is None} == {b"\0\x01\0\x01g\0\x01u\0\0\0\0"}


def test_offsets_of_a_topic_that_a_member_reads_are_not():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    desk.commit({("t", 0): 5}, member_id=member, generation=generation)
    answer = desk.delete_offsets("t", [0])
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert desk.committed() == {("t", 0): 5}
    desk.leave(member)
    desk.delete_offsets("t", [0])
    assert desk.committed() == {}


def test_what_members_read_is_known_after_the_move_too():
    desk = Desk()
    generation, (member,) = desk.stable("a")
    desk.commit({("t", 0): 5, ("u", 0): 6}, member_id=member, generation=generation)
    desk.fail_over()
    assert desk.delete_offsets("t", [0]).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    desk.delete_offsets("u", [0])
    assert desk.committed() == {("t", 0): 5}


def test_where_subscriptions_cannot_be_read_every_topic_may_be_read():
    desk = Desk()
    desk.stable("a", protocols=offers("range", metadata=b"?"))
    assert desk.delete_offsets("u", [0]).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_group_of_another_kind_are_deleted_only_while_it_is_empty():
    desk = Desk()
    _, (member,) = desk.stable("a", protocol_type="connect")
    assert desk.delete_offsets("u", [0]) == ErrorCode.NON_EMPTY_GROUP
    desk.leave(member)
    assert desk.delete_offsets("u", [0]).error_code == ErrorCode.NONE


def test_offsets_of_no_group_cannot_be_deleted():
    assert Desk().delete_offsets("u", [0]) == ErrorCode.GROUP_ID_NOT_FOUND
    assert Desk().delete_offsets("u", [0], group="") == ErrorCode.INVALID_GROUP_ID


def test_a_deleted_topic_takes_its_offsets_along_and_leaves_a_namesakes():
    desk = Desk()
    desk.commit({("t", 0): 5, ("u", 0): 6}, group="a")
    desk.commit({("t", 3): 5}, group="b")
    desk.carry_out(desk.shard.topics_deleted({"t": b"x" * 16}))
    assert desk.committed("a") == {("t", 0): 5, ("u", 0): 6}
    desk.carry_out(desk.shard.topics_deleted({"t": TOPIC_ID}))
    assert desk.committed("a") == {("u", 0): 6}
    assert desk.committed("b") == {}
    assert desk.replayed().offsets.of("b") == {}


# Retention


def test_a_simple_groups_offset_expires_when_its_commit_is_old_enough_and_then_the_group():
    desk = Desk()
    desk.fail_over()
    desk.commit({("t", 0): 5})
    desk.pass_ms(DAY_MS)
    desk.commit({("t", 1): 6})
    desk.pass_ms(6 * DAY_MS - 1)
    assert desk.committed() == {("t", 0): 5, ("t", 1): 6}
    desk.pass_ms(1)
    assert desk.committed() == {("t", 1): 6}
    desk.pass_ms(DAY_MS)
    assert desk.committed() == {}
    assert desk.list() == []
    assert desk.replayed().groups == {}


def test_a_groups_offsets_expire_from_when_it_became_empty():
    desk = Desk()
    desk.fail_over()
    generation, (member,) = desk.stable("a", session_ms=1_800_000)
    desk.commit({("t", 0): 5}, member_id=member, generation=generation)
    for _ in range(10 * 96):
        desk.pass_ms(DAY_MS // 96)
        desk.heartbeat(member, generation)
    assert desk.committed() == {("t", 0): 5}
    desk.leave(member)
    desk.pass_ms(7 * DAY_MS - 600_000)
    assert desk.committed() == {("t", 0): 5}
    desk.pass_ms(1_200_000)
    assert desk.committed() == {}
    assert desk.list() == []


def test_a_stable_group_forgets_topics_that_it_no_longer_reads():
    desk = Desk()
    desk.fail_over()
    generation, (member,) = desk.stable("a", session_ms=1_800_000)
    desk.commit({("t", 0): 5, ("u", 0): 6}, member_id=member, generation=generation)
    for _ in range(8 * 96):
        desk.pass_ms(DAY_MS // 96)
        desk.heartbeat(member, generation)
    assert desk.committed() == {("t", 0): 5}
    assert desk.state() == "Stable"


def test_a_stable_group_of_another_kind_keeps_all_its_offsets():
    desk = Desk()
    desk.fail_over()
    generation, (member,) = desk.stable("a", session_ms=1_800_000, protocol_type="connect")
    desk.commit({("t", 0): 5}, member_id=member, generation=generation)
    for _ in range(8 * 96):
        desk.pass_ms(DAY_MS // 96)
        desk.heartbeat(member, generation)
    assert desk.committed() == {("t", 0): 5}


def test_a_commit_of_the_old_kind_says_itself_how_long_it_is_kept():
    desk = Desk()
    desk.fail_over()
    desk.commit({("t", 0): 5}, retention_ms=DAY_MS, version=2)
    desk.fail_over()
    desk.pass_ms(DAY_MS - 1)
    assert desk.committed() == {("t", 0): 5}
    desk.pass_ms(600_001)
    assert desk.committed() == {}


def test_an_offset_expires_in_the_millisecond_to_which_its_commit_kept_it():
    desk = Desk()
    desk.commit({("t", 0): 5}, retention_ms=DAY_MS, version=2)
    (group,) = desk.shard.groups.values()
    offsets, until_ms = desk.shard.offsets, desk.now.wall_ms + DAY_MS
    for wall_ms, tombstones in ((until_ms - 1, 0), (until_ms, 1)):
        out = GroupDecision()
        assert offsets.expire(group, Moment(0, wall_ms), out) is bool(tombstones)
        assert len(out.entries) == tombstones


def test_a_commit_that_is_kept_for_longer_than_time_lasts_is_kept():
    desk = Desk()
    assert errors(desk.commit({("t", 0): 5}, retention_ms=2**63 - 1, version=2)) == [ErrorCode.NONE]
    desk.fail_over()
    desk.pass_ms(30 * DAY_MS)
    assert desk.committed() == {("t", 0): 5}


@pytest.mark.parametrize(("committed", "known"), [(-5, -1), (-1, -1), (0, 0), (7, 7)])
def test_a_leader_epoch_below_zero_means_that_none_is_known(committed: int, known: int):
    desk = Desk()
    desk.commit({("t", 0): 5}, leader_epoch=committed)
    assert desk.fetch({"t": [0]}).topics[0].partitions[0].committed_leader_epoch == known


def test_an_offset_that_a_transaction_is_about_to_move_does_not_expire():
    desk = Desk()
    desk.fail_over()
    desk.commit({("t", 0): 5})
    pending(desk, 8, producer=7, at=1)
    desk.pass_ms(8 * DAY_MS)
    assert desk.committed() == {("t", 0): 5}
    desk.shard.apply_marker(7, committed=False)
    desk.pass_ms(600_000)
    assert desk.committed() == {}


def test_expiry_that_cannot_be_written_is_tried_again():
    desk = Desk()
    desk.fail_over()
    desk.commit({("t", 0): 5})
    desk.refusing = ErrorCode.KAFKA_STORAGE_ERROR
    desk.pass_ms(8 * DAY_MS)
    assert desk.committed() == {("t", 0): 5}
    desk.refusing = None
    desk.pass_ms(600_000)
    assert desk.committed() == {}


def test_many_groups_are_looked_through_bit_by_bit():
    desk = Desk()
    desk.fail_over()
    for place in range(450):
        desk.commit({("t", 0): place}, group=f"g{place}")
    desk.now_ms = 7 * DAY_MS
    decision = desk.shard.tick(desk.now)
    assert decision is not None
    assert len(decision.entries) == 2 * 200
    desk.carry_out(decision)
    assert desk.shard.tick(desk.now) is None
    desk.pass_ms(2)
    assert desk.list() == []


def test_an_empty_group_that_has_nothing_is_forgotten_at_the_next_look():
    desk = Desk()
    desk.fail_over()
    _, (member,) = desk.stable("a")
    desk.leave(member)
    desk.pass_ms(600_000)
    assert desk.list() == []
    assert desk.log[-1] == (b"\0\x02\0\x01g", None)


def test_an_empty_group_that_has_promised_an_id_is_kept():
    desk = Desk()
    desk.fail_over()
    _, (member,) = desk.stable("a")
    desk.leave(member)
    desk.pass_ms(599_000)
    promised = desk.join().result().member_id
    desk.pass_ms(5_000)
    assert desk.state() == "Empty"
    desk.join(promised)
    desk.pass_ms(0)
    assert desk.state() == "CompletingRebalance"


def test_a_wall_clock_that_jumps_ahead_does_not_make_offsets_old():
    """Rule B9: offsets expire once they are old by the monotonic clock, too."""
    desk = Desk(offsets_retention_ms=5 * DAY_MS)
    desk.fail_over()
    desk.commit({("t", 0): 5})
    desk.pass_ms(DAY_MS)
    desk.wall_start_ms += 30 * DAY_MS
    desk.pass_ms(4 * DAY_MS - 600_000)
    assert desk.committed() == {("t", 0): 5}
    desk.wall_start_ms -= 30 * DAY_MS
    desk.pass_ms(1_200_000)
    assert desk.committed() == {}


def test_expiry_goes_by_the_proven_time_until_an_administrator_accepts_the_clock():
    desk = Desk(offsets_retention_ms=5 * DAY_MS)
    desk.fail_over()
    desk.commit({("t", 0): 5})
    desk.wall_start_ms += 2 * DAY_MS
    desk.pass_ms(4 * DAY_MS)
    assert desk.committed() == {("t", 0): 5}
    desk.trusted.accept(desk.now.wall_ms)
    desk.pass_ms(600_000)
    assert desk.committed() == {}


def test_a_small_step_of_the_clock_pauses_nothing():
    desk = Desk(offsets_retention_ms=5 * DAY_MS)
    desk.fail_over()
    desk.commit({("t", 0): 5})
    desk.wall_start_ms += DAY_MS // 4
    desk.pass_ms(5 * DAY_MS - DAY_MS // 4)
    assert desk.committed() == {}
