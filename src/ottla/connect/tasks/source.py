"""The work of a source task: read, transform, convert, produce; keep offsets once their records are acknowledged."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from ottla.client import aio
from ottla.client.aio.runs import RunProducer
from ottla.client.produce.settings import ProducerSettings
from ottla.connect.machine.connector_options import values_of
from ottla.connect.plugins.base import SourceTask
from ottla.connect.records import PassedPlace, SourceRecord
from ottla.connect.tasks.clients import Settings, bootstrap, producer_of
from ottla.connect.tasks.conversion import Conversion, Outgoing, StageFault
from ottla.connect.tasks.offsets import Offset, OffsetStore, Partition, identity
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.refusals import Original, Refusals
from ottla.connect.tasks.sending import Made, Sending
from ottla.connect.tasks.topic_creation import groups_of, topic_for
from ottla.jobs.running_async import AsyncJobRun
from ottla.kernel.errors import ApiError, ErrorCode

_MOST_PENDING = 20_000
"""No more is read while so many records are not acknowledged: each is an object, whatever its size."""
log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class OffsetsOf:
    """The offsets of one connector."""

    connector: str
    store: OffsetStore

    async def read(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offset of each partition."""
        return await self.store.read(self.connector, partitions)


class SourceWork:
    """One attempt of a source task."""

    in_transactions = False

    def __init__(
        self,
        plan: TaskPlan,
        config: Mapping[str, str],
        task: SourceTask,
        offsets: OffsetStore,
        on_topics: Callable[[Iterable[str]], None] = lambda topics: None,
    ) -> None:
        self._on_topics = on_topics
        self._plan, self._config, self._task, self._offsets = plan, config, task, offsets
        self._conversion = Conversion(plan.worker, config)
        self._interval = int(plan.worker.get("offset.flush.interval.ms", 60_000)) / 1000
        self._acknowledged: dict[str, tuple[Partition, Offset]] = {}
        self._due = time.monotonic() + self._interval
        makes = plan.worker.get("topic.creation.enable", "true").lower() != "false"
        self._groups = groups_of(config) if makes else []
        self._topics: set[str] = set()

    async def run(self, run: AsyncJobRun) -> None:
        """Do the work until it is to end, or the source has ended."""
        async with AsyncExitStack() as opened:
            opened.push_async_callback(self._task.close)
            settings, client = self._producer_settings()
            self._producer = await opened.enter_async_context(
                RunProducer(bootstrap(self._plan.worker), producer=settings, settings=client)
            )
            self._sending = Sending(self._producer)
            if not await self._may_begin(run):
                return
            options = values_of("source", self._config, exactly_once=self.in_transactions)
            letters = self._producer if options["errors.deadletterqueue.topic.name"] else None
            self._refusals = Refusals(options, self._plan, letters)
            await self._refusals.prepare()
            await self._task.start(OffsetsOf(self._plan.connector, self._offsets))
            run.began()
            try:
                await self._loop(run)
            except Exception:
                await self._finish(failed=True)
                raise
            await self._finish(failed=False)

    def _producer_settings(self) -> Settings[ProducerSettings]:
        return producer_of(self._plan.worker, self._config, f"connector-producer-{self._plan.name}")

    async def _may_begin(self, run: AsyncJobRun) -> bool:
        """Wait until the task may read; False where it is to end before that."""
        return True

    async def _loop(self, run: AsyncJobRun) -> None:
        ending = asyncio.ensure_future(run.ending.wait())
        reading: asyncio.Task[list[SourceRecord] | None] | None = None
        late: list[SourceRecord] | None = None
        phase = ""
        delivered = asyncio.ensure_future(self._sending.delivered.wait())
        try:
            while not run.ending.is_set():
                if reading is None and self._task.phase != phase:
                    phase = self._task.phase
                    run.entered(phase)
                if reading is None and self._sending.pending < _MOST_PENDING:
                    reading = asyncio.create_task(self._task.read())
                awaited = [each for each in (reading, ending, delivered) if each is not None]
                left = max(0.0, self._due - time.monotonic())
                await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if delivered.done():
                    await self._harvest()
                    delivered = asyncio.ensure_future(self._sending.delivered.wait())
                if time.monotonic() >= self._due:
                    await self._on_due()
                if reading is not None and reading.done():
                    records, reading = reading.result(), None
                    if records is None:
                        return
                    await self._send(records)
        finally:
            ending.cancel()
            delivered.cancel()
            if reading is not None and not reading.done():
                late = await _broken_off(reading)
        if late:
            await self._send(late)

    async def _send(self, records: Sequence[SourceRecord]) -> None:
        """Produce records, and pass the places behind them, where the source told some."""
        places = list(takewhile(lambda each: isinstance(each, PassedPlace), reversed(records)))[::-1]
        await self._produce(records[: len(records) - len(places)])
        await self._sending.send([Made(each, None) for each in places])
        if any(isinstance(each, PassedPlace) and each.at_once for each in places):
            await self._producer.flush()
            await self._harvest()
            await self._keep_offsets()

    async def _produce(self, records: Sequence[SourceRecord]) -> None:
        """Produce records; those that are refused are left out if the tolerance allows it."""
        self._plan.counts.polled += len(records)
        at = 0
        while at < len(records):
            converted = await self._conversion.until_fault(self._conversion.outgoing, records, at)
            made: list[Made] = []
            for record, one in zip(records[at:], converted, strict=False):
                if isinstance(one, StageFault):
                    await self._sending.send(made)  # they count, also if this one ends the task
                    made = [Made(record, await self._again(record))]
                else:
                    made.append(Made(record, one))
            for topic in {one.topic for _, one in made if one is not None} - self._topics:
                await self._make_topic(topic)
            await self._sending.send(made)
            at += len(converted)

    async def _make_topic(self, topic: str) -> None:
        """Make a topic that does not exist, if the connector says how; else the broker may."""
        wanted = topic_for(self._groups, topic)
        if wanted is not None:
            outcome = (await aio.Admin(cluster=self._producer.cluster).create_topics([wanted]))[topic]
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise outcome
        self._topics.add(topic)

    async def _again(self, record: SourceRecord) -> Outgoing | None:
        if record.fault is not None:  # the connector could not read it, which no repetition mends
            await self._refusals.take(original_of(record), StageFault("TASK_POLL", "", record.fault))
            return None
        try:
            return await self._refusals.tried(lambda: self._conversion.again(self._conversion.outgoing, record))
        except StageFault as fault:
            await self._refusals.take(original_of(record), fault)
            return None

    async def _harvest(self) -> None:
        """Take the acknowledged records, whose offsets count from here on."""
        known: Partition | None = None
        place = ""
        topics: set[str] = set()
        settled: list[SourceRecord] = []
        for sent in await self._sending.acknowledged(self._undelivered):
            topics.update(() if sent.topic is None else (sent.topic,))
            settled += sent.records
            self._plan.counts.written += sum(len(records) for _, records in sent.parts)
            for record in sent.records:
                partition, offset = record.source_partition, record.source_offset
                if partition is None or offset is None:
                    continue
                if partition is not known:
                    known, place = partition, identity(self._plan.connector, partition)
                self._acknowledged[place] = (partition, offset)
        if topics:
            self._on_topics(topics)
        if settled:
            await self._tell(settled)

    async def _tell(self, settled: Sequence[SourceRecord]) -> None:
        """Tell the task which records are safe: a dead letter is, once it is acknowledged too."""
        await self._refusals.settle()
        self._task.acknowledged(settled)

    async def _undelivered(self, record: SourceRecord, error: Exception) -> None:
        """Leave out a record that its topic refused, if the tolerance allows it."""
        await self._refusals.take(original_of(record), StageFault("KAFKA_PRODUCE", "", error))

    async def _on_due(self) -> None:
        await self._keep_offsets()

    async def _keep_offsets(self) -> None:
        self._due = time.monotonic() + self._interval
        await self._refusals.settle()
        if not self._acknowledged:
            return
        kept, self._acknowledged = list(self._acknowledged.values()), {}
        await self._offsets.write(self._plan.connector, kept)
        self._plan.counts.commits += 1
        await self._task.commit(kept)

    async def _finish(self, *, failed: bool) -> None:
        """Deliver what was read, and keep the offsets of all that was delivered, also where the task has failed."""
        await self._producer.flush()
        try:
            await self._harvest()
        finally:
            await self._keep_offsets()


async def _broken_off(reading: asyncio.Task[list[SourceRecord] | None]) -> list[SourceRecord] | None:
    """Cancel a read, and wait for its end; the records of one that did not let itself be broken off."""
    while not reading.done():
        reading.cancel()
        with suppress(asyncio.CancelledError):  # the task is told again that it is to end: so is the read
            await asyncio.wait((reading,))
    return None if reading.cancelled() or reading.exception() is not None else reading.result()


def original_of(record: SourceRecord) -> Original:
    """A source's record for a dead letter: its content as text, and where it was read as headers."""
    place = (("ottla.source.partition", record.source_partition), ("ottla.source.offset", record.source_offset))
    headers = tuple((name, json.dumps(each).encode()) for name, each in place if each is not None)
    return Original(record.topic, record.partition, None, _as_text(record.key), _as_text(record.value), headers)


def _as_text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "replace")
