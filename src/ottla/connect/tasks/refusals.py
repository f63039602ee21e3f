"""Records that a stage refused: whether the task goes on, how long it tries again, and the dead letters."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ottla.client import aio
from ottla.client.admin.admin import NewTopic
from ottla.client.model import Header
from ottla.client.produce.accumulator import Delivered
from ottla.connect.errors import ConnectException, RetriableException
from ottla.connect.tasks.conversion import StageFault
from ottla.connect.tasks.plan import TaskPlan
from ottla.jobs.letters import Cause, Style, error_headers
from ottla.kernel.errors import ApiError, ErrorCode

T = TypeVar("T")
_FIRST_WAIT_MS = 300
log = logging.getLogger("ottla.connect")


class ToleranceExceeded(ConnectException):
    """A record was refused, and `errors.tolerance` is none."""


@dataclass(frozen=True, slots=True)
class ErrorRetries:
    """The waits between attempts of an operation that may succeed later, by `errors.retry.*`."""

    timeout_ms: int
    """0: no second attempt, -1: without end."""
    most_delay_ms: int

    def waits_ms(self) -> Iterator[int]:
        """300 ms, doubling; together not longer than the timeout."""
        left, wait = self.timeout_ms, _FIRST_WAIT_MS
        while left:
            this = min(wait, self.most_delay_ms) if left < 0 else min(wait, self.most_delay_ms, left)
            yield this
            left = left if left < 0 else left - this
            wait = min(wait * 2, self.most_delay_ms)


class Original(NamedTuple):
    """The record that was refused, as it was before the task."""

    topic: str
    partition: int | None
    offset: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Refusals:
    """Takes the refused records of one task."""

    def __init__(self, options: Mapping[str, Any], plan: TaskPlan, producer: aio.Producer | None) -> None:
        """`options` are the connector's common ones; `producer` is for dead letters, None where there are none."""
        self._connector, self._task, self._counts, self._producer = plan.connector, plan.number, plan.counts, producer
        self._tolerant = options["errors.tolerance"] == "all"
        self._logs, self._shows = options["errors.log.enable"], options["errors.log.include.messages"]
        self._topic = options["errors.deadletterqueue.topic.name"]
        self._headers = options["errors.deadletterqueue.context.headers.enable"]
        self._replicas = options["errors.deadletterqueue.topic.replication.factor"]
        self._letters: list[asyncio.Future[Delivered]] = []
        self.retries = ErrorRetries(options["errors.retry.timeout"], options["errors.retry.delay.max.ms"])
        self.refused = 0
        """The records that were left out."""
        self._told = 0

    async def prepare(self) -> None:
        """Make the topic of dead letters where it does not exist."""
        if self._producer is None:
            return
        wanted = NewTopic(self._topic, 1, self._replicas, {})
        outcome = (await aio.Admin(cluster=self._producer.cluster).create_topics([wanted]))[self._topic]
        if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectException(f"the topic {self._topic} for dead letters cannot be made: {outcome}") from outcome

    async def tried(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of a step that may refuse its record; a RetriableException is tried again for a while."""
        waits = self.retries.waits_ms()
        while True:
            try:
                return await step()
            except StageFault as fault:
                wait = next(waits, None) if isinstance(fault.error, RetriableException) else None
                if wait is None:
                    raise
                self._counts.retries += 1
                await asyncio.sleep(wait / 1000)

    async def take(self, original: Original, fault: StageFault) -> None:
        """Leave a record out, with a log line and a dead letter; ToleranceExceeded where it may not be left out."""
        where = f"{original.topic}-{original.partition} at offset {original.offset}"
        if original.offset is None:
            where = f"for {original.topic}"
        if not self._tolerant:
            raise ToleranceExceeded(
                f"Tolerance exceeded in error handler: {fault.stage} refused the record {where}: "
                f"{str(fault.error).rstrip('.')}. Mend it, or set errors.tolerance to all"
            ) from fault.error
        self.refused += 1
        self._counts.skipped += 1
        if self._logs:
            content = f"; key {original.key!r}, value {original.value!r}" if self._shows else ""
            log.error("%s-%d: %s refused the record %s: %s%s", self._connector, self._task, fault.stage, where,
                      fault.error, content)  # fmt: skip
        if self._producer is not None:
            self._counts.letters += 1
            headers = [*original.headers, *(self._context(original, fault) if self._headers else ())]
            self._letters.append(
                await self._producer.produce(self._topic, original.value, original.key, headers=headers)
            )

    async def settle(self) -> None:
        """Wait until all dead letters are in their topic: before that no offset behind them may be kept."""
        if self.refused > self._told:
            log.warning("%s-%d: %d records were left out so far", self._connector, self._task, self.refused)
            self._told = self.refused
        letters, self._letters = self._letters, []
        if letters:
            await asyncio.gather(*letters)

    def _context(self, original: Original, fault: StageFault) -> list[Header]:
        cause = Cause(
            topic=original.topic,
            partition=original.partition,
            offset=original.offset,
            reason=str(fault.error),
            connector=self._connector,
            task=self._task,
            stage=fault.stage,
            at_class=fault.at_class,
            exception=fault.java_class,
            trace="".join(traceback.format_exception(fault.error)),
        )
        return error_headers(cause, Style.CONNECT)
