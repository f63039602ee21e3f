"""The blocking face: sockets under the client's stories. Start with `Cluster`; `Connection` is the lowest level.

`Admin`, `Producer` and `Consumer` are in `blocking_admin`, `blocking_producer` and `blocking_consumer`.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client import offsets, transfer
from ottla.client.asks import Ask, AskAll, Pause, VersionsOf, Wish
from ottla.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    ProtocolViolation,
    RequestTimedOut,
    may_retry,
    refused,
)
from ottla.client.link import Link, api_of, api_versions_request, response_of
from ottla.client.model import (
    Broker,
    ClientSettings,
    CommittedOffset,
    Destination,
    Fetched,
    IsolationLevel,
    OffsetAtTime,
    Produced,
    ProducerIdentity,
    TopicView,
)
from ottla.client.plan import ClusterPlan
from ottla.client.transport import PLAINTEXT, Security
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

R = TypeVar("R")
T = TypeVar("T")


def now_ms() -> float:
    return time.monotonic() * 1000


class Connection:
    """One connection to one broker; ApiVersions are exchanged when it opens. Not for several threads at once."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self.host = host
        self.port = port
        self.settings = settings or ClientSettings()
        self._link = Link(self.settings.client_id)
        self._answers: dict[int, Any] = {}
        self._socket = self._connect(security)
        try:
            self._negotiate()
            if security.authenticate is not None:
                security.authenticate(self)
        except BaseException:
            self.close()
            raise

    @property
    def api_versions(self) -> Mapping[int, tuple[int, int]]:
        """What the broker announces: key -> (first, last)."""
        return self._link.versions

    @property
    def local_address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def request(self, message: Any, version: int | None = None, *, timeout_ms: int | None = None) -> Any:
        """Send a request, return its answer. `version` None: the newest that both sides speak."""
        return self.wait(self.send(message, version), timeout_ms=timeout_ms)

    def send(self, message: Any, version: int | None = None, response: type[Any] | None = None) -> int:
        """Send a request without waiting; `wait` with the number returned. Answers come in order.

        Produce with acks=0 has no answer: the number is -1.
        """
        api = api_of(type(message))
        chosen = self._link.choose(api) if version is None else version
        answered = not (api.key == 0 and message.acks == 0)
        number, frame = self._link.request(
            api, message, chosen, response or response_of(type(message)), answered=answered
        )
        try:
            self._socket.settimeout(self.settings.request_timeout_ms / 1000)
            self._socket.sendall(frame)
        except OSError as fault:
            self.close()
            raise ConnectionLost(f"the connection to {self.host}:{self.port} broke: {fault}") from fault
        return number if answered else -1

    def choose(self, request: type[Any], least: int = 0, most: int = 32767) -> int:
        """The newest version of an API that both sides speak; raises UnsupportedVersion."""
        return self._link.choose(api_of(request), least, most)

    def wait(self, number: int, *, timeout_ms: float | None = None) -> Any:
        """The answer to the request of this number."""
        if number < 0:
            return None
        allowed = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + allowed / 1000
        while number not in self._answers:
            frame = self._receive(deadline, allowed)
            try:
                got, message = self._link.answer(frame)
            except ProtocolViolation:
                self.close()
                raise
            self._answers[got] = message
        return self._answers.pop(number)

    def usable(self) -> bool:
        """False once the peer has closed, found out without waiting."""
        if self._socket.fileno() < 0:
            return False
        readable = select.select([self._socket], [], [], 0)[0]
        return not readable or self._link.waiting > 0

    def close(self) -> None:
        self._socket.close()

    def _connect(self, security: Security) -> socket.socket:
        try:
            made = socket.create_connection((self.host, self.port), timeout=self.settings.connect_timeout_ms / 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made if security.secure is None else security.secure(made, self.host)
        except OSError as fault:
            raise BrokerUnreachable(f"cannot connect to {self.host}:{self.port}: {fault.strerror or fault}") from fault

    def _negotiate(self) -> None:
        """Exchange ApiVersions; a broker that knows no version so new names its own, and is asked again (KIP-511)."""
        version = 4
        for _ in range(2):
            answer = self.request(api_versions_request(), version)
            if answer.error_code == ErrorCode.NONE:
                self._link.learn(answer)
                return
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                break
            version = min(3, next((each.max_version for each in answer.api_keys if each.api_key == 18), 0))
        raise refused(answer.error_code, f"{self.host}:{self.port} refused ApiVersions")

    def _receive(self, deadline: float, allowed: float) -> memoryview:
        inbox = self._link.inbox
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                self.close()
                raise RequestTimedOut(f"{self.host}:{self.port} did not answer within {allowed:.0f} ms")
            try:
                self._socket.settimeout(left)
                count = self._socket.recv_into(inbox.target())
            except TimeoutError:
                continue
            except OSError as fault:
                self.close()
                raise ConnectionLost(f"the connection to {self.host}:{self.port} broke: {fault}") from fault
            if not count:
                self.close()
                raise ConnectionLost(f"{self.host}:{self.port} closed the connection")
            try:
                frame = inbox.received(count)
            except ProtocolViolation:
                self.close()
                raise
            if frame is not None:
                return frame


class Driver:
    """Carries out what stories wish, over connections kept per destination. One story at a time.

    A forked process starts with no connections of its own, whatever its parent had open.
    """

    def __init__(self, settings: ClientSettings, security: Security = PLAINTEXT) -> None:
        self.settings = settings
        self.security = security
        self._connections: dict[Destination, Connection] = {}
        self._process = os.getpid()
        self._lock = threading.RLock()

    def run(self, story: Coroutine[Wish, Any, T]) -> T:
        """Drive a story to its end."""
        with self._lock:
            answer: Any = None
            fault: Exception | None = None
            while True:
                try:
                    wish = story.send(answer) if fault is None else story.throw(fault)
                except StopIteration as end:
                    result: T = end.value
                    return result
                answer = fault = None
                try:
                    answer = self._carry_out(wish)
                except (ClientError, ApiError) as failed:
                    fault = failed

    def connection(self, destination: Destination) -> Connection:
        """The open connection to a destination, made where there is none."""
        if self._process != os.getpid():
            self._connections = {}
            self._process = os.getpid()
        known = self._connections.get(destination)
        if known is not None and known.usable():
            return known
        if known is not None:
            known.close()
        made = Connection(destination.host, destination.port, settings=self.settings, security=self.security)
        self._connections[destination] = made
        return made

    def close(self) -> None:
        """Close all connections; the next story opens new ones."""
        with self._lock:
            if self._process == os.getpid():
                for connection in self._connections.values():
                    connection.close()
            self._connections = {}

    def start(self, ask: Ask[Any]) -> tuple[Connection, int, float]:
        """Send a request; `finish` takes its answer."""
        connection = self.connection(ask.destination)
        version = connection.choose(ask.request, ask.min_version, ask.max_version)
        number = connection.send(ask.build(version), version, ask.response)
        return connection, number, ask.timeout_ms or self.settings.request_timeout_ms

    def finish(self, started: tuple[Connection, int, float]) -> Any:
        connection, number, timeout_ms = started
        return connection.wait(number, timeout_ms=timeout_ms)

    def _carry_out(self, wish: Wish) -> Any:
        if isinstance(wish, Ask):
            return self.finish(self.start(wish))
        if isinstance(wish, AskAll):
            return self._all(wish.asks)
        if isinstance(wish, Pause):
            time.sleep(wish.ms / 1000)
            return None
        assert isinstance(wish, VersionsOf)
        return dict(self.connection(wish.destination).api_versions)

    def _all(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        started: list[Any] = []
        for ask in asks:
            try:
                started.append(self.start(ask))
            except (ClientError, ApiError) as fault:
                started.append(fault)
        answers = []
        for each in started:
            try:
                answers.append(each if isinstance(each, Exception) else self.finish(each))
            except (ClientError, ApiError) as fault:
                answers.append(fault)
        return answers


class Cluster:
    """A cluster: brokers, topics, leaders, offsets, bytes. Every call follows leader changes and retries.

    Raises `ApiError` for an error code that another attempt would not cure, `ClientError` for everything else.
    Safe for several threads (one call at a time) and across fork; a context manager.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
        clock: Callable[[], float] = now_ms,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.plan = ClusterPlan(bootstrap, self.settings, clock)
        self.driver = Driver(self.settings, security)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.driver.close()

    def run(self, story: Coroutine[Wish, Any, T]) -> T:
        """Drive one of the client's stories, for what has no method here."""
        return self.driver.run(story)

    def refresh(self, topics: Collection[str] | None = (), *, create: bool = False) -> None:
        """Fetch metadata of these topics (none: brokers only; None: all)."""
        self.run(self.plan.refresh(topics, create=create))

    def brokers(self) -> dict[int, Broker]:
        """The live brokers by id."""
        if not self.plan.metadata.brokers:
            self.refresh()
        return dict(self.plan.metadata.brokers)

    def topics(self) -> dict[str, TopicView]:
        """All topics, internal ones too, asked for afresh."""
        self.refresh(None)
        return dict(self.plan.metadata.topics)

    def topic(self, topic: str) -> TopicView:
        """Id and partitions of one topic; ApiError UNKNOWN_TOPIC_OR_PARTITION where it does not exist."""
        return self.run(self.plan.topic(topic))

    def topic_id(self, topic: str) -> bytes:
        return self.topic(topic).topic_id

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for index in self.topic(topic).partitions]

    def leader(self, topic: str, partition: int) -> Broker:
        return self.run(self.plan.leader(topic, partition))

    def request(self, message: Any, *, broker_id: int | None = None, timeout_ms: int | None = None) -> Any:
        """Ask one broker, any if `broker_id` is None; error codes in the answer are the caller's."""
        return self.run(self._request(message, broker_id, timeout_ms))

    def request_to_leader(self, topic: str, partition: int, message: Any, *, timeout_ms: int | None = None) -> Any:
        """Ask the leader of a partition, as known now; error codes in the answer are the caller's."""
        leader = self.leader(topic, partition)
        ask: Ask[Any] = Ask(
            leader.destination(), type(message), response_of(type(message)), lambda _: message, timeout_ms=timeout_ms
        )
        return self.run(_await(ask))

    def list_offsets(
        self,
        partitions: Collection[TopicPartition],
        spec: int | Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAtTime]:
        """The offset at `spec` for each partition: LATEST, EARLIEST, MAX_TIMESTAMP or milliseconds.

        With read_committed LATEST is the last stable offset. Offset -1: no record is that late.
        """
        return self.run(offsets.list_offsets(self.plan, partitions, spec, isolation_level, timeout_ms))

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = transfer.PARTITION_MAX_BYTES,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        leader_epoch: int | None = None,
        timeout_ms: float | None = None,
    ) -> Fetched:
        """Whole batches from `offset` on with high watermark, last stable offset, log start, aborted transactions.

        `error` is set (OFFSET_OUT_OF_RANGE...) where it is about the offset; other errors are retried or raised.
        """
        story = transfer.fetch(
            self.plan,
            topic,
            partition,
            offset,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            isolation_level=isolation_level,
            leader_epoch=leader_epoch,
            timeout_ms=timeout_ms,
        )
        return self.run(story)

    def fetch_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_bytes: int = 4 * transfer.PARTITION_MAX_BYTES,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
        ahead: bool = True,
    ) -> Iterator[Fetched]:
        """The whole batches that hold offsets `start` to below `end`, piece by piece.

        The first batch may begin below `start`, the last end above `end`: filter by offset. `ahead` asks for the
        next piece before this one is handed out. Raises ApiError OFFSET_OUT_OF_RANGE where data is gone, and
        RequestTimedOut where nothing came for `timeout_ms` (default: `settings.api_timeout_ms`).
        """
        position = start
        started: tuple[Connection, int, float] | None = None
        attempts = self.plan.attempts(timeout_ms)
        while position < end:
            piece = None
            if started is not None:
                piece = self._finish_ahead(started, topic, partition, position)
                started = None
            if piece is None:
                piece = self.fetch(
                    topic,
                    partition,
                    position,
                    max_bytes=max_bytes,
                    isolation_level=isolation_level,
                    timeout_ms=timeout_ms,
                )
            if piece.error:
                raise refused(
                    piece.error,
                    f"{topic}-{partition} at offset {position} "
                    f"(kept: {piece.log_start_offset} to {piece.high_watermark})",
                )
            if piece.next_offset <= position:
                if attempts.left_ms <= 0:
                    raise RequestTimedOut(f"{topic}-{partition}: no records from offset {position} to {end}")
                continue
            position = piece.next_offset
            if ahead and position < end:
                started = self._start_ahead(topic, partition, position, max_bytes, isolation_level)
            yield piece
            attempts = self.plan.attempts(timeout_ms)

    def produce(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray | memoryview,
        *,
        acks: int = -1,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int | None = None,
        retries: bool = True,
    ) -> Produced:
        """Append one prepared v2 batch; see `transfer.produce` about retries and duplicates."""
        story = transfer.produce(
            self.plan,
            topic,
            partition,
            batch,
            acks=acks,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retries=retries,
        )
        return self.run(story)

    def init_producer_id(
        self, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
    ) -> ProducerIdentity:
        """A producer id and epoch for idempotent (or transactional) batches."""
        return self.run(
            transfer.init_producer_id(self.plan, transactional_id, transaction_timeout_ms=transaction_timeout_ms)
        )

    def commit_offsets(self, group: str, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without being a member; raises the first error."""
        for fault in self.run(offsets.commit_offsets(self.plan, group, committed)).values():
            if fault is not None:
                raise fault

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a group has committed, for these partitions or all; those without a commit are left out."""
        return self.run(offsets.committed_offsets(self.plan, group, partitions, require_stable=require_stable))

    async def _request(self, message: Any, broker_id: int | None, timeout_ms: int | None) -> Any:
        request, response = type(message), response_of(type(message))
        if broker_id is None:
            return await self.plan.ask_any(request, response, lambda _: message, timeout_ms=timeout_ms)
        broker = await self.plan.broker(broker_id)
        ask: Ask[Any] = Ask(broker.destination(), request, response, lambda _: message, timeout_ms=timeout_ms)
        return await ask

    def _start_ahead(
        self, topic: str, partition: int, position: int, max_bytes: int, isolation_level: IsolationLevel
    ) -> tuple[Connection, int, float] | None:
        """Send the next fetch without waiting; None where anything stands in the way (the plain path sorts it out)."""
        leader = self.plan.metadata.leader(topic, partition)
        if leader is None:
            return None
        where = leader.destination(f"ahead-{threading.get_ident()}")
        ask = transfer.fetch_ask(
            self.plan, where, topic, partition, position, max_bytes=max_bytes, isolation_level=isolation_level
        )
        try:
            return self.driver.start(ask)
        except (ClientError, ApiError):
            return None

    def _finish_ahead(
        self, started: tuple[Connection, int, float], topic: str, partition: int, position: int
    ) -> Fetched | None:
        try:
            response = self.driver.finish(started)
            code, piece = transfer.read_fetch(self.plan, topic, partition, position, response)
        except (ClientError, ApiError) as fault:
            if not may_retry(fault):
                raise
            return None
        return None if code in transfer.MOVED else piece


async def _await(ask: Ask[R]) -> R:
    return await ask
