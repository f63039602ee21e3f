"""The asyncio face of the producer: `produce` takes a record, a task of its own sends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.core.effects import ClientStory
from ottla.client.errors import ClientError, RequestTimedOut, TransactionAborted
from ottla.client.faces.call import Awaited, keywords
from ottla.client.faces.producer import ProducerCalls
from ottla.client.model import ClientSettings
from ottla.client.produce.accumulator import Accumulator, BatchPlace, Delivered, OutgoingBatch, record_size
from ottla.client.produce.producing import Sender, StoryEnded, settings_from
from ottla.client.produce.record import Content, Headers, read_record
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")


class Producer(ProducerCalls, Awaited):
    """Like `ottla.client.Producer`, for asyncio: `produce` takes a record and returns a future of its place.

    For one event loop; an async context manager. Futures fail with `ApiError` or `ClientError`.

        import asyncio

        from ottla.client import aio


        async def main() -> None:
            async with aio.Producer("localhost:9092", linger_ms="20ms") as producer:
                futures = [await producer.produce("pets", name, key="anna") for name in ("cat", "dog")]
                for delivered in await asyncio.gather(*futures):
                    print(delivered)


        asyncio.run(main())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        producer: ProducerSettings | None = None,
        settings: ClientSettings | None = None,
        **options: Any,
    ) -> None:
        """Arguments and `options` are those of `ottla.client.Producer`.

        No connection is made before the first record.
        """
        self.producer_settings, own = settings_from(producer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own)
        self._accumulator = Accumulator(self.producer_settings)
        self._sender = Sender(self.cluster.plan, self._accumulator)
        self._changed = asyncio.Condition()
        self._stirred = asyncio.Event()
        """Set once the sending task is to look again at what may leave, and at what has ended."""
        self._flushing = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    @keywords
    async def produce(
        self,
        topic: str,
        value: Content | None = None,
        key: Content | None = None,
        *,
        partition: int | None = None,
        headers: Headers | None = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """Take one record; await the future for its place.

        Arguments and errors are those of `ottla.client.Producer.produce`; callbacks are added to the future. Waits for
        the topic's metadata and while `buffer_memory` is full, each at most `max_block_ms`.

            async def produce_one() -> None:
                async with aio.Producer("localhost:9092") as producer:
                    future = await producer.produce("pets", "cat")
                    print((await future).offset)


            asyncio.run(produce_one())
        """
        self._sender.require_open()
        value_bytes, key_bytes, pairs = read_record(topic, value, key, headers, partition, timestamp)
        at = int(time.time() * 1000) if timestamp is None else timestamp
        available, count = await self._partitions(topic, partition)
        if partition is not None and not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has no partition {partition}: it has {count}")
        size = record_size(key_bytes, value_bytes, pairs)
        async with self._changed:
            await self._wait_for_room(size)
            self._sender.require_open()
            if partition is None:
                partition = self._accumulator.choose(topic, key_bytes, available, count)
            where, now_ms = TopicPartition(topic, partition), self.cluster.plan.now_ms()
            place = self._accumulator.append(where, at, key_bytes, value_bytes, pairs, now_ms=now_ms, most=size)
            if self._sender.begins(place.batch):
                self._stirred.set()
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        place.batch.listeners.append(lambda: _resolve(future, place))
        return future

    @keywords
    async def commit_transaction(self) -> None:
        """Deliver all records, then make the transaction visible; TransactionMustAbort where a record failed.

        After RequestTimedOut, a lost connection or a cancellation the outcome is not known: call again.
        """
        self._transactor.state.begin_delivery()  # other tasks add nothing from here on
        await self.flush()
        await self.cluster.run(self._transactor.commit())
        self._accumulator.renew(self._transactor.identity)

    @keywords
    async def abort_transaction(self) -> None:
        """Drop the records that were not sent; `read_committed` readers ignore the rest.

        Futures of dropped records raise TransactionAborted.
        """
        async with self._changed:
            self._transactor.state.begin_abort()
            dropped = self._sender.drop_waiting(TransactionAborted("the transaction was aborted"))
            self._changed.notify_all()
        _tell(dropped)
        await self.flush()
        await self.cluster.run(self._transactor.abort())
        self._accumulator.renew(self._transactor.identity)

    @keywords
    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction around a block: committed at its end, aborted where it raises or cannot be committed.

        The error of the block, or of the commit, goes on to the caller.

            async def produce_both() -> None:
                async with aio.Producer("localhost:9092", transactional_id="aio-page-1") as producer:
                    await producer.init_transactions()
                    async with producer.transaction():
                        await producer.produce("pets", "cat")
                        await producer.produce("owners-of-pets", "anna")


            asyncio.run(produce_both())
        """
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as fault:
            if self._transactor.state.can_abort:
                try:
                    await self.abort_transaction()
                except (ClientError, ApiError) as second:
                    fault.add_note(f"the transaction could not be aborted either: {second}")
            raise

    @keywords
    async def flush(self) -> None:
        """Send all that waits without lingering; return once all of it has its outcome, delivered or failed.

        What other tasks produce meanwhile is not waited for. Errors of records are raised by their futures, not here.
        `asyncio.timeout` limits the wait.
        """
        async with self._changed:
            waiting = self._accumulator.unfinished
            self._flushing += 1
            self._stirred.set()
            try:
                await self._changed.wait_for(lambda: all(batch.outcome is not None for batch in waiting))
            finally:
                self._flushing -= 1

    @keywords
    async def close(self) -> None:
        """Abort a transaction that is open, flush, then end. A second call does nothing.

        From its beginning on nothing more can be produced. If it is cancelled, what was not sent fails.
        """
        if self._closed:
            return
        self._closed = True
        try:
            async with self._changed:
                self._changed.notify_all()
            if self._sender.transactor is not None and self._transactor.state.can_abort:
                with contextlib.suppress(ClientError, ApiError):
                    await self.abort_transaction()
            await self.flush()
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            await self.cluster.close()

    async def _run(self, story: ClientStory[T]) -> T:
        return await self.cluster.run(story)

    async def _partitions(self, topic: str, partition: int | None) -> tuple[Sequence[int], int]:
        known = self._sender.known_partitions(topic, partition)
        return known if known is not None else await self.cluster.run(self._sender.find_partitions(topic, partition))

    async def _wait_for_room(self, size: int) -> None:
        if self._task is not None and not self._closed and self._accumulator.has_room(size):
            return  # a timeout for each record costs a third of the time
        try:
            async with asyncio.timeout(self.producer_settings.max_block_ms / 1000):
                await self._changed.wait_for(lambda: self._closed or self._accumulator.has_room(size))
        except TimeoutError as fault:
            allowed = self.producer_settings.max_block_ms / 1000
            raise RequestTimedOut(
                f"no room for a record within {allowed:.0f} s: {self._accumulator.why_full()}"
            ) from fault
        if self._closed:
            raise ClientError("the producer is closed")
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        """The sending task. However it ends, what waits has its outcome then."""
        try:
            await self._send()
        finally:
            self._closed = True
            _tell(self._accumulator.abandon(ClientError("the producer is closed")))
            async with self._changed:
                self._changed.notify_all()

    async def _send(self) -> None:
        """Begin to send what may leave, and settle what has ended, without end."""
        under_way: dict[asyncio.Task[StoryEnded], ClientStory[StoryEnded]] = {}
        try:
            while True:
                hurry = self._flushing > 0
                for story in self._sender.begin(flush=hurry):
                    task = asyncio.create_task(self.cluster.run(story))
                    task.add_done_callback(lambda _: self._stirred.set())
                    under_way[task] = story
                await self._wait(self._sender.next_begin_ms(flush=hurry))
                self._stirred.clear()
                done = [task for task in under_way if task.done()]
                for task in done:
                    del under_way[task]
                if done:
                    await self._settle([task.result() for task in done])
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            for story in under_way.values():
                story.close()  # one that was never begun would be warned of

    async def _settle(self, ended: Sequence[StoryEnded]) -> None:
        """Take in how stories ended, and give the futures of their batches the outcomes."""
        async with self._changed:
            finished = self._sender.settle(ended)
            self._changed.notify_all()
        _tell(finished)

    async def _wait(self, until_ms: float) -> None:
        """Wait until something has changed, at most until this time."""
        wait_ms = until_ms - self.cluster.plan.now_ms()
        timeout = None if wait_ms == float("inf") else max(wait_ms, 0.5) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._stirred.wait()


def _tell(batches: Sequence[OutgoingBatch]) -> None:
    for batch in batches:
        for listener in batch.listeners:
            listener()


def _resolve(future: asyncio.Future[Delivered], place: BatchPlace) -> None:
    if future.done():
        return
    outcome = place.outcome
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(place.delivered())
