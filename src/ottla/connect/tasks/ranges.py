"""One piece of a connector's work that ends by itself, for Spark's workers: offsets of a partition, or part of a table.

A fault is judged where it comes about and sent back as a value: pieces of other connectors in the same job still count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.model import CommittedOffset
from ottla.connect.plugins.base import LoadTask, SinkConnector, SourceConnector
from ottla.connect.plugins.known import AnyConnector
from ottla.connect.tasks.counts import TaskCounts
from ottla.connect.tasks.offsets import Kept, Offset, Partition
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.sink import POLL_MS, SinkWork
from ottla.connect.tasks.source import SourceWork
from ottla.jobs.running_async import AsyncJobRun
from ottla.jobs.states import JobFault
from ottla.kernel.ids import TopicPartition

Config = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SinkRange:
    """Offsets of a partition, without the last."""

    partition: TopicPartition
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class WorkPiece:
    """A piece of work. It can be pickled; its configuration has its variables resolved."""

    connector: str
    plugin: AnyConnector
    config: Config = field(repr=False)
    worker: Config = field(repr=False)
    span: SinkRange | None = None
    """The records of a sink's piece."""


@dataclass(frozen=True, slots=True)
class PieceDone:
    """The outcome of a piece, also of one that failed midway."""

    counts: TaskCounts
    offset: int | None = None
    """The offset of a sink's partition below which all is durable; None where that has not moved."""
    topics: frozenset[str] = field(default_factory=frozenset)
    fault: JobFault | None = None


def carried_out(piece: WorkPiece) -> PieceDone:
    """Do a piece of work, and wait for its end."""
    plan = TaskPlan(piece.connector, 0, piece.plugin, piece.config, piece.config, piece.worker)
    topics: set[str] = set()
    work: _SpanWork | _WholeWork | None = None
    fault = None
    try:
        work = (_WholeWork if piece.span is None else _SpanWork)(plan, piece, topics)
        asyncio.run(work.run(AsyncJobRun(lambda: None)))
    except Exception as error:
        fault = plan.fault_of(error)
    offset = work.durable if isinstance(work, _SpanWork) else None
    return PieceDone(plan.counts, offset, frozenset(topics), fault)


class _SpanWork(SinkWork):
    """A sink's work on some offsets of one partition. It commits nothing: the one who sent it does."""

    def __init__(self, plan: TaskPlan, piece: WorkPiece, topics: set[str]) -> None:
        assert piece.span is not None and issubclass(piece.plugin, SinkConnector)
        task = piece.plugin.task(piece.config)
        assert not isinstance(task, LoadTask)  # it goes to Spark itself
        super().__init__(plan, piece.config, task, topics.update)
        self._span = piece.span
        self.durable: int | None = None

    def _attach(self) -> None:
        self._consumer.assign([self._span.partition])
        self._consumer.seek(self._span.partition, self._span.begin)

    async def _loop(self, run: AsyncJobRun) -> None:
        at, end = self._span.begin, self._span.end
        while at < end:
            records = self._held or await self._consumer.poll(POLL_MS)
            self._held = []
            await self._follow_assignment()
            if within := [each for each in records if each.offset < end]:
                await self._deliver(within, run)
            at = records[-1].offset + 1 if records else await self._consumer.position(self._span.partition)
            await self._flush_when_due()
        self._put[self._span.partition] = end  # markers and gaps at the end count as put

    async def _commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.durable = offsets[self._span.partition].offset


class _NoOffsets:
    """The offsets of a piece that is always read whole."""

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        return [None] * len(partitions)

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        pass

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        return []


class _WholeWork(SourceWork):
    """A source's work on a piece that its task reads to an end."""

    def __init__(self, plan: TaskPlan, piece: WorkPiece, topics: set[str]) -> None:
        assert issubclass(piece.plugin, SourceConnector)
        super().__init__(plan, piece.config, piece.plugin.task(piece.config), _NoOffsets(), topics.update)
