"""A consumer's reading: partitions, positions and commits, and `poll`, which ties them to the membership of a group.

`group` joins the group and says which partitions are read, `fetching` asks for their records, and `beside` finds
offsets and leaders meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import TypeVar

from ottla.client.consume import offsets
from ottla.client.consume.beside import COMMIT, GROUP, StoriesBeside
from ottla.client.consume.fetching import Fetcher
from ottla.client.consume.given import records_from, require_offsets, require_partitions, timeout_from
from ottla.client.consume.group import GroupMember, Listener
from ottla.client.consume.positions import choose_offsets, find_committed
from ottla.client.consume.settings import NO_RESET, ConsumerSettings
from ottla.client.consume.topics import Wanted
from ottla.client.core.deadline import while_brokers_answer, within
from ottla.client.core.effects import ClientStory, Pause
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError
from ottla.client.model import CommittedOffset, ConsumedRecord
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.records.reader import Record

R = TypeVar("R")


class ConsumerCore:
    """The common part of both faces of the consumer. Not for several threads, but for `member.heartbeat`."""

    def __init__(self, plan: ClusterPlan, settings: ConsumerSettings) -> None:
        self.plan = plan
        self.settings = settings
        self.fetcher = Fetcher(plan, settings.fetch, follow_truncation=settings.auto_offset_reset != NO_RESET)
        self.member: GroupMember | None = None
        if settings.group_id is not None:
            self.member = GroupMember(settings.group_id, plan, settings, self.fetcher)
        self.beside = StoriesBeside(plan, settings, self.fetcher)
        self._auto_commit_at_ms = plan.now_ms() + settings.auto_commit_interval_ms
        self._close_by_ms: float | None = None
        self._closed = False

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self.fetcher.readings)

    @property
    def sharing(self) -> GroupMember | None:
        """The member, if its group says which partitions are read."""
        return self.member if self.member is not None and self.member.shares else None

    def require_member(self, call: str) -> GroupMember:
        """The member, for a call that needs one; ValueError without a group."""
        if self.member is None:
            raise ValueError(f"{call} needs a group: give group_id")
        return self.member

    def subscribe(
        self,
        topics: Wanted,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> GroupMember:
        """Share these topics, or all that a pattern matches, with the other members of the group.

        Returns the member, whose heartbeats are to be sent from now on.
        """
        self.require_open()
        if self.member is None:
            raise ValueError("subscribing needs a group: give group_id, or assign partitions by hand")
        self.member.subscribe(topics, on_assign, on_revoke, on_lost)
        return self.member

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, even if other consumers read them too; no group membership."""
        self.require_open()
        if self.sharing is not None:
            raise ValueError("this consumer shares partitions with its group: read others with a consumer of their own")
        self.fetcher.assign(set(require_partitions(partitions)))

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
            await self._keep_up_until(deadline)
            commit = self._auto_commit if self._commit_is_due else None
            await self.beside.go_on(of_group=self.sharing is not None, commit=commit)
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
        member = self.require_member("commit")
        chosen = committed
        if chosen is None:
            chosen = {
                partition: CommittedOffset(reading.position, leader_epoch=reading.epoch)
                for partition, reading in self.fetcher.readings.items()
                if reading.position is not None
            }
        if not chosen:
            return
        generation, member_id = member.membership.admitted_as
        committing = offsets.commit_offsets(
            self.plan,
            member.group_id,
            chosen,
            generation=generation,
            member_id=member_id,
            instance_id=self.settings.instance_id,
        )
        outcome = await self._before_closed(committing)
        for fault in outcome.values():
            if fault is not None:
                member.heed(fault.code, generation)
                raise fault

    async def close(self, timeout_ms: float) -> None:
        """Commit if that is automatic, call the listener, which may commit too, and leave (not as a static member).

        What asks a broker gets `timeout_ms` in all.
        """
        try:
            await self.beside.drop()
            if self.member is not None:
                self._close_by_ms = self.plan.now_ms() + timeout_ms
                await self._part(self.member)
        finally:
            self.fetcher.assign(set())
            self._closed = True

    async def _part(self, member: GroupMember) -> None:
        """Commit, tell the listener, and leave."""
        if self.settings.enable_auto_commit and self._can_commit():
            with contextlib.suppress(ClientError, ApiError):
                await self.commit()
        try:
            member.give_up()
        finally:
            with contextlib.suppress(ClientError, ApiError):  # the coordinator notices by the session timeout
                await self._before_closed(member.leave("the consumer is being closed"))

    def require_open(self) -> None:
        """Raise once the consumer is closed."""
        if self._closed:
            raise ClientError("the consumer is closed")

    async def _keep_up_until(self, deadline_ms: float) -> None:
        """Keep up; while brokers that have answered before are away, or refuse for a time, only until the deadline."""
        if not self.plan.metadata.brokers:
            return await self._keep_up()
        try:
            await while_brokers_answer(self.plan, deadline_ms, self._keep_up())
        except (ApiError, ClientError) as fault:
            if self.member is not None and fault is self.member.raised:
                raise
            self.beside.bear(GROUP, fault)
        else:
            self.beside.works(GROUP)

    async def _keep_up(self) -> None:
        """Be a member of the group, and know the brokers, before records are handed out."""
        member = self.sharing
        if member is None:
            if self.fetcher.readings and not self.plan.metadata.brokers:
                await self.plan.refresh({partition.topic for partition in self.fetcher.readings})
            return
        await member.look_after()
        while member.must_join:
            await self.beside.drop()
            if self.settings.enable_auto_commit and self._can_commit():
                await self._auto_commit()
            await member.join()

    @property
    def _commit_is_due(self) -> bool:
        return self.settings.enable_auto_commit and self.plan.now_ms() >= self._auto_commit_at_ms

    def _can_commit(self) -> bool:
        placed = any(reading.position is not None for reading in self.fetcher.readings.values())
        return placed and self.member is not None and self.member.may_commit

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
        if self.sharing is None:
            return 1_000.0
        return 0.0 if self.sharing.must_join else 100.0

    async def _before_closed(self, story: ClientStory[R]) -> R:
        """Await the story; while this consumer closes, only for the time that it has left for that."""
        if self._close_by_ms is None:
            return await story
        return await within(self.plan, max(self._close_by_ms - self.plan.now_ms(), 0), story)
