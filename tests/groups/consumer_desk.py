"""Consumer groups without a broker: the desk of test shards, with topics, and clients that follow the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.groups.group_desk import Desk

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.shard import GroupShard
from ottla.groups.topics import TopicShape
from ottla.groups.values import Caller, ConsumerGroupSettings, everything
from ottla.kernel.errors import ErrorCode
from ottla.messages.consumer_group_describe import DescribedGroup
from ottla.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)

Owned = dict[str, set[int]]
"""Partitions by the names of their topics."""


class SomeTopics:
    """Topics that a test makes, grows and deletes."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._shapes: dict[str, TopicShape] = {}
        self._made = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, partitions: int) -> None:
        """Make a topic, or give it more partitions."""
        before = self._shapes.get(name)
        if before is None:
            self._made += 1
        topic_id = before.topic_id if before else self._made.to_bytes(16, "big")
        self._shapes[name] = TopicShape(topic_id, name, partitions)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._shapes[name]
        self.version += 1

    def by_name(self, name: str) -> TopicShape | None:
        return self._shapes.get(name)

    def by_id(self, topic_id: bytes) -> TopicShape | None:
        return next((shape for shape in self._shapes.values() if shape.topic_id == topic_id), None)

    def names(self) -> Sequence[str]:
        return sorted(self._shapes)

    def id_of(self, name: str) -> bytes:
        return self._shapes[name].topic_id


class ConsumerDesk(Desk):
    """Plays the broker to a shard with consumer groups. Targets are computed at once unless a test says otherwise."""

    def __init__(
        self, *, consumer: ConsumerGroupSettings | None = None, topics: SomeTopics | None = None, **settings: Any
    ):
        self.consumer_settings = consumer or ConsumerGroupSettings(assignment_interval_ms=0)
        self.topics = topics or SomeTopics(t=4)
        super().__init__(**settings)

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            self.settings,
            lambda: f"uuid{next(self._suffixes)}",
            topics=self.topics,
            consumer_settings=lambda _: self.consumer_settings,
        )

    def group(self, group: str = "g") -> ConsumerGroup:
        return self.shard.consumers.groups[group]

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Owned | None = None,
        instance: str | None = None,
        rack: str | None = None,
        timeout_ms: int = -1,
        assignor: str | None = None,
        version: int = 1,
        client: str = "c",
        sees: Callable[[str], bool] = everything,
    ) -> ConsumerGroupHeartbeatResponse:
        slot = self.ticket()
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=timeout_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                OwnedTopicPartitions(topic_id=self.topics.id_of(name), partitions=sorted(indexes))
                for name, indexes in owned.items()
            ],
        )
        self.carry_out(self.shard.consumer_heartbeat(request, Caller(client, "/h", version, sees), slot, self.now))
        return slot.result()  # type: ignore[no-any-return]

    def join_consumer(self, member_id: str, *topics: str, **options: Any) -> ConsumerGroupHeartbeatResponse:
        """The first heartbeat of a member."""
        options.setdefault("timeout_ms", 60_000)
        if "regex" not in options or topics:
            options["topics"] = topics or ("t",)
        return self.beat(member_id, 0, owned={}, **options)

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> Owned | None:
        """The assignment in an answer, by names."""
        assert answer.error_code == ErrorCode.NONE, answer
        if answer.assignment is None:
            return None
        named: Owned = {}
        for each in answer.assignment.topic_partitions:
            shape = self.topics.by_id(each.topic_id)
            named["?" if shape is None else shape.name] = set(each.partitions)
        return named

    def describe_consumer(self, group: str = "g") -> DescribedGroup:
        slot = self.ticket()
        self.carry_out(self.shard.describe_consumer_group(group, slot))
        return slot.result()  # type: ignore[no-any-return]


class Client:
    """One consumer: it takes assigned partitions at once, and reads those to be given up until it settles.

    Its heartbeats are full when it joins and after a lost answer, else they contain only changes.
    """

    def __init__(self, desk: ConsumerDesk, member_id: str, *topics: str, instance: str | None = None) -> None:
        self.desk, self.member_id, self.topics, self.instance = desk, member_id, topics or ("t",), instance
        self.epoch = 0
        self.owned: Owned = {}
        self._told: Owned = {}
        self._said: Owned | None = None
        self._says_all = True

    def settle(self) -> None:
        """Give up partitions that are no longer assigned."""
        self.owned = {name: set(indexes) for name, indexes in self._told.items()}

    def beat(self, *, lost: bool = False) -> ConsumerGroupHeartbeatResponse:
        said: dict[str, Any] = {"instance": self.instance}
        if self._says_all:
            said |= {"timeout_ms": 60_000, "topics": self.topics}
        if self._says_all or self.owned != self._said:
            said["owned"] = self._said = {name: set(indexes) for name, indexes in self.owned.items()}
        answer = self.desk.beat(self.member_id, self.epoch, **said)
        self._says_all = lost
        if lost:
            return answer
        if answer.error_code:
            self.epoch, self.owned, self._told, self._says_all = 0, {}, {}, True
            return answer
        self.epoch = answer.member_epoch
        told = self.desk.told(answer)
        if told is not None:
            self._told = told
            for name, indexes in told.items():
                self.owned[name] = self.owned.get(name, set()) | indexes
        return answer

    def resubscribe(self, *topics: str) -> None:
        self.topics, self._says_all = topics, True

    def leave(self, *, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        answer = self.desk.beat(self.member_id, epoch, instance=self.instance)
        self.epoch, self.owned, self._told, self._says_all = 0, {}, {}, True
        return answer


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def state_of(group: ConsumerGroup) -> tuple[object, ...]:
    """All that a replay of the log must find again."""
    return (
        group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms, group.members, group.target,
        group.static_members, group.regexes, group._owners, group._names, group._regex_users,
    )  # fmt: skip
