"""A consumer as a member of its group: it joins, syncs, sends heartbeats, tells its listeners, and leaves.

`membership` decides what each answer means. `consuming` reads the partitions that are given here, and says when to
join. The faces run `heartbeat` beside that, on a thread or task of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.membership import Lost, Membership, MembershipSettings, MemberStanding
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.consume.topics import Wanted, WantedTopics
from ottla.client.core.effects import Ask
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import GroupMetadata
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger("ottla.client")

R = TypeVar("R")

Listener = Callable[[list[TopicPartition]], None]
"""Called with the partitions that a member was given, is to give up, or has lost."""


class GroupMember:
    """The stories of one member. Not for several threads, but for `heartbeat`."""

    def __init__(self, group_id: str, plan: ClusterPlan, settings: ConsumerSettings, fetcher: Fetcher) -> None:
        self.plan = plan
        self.settings = settings
        self.fetcher = fetcher
        self.membership = Membership(
            MembershipSettings(
                group_id,
                settings.assignors,
                settings.session_timeout_ms,
                settings.heartbeat_interval_ms,
                settings.max_poll_interval_ms,
                settings.instance_id,
            )
        )
        self.wanted = WantedTopics(plan, settings)
        self.on_assign: Listener = _nothing
        self.on_revoke: Listener = _nothing
        self.on_lost: Listener = _nothing
        self.last_poll_ms = plan.now_ms()
        self.raised: BaseException | None = None
        """The last error of a listener: it goes on to the caller of `poll`, of whatever kind it is."""
        self._lost = False
        self._joining = False
        """True while the coordinator is asked to join or sync, which counts as a sign of life there."""
        self._ended: ApiError | None = None
        self._cooperative = all(assignor.cooperative for assignor in settings.assignors)

    @property
    def group_id(self) -> str:
        return self.membership.settings.group_id

    @property
    def shares(self) -> bool:
        """True if the group says which partitions are read."""
        return bool(self.wanted)

    @property
    def must_join(self) -> bool:
        return self.membership.standing is not MemberStanding.MEMBER

    @property
    def may_commit(self) -> bool:
        """True in a generation of the group, and while partitions are chosen by hand."""
        return not self.shares or self.membership.generation >= 0

    @property
    def metadata(self) -> GroupMetadata:
        """For `send_offsets_to_transaction`: the coordinator refuses the offsets once this member is replaced."""
        if not self.shares:
            return GroupMetadata(self.group_id)
        return GroupMetadata(self.group_id, *self.membership.admitted_as, self.settings.instance_id)

    def subscribe(
        self,
        topics: Wanted,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Want these topics, or all that a pattern matches; the next `join` shares them with the other members."""
        by_hand = not self.shares
        self.wanted.choose(topics)
        if by_hand:
            self.fetcher.assign(set())
        self.on_assign = on_assign or _nothing
        self.on_revoke = on_revoke or _nothing
        self.on_lost = on_lost or self.on_revoke
        self.membership.rejoin()

    async def look_after(self) -> None:
        """Take note of a `poll`: look at the topics, and give up partitions if the group has removed this member."""
        self.last_poll_ms = self.plan.now_ms()
        self._require_not_ended()
        if await self.wanted.look():
            self.membership.rejoin()
        self._drop_what_is_lost()

    async def join(self) -> None:
        """Join and sync, as often as it takes, then change to the new assignment."""
        self._require_not_ended()
        self._drop_what_is_lost()  # the answer to a commit, or to a heartbeat meanwhile, may have said so
        member = self.membership
        held = sorted(self.fetcher.readings)
        if held and not self._cooperative:
            try:
                self._tell(self.on_revoke, held)
            finally:
                self.fetcher.assign(set())
        assigned: tuple[TopicPartition, ...] | None = None
        while assigned is None:
            owned = sorted(self.fetcher.readings) if self._cooperative else held
            request = member.join_request(self.wanted.names, owned, "the consumer joins")
            response = await self._ask_group(JoinGroupRequest, JoinGroupResponse, request)
            if member.joined(response):
                assigned = await self._sync()
            if assigned is None and not member.member_id:
                self._drop_everything()
        self._change_to(set(assigned))

    async def heartbeat(self) -> float:
        """One heartbeat if it is due; how many milliseconds until the next thing to do."""
        member = self.membership
        if not member.known or self._joining:
            return 50.0
        now_ms = self.plan.now_ms()
        if now_ms < member.heartbeat_at_ms:
            return member.heartbeat_at_ms - now_ms
        if now_ms > self.last_poll_ms + self.settings.max_poll_interval_ms:
            log.warning(
                "group %r: poll was not called for %d ms (max_poll_interval_ms); leaving the group",
                self.group_id,
                now_ms - self.last_poll_ms,
            )
            self._lost = True
            await self.leave("poll was not called for max_poll_interval_ms")
            return 50.0
        generation = member.generation
        request = member.heartbeat_request(now_ms)
        session_ms = member.settings.session_timeout_ms
        wait_ms = min(session_ms, self.plan.settings.request_timeout_ms)  # then another may be the coordinator
        response = await self.plan.ask_coordinator(
            self.group_id,
            lambda where: Ask(where, HeartbeatRequest, HeartbeatResponse, lambda _: request, timeout_ms=wait_ms),
            lambda answer: answer.error_code,
            purpose="heartbeat",
            timeout_ms=session_ms,
        )
        self.heed(response.error_code, generation)
        return member.heartbeat_at_ms - self.plan.now_ms()

    def heed(self, code: int, generation: int) -> None:
        """Take the error code of a heartbeat or commit of that generation; the next `poll` acts on it."""
        try:
            self._lost |= self.membership.answered(code, generation) is Lost.EVERYTHING
        except ApiError as fenced:
            self._ended = fenced

    def give_up(self) -> None:
        """Give up all partitions, because the consumer is being closed, and tell the listener of those shared."""
        try:
            if self.fetcher.readings and self.shares:
                listener = self.on_lost if self.membership.standing is MemberStanding.OUTSIDE else self.on_revoke
                listener(sorted(self.fetcher.readings))
        finally:
            self.fetcher.assign(set())

    async def leave(self, reason: str) -> None:
        """Leave the group. A static member only falls silent: its partitions stay its own for a session timeout.

        The membership ends before the answer comes: a `poll` that begins meanwhile joins as a new member.
        """
        if self.membership.standing is MemberStanding.OUTSIDE:
            return
        build = self.membership.leave(reason)
        if self.settings.instance_id is None:
            await self.plan.ask_coordinator(
                self.group_id,
                lambda where: Ask(where, LeaveGroupRequest, LeaveGroupResponse, build),
                lambda answer: answer.error_code,
                timeout_ms=5_000,
            )

    def _require_not_ended(self) -> None:
        """Raise the error that ended the membership for good: joining again would end another's."""
        if self._ended is not None:
            raise self._ended

    async def _ask_group(self, kind: type[Any], response: type[R], request: object) -> R:
        """Ask the coordinator what may wait for all members of the group."""
        timeout_ms = self.membership.settings.rebalance_timeout_ms + 5_000
        self._joining = True
        try:
            return await self.plan.ask_coordinator(
                self.group_id,
                lambda where: Ask(where, kind, response, lambda _: request, timeout_ms=timeout_ms),
                lambda answer: int(answer.error_code),  # type: ignore[attr-defined]
                purpose="group",
                timeout_ms=timeout_ms,
            )
        finally:
            self._joining = False
            self.last_poll_ms = self.plan.now_ms()

    async def _sync(self) -> tuple[TopicPartition, ...] | None:
        member = self.membership
        counts: dict[str, int] = {}
        if member.leader:  # nobody else asks for new partitions of the topics that only other members read
            await self.plan.refresh(member.wanted_topics)
            counts = self.wanted.counts(member.wanted_topics)
            self.wanted.note_counts()
        request = member.sync_request(counts)
        response = await self._ask_group(SyncGroupRequest, SyncGroupResponse, request)
        self._lost = False  # whatever was lost, it was not of the generation that begins here
        return member.synced(response, self.plan.now_ms())

    def _change_to(self, assigned: set[TopicPartition]) -> None:
        """Take the new assignment; a cooperative member that lost partitions joins again, so that others get them."""
        before = set(self.fetcher.readings)
        revoked = before - assigned
        if revoked and self._cooperative:
            self.membership.rejoin()
        try:
            if revoked:
                self._tell(self.on_revoke, sorted(revoked))
        finally:
            self.fetcher.assign(assigned)
            self._tell(self.on_assign, sorted(assigned - before))

    def _drop_what_is_lost(self) -> None:
        """Give up the partitions if the group has removed this member."""
        if self._lost:
            self._lost = False
            self._drop_everything()

    def _drop_everything(self) -> None:
        held = sorted(self.fetcher.readings)
        try:
            if held:
                self._tell(self.on_lost, held)
        finally:
            self.fetcher.assign(set())

    def _tell(self, listener: Listener, partitions: list[TopicPartition]) -> None:
        try:
            listener(partitions)
        except BaseException as raised:
            self.raised = raised
            raise


def _nothing(_partitions: list[TopicPartition]) -> None:
    return None
