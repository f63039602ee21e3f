"""Rows into topics exactly once, on the executors: carries out what attempt.py decides, by the client's transactions.

Comes from sink.py. Everything is standard Kafka protocol: InitProducerId fences older attempts, the marker is an offset
that the transaction commits (TxnOffsetCommit) and that OffsetFetch reads.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Collection, Iterator

import pyarrow as pa

from ottla.client.core.effects import Ask
from ottla.client.core.plan import TRANSACTION
from ottla.client.errors import ClientError, ProducerFenced
from ottla.client.model import Destination, GroupMetadata
from ottla.client.produce.transacting import Transactor
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.rows.connections import cluster
from ottla.spark.attempt import Do, NotWritten, TaskAttempt
from ottla.spark.content import COLUMNS, content_of
from ottla.spark.marker import BatchMarker, Content, SparkTask
from ottla.spark.options import SinkOptions
from ottla.spark.sender import TransactionalSender
from ottla.spark.sink import WrittenRows
from ottla.spark.writer import as_written, write_batch_of_rows

_FENCED = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_BUSY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})
QUIET_MS = 10_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def write_once(options: SinkOptions, task: SparkTask, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Write a task's rows, unless an attempt before has; returns once they are committed."""
    left_out = {"topic"} if options.topic is not None else set()
    columns = [name for name in (*COLUMNS, *(["timestamp"] if options.timed else [])) if name not in left_out]
    rows = _Rows(as_written(options, batches), columns)
    empty = not rows.any and task.index > 0  # task 0 leaves a marker in every batch
    at_work = _AtWork(options, task, rows, empty=empty)
    at_work.run()
    return WrittenRows(rows.content.rows, at_work.sent)


class _Rows:
    """A task's rows, counted as they are taken."""

    def __init__(self, batches: Iterator[pa.RecordBatch], columns: Collection[str]) -> None:
        first = next(batches, None)
        self.any = first is not None
        self.content = Content()
        self._columns = columns
        self._left = batches if first is None else itertools.chain([first], batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._left:
            self.content += content_of(batch, self._columns)
            yield batch

    def drain(self) -> Content:
        """The content of all rows, including those that were not taken."""
        for _ in self:
            pass
        return self.content


class _AtWork:
    """One attempt and its transaction."""

    def __init__(self, options: SinkOptions, task: SparkTask, rows: _Rows, *, empty: bool) -> None:
        assert options.delivery is not None
        self.sent = 0
        self._options, self._task, self._rows = options, task, rows
        self._where = cluster(options.kafka, patient=task.batch > 0)
        self._place = TopicPartition(options.delivery.marker_topic, 0)
        self._timeout_ms = options.kafka.transaction_timeout_ms
        self._attempt = TaskAttempt(
            task,
            timeout_ms=self._timeout_ms,
            quiet_ms=QUIET_MS,
            write_without_markers=options.delivery.write_without_markers,
            empty=empty,
            do=Do.READ_MARKER if empty else Do.FENCE,
        )
        self._transactor: Transactor
        self._began = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def run(self) -> None:
        """Run the attempt; return when the rows are in the topic. NotWritten tells why they may not be."""
        attempt = self._attempt
        self._where.run(self._where.plan.ensure([self._place.topic], create=True))
        while attempt.do is not Do.FINISHED:
            match attempt.do:
                case Do.FENCE:
                    self._fence()
                case Do.READ_MARKER:
                    attempt.found(self._marker(self._task.name, stable=not attempt.empty), _now_ms())
                case Do.READ_FIRST_MARKER:
                    attempt.found_first(self._marker(self._task.neighbour(0), stable=False))
                case Do.WRITE:
                    self._write()
                case Do.COMMIT:
                    self._commit()
                case Do.AWAIT_MARKER:
                    self._await_marker()
                case Do.COMPARE:
                    attempt.compared(self._rows.drain())
                case Do.FAILED:
                    raise NotWritten(attempt.failure)

    def _fence(self) -> None:
        self._transactor = Transactor(self._where.plan, self._task.name, timeout_ms=self._timeout_ms)
        self._where.run(self._transactor.init())
        self._attempt.fenced()

    def _marker(self, group: str, *, stable: bool) -> BatchMarker | None:
        """The marker in a group. A stable read waits for a transaction that may change it."""
        found = self._where.committed_offsets(group, [self._place], require_stable=stable)
        return BatchMarker.of(found[self._place], group) if self._place in found else None

    def _write(self) -> None:
        """Send all rows, then the marker. The transaction is open from its first batch or offset on."""
        self._began = _now_ms()
        sender = TransactionalSender(self._where, self._options.kafka, self._transactor)
        self._transactor.begin()
        try:
            for batch in self._rows:
                self.sent += write_batch_of_rows(self._where, sender, self._options, batch)
            self._attempt.wrote(self._rows.content)
            self._send_marker()
        except (ClientError, ApiError) as fault:
            if not _was_fenced(fault):
                self._abort()
                raise
            self._superseded()
        except BaseException:
            self._abort()
            raise

    def _send_marker(self) -> None:
        assert self._attempt.marker is not None
        offsets = {self._place: self._attempt.marker.to_offset()}
        self._where.run(self._transactor.send_offsets(offsets, GroupMetadata(self._task.name)))

    def _commit(self) -> None:
        try:
            self._where.run(self._transactor.commit())
        except (ClientError, ApiError) as fault:
            if _was_fenced(fault):
                self._superseded()
            else:
                self._attempt.commit_unknown()
        else:
            self._attempt.committed()

    def _superseded(self) -> None:
        now_ms = _now_ms()
        self._attempt.superseded(now_ms, open_for_ms=now_ms - self._began)

    def _await_marker(self) -> None:
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        self._attempt.looked(_now_ms(), busy=self._is_busy())
        self._attempt.found(self._marker(self._task.name, stable=False), _now_ms())

    def _is_busy(self) -> bool:
        """True if the coordinator knows of a transaction; also if the coordinator does not answer."""
        name = self._task.name
        request = DescribeTransactionsRequest(transactional_ids=[name])

        def ask(where: Destination) -> Ask[DescribeTransactionsResponse]:
            return Ask(where, DescribeTransactionsRequest, DescribeTransactionsResponse, lambda _: request)

        def code_of(answer: DescribeTransactionsResponse) -> int:
            return answer.transaction_states[0].error_code

        try:
            answer = self._where.run(self._where.plan.ask_coordinator(name, ask, code_of, kind=TRANSACTION))
        except (ClientError, ApiError):
            return True
        return code_of(answer) != 0 or answer.transaction_states[0].transaction_state in _BUSY

    def _abort(self) -> None:
        """Abort, so that readers need not wait for the transaction's timeout. If it fails, the next attempt aborts."""
        with contextlib.suppress(ClientError, ApiError):
            self._where.run(self._transactor.abort(timeout_ms=self._where.settings.request_timeout_ms))


def _was_fenced(fault: Exception) -> bool:
    """True if a newer attempt has taken the id over, or the coordinator has because of the transaction's age."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, ProducerFenced) or (isinstance(cause, ApiError) and cause.code in _FENCED):
            return True
        cause = cause.__cause__
    return False


def _now_ms() -> float:
    return time.monotonic() * 1000
