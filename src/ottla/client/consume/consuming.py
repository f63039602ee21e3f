"""The consumer's stories: subscriptions and groups, positions and commits, and `poll`, which ties them together.

The faces run `heartbeat` beside it, on a thread or task of its own.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from ottla.client.consume import offsets
from ottla.client.consume.beside import COMMIT, GROUP, StoriesBeside
from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.given import records_from, require_offsets, require_partitions, timeout_from
from ottla.client.consume.membership import Lost, Membership, MembershipSettings, MemberStanding
from ottla.client.consume.positions import choose_offsets, find_committed
from ottla.client.consume.settings import NO_RESET, ConsumerSettings
from ottla.client.consume.topics import Wanted, WantedTopics
from ottla.client.core.deadline import while_brokers_answer, within
from ottla.client.core.effects import Ask, ClientStory, Pause
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError
from ottla.client.model import CommittedOffset, ConsumedRecord, GroupMetadata
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.records.reader import Record

log = logging.getLogger("ottla.client")

R = TypeVar("R")

Listener = Callable[[list[TopicPartition]], None]
"""Called with the partitions that a member was given, is to give up, or has lost."""


class ConsumerCore:
    """The common part of both faces of the consumer. Not for several threads, but for `heartbeat`."""

    def __init__(self, plan: ClusterPlan, settings: ConsumerSettings) -> None:
        self.plan = plan
        self.settings = settings
        self.fetcher = Fetcher(plan, settings.fetch, follow_truncation=settings.auto_offset_reset != NO_RESET)
        self.membership: Membership | None = None
        if settings.group_id is not None:
            self.membership = Membership(
                MembershipSettings(
                    settings.group_id,
                    settings.assignors,
                    settings.session_timeout_ms,
                    settings.heartbeat_interval_ms,
                    settings.max_poll_interval_ms,
                    settings.instance_id,
                )
            )
        self.wanted = WantedTopics(plan, settings)
        self.beside = StoriesBeside(plan, settings, self.fetcher)
        self.on_assign: Listener = _nothing
        self.on_revoke: Listener = _nothing
        self.on_lost: Listener = _nothing
        self.rebalances = 0
        self.last_poll_ms = plan.now_ms()
        self._manual = False
        self._auto_commit_at_ms = plan.now_ms() + settings.auto_commit_interval_ms
        self._lost = False
        self._joining = False
        """True while the coordinator is asked to join or sync, which counts as a sign of life there."""
        self._ended: ApiError | None = None
        self._close_by_ms: float | None = None
        self._closed = False
        self._raised: BaseException | None = None
        """The last error of a listener: it goes on to the caller of `poll`, of whatever kind it is."""
        self._cooperative = all(assignor.cooperative for assignor in settings.assignors)

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self.fetcher.readings)

    @property
    def group(self) -> str:
        """The group's id; ValueError without a group."""
        if self.settings.group_id is None:
            raise ValueError("committed offsets belong to a group: give group_id")
        return self.settings.group_id

    @property
    def group_metadata(self) -> GroupMetadata:
        """For `send_offsets_to_transaction`: the coordinator refuses the offsets once this member is replaced."""
        member = self.membership
        if member is None:
            raise ValueError("offsets belong to a group: give group_id")
        if self._manual:
            return GroupMetadata(member.settings.group_id)
        settings = member.settings
        return GroupMetadata(settings.group_id, *member.admitted_as, settings.instance_id)

    def subscribe(
        self,
        topics: Wanted,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share these topics, or all that a pattern matches, with the other members of the group."""
        self.require_open()
        if self.membership is None:
            raise ValueError("subscribing needs a group: give group_id, or assign partitions by hand")
        self.wanted.choose(topics)
        if self._manual:
            self.fetcher.assign(set())
        self.on_assign = on_assign or _nothing
        self.on_revoke = on_revoke or _nothing
        self.on_lost = on_lost or self.on_revoke
        self._manual = False
        self.membership.rejoin()

    @property
    def _shares(self) -> bool:
        """True if the group says which partitions are read."""
        return not self._manual and bool(self.wanted)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, even if other consumers read them too; no group membership."""
        self.require_open()
        if self._shares:
            raise ValueError("this consumer shares partitions with its group: read others with a consumer of their own")
        self.fetcher.assign(set(require_partitions(partitions)))
        self._manual = True

    async def poll(self, timeout_ms: float | str | timedelta, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records as soon as there are some, at most `max_poll_records`; none after `timeout_ms`.

        Joining a group may take longer than the timeout.
        """
        limit = records_from(max_records, self.settings.max_poll_records)

        def take() -> list[ConsumedRecord]:
            return self.fetcher.take(limit)

        return await self._poll(timeout_ms, take, self.fetcher.promote)

    async def poll_runs(self, timeout_ms: float) -> list[tuple[TopicPartition, list[Record]]]:
        """Like `poll`, with the records of a batch in one list. A consumer is polled in one way alone."""
        taken: list[tuple[TopicPartition, list[Record]]] = []

        def take() -> list[tuple[TopicPartition, list[Record]]]:
            found = list(taken)
            taken.clear()
            return found

        try:
            return await self._poll(timeout_ms, take, lambda: taken.extend(self.fetcher.take_runs()))
        finally:
            for partition, records in reversed(taken):  # an error: the caller has none of these
                self.seek(partition, records[0].offset)

    async def _poll(
        self, timeout_ms: float | str | timedelta, take: Callable[[], list[R]], promote: Callable[[], None]
    ) -> list[R]:
        self.require_open()
        deadline = self.plan.now_ms() + timeout_from(timeout_ms)
        while True:
            self.last_poll_ms = self.plan.now_ms()
            await self._keep_up_until(deadline)
            await self.beside.go_on(of_group=self._shares, commit=self._auto_commit if self._commit_is_due else None)
            promote()
            await self.fetcher.start()
            records = take()
            left_ms = deadline - self.plan.now_ms()
            if records or left_ms <= 0:
                return records
            if self.beside.has_handles:
                await self.beside.take_first(min(left_ms, self._wake_ms()))
            else:
                await Pause(min(left_ms, 50))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset; KeyError where the partition is not assigned, ValueError for a negative offset."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative: seek_to_beginning and seek_to_end find the ends")
        self.fetcher.readings[partition].seek(offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out."""
        self.require_open()
        reading = {partition: self.fetcher.readings[partition]}
        if reading[partition].is_fresh:
            await find_committed(self.plan, self.settings, reading)
        await choose_offsets(self.plan, self.settings, reading, of_group=False)
        position = reading[partition].position
        assert position is not None
        return position

    async def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the position of every partition; raises the error of a failure."""
        self.require_open()
        await self.beside.drop(COMMIT)
        await self._commit(None if committed is None else require_offsets(committed))

    async def _commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        if self.membership is None:
            raise ValueError("committing needs a group: give group_id")
        chosen = committed
        if chosen is None:
            chosen = {
                partition: CommittedOffset(reading.position, leader_epoch=reading.epoch)
                for partition, reading in self.fetcher.readings.items()
                if reading.position is not None
            }
        if not chosen:
            return
        member = self.membership
        generation, member_id = member.admitted_as if not self._manual else (-1, "")
        committing = offsets.commit_offsets(
            self.plan,
            member.settings.group_id,
            chosen,
            generation=generation,
            member_id=member_id,
            instance_id=member.settings.instance_id,
        )
        outcome = await self._before_closed(committing)
        for fault in outcome.values():
            if fault is not None:
                self._heed(fault.code, generation)
                raise fault

    async def close(self, timeout_ms: float) -> None:
        """Commit if that is automatic, call the listener, which may commit too, and leave (not as a static member).

        What asks a broker gets `timeout_ms` in all.
        """
        try:
            await self.beside.drop()
            if self.membership is not None:
                self._close_by_ms = self.plan.now_ms() + timeout_ms
                await self._part(self.membership)
        finally:
            self.fetcher.assign(set())
            self._closed = True

    async def _part(self, member: Membership) -> None:
        """Commit, tell the listener, and leave."""
        if self.settings.enable_auto_commit and self._can_commit():
            with contextlib.suppress(ClientError, ApiError):
                await self.commit()
        try:
            if self.fetcher.readings and not self._manual:
                listener = self.on_lost if member.standing is MemberStanding.OUTSIDE else self.on_revoke
                listener(sorted(self.fetcher.readings))
        finally:
            self.fetcher.assign(set())
            if member.standing is not MemberStanding.OUTSIDE and not self._manual:
                with contextlib.suppress(ClientError, ApiError):  # the coordinator notices by the session timeout
                    await self._leave(member, "the consumer is being closed")

    async def heartbeat(self) -> float:
        """One heartbeat if it is due; how many milliseconds until the next thing to do."""
        member = self.membership
        if member is None or not member.known or self._joining:
            return 50.0 if member is not None else 1_000.0
        now_ms = self.plan.now_ms()
        if now_ms < member.heartbeat_at_ms:
            return member.heartbeat_at_ms - now_ms
        if now_ms > self.last_poll_ms + self.settings.max_poll_interval_ms:
            log.warning(
                "group %r: poll was not called for %d ms (max_poll_interval_ms); leaving the group",
                member.settings.group_id,
                now_ms - self.last_poll_ms,
            )
            self._lost = True
            await self._leave(member, "poll was not called for max_poll_interval_ms")
            return 50.0
        generation = member.generation
        request = member.heartbeat_request(now_ms)
        session_ms = member.settings.session_timeout_ms
        wait_ms = min(session_ms, self.plan.settings.request_timeout_ms)  # then another may be the coordinator
        response = await self.plan.ask_coordinator(
            member.settings.group_id,
            lambda where: Ask(where, HeartbeatRequest, HeartbeatResponse, lambda _: request, timeout_ms=wait_ms),
            lambda answer: answer.error_code,
            purpose="heartbeat",
            timeout_ms=session_ms,
        )
        self._heed(response.error_code, generation)
        return member.heartbeat_at_ms - self.plan.now_ms()

    def _heed(self, code: int, generation: int) -> None:
        """Take the error code of a heartbeat or commit; the next `poll` acts on it."""
        assert self.membership is not None
        try:
            self._lost |= self.membership.answered(code, generation) is Lost.EVERYTHING
        except ApiError as fenced:
            self._ended = fenced

    def require_open(self) -> None:
        """Raise once the consumer is closed."""
        if self._closed:
            raise ClientError("the consumer is closed")

    def _require_not_ended(self) -> None:
        """Raise the error that ended the membership for good: joining again would end another's."""
        if self._ended is not None:
            raise self._ended

    async def _keep_up_until(self, deadline_ms: float) -> None:
        """Keep up; while brokers that have answered before are away, or refuse for a time, only until the deadline."""
        if not self.plan.metadata.brokers:
            return await self._keep_up()
        try:
            await while_brokers_answer(self.plan, deadline_ms, self._keep_up())
        except (ApiError, ClientError) as fault:
            if fault is self._raised:
                raise
            self.beside.bear(GROUP, fault)
        else:
            self.beside.works(GROUP)

    async def _keep_up(self) -> None:
        """Be a member of the group, and know the brokers, before records are handed out."""
        self._require_not_ended()
        if self.fetcher.readings and not self.plan.metadata.brokers and not self._shares:
            await self.plan.refresh({partition.topic for partition in self.fetcher.readings})
        if self._shares:
            assert self.membership is not None
            if await self.wanted.look():
                self.membership.rejoin()
            self._drop_what_is_lost()
            while self.membership.standing is not MemberStanding.MEMBER:
                await self._join()

    async def _join(self) -> None:
        """Join and sync, as often as it takes, then change to the new assignment."""
        member = self.membership
        assert member is not None
        await self.beside.drop()
        if self.settings.enable_auto_commit and self._can_commit():
            await self._auto_commit()
            self._require_not_ended()
        self._drop_what_is_lost()  # the answer to the commit, or to a heartbeat meanwhile, may have said so
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
                assigned = await self._sync(member)
            if assigned is None and not member.member_id:
                self._drop_everything()
        self.rebalances += 1
        self._change_to(set(assigned))

    async def _ask_group(self, kind: type[Any], response: type[R], request: object) -> R:
        """Ask the coordinator what may wait for all members of the group."""
        assert self.membership is not None
        settings = self.membership.settings
        timeout_ms = settings.rebalance_timeout_ms + 5_000
        self._joining = True
        try:
            return await self.plan.ask_coordinator(
                settings.group_id,
                lambda where: Ask(where, kind, response, lambda _: request, timeout_ms=timeout_ms),
                lambda answer: int(answer.error_code),  # type: ignore[attr-defined]
                purpose="group",
                timeout_ms=timeout_ms,
            )
        finally:
            self._joining = False
            self.last_poll_ms = self.plan.now_ms()

    async def _sync(self, member: Membership) -> tuple[TopicPartition, ...] | None:
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
        if revoked and self._cooperative and self.membership is not None:
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
            self._raised = raised
            raise

    @property
    def _commit_is_due(self) -> bool:
        return self.settings.enable_auto_commit and self.plan.now_ms() >= self._auto_commit_at_ms

    def _can_commit(self) -> bool:
        member = self.membership
        placed = any(reading.position is not None for reading in self.fetcher.readings.values())
        return member is not None and placed and (self._manual or member.generation >= 0)

    async def _auto_commit(self) -> None:
        """Commit positions; a failure is left to the next time."""
        self._auto_commit_at_ms = self.plan.now_ms() + self.settings.auto_commit_interval_ms
        if self._can_commit():
            try:
                await self._commit()
            except (ApiError, ClientError):
                return

    def _wake_ms(self) -> float:
        """The longest time that `poll` may wait before it looks after the group again."""
        if self.membership is not None and not self._manual:
            return 100.0 if self.membership.standing is MemberStanding.MEMBER else 0.0
        return 1_000.0

    async def _leave(self, member: Membership, reason: str) -> None:
        """Leave the group. A static member only falls silent: its partitions stay its own for a session timeout.

        The membership ends before the answer comes: a `poll` that begins meanwhile joins as a new member.
        """
        build = member.leave(reason)
        if member.settings.instance_id is None:
            leaving = self.plan.ask_coordinator(
                member.settings.group_id,
                lambda where: Ask(where, LeaveGroupRequest, LeaveGroupResponse, build),
                lambda answer: answer.error_code,
                timeout_ms=5_000,
            )
            await self._before_closed(leaving)

    async def _before_closed(self, story: ClientStory[R]) -> R:
        """Await the story; while this consumer closes, only for the time that it has left for that."""
        if self._close_by_ms is None:
            return await story
        return await within(self.plan, max(self._close_by_ms - self.plan.now_ms(), 0), story)


def _nothing(_partitions: list[TopicPartition]) -> None:
    return None
