"""Dead letters back to the topics that they came from, each once.

A story over the blocking client: read committed letters, produce what was chosen, and commit which letters were sent
in the same transaction. A run takes over from one that was killed, and ends one that still runs, by the transactional
id. Nothing is printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.errors import ClientError, TransactionMustAbort
from ottla.client.model import EARLIEST, LATEST, CommittedOffset, ConsumedRecord, IsolationLevel
from ottla.jobs.done import MOST_METADATA, Done, ForeignPosition, read_done
from ottla.jobs.letter_filter import Condition, all_hold
from ottla.jobs.letters import DeadLetter, UnreadableLetter, read_letter, redriven_headers
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

MOST_KINDS = 1_000
"""Kinds of reasons that are counted one by one."""
OTHER_KINDS = "other reasons"
_POLL_MS = 500
_REFUSALS = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
    }
)
"""Errors of a record, not of the topic: others may be taken."""


_NO_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


class RedriveRefused(ClientError):
    """The letters cannot be sent back as asked; the message names a remedy."""


@dataclass(frozen=True, slots=True)
class WantedLetters:
    """The letters to send, and where to."""

    topic: str
    """The dead letter topic."""
    group: str
    """Keeps which letters were sent; also the transactional id."""
    conditions: tuple[Condition, ...] = ()
    to: str | None = None
    """The topic to send to; None: the one that each letter came from."""
    same_partition: bool = False
    limit: int | None = None
    repeat: bool = False
    """True to send also the letters that were sent before."""
    dry: bool = False


class LetterKind(NamedTuple):
    """Letters that were refused for reasons of one kind."""

    topic: str
    stage: str
    reason: str


@dataclass(slots=True)
class RedriveReport:
    """The outcome so far."""

    read: int = 0
    """The letters that were read and had not been sent before."""
    sent_before: int = 0
    """The letters that earlier runs sent; below the first one that was not, all offsets count."""
    chosen: int = 0
    """The letters for which the conditions hold; none is read beyond the limit."""
    sent: int = 0
    kinds: Counter[LetterKind] = field(default_factory=Counter)
    """The chosen letters by origin and reason."""
    to: Counter[str] = field(default_factory=Counter)
    """The letters sent, or to be sent, by topic."""
    left: Counter[str] = field(default_factory=Counter)
    """The chosen letters that could not be sent, by the reason why."""

    def note(self, letter: DeadLetter) -> None:
        """Count a chosen letter."""
        kind = LetterKind(letter.cause.topic or "?", letter.cause.stage or "", letter.cause.kind)
        if kind not in self.kinds and len(self.kinds) >= MOST_KINDS:
            kind = LetterKind("", "", OTHER_KINDS)
        self.kinds[kind] += 1


class _Parcel(NamedTuple):
    """A chosen letter with its destination."""

    record: ConsumedRecord
    first: int
    """The first offset behind the record before it: what lies between holds no record."""
    letter: DeadLetter
    topic: str
    partition: int | None


class Redrive:
    """One run over one dead letter topic, from where the group stands to the topic's end at the beginning."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer | None,
        wanted: WantedLetters,
        show: Callable[[RedriveReport, int], None],
    ) -> None:
        """`producer` has the group's name as its transactional id; None for a dry run.

        `show` is called now and then with the report and the number of offsets to look at.
        """
        self._consumer = consumer
        self._producer = producer
        self._wanted = wanted
        self._show = show
        self._topic_id = b""
        self._done: dict[TopicPartition, Done] = {}
        self._seen: dict[TopicPartition, int] = {}
        """The last offset that was read; those between it and the next record hold no record."""
        self._partitions: dict[str, int | str] = {}
        """The number of partitions of each topic to send to, or why nothing can be sent there."""
        self._ready = 0
        """The letters that were sent, or are about to be; those that cannot be do not count against the limit."""
        self.report = RedriveReport()

    def run(self) -> RedriveReport:
        """Send the letters; RedriveRefused where the group or the topic cannot be used."""
        wanted, consumer = self._wanted, self._consumer
        if wanted.to == wanted.topic:
            raise RedriveRefused(f"--to {wanted.to} is the dead letter topic itself: name another topic")
        if wanted.to is not None:
            consumer.cluster.topic(wanted.to)
        view = consumer.cluster.topic(wanted.topic)
        self._topic_id = view.topic_id
        partitions = [TopicPartition(wanted.topic, index) for index in view.partitions]
        if self._producer is not None:
            self._producer.init_transactions()  # before the look at the group: it ends another run of the same group
        ends = consumer.cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        self._begin(partitions)
        consumer.assign(partitions)
        for partition, last in self._seen.items():
            consumer.seek(partition, last + 1)
        left = sum(max(0, ends[each].offset - self._seen[each] - 1) for each in partitions)
        offsets = left + self.report.sent_before
        while not self._is_full() and any(consumer.position(each) < ends[each].offset for each in partitions):
            records = consumer.poll(_POLL_MS)
            self._take([each for each in records if each.offset < ends[_place(each)].offset])
            self._show(self.report, offsets)
        return self.report

    def _is_full(self) -> bool:
        return self._wanted.limit is not None and self._ready >= self._wanted.limit

    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        """Read what was sent before, and where each partition begins."""
        wanted, cluster = self._wanted, self._consumer.cluster
        earliest = cluster.list_offsets(partitions, EARLIEST)
        committed = cluster.committed_offsets(wanted.group, partitions, require_stable=True)
        for partition in partitions:
            first, found = earliest[partition].offset, None
            if partition in committed:
                at = committed[partition]
                try:
                    found = read_done(at.offset, at.metadata, self._topic_id)
                except ForeignPosition as fault:
                    raise RedriveRefused(
                        f"group {wanted.group!r} cannot keep which letters of {partition} were sent: {fault}. Name "
                        "another one with --group"
                    ) from None
            done = found or Done(first)
            done.add(0, first - 1)  # deleted since
            if not wanted.repeat:
                self.report.sent_before += done.through - first
            self._done[partition] = done
            self._seen[partition] = (first if wanted.repeat else done.through) - 1

    def _take(self, records: Sequence[ConsumedRecord]) -> None:
        """Choose among records and send the chosen ones; what was not sent stays undone."""
        parcels: list[_Parcel] = []
        for record in records:
            if self._is_full():
                break
            place = _place(record)
            first, self._seen[place] = self._seen[place] + 1, record.offset
            if not self._wanted.repeat and record.offset in self._done[place]:
                self.report.sent_before += 1
                continue
            self.report.read += 1
            if (parcel := self._chosen(record, first)) is not None:
                parcels.append(parcel)
        if self._producer is not None:
            self._send(self._producer, parcels)
        else:
            self.report.to.update(parcel.topic for parcel in parcels)

    def _chosen(self, record: ConsumedRecord, first: int) -> _Parcel | None:
        """The letter with its destination; None where the conditions do not hold, or it cannot be sent."""
        try:
            letter = read_letter(record.headers)
        except UnreadableLetter as fault:
            self.report.chosen += 1
            self.report.left[str(fault)] += 1
            return None
        if not all_hold(self._wanted.conditions, letter, record.timestamp):
            return None
        self.report.chosen += 1
        self.report.note(letter)
        found = self._destination(letter)
        if isinstance(found, str):
            self.report.left[found] += 1
            return None
        self._ready += 1
        return _Parcel(record, first, letter, *found)

    def _destination(self, letter: DeadLetter) -> tuple[str, int | None] | str:
        """Topic and, where it matters, partition; a sentence why the letter cannot be sent."""
        wanted = self._wanted
        topic = wanted.to or letter.cause.topic
        if topic is None:
            return "no header says where it came from: name a topic with --to"
        if letter.shortened:
            return "only a part of the record is in the letter, as it was too large"
        if topic == wanted.topic:
            return "it came from the dead letter topic itself: name a topic with --to"
        count = self._partitions_of(topic)
        if isinstance(count, str):
            return count
        partition = letter.cause.partition if wanted.same_partition else None
        if wanted.same_partition and partition is None:
            return "no header says which partition it came from: leave --same-partition out"
        if partition is not None and partition >= count:
            return f"{topic} has no partition {partition}: leave --same-partition out"
        return topic, partition

    def _partitions_of(self, topic: str) -> int | str:
        if topic not in self._partitions:
            try:
                self._partitions[topic] = len(self._consumer.cluster.partitions(topic))
            except ApiError as fault:
                if fault.code not in _NO_TOPIC:
                    raise
                self._partitions[topic] = f"there is no topic {topic} any more: create it, or name another with --to"
        return self._partitions[topic]

    def _send(self, producer: Producer, parcels: Sequence[_Parcel]) -> None:
        """Send in one transaction with the note that they were; where the topic refuses a record, find that one."""
        if not parcels:
            return
        done = {_place(each.record): self._done[_place(each.record)].copy() for each in parcels}
        for each in parcels:
            done[_place(each.record)].add(each.first, each.record.offset)
        try:
            with producer.transaction():
                for each in parcels:
                    _produce(producer, each)
                producer.send_offsets_to_transaction(self._positions(done), self._wanted.group)
        except (ApiError, TransactionMustAbort) as fault:
            refusal = fault if isinstance(fault, ApiError) else fault.__cause__
            if not (isinstance(refusal, ApiError) and refusal.code in _REFUSALS):
                raise
            if len(parcels) == 1:
                self._ready -= 1
                self.report.left[f"{parcels[0].topic} refuses it: {refusal.code.message}"] += 1
                return
            middle = len(parcels) // 2
            self._send(producer, parcels[:middle])
            self._send(producer, parcels[middle:])
            return
        self._done.update(done)
        self.report.sent += len(parcels)
        self.report.to.update(each.topic for each in parcels)

    def _positions(self, done: dict[TopicPartition, Done]) -> dict[TopicPartition, CommittedOffset]:
        positions: dict[TopicPartition, CommittedOffset] = {}
        for partition, each in done.items():
            metadata = each.metadata(self._topic_id)
            if len(metadata) > MOST_METADATA:
                raise RedriveRefused(
                    f"{self.report.sent} letters were sent, and no more can be: those of {partition} that were sent "
                    f"lie so scattered that group {self._wanted.group!r} cannot keep which they were. Send those "
                    f"before offset {each.through + 1} too, with fewer conditions, and then the others"
                )
            positions[partition] = CommittedOffset(each.through, metadata)
        return positions


def _produce(producer: Producer, parcel: _Parcel) -> None:
    record, own_ms = parcel.record, parcel.letter.cause.timestamp
    timestamp = record.timestamp if own_ms is None else own_ms
    producer.produce(
        parcel.topic,
        record.value,
        record.key,
        partition=parcel.partition,
        headers=redriven_headers(parcel.letter),
        timestamp=timestamp if timestamp >= 0 else None,
    )


def _place(record: ConsumedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
