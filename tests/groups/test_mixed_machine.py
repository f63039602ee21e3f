"""One group under any order of requests of members of both protocols, while it changes its kind.

A partition never has two owners, a replay gives the live state, and undisturbed members share all partitions.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.groups.classic_client import ClassicClient, places
from tests.groups.consumer_desk import Client, ConsumerDesk, SomeTopics, state_of

from ottla.groups.group import Group, GroupState
from ottla.groups.values import ConsumerGroupSettings, MigrationPolicy
from ottla.kernel.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
TOPICS = ("t", "u")
SUBSCRIPTIONS = st.sampled_from([("t",), ("u",), ("t", "u")])


class MixedGroupMachine(RuleBasedStateMachine):
    """Up to four consumers, two of them static, each of either protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client | ClassicClient] = {}
        self.born = 0
        self.seen_epoch = 0
        self.unseen = False
        """True if a topic has grown or a static member is back, and no leader of a classic group has looked since."""

    @initialize(
        policy=st.sampled_from([MigrationPolicy.BIDIRECTIONAL] * 3 + list(MigrationPolicy)),
        cooperative=st.booleans(),
        interval_ms=st.sampled_from([0, 0, 3_000]),
    )
    def begin(self, policy: MigrationPolicy, cooperative: bool, interval_ms: int) -> None:
        self.cooperative = cooperative
        self.desk = ConsumerDesk(
            consumer=ConsumerGroupSettings(assignment_interval_ms=interval_ms),
            topics=SomeTopics(t=3, u=2),
            migration_policy=policy,
        )

    # Members

    @rule(name=st.sampled_from(NAMES), topics=SUBSCRIPTIONS, classic=st.booleans())
    def start(self, name: str, topics: tuple[str, ...], classic: bool) -> None:
        """Start a consumer; the process that had the name before has died without leaving.

        A static one that comes back to a stable classic group is given what it had, whatever it subscribes to now: as
        with Apache Kafka, only the next generation is assigned by its new topics.
        """
        self.born += 1
        instance = f"i{name}" if name in "ab" else None
        self.unseen = self.unseen or (classic and instance is not None)
        if classic:
            client: Any = ClassicClient(self.desk, *topics, instance=instance, cooperative=self.cooperative)
        else:
            client = Client(self.desk, f"{name}{self.born}", *topics, instance=instance)
        self.clients[name] = client
        self.step(name)

    @rule(name=st.sampled_from(NAMES))
    def step(self, name: str) -> None:
        client = self.clients.get(name)
        if isinstance(client, ClassicClient):
            client.step()
            if client.fenced:
                del self.clients[name]
        elif client is not None and client.beat().error_code in _FOR_GOOD:
            del self.clients[name]

    @rule(steps=st.integers(1, 8))
    def all_step(self, steps: int) -> None:
        for _ in range(steps):
            for name in list(self.clients):
                self.step(name)

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
        client = self.clients.pop(name, None)
        if client is not None and client.member_id:
            client.leave()

    # Around them

    @rule(milliseconds=st.sampled_from([10, 1_000, 4_000, 11_000, 46_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.desk.pass_ms(milliseconds)

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        shape = self.desk.topics.by_name(topic)
        assert shape is not None
        self.desk.topics.make(topic, min(shape.partitions + 1, 6))
        self.unseen = True

    @rule()
    def fail_over(self) -> None:
        self.desk.fail_over()
        for client in self.clients.values():
            if isinstance(client, ClassicClient):
                client.disconnect()

    @rule()
    def refuse_appends_for_a_while(self) -> None:
        """Let the log refuse appends while requests and deadlines come."""
        self.desk.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
        for client in self.clients.values():
            if isinstance(client, Client):
                client.beat(lost=True)
        self.desk.pass_ms(3_000)
        self.desk.refusing = None

    @precondition(lambda self: self.clients)
    @rule()
    def be_left_alone(self) -> None:
        """Members that only send heartbeats and settle share all partitions in the end, from any state."""
        for turn in range(110):
            for name in list(self.clients):
                self.step(name)
            if self.unseen and turn == _LOOKED_AT:
                self.look_at_topics()
            for client in self.clients.values():
                client.settle()
            self.desk.pass_ms(1_000)
            self.epochs_do_not_fall_while_there_are_members()
        group = self.desk.shard.group("g")
        kept = {name: client for name, client in self.clients.items() if self.is_member(client)}
        refused = self.clients.keys() - kept.keys()
        assert not refused or not self.desk.settings.migration_policy.upgrades, refused
        assert group is None or group.state_name in ("Stable", "Empty")
        for topic in TOPICS:
            shape = self.desk.topics.by_name(topic)
            assert shape is not None
            read = sorted(place for client in kept.values() for place in places(client) if place[0] == topic)
            wanted = any(topic in client.topics for client in kept.values())
            assert read == ([(topic, index) for index in range(shape.partitions)] if wanted else [])

    def look_at_topics(self) -> None:
        self.unseen = False
        for client in self.clients.values():
            if isinstance(client, ClassicClient):
                client.notice_topics()

    def is_member(self, client: Client | ClassicClient) -> bool:
        group = self.desk.shard.groups.get("g") or self.desk.shard.consumers.groups.get("g")
        return group is not None and client.member_id in group.members

    # Always

    @invariant()
    def nobody_reads_what_another_has(self) -> None:
        """Check members in their group's epoch; one that was removed, or missed a generation, may not know it yet."""
        group = self.desk.shard.consumers.groups.get("g")
        if group is None:
            return
        for client in self.clients.values():
            member = group.members.get(client.member_id)
            epoch = client.epoch if isinstance(client, Client) else client.generation
            if member is not None and member.epoch == epoch and epoch > 0:
                for name, index in places(client):
                    assert group.owner(self.desk.topics.id_of(name), index) == client.member_id

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        for group in self.desk.shard.consumers.groups.values():
            held = [
                (topic, index)
                for member in group.members.values()
                for partitions in (member.assigned, member.pending)
                for topic, indexes in partitions.items()
                for index in indexes
            ]
            assert len(held) == len(set(held)) and set(held) == group._owners.keys()
            assert group.classic_members == sum(member.classic is not None for member in group.members.values())

    @invariant()
    def epochs_do_not_fall_while_there_are_members(self) -> None:
        group = self.desk.shard.group("g")
        if group is None or group.is_empty:
            self.seen_epoch = 0
            return
        epoch = group.generation if isinstance(group, Group) else group.epoch  # type: ignore[attr-defined]
        stable = not isinstance(group, Group) or group.state is GroupState.STABLE
        if stable:
            assert epoch >= self.seen_epoch
            self.seen_epoch = epoch

    @invariant()
    def there_is_one_group_of_one_kind_and_it_is_what_is_replayed(self) -> None:
        live, replayed = self.desk.shard, self.desk.replayed()
        assert len(live.all_groups()) <= 1 and len(replayed.all_groups()) <= 1
        assert live.consumers.groups.keys() == replayed.consumers.groups.keys()
        for group_id, consumers in live.consumers.groups.items():
            assert state_of(consumers) == state_of(replayed.consumers.groups[group_id])
        for group_id, group in live.groups.items():
            assert (group_id in replayed.groups) == group.written
            if group.state is GroupState.STABLE:
                assert kept_of(group) == kept_of(replayed.groups[group_id])


def kept_of(group: Group) -> tuple[object, ...]:
    return (
        group.generation, group.protocol_name, group.leader, group.unled, group.subscribed, list(group.members),
        [(each.instance_id, each.assignment) for each in group.members.values()],
    )  # fmt: skip


_LOOKED_AT = 70
"""The undisturbed turn in which clients look at their topics."""
_FOR_GOOD = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)

TestMixedGroups = MixedGroupMachine.TestCase
TestMixedGroups.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
