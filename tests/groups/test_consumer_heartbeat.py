"""Members of consumer groups join, stay, fall behind and leave: the decision table of KIP-848, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from tests.groups.consumer_desk import ConsumerDesk, SomeTopics, error_of

from ottla.groups.values import ConsumerGroupSettings
from ottla.kernel.errors import ErrorCode

# Contradictory requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": ""},
        {"member_id": "", "epoch": 3},
        {"member_id": "", "epoch": -1},
        {"group": ""},
        {"instance": ""},
        {"rack": ""},
        {"member_id": " "},
        {"group": "\t"},
        {"instance": " "},
        {"rack": " \n"},
        {"timeout_ms": -1},
        {"owned": None},
        {"owned": {"t": {0}}},
        {"topics": None},
        {"epoch": -2},
        {"epoch": -3},
        {"member_id": "m" * 40_000},
    ],
)
def test_a_heartbeat_that_contradicts_itself_is_refused(wrong: dict[str, Any]):
    desk = ConsumerDesk()
    said = {"member_id": "m", "epoch": 0, "owned": {}, "topics": ["t"], "timeout_ms": 1} | wrong
    assert error_of(desk.beat(said.pop("member_id"), said.pop("epoch"), **said)) == ErrorCode.INVALID_REQUEST
    assert not desk.log and not desk.shard.consumers.groups


def test_version_0_lets_the_coordinator_make_the_member_id():
    desk = ConsumerDesk()
    answer = desk.join_consumer("", version=0)
    assert answer.member_id == "uuid1" and desk.told(answer) == {"t": {0, 1, 2, 3}}
    assert error_of(desk.beat("", 1, version=0)) == ErrorCode.INVALID_REQUEST


def test_an_unknown_assignor_is_refused():
    assert error_of(ConsumerDesk().join_consumer("m", assignor="sticky")) == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_an_empty_subscription_is_a_subscription():
    desk = ConsumerDesk()
    assert desk.told(desk.beat("m", 0, owned={}, topics=[], timeout_ms=5)) == {}
    assert desk.describe_consumer().group_state == "Stable"


# Joining


def test_the_first_member_gets_all_partitions_in_epoch_2():
    desk = ConsumerDesk()
    answer = desk.join_consumer("m")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m", 2, 5_000)
    assert desk.told(answer) == {"t": {0, 1, 2, 3}}


def test_a_heartbeat_without_news_is_answered_without_an_assignment_and_writes_nothing():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    written = len(desk.log)
    assert desk.told(desk.beat("m", 2)) is None
    assert len(desk.log) == written


def test_a_full_heartbeat_hears_the_assignment_again():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    full = desk.beat("m", 2, topics=["t"], timeout_ms=60_000, owned={"t": {0, 1, 2, 3}})
    assert desk.told(full) == {"t": {0, 1, 2, 3}}


def test_a_known_member_may_join_again_and_keeps_its_epoch():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    again = desk.join_consumer("m")
    assert again.member_epoch == 2 and desk.told(again) == {"t": {0, 1, 2, 3}}
    assert desk.group().epoch == 2


def test_who_is_not_a_member_cannot_stay():
    desk = ConsumerDesk()
    assert error_of(desk.beat("m", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    desk.join_consumer("m")
    assert error_of(desk.beat("other", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_no_more_members():
    desk = ConsumerDesk(consumer_max_size=1)
    desk.join_consumer("m")
    assert error_of(desk.join_consumer("n")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join_consumer("m").error_code == ErrorCode.NONE


# Epochs


def test_an_epoch_above_the_members_is_fenced():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    assert error_of(desk.beat("m", 3)) == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_good_while_the_client_owns_no_more_than_it_was_given():
    desk = ConsumerDesk(topics=SomeTopics(t=2, u=2))
    desk.join_consumer("m")
    desk.beat("m", 2, topics=["t", "u"])
    assert desk.group().members["m"].epoch == 3
    lost = desk.beat("m", 2, owned={"t": {0, 1}})
    assert (error_of(lost), lost.member_epoch) == (ErrorCode.NONE, 3)
    assert error_of(desk.beat("m", 2)) == ErrorCode.FENCED_MEMBER_EPOCH, "it did not say what it owns"
    desk.topics.make("v", 1)
    assert error_of(desk.beat("m", 2, owned={"v": {0}})) == ErrorCode.FENCED_MEMBER_EPOCH, "more than it was given"
    assert error_of(desk.beat("m", 1, owned={})) == ErrorCode.FENCED_MEMBER_EPOCH, "older than the one before"


# Moving partitions


def test_a_partition_is_revoked_before_another_member_gets_it():
    desk = ConsumerDesk()
    desk.join_consumer("a")
    second = desk.join_consumer("b")
    assert (second.member_epoch, desk.told(second)) == (3, {}), "all partitions still are with the first"
    assert desk.describe_consumer().group_state == "Reconciling"

    revoke = desk.beat("a", 2)
    assert (revoke.member_epoch, desk.told(revoke)) == (2, {"t": {0, 1}}), "no new epoch before it has revoked"
    assert desk.told(desk.beat("b", 3)) is None, "pending revocations count as owned"
    assert desk.told(desk.beat("a", 2)) is None, "it did not say yet"

    done = desk.beat("a", 2, owned={"t": {0, 1}})
    assert (done.member_epoch, desk.told(done)) == (3, None)
    assert desk.told(desk.beat("b", 3)) == {"t": {2, 3}}
    assert desk.describe_consumer().group_state == "Stable"


def test_a_member_that_does_not_revoke_in_time_is_removed():
    desk = ConsumerDesk()
    desk.join_consumer("a", timeout_ms=10_000)
    desk.join_consumer("b")
    desk.beat("a", 2)
    desk.pass_ms(9_999)
    assert desk.beat("a", 2).error_code == ErrorCode.NONE
    desk.beat("b", 3)
    desk.pass_ms(1)
    assert error_of(desk.beat("a", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.told(desk.beat("b", 3)) == {"t": {0, 1, 2, 3}}


def test_the_time_to_revoke_ends_with_the_revocation():
    desk = ConsumerDesk()
    desk.join_consumer("a", timeout_ms=10_000)
    desk.join_consumer("b")
    desk.beat("a", 2)
    desk.beat("a", 2, owned={"t": {0, 1}})
    desk.pass_ms(20_000)
    assert desk.beat("a", 3).error_code == ErrorCode.NONE


def test_a_member_that_was_not_heard_of_is_removed_and_its_partitions_go_to_others():
    desk = ConsumerDesk()
    desk.join_consumer("a")
    desk.join_consumer("b")
    desk.pass_ms(30_000)
    desk.beat("b", 3)
    desk.pass_ms(15_000)
    assert set(desk.group().members) == {"b"}
    answer = desk.beat("b", 3)
    assert (answer.member_epoch, desk.told(answer)) == (4, {"t": {0, 1, 2, 3}})


def test_a_member_that_leaves_gives_its_partitions_back_at_once():
    desk = ConsumerDesk()
    desk.join_consumer("a")
    desk.join_consumer("b")
    left = desk.beat("a", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "a", -1)
    assert desk.told(desk.beat("b", 3)) == {"t": {0, 1, 2, 3}}
    assert error_of(desk.beat("a", -1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group():
    desk = ConsumerDesk()
    desk.join_consumer("a")
    desk.beat("a", -1)
    assert desk.describe_consumer().group_state == "Empty" and desk.group().epoch == 3
    assert error_of(desk.beat("a", -1, group="other")) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_that_is_no_longer_subscribed_to_is_given_up_before_a_new_target_is_known():
    desk = ConsumerDesk(topics=SomeTopics(t=2, u=2), consumer=ConsumerGroupSettings(assignment_interval_ms=1_000))
    assert desk.told(desk.join_consumer("m", "t", "u")) == {"t": {0, 1}, "u": {0, 1}}
    trimmed = desk.beat("m", 2, topics=["t"], owned={"t": {0, 1}, "u": {0, 1}})
    assert (trimmed.member_epoch, desk.told(trimmed)) == (2, {"t": {0, 1}})
    assert desk.describe_consumer().group_state == "Assigning"
    desk.pass_ms(1_000)
    assert desk.beat("m", 2, owned={"t": {0, 1}}).member_epoch == 3


def test_targets_are_not_computed_more_often_than_the_interval_says():
    desk = ConsumerDesk(consumer=ConsumerGroupSettings(assignment_interval_ms=1_000))
    desk.join_consumer("a")
    assert desk.join_consumer("b").member_epoch == 2, "the target of before does not know it"
    assert (desk.group().epoch, desk.group().assignment_epoch) == (3, 2)
    desk.pass_ms(1_000)
    desk.beat("b", 2)
    assert desk.group().assignment_epoch == 3


def test_a_wall_clock_set_back_does_not_stop_assignments():
    desk = ConsumerDesk(consumer=ConsumerGroupSettings(assignment_interval_ms=1_000))
    desk.join_consumer("a")
    desk.wall_start_ms -= 3_600_000
    desk.join_consumer("b")
    assert desk.group().assignment_epoch == 3


# Topics change


def test_new_partitions_begin_a_new_epoch_with_the_next_heartbeat():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.topics.make("t", 6)
    answer = desk.beat("m", 2)
    assert (answer.member_epoch, desk.told(answer)) == (3, {"t": {0, 1, 2, 3, 4, 5}})


def test_a_topic_may_be_subscribed_to_before_it_exists():
    desk = ConsumerDesk()
    assert desk.told(desk.join_consumer("m", "later")) == {}
    desk.topics.make("later", 1)
    assert desk.told(desk.beat("m", 2)) == {"later": {0}}


def test_a_topic_of_another_group_changes_nothing():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.topics.make("u", 6)
    assert desk.beat("m", 2).member_epoch == 2


def test_a_deleted_topic_is_given_up():
    desk = ConsumerDesk(topics=SomeTopics(t=1, u=1))
    desk.join_consumer("m", "t", "u")
    desk.topics.delete("u")
    assert desk.told(desk.beat("m", 2, owned={"t": {0}})) == {"t": {0}}
    assert desk.beat("m", 3).member_epoch == 3


# Assignors


def test_the_assignor_that_most_members_name_is_taken():
    desk = ConsumerDesk(topics=SomeTopics(t=3, u=3))
    desk.join_consumer("a", "t", "u", assignor="range")
    assert desk.describe_consumer().assignor_name == "range"
    desk.join_consumer("b", "t", "u", assignor="range")
    desk.join_consumer("c", "t", "u", assignor="uniform")
    assert desk.describe_consumer().assignor_name == "range"
    assert {member: set(map(len, target.values())) for member, target in desk.group().target.items()} == {
        "a": {1}, "b": {1}, "c": {1},
    }  # fmt: skip


# Refused appends


def test_a_join_that_cannot_be_written_has_not_happened():
    desk = ConsumerDesk()
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.join_consumer("m") == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[comparison-overlap]
    assert not desk.shard.consumers.groups
    desk.refusing = None
    desk.pass_ms(60_000)
    assert desk.join_consumer("m").member_epoch == 2
