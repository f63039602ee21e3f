"""A compacted topic as a table: read it to its end, follow it, and append only if nobody else has appended since.

All writers use one producer id that nobody else has. A broker takes a batch of it only with the sequence number that
follows the last one, which every reader of the partition knows. So an append is a compare-and-set: of two writers that
decided on the same state one gets in, the other finds a foreign record at its place and decides again. The broker keeps
that promise to idempotent producers since Apache Kafka 0.11 (docs/decisions/0021-registry-writers.md).

Records of a transaction count from its commit on; those of one that was aborted never do. So a table may be filled by
producers with transactions too. The transaction of another producer holds nothing up.

For asyncio. Keys and values are bytes here; their meaning, and the table that they make, are the owner's.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.core.transfer import produce
from ottla.client.model import EARLIEST, LATEST, Fetched, Produced
from ottla.jobs.state_topic_setup import UnusableTopic, Words, open_topic
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch, iterate_batches
from ottla.records.builder import build_batch
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record as LogRecord
from ottla.records.reader import read_records

PRODUCER_ID = int.from_bytes(b"ottla", "big")
"""Far above the ids that brokers give out, which count from 0 in blocks."""
NONCE_HEADER = "ottla.append"
MAX_BYTES = 4 * 1024 * 1024
_ATTEMPTS = 100
_STUCK = 3
"""The number of refusals in a row, without a new record in the topic, after which a new producer epoch begins."""
_SEQUENCES = 2**31
_LAST_EPOCH = 2**15 - 1
_CONFLICTS = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
T = TypeVar("T")
Pair = tuple[bytes, bytes | None]
"""Key and value; None deletes the key."""
_log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Every attempt to write was overtaken by another writer."""


@dataclass(frozen=True, slots=True)
class NextAppend:
    """The epoch and the sequence number of the next append."""

    epoch: int = 0
    sequence: int = 0


class StateTopic:
    """One partition, followed from its start; `apply` is called with the key and value of every record in order."""

    def __init__(
        self,
        cluster: Cluster,
        apply: Callable[[int, bytes, bytes | None], None],
        words: Words,
        *,
        topic: str,
        no_op: Pair,
        partition: int = 0,
        partitions: int = 1,
        replication_factor: int = -1,
        timeout_ms: int = 30_000,
        accept_damage: bool = False,
    ) -> None:
        """`apply` is called with offset, key and value; those that it does not understand are its own to refuse.

        `no_op`: a record that changes nothing. `partitions`: the number that the topic must have, and is made with.
        `accept_damage`: leave out damaged batches, where `open` raises UnusableTopic otherwise.
        """
        self.position = 0
        """The next offset to read."""
        self._cluster = cluster
        self._apply = apply
        self._words = words
        self._topic = topic
        self._no_op = no_op
        self._partition = partition
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._timeout_ms = timeout_ms
        self._accept_damage = accept_damage
        self._topic_id = b""
        self._place = NextAppend()
        self._undecided: dict[int, list[LogRecord]] = {}
        """Records of open transactions, by the id of their producer."""
        self._awaited: set[bytes] = set()
        self._landed: set[bytes] = set()

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self._topic, self._partition)

    async def open(self) -> None:
        """Create the topic where it does not exist, check it, and read it to its end."""
        self._topic_id = (
            await open_topic(self._cluster, self._topic, self._replication_factor, self._words, self._partitions)
        ).topic_id
        earliest = await self._cluster.list_offsets([self.partition], EARLIEST)
        self.position = earliest[self.partition].offset
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read to where the topic ends now; UnusableTopic if it is another topic of the same name."""
        before = self.position  # others may read on while the end is asked for
        self._cluster.plan.metadata.doubt(self._topic)
        if (await self._cluster.topic(self._topic)).topic_id != self._topic_id:
            raise UnusableTopic(f"the topic {self._topic} was made anew. {self._words.restart}")
        found = await self._cluster.list_offsets([self.partition], LATEST)
        end = found[self.partition].offset
        if end < before:
            raise UnusableTopic(
                f"the topic {self._topic} ends at offset {end}, and {before} was read already: was it made anew? "
                f"{self._words.restart}"
            )
        await self._read_to(end)

    async def follow(self, cluster: Cluster) -> None:
        """Read new records, over connections of its own, until cancelled."""
        while True:
            piece = await cluster.fetch(
                self._topic, self._partition, self.position, max_bytes=MAX_BYTES, max_wait_ms=5_000
            )
            self._take(piece)

    async def append(self, records: Sequence[Pair]) -> bool:
        """Append records together and read them back; False, and nothing appended, where another came first.

        Raises ApiError or ClientError where the outcome is not known: the records may then be in the topic or come
        into it later, as long as nobody else appends before.
        """
        place, nonce = self._place, secrets.token_bytes(16)
        now_ms = int(time.time() * 1000)
        header = ((NONCE_HEADER, nonce),)
        batch = build_batch(
            [LogRecord(0, now_ms, key, value, header) for key, value in records],
            producer_id=PRODUCER_ID,
            producer_epoch=place.epoch,
            base_sequence=place.sequence,
        )
        self._awaited.add(nonce)
        try:
            try:
                landed = await self._produce(batch)
            except ApiError as fault:
                if fault.code in _CONFLICTS:
                    return False
                raise
            await self._read_back(landed.base_offset)
            return nonce in self._landed
        finally:
            self._awaited.discard(nonce)
            self._landed.discard(nonce)

    async def write(
        self,
        decide: Callable[[], tuple[T, Sequence[Pair]]],
        *,
        before: Callable[[T], Awaitable[None]] | None = None,
    ) -> T:
        """Decide on the state at the topic's end and append; repeat until no other writer comes between.

        `decide` returns its answer and the records, none where nothing is to be changed. `before` is awaited between a
        decision and its append; where records came meanwhile, the decision is made again. One call at a time. Raises
        Overtaken, and what `catch_up` and `append` raise.
        """
        stuck = 0
        for _ in range(_ATTEMPTS):
            await self.catch_up()
            answer, records = decide()
            if not records:
                return answer
            at = self.position
            if before is not None:
                await before(answer)
                if self.position != at:
                    continue  # an append now would not be compared with the records that came
            if await self.append(records):
                return answer
            await self.catch_up()
            stuck = stuck + 1 if self.position == at else 0
            if stuck >= _STUCK:
                await self.fence()
                stuck = 0
        raise Overtaken(f"{_ATTEMPTS} attempts to write were all overtaken by other instances")

    async def put(self, records: Sequence[Pair]) -> None:
        """Append without a comparison, for keys that no other writer has; the table has them once they are read."""
        now_ms = int(time.time() * 1000)
        await self._produce(build_batch([LogRecord(0, now_ms, key, value) for key, value in records]))

    async def fence(self) -> None:
        """Begin a new epoch if the broker's memory of our sequence contradicts the topic.

        The record holds no decision, so it does no harm wherever it lands; every writer has to read it first.
        """
        if self._place.epoch >= _LAST_EPOCH:
            raise UnusableTopic(f"all producer epochs of the topic {self._topic} are used up; copy it to a new topic")
        self._place = NextAppend(self._place.epoch + 1, 0)
        _log.warning("beginning producer epoch %d of the topic %s", self._place.epoch, self._topic)
        await self.append([self._no_op])

    async def _produce(self, batch: bytes) -> Produced:
        plan, timeout_ms = self._cluster.plan, self._timeout_ms
        return await self._cluster.run(
            produce(plan, self._topic, self._partition, batch, delivery_timeout_ms=timeout_ms)
        )

    async def _read_back(self, offset: int) -> None:
        """Read until the record at an offset is applied; -1, for an old duplicate, is read already."""
        await self._read_to(offset + 1)

    async def _read_to(self, end: int) -> None:
        while self.position < end:
            piece = await self._cluster.fetch(
                self._topic, self._partition, self.position, max_bytes=MAX_BYTES, max_wait_ms=500
            )
            if piece.error is ErrorCode.CORRUPT_MESSAGE and self._accept_damage:
                _log.error("%s: offset %d is damaged; what it held is left out", self._topic, self.position)
                self.position += 1
                continue
            self._take(piece)

    def _take(self, piece: Fetched) -> None:
        """Apply fetched records, unless another fetch was faster."""
        if piece.error is ErrorCode.CORRUPT_MESSAGE:
            raise UnusableTopic(f"offset {piece.offset} of the topic {self._topic} is damaged: {self._words.remedy}")
        if piece.error:
            raise UnusableTopic(
                f"the topic {self._topic} has lost offset {piece.offset} ({piece.error.name}): was it made anew? "
                f"{self._words.restart}"
            )
        if piece.offset != self.position:
            return
        for batch in iterate_batches(piece.records):
            records = self._records(batch)
            if batch.producer_id == PRODUCER_ID and not batch.is_control:
                self._place = _after(batch)
            self._take_records(batch, [record for record in records if record.offset >= piece.offset])
        self.position = piece.next_offset

    def _take_records(self, batch: Batch, records: list[LogRecord]) -> None:
        """Apply the records of a batch, those of a transaction once its marker says that it is committed."""
        if batch.is_control:
            end = read_marker(batch)
            if end is None:
                return
            records = self._undecided.pop(batch.producer_id, [])
            if end.marker is Marker.ABORT:
                return
        elif batch.is_transactional:
            self._undecided.setdefault(batch.producer_id, []).extend(records)
            return
        for record in records:
            self._apply_record(record)

    def _records(self, batch: Batch) -> list[LogRecord]:
        """The records of a batch, none of a control batch; UnusableTopic where it is damaged."""
        try:
            if batch.crc_holds():
                return [] if batch.is_control else read_records(batch)
            fault = "its CRC does not fit"
        except CorruptRecords as error:
            fault = str(error)
        where = f"the batch at offset {batch.base_offset} of the topic {self._topic} is damaged ({fault})"
        if self._accept_damage:
            _log.error("%s; what it held is left out", where)
            return []
        raise UnusableTopic(f"{where}: {self._words.remedy}")

    def _apply_record(self, record: LogRecord) -> None:
        for name, content in record.headers:
            if name == NONCE_HEADER and content in self._awaited:
                self._landed.add(content)
        if record.key is None:
            _log.warning("%s: the record at offset %d has no key; it is left out", self._topic, record.offset)
            return
        self._apply(record.offset, record.key, record.value)


def _after(batch: Batch) -> NextAppend:
    return NextAppend(batch.producer_epoch, (batch.base_sequence + batch.last_offset_delta + 1) % _SEQUENCES)
