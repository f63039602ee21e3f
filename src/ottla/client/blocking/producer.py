"""The blocking face of the producer: `produce` returns at once, a thread of its own sends."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Never, TypeVar

from ottla.client.blocking.cluster import Cluster
from ottla.client.blocking.stories import Stories
from ottla.client.core.effects import ClientStory
from ottla.client.errors import ClientError, InvalidTransactionState, RequestTimedOut, TransactionAborted
from ottla.client.faces.call import Blocking, keywords, refuse
from ottla.client.faces.producer import ProducerCalls
from ottla.client.model import ClientSettings
from ottla.client.produce.accumulator import (
    Accumulator,
    BatchPlace,
    Delivered,
    OutgoingBatch,
    record_size,
)
from ottla.client.produce.producing import Sender, StoryEnded, settings_from
from ottla.client.produce.record import Content, Headers, read_record, require_callback
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")

log = logging.getLogger("ottla.client")


class Delivery:
    """The outcome of one record, once it has one: `Producer.produce` returns it, `result` waits for it."""

    __slots__ = ("_changed", "_place")

    def __init__(self, place: BatchPlace, changed: threading.Condition) -> None:
        self._place = place
        self._changed = changed

    @property
    def done(self) -> bool:
        """True once the record is delivered or has failed; `result` then returns or raises at once."""
        return self._place.outcome is not None

    def result(self, timeout: float | None = None) -> Delivered:
        """Wait for the record's place in the log, at most `timeout` seconds; None waits without end.

        Raises the error of a failure: `ApiError` where the broker refused the record, RequestTimedOut where it could
        not be delivered within `delivery_timeout_ms`. RequestTimedOut after `timeout` seconds is no failure: the record
        is still being tried.

            from ottla.client import Producer

            with Producer("localhost:9092") as producer:
                delivery = producer.produce("pets", "cat")
                print(delivery.result(timeout=30).offset)
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                why = self._place.batch.last_fault
                raise RequestTimedOut(f"the record was not delivered within {timeout} s and is still being tried{why}")
        return self._place.delivered()


class Producer(ProducerCalls, Blocking):
    """Sends records; idempotent with `acks=all` by default. Safe for several threads; a context manager.

    Deliveries fail with `ApiError` or `ClientError`; callbacks run on the sending thread and must be quick. An error
    that a callback raises is logged, as `ottla.client`, and the producer goes on.
    `cluster` is the `Cluster` whose connections the calls use.

        from ottla.client import Producer

        with Producer("localhost:9092", acks="all", compression="zstd", linger_ms="20ms") as producer:
            deliveries = [producer.produce("pets", name, key="anna") for name in ("cat", "dog")]
            for delivery in deliveries:
                print(delivery.result())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        producer: ProducerSettings | None = None,
        settings: ClientSettings | None = None,
        **options: Any,
    ) -> None:
        """`options` are single settings of `ProducerSettings` and `ClientSettings`; they override those in both.

        `bootstrap` is one or several HOST:PORT, with commas between or as a sequence; ValueError where it is not. No
        connection is made before the first record. A `transactional_id` puts every record into a transaction.
        """
        self.producer_settings, own = settings_from(producer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own)
        self._accumulator = Accumulator(self.producer_settings)
        self._sender = Sender(self.cluster.plan, self._accumulator)
        self._changed = threading.Condition()
        self._flushing = 0
        self._untold: Sequence[OutgoingBatch] = ()
        """Batches that have their outcome, whose `on_delivery` the sending thread calls now."""
        self._callbacks = threading.local()
        """Its `running` is true in a thread that calls an `on_delivery`."""
        self._closing = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._stories: Stories[StoryEnded] | None = None
        self._asleep = False
        """True from when the sending thread looks for batches that may leave until it is woken or settles something."""

    def produce(
        self,
        topic: str,
        value: Content | None = None,
        key: Content | None = None,
        *,
        partition: int | None = None,
        headers: Headers | None = (),
        timestamp: int | None = None,
        on_delivery: Callable[[Delivered | Exception], None] | None = None,
        **unknown: Never,
    ) -> Delivery:
        """Take one record and return at once; it is sent in the background.

        Text is encoded as UTF-8, also in headers. A `value` of None is a tombstone where the topic is compacted.
        Without `partition` the partitioner of the settings chooses. `headers` are a dict, or pairs of a name and a
        value. `timestamp` is in milliseconds since 1970, by default now. `on_delivery` is called with the `Delivered`
        or the error, by the thread that sends, which waits for it.

        Blocks for the topic's metadata and while `buffer_memory` is full, each at most `max_block_ms`; then raises
        `ApiError` UNKNOWN_TOPIC_OR_PARTITION or RequestTimedOut. Also raises BrokerUnreachable where no broker answers,
        ValueError for a partition that the topic does not have and for a negative timestamp, TypeError for what is
        neither bytes nor text, ClientError once the producer is being closed, and with a transactional id
        InvalidTransactionState where no transaction is open.

            def tell(outcome: object) -> None:
                print("failed" if isinstance(outcome, Exception) else "delivered", outcome)


            with Producer("localhost:9092") as producer:
                producer.produce("pets", "cat", key="anna", headers={"source": "page"}, on_delivery=tell)
        """
        if unknown:
            refuse(self.produce, unknown)
        self._sender.require_open()
        value_bytes, key_bytes, pairs = read_record(topic, value, key, headers, partition, timestamp)
        require_callback(on_delivery)
        at = int(time.time() * 1000) if timestamp is None else timestamp
        known = self._sender.known_partitions(topic, partition)
        available, count = known or self.cluster.run(self._sender.find_partitions(topic, partition))
        if partition is not None and not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has no partition {partition}: it has {count}")
        with self._changed:
            size = record_size(key_bytes, value_bytes, pairs)
            if not self._has_room_now(size):
                self._wait_for_room(size)
            self._sender.require_open()
            if partition is None:
                partition = self._accumulator.choose(topic, key_bytes, available, count)
            where, now_ms = TopicPartition(topic, partition), self.cluster.plan.now_ms()
            place = self._accumulator.append(where, at, key_bytes, value_bytes, pairs, now_ms=now_ms, most=size)
            if on_delivery is not None:
                place.batch.listeners.append(lambda: on_delivery(_outcome(place)))
            if self._sender.begins(place.batch):
                self._rouse()
        return Delivery(place, self._changed)

    @keywords
    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver all records, then make the transaction visible; TransactionMustAbort where a record failed.

        After RequestTimedOut (after `timeout` seconds, too) or a lost connection the outcome is not known: call again.
        Raises InvalidTransactionState where no transaction is open and in an `on_delivery`, ProducerFenced where
        another producer has taken the transactional id over or the transaction took longer than
        `transaction_timeout_ms`.
        """
        self._require_other_thread("commit")
        with self._changed:
            self._transactor.state.begin_delivery()  # other threads add nothing from here on
        self.flush(timeout)
        self.cluster.run(self._transactor.commit(timeout_ms=_ms(timeout)))
        self._accumulator.renew(self._transactor.identity)

    @keywords
    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop the records that were not sent; `read_committed` readers ignore the rest.

        Deliveries of dropped records raise TransactionAborted. After RequestTimedOut (after `timeout` seconds, too) or
        a lost connection call it again. Raises InvalidTransactionState where no transaction is open and in an
        `on_delivery`.
        """
        self._require_other_thread("abort")
        self._abort(timeout)

    @keywords
    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction around a block: committed at its end, aborted where it raises or cannot be committed.

        The error of the block, or of the commit, goes on to the caller.

            with Producer("localhost:9092", transactional_id="page-3") as producer:
                producer.init_transactions()
                with producer.transaction():
                    producer.produce("pets", "cat")
                    producer.produce("owners-of-pets", "anna")
        """
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException as fault:
            if self._transactor.state.can_abort:
                try:
                    self.abort_transaction()
                except (ClientError, ApiError) as second:
                    fault.add_note(f"the transaction could not be aborted either: {second}")
            raise

    @keywords
    def flush(self, timeout: float | None = None) -> None:
        """Send all that waits without lingering; return once all of it has its outcome, delivered or failed.

        By then every `on_delivery` of it has been called, too; an `on_delivery` that calls `flush` waits for nothing.
        What other threads produce meanwhile is not waited for. Raises RequestTimedOut where records still wait after
        `timeout` seconds; they are tried further. Errors of records are raised by their deliveries, not here.

            with Producer("localhost:9092") as producer:
                delivery = producer.produce("pets", "cat")
                producer.flush(timeout=30)
                print(delivery.done)
        """
        with self._changed:
            if threading.current_thread() is self._thread:
                return
            waiting = [*self._accumulator.unfinished, *self._untold]

            def all_told() -> bool:
                while waiting and (waiting[-1].told or (self._closed and waiting[-1].outcome is not None)):
                    waiting.pop()
                return not waiting

            self._flushing += 1
            self._rouse()
            try:
                if not self._changed.wait_for(all_told, timeout):
                    why = next((batch.last_fault for batch in waiting if batch.last_fault), "")
                    raise RequestTimedOut(f"records still wait after {timeout} s{why}")
            finally:
                self._flushing -= 1

    @keywords
    def close(self, timeout: float | None = None) -> None:
        """Flush, then end; with a `timeout` in seconds records that could not be sent by then fail.

        A transaction that is open is aborted first. Other threads can produce nothing more from the beginning on. An
        `on_delivery` can, and that is delivered, too; one that calls `close` waits for nothing, and what was not sent
        fails. A second call does nothing.
        """
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        deadline = None if timeout is None else time.monotonic() + timeout
        fault = ClientError("the producer is closed")
        try:
            self._abort_what_is_open(timeout)
            self.flush(_left(deadline))
            while self._accumulator.unfinished and threading.current_thread() is not self._thread:
                self.flush(_left(deadline))
        except RequestTimedOut as late:
            fault = late
        finally:
            self._end(fault)
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(_left(deadline))
            self.cluster.close()

    def _run(self, story: ClientStory[T]) -> T:
        return self.cluster.run(story)

    def _require_other_thread(self, wish: str) -> None:
        """Raise in an `on_delivery`: the end of the transaction would wait for what its thread delivers afterwards."""
        if getattr(self._callbacks, "running", False):
            raise InvalidTransactionState(
                f"cannot {wish} a transaction in an on_delivery: other records may not be delivered yet, and the "
                f"thread that delivers them waits for the callback. Call {wish}_transaction in another thread"
            )

    def _abort_what_is_open(self, timeout: float | None) -> None:
        """A transaction that was not committed; where that fails, its timeout ends it."""
        if self._sender.transactor is not None and self._transactor.state.can_abort:
            with contextlib.suppress(ClientError, ApiError):
                self._abort(timeout)

    def _abort(self, timeout: float | None) -> None:
        with self._changed:
            self._transactor.state.begin_abort()
            dropped = self._sender.drop_waiting(TransactionAborted("the transaction was aborted"))
            self._changed.notify_all()
        self._tell(dropped)
        self.flush(timeout)
        self.cluster.run(self._transactor.abort(timeout_ms=_ms(timeout)))
        self._accumulator.renew(self._transactor.identity)

    def _end(self, fault: ClientError) -> None:
        """Take no more records; those that wait fail with `fault`."""
        with self._changed:
            self._closed = True
            self._rouse()
            abandoned = self._accumulator.abandon(fault)
            self._changed.notify_all()
        self._tell(abandoned)

    def _has_room_now(self, size: int) -> bool:
        """True if a record of this size may be taken without a wait, and the sending thread is there to send it."""
        return not self._closing and not self._closed and self._thread is not None and self._accumulator.has_room(size)

    def _wait_for_room(self, size: int) -> None:
        sends_itself = threading.current_thread() is self._thread

        def refused() -> bool:
            return self._closed or (self._closing and not sends_itself)

        allowed = 0.0 if sends_itself else self.producer_settings.max_block_ms / 1000
        room = self._changed.wait_for(lambda: refused() or self._accumulator.has_room(size), allowed)
        if refused():
            raise ClientError("the producer is closed")
        if not room:
            raise RequestTimedOut(f"no room for a record within {allowed:.0f} s: {self._accumulator.why_full()}")
        if self._thread is None:
            self._stories = Stories(self.cluster.settings)
            self._thread = threading.Thread(target=self._work, args=[self._stories], name="ottla-producer", daemon=True)
            self._thread.start()

    def _work(self, stories: Stories[StoryEnded]) -> None:
        """The sending thread: begin to send what may leave, settle what has ended. If it fails, waiters are told."""
        try:
            while (until_ms := self._begin(stories)) is not None:
                if ended := stories.wait(until_ms):
                    self._settle(ended)
        finally:
            self._end(ClientError("the producer's sending thread ended"))
            stories.close()

    def _begin(self, stories: Stories[StoryEnded]) -> float | None:
        """Begin to send the batches that may leave; the time of the next ones, or None once the producer is closed."""
        with self._changed:
            if self._closed:
                return None
            hurry = self._flushing > 0
            begun = self._sender.begin(flush=hurry)
            until_ms = self._sender.next_begin_ms(flush=hurry)
            self._asleep = True
        for story in begun:
            stories.begin(story)
        return until_ms

    def _settle(self, ended: Sequence[StoryEnded]) -> None:
        """Take in how stories ended, and call every `on_delivery` of their batches."""
        with self._changed:
            self._asleep = False
            if self._closed:
                return
            self._untold = self._sender.settle(ended)
            self._changed.notify_all()
        self._tell(self._untold)
        with self._changed:
            self._untold = ()
            self._changed.notify_all()

    def _rouse(self) -> None:
        """Let the sending thread look again at what may leave; with the lock held."""
        if self._asleep and self._stories is not None:
            self._asleep = False
            self._stories.wake()

    def _tell(self, batches: Sequence[OutgoingBatch]) -> None:
        for batch in batches:
            for listener in batch.listeners:
                self._callbacks.running = True
                try:
                    listener()
                except Exception:
                    log.exception("an on_delivery of a record for %s raised; the producer goes on", batch.partition)
                finally:
                    self._callbacks.running = False
            batch.told = True


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _outcome(place: BatchPlace) -> Delivered | Exception:
    outcome = place.outcome
    return outcome if isinstance(outcome, Exception) else place.delivered()
