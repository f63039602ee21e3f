"""Static members of consumer groups: they leave for a while, come back under a new id, and keep their partitions."""

from __future__ import annotations

from tests.groups.consumer_desk import ConsumerDesk, error_of

from ottla.kernel.errors import ErrorCode


def a_static_member_and_another() -> ConsumerDesk:
    """`a`, static, has half of the partitions, `b` the others; both are in epoch 3."""
    desk = ConsumerDesk()
    desk.join_consumer("a", instance="i")
    desk.join_consumer("b")
    desk.beat("a", 2, instance="i")
    desk.beat("a", 2, instance="i", owned={"t": {0, 1}})
    desk.beat("b", 3)
    return desk


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions():
    desk = a_static_member_and_another()
    left = desk.beat("a", -2, instance="i")
    assert (left.error_code, left.member_epoch) == (0, -2)
    assert desk.told(desk.beat("b", 3)) is None and desk.group().epoch == 3

    back = desk.join_consumer("a2", instance="i")
    assert (back.member_epoch, desk.told(back)) == (3, {"t": {0, 1}})
    assert set(desk.group().members) == {"a2", "b"}
    assert (desk.group().epoch, desk.describe_consumer().group_state) == (3, "Stable"), "nobody had to move"


def test_a_static_member_that_comes_back_with_another_subscription_begins_a_new_epoch():
    desk = a_static_member_and_another()
    desk.beat("a", -2, instance="i")
    back = desk.join_consumer("a2", "t", "u", instance="i")
    assert (back.member_epoch, desk.group().epoch) == (4, 4)


def test_a_static_member_that_does_not_come_back_is_removed_when_its_session_ends():
    desk = a_static_member_and_another()
    desk.beat("a", -2, instance="i")
    desk.pass_ms(44_000)
    desk.beat("b", 3)
    desk.pass_ms(1_000)
    assert desk.told(desk.beat("b", 3)) == {"t": {0, 1, 2, 3}}


def test_an_instance_id_in_use_is_not_given_to_another_member():
    desk = a_static_member_and_another()
    assert error_of(desk.join_consumer("c", instance="i")) == ErrorCode.UNRELEASED_INSTANCE_ID


def test_only_the_holder_of_an_instance_id_may_stay_or_leave_under_it():
    desk = a_static_member_and_another()
    assert error_of(desk.beat("c", 3, instance="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(desk.beat("c", -1, instance="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(desk.beat("c", -2, instance="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(desk.beat("c", 3, instance="other")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(desk.beat("c", -1, instance="other")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_incarnation_before_is_fenced():
    desk = a_static_member_and_another()
    desk.beat("a", -2, instance="i")
    desk.join_consumer("a2", instance="i")
    assert error_of(desk.beat("a", 3, instance="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(desk.beat("a", 3)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_leave_for_good():
    desk = a_static_member_and_another()
    assert desk.beat("a", -1, instance="i").error_code == ErrorCode.NONE
    assert desk.told(desk.beat("b", 3)) == {"t": {0, 1, 2, 3}}


def test_a_known_instance_comes_back_to_a_full_group():
    desk = ConsumerDesk(consumer_max_size=1)
    desk.join_consumer("a", instance="i")
    desk.beat("a", -2, instance="i")
    assert desk.join_consumer("a2", instance="i").error_code == ErrorCode.NONE
    assert error_of(desk.join_consumer("b", instance="j")) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_was_to_be_revoked_is_given_back_when_a_static_member_leaves_for_a_while():
    desk = ConsumerDesk()
    desk.join_consumer("a", instance="i")
    desk.join_consumer("b")
    desk.beat("a", 2, instance="i")
    desk.beat("a", -2, instance="i")
    assert desk.told(desk.beat("b", 3)) == {"t": {2, 3}}


def test_absent_static_members_outlive_a_change_of_coordinators():
    desk = a_static_member_and_another()
    desk.beat("a", -2, instance="i")
    desk.fail_over()
    back = desk.join_consumer("a2", instance="i")
    assert (back.member_epoch, desk.told(back)) == (3, {"t": {0, 1}})
