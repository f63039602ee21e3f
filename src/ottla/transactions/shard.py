"""The transactions of one partition of `__transaction_state`: decides about each request and each deadline.

broker/coordinators/shard_runner.py comes here with requests and carries decisions out: it appends their entries, hands
them back to `apply`, and lets replies and markers go once all that was appended before them is committed. Replay uses
the same `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.shards import Moment, Outcome, Ticket, coordinator_error
from ottla.messages.describe_transactions import TopicData
from ottla.messages.describe_transactions import TransactionState as Described
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.messages.list_transactions import TransactionState as Listed
from ottla.transactions import decisions, transitions
from ottla.transactions.decisions import ExpectedProducer
from ottla.transactions.entries import decode_entry, encode_entry, tombstone, transaction_entry, transaction_of
from ottla.transactions.timing import ShardTiming
from ottla.transactions.values import (
    GivenProducer,
    Markers,
    TakeId,
    Transaction,
    TransactionDecision,
    TransactionEntry,
    TransactionSettings,
    TransactionState,
)

_ABORTS_PER_CHECK = 200


class TransactionShard:
    """`take_id` gives a fresh producer id, or None where there is none at hand."""

    bears_damage = False
    """A transaction without its last state may be aborted although its client was told that it is committed."""
    lost_with_a_record = (
        "Transactions whose newest state this was are known by an older one: one that was to be committed may be "
        "aborted in some partitions. One that is not known stays open; `ottla transaction find-hanging` lists it"
    )

    def __init__(self, settings: TransactionSettings, take_id: TakeId) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._take_id = take_id
        self._ongoing: dict[str, None] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """By transactional id, the partitions that have not confirmed their markers."""
        self._timing = ShardTiming(settings)

    def finalized(self, transaction_version: int) -> None:
        """Take another level of transaction.version, which the cluster uses from now on."""
        self.settings = replace(self.settings, transaction_version=transaction_version)

    # Requests

    def init_producer_id(
        self, transactional_id: str, expected: ExpectedProducer | None, timeout_ms: int, ticket: Ticket, now: Moment
    ) -> TransactionDecision:
        """Answers a `GivenProducer`."""
        out = TransactionDecision()
        after = decisions.begin(
            self.transactions.get(transactional_id),
            expected,
            timeout_ms=timeout_ms,
            version=self.settings.transaction_version,
            take_id=self._take_id,
            now_ms=now.wall_ms,
        )
        if isinstance(after, ErrorCode):
            out.answer(ticket, GivenProducer(after))
        elif after.state == TransactionState.PREPARE_ABORT:
            self._prepare(transactional_id, after, now, out)
            out.answer(ticket, GivenProducer(ErrorCode.CONCURRENT_TRANSACTIONS))
        else:
            self._write(transactional_id, after, out)
            out.answer(ticket, GivenProducer(ErrorCode.NONE, after.producer_id, after.producer_epoch))
        return out

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        version: int,
        ticket: Ticket,
        now: Moment,
    ) -> TransactionDecision:
        """Answers an ErrorCode for all partitions."""
        out = TransactionDecision()
        current = self.transactions.get(transactional_id)
        after = decisions.add(current, producer_id, producer_epoch, partitions, version=version, now_ms=now.wall_ms)
        if isinstance(after, Transaction):
            self._write(transactional_id, after, out)
            after = ErrorCode.NONE
        out.answer(ticket, after)
        return out

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        ticket: Ticket,
    ) -> TransactionDecision:
        """Answers `Verified`, or an ErrorCode for all partitions."""
        out = TransactionDecision()
        current = self.transactions.get(transactional_id)
        out.answer(ticket, decisions.verify(current, producer_id, producer_epoch, partitions))
        return out

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        version: int,
        ticket: Ticket,
        now: Moment,
    ) -> TransactionDecision:
        """Answers a `GivenProducer` once the decision is committed, before any marker has left."""
        out = TransactionDecision()
        after = decisions.end(
            self.transactions.get(transactional_id),
            producer_id,
            producer_epoch,
            committed=committed,
            version=version,
            take_id=self._take_id,
            now_ms=now.wall_ms,
        )
        if isinstance(after, Transaction):
            self._prepare(transactional_id, after, now, out)
            after = GivenProducer(ErrorCode.NONE, *after.told)
        out.answer(ticket, after)
        return out

    def describe(self, transactional_id: str, ticket: Ticket) -> TransactionDecision:
        """Answers a DescribeTransactions state; of a transaction that ends, the partitions still without a marker."""
        out = TransactionDecision()
        current = self.transactions.get(transactional_id)
        described = Described(transactional_id=transactional_id)
        if current is None:
            described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        else:
            described.transaction_state = current.state.label
            described.transaction_timeout_ms = current.timeout_ms
            described.transaction_start_time_ms = current.started_ms
            described.producer_id, described.producer_epoch = current.producer_id, current.producer_epoch
            left = self._unmarked.get(transactional_id, current.partitions)
            topics: dict[str, TopicData] = {}
            for topic, index in sorted(left):
                topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
            described.topics = list(topics.values())
        out.answer(ticket, described)
        return out

    def list_transactions(
        self, request: ListTransactionsRequest, matches: Callable[[str], bool], ticket: Ticket, now: Moment
    ) -> TransactionDecision:
        """Answers the transactions that pass the request's filters and whose id `matches`."""
        out = TransactionDecision()
        states, producers = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        out.answer(
            ticket,
            [
                Listed(
                    transactional_id=transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.label,
                )
                for transactional_id, each in sorted(self.transactions.items())
                if (not states or each.state.label in states)
                and (not producers or each.producer_id in producers)
                and (request.duration_filter < 0 or now.wall_ms - each.started_ms > request.duration_filter)
                and matches(transactional_id)
            ],
        )
        return out

    # Markers

    def marked(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition, now: Moment
    ) -> TransactionDecision:
        """Note that a partition has its marker, or needs none any more; the last one completes the transaction.

        An answer to markers of an earlier transaction changes nothing.
        """
        out = TransactionDecision()
        current = self.transactions.get(transactional_id)
        left = self._unmarked.get(transactional_id)
        if current is None or left is None:
            return out
        if (current.producer_id, current.producer_epoch) != (producer_id, producer_epoch):
            return out
        left.discard(partition)
        if not left:
            self._complete([transactional_id], now, out)
        return out

    def _prepare(self, transactional_id: str, after: Transaction, now: Moment, out: TransactionDecision) -> None:
        """Markers leave once this is committed (rule D2); without partitions there is nothing to wait for."""
        self._write(transactional_id, after, out)
        if after.partitions:
            out.effects.append(_markers(transactional_id, after))
        else:
            done = transitions.completed(after, now.wall_ms)
            assert transitions.follows_on(after, done)
            out.write(transaction_entry(transactional_id, done, value_version=self._value_version))

    def _complete(self, transactional_ids: Iterable[str], now: Moment, out: TransactionDecision) -> None:
        for transactional_id in transactional_ids:
            self._write(transactional_id, transitions.completed(self.transactions[transactional_id], now.wall_ms), out)

    def _write(self, transactional_id: str, after: Transaction, out: TransactionDecision) -> None:
        assert transitions.follows_on(self.transactions.get(transactional_id), after), (transactional_id, after)
        out.write(transaction_entry(transactional_id, after, value_version=self._value_version))

    @property
    def _value_version(self) -> int:
        return 1 if self.settings.transaction_version else 0

    # The log

    def encode(self, entry: TransactionEntry) -> tuple[bytes, bytes | None]:
        return encode_entry(entry)

    def decode(self, key: bytes, value: bytes | None) -> TransactionEntry | None:
        """Decode a record; None if another release wrote it for itself, MalformedMessage if none can have."""
        return decode_entry(key, value)

    def owner(self, entry: TransactionEntry) -> str:
        """The transactional id that an entry is about."""
        return str(entry.key.transactional_id)

    def is_replaced(self, key: bytes) -> bool:
        """True for all: a value says everything about its transactional id."""
        return True

    def apply(self, entry: TransactionEntry, record_offset: int, producer: int = -1) -> None:
        """Take in one entry: appended a moment ago, or read back from the log."""
        transactional_id = entry.key.transactional_id
        self._ongoing.pop(transactional_id, None)
        self._unmarked.pop(transactional_id, None)
        if entry.value is None:
            self.transactions.pop(transactional_id, None)
            self._timing.ended(transactional_id)
            return
        transaction = self.transactions[transactional_id] = transaction_of(entry.value)
        if transaction.state == TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
            return
        self._timing.ended(transactional_id)
        if transaction.prepared:
            self._unmarked[transactional_id] = set(transaction.partitions)

    def apply_marker(self, producer: int, *, committed: bool) -> None:
        """Do nothing: no transaction has records in this log."""

    def loaded(self, now: Moment) -> TransactionDecision:
        """Send all markers of transactions that end again, as the log has been read to its end.

        The log does not tell which of them were written before; partitions take a repeat.
        """
        out = TransactionDecision()
        for transactional_id in self._unmarked:
            current = self.transactions[transactional_id]
            if current.partitions:
                out.effects.append(_markers(transactional_id, current))
        self._timing.begin(now)
        if any(not left for left in self._unmarked.values()):
            self._timing.complete_soon(now)
        return out

    def refused(self, decision: Outcome[TransactionEntry], error: ErrorCode, now: Moment) -> TransactionDecision:
        """Answer the requests of a decision whose entries were not written with the error.

        Completions are tried again, as no request asks for them; aborts of transactions that timed out come up again.
        """
        instead = TransactionDecision()
        for reply in decision.replies:
            instead.answer(reply.ticket, coordinator_error(error))
        if any(not left for left in self._unmarked.values()):
            self._timing.complete_soon(now)
        return instead

    def parked(self) -> list[Ticket]:
        """None: no request waits in this shard."""
        return []

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        """The next time at which `tick` has something to do, by the monotonic clock."""
        return self._timing.next_ms

    def postpone(self, late_ms: int) -> None:
        """Do not count the time in which the process stood still against open transactions."""
        self._timing.postpone(late_ms)

    def tick(self, now: Moment) -> TransactionDecision | None:
        """The decision for one deadline that has passed; None once none has. Call again after carrying it out."""
        out = TransactionDecision()
        if self._timing.completion_due(now):
            self._complete([each for each, left in self._unmarked.items() if not left], now, out)
        elif self._timing.abort_due(now):
            self._abort_late(now, out)
        elif self._timing.expiry_due(now):
            self._expire(now, out)
        else:
            return None
        return out

    def _abort_late(self, now: Moment, out: TransactionDecision) -> None:
        """Fence the owners of transactions that are open for longer than their timeout."""
        late = [each for each in self._ongoing if self._timing.is_late(each, self.transactions[each], now)]
        for transactional_id in late[:_ABORTS_PER_CHECK]:
            after = transitions.prepared(
                self.transactions[transactional_id],
                TransactionState.PREPARE_ABORT,
                version=self.settings.transaction_version,
                fences=True,
                take_id=self._take_id,
                now_ms=now.wall_ms,
            )
            if isinstance(after, Transaction):
                self._prepare(transactional_id, after, now, out)
        self._timing.aborts_looked_for(now, again=len(late) > _ABORTS_PER_CHECK)

    def _expire(self, now: Moment, out: TransactionDecision) -> None:
        """Forget transactional ids that were not used for long; the rest of a round follows at once."""
        time_ms = now.time_for(self.settings.id_expiration_ms)
        for transactional_id in self._timing.next_to_expire(self.transactions, now):
            current = self.transactions.get(transactional_id)
            if current is None or current.state not in transitions.BEFORE[TransactionState.DEAD]:
                continue
            if time_ms - current.updated_ms >= self.settings.id_expiration_ms:
                out.write(tombstone(transactional_id))


def _markers(transactional_id: str, transaction: Transaction) -> Markers:
    return Markers(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state == TransactionState.PREPARE_COMMIT,
        transaction.version,
        tuple(sorted(transaction.partitions)),
    )
