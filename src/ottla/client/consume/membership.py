"""One member of a classic group: when to join, sync and heartbeat, and what each answer means. Pure.

Comes from `group`, which sends the requests made here and feeds the answers back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.client.consume.assignors import Assignor
from ottla.client.consume.group_protocol import (
    PROTOCOL_TYPE,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.errors import refused
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """Names and defaults follow Kafka's consumer options."""

    group_id: str
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    instance_id: str | None = None
    protocol_type: str = PROTOCOL_TYPE
    """Members of another kind of group have another one; the coordinator keeps kinds apart."""


class MemberStanding(Enum):
    """The states of a member."""

    OUTSIDE = "outside"
    """Not a member: join before anything else."""
    JOINING = "joining"
    MEMBER = "member"
    MUST_REJOIN = "must rejoin"
    """A member of a group that rebalances."""


class Lost(Enum):
    """The effect of an answer on the member."""

    NOTHING = "nothing"
    GENERATION = "generation"
    """Rejoin; partitions may be kept until then."""
    EVERYTHING = "everything"
    """Membership and partitions are gone: another may hold them already."""


_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED})


class Membership:
    """The machine. Answers that end the consumer are raised as ApiError."""

    def __init__(self, settings: MembershipSettings) -> None:
        self.settings = settings
        self.standing = MemberStanding.OUTSIDE
        self.member_id = ""
        self.generation = -1
        self.admitted_as = (-1, "")
        """Generation and member id as of the last join: a removed member is refused by them, an unnamed one is not."""
        self.assignor: Assignor | None = None
        self.leader = False
        self.heartbeat_at_ms = 0.0
        self._members: dict[str, MemberSubscription] = {}
        self._skip_assignment = False

    @property
    def known(self) -> bool:
        """True while the group counts on this member; until it joins again, it must send heartbeats."""
        return self.standing in (MemberStanding.MEMBER, MemberStanding.MUST_REJOIN)

    @property
    def wanted_topics(self) -> list[str]:
        """Topics of all members, which the leader needs to know before it assigns."""
        return sorted({topic for subscription in self._members.values() for topic in subscription.topics})

    def join_request(self, topics: Sequence[str], owned: Sequence[TopicPartition], reason: str) -> JoinGroupRequest:
        """The request to enter the next generation."""
        settings = self.settings
        self.standing = MemberStanding.JOINING
        held = tuple(sorted(owned))
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    MemberSubscription(
                        tuple(topics),
                        assignor.user_data(held, self.generation),
                        held if assignor.cooperative else (),
                        self.generation,
                    )
                ),
            )
            for assignor in settings.assignors
        ]
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=settings.protocol_type,
            protocols=protocols,
            reason=reason,
        )

    def joined(self, response: JoinGroupResponse) -> bool:
        """Take the answer: True to go on and sync, False to join once more."""
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return False
        if code in _GONE:
            self.reset()
            return False
        if code in _AGAIN:
            return False
        if code:
            raise refused(code, f"joining group {self.settings.group_id!r}")
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.admitted_as = (self.generation, self.member_id)
        self.leader = response.leader == response.member_id
        name = response.protocol_name
        self.assignor = next((each for each in self.settings.assignors if each.name == name), None)
        if self.assignor is None:
            raise refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.settings.group_id!r}",
                f"it chose the assignor {name!r}, which this consumer does not offer",
            )
        self._skip_assignment = response.skip_assignment
        self._members = {
            member.member_id: decode_subscription(bytes(member.metadata), member.group_instance_id)
            for member in response.members
        }
        return True

    def sync_request(self, counts: Mapping[str, int]) -> SyncGroupRequest:
        """The request for the member's assignment; the leader's carries all assignments.

        `counts`: partitions per topic.
        """
        assert self.assignor is not None
        assignments = []
        if self.leader and not self._skip_assignment:
            shared = self.assignor.assign(counts, self._members)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in shared.items()
            ]
        return SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=self.settings.protocol_type,
            protocol_name=self.assignor.name,
            assignments=assignments,
        )

    def synced(self, response: SyncGroupResponse, now_ms: float) -> tuple[TopicPartition, ...] | None:
        """Take the answer: the assignment, or None to join once more."""
        code = response.error_code
        if code in _GONE:
            self.reset()
            return None
        if code in _AGAIN:
            return None
        if code:
            raise refused(code, f"syncing group {self.settings.group_id!r}")
        self.standing = MemberStanding.MEMBER
        self.heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        return decode_assignment(bytes(response.assignment))

    def heartbeat_request(self, now_ms: float) -> HeartbeatRequest:
        self.heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        return HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )

    def answered(self, code: int, generation: int) -> Lost:
        """Take the error code of a heartbeat or commit of that generation; codes of old generations mean nothing."""
        if generation != self.generation or not self.known:
            return Lost.NOTHING
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.standing = MemberStanding.MUST_REJOIN
            return Lost.GENERATION
        if code in _GONE:
            self.reset()
            return Lost.EVERYTHING
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.reset()
            raise refused(code, f"group {self.settings.group_id!r}")
        return Lost.NOTHING

    def rejoin(self) -> None:
        """Something changed here (the subscription, the partitions of a topic): join again."""
        if self.standing is MemberStanding.MEMBER:
            self.standing = MemberStanding.MUST_REJOIN

    def leave(self, reason: str) -> Callable[[int], LeaveGroupRequest]:
        """Forget the membership; returns the request that tells the group so, for each version."""
        group, member_id = self.settings.group_id, self.member_id
        self.reset()

        def build(version: int) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=group, member_id=member_id)
            return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id, reason=reason)])

        return build

    def reset(self) -> None:
        """Forget the membership."""
        self.standing = MemberStanding.OUTSIDE
        self.generation = -1
        self.member_id = ""
        self.leader = False
        self._members = {}
