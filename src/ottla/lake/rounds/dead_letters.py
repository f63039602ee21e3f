"""Records that could not be columns: kept beside the round's files, then sent to a topic with the reason.

Sent at least once: a loader that is killed between the publication and the commit has them sent again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ottla.client.blocking.cluster import Cluster
from ottla.jobs.letters import Cause, Style, error_headers, is_ours, lost_parts, own_time, short_reason
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.lake.rounds.files import FileTarget
from ottla.records.builder import BatchBuilder
from ottla.rows.plan import OffsetRange
from ottla.stores.base import Store, StoreOutput

BATCH_BYTES = 512 << 10
SHORTENED_BYTES = 64 << 10
"""Bytes kept of a key and of a value where the topic refuses the whole letter."""
_REFUSALS = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP)
LETTER_COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")


class DeadLetters:
    """On an executor: the letters of one topic in one task, in a file until the round is revealed."""

    def __init__(self, store: Store, target: FileTarget, topic: str) -> None:
        self._store = store
        self._name = f"{target.folder}{uuid.uuid4().hex}.dead"
        self._topic = topic
        self._output: StoreOutput | None = None
        self._writer: pa.RecordBatchWriter | None = None
        self.first_fault: str | None = None

    def add(self, span: OffsetRange, batch: pa.RecordBatch, faults: list[tuple[int, str]]) -> None:
        """Rows of a batch, each with the reason. They leave memory at once: all of a topic may be such."""
        if not faults:
            return
        rows = (
            pa.Table.from_batches([batch]).select(LETTER_COLUMNS).take(pa.array([row for row, _ in faults], pa.int64()))
        )
        reasons = [short_reason(reason) for _, reason in faults]
        letters = rows.append_column("reason", pa.array(reasons, pa.string()))
        letters = letters.append_column("topic", pa.array([self._topic] * letters.num_rows, pa.string()))
        if self.first_fault is None:
            offset = letters.column("offset")[0].as_py()
            self.first_fault = f"{span.topic_partition} at offset {offset}: {reasons[0]}"
        if self._output is None:
            self._output = self._store.open_output(self._name)
            self._writer = pa.ipc.new_file(self._output.sink, letters.schema)
        assert self._writer is not None
        self._writer.write_table(letters)

    def close(self) -> str | None:
        """Finish the file; its name, or None where there are no letters."""
        if self._output is None or self._writer is None:
            return None
        self._writer.close()
        self._output.finish()
        return self._name

    def abandon(self) -> None:
        """Drop the letters."""
        if self._output is not None:
            self._output.abandon()


def send_dead_letters(cluster: Cluster, topic: str, store: Store, names: Sequence[str]) -> int:
    """Produce the letters in these files and return their number once every replica in sync has them."""
    cluster.run(cluster.plan.ensure([topic], create=True))
    sender = _Sender(cluster, topic)
    for number, name in enumerate(names):
        for letter in _letters(store, name):
            sender.add(number, letter)
        sender.flush()
    return sender.sent


class _Sender:
    """Batches of letters, one partition a file."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = sorted(cluster.topic(topic).partitions)
        self._identity = cluster.init_producer_id()
        self._sequences = dict.fromkeys(self._partitions, 0)
        self._builder = BatchBuilder(max_bytes=BATCH_BYTES)
        self._partition = self._partitions[0]
        self._waiting: list[_Letter] = []
        self.sent = 0

    def add(self, number: int, letter: _Letter) -> None:
        self._partition = self._partitions[number % len(self._partitions)]
        if not self._builder.add(*letter):
            self.flush()
            self._builder.add(*letter)
        self._waiting.append(letter)

    def flush(self) -> None:
        """Send the added letters. A batch that the topic refuses goes letter by letter.

        A letter is shortened if it is too large, and gets the present time if its own is refused.
        """
        letters, self._waiting = self._waiting, []
        builder, self._builder = self._builder, BatchBuilder(max_bytes=BATCH_BYTES)
        if not letters or self._send(builder):
            return
        for letter in letters:
            if len(letters) > 1 and self._send(_batch_of(letter)):
                continue
            dated = _dated(letter)
            others = (_shortened(letter, SHORTENED_BYTES), dated, _shortened(dated, SHORTENED_BYTES))
            if not any(self._send(_batch_of(each)) for each in (*others, _shortened(letter, 0))):
                self._send(_batch_of(_shortened(dated, 0)), must=True)

    def _send(self, builder: BatchBuilder, *, must: bool = False) -> bool:
        """True if the topic took the batch; False where it was too large, or its times too far from the present."""
        batch = builder.build(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=self._sequences[self._partition],
        )
        try:
            self._cluster.produce(self._topic, self._partition, batch)
        except ApiError as fault:
            if must or fault.code not in _REFUSALS:
                raise
            return False
        self._sequences[self._partition] += builder.records_count
        self.sent += builder.records_count
        return True


_Letter = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Timestamp in milliseconds, key, value, headers."""


def _letters(store: Store, name: str) -> Iterator[_Letter]:
    file = pa.ipc.open_file(store.open_input(name))
    for number in range(file.num_record_batches):
        yield from _letters_of(pa.Table.from_batches([file.get_batch(number)]))


def _letters_of(table: pa.Table) -> Iterator[_Letter]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    for row, microseconds in zip(table.drop_columns("timestamp").to_pylist(), times, strict=True):
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        cause = Cause(row["topic"], row["partition"], row["offset"], row["reason"])
        headers += error_headers(cause, Style.OTTLA)
        yield microseconds // 1000, row["key"], row["value"], headers


def _batch_of(letter: _Letter) -> BatchBuilder:
    builder = BatchBuilder(max_bytes=BATCH_BYTES)
    builder.add(*letter)
    return builder


def _dated(letter: _Letter) -> _Letter:
    """The letter with the present time; a header says which time it had."""
    timestamp, key, value, headers = letter
    return time.time_ns() // 1_000_000, key, value, [*headers, own_time(timestamp)]


def _shortened(letter: _Letter, most: int) -> _Letter:
    """The letter without its own headers, its key and value cut to `most` bytes; headers say how long they were."""
    timestamp, key, value, headers = letter
    ours = [header for header in headers if is_ours(header)]
    ours += lost_parts(key, value, most, len(headers) - len(ours))
    return timestamp, key if key is None else key[:most], value if value is None else value[:most], ours
