"""Edge cases of groups that change their protocol: timeouts, refused entries, several changes in a row."""

from __future__ import annotations

from typing import Any

from tests.groups.both_protocols import ALL, kinds, live, nobody_shares
from tests.groups.classic_client import ClassicClient, places
from tests.groups.consumer_desk import Client, ConsumerDesk, SomeTopics
from tests.groups.group_desk import offers, subscription

from ottla.client.consume.group_protocol import decode_assignment
from ottla.groups.group import GroupState
from ottla.groups.values import ConsumerGroupSettings
from ottla.kernel.errors import ErrorCode
from ottla.messages.join_group import JoinGroupRequestProtocol


def offered() -> list[JoinGroupRequestProtocol]:
    return offers("range", metadata=subscription("t"))


def mixed(desk: ConsumerDesk, **options: Any) -> int:
    """A group of a consumer member `m` and a classic one `x` with its assignment; return the epoch of `x`."""
    desk.join_consumer("m", client="c")
    joined = desk.join("x", protocols=offered(), **options).result()
    assert desk.sync("x", joined.generation_id).result().error_code == ErrorCode.NONE
    return joined.generation_id


def test_a_downgrade_leaves_a_member_what_it_has_yet_to_give_up():
    desk = ConsumerDesk()
    classic = ClassicClient(desk, cooperative=True)
    live(desk, classic, rounds=8)
    consumer = Client(desk, "m")
    consumer.beat()
    while not desk.group().members[classic.member_id].pending:
        classic.step()
    consumer.leave()
    (member,) = desk.shard.groups["g"].members.values()
    assert {tuple(place) for place in decode_assignment(member.assignment)} == ALL
    late = Client(desk, "late")
    late.beat()
    nobody_shares(classic, late)
    live(desk, classic, late)
    assert [len(places(classic)), len(places(late))] == [2, 2]


def test_the_generation_after_a_downgrade_has_a_leader_in_the_log():
    desk = ConsumerDesk()
    classic, consumer = ClassicClient(desk), Client(desk, "m")
    live(desk, classic, consumer)
    consumer.leave()
    first = desk.replayed().groups["g"]
    assert first.unled and first.members
    live(desk, classic)
    settled = desk.replayed().groups["g"]
    assert not settled.unled and settled.leader == classic.member_id and settled.generation > first.generation
    generation = desk.shard.groups["g"].generation
    desk.fail_over()
    live(desk, classic)
    assert desk.shard.groups["g"].generation == generation, "nobody is called back without need"


def test_a_static_member_that_returns_right_after_a_downgrade_does_not_hide_it():
    desk = ConsumerDesk()
    static, consumer = ClassicClient(desk, instance="i"), Client(desk, "m")
    live(desk, static, consumer)
    consumer.leave()
    again = ClassicClient(desk, instance="i")
    again.step()
    assert desk.shard.groups["g"].state is GroupState.STABLE
    assert desk.replayed().groups["g"].unled, "the generation still has no leader"
    live(desk, again)
    assert places(again) == ALL


def test_a_member_gives_up_topics_though_the_next_target_has_to_wait():
    desk = ConsumerDesk(consumer=ConsumerGroupSettings(assignment_interval_ms=60_000), topics=SomeTopics(t=2, u=2))
    classic = ClassicClient(desk, "t", "u", cooperative=True)
    live(desk, classic, rounds=8)
    desk.join_consumer("m", "u")
    live(desk, classic, rounds=8)
    classic.resubscribe("u")
    while not desk.group().members[classic.member_id].pending:
        classic.step()
    member = desk.group().members[classic.member_id]
    assert desk.heartbeat(member.member_id, member.epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    live(desk, classic, rounds=8)
    assert places(classic) == set() and desk.group().members[classic.member_id].pending == {}


def test_a_member_that_has_its_assignment_may_take_its_time():
    desk = ConsumerDesk()
    epoch = mixed(desk, rebalance_ms=20_000)
    for _ in range(6):
        desk.pass_ms(5_000)
        assert desk.heartbeat("x", epoch) == ErrorCode.NONE
    assert "x" in desk.group().members, "longer than the time that it had to ask"


def test_a_member_has_its_full_time_to_join_after_each_change():
    desk = ConsumerDesk()
    epoch = mixed(desk, rebalance_ms=20_000)
    desk.join_consumer("n")
    assert desk.heartbeat("x", epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    desk.beat("n", -1)
    desk.beat("m", -1)
    assert kinds(desk) == {"classic"}
    desk.pass_ms(0)
    rejoined = desk.join("x", protocols=offered(), rebalance_ms=20_000).result()
    desk.sync("x", rejoined.generation_id, {"x": b""})
    for _ in range(3):
        desk.pass_ms(5_000)
        assert desk.heartbeat("x", rejoined.generation_id) == ErrorCode.NONE
    desk.join_consumer("late")
    for _ in range(3):
        assert desk.heartbeat("x", rejoined.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
        desk.pass_ms(5_000)
    assert "x" in desk.group().members, "15 s of 20"


def test_members_whose_removal_is_refused_are_removed_after_another_session():
    desk = ConsumerDesk()
    desk.join_consumer("m")
    desk.join_consumer("n")
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.pass_ms(50_000)
    desk.refusing = None
    assert len(desk.group().members) == 2
    desk.pass_ms(50_000)
    assert not desk.group().members


def test_members_of_a_group_whose_downgrade_is_refused_keep_their_sessions():
    desk = ConsumerDesk()
    desk.join_consumer("m", instance="i")
    mixed_epoch = desk.join("x", protocols=offered()).result().generation_id
    desk.sync("x", mixed_epoch)
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.join(instance="i", protocols=offered()).result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    assert kinds(desk) == {"consumer"} and set(desk.group().members) == {"m", "x"}
    desk.pass_ms(11_000)
    assert set(desk.group().members) == {"m"}
    desk.pass_ms(46_000)
    assert not desk.group().members


def test_a_member_that_waited_while_an_upgrade_was_refused_has_a_session_again():
    desk = ConsumerDesk()
    generation, (first, second) = _stable_with_a_static_leader(desk)
    waiting = desk.join(first, instance="i", protocols=offered())
    for _ in range(3):
        desk.pass_ms(5_000)
        desk.heartbeat(second, generation)
    assert not waiting.full and first in desk.shard.groups["g"].members, "whoever waits need not be heard of"
    desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.join_consumer("m") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.refusing = None
    assert waiting.result() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(3):
        desk.pass_ms(5_000)
        desk.heartbeat(second, generation)
    assert set(desk.shard.groups["g"].members) == {second}


def _stable_with_a_static_leader(desk: ConsumerDesk) -> tuple[int, tuple[str, str]]:
    first = desk.join(instance="i", protocols=offered())
    desk.pass_ms(0)
    leader = first.result().member_id
    second, slot = desk.join_by_id(protocols=offered())
    again = desk.join(leader, instance="i", protocols=offered())
    generation = slot.result().generation_id
    desk.sync(second, generation)
    assert desk.sync(again.result().member_id, generation, {leader: b"", second: b""}).full
    return generation, (leader, second)
