"""A consumer of the classic protocol, eager or cooperative, for groups that use both protocols.

It uses the codec of ottla's own client, not the coordinator's.
"""

from __future__ import annotations

from typing import Any

from tests.groups.consumer_desk import ConsumerDesk, Owned

from ottla.client.consume.group_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.story import Slot
from ottla.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ottla.messages.leave_group import MemberIdentity

Place = tuple[str, int]


class ClassicClient:
    """One consumer. In each step it sends a request, or checks for the answer to a waiting one.

    An eager consumer gives up all partitions before it joins. A cooperative one goes on reading, also partitions that
    it must give up, until it settles, and then joins again.
    """

    def __init__(
        self, desk: ConsumerDesk, *topics: str, instance: str | None = None, cooperative: bool = False
    ) -> None:
        self.desk, self.topics, self.instance, self.cooperative = desk, topics or ("t",), instance, cooperative
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = {}
        self.fenced = False
        self.leads = False
        self.joined = False
        self._told: Owned = {}
        self._waiting: Slot[Any] | None = None
        self._syncs = False
        self._synced = False

    @property
    def protocol(self) -> str:
        return "cooperative" if self.cooperative else "eager"

    def step(self) -> None:
        """Do the next step: join, sync or heartbeat."""
        if self.fenced or (self._waiting is not None and not self._waiting.full):
            return
        if self._waiting is not None:
            answer, self._waiting = self._waiting.result(), None
            if isinstance(answer, ErrorCode):  # as the broker's handlers get it, when the log refuses an append
                self._failed(answer)
            elif self._syncs:
                self._take_sync(answer)
            else:
                self._take_join(answer)
        elif not self.joined:
            self._join()
        elif not self._synced:
            self._sync({})
        else:
            self._heartbeat()

    def settle(self) -> None:
        """Give up partitions that are no longer assigned, and join again."""
        if self.owned != self._told and self._synced:
            self.owned = {name: set(indexes) for name, indexes in self._told.items()}
            self._begin_again()

    def resubscribe(self, *topics: str) -> None:
        self.topics = topics
        self._begin_again()

    def notice_topics(self) -> None:
        """Take note of changed topics: the leader of a classic group makes all members join again."""
        if self.leads and self._waiting is None:
            self._begin_again()

    def disconnect(self) -> None:
        """Drop a waiting request: the coordinator has moved."""
        if self._waiting is not None:
            self._waiting = None
            self._begin_again()

    def leave(self) -> None:
        if self.instance is None:
            self.desk.leave(self.member_id)
        else:
            self.desk.leave(MemberIdentity(member_id=self.member_id, group_instance_id=self.instance))
        self._lose(keep_id=False)

    # Requests

    def _join(self) -> None:
        if not self.cooperative:
            self.owned, self._told = {}, {}
        said = MemberSubscription(self.topics, owned=tuple(_places(self.owned)), generation=self.generation)
        offered = [JoinGroupRequestProtocol(name=self.protocol, metadata=encode_subscription(said))]
        self._syncs = False
        self._waiting = self.desk.join(self.member_id, instance=self.instance, protocols=offered)

    def _take_join(self, answer: JoinGroupResponse) -> None:
        if answer.error_code:
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            else:
                self._failed(ErrorCode(answer.error_code))
            return
        self.member_id, self.generation, self.joined = answer.member_id, answer.generation_id, True
        assert answer.protocol_name == self.protocol
        self.leads = answer.leader == self.member_id
        self._sync(self._assign(answer) if self.leads and answer.members else {})

    def _sync(self, given: dict[str, bytes]) -> None:
        self._syncs = True
        self._waiting = self.desk.sync(
            self.member_id,
            self.generation,
            given,
            instance=self.instance,
            protocol_type="consumer",
            protocol=self.protocol,
        )

    def _take_sync(self, answer: Any) -> None:
        if answer.error_code:
            self._failed(ErrorCode(answer.error_code))
            return
        given = decode_assignment(answer.assignment)
        if any(place.topic not in self.topics for place in given):
            self._begin_again()  # as Java's does: a static member may get what was given to the process before it
            return
        self._synced = True
        self._told = {}
        for place in given:
            self._told.setdefault(place.topic, set()).add(place.partition)
        for name, indexes in self._told.items():
            self.owned[name] = self.owned.get(name, set()) | indexes

    def _heartbeat(self) -> None:
        error = self.desk.heartbeat(self.member_id, self.generation, instance=self.instance)
        if error:
            self._failed(error)

    def _failed(self, error: ErrorCode) -> None:
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._begin_again()
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self._lose(keep_id=True)
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self._lose(keep_id=False)
            self.fenced = True
        else:
            assert error is ErrorCode.UNKNOWN_MEMBER_ID, error
            self._lose(keep_id=False)

    def _begin_again(self) -> None:
        self._waiting, self.joined, self._synced = None, False, False

    def _lose(self, *, keep_id: bool) -> None:
        self.owned, self._told, self.generation = {}, {}, -1
        self._begin_again()
        if not keep_id:
            self.member_id = ""

    # As the leader

    def _assign(self, answer: JoinGroupResponse) -> dict[str, bytes]:
        """Assign round robin to the subscribers; a cooperative leader first waits for partitions to be given up."""
        members = {each.member_id: decode_subscription(each.metadata) for each in answer.members}
        holders = {tuple(place): member_id for member_id, said in members.items() for place in said.owned}
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for name in sorted({topic for said in members.values() for topic in said.topics}):
            shape = self.desk.topics.by_name(name)
            readers = sorted(member_id for member_id, said in members.items() if name in said.topics)
            for index in range(0 if shape is None else shape.partitions):
                taker = readers[index % len(readers)]
                if not self.cooperative or holders.get((name, index), taker) == taker:
                    given[taker].append(TopicPartition(name, index))
        return {member_id: encode_assignment(places) for member_id, places in given.items()}


def _places(owned: Owned) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name, indexes in sorted(owned.items()) for index in sorted(indexes)]


def places(client: Any) -> set[Place]:
    """The partitions that a client of either protocol reads."""
    return {(name, index) for name, indexes in client.owned.items() for index in indexes}
