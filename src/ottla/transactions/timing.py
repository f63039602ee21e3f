"""Deadlines of a transaction shard: open transactions, unused ids, completions that were refused.

Deadlines go by the monotonic clock, ages by the wall clock, as the log holds times of day. The wall clock tells the age
of an open transaction once; from then on its deadline is monotonic, and setting the clock does not move it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.kernel.retention import ExpiryRounds
from ottla.kernel.shards import Moment
from ottla.transactions.values import Transaction, TransactionSettings

_COMPLETE_AGAIN_MS = 100
_IDS_PER_EXPIRY = 200
_NEXT_SLICE_MS = 1


class ShardTiming:
    """The deadlines of one shard. None are set before `begin`."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._abort_at_ms: int | None = None
        self._expire_at_ms: int | None = None
        self._complete_at_ms: int | None = None
        self._ends_at_ms: dict[str, int] = {}
        """By transactional id, the deadline of its open transaction, for transactions that were looked at."""
        self._expiry = ExpiryRounds(_IDS_PER_EXPIRY)
        self.forgiven_ms = 0
        """The time in which the process stood still, which does not count for transactions that were open then."""

    def begin(self, now: Moment) -> None:
        self._abort_at_ms = now.mono_ms + self._settings.abort_check_ms
        self._expire_at_ms = now.mono_ms + self._settings.expiration_check_ms

    @property
    def next_ms(self) -> int | None:
        set_ones = [at for at in (self._abort_at_ms, self._expire_at_ms, self._complete_at_ms) if at is not None]
        return min(set_ones, default=None)

    def postpone(self, late_ms: int) -> None:
        self.forgiven_ms += late_ms

    # Completions

    def complete_soon(self, now: Moment) -> None:
        self._complete_at_ms = now.mono_ms + _COMPLETE_AGAIN_MS

    def completion_due(self, now: Moment) -> bool:
        due = self._complete_at_ms is not None and self._complete_at_ms <= now.mono_ms
        if due:
            self._complete_at_ms = None
        return due

    # Transactions that are open for too long

    def abort_due(self, now: Moment) -> bool:
        return self._abort_at_ms is not None and self._abort_at_ms <= now.mono_ms

    def is_late(self, transactional_id: str, transaction: Transaction, now: Moment) -> bool:
        """True if an open transaction has lasted for longer than its timeout.

        A start in the future, after the clock was set back, counts as now. Apache Kafka uses the wall clock alone:
        there such a transaction would hold readers back for as long as the clock was wrong.
        """
        ends_at_ms = self._ends_at_ms.get(transactional_id)
        if ends_at_ms is None:
            left_ms = transaction.started_ms + transaction.timeout_ms - now.time_for(transaction.timeout_ms)
            ends_at_ms = self._ends_at_ms[transactional_id] = now.mono_ms + min(left_ms, transaction.timeout_ms)
        return ends_at_ms < now.mono_ms - self.forgiven_ms

    def ended(self, transactional_id: str) -> None:
        """Note that no transaction of this id is open."""
        self._ends_at_ms.pop(transactional_id, None)

    def aborts_looked_for(self, now: Moment, *, again: bool) -> None:
        """Note the end of a look. Forgiven time counts for one look only: a transaction had that time to end."""
        if not again:
            self.forgiven_ms = 0
        self._abort_at_ms = now.mono_ms + (_NEXT_SLICE_MS if again else self._settings.abort_check_ms)

    # Unused ids

    def expiry_due(self, now: Moment) -> bool:
        return self._expire_at_ms is not None and self._expire_at_ms <= now.mono_ms

    def next_to_expire(self, ids: Iterable[str], now: Moment) -> list[str]:
        """The next ids of this round, or of a new one."""
        some = self._expiry.next_part(ids)
        again = self._expiry.is_under_way
        self._expire_at_ms = now.mono_ms + (_NEXT_SLICE_MS if again else self._settings.expiration_check_ms)
        return some
