"""The work of a sink task: consume in the group `connect-NAME`, convert, transform, put, flush, commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

from ottla.client import aio
from ottla.client.model import CommittedOffset, ConsumedRecord
from ottla.connect.errors import RetriableException
from ottla.connect.java.regex import compiled
from ottla.connect.machine.connector_options import values_of
from ottla.connect.plugins.base import RefusedRecords, SinkTask
from ottla.connect.records import SinkRecord
from ottla.connect.tasks.clients import bootstrap, consumer_of, producer_of
from ottla.connect.tasks.conversion import Conversion, StageFault
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.refusals import ErrorRetries, Original, Refusals
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

POLL_MS = 500
"""A task that is to end learns of it after a poll."""
_GROUP_MOVED_ON = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
"""A commit refused so is tried again after the next poll has followed the group."""
log = logging.getLogger("ottla.connect")


class SinkWork:
    """One attempt of a sink task."""

    def __init__(
        self,
        plan: TaskPlan,
        config: Mapping[str, str],
        task: SinkTask,
        on_topics: Callable[[Iterable[str]], None] = lambda topics: None,
    ) -> None:
        self._on_topics = on_topics
        self._plan, self._config, self._task = plan, config, task
        self._conversion = Conversion(plan.worker, config)
        self._options = values_of("sink", config)
        self._interval = int(plan.worker.get("offset.flush.interval.ms", 60_000)) / 1000
        self._due = time.monotonic() + self._interval
        self._put: dict[TopicPartition, int] = {}
        """The next offset of each partition, behind all records that the task has taken."""
        self._open: set[TopicPartition] = set()
        self._revoked: set[TopicPartition] = set()
        self._held: list[ConsumedRecord] = []
        """Records of partitions that came while others were put again."""

    async def run(self, run: AsyncJobRun) -> None:
        """Do the work until it is to end."""
        plan = self._plan
        consuming = consumer_of(
            plan.worker, self._config, f"connector-consumer-{plan.name}", f"connect-{plan.connector}"
        )
        async with AsyncExitStack() as opened:
            opened.push_async_callback(self._task.close)
            letters = None
            if self._options["errors.deadletterqueue.topic.name"]:
                settings, client = producer_of(plan.worker, self._config, f"connector-dlq-producer-{plan.name}")
                letters = await opened.enter_async_context(
                    aio.Producer(bootstrap(plan.worker), producer=settings, settings=client)
                )
            self._refusals = Refusals(self._options, plan, letters)
            await self._refusals.prepare()
            self._consumer = await opened.enter_async_context(
                aio.Consumer(bootstrap(plan.worker), consumer=consuming[0], settings=consuming[1])
            )
            self._attach()
            run.began()
            try:
                await self._loop(run)
            except Exception:
                await self._keep_offsets()
                raise
            await self._keep_offsets()

    def _attach(self) -> None:
        """Say which partitions the consumer reads."""
        pattern = self._options["topics.regex"]
        self._consumer.subscribe(
            compiled(pattern) if pattern else self._options["topics"], on_revoke=self._revoked.update
        )

    async def _loop(self, run: AsyncJobRun) -> None:
        while not run.ending.is_set():
            records, self._held = self._held or await self._consumer.poll(POLL_MS), []
            await self._follow_assignment()
            if records:
                await self._deliver(records, run)
            await self._flush_when_due()

    async def _flush_when_due(self) -> None:
        if time.monotonic() >= self._due:
            await self._keep_offsets()

    async def _follow_assignment(self) -> None:
        """Flush before partitions change, and forget those that another task has now."""
        if self._revoked:
            await self._task.flush()
            for partition in self._revoked:
                self._put.pop(partition, None)
            self._revoked.clear()
        if self._consumer.assignment != self._open:
            self._open = self._consumer.assignment
            await self._task.open(self._open)

    async def _deliver(self, records: Sequence[ConsumedRecord], run: AsyncJobRun) -> None:
        self._on_topics({read.topic for read in records})
        self._plan.counts.read += len(records)
        made = await self._conversion.all_incoming(records)
        if made is None:
            made = await self._one_by_one(records)
        if made and not await self._put_all(made, records, run):
            return
        self._plan.counts.sent += len(made)
        for place, offset in {(read.topic, read.partition): read.offset for read in records}.items():
            if place in self._open:
                self._put[TopicPartition(*place)] = offset + 1

    async def _one_by_one(self, records: Sequence[ConsumedRecord]) -> list[SinkRecord]:
        """The records that no stage refuses; the others are tried again, or left out."""
        made: list[SinkRecord] = []
        async for read, one in self._conversion.each(self._conversion.incoming, records):
            record = await self._again(read) if isinstance(one, StageFault) else one
            if record is not None:
                made.append(record)
        return made

    async def _again(self, read: ConsumedRecord) -> SinkRecord | None:
        try:
            return await self._refusals.tried(lambda: self._conversion.again(self._conversion.incoming, read))
        except StageFault as fault:
            await self._refusals.take(_original_of(read), fault)
            return None

    async def _put_all(self, made: list[SinkRecord], records: Sequence[ConsumedRecord], run: AsyncJobRun) -> bool:
        """Have the task take records, later again if it says so; False where the task is to end before that.

        Meanwhile the consumer stays in its group, with all partitions paused.
        """
        retries = self._refusals.retries
        waits = (retries if retries.timeout_ms else ErrorRetries(-1, retries.most_delay_ms)).waits_ms()
        while True:
            try:
                await self._task.put(made)
                return True
            except RefusedRecords as refused:
                await self._leave_out(refused, records)
                return True
            except RetriableException as fault:
                wait = next(waits, None)
                if wait is None:
                    raise
                log.warning("%s: %d records are put again in %d ms: %s", self._plan.name, len(made), wait, fault)
            if await self._wait(wait, run):
                return False
            kept = self._open - self._revoked  # one that was taken and given back is read again from its offset
            await self._follow_assignment()
            made = [each for each in made if _place(each) in kept]

    async def _wait(self, wait_ms: int, run: AsyncJobRun) -> bool:
        """Wait, as a member of the group; True where the task is to end."""
        until = time.monotonic() + wait_ms / 1000
        while not run.ending.is_set() and (left := until - time.monotonic()) > 0:
            self._consumer.pause(self._consumer.assignment)
            self._held += await self._consumer.poll(min(left * 1000, POLL_MS))
        self._consumer.resume(self._consumer.assignment)
        return run.ending.is_set()

    async def _leave_out(self, refused: RefusedRecords, records: Sequence[ConsumedRecord]) -> None:
        by_place = {(each.topic, each.partition, each.offset): each for each in records}
        at_class = self._plan.plugin.java_class
        for record, error in refused.refused:
            read = by_place[(record.original_topic or record.topic, record.original_partition or 0, record.offset)]
            await self._refusals.take(_original_of(read), StageFault("TASK_PUT", at_class, error))

    async def _keep_offsets(self) -> None:
        """Flush, then commit what was put; what was put into partitions that were taken away is not committed."""
        self._due = time.monotonic() + self._interval
        if not self._put:
            return
        flushed = await self._task.flush()
        await self._refusals.settle()
        offsets = self._put if flushed is None else flushed
        owned = self._consumer.assignment
        wanted = {each: CommittedOffset(offset) for each, offset in offsets.items() if each in owned}
        try:
            if wanted:
                await self._commit(wanted)
                self._plan.counts.commits += 1
        except ApiError as fault:
            if fault.code not in _GROUP_MOVED_ON:
                raise
            log.warning("%s: offsets are not committed yet, the group is balancing: %s", self._plan.name, fault)
            return
        self._put = {} if flushed is None else {
            each: offset for each, offset in self._put.items() if flushed.get(each, -1) < offset
        }  # fmt: skip

    async def _commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        await self._consumer.commit(offsets)


def _place(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic or record.topic, record.original_partition or 0)


def _original_of(read: ConsumedRecord) -> Original:
    return Original(read.topic, read.partition, read.offset, read.key, read.value, read.headers)
