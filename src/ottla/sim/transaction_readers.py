"""Readers of logs with transactions: some at read_committed, some at read_uncommitted, and the last scan of all.

Aborted records are left out as in Java's consumer, by the list that comes with the records.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.consume.fetch_session import SessionRequest, WantedPartition
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Buffer
from ottla.messages.fetch import AbortedTransaction, PartitionData
from ottla.records.batch import iterate_batches
from ottla.records.control import Marker, read_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import read_records
from ottla.sim.checkers.history import LogKey, Unreadable
from ottla.sim.checkers.transaction_history import Stable, Stored, TransactionRead, TransactionsScanned
from ottla.sim.readers import fetch_request, offset_of

if TYPE_CHECKING:
    from ottla.sim.setting import KnownTopic, Ledger

_EARLIEST, _LATEST = -2, -1
_AFRESH_SHARE = 0.05
_PAUSE_SHARE = 0.7
_MOST = 1 << 20
Records = list[tuple[int, bytes]]


class ReadRecords(NamedTuple):
    """The records and batches of an answer, and the offset where the reader goes on."""

    records: Records
    batches: list[Stored]
    following: int


def parse(view: Buffer, from_offset: int, aborted: list[AbortedTransaction] | None) -> ReadRecords:
    """Parse an answer, without records of the aborted transactions in its list; CorruptRecords names the fault."""
    waiting = sorted(aborted or (), key=lambda each: each.first_offset)
    hidden: set[int] = set()
    found = ReadRecords([], [], from_offset)
    following = from_offset
    for batch in iterate_batches(view):
        if not batch.crc_holds():
            raise CorruptRecords(f"the CRC of the batch at {batch.base_offset} does not hold")
        while waiting and waiting[0].first_offset <= batch.last_offset:
            hidden.add(waiting.pop(0).producer_id)
        marker = read_marker(batch)
        records = [] if batch.is_control else read_records(batch)
        found.batches.append(
            Stored(
                batch.base_offset,
                batch.next_offset,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.is_transactional,
                None if marker is None else marker.marker is Marker.COMMIT,
                tuple(record.value or b"" for record in records),
            )
        )
        if marker is not None and marker.marker is Marker.ABORT:
            hidden.discard(batch.producer_id)
        if not (batch.is_transactional and batch.producer_id in hidden):
            found.records.extend((each.offset, each.value or b"") for each in records if each.offset >= from_offset)
        following = max(following, batch.next_offset)
    return found._replace(following=following)


class TransactionReader:
    """Follows the ledger; now and then it begins again at the start, like another process."""

    def __init__(self, name: str, transactions: Ledger, *, committed: bool) -> None:
        self.transactions = transactions
        self.workload = transactions.workload
        self.committed = committed
        self.random = Random(f"{name}-{self.workload.plan.seed}")
        self.peer = self.workload.peer(name)
        self._base_name = name
        self._lives = 0
        self._begin_afresh()

    def _begin_afresh(self) -> None:
        self._lives += 1
        self.name = f"{self._base_name}.{self._lives}"
        self._positions: dict[int, int] = {}
        self._told: dict[int, Stable] = {}
        self._max_bytes = self.random.choice((100, 2000, _MOST))

    async def run(self) -> None:
        ledger = self.transactions.ledger
        while not self.workload.ending:
            if self.random.random() < _AFRESH_SHARE:
                self._begin_afresh()
            partition = self.random.randrange(ledger.plan.partitions)
            await self._poll(ledger, partition)
            if self.random.random() < _PAUSE_SHARE:
                await self.peer.sleep_us(self.random.randint(*self.transactions.pause_us))
        self.peer.close()

    async def _poll(self, ledger: KnownTopic, partition: int) -> None:
        name = ledger.plan.name
        broker = await self.peer.leader_id(name, partition)
        if broker is None:
            await self.peer.sleep_us(20_000)
            return
        position, epoch = self._positions.get(partition, 0), self.peer.epoch(name, partition)
        want = {TopicPartition(name, partition): WantedPartition(ledger.topic_id, position, epoch, self._max_bytes)}
        wait_ms = self.random.choice((0, 50, 300))
        request = fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=wait_ms, max_bytes=_MOST)
        request.isolation_level = int(self.committed)
        life = self.workload.life_of(broker)
        response = await self.peer.by_broker[broker].ask(request)
        if response is None or response.error_code or not response.responses:
            self.peer.forget(name, partition)
            return
        part = response.responses[0].partitions[0]
        log = LogKey(ledger.topic_id.hex(), partition)
        if part.error_code:
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.workload.failed(f"{self.name}: {position} of {self.workload.history.name(log)} is out of range")
            self.peer.forget(name, partition)
            return
        self._was_told(
            partition,
            Stable(
                self.workload.loop.now_us,
                self.name,
                log,
                part.last_stable_offset,
                part.high_watermark,
                epoch,
                broker,
                life,
            ),
        )
        self._take(log, position, part)

    def _was_told(self, partition: int, now: Stable) -> None:
        before = self._told.get(partition)
        if before is None or before._replace(at_us=0) != now._replace(at_us=0):
            self._told[partition] = now
            self.workload.saw(now)

    def _take(self, log: LogKey, position: int, part: PartitionData) -> None:
        if part.records is None or not len(part.records):
            return
        try:
            found = parse(part.records, position, part.aborted_transactions if self.committed else None)
        except CorruptRecords as fault:
            self.workload.unreadable(self.name, log, position, str(fault))
            return
        self._positions[log.partition] = found.following
        now_us, records = self.workload.loop.now_us, tuple(found.records)
        self.workload.saw(TransactionRead(now_us, self.name, self.committed, log, position, found.following, records))


class TransactionScanner:
    """Reads every log with transactions to its end, once all of it and once at read_committed."""

    def __init__(self, transactions: Ledger) -> None:
        self.workload = transactions.workload
        self.peer = self.workload.peer("transaction scanner")

    async def is_stable(self, topic: KnownTopic, partition: int) -> bool:
        """True if no transaction is open: the last stable offset has reached the high watermark."""
        part = await self._fetch(topic, partition, 0, committed=True)
        return part is not None and part.last_stable_offset == part.high_watermark

    async def scan(self, topic: KnownTopic, partition: int) -> bool:
        """Read a log with transactions to its end; False if that failed and may be tried again."""
        start = await offset_of(self.peer, topic, partition, _EARLIEST)
        end = await offset_of(self.peer, topic, partition, _LATEST)
        if start is None or end is None:
            return False
        log = LogKey(topic.topic_id.hex(), partition)
        try:
            whole = await self._read(topic, partition, (start, end), committed=False)
            visible = await self._read(topic, partition, (start, end), committed=True)
        except CorruptRecords as fault:
            self.workload.saw(Unreadable(self.workload.loop.now_us, "scanner", log, str(fault)))
            return True
        if whole is None or visible is None:
            return False
        now_us = self.workload.loop.now_us
        records = tuple(visible.records)
        self.workload.saw(
            TransactionsScanned(now_us, log, start, end, visible.following, tuple(whole.batches), records)
        )
        return True

    async def _read(
        self, topic: KnownTopic, partition: int, bounds: tuple[int, int], *, committed: bool
    ) -> ReadRecords | None:
        start, end = bounds
        whole = ReadRecords([], [], start)
        while whole.following < end:
            part = await self._fetch(topic, partition, whole.following, committed=committed)
            if part is None or part.records is None or not len(part.records):
                return None
            found = parse(part.records, whole.following, part.aborted_transactions if committed else None)
            whole = ReadRecords(whole.records + found.records, whole.batches + found.batches, found.following)
        return whole

    async def _fetch(
        self, topic: KnownTopic, partition: int, position: int, *, committed: bool
    ) -> PartitionData | None:
        name = topic.plan.name
        peer = await self.peer.leader(name, partition)
        if peer is None:
            return None
        want = {TopicPartition(name, partition): WantedPartition(topic.topic_id, position, -1, _MOST)}
        request = fetch_request(SessionRequest(0, -1, want, {}), max_wait_ms=0, max_bytes=_MOST)
        request.isolation_level = int(committed)
        response = await peer.ask(request)
        if response is None or response.error_code or response.responses[0].partitions[0].error_code:
            self.peer.forget(name, partition)
            return None
        part: PartitionData = response.responses[0].partitions[0]
        return part
