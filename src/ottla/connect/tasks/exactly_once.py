"""The work of a source task that delivers exactly once: records and offsets in one transaction (KIP-618).

The transactional id is Kafka's, `GROUP-CONNECTOR-TASK`. A task that begins fences the one that had its id before, and
reads the offsets only then: so nothing that another process still writes can come behind them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ottla.client.produce.settings import ProducerSettings
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.machine.connector_options import values_of
from ottla.connect.plugins.base import SourceTask
from ottla.connect.records import SourceRecord
from ottla.connect.tasks.clients import Settings, producer_of
from ottla.connect.tasks.offsets import TransactionalOffsets
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.source import SourceWork
from ottla.jobs.running_async import AsyncJobRun

T = TypeVar("T")
_CONNECTOR: Final = "connector"
_NEVER_S: Final = 1e9


class Fence(Protocol):
    """Keeps tasks of earlier rounds away. A round begins with each new set of a connector's tasks."""

    async def cleared(self, connector: str, task: int) -> int:
        """The present round, once all producers of earlier ones are fenced and while the task belongs here."""

    async def confirm(self, connector: str, task: int, of_round: int) -> None:
        """Raise where the round is over, or the task belongs to another worker by now."""


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """A task with transactions: the group in whose name it writes, its offsets, and the fence around it."""

    group_id: str
    offsets: TransactionalOffsets
    fence: Fence


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """The transactional id of a task."""
    return f"{group_id}-{connector}-{task}"


class ExactlyOnceWork(SourceWork):
    """One attempt of a source task with transactions."""

    in_transactions = True

    def __init__(
        self,
        plan: TaskPlan,
        config: Mapping[str, str],
        task: SourceTask,
        once: ExactlyOnce,
        on_topics: Callable[[Iterable[str]], None],
    ) -> None:
        super().__init__(plan, config, task, once.offsets, on_topics)
        self._once = once
        options = values_of("source", config)
        self._boundary = str(options["transaction.boundary"]).lower()
        self._interval = _interval_s(self._boundary, options, self._interval)
        self._due = time.monotonic() + self._interval
        self._is_open = False
        self._settled: list[SourceRecord] = []

    def _producer_settings(self) -> Settings[ProducerSettings]:
        """Kafka's settings, with the task's transactional id; ConfigException for an interval that is too long."""
        plan = self._plan
        fixed = {
            "transactional.id": transactional_id(self._once.group_id, plan.connector, plan.number),
            "enable.idempotence": "true",
        }
        longer = {"producer.transaction.timeout.ms": str(int(self._interval * 1000) + 60_000)}
        worker = {**longer, **plan.worker} if self._boundary == "interval" else plan.worker
        made = producer_of(worker, self._config, f"connector-producer-{plan.name}", fixed)
        timeout_ms = made[0].transaction_timeout_ms
        if self._boundary == "interval" and self._interval * 1000 >= timeout_ms:
            raise ConfigException(
                f"a transaction takes {self._interval * 1000:.0f} ms, and the brokers abort it after {timeout_ms} ms: "
                "set transaction.boundary.interval.ms to less, or producer.override.transaction.timeout.ms to more"
            )
        return made

    async def _may_begin(self, run: AsyncJobRun) -> bool:
        """Fence whoever had the transactional id; look again whether the task is ours, as that took a while."""
        connector, number = self._plan.connector, self._plan.number
        of_round = await unless_ending(run, asyncio.ensure_future(self._once.fence.cleared(connector, number)))
        if of_round is None:
            return False
        await self._producer.init_transactions()
        await self._once.fence.confirm(connector, number, of_round)
        return True

    async def _send(self, records: Sequence[SourceRecord]) -> None:
        for some, is_end in self._pieces(records):
            if not self._is_open:
                self._producer.begin_transaction()
                self._is_open = True
            await super()._send(some)
            if is_end:
                await self._keep_offsets()

    def _pieces(self, records: Sequence[SourceRecord]) -> Iterator[tuple[Sequence[SourceRecord], bool]]:
        """Records of one transaction each, and whether it ends behind them."""
        if self._boundary != _CONNECTOR:
            if records:
                yield records, self._boundary == "poll"
            return
        begin = 0
        for end, record in enumerate(records, 1):
            if record.ends_transaction:
                yield records[begin:end], True
                begin = end
        if begin < len(records):
            yield records[begin:], False

    async def _undelivered(self, record: SourceRecord, error: Exception) -> None:
        """A transaction in which a record is missing cannot be committed, whatever the tolerance."""
        raise ConnectException(
            f"{record} was refused by its topic, and a transaction cannot go on without it: {error}"
        ) from error

    async def _on_due(self) -> None:
        self._due = time.monotonic() + self._interval
        if self._boundary == "interval":
            await self._keep_offsets()

    async def _keep_offsets(self) -> None:
        """Commit the transaction, with the offsets of all its records."""
        self._due = time.monotonic() + self._interval
        if not self._is_open:
            return
        await self._producer.flush()
        await self._harvest()
        await self._refusals.settle()
        kept, self._acknowledged = list(self._acknowledged.values()), {}
        for topic, partition, key, value in self._once.offsets.records(self._plan.connector, kept):
            await self._producer.produce(topic, value, key, partition=partition)
        await self._producer.commit_transaction()
        self._is_open = False
        self._plan.counts.commits += 1
        await self._once.offsets.committed(self._plan.connector, kept)
        await self._task.commit(kept)
        settled, self._settled = self._settled, []
        if settled:
            self._task.acknowledged(settled)

    async def _tell(self, settled: Sequence[SourceRecord]) -> None:
        """Keep them until the transaction is committed: before that nothing of it is safe."""
        self._settled += settled

    async def _finish(self, *, failed: bool) -> None:
        """Commit what was read. A connector's own transaction that it did not end is aborted as the producer closes."""
        if not failed and self._boundary != _CONNECTOR:
            await self._keep_offsets()


def _interval_s(boundary: str, options: Mapping[str, Any], flush_s: float) -> float:
    """The time between two commits, which only the boundary `interval` has."""
    if boundary != "interval":
        return _NEVER_S
    chosen = options["transaction.boundary.interval.ms"]
    return flush_s if chosen is None else chosen / 1000


async def unless_ending(run: AsyncJobRun, waiting: asyncio.Future[T]) -> T | None:
    """The awaited result; None where the task is to end before."""
    ending = asyncio.ensure_future(run.ending.wait())
    try:
        await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        for each in (waiting, ending):
            each.cancel()
        await asyncio.wait((waiting, ending))
