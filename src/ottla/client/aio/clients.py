"""The asyncio faces of the producer and the consumer."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence

from ottla.client.aio.cluster import Cluster
from ottla.client.consume import offsets
from ottla.client.consume.consuming import ConsumerCore, ConsumerSettings, Listener
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import ClientError, RequestTimedOut, TransactionAborted
from ottla.client.model import (
    EARLIEST,
    LATEST,
    ClientSettings,
    CommittedOffset,
    ConsumedRecord,
    GroupMetadata,
    Header,
    OffsetAtTime,
)
from ottla.client.produce.accumulator import Accumulator, Delivered, OutgoingBatch, Place, ProducerSettings, record_size
from ottla.client.produce.producing import Sender, with_transactions
from ottla.client.produce.transacting import Transactor
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition


class Producer:
    """Like `ottla.client.Producer`, for asyncio: `produce` takes a record and returns a future of its place.

    For one event loop; an async context manager. Futures fail with `ApiError` or `ClientError`.

        import asyncio

        from ottla.client import ProducerSettings, aio


        async def main() -> None:
            async with aio.Producer("localhost:9092", producer=ProducerSettings(linger_ms=20)) as producer:
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
        security: Security = PLAINTEXT,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
    ) -> None:
        """A `transactional_id`, given here or in `producer`, puts every record into a transaction.

        Arguments are those of `ottla.client.Producer`. No connection is made before the first record.
        """
        self.producer_settings = with_transactions(producer, transactional_id, transaction_timeout_ms)
        self.cluster = Cluster(bootstrap, settings=settings, security=security)
        self._accumulator = Accumulator(self.producer_settings)
        self._sender = Sender(self.cluster.plan, self._accumulator)
        self._changed = asyncio.Condition()
        self._flushing = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[Header] = (),
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
        key_bytes = key.encode() if isinstance(key, str) else key
        value_bytes = value.encode() if isinstance(value, str) else value
        header_list = list(headers)
        at = int(time.time() * 1000) if timestamp is None else timestamp
        available, count = await self._partitions(topic)
        if partition is not None and not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has no partition {partition}: it has {count}")
        size = record_size(key_bytes, value_bytes, header_list)
        async with self._changed:
            if self._closed:
                raise ClientError("the producer is closed")
            if self._task is None:
                self._task = asyncio.create_task(self._work())
            try:
                async with asyncio.timeout(self.producer_settings.max_block_ms / 1000):
                    await self._changed.wait_for(lambda: self._accumulator.has_room(size))
            except TimeoutError as fault:
                raise RequestTimedOut("no room for a record: the broker takes them too slowly") from fault
            self._sender.require_open()
            if partition is None:
                partition = self._accumulator.choose(topic, key_bytes, available, count)
            place = self._accumulator.append(
                TopicPartition(topic, partition),
                at,
                key_bytes,
                value_bytes,
                header_list,
                now_ms=self.cluster.plan.now_ms(),
            )
            if place.batch.sealed or place.batch.builder.records_count == 1:
                self._changed.notify_all()
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        place.batch.listeners.append(lambda: _resolve(future, place))
        return future

    async def init_transactions(self) -> None:
        """Take the transactional id over: call it once, first. Producers that had the id before are fenced.

        Errors here and in the other calls of transactions are those of `ottla.client.Producer`.
        """
        await self.cluster.run(self._transactor.init())

    def begin_transaction(self) -> None:
        """Begin a transaction: the records and offsets that follow become visible together, or never."""
        self._transactor.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata | str
    ) -> None:
        """Commit the next offsets to read for a group together with the transaction.

        `group` is the consumer's `group_metadata`, or the id of a group without members.
        """
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self.cluster.run(self._transactor.send_offsets(offsets, metadata))

    send_offsets = send_offsets_to_transaction

    async def commit_transaction(self) -> None:
        """Deliver all records, then make the transaction visible; TransactionMustAbort where a record failed.

        After RequestTimedOut, a lost connection or a cancellation the outcome is not known: call again.
        """
        self._transactor.state.begin_delivery()  # other tasks add nothing from here on
        await self.flush()
        await self.cluster.run(self._transactor.commit())
        self._accumulator.renew(self._transactor.identity)

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

    async def flush(self) -> None:
        """Send all that waits without lingering; return once all of it has its outcome, delivered or failed.

        What other tasks produce meanwhile is not waited for. Errors of records are raised by their futures, not here.
        `asyncio.timeout` limits the wait.
        """
        async with self._changed:
            waiting = self._accumulator.unfinished
            self._flushing += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: all(batch.outcome is not None for batch in waiting))
            finally:
                self._flushing -= 1

    async def close(self) -> None:
        """Abort a transaction that is open, flush, then end. A second call does nothing."""
        if self._closed:
            return
        if self._sender.transactor is not None and self._transactor.state.can_abort:
            with contextlib.suppress(ClientError, ApiError):
                await self.abort_transaction()
        await self.flush()
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.cluster.close()

    @property
    def _transactor(self) -> Transactor:
        return self._sender.require_transactor()

    async def _partitions(self, topic: str) -> tuple[Sequence[int], int]:
        plan = self.cluster.plan
        if plan.metadata.missing([topic]):
            create = self.producer_settings.allow_auto_create_topics
            await self.cluster.run(plan.ensure([topic], create=create, timeout_ms=self.producer_settings.max_block_ms))
        view = plan.metadata.topics[topic]
        return [index for index, each in view.partitions.items() if each.leader >= 0], len(view.partitions)

    async def _work(self) -> None:
        """The sending task: send the batches that are ready, round after round."""
        now_ms = self.cluster.plan.now_ms
        while True:
            async with self._changed:
                batches: list[OutgoingBatch] = []
                while not batches:
                    hurry = self._flushing > 0
                    batches = self._accumulator.ready(now_ms(), flush=hurry)
                    if not batches:
                        wait_ms = self._accumulator.next_ready_ms(flush=hurry) - now_ms()
                        await self._wait(wait_ms)
            outcomes = await self.cluster.run(self._sender.send(batches))
            async with self._changed:
                finished = self._sender.settle(outcomes)
                self._changed.notify_all()
            _tell(finished)

    async def _wait(self, wait_ms: float) -> None:
        """Wait until something has changed, at most `wait_ms`."""
        timeout = None if wait_ms == float("inf") else max(wait_ms, 0.5) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()


class Consumer:
    """Like `ottla.client.Consumer`, for asyncio; `async for record in consumer` goes on without end.

    For one event loop, one call at a time; an async context manager. Errors are those of `ottla.client.Consumer`.

        import asyncio

        from ottla.client import ConsumerSettings, aio


        async def main() -> None:
            async with aio.Producer("localhost:9092") as producer:
                await producer.produce("fish", "carp")
            settings = ConsumerSettings(group_id="anglers", auto_offset_reset="earliest")
            async with aio.Consumer("localhost:9092", consumer=settings) as consumer:
                consumer.subscribe(["fish"])
                for record in await consumer.poll(timeout_ms=10_000):
                    print(record.topic, record.partition, record.offset, record.value)
                await consumer.commit()


        asyncio.run(main())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        consumer: ConsumerSettings | None = None,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        """Arguments are those of `ottla.client.Consumer`. No connection is made before it is needed."""
        self.cluster = Cluster(bootstrap, settings=settings, security=security)
        self.core = ConsumerCore(self.cluster.plan, consumer or ConsumerSettings())
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Records without end: `poll` with a timeout of one second, again and again."""
        while True:
            for record in await self.poll(1_000):
                yield record

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now; with `subscribe` none before the first `poll`."""
        return self.core.assignment

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group and this member of it, for `Producer.send_offsets_to_transaction`; ValueError without a group."""
        return self.core.group_metadata

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str],
        *,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share these topics, or all that a pattern matches, with the other members of the group.

        Call it where an event loop runs: a task begins to send heartbeats, and the next `poll` joins the group.
        Listeners are plain functions, called as by `ottla.client.Consumer`. Raises ValueError without a `group_id`.
        """
        self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whichever other consumers read them, and no others.

        Positions start at the group's committed offsets if there is a `group_id`, else by `auto_offset_reset`.
        """
        self.core.assign(partitions)

    async def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records as soon as there are some, at most `max_records` or else `max_poll_records`; none after `timeout_ms`.

        Also joins the group, calls the listeners and commits if that is automatic, which may take longer than
        `timeout_ms`. Call it at least every `max_poll_interval_ms`, or the member leaves the group.
        """
        return await self.cluster.run(self.core.poll(timeout_ms, max_records))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset; KeyError where the partition is not assigned."""
        self.core.fetcher.readings[partition].seek(offset)

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first record kept of these partitions, by default of all that are assigned."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on after the last record of these partitions, by default of all that are assigned.

        With `read_committed` that is before the first transaction that is still open.
        """
        await self._seek_to(partitions, LATEST)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out; KeyError where the partition is not assigned."""
        return await self.cluster.run(self.core.position(partition))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no records of these partitions until `resume`. A pause ends when the partition is given up."""
        self.core.fetcher.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions: they go on where they were."""
        self.core.fetcher.resume(partitions)

    async def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the positions: for each partition the next offset to read.

        Raises ValueError without a `group_id`, and the first partition's error, as `ottla.client.Consumer.commit`.
        """
        await self.cluster.run(self.core.commit(committed))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, asked for; partitions without a commit are left out.

        Raises ValueError without a `group_id`.
        """
        return await self.cluster.committed_offsets(self.core.group, partitions)

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """For each partition the first offset whose timestamp is at least the given one; offset -1: none.

        Times are milliseconds since 1970. Raises the first partition's error.
        """
        isolation = self.core.settings.fetch.isolation_level
        return await self.cluster.run(offsets.list_offsets(self.cluster.plan, list(times), times, isolation))

    async def close(self) -> None:
        """Commit if that is automatic, leave the group, close the connections.

        A member with an `instance_id` does not leave. Errors on the way are not raised.
        """
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.cluster.run(self.core.close())
        await self.cluster.close()

    async def _seek_to(self, partitions: Collection[TopicPartition], spec: int) -> None:
        chosen = list(partitions) or sorted(self.assignment)
        found = await self.cluster.list_offsets(chosen, spec, self.core.settings.fetch.isolation_level)
        for partition, at in found.items():
            self.seek(partition, at.offset)

    async def _beat(self) -> None:
        """The heartbeat task; a failed heartbeat is tried again, the session timeout judges."""
        while True:
            try:
                wait_ms = await self.cluster.run(self.core.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            await asyncio.sleep(max(wait_ms, 10.0) / 1000)


def _tell(batches: Sequence[OutgoingBatch]) -> None:
    for batch in batches:
        for listener in batch.listeners:
            listener()


def _resolve(future: asyncio.Future[Delivered], place: Place) -> None:
    if future.done():
        return
    outcome = place.batch.outcome
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(place.delivered())
