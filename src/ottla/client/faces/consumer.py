"""A consumer's calls as both faces have them: positions, records, commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from ottla.client.consume import offsets
from ottla.client.consume.consuming import ConsumerCore
from ottla.client.faces.call import call, keywords
from ottla.client.model import EARLIEST, LATEST, CommittedOffset, ConsumedRecord, GroupMetadata, OffsetAtTime
from ottla.kernel.ids import TopicPartition


class ConsumerCalls:
    """The calls of a `Consumer`, but for those that begin and end its heartbeats."""

    core: ConsumerCore

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now; with `subscribe` none before the first `poll`."""
        return self.core.assignment

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group and this member of it, for `Producer.send_offsets_to_transaction`; ValueError without a group."""
        return self.core.require_member("group_metadata").metadata

    @keywords
    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whichever other consumers read them, and no others.

        Positions start at the group's committed offsets if there is a `group_id`, else by `auto_offset_reset`. Raises
        ValueError after `subscribe`: the group would go on counting on this member.

            from ottla.client import TopicPartition

            with Consumer("localhost:9092") as consumer:
                consumer.assign([TopicPartition("birds", 0)])
                consumer.seek_to_beginning()
                print(consumer.poll(10_000)[0].value)
        """
        self.core.assign(partitions)

    @call
    async def poll(
        self, timeout_ms: float | str | timedelta = 1_000, max_records: int | None = None
    ) -> list[ConsumedRecord]:
        """Records as soon as there are some, at most `max_records` or else `max_poll_records`; none after `timeout_ms`.

        Also joins the group, calls the listeners and commits if that is automatic, which may take longer than
        `timeout_ms`. Call it at least every `max_poll_interval_ms`, or the member leaves the group. Brokers that have
        answered before and are away are tried until `timeout_ms`, and again with the next poll; a warning tells so.

        Raises BrokerUnreachable where no broker has answered yet, `ApiError` OFFSET_OUT_OF_RANGE where a position is
        gone, or its log was cut back, and `auto_offset_reset` is none, CORRUPT_MESSAGE for a batch that fails its CRC,
        FENCED_INSTANCE_ID where another member has the `instance_id`, INVALID_TOPIC_EXCEPTION or
        TOPIC_AUTHORIZATION_FAILED for a subscribed topic that can never be read.

            with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("birds", 0)])
                while records := consumer.poll(timeout_ms=2_000, max_records=100):
                    print(len(records), "records up to offset", records[-1].offset)
        """
        return await self.core.poll(timeout_ms, max_records)

    @keywords
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset of an assigned partition.

        Whether it is kept is not checked here: if not, the next `poll` goes by `auto_offset_reset`. Raises ValueError
        for a negative offset.

            with Consumer("localhost:9092") as consumer:
                birds = TopicPartition("birds", 0)
                consumer.assign([birds])
                consumer.seek(birds, 0)
                print(consumer.position(birds))
        """
        self.core.seek(partition, offset)

    @call
    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first record kept of these partitions, by default of all that are assigned."""
        await self._seek_to(partitions, EARLIEST)

    @call
    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on after the last record of these partitions, by default of all that are assigned.

        With `read_committed` that is before the first transaction that is still open.
        """
        await self._seek_to(partitions, LATEST)

    @call
    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out.

        Looked up where there is none yet: the committed offset, else by `auto_offset_reset`.
        """
        return await self.core.position(partition)

    @keywords
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no records of these partitions until `resume`. A pause ends when the partition is given up."""
        self.core.fetcher.pause(partitions)

    @keywords
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions: they go on where they were."""
        self.core.fetcher.resume(partitions)

    @call
    async def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the positions: for each partition the next offset to read.

        Raises ValueError without a `group_id`, and the first partition's error: REBALANCE_IN_PROGRESS,
        ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID where the group has moved on, and the partitions perhaps with it.

            settings = {"group_id": "counters", "auto_offset_reset": "earliest", "enable_auto_commit": False}
            with Consumer("localhost:9092", **settings) as consumer:
                consumer.subscribe(["birds"])
                records = consumer.poll(timeout_ms=10_000)
                consumer.commit()
                print(consumer.committed(consumer.assignment))
        """
        await self.core.commit(committed)

    @call
    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, asked for; partitions without a commit are left out.

        Raises ValueError without a `group_id`.
        """
        self.core.require_open()
        member = self.core.require_member("committed")
        return await offsets.committed_offsets(self.core.plan, member.group_id, partitions)

    @call
    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """For each partition the first offset whose timestamp is at least the given one; offset -1: none.

        Times are milliseconds since 1970. Raises the first partition's error.
        """
        self.core.require_open()
        isolation = self.core.settings.fetch.isolation_level
        return await offsets.list_offsets(self.core.plan, list(times), times, isolation)

    async def _seek_to(self, partitions: Collection[TopicPartition], spec: int) -> None:
        self.core.require_open()
        chosen = list(partitions) or sorted(self.core.assignment)
        isolation = self.core.settings.fetch.isolation_level
        for partition, at in (await offsets.list_offsets(self.core.plan, chosen, spec, isolation)).items():
            self.core.seek(partition, at.offset)
