"""Consumer groups under any order of heartbeats, lost answers, departures, growing topics and failovers.

A partition never has two owners, a replay gives the live state, and an undisturbed group becomes stable with all
partitions assigned.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.groups.consumer_desk import Client, ConsumerDesk, SomeTopics, state_of

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import MemberState
from ottla.groups.values import ConsumerGroupSettings
from ottla.kernel.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
TOPICS = ("t", "u")
SUBSCRIPTIONS = st.sampled_from([("t",), ("u",), ("t", "u")])


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Up to four consumers, two of them static, in one group over two topics."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}
        self.born = 0
        self.seen_epoch: dict[str, int] = {}
        self.held_in: dict[tuple[tuple[bytes, int], int], str] = {}

    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, interval_ms: int, assignor: str) -> None:
        self.desk = ConsumerDesk(
            consumer=ConsumerGroupSettings(assignment_interval_ms=interval_ms),
            topics=SomeTopics(t=3, u=2),
            consumer_assignors=(assignor,),
        )

    @rule(name=st.sampled_from(NAMES), topics=SUBSCRIPTIONS, lost=st.booleans())
    def beat(self, name: str, topics: tuple[str, ...], lost: bool) -> None:
        if name not in self.clients:
            self.born += 1
            instance = f"i{name}" if name in "ab" else None
            self.clients[name] = Client(self.desk, f"{name}{self.born}", *topics, instance=instance)
        answer = self.clients[name].beat(lost=lost)
        if answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            del self.clients[name]

    @rule(name=st.sampled_from(NAMES))
    def settle(self, name: str) -> None:
        if name in self.clients:
            self.clients[name].settle()

    @rule(name=st.sampled_from(NAMES), topics=SUBSCRIPTIONS)
    def resubscribe(self, name: str, topics: tuple[str, ...]) -> None:
        if name in self.clients:
            self.clients[name].resubscribe(*topics)

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        if name in self.clients:
            self.clients.pop(name).leave()

    @rule(name=st.sampled_from("ab"))
    def leave_for_a_while(self, name: str) -> None:
        if name in self.clients:
            self.clients.pop(name).leave(epoch=-2)

    @rule(name=st.sampled_from(NAMES))
    def die(self, name: str) -> None:
        self.clients.pop(name, None)

    @rule(milliseconds=st.sampled_from([10, 1_000, 20_000, 46_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.desk.pass_ms(milliseconds)

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, topic: str, more: int) -> None:
        shape = self.desk.topics.by_name(topic)
        assert shape is not None
        self.desk.topics.make(topic, min(shape.partitions + more, 7))

    @rule()
    def fail_over(self) -> None:
        self.desk.fail_over()

    @precondition(lambda self: self.clients)
    @rule()
    def be_left_alone(self) -> None:
        """Clients that only send heartbeats and settle reach a stable group, from any state."""
        self.desk.pass_ms(61_000)  # dead members, and those that did not revoke, are gone
        for _ in range(12):
            for client in list(self.clients.values()):
                client.beat()
                client.settle()
            self.desk.pass_ms(1_000)
        group = self.desk.group()
        assert group.state_name == "Stable"
        assert {member.member_id for member in self.clients.values()} == set(group.members)
        for client in self.clients.values():
            assert self.ids(client) == {place for place, owner in group._owners.items() if owner == client.member_id}
        self.all_is_assigned(group)

    def all_is_assigned(self, group: ConsumerGroup) -> None:
        for topic in TOPICS:
            shape = self.desk.topics.by_name(topic)
            assert shape is not None
            wanted = any(topic in client.topics for client in self.clients.values())
            owners = [group.owner(shape.topic_id, index) for index in range(shape.partitions)]
            assert all(owners) if wanted else not any(owners)

    def ids(self, client: Client) -> set[tuple[bytes, int]]:
        return {(self.desk.topics.id_of(name), index) for name, indexes in client.owned.items() for index in indexes}

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        for group in self.desk.shard.consumers.groups.values():
            held: Counter[tuple[bytes, int]] = Counter()
            for member in group.members.values():
                places = {(topic, index) for topic, epochs in member.assigned.items() for index in epochs}
                pending = {(topic, index) for topic, indexes in member.pending.items() for index in indexes}
                assert not places & pending
                assert bool(pending) <= (member.state is MemberState.UNREVOKED)
                held.update(places | pending)
            assert not held or max(held.values()) == 1
            assert held.keys() == group._owners.keys()

    @invariant()
    def a_client_reads_only_what_is_its_own(self) -> None:
        group = self.desk.shard.consumers.groups.get("g")
        for client in self.clients.values():
            if group is not None and client.member_id in group.members and client.epoch:
                for place in self.ids(client):
                    assert group.owner(*place) == client.member_id
                    held_in = self.held_in.setdefault((place, client.epoch), client.instance or client.member_id)
                    assert held_in == (client.instance or client.member_id), "two owners in one epoch"

    @invariant()
    def epochs_are_in_order_and_do_not_fall(self) -> None:
        for group in self.desk.shard.consumers.groups.values():
            assert group.assignment_epoch <= group.epoch
            assert self.seen_epoch.get("g", 0) <= group.epoch
            self.seen_epoch["g"] = group.epoch
            for member in group.members.values():
                assert member.epoch <= group.assignment_epoch

    @invariant()
    def what_is_replayed_is_what_lives(self) -> None:
        live, replayed = self.desk.shard.consumers.groups, self.desk.replayed().consumers.groups
        assert live.keys() == replayed.keys()
        for group_id, group in live.items():
            assert state_of(group) == state_of(replayed[group_id])


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
